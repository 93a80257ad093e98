"""What stored rows tell: means over tables, paired differences, and how often much is lost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from lpfuse._arrays.operations import Host
from research.common.store import Record, read_records
from research.studies.figures import Place, SetFigures
from research.studies.tables.study import ASKED

MUCH = 5.0  # points of AUC that nobody should lose on a table


def read_tables(paths: Iterable[Path]) -> list[Record]:
    """The rows of these files, the latest of each question."""
    return [row for row in read_records(paths, ASKED) if row["kind"] == "auc"]


class TableFigures(SetFigures):
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
        super().__init__(rows, ("half", "mode", "labels"), "table")
        self._seconds: dict[tuple[int, str], list[float]] = {}
        for row in rows:
            self._seconds.setdefault((row["labels"], row["method"]), []).append(row["seconds"])

    def seconds(self, labels: int, method: str) -> float | None:
        """Mean seconds of the processor for one fit."""
        found = self._seconds.get((labels, method))
        return float(np.mean(found)) if found else None

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
