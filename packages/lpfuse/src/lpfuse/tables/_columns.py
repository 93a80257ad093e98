"""One column of a table: what it holds, and whether it can teach anything."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

import numpy as np

from lpfuse._arrays import Host
from lpfuse._checks.messages import quoted
from lpfuse.tables._files import MOST_CATEGORIES, polars_module, typed

if TYPE_CHECKING:
    import polars

FEWEST_ROWS = 5  # that share a text, for a feature of its own: one for each of five folds
NEARLY_ALL = 0.9  # share of different texts from which a column names the rows
MOSTLY = 0.5  # share of numbers from which the texts among them look like mistakes
FEWEST_NUMBERS = 10  # rows from which 1, 2, 3, … is no coincidence


def counted(number: int, noun: str) -> str:
    """So many of something, for messages.

    Examples
    --------
    >>> counted(1, "row"), counted(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def settled(column: polars.Series) -> polars.Series:
    """A column of any file as what it holds: texts that all spell numbers are numbers."""
    column = typed(column)
    return column.fill_nan(None) if column.dtype.is_float() else column


def is_number(column: polars.Series) -> bool:
    """Whether it holds numbers, or true and false."""
    return column.dtype.is_numeric() or column.dtype == polars_module().Boolean


def is_text(column: polars.Series) -> bool:
    """Whether it holds texts, under any name."""
    pl = polars_module()
    return column.dtype in (pl.String, pl.Categorical, pl.Enum)


def useless(column: polars.Series) -> str:
    """Why nothing can be learnt from it, whatever it means; empty if something can."""
    if column.dtype.is_temporal():
        return "it holds dates or times (put a number in their place, such as days since the first)"
    if column.null_count() == len(column):
        return "it is empty"
    if not is_number(column) and not is_text(column):
        return f"it holds {column.dtype}, neither numbers nor text"
    if column.n_unique() == 1:
        return f"it holds {column[0]!r} in every row"
    return ""


def all_differ(numbers: polars.Series) -> bool:
    """Whether every row, of more than a few, has a whole number of its own."""
    whole = numbers.dtype.is_integer() and len(numbers) >= FEWEST_NUMBERS
    return whole and numbers.n_unique() == len(numbers)


def names_rows(numbers: polars.Series) -> str:
    """Why a column of numbers that can teach something should not: it numbers the rows."""
    if not all_differ(numbers) or numbers.null_count():
        return ""
    steps = numbers.cast(polars_module().Float64).diff().drop_nulls()
    return "it numbers the rows" if steps.n_unique() == 1 else ""


def common_texts(texts: polars.Series) -> tuple[list[str], bool, str]:
    """Texts that deserve a feature each, whether there are others, and why not if there is none."""
    pl = polars_module()
    counts = texts.drop_nulls().rename("text").value_counts(name="rows")
    different, rows = counts.height, len(texts) - texts.null_count()
    if different >= NEARLY_ALL * rows and different > 1:
        return (
            [],
            True,
            f"it names the rows ({counted(different, 'text')} in {counted(rows, 'row')})",
        )
    frequent = counts.filter(pl.col("rows") >= FEWEST_ROWS)
    kept = frequent.sort("rows", "text", descending=[True, False])["text"].head(MOST_CATEGORIES)
    why = "" if len(kept) else f"no text in it occurs in {FEWEST_ROWS} rows"
    return sorted(kept), different > len(kept), why


def refuse_numbers_among(column: polars.Series) -> None:
    """Refuse a column of text that seems to be numbers with mistakes."""
    pl = polars_module()
    if not is_text(column):
        return
    texts = texts_of(column)
    wrong = texts.is_not_null() & texts.cast(pl.Float64, strict=False).is_null()
    rows = len(texts) - texts.null_count()
    if 0 < wrong.sum() <= (1 - MOSTLY) * rows:
        quoted = quote(column.name)
        raise ValueError(
            f"Column {column.name!r} holds numbers, but for {wrong.sum():,} of {rows:,} rows: "
            f"{_first(texts, wrong, 0)}. Correct those cells, leave them empty where the value is "
            f"missing, or say what the column is: --categories {quoted}, --drop {quoted}"
        )


def numbers_of(column: polars.Series, start: int = 0, truths: bool = False) -> Host:
    """Numbers, also where they are written as texts; NaN where one is missing.

    Parameters
    ----------
    column : polars.Series
        Of numbers, or of texts that spell some.
    start : int, default=0
        Rows before these, for messages.
    truths : bool, default=False
        Whether texts may say true and false.
    """
    pl = polars_module()
    if is_text(column):
        texts = texts_of(column)
        spelt = texts.str.to_lowercase().replace({"true": "1", "false": "0"}) if truths else texts
        numbers = spelt.cast(pl.Float64, strict=False)
    elif is_number(column) or column.dtype == pl.Null:
        numbers = column.cast(pl.Float64)
    else:
        raise ValueError(f"Column {column.name!r} must hold numbers; it holds {column.dtype}.")
    wrong = (column.is_not_null() & numbers.is_null()) | numbers.is_infinite().fill_null(False)
    if wrong.any():
        raise ValueError(
            f"Column {column.name!r} must hold numbers; {_first(column, wrong, start)}. Correct "
            "the cell, or leave it empty where the value is missing."
        )
    return np.array(numbers.fill_null(np.nan), dtype=np.float64)


def texts_of(column: polars.Series) -> polars.Series:
    """Texts, also where whole numbers or truth values are what they are made of."""
    pl = polars_module()
    if column.dtype.is_float():
        column = column.fill_nan(None)
        if (column == column.round()).all():
            column = column.cast(pl.Int64, strict=False)
    return column.cast(pl.String)


def _first(column: polars.Series, where: polars.Series, start: int) -> str:
    """The first of some cells, for messages; rows are counted from 1."""
    row = int(where.arg_true()[0])
    return f"row {start + row + 1:,} holds {quoted([column[row]])}"
