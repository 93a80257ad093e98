"""Cells of data frames: names, numbers, texts, dates, labels, and how files write them."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse._files import ANY, saved_as
from lpfuse._format import plain, quote
from lpfuse._validation.params import (
    IsLater,
    Labels,
    did_you_mean,
    is_gap,
    listed,
    quoted,
    read_labels,
)
from lpfuse._validation.tables import is_frame, to_known_frame

if TYPE_CHECKING:
    import polars


def polars_module() -> ModuleType:
    """polars, which is imported when a table is read, and not before."""
    try:
        import polars
    except ImportError as error:
        raise ImportError('Data frames are read by polars: pip install "lpfuse[frames]"') from error
    return polars


# ------------------------------------------------------------------------------- numbers and units

_BEFORE = r"(?:[€$£¥]|EUR|USD|GBP|CHF|JPY|CNY|INR|AUD|CAD|SEK|NOK|DKK|PLN)?\s*"
_AFTER = r"\s*(?:/?[\p{L}%‰°µΩ€$£¥][\p{L}\p{N}%°/^²³⁻¹·*.\-]{0,11})?"


def _body(decimal: str, other: str) -> str:
    # Groups of thousands begin with no zero: 0,123 has decimals.
    whole = rf"(?:[1-9]\d{{0,2}}(?:[{other}\s'’]\d{{3}})+|\d+)"
    return rf"[+\-−]?(?:{whole}(?:{decimal}\d*)?|{decimal}\d+)(?:[eE][+\-]?\d+)?"


# A whole cell by the decimal sign of its column: what stands before the number, it, and its unit.
NUMBER = {
    sign: rf"^(?P<before>{_BEFORE})(?P<number>{_body(sign_, other)})(?P<after>{_AFTER})$"
    for sign, sign_, other in ((".", r"\.", ","), (",", ",", "."))
}
LIMIT = r"^[<>≤≥]=?\s*"  # before a number: a value beyond what was measured, read as that limit


def plain_numbers(cells: polars.Series, decimal: str | None) -> polars.Series:
    """Texts with the numbers in them as Python writes them; what is no number stays as it is.

    The number of ``<0.6``, below what was measured, is the limit 0.6.

    Parameters
    ----------
    cells : polars.Series
        Texts.
    decimal : {".", ","} or None
        What stands before decimals; the other one may stand between thousands. None: all stays.

    Examples
    --------
    >>> import polars as pl
    >>> plain_numbers(pl.Series(["1.234,5", "7,67 m3/h", "none"]), ",").to_list()
    ['1234.5', '7.67 m3/h', 'none']
    >>> plain_numbers(pl.Series(["1 234.5", "€ 3.50", "1,234", "< 0.6 mg/l"]), ".").to_list()
    ['1234.5', '€ 3.50', '1234', '0.6 mg/l']
    """
    pl = polars_module()
    if decimal is None or (decimal == "." and not _unread(cells).any()):
        return cells
    parts = cells.str.replace(LIMIT, "").str.extract_groups(NUMBER[decimal]).struct
    number = parts.field("number").str.replace_all(rf"[{',' if decimal == '.' else '.'}\s'’]", "")
    number = number.str.replace(",", ".", literal=True).str.replace("−", "-", literal=True)
    made = parts.field("before") + number + parts.field("after")
    return pl.select(pl.coalesce(made, cells).alias(cells.name)).to_series()


def decimal_signs(frame: polars.DataFrame) -> dict[str, str]:
    """Find the decimal sign of each column of texts of which half are numbers.

    A column that holds 7,67 has decimal commas, one that holds 7.67 has points. Where it holds
    neither (1,234 may be either), it is like most of the others. "" if these say nothing, and
    where a column `has_grouping_points`.

    Examples
    --------
    >>> import polars as pl
    >>> decimal_signs(pl.DataFrame({"a": ["50,08", "1.234,5"], "b": ["1,234", "5"]}))
    {'a': ',', 'b': ','}
    >>> decimal_signs(pl.DataFrame({"b": ["1,234", "5"], "kind": ["x", "y"]}))
    {'b': ''}
    """
    found = {}
    for column in frame.select(polars_module().selectors.string()):
        cells = without_gaps(column).drop_nulls()
        # A few cells rule most columns out, at little cost.
        if any(cells.head(HINT).str.contains(number).any() for number in NUMBER.values()):
            points, commas = (int(cells.str.contains(number).sum()) for number in NUMBER.values())
            if 2 * max(points, commas) >= len(cells):
                found[column.name] = "." if points > commas else "," if commas > points else ""
    signs = list(filter(None, found.values()))
    usual = max(".,", key=signs.count) if signs else ""
    grouped = [n for n, sign in found.items() if not sign and has_grouping_points(frame[n])]
    return {name: "" if name in grouped else sign or usual for name, sign in found.items()}


def has_grouping_points(column: polars.Series) -> bool:
    """Tell whether texts are whole numbers with points: all points before three digits, 8.863.

    Numbers without a point must be below 1,000, and one of them not 0: decimals that are cut where
    zeros follow are rarely whole, and have three digits in nine of ten cells only.

    Parameters
    ----------
    column : polars.Series
        Texts that hold neither 7,67 nor 7.67.

    Examples
    --------
    >>> import polars as pl
    >>> has_grouping_points(pl.Series(["8.863", "117", "64 €"]))
    True
    >>> has_grouping_points(pl.Series(["8.863", "6.278"]))  # or three decimals each
    False
    """
    numbers = without_gaps(column).str.extract_groups(NUMBER[","]).struct.field("number")
    points = numbers.str.contains(".", literal=True)
    others = numbers.filter(~points)
    below, some = (others.str.contains(rf"^\D?{each}$") for each in (r"\d{1,3}", r"[1-9]\d{0,2}"))
    return bool(points.any() and below.all() and some.any())


def without_unit(texts: polars.Series) -> tuple[polars.Series, polars.Series]:
    """Numbers as texts, null where there is none, and their units, empty where there is none.

    Examples
    --------
    >>> import polars as pl
    >>> numbers, units = without_unit(pl.Series(["7.67 m3/h", "€ 3", "5", "P-7"]))
    >>> numbers.to_list(), units.to_list()
    (['7.67', '3', '5', None], ['m3/h', '€', '', None])
    """
    parts = texts.str.extract_groups(NUMBER["."]).struct
    units = parts.field("before").str.strip_chars() + parts.field("after").str.strip_chars()
    number = parts.field("number").str.replace_all(r"[,\s'’]", "")
    return number.str.replace("−", "-", literal=True), units


def _unread(cells: polars.Series) -> polars.Series:
    """Which cells Python would not read as numbers."""
    return cells.is_not_null() & cells.cast(polars_module().Float64, strict=False).is_null()


# --------------------------------------------------------------------------------------- no values

# Cells that say that there is no value, as spreadsheets, R, pandas and SQL write them.
GAPS = (
    "", "?", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip
# Among numbers and dates these as well, and in any case; as a category they may be meant.
NUMBER_GAPS = sorted({each.lower() for each in GAPS} | {
    "-", "--", "---", "–", "—", ".", "k.a.", "k. a.", "missing", "n.a.", "n.b.", "n.d.", "n.v.",
    "unknown",
})  # fmt: skip


def says_missing(column: polars.Series, of_texts: bool = False) -> polars.Series:
    """Tell which cells hold a word for no value, in a column of texts or, by default, of numbers.

    Examples
    --------
    >>> import polars as pl
    >>> cells = pl.Series(["n/a", "na", " - ", "5", None])
    >>> says_missing(cells).to_list(), says_missing(cells, of_texts=True).to_list()
    ([True, True, True, False, False], [True, False, False, False, False])
    """
    pl = polars_module()
    if not is_text(column):
        return pl.repeat(False, len(column), eager=True)
    cells = column.cast(pl.String).str.strip_chars()
    found = cells.is_in(GAPS) if of_texts else cells.str.to_lowercase().is_in(NUMBER_GAPS)
    return found.fill_null(False)


def without_gaps(column: polars.Series, of_texts: bool = False) -> polars.Series:
    """Return a column with null where `says_missing`."""
    gaps = says_missing(column, of_texts)
    return texts_of(column).set(gaps, None) if gaps.any() else column


# ------------------------------------------------------------------------------- cells of a column


def check_names(wanted: Iterable[str], columns: list[str]) -> list[str]:
    """Names of columns as users write them: one by one, or several with commas between them.

    Parameters
    ----------
    wanted : iterable of str
        What was written.
    columns : list of str
        The columns that there are.

    Examples
    --------
    >>> check_names(["bar", "kind,wet"], ["bar", "kind", "wet"])
    ['bar', 'kind', 'wet']
    >>> check_names(["baar"], ["bar", "kind", "wet"])
    Traceback (most recent call last):
    ValueError: There is no column 'baar'. Did you mean 'bar'? There are 'bar', 'kind', 'wet'.
    """
    names = []
    for text in wanted:
        parts = [text] if text in columns else [part.strip() for part in text.split(",")]
        for name in parts:
            if name not in columns:
                raise ValueError(
                    f"There is no column {quote(name)}.{did_you_mean(name, columns)} There are "
                    f"{quoted(columns, 20)}."
                )
            names.append(name)
    return names


def is_number(column: polars.Series) -> bool:
    """Whether it holds numbers, or true and false."""
    return column.dtype.is_numeric() or column.dtype == polars_module().Boolean


def is_text(column: polars.Series) -> bool:
    """Whether it holds texts, under any name."""
    pl = polars_module()
    return column.dtype in (pl.String, pl.Categorical, pl.Enum)


def numbers_of(
    column: polars.Series,
    start: int | None = None,
    truths: bool = False,
    unit: str | None = None,
    forgiving: bool = False,
    decimal: str | None = None,
) -> Host:
    """Numbers, also where they are written as texts; NaN where one is missing.

    Parameters
    ----------
    column : polars.Series
        Of numbers, or of texts that spell some.
    start : int, optional
        As in `first_cell`.
    truths : bool, default=False
        Whether texts may say true and false.
    unit : str, optional
        What may stand beside numbers.
    forgiving : bool, default=False
        Whether texts that are no numbers are missing; if not, they are refused.
    decimal : {".", ","} or None
        As in `plain_numbers`.
    """
    column, numbers, wrong = read_numbers(column, truths, unit, forgiving, decimal)
    _refuse(column, wrong, "numbers" if unit is None else f"numbers in {quote(unit)}", start)
    return np.array(numbers.fill_null(np.nan), dtype=np.float64)


def read_numbers(
    column: polars.Series, truths: bool, unit: str | None, forgiving: bool, decimal: str | None
) -> tuple[polars.Series, polars.Series, polars.Series]:
    """Read numbers; return the cells that count, the numbers, and which are wrong.

    Parameters
    ----------
    column, truths, unit, forgiving, decimal
        As in `numbers_of`.
    """
    pl = polars_module()
    if is_text(column):
        texts = plain_numbers(texts_of(column), decimal)
        spelt = texts.str.to_lowercase().replace({"true": "1", "false": "0"}) if truths else texts
        if unit is not None:
            bare, units = without_unit(texts)
            spelt = pl.select(pl.when(units.is_in(["", unit])).then(bare)).to_series()
        numbers = spelt.cast(pl.Float64, strict=False)
        column = numbers.alias(column.name) if forgiving else column
    elif is_number(column) or column.dtype == pl.Null:
        numbers = column.cast(pl.Float64)
    else:
        kind = plain(column.dtype)
        raise ValueError(f"Column {quote(column.name)} must hold numbers; it holds {kind}.")
    wrong = (column.is_not_null() & numbers.is_null()) | numbers.is_infinite().fill_null(False)
    return column, numbers, wrong & ~says_missing(column) if wrong.any() else wrong


def texts_of(column: polars.Series) -> polars.Series:
    """Texts, also where whole numbers or truth values are what they are made of."""
    pl = polars_module()
    if column.dtype.is_float():
        column = column.fill_nan(None)
        if (column == column.round()).all():
            column = column.cast(pl.Int64, strict=False)
    return column.cast(pl.String)


def first_cell(column: polars.Series, where: polars.Series, start: int | None = None) -> str:
    """Describe the first of some cells, for messages.

    Parameters
    ----------
    column, where : polars.Series
        Cells, and which are meant.
    start : int, optional
        Of a file, the rows before these; lines are counted as spreadsheets do, where the header is
        the first. By default rows are counted from 1.
    """
    row = int(where.arg_true()[0])
    place = f"row {row + 1:,}" if start is None else f"line {start + row + 2:,}"
    return f"{place} holds {quote(column[row])}"


def _refuse(column: polars.Series, wrong: polars.Series, what: str, start: int | None) -> None:
    """Raise an error that names the first wrong cell, if there is one."""
    if wrong.any():
        raise ValueError(
            f"Column {quote(column.name)} must hold {what}; {first_cell(column, wrong, start)}. "
            "Correct the cell, or leave it empty where the value is missing."
        )


def as_polars(X: Any) -> polars.DataFrame:
    """Convert a data frame of pandas, polars, narwhals or Arrow to polars.

    Columns that hold values of several types become texts, as all cells of a CSV file are. Blanks
    around texts are left out.

    Parameters
    ----------
    X : data frame
        Rows; the index of pandas is not looked at.

    Examples
    --------
    >>> import pandas as pd
    >>> as_polars(pd.DataFrame({"bar": [2.5, None], "kind": ["a ", 1]})).rows()
    [(2.5, 'a'), (None, '1')]
    """
    pl, frame = polars_module(), to_known_frame(X)
    stripped = pl.selectors.string().str.strip_chars()
    if isinstance(frame, pl.DataFrame):
        return frame.with_columns(stripped)
    if not is_frame(frame):
        raise TypeError(
            f"Expected a data frame with named columns, got {type(X).__name__}. Make it one, for "
            "instance pandas.DataFrame(X, columns=[...]); FusedDetector takes arrays of numbers."
        )
    names = [str(name) for name in frame.columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"Columns need names of their own, but {quote(twice[0])} occurs twice.")
    columns = (frame.iloc[:, j] for j in range(len(names)))
    table = pl.DataFrame([_series(name, each) for name, each in zip(names, columns, strict=True)])
    return table.with_columns(stripped)


def _series(name: str, column: Any) -> polars.Series:
    pl = polars_module()
    try:
        return pl.Series(name, column)
    except (TypeError, ValueError, pl.exceptions.PolarsError):
        there = column.notna()
        cells = [str(cell) if known else None for cell, known in zip(column, there, strict=True)]
        return pl.Series(name, cells, dtype=pl.String)


# --------------------------------------------------------------------------------- dates and times

TIMES = ("%H:%M:%S%.f", "%H:%M:%S", "%H:%M")
# Days before months where both are possible, as in most countries; a day beyond 12 decides.
ORDERS = ("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y")
NO_DATE = "time"  # as the order: times of day alone
ZONED = r"(:[\d.:]+)\s*(Z|UTC|[+\-]\d\d(?::?\d\d)?)$"  # a time, and what follows it
UTC = ("Z", "UTC", "+00:00", "+0000", "+00")
HINT = 10  # cells that rule most columns of text out, at little cost
CLOCK, WEEKDAY, ELAPSED, SINCE = "time of day", "weekday", "elapsed", "since"
CYCLES = 3  # days or weeks that training rows must span to tell what recurs; chosen by hand


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


def zone_of(column: polars.Series) -> str:
    """Return the time zone that training rows tell, empty where they tell none.

    That of the type, or UTC where it follows each time. Other offsets are no zone, for they change
    in summer.

    Examples
    --------
    >>> import polars as pl
    >>> zone_of(pl.Series(["2024-02-28 12:30Z"])), zone_of(pl.Series(["2024-02-28 12:30+01:00"]))
    ('UTC', '')
    """
    if is_text(column):
        zones = texts_of(column).str.extract(ZONED, 2).drop_nulls()
        return "UTC" if len(zones) and zones.is_in(UTC).all() else ""
    zone = getattr(column.dtype, "time_zone", None) or ""
    return "" if zone.startswith("Etc/GMT") else zone


def moments_of(
    column: polars.Series, order: str, zone: str | None = "", start: int | None = None
) -> polars.Series:
    """Dates with times, null where one is missing; what is none is refused.

    They are times of the local clock, as days and weeks of people are.

    Parameters
    ----------
    column : polars.Series
        Texts, dates or times. Times alone are of the first of January 1970.
    order : str
        As `order_of` gives it.
    zone : str or None
        The zone whose clock counts, as `zone_of` gives it: times of other zones are converted.
        Empty: the clock of each time as it is written. None, of models that kept no zone: texts
        are converted to UTC, others are as written.
    start : int, optional
        As in `first_cell`.
    """
    found, wrong = read_moments(column, order, zone)
    _refuse(column, wrong, "times" if order == NO_DATE else f"dates as {_example(order)}", start)
    return found


def read_moments(
    column: polars.Series, order: str, zone: str | None = None
) -> tuple[polars.Series, polars.Series]:
    """Dates with times, null where there is none, and which cells are wrong: see `moments_of`."""
    pl = polars_module()
    if order not in (*ORDERS, NO_DATE):  # of a file that was tampered with
        raise ValueError(f"Dates are not written as {quote(order)}.")
    if is_text(column):
        found = _parsed(column.cast(pl.String), order, zone)
    elif column.dtype == pl.Time:
        found = (column.cast(pl.Int64) // 1000).cast(pl.Datetime("us"))
    elif column.dtype == pl.Date or column.dtype == pl.Null:
        found = column.cast(pl.Datetime("us"))
    elif isinstance(column.dtype, pl.Datetime):
        zoned = column.dt.convert_time_zone(zone) if zone and column.dtype.time_zone else column
        found = zoned.dt.replace_time_zone(None).cast(pl.Datetime("us"))
    else:
        found = pl.Series([None] * len(column), dtype=pl.Datetime("us"))
    wrong = column.is_not_null() & found.is_null()
    return found.alias(column.name), wrong & ~says_missing(column) if wrong.any() else wrong


def _parsed(texts: polars.Series, order: str, zone: str | None = None) -> polars.Series:
    """Texts as moments of the clock of a zone, see `moments_of`; null where they are none."""
    pl = polars_module()
    text = pl.lit(texts)
    micro = pl.Datetime("us")
    if order == NO_DATE:
        tries = [text.str.to_time(time, strict=False).cast(pl.Int64) // 1000 for time in TIMES]
        return pl.select(pl.coalesce(tries).cast(micro)).to_series()
    tries = [text.str.to_date(order, strict=False).cast(micro)]
    if texts.str.contains(":", literal=True).any():
        joined = text.str.replace(r"(\d)T(\d)", "$1 $2")
        zoned = joined.str.replace(r"(Z|UTC)$", "+00:00")
        clock = joined.str.replace(ZONED, "$1") if zone == "" else joined
        how: Any = {"strict": False, "time_unit": "us"}
        for pattern in (f"{order} {time}" for time in TIMES):
            tries += [clock.str.to_datetime(pattern, **how)]
            moments = zoned.str.to_datetime(f"{pattern}%#z", time_zone="UTC", **how)
            tries += [moments.dt.convert_time_zone(zone or "UTC").dt.replace_time_zone(None)]
    return pl.select(pl.coalesce(tries)).to_series()


def _example(order: str) -> str:
    return order.replace("%Y", "2024").replace("%m", "02").replace("%d", "28")


# ---------------------------------------------------------------------------------------- features


def parts_of(moments: polars.Series, order: str, cycles: int = CYCLES) -> list[str]:
    """List the parts of dates that vary: the time of day, the day of the week.

    How long ago it was is none of them unless asked for: every later row lies outside of what was
    learnt, and would be strange for that alone (``docs/adr/0024``). So would the time of day be
    where the rows are of one morning.

    Parameters
    ----------
    moments, order : polars.Series, str
        As `moments_of` gives them, and how they are written.
    cycles : int, default=3
        Different days, or weeks, that there must be.
    """
    there = moments.drop_nulls()
    days, found = there.dt.epoch("d"), []
    if there.dt.time().n_unique() > 1 and (order == NO_DATE or days.n_unique() >= cycles):
        found.append(CLOCK)
    weeks = (days + 3) // 7  # 1970 began on a Thursday, the fourth day of a week
    if order != NO_DATE and there.dt.weekday().n_unique() > 1 and weeks.n_unique() >= cycles:
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
            share = np.mod(days, 1) if part == CLOCK else np.mod(np.floor(days) + 3, 7) / 7
            columns += [np.sin(2 * np.pi * share), np.cos(2 * np.pi * share)]
    return np.column_stack(columns) if columns else np.empty((len(moments), 0))


def days_of(moments: polars.Series) -> Host:
    """Days since 1970; NaN where a moment is missing."""
    pl = polars_module()
    micro = moments.dt.epoch("us").cast(pl.Float64)
    return np.array(micro.fill_null(np.nan), dtype=np.float64) / 86_400e6


def names_of_parts(name: str, parts: list[str], since: str | None) -> list[str]:
    """Name the features.

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


# ------------------------------------------------------------------------------------------ labels


def labels_of(
    column: polars.Series, normal: Any = None, anomaly: Any = None, *, is_later: IsLater = False
) -> Labels:
    """Read a column of labels with `lpfuse._validation.params.read_labels`.

    Parameters
    ----------
    column : polars.Series
        One value a row; missing where it is not known.
    normal, anomaly, is_later
        As there.
    """
    where = f"The label column {quote(column.name)}"
    if column.dtype.is_nested():
        raise ValueError(f"{where} holds {plain(column.dtype)}; expected one value a row.")
    cells = column.to_list()
    if not is_later and all(map(is_gap, dict.fromkeys(cells))):
        raise ValueError(
            f"{where} is empty. Name another column, or none: all rows are then unlabelled."
        )
    labels = read_labels(
        cells, len(cells), normal=normal, anomaly=anomaly, zero=0 if is_later else None,
        called=where, call="{}", is_later=is_later,
    )  # fmt: skip
    assert labels is not None
    return labels


# ---------------------------------------------------------------------------------- files of tables

# In the order in which they are believed where several fit: commas stand in numbers, too.
SEPARATORS = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas"}


DECIMALS = {".": "points", ",": "commas"}


QUOTES = ('"', "'", "none")


# Names of Python for them; no others, for a name leads to code.
ENCODINGS = (
    "utf-8", "utf-16", "utf-16-le", "utf-16-be", "iso8859-1", "iso8859-2", "iso8859-5",
    "iso8859-7", "iso8859-9", "iso8859-15", "cp437", "cp850", "cp1250", "cp1251", "cp1252",
    "cp1253", "cp1254", "cp1257", "koi8-r", "mac-roman", "shift_jis", "euc_jp", "euc_kr", "big5",
    "gb18030",
)  # fmt: skip


@saved_as(
    "TableFormat", separator=tuple(SEPARATORS), decimal=tuple(DECIMALS), encoding=ENCODINGS,
    quote=QUOTES, sheet=ANY,
)  # fmt: skip
@dataclass(frozen=True)
class TableFormat:
    r"""How a table is written; what is None is found by looking at its beginning.

    Parameters
    ----------
    separator : {",", ";", "tab", "\t", "|"}, optional
        What stands between the cells of a CSV file.
    decimal : {".", ","}, optional
        What stands before the decimals of numbers; the other one may stand between thousands.
    encoding : str, optional
        Such as "utf-8", "utf-16", "cp1252" (Windows), "latin-1".
    quote : {'"', "'", "none"}, optional
        What stands around cells that hold separators.
    sheet : str, optional
        Of a spreadsheet; None: the first.
    header_row : int, optional
        The row with the names of the columns, counted from 1; None: the first that holds something.

    Examples
    --------
    >>> TableFormat(separator="tab", encoding="latin-1").checked().encoding
    'iso8859-1'
    >>> TableFormat(decimal="comma").checked()
    Traceback (most recent call last):
    ValueError: decimal='comma' is none of '.', ','. Name one of these.
    """

    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    quote: str | None = None
    sheet: str | None = None
    header_row: int | None = None

    def checked(self) -> TableFormat:
        """Return the same format in canonical names; refuse unknown ones."""
        separator = {"tab": "\t", "\\t": "\t"}.get(str(self.separator), self.separator)
        encoding = self.encoding
        if encoding is not None:
            with suppress(LookupError):
                encoding = codecs.lookup(encoding.replace("latin-1", "latin1")).name
        known = {
            "separator": (separator, ("tab", *SEPARATORS)),
            "decimal": (self.decimal, tuple(DECIMALS)),
            "encoding": (encoding, ENCODINGS),
            "quote": (self.quote, QUOTES),
        }
        for name, (value, choices) in known.items():
            if value is not None and value not in choices:
                shown = ", ".join(quote(each) for each in choices if each != "\t")
                told = quote(str(getattr(self, name)))
                raise ValueError(f"{name}={told} is none of {shown}. Name one of these.")
        return replace(self, separator=separator, encoding=encoding)

    def __or__(self, others: TableFormat) -> TableFormat:
        """Merge two formats; this one takes precedence."""
        known = {name: value for name, value in vars(self).items() if value is not None}
        return replace(others, **known)

    @property
    def words(self) -> str:
        """What is not as everywhere (commas, points, UTF-8, double quotes), as a phrase."""
        told = []
        if self.separator not in (None, ","):
            told.append(f"{SEPARATORS[str(self.separator)]} between columns")
        if self.decimal == ",":
            told.append("decimal commas")
        if self.encoding not in (None, "utf-8"):
            told.append(f"encoding {self.encoding}")
        if self.quote not in (None, '"'):
            told.append("no quotes" if self.quote == "none" else "single quotes")
        if self.sheet is not None:
            told.append(f"sheet {quote(self.sheet)}")
        if self.header_row is not None:
            told.append(f"header in row {self.header_row}")
        return listed(told) if told else ""


OPEN = TableFormat()  # all is to be found
