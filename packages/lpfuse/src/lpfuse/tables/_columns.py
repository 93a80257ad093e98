"""What each column of a table is taken as, or why it is left out: settled by fitting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sklearn.compose import ColumnTransformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from lpfuse._checks.messages import counted
from lpfuse._format import plain, quote
from lpfuse.tables._preparation import TablePreparation, first_cell, is_number, is_text, texts_of
from lpfuse.tables._reading import polars_module

if TYPE_CHECKING:
    import polars

# All chosen by hand:
FEWEST_ROWS = 5  # that share a text, for a feature of its own: one for each of five folds
MOST_CATEGORIES = 100  # of a column that have a feature of their own, the commonest
NEARLY_ALL = 0.9  # share of different texts from which a column names the rows
MOSTLY = 0.5  # share of numbers from which the texts among them look like mistakes
FEWEST_NUMBERS = 10  # rows from which 1, 2, 3, … is no coincidence


def learn_preparation(
    frame: polars.DataFrame,
    *,
    features: Sequence[str] = (),
    drop: Sequence[str] = (),
    categories: Sequence[str] = (),
    scores: bool = False,
) -> TablePreparation:
    """Settle what each column is, and fit the transformers that make features of it.

    Parameters
    ----------
    frame : polars.DataFrame
        The rows to learn from, without their label. Texts that all are numbers count as such.
    features : sequence of str, default=()
        The columns to use, even if they look like row numbers; none: all that are of use.
    drop : sequence of str, default=()
        Columns to leave out.
    categories : sequence of str, default=()
        Columns whose numbers are names of something.
    scores : bool, default=False
        Whether the columns are scores: no texts, and what is missing stays missing.

    Returns
    -------
    TablePreparation
        With at least one feature.

    Examples
    --------
    >>> import polars as pl
    >>> from lpfuse.tables import learn_preparation
    >>> frame = pl.DataFrame(
    ...     {"site": ["north"] * 12, "kind": ["a", "b"] * 6, "bar": [2.5, None, 2.7] * 4}
    ... )
    >>> preparation = learn_preparation(frame)
    >>> preparation.feature_names
    ['bar', 'bar is missing', 'kind=a', 'kind=b']
    >>> preparation.dropped
    {'site': "it holds 'north' in every row"}
    >>> preparation.numbers(pl.DataFrame({"kind": ["b", "z"], "bar": [None, 9.0]}))
    array([[2.6, 1. , 0. , 1. ],
           [9. , 0. , 0. , 0. ]])
    """
    made = TablePreparation(scores=scores)
    for column in frame:
        name, asked_for = column.name, column.name in features
        if name in drop:
            why = "as asked"
        elif features and not asked_for:
            why = "not among the features asked for"
        elif name in categories:
            column = texts_of(column)
            why = _unused_texts(column)
        else:
            column = typed(column)
            why = _unused(column, asked_for=asked_for, scores=scores)
        if why:
            made.dropped[name] = why
            continue
        if column.null_count():
            made.gaps[name] = column.null_count()
        if name in categories or not is_number(column):
            made.text_columns.append(name)
            continue
        made.number_columns.append(name)
        made.truths += [name] if column.dtype == polars_module().Boolean else []
        doubtful = _all_differ(column) and not asked_for and not scores
        made.doubtful += [name] if doubtful else []
    if not made.columns:
        reasons = "; ".join(f"{quote(name)}: {why}" for name, why in made.dropped.items())
        raise ValueError(f"No column is left to learn from ({reasons or 'there was none'}).")
    made.encoder = _encoder(made).fit(made.cells(frame))
    return made


def _encoder(made: TablePreparation) -> ColumnTransformer:
    """What makes features of columns, not yet fitted."""
    impute = SimpleImputer(strategy="median", add_indicator=True)
    one_hot = make_pipeline(
        # `TablePreparation.numbers` undoes what this fills in: a missing text has no category.
        SimpleImputer(missing_values=None, strategy="most_frequent"),
        OneHotEncoder(
            min_frequency=FEWEST_ROWS,
            max_categories=MOST_CATEGORIES + 1,  # with the one that rarer texts share
            handle_unknown="infrequent_if_exist",
            sparse_output=False,
        ),
    )
    gaps = MissingIndicator(missing_values=None, error_on_new=False)
    groups = [("numbers", "passthrough" if made.scores else impute, made.number_columns)]
    if made.text_columns:
        groups += [("texts", one_hot, made.text_columns), ("gaps", gaps, made.text_columns)]
    return ColumnTransformer(groups, sparse_threshold=0)


def typed(column: polars.Series) -> polars.Series:
    """A column as what all its texts spell: numbers, truth values, or dates and times.

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
    for parse in ("to_date", "to_datetime", "to_time"):
        # Ten cells first: they rule most columns of text out, at little cost.
        if _moments(column.drop_nulls().head(10), parse) is not None:
            moments = _moments(column, parse)
            if moments is not None:
                return moments
    return column


def _moments(texts: polars.Series, parse: str) -> polars.Series | None:
    """Texts as dates or times, if all of them are."""
    pl = polars_module()
    try:
        moments: polars.Series = getattr(texts.str, parse)(strict=False)
    except pl.exceptions.PolarsError:  # no format fits
        return None
    return moments if moments.null_count() == texts.null_count() else None


# -------------------------------------------------------------------- reasons to leave a column out


def _unused(column: polars.Series, *, asked_for: bool, scores: bool) -> str:
    """Why a column is not used; empty if it is."""
    if is_number(column):
        return _useless(column) or ("" if asked_for else _numbers_rows(column))
    if scores:
        return _useless(column) or "it holds text, not scores"
    _refuse_numbers_among(column)
    return _unused_texts(column)


def _useless(column: polars.Series) -> str:
    """Why nothing can be learnt from it, whatever it means; empty if something can."""
    if column.dtype.is_temporal():
        return "it holds dates or times (put a number in their place, such as days since the first)"
    if column.null_count() == len(column):
        return "it is empty"
    if not is_number(column) and not is_text(column):
        return f"it holds {plain(column.dtype)}, neither numbers nor text"
    if column.n_unique() == 1:
        return f"it holds {quote(column[0])} in every row"
    return ""


def _all_differ(numbers: polars.Series) -> bool:
    """Whether every row, of more than a few, has a whole number of its own."""
    whole = numbers.dtype.is_integer() and len(numbers) >= FEWEST_NUMBERS
    return whole and numbers.n_unique() == len(numbers)


def _numbers_rows(numbers: polars.Series) -> str:
    """Why a column of numbers is not used though something could be learnt from it."""
    if not _all_differ(numbers) or numbers.null_count():
        return ""
    steps = numbers.cast(polars_module().Float64).diff().drop_nulls()
    return "it numbers the rows" if steps.n_unique() == 1 else ""


def _unused_texts(column: polars.Series) -> str:
    """Why a column of texts is not used; empty if it is."""
    why = _useless(column)
    if why:
        return why
    counts = texts_of(column).drop_nulls().rename("text").value_counts(name="rows")
    different, rows = counts.height, len(column) - column.null_count()
    if different >= NEARLY_ALL * rows and different > 1:
        return f"it names the rows ({counted(different, 'text')} in {counted(rows, 'row')})"
    enough = (counts["rows"] >= FEWEST_ROWS).any()
    return "" if enough else f"no text in it occurs in {FEWEST_ROWS} rows"


def _refuse_numbers_among(column: polars.Series) -> None:
    """Refuse a column of text that seems to be numbers with mistakes."""
    pl = polars_module()
    if not is_text(column):
        return
    texts = texts_of(column)
    wrong = texts.is_not_null() & texts.cast(pl.Float64, strict=False).is_null()
    rows = len(texts) - texts.null_count()
    if 0 < wrong.sum() <= (1 - MOSTLY) * rows:
        name = quote(column.name)
        raise ValueError(
            f"Column {name} holds numbers, but for {wrong.sum():,} of {rows:,} rows: "
            f"{first_cell(texts, wrong)}. Correct those cells, leave them empty where the value is "
            f"missing, or say what the column is: categories=[{name}], drop=[{name}]"
        )
