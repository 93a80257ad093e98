"""Stored rows as figures: of each method on each set, as means over seeds, paired by set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from lpfuse._arrays.operations import Host
from research.common.store import Record

Place = tuple[Any, ...]  # where on a page: what was asked beside set, seed and method


class SetFigures:
    """What came out for each method on each set, at each place.

    Parameters
    ----------
    rows : iterable of dict
        Stored rows.
    place : sequence of str
        The fields that tell one place from another.
    of_set : str
        The field that tells sets apart.

    Examples
    --------
    >>> rows = [{"at": 5, "set": s, "method": "sum", "auc": 80.0 + s, "seed": 0} for s in (0, 4)]
    >>> SetFigures(rows, ["at"]).mean((5,), "sum")
    82.0
    """

    def __init__(self, rows: Iterable[Record], place: Sequence[str], of_set: str = "set") -> None:
        rows = list(rows)
        self._rows: dict[tuple[Place, str], dict[str, list[Record]]] = {}
        for row in rows:
            of_method = self._rows.setdefault(
                (tuple(row[name] for name in place), row["method"]), {}
            )
            of_method.setdefault(row[of_set], []).append(row)
        self.methods = list(dict.fromkeys(row["method"] for row in rows))
        self.sets = sorted({row[of_set] for row in rows})
        self.seeds = len({row["seed"] for row in rows if "seed" in row})

    def of(self, place: Place, method: str, field: str = "auc") -> dict[str, float]:
        """Set → figure; empty where nothing was measured."""
        found = {
            name: [row[field] for row in rows if row.get(field) is not None]
            for name, rows in self._rows.get((place, method), {}).items()
        }
        return {name: float(np.mean(found[name])) for name in sorted(found) if found[name]}

    def count(self, place: Place) -> int:
        """Sets on which anything was measured."""
        return len({name for method in self.methods for name in self.of(place, method)})

    def mean(self, place: Place, method: str, field: str = "auc") -> float | None:
        """Over the sets on which the method was measured; None without any."""
        values = list(self.of(place, method, field).values())
        return float(np.mean(values)) if values else None

    def gains(self, place: Place, method: str, reference: str, before: Place | None = None) -> Host:
        """Method − reference, on the sets that both were measured on.

        The reference is looked up at the place `before`, by default at the same.
        """
        ours, theirs = self.of(place, method), self.of(before or place, reference)
        return np.array([ours[name] - theirs[name] for name in ours if name in theirs])
