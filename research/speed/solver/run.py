"""The campaign: every case, every p, every rival, each finished cell stored at once."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

from research.common.isolation import Isolated, Stopped
from research.common.judge import (
    FusionProblem,
    Judge,
    dual_bound,
    into_ball,
    objective,
    relative_gap,
)
from research.common.machine import (
    cores,
    environment,
    identified,
    physical_memory,
    quiet,
    set_threads,
)
from research.common.store import Record, RecordStore, read_records
from research.common.tables import milliseconds
from research.rivals import solvers as rivals

from .banknotes import banknote_file, banknote_rows
from .benches import ReadBench, SolveBench
from .campaign import stages
from .extras import PathBench
from .measure import call_solve, judged, measure, repeated
from .problems import PAPER_P, Case, parse_p

REFERENCE_TOLERANCE = 1e-10  # a hundredth of the gap that is asked for: bounds count as exact
MEMORY_P = ("32/31", "2", "100")
MEMORY_ROWS = 100_000  # below this the scores are small beside the libraries themselves
MEMORY_SHARE = 0.8  # of main memory: a rival that wants more is stopped before the machine is
PAPER_PRECISIONS = (1e-2, 1e-3, 1e-4)  # of the paper's speed table, as are the p below
PAPER_SPEED_P = ("32/31", "8/7", "2", "100")
PATH_LEARNERS = 36  # the paper's number of scores of a face


def run(options: Namespace) -> None:
    """Measure what the store does not hold yet."""
    set_threads(options.threads)
    # Asked once: a commit that is made meanwhile must not pass for the one that was loaded.
    surroundings = environment(options.threads, rivals.PACKAGES)
    told = {"note": options.note} if options.note else {}
    if options.commit:
        told |= {"commit": options.commit, "uncommitted_changes": False}
    surroundings = identified({**surroundings, **told})
    opened = fresh_store if options.fresh else kept_store
    for name in options.rivals:
        _load(name, tell=True)
    with opened(options.out, surroundings) as store:
        start = time.perf_counter()
        asked = list(stages(options)) if options.campaign else [options]
        for k, stage in enumerate(asked):
            if options.stage and k not in options.stage:
                continue
            for case in cases(stage):
                Campaign(case, store, stage).run()
            print(f"after {(time.perf_counter() - start) / 60:.1f} minutes", flush=True)


@contextmanager
def kept_store(path: Path, surroundings: Record) -> Iterator[RecordStore]:
    """What is stored stays; what is measured is added."""
    yield RecordStore(path, surroundings)


@contextmanager
def fresh_store(path: Path, surroundings: Record) -> Iterator[RecordStore]:
    """A new file beside `path`, which takes its place at the end: all of it is of one commit.

    One that an interruption left goes on if it was measured in the same surroundings; otherwise it
    is begun anew.
    """
    begun = path.with_name(f"{path.stem}.fresh{path.suffix}")
    told = [r["id"] for r in read_records([begun]) if r["kind"] == "environment"]
    if told and told != [surroundings["id"]]:
        print(f"{begun} is of another commit or other packages: begun anew")
        begun.unlink()
    yield RecordStore(begun, surroundings)
    begun.replace(path)
    print(f"wrote {path}")


def cases(options: Namespace) -> Iterator[Case]:
    """Small n first, so that a rival that fails there can be spared the larger ones."""
    for n in sorted(options.n):
        for R in sorted(options.R):
            for setting in options.setting:
                yield Case(n, R, setting, options.seed)
    if "banknotes" in options.parts:
        if banknote_file() is None:
            print("LPFUSE_DATA is not set: synthetic scores of the same size replace banknotes")
        source = "banknotes" if banknote_file() else "banknotes stand-in"
        for setting in options.setting:
            yield Case(banknote_rows(setting), 4, setting, options.seed, source)


class Campaign:
    """All measurements of one case."""

    def __init__(self, case: Case, store: RecordStore, options: Namespace) -> None:
        self.case, self.store, self.options = case, store, options
        self.asked = {**asdict(case), "threads": options.threads}

    def run(self) -> None:
        parts = self.options.parts
        on_grid = self.case.source == "synthetic"
        if not on_grid:
            self.references()
            self.precisions()
            return
        if "grid" in parts:
            self.references()
            for rival in self.options.rivals:
                self.rival(rival)
        if "memory" in parts and self.case.n >= MEMORY_ROWS:
            self.reading()
            for rival in self.options.rivals:
                self.memory(rival)
        if "path" in parts and self.case.R == PATH_LEARNERS:
            self.path("path")
            self.path("least_squares")

    def references(self) -> None:
        """Our own α at a far tighter tolerance, its bound recomputed by the judge."""
        with self._isolated(SolveBench, rivals.OURS) as bench:
            for p in self.options.p:
                asked = {"kind": "reference", **self.asked, "p": p}
                if self._pending(asked):
                    self._record(asked, self._reference(bench, p))

    def rival(self, name: str) -> None:
        """Time one rival on every p of this case."""
        rival, gap = _load(name), self.options.gap
        if rival is None:
            return
        with self._isolated(SolveBench, name) as bench:
            for p in self.options.p:
                asked = {"kind": "solve", **self.asked, "p": p, "rival": name, "gap": gap}
                if not self._supports(rival, p) or not self._pending(asked):
                    continue
                outcome = self._spared(asked)
                judge = None if outcome else self._judge(p)
                if judge is not None:
                    given = self.options
                    limits = (gap, given.time_limit, given.repeats, given.once_from)
                    outcome = measure(bench, judge, p, rival.tolerances(gap), *limits)
                if outcome is not None:
                    self._record(asked, outcome)

    def memory(self, name: str) -> None:
        """Extra memory of accepted solves, each in a process of its own, apart from any timing."""
        for p in (p for p in MEMORY_P if p in self.options.p):
            asked = {"kind": "memory", **self.asked, "p": p, "rival": name}
            solved = self.store.find(**asked | {"kind": "solve", "gap": self.options.gap})
            if solved is None or solved["status"] != "accepted" or not self._pending(asked):
                continue
            inputs = (p, solved["tolerance"], self.options.time_limit)
            with self._isolated(SolveBench, name) as bench:
                extra = self._call(bench, "extra_memory", *inputs)
            size = 8 * self.case.n * self.case.R
            self._record(asked, {"extra_bytes": extra, "score_bytes": size})

    def reading(self) -> None:
        """How long one read of S takes, with one thread and with all of them."""
        asked = {"kind": "read", **self.asked}
        if self._pending(asked):
            set_threads(cores())
            with self._isolated(ReadBench, threads=cores()) as bench:
                one, every = (self._call(bench, "seconds", threads) for threads in (1, cores()))
            set_threads(self.options.threads)
            self._record(asked, {"one_thread": one, "all_threads": every, "all": cores()})

    def path(self, kind: str) -> None:
        """Nine p at once, for the hinge (``path``) or the squared loss (``least_squares``)."""
        asked = {"kind": kind, **self.asked, "gap": self.options.gap}
        if self._pending(asked):
            with self._isolated(PathBench) as bench:
                repeats = min(3, self.options.repeats)
                measured = self._call(bench, kind, list(PAPER_P), self.options.gap, repeats)
            self._record(asked, measured or {})

    def precisions(self) -> None:
        """The paper's speed table: Algorithm 1 at its own stops, cvxpy at its default, and ours."""
        ladder = {"algorithm1": PAPER_PRECISIONS, "cvxpy_clarabel": (1e-8,), rivals.OURS: (1e-8,)}
        for name in (name for name in ladder if name in self.options.rivals):
            if _load(name) is None:
                continue
            with self._isolated(SolveBench, name) as bench:
                for p in (p for p in PAPER_SPEED_P if p in self.options.p):
                    for tolerance in ladder[name]:
                        asked = {"kind": "precision", **self.asked, "p": p, "rival": name}
                        asked["tolerance_asked"] = tolerance
                        if self._judge(p) and self._pending(asked):
                            self._record(asked, self._at_precision(bench, p, tolerance))

    def _at_precision(self, bench: Isolated, p: str, tolerance: float) -> Record:
        judge, limit = self._judge(p), self.options.time_limit
        assert judge is not None
        try:
            first = call_solve(bench, p, tolerance, limit)
        except Stopped as stop:
            return {"status": stop.reason}
        most, once_from = self.options.repeats, self.options.once_from
        again = repeated(bench, p, tolerance, limit, first, most, once_from)
        return {"status": "finished", **judged(judge, first, tolerance), **again}

    def _reference(self, bench: Isolated, p: str) -> Record:
        try:
            found = call_solve(bench, p, REFERENCE_TOLERANCE, 10 * self.options.time_limit)
        except Stopped as stop:
            return {"status": stop.reason, "message": str(stop)}
        problem = self._problem(p)
        bound = dual_bound(problem, found.answer.alpha)
        value = objective(problem, into_ball(found.answer.weights, problem.p))
        gap = relative_gap(problem, value, bound)
        return {"status": "finished", "bound": bound, "value": value, "relative_gap": gap}

    def _judge(self, p: str) -> Judge | None:
        reference = self.store.find(kind="reference", **self.asked, p=p)
        if reference is None or reference["status"] != "finished":
            return None
        return Judge(self._problem(p), reference["bound"])

    def _problem(self, p: str) -> FusionProblem:
        return FusionProblem(*self._data, parse_p(p))

    @cached_property
    def _data(self) -> tuple[Any, Any]:
        return self.case.data()

    def _spared(self, asked: Record) -> Record | None:
        """A rival that ran out of time or memory on fewer rows is not tried on more."""
        same = {
            k: asked[k] for k in ("kind", "R", "setting", "source", "p", "rival", "gap", "threads")
        }
        for record in self.store.select(**same):
            if record["n"] < self.case.n and record["status"] in ("time", "memory"):
                kept = {name: record[name] for name in ("status", "time_limit")}
                return {**kept, "spared_since_n": record["n"]}
        return None

    def _pending(self, asked: Record) -> bool:
        """Not stored yet, to be redone, or stopped earlier by a shorter limit."""
        stored = self.store.find(**asked)
        if stored is None or self.options.redo:
            return True
        if "spared_since_n" in stored:  # until it is measured, and done in time, on fewer rows
            return self._spared(asked) is None
        return stored.get("status") == "time" and stored["time_limit"] < self.options.time_limit

    def _record(self, asked: Record, outcome: Record) -> None:
        record = {**asked, "time_limit": self.options.time_limit, **outcome}
        self.store.append(record)
        print(describe(record), flush=True)

    def _supports(self, rival: rivals.Rival, p: str) -> bool:
        """Asked on a small sibling, so that the scores need not be built to learn it."""
        return rival.supports(FusionProblem(*self.case.small().data(), parse_p(p)))

    def _isolated(self, bench: type, *arguments: Any, threads: int | None = None) -> Isolated:
        """On as many cores as there are threads: lpfuse asks for the cores that it may use."""
        limit = int(MEMORY_SHARE * physical_memory())
        inputs = (threads or self.options.threads, bench, *arguments, self.case)
        return Isolated(quiet, *inputs, memory_limit=limit)

    def _call(self, bench: Isolated, method: str, *arguments: Any) -> Any:
        """The result, or None when the process was stopped."""
        try:
            return bench.call(method, *arguments, limit=60 * self.options.time_limit)
        except Stopped as stop:
            print(f"  {method}: {stop}")
            return None


def _load(name: str, *, tell: bool = False) -> rivals.Rival | None:
    """None where a package is missing; `run` tells so once, at the start."""
    try:
        return rivals.load(name)
    except ImportError as error:
        if tell:
            print(f"{name}: left out, {error}")
        return None


def describe(record: Record) -> str:
    """One line a record, for whoever watches."""
    parts = [record["kind"], record["source"], f"{record['n']}×{record['R']}", record["setting"]]
    parts += [f"p={record['p']}"] if "p" in record else []
    parts += [str(record[name]) for name in ("rival", "status") if name in record]
    if "tolerance_asked" in record:
        parts.append(f"at {record['tolerance_asked']:.0e}")
    if record.get("extra_bytes") is not None:
        parts.append(f"extra {record['extra_bytes'] / record['score_bytes']:.0%} of S")
    for clock in ("seconds", "path_seconds", "all_threads"):
        if record.get(clock) is not None:
            parts.append(f"{milliseconds(record[clock])} ms")
    if record.get("relative_gap") is not None:
        parts.append(f"gap {record['relative_gap']:.1e}")
    return "  ".join(parts)
