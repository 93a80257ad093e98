"""Stored results as the tables ask for them: selected, paired with ours, and turned into ratios."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from research.common.store import Record, read_document, read_records
from research.common.tables import commit_name
from research.rivals.solvers import OURS
from research.speed.records import Records

SAME_PROBLEM = ("source", "n", "R", "setting", "seed", "p", "threads", "gap")


@dataclass(frozen=True)
class Ratio:
    """A rival's time over ours; a lower bound when the rival was stopped at its limit."""

    value: float
    is_bound: bool


class Results(Records):
    """Records of one thread count, the stress summary and the environments behind them."""

    def __init__(self, records: Iterable[Record], stress: Record | None = None) -> None:
        super().__init__(records, same_threads=True)
        self.stress = stress
        self.commits = self._commits()
        self._ours = {_problem_key(r): r for r in self.select("solve", rival=OURS)}

    @classmethod
    def load(cls, paths: Sequence[Path]) -> Results:
        """From files or folders of them: ``.jsonl`` of runs, ``.json`` of the stress suite."""
        files = [f for path in paths for f in (sorted(path.iterdir()) if path.is_dir() else [path])]
        stress = [read_document(f) for f in files if f.suffix == ".json"]
        runs = read_records(f for f in files if f.suffix == ".jsonl")
        return cls(runs, stress[-1] if stress else None)

    def _commits(self) -> dict[str, int]:
        """How many records are of each commit, the stress suite being one; most first."""
        measured = [self.environments[r["environment"]] for r in self.records if "environment" in r]
        measured += [self.stress["environment"]] if self.stress else []
        return dict(Counter(commit_name(found) for found in measured).most_common())

    def ours(self, **fields: Any) -> list[Record]:
        """Our accepted solves on the grid."""
        found = self.select("solve", rival=OURS, source="synthetic", **fields)
        return [record for record in found if record["status"] == "accepted"]

    def ratio(self, rival: Record, clock: str = "seconds") -> Ratio | None:
        """None where either side has no time to the gap. ``clock`` may be "solver_seconds"."""
        ours = self._ours.get(_problem_key(rival))
        if ours is None or ours["status"] != "accepted":
            return None
        if rival["status"] == "accepted" and rival[clock] is not None:
            return Ratio(rival[clock] / ours["seconds"], is_bound=False)
        if rival["status"] == "time":
            return Ratio(rival["time_limit"] / ours["seconds"], is_bound=True)
        return None

    def ratios(self, records: Iterable[Record], clock: str = "seconds") -> list[Ratio]:
        return [found for r in records if (found := self.ratio(r, clock)) is not None]

    def over_algorithm_one(self) -> dict[str, float]:
        """Its time to each of the paper's precisions over ours, by setting, p and precision."""
        found = [r for r in self.select("precision") if "seconds" in r]
        ours = {(r["source"], r["setting"], r["p"]): r for r in found if r["rival"] == OURS}
        ratios = {}
        for theirs in (r for r in found if r["rival"] == "algorithm1"):
            mine = ours.get((theirs["source"], theirs["setting"], theirs["p"]))
            if mine is not None:
                where = f"{theirs['setting']}, p = {theirs['p']}, {theirs['tolerance_asked']:.0e}"
                ratios[where] = theirs["seconds"] / mine["seconds"]
        return ratios

    def most_p(self, rival: str) -> int:
        """At how many p a rival was asked where it was asked most."""
        asked = self.select("solve", rival=rival, source="synthetic")
        return max(Counter((r["n"], r["R"], r["setting"]) for r in asked).values(), default=0)

    def groups(self) -> Iterator[tuple[int, int, str]]:
        """Every n, R and setting of the grid."""
        yield from sorted({(r["n"], r["R"], r["setting"]) for r in self.ours()})

    def reads(self, record: Record) -> float | None:
        """A time of ours in reads of S, both with the same number of threads."""
        same = {name: record[name] for name in ("n", "R", "setting", "seed", "source")}
        for read in self.select("read", **same):
            unit = read["one_thread"] if self.threads == 1 else read["all_threads"]
            return float(record["seconds"] / unit) if unit else None
        return None


def _problem_key(record: Record) -> tuple[Any, ...]:
    return tuple(record.get(name) for name in SAME_PROBLEM)
