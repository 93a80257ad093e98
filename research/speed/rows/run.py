"""The campaign: every cell in processes of its own, each finished one stored at once."""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from research.common.clock import race, ratio
from research.common.isolation import Isolated, Stopped
from research.common.machine import commit_of, environment, physical_memory, quiet, set_threads
from research.common.store import Record, RecordStore

from .benches import BudgetBench, GrowthBench, LargeBench, OneRowBench
from .data import Rows
from .methods import LABELS, METHODS, missing_methods
from .results import ASKED
from .samples import NAMES, SamplesBench
from .versions import NOW, VersionBench, source_in

PACKAGES = (
    "lpfuse", "numpy", "scipy", "scikit-learn", "pyod", "xgboost-cpu", "suod", "onnxruntime",
)  # fmt: skip
MEMORY_SHARE = 0.8  # of the machine's memory: a method that wants more is stopped, not the machine
CELL_LIMIT = 7200.0  # seconds; nothing here should come near it


def run(options: Namespace) -> None:
    """Measure what the store does not hold yet."""
    set_threads(1)
    campaign = Campaign(options, RecordStore(options.out, environment(1, PACKAGES), ASKED))
    for part in options.parts:
        PARTS[part](campaign)
    print(f"stored in {options.out}")


class Campaign:
    """What was asked for, and where answers are kept."""

    def __init__(self, options: Namespace, store: RecordStore) -> None:
        self.options, self.store = options, store

    def cells(self, kind: str, sizes: list[int], labels: list[int], d: int) -> Iterator[Rows]:
        """Rows of every cell that has to be measured, small ones first."""
        for n, some in product(sorted(sizes), labels):
            rows = Rows(n, d, some, self.options.seed)
            if self.options.redo or self.store.find(**asked_of(kind, rows)) is None:
                yield rows

    def measure(self, kind: str, rows: Rows, bench: type, *arguments: Any, **inputs: Any) -> None:
        """What a bench in a process of its own says, or why it did not."""
        with self.isolated(bench, *arguments) as isolated:
            try:
                found = isolated.call("run", *inputs.values(), limit=CELL_LIMIT)
                self.keep(kind, rows, {"status": "finished", **found})
            except Stopped as stop:
                self.keep(kind, rows, {"status": stop.reason, "message": str(stop)})

    def isolated(self, bench: type, *arguments: Any) -> Isolated:
        limit = int(MEMORY_SHARE * physical_memory())
        return Isolated(quiet, 1, bench, *arguments, memory_limit=limit)

    def keep(self, kind: str, rows: Rows, found: Record) -> None:
        record = {**asked_of(kind, rows), **found}
        self.store.append(record)
        print(describe(record), flush=True)


def asked_of(kind: str, rows: Rows) -> Record:
    """How the store knows a cell."""
    return {
        "kind": kind, "n": rows.n, "d": rows.d, "labels": rows.labels, "seed": rows.seed,
        "threads": 1,
    }  # fmt: skip


# ------------------------------------------------------------------------------------------- parts


def budget(campaign: Campaign) -> None:
    """A fit in units of its members."""
    o = campaign.options
    for rows in campaign.cells("budget", o.budget_n, o.labels, o.columns):
        sizes = (o.predicted, o.single)
        campaign.measure("budget", rows, BudgetBench, rows, *sizes, repeats=o.repeats)


def one_row(campaign: Campaign) -> None:
    """Latency in Python and in ONNX."""
    o = campaign.options
    for rows in campaign.cells("one-row", o.row_n, o.row_labels, o.columns):
        campaign.measure("one-row", rows, OneRowBench, rows, o.single)


def large(campaign: Campaign) -> None:
    """Time and memory of many rows, in a fresh process each."""
    o = campaign.options
    for rows in campaign.cells("large", o.large_n, o.row_labels, o.growth_columns):
        campaign.measure("large", rows, LargeBench, rows, o.predicted)


def growth(campaign: Campaign) -> None:
    """All methods on the same rows, taking turns; one that was stopped is not tried on more."""
    o = campaign.options
    missing = missing_methods()
    # Each method has labels of its own: the cell is known by none.
    for rows in campaign.cells("growth", o.growth_n, [0], o.growth_columns):
        smaller = [r for r in campaign.store.select(kind="growth", d=rows.d) if r["n"] < rows.n]
        out = {name for r in smaller for name in r["stopped"]} | set(missing)
        names = [name for name in METHODS if name not in out]
        with campaign.isolated(GrowthBench, rows, o.predicted) as bench:
            found = growth_turns(bench, names, o.time_limit, o.repeats)
        facts = {
            "predicted": o.predicted,
            "time_limit": o.time_limit,
            "labels_given": LABELS,
            "missing": missing,
        }
        campaign.keep("growth", rows, {"status": "finished", **found, **facts})


def growth_turns(bench: Isolated, names: list[str], limit: float, most: int) -> Record:
    """Seconds of fits and scorings by method, and why some were stopped.

    A stopped method takes the process with it; the next call starts a fresh one.
    """
    stopped: dict[str, str] = {}
    scored: dict[str, list[float]] = {name: [] for name in names}

    def turn(name: str) -> tuple[float, bool]:
        try:
            found = bench.call("turn", name, limit=limit)
        except Stopped as stop:
            stopped[name] = stop.reason if stop.reason != "error" else str(stop)
            return math.inf, False
        scored[name].append(found["predict_seconds"])
        return found["fit_seconds"], True

    actions = {name: partial(turn, name) for name in names}
    samples = race(actions, lambda finished: finished, most, timer=lambda action: action())
    fits = {name: [s for s in found if math.isfinite(s)] for name, found in samples.items()}
    scorings = {name: found for name, found in scored.items() if found}
    return {"fit_seconds": fits, "predict_seconds": scorings, "stopped": stopped}


def samples(campaign: Campaign) -> None:
    """What learning from samples costs in AUC."""
    o = campaign.options
    seeds = range(o.seed, o.seed + o.samples_seeds)
    for n, family, seed in product(o.samples_n, NAMES, seeds):
        asked = {"kind": "samples", "n": n, "labels": 0, "seed": seed, "threads": 1}
        asked["family"] = family
        if not o.redo and campaign.store.find(**asked) is not None:
            continue
        with campaign.isolated(SamplesBench, family, n, o.predicted, seed) as bench:
            found = bench.call("run", limit=CELL_LIMIT)
        campaign.store.append({**asked, "status": "finished", **found})
        told = ", ".join(f"{name} {value:.2f}" for name, value in found["auc"].items())
        print(f"samples  n={n}  {family}  seed={seed}  AUC: {told}", flush=True)


def before(campaign: Campaign) -> None:
    """This version and an earlier one, taking turns."""
    o = campaign.options
    if o.before is None:
        print("before is left out: --before names the folder of another version")
        return
    sources = {"now": NOW, "before": source_in(o.before)}
    commit = commit_of(sources["before"])
    cells = [Rows(n, o.columns, labels, o.seed) for n, labels in o.before_cells]
    for rows in cells:
        stored = campaign.store.find(**asked_of("before", rows), before_commit=commit) or {}
        if o.redo or stored.get("status") != "finished":
            found = compared(campaign, rows, sources)
            campaign.keep("before", rows, {**found, "before_commit": commit})


def compared(campaign: Campaign, rows: Rows, sources: dict[str, Path]) -> Record:
    """Seconds of fits, scorings and single rows by version."""
    o = campaign.options
    with ExitStack() as stack:
        benches = {
            name: stack.enter_context(
                campaign.isolated(VersionBench, source, rows, o.predicted, o.single)
            )
            for name, source in sources.items()
        }
        try:
            found = {
                "fit_seconds": version_turns(benches, "fit", o.repeats),
                "predict_seconds": version_turns(benches, "predict", o.repeats),
                "row_seconds": version_turns(benches, "row", min(3, o.repeats)),
            }
        except Stopped as stop:
            return {"status": stop.reason, "message": str(stop)}
    return {"status": "finished", **found, "predicted": o.predicted}


def version_turns(benches: dict[str, Isolated], method: str, most: int) -> Record:
    """Seconds that each version says it took, round by round."""

    def turn(bench: Isolated) -> tuple[float, bool]:
        return bench.call(method, limit=CELL_LIMIT), True

    actions = {name: partial(turn, bench) for name, bench in benches.items()}
    return race(actions, lambda finished: finished, most, timer=lambda action: action())


PARTS: dict[str, Callable[[Campaign], None]] = {
    "budget": budget,
    "growth": growth,
    "one-row": one_row,
    "before": before,
    "large": large,
    "samples": samples,
}


def describe(record: Record) -> str:
    """One line a record, for whoever watches."""
    parts = [record["kind"], f"n={record['n']}", f"labels={record['labels']}", record["status"]]
    if record["status"] != "finished":
        return "  ".join([*parts, record["message"]])
    for clock in ("fit_seconds", "predict_seconds"):
        found = record.get(clock)
        if isinstance(found, dict):
            times = [f"{name} {median(samples):.3g} s" for name, samples in found.items()]
            parts.append(f"{clock[:-8]}: {', '.join(times)}")
        elif found is not None:
            parts.append(f"{clock[:-8]}: {found:.3g} s")
    if record["kind"] == "before":
        parts.append(f"fits: {ratio(record['fit_seconds'], 'before', 'now'):.2f}×")
    if record.get("stopped"):
        parts.append(f"stopped: {record['stopped']}")
    if record["kind"] == "one-row":
        rows = {name: 1e3 * q["p50"] for name, q in record["row_seconds"].items()}
        parts += [f"{name} {value:.3g} ms" for name, value in rows.items()]
    if "peak_bytes" in record:
        parts.append(f"peak {record['peak_bytes'] / 2**20:.0f} MiB")
    return "  ".join(parts)
