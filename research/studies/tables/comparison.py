"""What stored rows tell: means over tables, paired differences, and how often much is lost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from lpfuse._arrays.operations import Host
from research.common.statistics import Interval
from research.common.store import Record, read_records
from research.studies.tables.splits import Half, Mode
from research.studies.tables.study import ASKED

DRAWS = 2000  # of the bootstrap
MUCH = 5.0  # points of AUC that nobody should lose on a table

Place = tuple[Half, Mode, int]  # half, mode, labelled anomalies


def read_tables(paths: Iterable[Path]) -> list[Record]:
    """The rows of these files, the latest of each question."""
    return [row for row in read_records(paths, ASKED) if row["kind"] == "auc"]


class TableFigures:
    """AUC of each method on each table, in per cent, as means over seeds.

    Examples
    --------
    >>> row = {"half": "choose", "mode": "seen", "labels": 5, "family": "odd", "seconds": 0.1}
    >>> rows = [row | {"table": t, "method": "sum", "auc": 80.0 + t} for t in (0, 4)]
    >>> TableFigures(rows).mean(("choose", "seen", 5), "sum")
    82.0
    """

    def __init__(self, rows: Iterable[Record], families: Sequence[str] = ()) -> None:
        rows = [row for row in rows if not families or row["family"] in families]
        self._values: dict[tuple[Place, str], dict[str, list[float]]] = {}
        self._seconds: dict[tuple[int, str], list[float]] = {}
        for row in rows:
            place = row["half"], row["mode"], row["labels"]
            of_method = self._values.setdefault((place, row["method"]), {})
            of_method.setdefault(row["table"], []).append(row["auc"])
            self._seconds.setdefault((row["labels"], row["method"]), []).append(row["seconds"])
        self.methods = list(dict.fromkeys(row["method"] for row in rows))
        self.tables = sorted({row["table"] for row in rows})
        self.seeds = len({row["seed"] for row in rows if "seed" in row})

    def of(self, place: Place, method: str) -> dict[str, float]:
        """Table → AUC; empty where nothing was measured."""
        found = self._values.get((place, method), {})
        return {table: float(np.mean(values)) for table, values in sorted(found.items())}

    def count(self, place: Place) -> int:
        """Tables on which anything was measured."""
        return len({table for method in self.methods for table in self.of(place, method)})

    def mean(self, place: Place, method: str) -> float | None:
        """Over the tables on which the method was measured; None without any."""
        values = list(self.of(place, method).values())
        return float(np.mean(values)) if values else None

    def seconds(self, labels: int, method: str) -> float | None:
        """Mean seconds of the processor for one fit."""
        found = self._seconds.get((labels, method))
        return float(np.mean(found)) if found else None

    def gains(self, place: Place, method: str, reference: str) -> Host:
        """Method − reference, on the tables that both were measured on."""
        ours, theirs = self.of(place, method), self.of(place, reference)
        return np.array([ours[table] - theirs[table] for table in ours if table in theirs])

    def losses(self, place: Place, method: str, controls: Sequence[str]) -> Host:
        """Points lost to the best control, on the tables that any was measured on; at least 0."""
        ours = self.of(place, method)
        theirs = [self.of(place, control) for control in controls if control != method]
        lost = [
            max(0.0, *(found[table] - value for found in theirs if table in found))
            for table, value in ours.items()
            if any(table in found for found in theirs)
        ]
        return np.array(lost)

    def hindsight(self, place: Place, methods: Sequence[str]) -> float | None:
        """Mean of the best of these methods on each table, of those measured on every table."""
        found = [self.of(place, method) for method in methods]
        found = [values for values in found if len(values) == self.count(place) > 0]
        if len(found) < 2:
            return None
        return float(np.max([list(values.values()) for values in found], axis=0).mean())


def bootstrapped(gains: Host, *, draws: int = DRAWS, seed: int = 0) -> Interval:
    """A mean with the 95 % interval of the percentile bootstrap over tables.

    Not Student's, as elsewhere, for gains on tables have heavy tails; with 150 of them the
    percentiles cover as they should.

    Examples
    --------
    >>> bootstrapped(np.repeat([-1.0, 3.0], 60))
    Interval(mean=1.0, low=0.6..., high=1.3...)
    """
    drawn = np.random.default_rng(seed).integers(len(gains), size=(draws, len(gains)))
    low, high = np.percentile(gains[drawn].mean(axis=1), [2.5, 97.5])
    return Interval(float(gains.mean()), float(low), float(high))
