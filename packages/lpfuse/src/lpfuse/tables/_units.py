"""Numbers as people write them: with decimal commas, blanks between thousands, and units."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lpfuse.tables._polars import polars_module

if TYPE_CHECKING:
    import polars

_BEFORE = r"(?:[€$£¥]|EUR|USD|GBP|CHF|JPY|CNY|INR|AUD|CAD|SEK|NOK|DKK|PLN)?\s*"
_AFTER = r"\s*(?:[\p{L}%‰°µΩ€$£¥][\p{L}\p{N}%°/^²³⁻¹·*.\-]{0,11})?"


def _body(decimal: str, other: str) -> str:
    # Groups of thousands begin with no zero: 0,123 has decimals.
    whole = rf"(?:[1-9]\d{{0,2}}(?:[{other}\s'’]\d{{3}})+|\d+)"
    return rf"[+\-−]?(?:{whole}(?:{decimal}\d*)?|{decimal}\d+)(?:[eE][+\-]?\d+)?"


# A whole cell by the decimal sign of its column: what stands before the number, it, and its unit.
NUMBER = {
    sign: rf"^(?P<before>{_BEFORE})(?P<number>{_body(sign_, other)})(?P<after>{_AFTER})$"
    for sign, sign_, other in ((".", r"\.", ","), (",", ",", "."))
}


def plain_numbers(cells: polars.Series, decimal: str) -> polars.Series:
    """Texts with the numbers in them as Python writes them; what is no number stays as it is.

    Examples
    --------
    >>> import polars as pl
    >>> plain_numbers(pl.Series(["1.234,5", "7,67 m3/h", "none"]), ",").to_list()
    ['1234.5', '7.67 m3/h', 'none']
    >>> plain_numbers(pl.Series(["1 234.5", "€ 3.50", "1,234"]), ".").to_list()
    ['1234.5', '€ 3.50', '1234']
    """
    pl = polars_module()
    if decimal == "." and not _unread(cells).any():
        return cells
    parts = cells.str.extract_groups(NUMBER[decimal]).struct
    number = parts.field("number").str.replace_all(rf"[{',' if decimal == '.' else '.'}\s'’]", "")
    number = number.str.replace(",", ".", literal=True).str.replace("−", "-", literal=True)
    made = parts.field("before") + number + parts.field("after")
    return pl.select(pl.coalesce(made, cells).alias(cells.name)).to_series()


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
