"""How the columns of a table become features: settled by fitting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lpfuse._format import quote
from lpfuse.tables._cells import texts_of
from lpfuse.tables._kinds import (
    FEWEST_ROWS,
    MOST_CATEGORIES,
    Taken,
    all_differ,
    as_found,
    as_told,
    typed,
)
from lpfuse.tables._moments import ELAPSED, NO_DATE, SINCE, days_of, parts_of
from lpfuse.tables._polars import polars_module
from lpfuse.tables._preparation import TablePreparation

if TYPE_CHECKING:
    import polars


def learn_preparation(
    frame: polars.DataFrame,
    *,
    features: Sequence[str] = (),
    drop: Sequence[str] = (),
    categories: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
    scores: bool = False,
) -> TablePreparation:
    """Settle what each column is, and learn how it becomes features.

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
    kinds : mapping of str: str, optional
        What columns are, where that should not be found by looking at them: "number" (texts that
        are none are missing), "category", "date", "elapsed" (days since the first), or "id",
        "text" and "drop", which are left out.
    scores : bool, default=False
        Whether the columns are scores: no texts and no dates.

    Returns
    -------
    TablePreparation
        With at least one feature.

    Examples
    --------
    >>> import polars as pl
    >>> from lpfuse.tables import learn_preparation
    >>> frame = pl.DataFrame(
    ...     {
    ...         "site": ["north"] * 12,
    ...         "kind": ["a", "b"] * 6,
    ...         "bar": ["2.5 bar", None, "2.7 bar"] * 4,
    ...     }
    ... )
    >>> preparation = learn_preparation(frame)
    >>> preparation.feature_names
    ['bar', 'kind=a', 'kind=b']
    >>> preparation.kinds
    {'bar': 'number in bar', 'kind': 'category', 'site': 'constant'}
    >>> preparation.numbers(pl.DataFrame({"kind": ["b", "z"], "bar": [None, "9 bar"]}))
    array([[nan,  0.,  1.],
           [ 9., nan, nan]])
    """
    made = TablePreparation(scores=scores)
    told = dict.fromkeys(categories, "category") | dict.fromkeys(drop, "drop") | dict(kinds or {})
    for column in frame:
        name = column.name
        if features and name not in features and name not in (kinds or {}) and name not in drop:
            taken = Taken("unused", "not among the features asked for", column)
        elif name in told:
            taken = as_told(column, told[name])
        else:
            taken = as_found(column, asked_for=name in features, scores=scores)
        _enter(made, taken)
    _count_from_first_date(made)
    if not made.columns:
        reasons = "; ".join(f"{quote(name)}: {why}" for name, why in made.dropped.items())
        raise ValueError(f"No column is left to learn from ({reasons or 'there was none'}).")
    made.doubtful = [
        name
        for name in made.number_columns
        if not scores and name not in {*features, *told} and all_differ(typed(frame[name]))
    ]
    _learn_values(made, frame, forgiving=[n for n, kind in told.items() if kind == "number"])
    return made


def _enter(made: TablePreparation, taken: Taken) -> None:
    """Write down what a column is."""
    name, column = taken.column.name, taken.column
    if taken.why:
        made.dropped[name], made.kinds_dropped[name] = taken.why, taken.kind
        return
    if column.null_count():
        made.gaps[name] = column.null_count()
    if taken.kind == "category":
        made.text_columns.append(name)
    elif taken.kind == "number":
        made.number_columns.append(name)
        made.truths += [name] if column.dtype == polars_module().Boolean else []
        made.units |= {name: taken.detail} if taken.detail else {}
    else:
        made.orders[name] = taken.detail
        made.parts[name] = parts_of(column, taken.detail)
        if taken.kind == ELAPSED:
            made.parts[name].append(ELAPSED)
            made.origins[name] = float(np.nanmin(days_of(column)))


def _count_from_first_date(made: TablePreparation) -> None:
    """With several dates a row: the days between the first column of them and each other one."""
    dates = [name for name, order in made.orders.items() if order != NO_DATE]
    for name in dates[1:]:
        made.parts[name].append(SINCE)
        made.since[name] = dates[0]
    for name in [name for name, parts in made.parts.items() if not parts]:
        if name in made.since.values():
            continue
        del made.orders[name], made.parts[name]
        made.gaps.pop(name, None)
        made.kinds_dropped[name] = "date"
        made.dropped[name] = (
            "its dates have one time of day and one day of the week (if what counts is how long "
            f"ago it was, say kinds={{{quote(name)}: 'elapsed'}})"
        )


def _learn_values(
    made: TablePreparation, frame: polars.DataFrame, forgiving: Sequence[str]
) -> None:
    """Medians of numbers, and the texts of categories."""
    pl = polars_module()
    for name in made.text_columns:
        counts = texts_of(frame[name]).drop_nulls().rename("text").value_counts(name="rows")
        counts = counts.sort(["rows", "text"], descending=[True, False])
        common = counts.filter(pl.col("rows") >= FEWEST_ROWS).head(MOST_CATEGORIES)["text"]
        made.categories[name] = sorted(common.to_list())
        made.rare[name] = sorted(set(counts["text"].to_list()) - {*made.categories[name]})
    made.forgiving = [name for name in forgiving if name in made.number_columns]
    if made.number_columns:
        values = made.cells(frame).select(made.number_columns).fill_nan(None)
        made.medians = {column.name: float(column.median()) for column in values}  # type: ignore[arg-type]
