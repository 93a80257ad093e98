"""Stored records as the page asks for them, and the power laws through them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from research.common.clock import ratio
from research.common.store import Record, read_records
from research.speed.records import Records
from research.speed.scaling.growth import PowerLaw

from .methods import METHODS, OURS

# What a cell is known by: all other fields of a record are what came out.
ASKED = ("kind", "n", "d", "labels", "seed", "threads", "before_commit", "family")
# Rows from which costs are those of rows: below, a fit of lpfuse is calibrated in parts, and what
# a method does once whatever the rows weighs more.
LARGE = 2_000


class Results(Records):
    """Finished and failed records, and the environments behind them."""

    def __init__(self, records: Iterable[Record]) -> None:
        super().__init__(records)
        self.failed = [r for r in self.records if r["status"] != "finished"]
        self.records = [r for r in self.records if r["status"] == "finished"]

    @classmethod
    def load(cls, paths: Sequence[Path]) -> Results:
        return cls(read_records(paths, ASKED))

    def select(self, kind: str, **fields: Any) -> list[Record]:
        """Records of a kind whose fields agree with these, few rows and labels first."""
        return sorted(super().select(kind, **fields), key=lambda r: (r["n"], r["labels"]))

    def methods(self) -> list[str]:
        """Those with a time at any size, in the order of the code."""
        timed = {name for r in self.select("growth") for name in r["fit_seconds"]}
        return [name for name in METHODS if name in timed]

    def times(self, method: str, clock: str) -> dict[int, float]:
        """Median seconds by number of rows."""
        return {
            r["n"]: median(r[clock][method]) for r in self.select("growth") if method in r[clock]
        }

    def law(self, method: str, clock: str) -> PowerLaw | None:
        """The power law through medians from `LARGE` rows on; None where they are few."""
        times = {n: s for n, s in self.times(method, clock).items() if n >= LARGE}
        try:
            return PowerLaw.fitted(list(times), None, list(times.values()))
        except ValueError:
            return None


def whole(samples: Mapping[str, list[float]]) -> float:
    """Median seconds of lpfuse as a whole."""
    return median(samples[OURS])


def members_once(samples: Mapping[str, list[float]]) -> float:
    """Seconds of all members of the pool, each once."""
    return sum(median(found) for name, found in samples.items() if name != OURS)


def speed_up(record: Record, clock: str) -> float:
    """How many times as long the earlier version takes, by rounds that both ran in."""
    found = ratio(record[clock], "before", "now")
    assert found is not None  # a finished comparison has both
    return found
