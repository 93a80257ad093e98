"""Rows whose time lies before that of the row above them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse._format import quote
from lpfuse.frames.cells import NO_DATE, ORDERS, days_of, is_text, polars_module, read_moments
from lpfuse.watch._batch import BACKWARDS, LACKS, NO_TIME, Note, Rows

if TYPE_CHECKING:
    import polars

NUMBER = "number"  # as the order: seconds, or whatever grows
MOSTLY = 0.5  # of the first rows that must be read for an order to be believed


class Clock:
    """Leave out rows that step back in time.

    A row is compared with the row before it, not with the latest time of all: were one clock wrong
    by a century, all rows after it would be lost.

    Parameters
    ----------
    column : str
        Of times, dates with times, or numbers.
    """

    def __init__(self, column: str) -> None:
        self.column = column
        self.order: str | None = None
        self.last: float | None = None

    def state(self) -> dict[str, Any]:
        """What `restore` takes up again, in terms of JSON."""
        return {"order": self.order, "last": self.last}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on after a row that was seen before."""
        self.order, self.last = state["order"], state["last"]

    def checked(self, rows: Rows) -> Rows:
        """The rows without those that step back, or whose time cannot be read."""
        frame, numbers, notes = rows
        if not frame.height:
            return rows
        if self.column not in frame.columns:
            lost = [Note(LACKS, int(row), quote(self.column)) for row in numbers]
            return Rows(frame.clear(), numbers[:0], notes + lost)
        times = self._times(frame[self.column])
        known = ~np.isnan(times)
        there = times[known]
        before = np.append(np.nan if self.last is None else self.last, there[:-1])
        back = np.zeros(len(times), bool)
        back[known] = there < before
        if len(there):
            self.last = float(there[-1])
        lost = [
            Note(
                NO_TIME if not known[k] else BACKWARDS, int(numbers[k]), str(frame[self.column][k])
            )
            for k in np.flatnonzero(~known | back).tolist()
        ]
        good = known & ~back
        if good.all():
            return rows
        return Rows(frame.filter(polars_module().Series(good)), numbers[good], notes + lost)

    def _times(self, column: polars.Series) -> Host:
        """Times as numbers that grow; NaN where they cannot be read."""
        if self.order is None:
            for order in (NUMBER, *ORDERS, NO_DATE):
                found = _read(column, order)
                if np.isfinite(found).mean() > MOSTLY:
                    self.order = order
                    break
        return np.full(len(column), np.nan) if self.order is None else _read(column, self.order)


def _read(column: polars.Series, order: str) -> Host:
    pl = polars_module()
    if order == NUMBER:
        if not (is_text(column) or column.dtype.is_numeric()):
            return np.full(len(column), np.nan)
        found = column.cast(pl.String).cast(pl.Float64, strict=False).fill_null(np.nan)
        numbers = np.array(found, dtype=np.float64)
        return np.where(np.isfinite(numbers), numbers, np.nan)
    return days_of(read_moments(column, order)[0])
