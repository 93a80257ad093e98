"""Columns of times: how they are written, and the seconds that they tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse._format import number, quote
from lpfuse._validation.params import counted
from lpfuse.frames.cells import NO_DATE, ORDERS, days_of, is_text, polars_module, read_moments

if TYPE_CHECKING:
    import polars

NUMBER = "number"  # as the order of a time column: seconds, or any growing numbers
ANY_ORDER = (NUMBER, *ORDERS, NO_DATE)
READ_SHARE = 0.5  # of the first rows that an order must read to be chosen; by hand
DAY, HOUR = 86_400.0, 3_600.0


def order_of_times(column: polars.Series, orders: Sequence[str] = ANY_ORDER) -> str | None:
    """Return the first order that reads most of the times; None where none does.

    Examples
    --------
    >>> import polars as pl
    >>> order_of_times(pl.Series(["28.02.2024 12:30"])), order_of_times(pl.Series(["17", "18"]))
    ('%d.%m.%Y', 'number')
    """
    if column.dtype == polars_module().Time:
        return NO_DATE if NO_DATE in orders else None
    for order in orders:
        if np.isfinite(read_times(column, order)).mean() > READ_SHARE:
            return order
    return None


def read_times(column: polars.Series, order: str) -> Host:
    """Return times as growing numbers, days of dates; NaN where one cannot be read."""
    pl = polars_module()
    if order == NUMBER:
        if not (is_text(column) or column.dtype.is_numeric()):
            return np.full(len(column), np.nan)
        found = column.cast(pl.String).cast(pl.Float64, strict=False).fill_null(np.nan)
        numbers = np.array(found, dtype=np.float64)
        return np.where(np.isfinite(numbers), numbers, np.nan)
    return days_of(read_moments(column, order)[0])


class TimeReader:
    """Read the times of consecutive rows in seconds.

    Where a local clock is set back an hour in autumn, its times are read as an hour more from then
    on, until it is set forward: a step of an hour back, less about a step between rows.

    Parameters
    ----------
    order : str, optional
        How times are written; None: as the first rows are.
    step : float, default=0
        Usual seconds between rows; 0: no hour is looked for.
    """

    def __init__(self, order: str | None = None, step: float = 0.0) -> None:
        self.order, self.step = order, step
        self.last: float | None = None  # of the row before, as it is written
        self.shift = 0.0

    def seconds(self, column: polars.Series) -> Host:
        """Return the seconds of the next rows; NaN where a time cannot be read."""
        self.order = self.order or order_of_times(column)
        if self.order is None or not len(column):
            return np.full(len(column), np.nan)
        found = read_times(column, self.order)
        if self.order == NUMBER:
            return found
        found = np.round(DAY * found, 6)
        known = np.flatnonzero(np.isfinite(found))
        if not len(known):
            return found
        written = found[known]
        steps = np.diff(written, prepend=written[0] if self.last is None else self.last)
        self.last = float(written[-1])
        shifts = np.full(len(written), self.shift)
        for k in np.flatnonzero((steps < 0) | (steps >= HOUR)).tolist():
            back = steps[k] + HOUR if self.shift == 0 else HOUR - steps[k]
            rest = back if self.shift == 0 else -back
            if self.step and 0 <= rest <= 2 * self.step:
                self.shift = HOUR - self.shift
                shifts[k:] = self.shift
        found[known] = written + shifts
        return found


def times_of_training(column: polars.Series) -> tuple[Host, str]:
    """Return the seconds of training rows, checked, and how their times are written."""
    name, order = quote(column.name), order_of_times(column)
    if order is None:
        raise ValueError(
            f"time={name} holds {quote(str(column[0]))}, which is no time. Expected numbers "
            "(seconds), or dates such as 2024-02-28 12:30 or 28.02.2024 12:30."
        )
    reader = TimeReader(order)
    steps = np.diff(reader.seconds(column))
    reader = TimeReader(order, float(np.median(steps[steps > 0])) if (steps > 0).any() else 0.0)
    seconds = reader.seconds(column)
    refuse_unread(column, seconds)
    refuse_steps_back(column.name, seconds)
    return seconds, order


def refuse_unread(column: polars.Series, seconds: Host) -> None:
    """Refuse rows whose time cannot be read."""
    if lost := np.flatnonzero(np.isnan(seconds)).tolist():
        raise ValueError(
            f"Column {quote(column.name)} tells the time, and row {lost[0] + 1:,} holds "
            f"{quote(str(column[lost[0]]))}, which is none ({counted(len(lost), 'such row')}). "
            "Correct these cells, or leave the rows out."
        )


def refuse_steps_back(name: str, seconds: Host, last: float = -np.inf) -> None:
    """Refuse rows that are not in their order; `last` is the time of the row before."""
    back = np.flatnonzero(np.diff(seconds, prepend=last) < 0).tolist()
    if back:
        raise ValueError(
            f"Column {quote(name)} tells the time, and row {back[0] + 1:,} holds an "
            f"earlier one than the row before ({counted(len(back), 'such row')}). Sort the file "
            "by it; rows of several machines belong in a file each."
        )


def in_words(seconds: float) -> str:
    """Format a duration.

    Examples
    --------
    >>> in_words(1.0), in_words(300.0), in_words(86400.0)
    ('1 s', '5 min', '1 day')
    """
    for unit, size in (("day", DAY), ("h", HOUR), ("min", 60.0)):
        if seconds >= size and seconds % size == 0:
            n = round(seconds / size)
            return f"{n:,} {unit}{'s' if unit == 'day' and n > 1 else ''}"
    return f"{number(seconds)} s"


def time_column(model: Any) -> str | None:
    """Return the column of times that a model was fitted with; None without one."""
    return None if model.windows_ is None else getattr(model, "time_column_", None)


class Follower:
    """Rows that follow those of a model with time: windows, level and clock go on.

    Parameters
    ----------
    model : FusedDetector
        Fitted with time.
    """

    def __init__(self, model: Any) -> None:
        self.stream, self.reader = model.follow(), reader_of(model)
        self.column = time_column(model)
        self.last = -np.inf
        self.judged = 0  # rows so far

    def seconds(self, frame: polars.DataFrame) -> Host | None:
        """Return the times of the next rows; None of a model that takes them at even intervals."""
        if self.column is None:
            return None
        check_time_column(self.column, frame.columns)
        found = self.reader.seconds(frame[self.column])
        refuse_unread(frame[self.column], found)
        refuse_steps_back(self.column, found, self.last)
        self.last = float(found[-1]) if len(found) else self.last
        return found

    def state(self) -> dict[str, Any]:
        """Return what `restore` needs but for the times, as JSON values."""
        return {**self.stream.state(), "judged": self.judged}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore from `state()`."""
        self.stream.restore(state)
        self.judged = state["judged"]


def check_time_column(name: str, columns: Sequence[str]) -> None:
    """Refuse a table without the column of times."""
    if name not in columns:
        raise ValueError(
            f"The data lack {quote(name)}, the column of times of the model. Add it, or fit a "
            "model without time: order='random'"
        )


def reader_of(model: Any) -> TimeReader:
    """Return a reader of the times of a model with windows."""
    made = model.preparation_
    order = made.times[1] if made is not None and made.times else None
    return TimeReader(order, model.windows_.step_)
