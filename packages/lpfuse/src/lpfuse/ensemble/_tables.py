"""Columns of what users bring, by name or number, and what only data frames need."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.impute import SimpleImputer
from sklearn.utils import _safe_indexing

from lpfuse._arrays.operations import Host
from lpfuse._format import quote
from lpfuse._validation.params import column_labels, listed, quoted
from lpfuse._validation.tables import column_names

Table = Any  # an n×d array of floats, or a data frame
Index = NDArray[np.intp]


def joined_rows(parts: Sequence[Table]) -> Table:
    """Arrays, or data frames of one library, one below the other."""
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    if not hasattr(parts[0], "iloc"):
        import polars

        return polars.concat(parts, how="vertical_relaxed")
    import pandas

    return pandas.concat(parts, ignore_index=True)


def column_positions(columns: Any, X: Table, name: str) -> Index | None:
    """Positions of the columns that a detector shall see.

    Parameters
    ----------
    columns : None, str, int, slice, sequence or callable
        All; a name or a position, or several; a mask; a function of `X` that gives one of these.
    X : table
        The training rows.
    name : str
        The detector, for the message of a refusal.
    """
    if callable(columns):
        columns = columns(X)
    if columns is None:
        return None
    d = X.shape[1]
    if isinstance(columns, slice):
        found = np.arange(d)[_slice_of_positions(columns, X, name)]
    else:
        several = [columns] if isinstance(columns, str | Integral) else columns
        found = _positions_of_several(several, X, name)
    if found.size == 0:
        raise ValueError(
            f"Detector {quote(name)} was given no columns, {quote(columns)}: name one."
        )
    return found.astype(np.intp)


def _positions_of_several(wanted: Any, X: Table, name: str) -> Index:
    d = X.shape[1]
    try:
        listed = list(wanted)
        if any(isinstance(column, str) for column in listed):
            listed = _positions_of_names(listed, X, name)
        return np.arange(d)[listed]
    except (IndexError, TypeError) as error:
        raise ValueError(
            f"Detector {quote(name)} wants columns {quote(wanted)} of a table with {d} columns "
            f"(counted from 0): {error}. Columns are names, positions, a mask, a slice or a "
            "function of X."
        ) from error


def _slice_of_positions(wanted: slice, X: Table, name: str) -> slice:
    """A slice of names, as in scikit-learn with its last one, or of positions."""
    start, stop = wanted.start, wanted.stop
    if isinstance(start, str):
        (start,) = _positions_of_names([start], X, name)
    if isinstance(stop, str):
        stop = _positions_of_names([stop], X, name)[0] + 1
    return slice(start, stop, wanted.step)


def _positions_of_names(wanted: Sequence[Any], X: Table, name: str) -> list[int]:
    known = column_names(X)
    if known is None:
        raise ValueError(
            f"Detector {quote(name)} wants columns by name ({quoted(wanted)}), but X has "
            "no names. Pass a data frame, or positions."
        )
    unknown = [column for column in wanted if column not in known]
    if unknown:
        raise ValueError(
            f"Detector {quote(name)} wants columns that X does not have: "
            f"{quoted(unknown)}. It has {quoted(known)}."
        )
    return [known.index(column) for column in wanted]


def missing_cells(X: Table) -> NDArray[np.bool_]:
    """Which cells are NaN, or whatever else a data frame calls missing."""
    if isinstance(X, np.ndarray):
        return np.isnan(X)
    return np.column_stack([_missing(_column(X, j)) for j in range(X.shape[1])])


def _missing(column: NDArray[Any]) -> NDArray[np.bool_]:
    if column.dtype.kind in "biu":
        return np.zeros(len(column), dtype=bool)
    if column.dtype.kind in "fcmM":
        return np.isnat(column) if column.dtype.kind in "mM" else np.isnan(column)
    return np.array([_is_missing(cell) for cell in column.tolist()])


def _is_missing(cell: Any) -> bool:
    """None, or what differs from itself: NaN, NaT; pandas' NA refuses to say."""
    try:
        return cell is None or bool(cell != cell)
    except TypeError:
        return True


def empty_columns(X: Table) -> Index:
    """Positions of the columns without a single value."""
    first = np.flatnonzero(missing_cells(_safe_indexing(X, np.arange(1), axis=0))[0])
    some = missing_cells(_safe_indexing(X, first, axis=1)) if len(first) else np.empty((1, 0))
    return first[some.all(axis=0)]


def warn_of_empty_columns(X: Table, columns: Index, done: str) -> None:
    """Name columns without a value, and what is done about it; none: nothing is said."""
    if len(columns):
        told = listed(column_labels(columns, column_names(X)))
        text = f"There is no value in {told} of {X.shape[0]:,} rows: {done}."
        warnings.warn(text, UserWarning, stacklevel=5)


NO_COMPLETE_ROW = (
    "Detectors that refuse missing cells need complete rows, but every row has a missing cell. "
    "Fill them in: make_pipeline(lpfuse.views.FilledGaps(), detector)."
)


def numeric_columns(X: Table) -> Host:
    """The columns that hold numbers, as an array of floats."""
    if isinstance(X, np.ndarray):
        return X.astype(np.float64, copy=False)
    columns = [_column(X, j) for j in range(X.shape[1])]
    numeric = [column.astype(np.float64) for column in columns if column.dtype.kind in "biuf"]
    if not numeric:
        raise ValueError("X has no column of numbers, which this needs. Encode some as numbers.")
    return np.column_stack(numeric)


def fit_imputer(X: Table, labels: Host) -> SimpleImputer:
    """For a fusion that looks at features: puts missing cells at the mean of rows not anomalous."""
    imputer = SimpleImputer(keep_empty_features=True)
    return imputer.fit(numeric_columns(X)[labels >= 0])


def impute_features(imputer: SimpleImputer, X: Table) -> Host:
    """The columns of numbers, with missing cells filled in."""
    return np.asarray(imputer.transform(numeric_columns(X)))


def replace_numbers(X: Table, numbers: Host) -> Table:
    """The table with other values in its columns of numbers."""
    if isinstance(X, np.ndarray):
        return numbers.astype(X.dtype)
    names = list(X.columns)
    numeric = [j for j in range(X.shape[1]) if _column(X, j).dtype.kind in "biuf"]
    return _with_columns(X, {names[j]: numbers[:, k] for k, j in enumerate(numeric)})


def frame_with_scores(X: Table, scores: Host, names: Sequence[str]) -> Table:
    """The data frame and, to its right, a column of scores for each name."""
    d = X.shape[1]
    named = all(isinstance(name, str) for name in X.columns)  # numbers go on as numbers
    keys = [_free(f"score of {name}", X) if named else d + j for j, name in enumerate(names)]
    return _with_columns(X, {key: scores[:, j] for j, key in enumerate(keys)})


def _free(name: str, X: Table) -> str:
    """The name, marked where a column has it already."""
    return _free(f"{name}′", X) if name in X.columns else name


def _with_columns(X: Table, columns: dict[Any, Host]) -> Table:
    """A data frame with some columns added or replaced."""
    if hasattr(X, "assign"):  # pandas
        copy = X.copy()
        for name, values in columns.items():
            copy[name] = values
        return copy
    import polars  # the frame at hand is one of its own

    return X.with_columns(**{name: polars.Series(values) for name, values in columns.items()})


def _column(X: Table, j: int) -> NDArray[Any]:
    return np.asarray(_safe_indexing(X, j, axis=1))
