"""Dates and times: how they are written, and what numbers say of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse._format import quote
from lpfuse.tables._cells import first_cell, is_text
from lpfuse.tables._polars import polars_module

if TYPE_CHECKING:
    import polars

TIMES = ("%H:%M:%S%.f", "%H:%M:%S", "%H:%M")
# Days before months where both are possible, as in most countries; a day beyond 12 decides.
ORDERS = ("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y")
NO_DATE = "time"  # as the order: times of day alone
HINT = 10  # cells that rule most columns of text out, at little cost
CLOCK, WEEKDAY, ELAPSED, SINCE = "time of day", "weekday", "elapsed", "since"


def order_of(column: polars.Series) -> str | None:
    """How the dates of a column are written; None where it holds something else.

    Examples
    --------
    >>> import polars as pl
    >>> order_of(pl.Series(["28.02.2024 12:30", "01.03.2024 08:15"])), order_of(pl.Series(["x"]))
    ('%d.%m.%Y', None)
    """
    pl = polars_module()
    if column.dtype == pl.Time:
        return NO_DATE
    if column.dtype == pl.Date or isinstance(column.dtype, pl.Datetime):
        return ORDERS[0]
    if column.dtype != pl.String:
        return None
    cells = column.drop_nulls()
    years = cells.head(HINT).str.contains(r"\d{4}").all()  # 1.2.3 is no date
    for order in (*ORDERS, NO_DATE) if len(cells) else ():
        if (years or order == NO_DATE) and all(
            not _parsed(some, order).has_nulls() for some in (cells.head(HINT), cells)
        ):
            return order
    return None


def moments_of(column: polars.Series, order: str, start: int = 0) -> polars.Series:
    """Dates with times, null where one is missing; what is none is refused.

    Parameters
    ----------
    column : polars.Series
        Texts, dates or times. Times alone are of the first of January 1970.
    order : str
        As `order_of` gives it.
    start : int, default=0
        Rows before these, for messages.
    """
    found, wrong = read_moments(column, order)
    if wrong.any():
        what = "times" if order == NO_DATE else f"dates as {_example(order)}"
        raise ValueError(
            f"Column {quote(column.name)} must hold {what}; {first_cell(column, wrong, start)}. "
            "Correct the cell, or leave it empty where the value is missing."
        )
    return found


def read_moments(column: polars.Series, order: str) -> tuple[polars.Series, polars.Series]:
    """Dates with times, null where there is none, and which cells are wrong: see `moments_of`."""
    pl = polars_module()
    if order not in (*ORDERS, NO_DATE):  # of a file that was tampered with
        raise ValueError(f"Dates are not written as {quote(order)}.")
    if is_text(column):
        found = _parsed(column.cast(pl.String), order)
    elif column.dtype == pl.Time:
        found = (column.cast(pl.Int64) // 1000).cast(pl.Datetime("us"))
    elif column.dtype == pl.Date or column.dtype == pl.Null:
        found = column.cast(pl.Datetime("us"))
    elif isinstance(column.dtype, pl.Datetime):
        found = column.dt.replace_time_zone(None).cast(pl.Datetime("us"))
    else:
        found = pl.Series([None] * len(column), dtype=pl.Datetime("us"))
    return found.alias(column.name), column.is_not_null() & found.is_null()


def _parsed(texts: polars.Series, order: str) -> polars.Series:
    """Texts as moments; null where they are none."""
    pl = polars_module()
    text = pl.lit(texts)
    micro = pl.Datetime("us")
    if order == NO_DATE:
        tries = [text.str.to_time(time, strict=False).cast(pl.Int64) // 1000 for time in TIMES]
        return pl.select(pl.coalesce(tries).cast(micro)).to_series()
    tries = [text.str.to_date(order, strict=False).cast(micro)]
    if texts.str.contains(":", literal=True).any():
        joined = text.str.replace("T", " ", literal=True)
        for time in TIMES:
            tries += [joined.str.to_datetime(f"{order} {time}", strict=False, time_unit="us")]
            zoned = joined.str.replace(r"(Z|UTC)$", "+00:00")
            tries += [
                zoned.str.to_datetime(
                    f"{order} {time}%#z", strict=False, time_unit="us", time_zone="UTC"
                ).dt.replace_time_zone(None)
            ]
    return pl.select(pl.coalesce(tries)).to_series()


def _example(order: str) -> str:
    return order.replace("%Y", "2024").replace("%m", "02").replace("%d", "28")


# ---------------------------------------------------------------------------------------- features


def parts_of(moments: polars.Series, order: str) -> list[str]:
    """What tells rows apart: the time of day, the day of the week.

    How long ago it was is none of them unless asked for: every later row lies outside of what was
    learnt, and would be strange for that alone (``docs/adr/0024``).
    """
    found = []
    if moments.dt.time().n_unique() > 1 + moments.has_nulls():
        found.append(CLOCK)
    if order != NO_DATE and moments.dt.weekday().n_unique() > 1 + moments.has_nulls():
        found.append(WEEKDAY)
    return found


def features_of_moments(moments: polars.Series, parts: list[str], origin: Host | float) -> Host:
    r"""Numbers that say when it was, of shape (n, d); NaN where that is not known.

    Of the time of day and the day of the week, as the share :math:`u` of a day or a week,
    :math:`\sin 2\pi u` and :math:`\cos 2\pi u`: midnight is near to midnight. Elapsed time in days.

    Parameters
    ----------
    moments : polars.Series
        As `moments_of` gives them.
    parts : list of str
        Which.
    origin : float or ndarray of shape (n,)
        Days since 1970 that elapsed time is counted from.
    """
    days = days_of(moments)
    columns = []
    for part in parts:
        if part in (ELAPSED, SINCE):
            columns.append(days - origin)
        else:
            # 1970 began on a Thursday, the fourth day of a week.
            turn = (
                2
                * np.pi
                * (np.mod(days, 1) if part == CLOCK else np.mod(np.floor(days) + 3, 7) / 7)
            )
            columns += [np.sin(turn), np.cos(turn)]
    return np.column_stack(columns) if columns else np.empty((len(moments), 0))


def days_of(moments: polars.Series) -> Host:
    """Days since 1970; NaN where a moment is missing."""
    pl = polars_module()
    micro = moments.dt.epoch("us").cast(pl.Float64)
    return np.array(micro.fill_null(np.nan), dtype=np.float64) / 86_400e6


def names_of_parts(name: str, parts: list[str], since: str | None) -> list[str]:
    """What the features are called.

    Examples
    --------
    >>> names_of_parts("when", ["weekday", "elapsed"], None)
    ['when: weekday (sin)', 'when: weekday (cos)', 'when: days since the first']
    """
    found = []
    for part in parts:
        if part in (ELAPSED, SINCE):
            found.append(f"{name}: days since {since or 'the first'}")
        else:
            found += [f"{name}: {part} ({wave})" for wave in ("sin", "cos")]
    return found
