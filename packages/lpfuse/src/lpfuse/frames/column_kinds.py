"""What a column is: numbers, categories, dates, or something that nothing can be learnt from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from lpfuse._format import plain, quote
from lpfuse._validation.params import counted, did_you_mean, quoted
from lpfuse.frames.cells import (
    ELAPSED,
    check_names,
    first_cell,
    is_number,
    is_text,
    moments_of,
    order_of,
    polars_module,
    texts_of,
    without_unit,
)

if TYPE_CHECKING:
    import polars

# What a user may say of a column.
KINDS = ("number", "category", "date", ELAPSED, "id", "text", "drop")

# All chosen by hand but for MOST_CATEGORIES:
FEWEST_ROWS = 5  # that share a text, for a feature of its own: one for each of five folds
# Texts of a column that have a feature of their own, the commonest: with twenty a column that tells
# nothing costs little, and one that tells something has its say (docs/adr/0024).
MOST_CATEGORIES = 20
NEARLY_ALL = 0.9  # share of different texts from which a column names the rows
MOSTLY = 0.5  # share of numbers from which the texts among them look like mistakes
COMMON = 0.5  # share of rows with common texts below which a column is none of categories
SENTENCE = 3  # words from which a text is a sentence
FEWEST_NUMBERS = 10  # rows from which 1, 2, 3, … is no coincidence
# Rows from which whole numbers that all differ, within twice as many, are none: of 40 numbers, 20
# drawn by chance all differ once in 3,000 times.
FEWEST_CODES = 20
MOST_UNITS = 5  # that are told as such


class ColumnKind(NamedTuple):
    """What a column is: its kind, why it is not used (empty: it is), its values, and a detail."""

    kind: str
    why: str
    column: polars.Series
    detail: str = ""  # the unit of numbers, the order of dates


def check_kinds(kinds: Mapping[str, str], columns: list[str]) -> dict[str, str]:
    """Check the kinds of columns that a user named.

    Examples
    --------
    >>> check_kinds({"bar": "numbr"}, ["bar"])
    Traceback (most recent call last):
    ValueError: A column can be taken as number, category, ...; got 'numbr'. Did you mean 'number'?
    """
    for kind in kinds.values():
        if kind not in KINDS:
            raise ValueError(
                f"A column can be taken as {', '.join(KINDS[:-1])} or {KINDS[-1]}; got "
                f"{quote(kind)}.{did_you_mean(kind, KINDS)}"
            )
    return {check_names([name], columns)[0]: kind for name, kind in kinds.items()}


def parse_column(column: polars.Series) -> polars.Series:
    """Convert a column of texts to numbers, truth values or dates, if all of them are such.

    Numbers that are NaN are missing.
    """
    pl = polars_module()
    if column.dtype.is_float():
        return column.fill_nan(None)
    if column.dtype != pl.String:
        return column
    gaps = column.null_count()
    for kind in (pl.Int64, pl.Float64):
        numbers = column.cast(kind, strict=False)
        if numbers.null_count() == gaps:
            return numbers.fill_nan(None) if kind == pl.Float64 else numbers
    lower = column.str.to_lowercase()
    if lower.is_in(["true", "false"]).sum() == len(column) - gaps:
        return lower == "true"
    order = order_of(column)
    return column if order is None else moments_of(column, order)


# --------------------------------------------------------------------------------- what a column is


def kind_as_given(column: polars.Series, kind: str) -> ColumnKind:
    """Take a column as the user says; refuse it where it cannot be that."""
    pl, name = polars_module(), quote(column.name)
    if kind in ("drop", "id", "text"):
        return ColumnKind("dropped" if kind == "drop" else kind, "as asked", column)
    if kind == "category":
        texts = texts_of(column)
        return ColumnKind(kind, _why_uninformative(texts) or _why_all_rare(texts), texts)
    if kind == "number":
        values = parse_column(column)
        unit = ""
        if is_text(values):
            bare, units = without_unit(texts_of(values))
            unit = next(iter(_units(units)), "")
            values = pl.select(pl.when(units.is_in(["", unit])).then(bare)).to_series()
            values = values.cast(pl.Float64, strict=False).alias(column.name)
        if not is_number(values) or (values.null_count() == len(values) > column.null_count()):
            first = first_cell(column, column.is_not_null())
            raise ValueError(
                f"Column {name} cannot be taken as numbers: {first}. Say what it is: "
                f"categories=[{name}], drop=[{name}]"
            )
        return ColumnKind(kind, _why_uninformative(values), values, unit)
    order = order_of(column)
    if order is None:
        raise ValueError(
            f"Column {name} cannot be taken as dates: {first_cell(column, column.is_not_null())}. "
            "Dates are written as 2024-02-28, 28.02.2024, 28/02/2024 or 02/28/2024, perhaps with "
            "a time."
        )
    return ColumnKind(kind, "", moments_of(column, order), order)


def infer_kind(column: polars.Series, *, asked_for: bool, scores: bool) -> ColumnKind:
    """Take a column as what it looks like."""
    given, column = column, parse_column(column)
    if is_number(column):
        why, kind = _why_uninformative(column), "constant"
        if not why and not asked_for and not scores:
            why, kind = _why_identifier(column), "id"
        return ColumnKind(kind if why else "number", why, column)
    if column.null_count() == len(column):
        return ColumnKind("constant", "it is empty", column)
    if scores:
        return ColumnKind("text", "it holds text, not scores", column)
    if column.dtype.is_temporal():
        order = order_of(given)
        if order is None:
            return ColumnKind(
                "unknown", f"it holds {plain(column.dtype)}, which is no date", column
            )
        why = _why_uninformative(column)
        return ColumnKind("constant" if why else "date", why, moments_of(column, order), order)
    if not is_text(column):
        return ColumnKind("unknown", _why_uninformative(column), column)
    return _infer_text_kind(texts_of(column))


def _infer_text_kind(texts: polars.Series) -> ColumnKind:
    """Texts as numbers with a unit, as names, as sentences or as categories."""
    pl = polars_module()
    bare, units = without_unit(texts)
    known = _units(units)
    if bare.null_count() == texts.null_count() and len(known) == 1:
        numbers = bare.cast(pl.Float64, strict=False).alias(texts.name)
        why = _why_uninformative(numbers)
        return ColumnKind("constant" if why else "number", why, numbers, known[0])
    _refuse_mixed_numbers(texts, bare, units)
    why = _why_uninformative(texts)
    if why:
        return ColumnKind("constant", why, texts)
    rows = texts.drop_nulls()
    different = rows.n_unique()
    said = f"{counted(different, 'text')} in {counted(len(rows), 'row')}"
    if bare.null_count() == texts.null_count() and 1 < len(known) <= MOST_UNITS < different:
        return ColumnKind(
            "text", f"its numbers have several units, {quoted(known)}: convert them", texts
        )
    words: Any = rows.str.split(" ").list.len().median()
    is_prose = words >= SENTENCE
    if different >= NEARLY_ALL * len(rows) and different > 1:
        why = "it is free text" if is_prose else "it names the rows"
        return ColumnKind("text" if is_prose else "id", f"{why} ({said})", texts)
    if is_prose and different > MOST_CATEGORIES:
        return ColumnKind("text", f"it is free text ({said})", texts)
    why = _why_all_rare(texts)
    if not why and _share_of_common(rows) < COMMON:
        return ColumnKind("id", f"most of its texts are rare ({said}), as names are", texts)
    return ColumnKind("id" if why else "category", why, texts)


def _units(units: polars.Series) -> list[str]:
    """List the units that occur, the commonest first."""
    counts = units.drop_nulls().rename("unit").value_counts(sort=True)["unit"]
    return [unit for unit in counts.to_list() if unit]


def _why_uninformative(column: polars.Series) -> str:
    """Why nothing can be learnt from it, whatever it means; empty if something can."""
    if column.null_count() == len(column):
        return "it is empty"
    if not (is_number(column) or is_text(column) or column.dtype.is_temporal()):
        return f"it holds {plain(column.dtype)}, neither numbers nor text"
    if column.n_unique() == 1:
        value = column[0] if is_number(column) or is_text(column) else str(column[0])
        return f"it holds {quote(value)} in every row"
    return ""


def all_differ(numbers: polars.Series) -> bool:
    """Whether every row, of more than a few, has a whole number of its own."""
    whole = numbers.dtype.is_integer() and len(numbers) >= FEWEST_NUMBERS
    return whole and numbers.n_unique() == len(numbers)


def _why_identifier(numbers: polars.Series) -> str:
    """Why a column of numbers is not used though something could be learnt from it."""
    if not all_differ(numbers) or numbers.null_count():
        return ""
    values = numbers.cast(polars_module().Float64)
    steps = values.diff().drop_nulls()
    if steps.n_unique() == 1:
        return "it numbers the rows"
    if len(values) < FEWEST_CODES:
        return ""
    if (steps > 0).all() or (steps < 0).all():
        return "it counts on from row to row"
    span: Any = values.max()
    if span - values.min() < 2 * len(values):
        return "it numbers the rows, in another order"
    return ""


def _why_all_rare(texts: polars.Series) -> str:
    """Why texts give no feature; empty if they do."""
    most: Any = texts.drop_nulls().value_counts()["count"].max()
    return "" if (most or 0) >= FEWEST_ROWS else f"no text in it occurs in {FEWEST_ROWS} rows"


def _share_of_common(texts: polars.Series) -> float:
    """Share of rows whose text occurs in enough of them."""
    counts = texts.value_counts()["count"]
    return float(counts.filter(counts >= FEWEST_ROWS).sum()) / len(texts)


def _refuse_mixed_numbers(texts: polars.Series, bare: polars.Series, units: polars.Series) -> None:
    """Refuse a column of text that seems to be numbers with mistakes."""
    known = _units(units)[:1]
    wrong = texts.is_not_null() & (bare.is_null() | ~units.is_in(["", *known]))
    # Codes such as 7b and 12c are no numbers with units.
    single: Any = units.filter(bare.is_not_null()).is_in(["", *known]).mean() if known else 1.0
    rows = len(texts) - texts.null_count()
    if 0 < wrong.sum() <= (1 - MOSTLY) * rows and (single or 0) > NEARLY_ALL:
        name = quote(texts.name)
        raise ValueError(
            f"Column {name} holds numbers, but for {wrong.sum():,} of {rows:,} rows: "
            f"{first_cell(texts, wrong)}. Correct those cells, leave them empty where the value is "
            f"missing, or say what the column is: categories=[{name}], drop=[{name}], or "
            f"kinds={{{name}: 'number'}}, which takes them as missing"
        )
