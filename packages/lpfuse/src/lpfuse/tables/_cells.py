"""Cells of tables: names of columns as users write them, numbers, texts, and what is neither."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse._format import plain, quote
from lpfuse._validation.params import did_you_mean, quoted
from lpfuse.tables._polars import polars_module
from lpfuse.tables._units import without_unit

if TYPE_CHECKING:
    import polars


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
    start: int = 0,
    truths: bool = False,
    unit: str | None = None,
    forgiving: bool = False,
) -> Host:
    """Numbers, also where they are written as texts; NaN where one is missing.

    Parameters
    ----------
    column : polars.Series
        Of numbers, or of texts that spell some.
    start : int, default=0
        Rows before these, for messages.
    truths : bool, default=False
        Whether texts may say true and false.
    unit : str, optional
        What may stand beside numbers.
    forgiving : bool, default=False
        Whether texts that are no numbers are missing; if not, they are refused.
    """
    column, numbers, wrong = read_numbers(column, truths, unit, forgiving)
    if wrong.any():
        what = "numbers" if unit is None else f"numbers in {quote(unit)}"
        raise ValueError(
            f"Column {quote(column.name)} must hold {what}; {first_cell(column, wrong, start)}. "
            "Correct the cell, or leave it empty where the value is missing."
        )
    return np.array(numbers.fill_null(np.nan), dtype=np.float64)


def read_numbers(
    column: polars.Series, truths: bool, unit: str | None, forgiving: bool
) -> tuple[polars.Series, polars.Series, polars.Series]:
    """The cells as far as they count, the numbers in them, and which of them are wrong.

    Parameters
    ----------
    column, truths, unit, forgiving
        As in `numbers_of`.
    """
    pl = polars_module()
    if is_text(column):
        texts = texts_of(column)
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
    return column, numbers, wrong


def texts_of(column: polars.Series) -> polars.Series:
    """Texts, also where whole numbers or truth values are what they are made of."""
    pl = polars_module()
    if column.dtype.is_float():
        column = column.fill_nan(None)
        if (column == column.round()).all():
            column = column.cast(pl.Int64, strict=False)
    return column.cast(pl.String)


def first_cell(column: polars.Series, where: polars.Series, start: int = 0) -> str:
    """The first of some cells, for messages; rows are counted from 1."""
    row = int(where.arg_true()[0])
    return f"row {start + row + 1:,} holds {quote(column[row])}"
