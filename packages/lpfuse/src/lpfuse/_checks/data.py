"""The one entrance for user data: features, scores, labels and sample weights.

What passes here is trusted everywhere below. What does not pass is refused with a message that
says what was expected, what came, and what to do.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import array_api_compat
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_array, validate_data

from lpfuse._arrays import (
    Array,
    Host,
    detached,
    is_blocked,
    is_numpy,
    largest,
    like,
    namespace,
    smallest,
    take,
    to_host,
)
from lpfuse._checks.messages import listed

PROBE_ROWS = 8  # rows compared before two whole columns are


class Table(NamedTuple):
    """How a table of the user's is called in messages."""

    letter: str
    noun: str
    shape: str
    mend: str  # what to do with columns that are not numbers


SCORES = Table("S", "Scores", "n samples × R detectors", "turn them into scores first")
FEATURES = Table("X", "Features", "n samples × d features", "encode them as numbers first")

ONLY_ANOMALIES = (
    "y holds only −1 (anomaly), but normal rows are needed too. Pass rows labelled +1 as well; if "
    "-1 marks the normal rows in your data, pass -y."
)


def check_scores(S: Any, *, estimator: Any = None) -> Array:
    """The n×R scores, finite and floating, in the array library that they came in.

    Parameters
    ----------
    S : array-like of shape (n, R)
        One column a detector, high = normal. NumPy arrays, lists and data frames of pandas or
        polars become NumPy arrays; arrays of torch and other array-API libraries stay what they
        are. float64 and float32 are kept, other numbers become float64.
    estimator : estimator, optional
        A fitted estimator whose columns, in number and names, `S` must have.

    Returns
    -------
    array of shape (n, R)
        `S` itself where nothing had to be converted.

    Examples
    --------
    >>> check_scores([[1, 2], [3, 4]])
    array([[1., 2.],
           [3., 4.]])
    """
    return _check_table(S, SCORES, estimator)


def check_features(X: Any, *, estimator: Any = None) -> Array:
    """The n×d features, finite and floating, in the array library that they came in.

    Parameters
    ----------
    X : array-like of shape (n, d)
        One row a sample. The same libraries and precisions are kept as in `check_scores`.
    estimator : estimator, optional
        A fitted estimator whose columns, in number and names, `X` must have.

    Returns
    -------
    array of shape (n, d)
        `X` itself where nothing had to be converted.

    Examples
    --------
    >>> check_features([[1, 2], [3, 4]])
    array([[1., 2.],
           [3., 4.]])
    """
    return _check_table(X, FEATURES, estimator)


def check_table(X: Any, *, estimator: Any = None) -> Any:
    """The rows as they will be handed to detectors: missing cells may stay, data frames too.

    Parameters
    ----------
    X : array-like of shape (n, d)
        A data frame of pandas or polars keeps its types, names and gaps: a detector may know what
        to do with them. Anything else must be numbers, or NaN.
    estimator : estimator, optional
        A fitted estimator whose columns, in number and names, `X` must have.

    Returns
    -------
    data frame, or ndarray of floats
        Of shape (n, d), with at least one row and one column.

    Examples
    --------
    >>> check_table([[1, 2], [3, float("nan")]])
    array([[ 1.,  2.],
           [ 3., nan]])
    """
    is_frame = hasattr(X, "columns") and hasattr(X, "shape")
    if not is_frame:
        foreign = array_api_compat.is_array_api_obj(X) and not is_numpy(X)
        checked = _check_numpy(to_host(detached(X)) if foreign else X, FEATURES, None)
        infinite = bool(np.isinf(checked).any())
    else:
        if 0 in X.shape:
            raise ValueError(f"X needs at least one row and one column, got {tuple(X.shape)}.")
        checked = X
        columns = (np.asarray(_safe_indexing(X, j, axis=1)) for j in range(X.shape[1]))
        infinite = any(column.dtype.kind == "f" and np.isinf(column).any() for column in columns)
    if infinite:
        raise ValueError(
            "X holds infinity, which is no measurement. Replace it by a number, or by NaN where "
            "the value is missing."
        )
    if estimator is None:
        remember_columns(BaseEstimator(), X)  # names that cannot be remembered are refused
    else:
        check_columns(X, estimator)
    return checked


def _check_table(values: Any, table: Table, estimator: Any) -> Array:
    if is_blocked(values):
        raise TypeError(
            f"{table.noun} of Dask are taken by LpFusion, FixedRule, TwoSidedMinMax, FusedDetector "
            f"and lpfuse's detectors. Here bring them into memory first: {table.letter}.compute()."
        )
    names = _column_names(values, estimator)
    foreign = array_api_compat.is_array_api_obj(values) and not is_numpy(values)
    checked = _check_array_api(values, table) if foreign else _check_numpy(values, table, names)
    if estimator is None:  # names that cannot be remembered are refused before anything is learnt
        validate_data(BaseEstimator(), values, skip_check_array=True)
    else:
        check_columns(values, estimator)
    _refuse_not_finite(checked, table, names)
    return checked


def check_columns(X: Any, estimator: Any) -> None:
    """Refuse a table whose columns, in number or names, are not those that an estimator knows.

    Parameters
    ----------
    X : array-like of shape (n, d)
        The table.
    estimator : estimator
        A fitted estimator.
    """
    validate_data(estimator, X, reset=False, skip_check_array=True)


def remember_columns(estimator: Any, S: Any) -> None:
    """Record the number and the names of the columns on an estimator.

    The last act of a ``fit``: one that was refused must not leave a trace.
    """
    validate_data(estimator, S, skip_check_array=True)


def column_names(S: Any) -> list[str] | None:
    """The names of the columns of a data frame; None for what has no names."""
    return _column_names(S, None)


def _check_numpy(values: Any, table: Table, names: Sequence[str] | None) -> Array:
    try:
        return check_array(
            values, input_name=table.letter, dtype=[np.float64, np.float32], ensure_all_finite=False
        )
    except (ValueError, TypeError) as error:
        columns = [] if issparse(values) else _columns_that_are_not_numbers(values)
        if not columns:
            raise
        told = listed(labels_of_columns(columns, names))
        raise type(error)(
            f"{table.noun} must be numbers, but {told} cannot be read as numbers ({error}). Leave "
            f"such columns out, or {table.mend}."
        ) from error


def _check_array_api(values: Array, table: Table) -> Array:
    """What scikit-learn checks for NumPy, with its words, for an array that stays where it is."""
    xp, noun = namespace(values), table.noun.lower()
    if xp.isdtype(values.dtype, "complex floating"):
        raise ValueError(f"Complex data not supported: {noun} must be real numbers.")
    if values.ndim != 2:
        raise ValueError(
            f"Expected a 2D array of {noun} ({table.shape}), got {values.ndim}D of shape "
            f"{tuple(values.shape)}. Reshape with (-1, 1) if it is one column, (1, -1) if one row."
        )
    if 0 in values.shape:
        raise ValueError(
            f"{table.noun} need at least one row and one column, got {tuple(values.shape)}."
        )
    values = detached(values)
    kept = values.dtype in (xp.float64, xp.float32)
    return values if kept else xp.astype(values, xp.float64)


def _refuse_not_finite(values: Array, table: Table, names: Sequence[str] | None) -> None:
    xp = namespace(values)
    with np.errstate(over="ignore", invalid="ignore"):
        # One pass without a temporary; a sum that only overflowed is told apart below.
        if bool(xp.isfinite(xp.sum(values))):
            return
    rows = to_host(xp.sum(xp.astype(~xp.isfinite(values), xp.int64), axis=0)).astype(int)
    columns = np.flatnonzero(rows)
    if columns.size == 0:
        return
    found = [
        f"{label} ({rows[column]} {'row' if rows[column] == 1 else 'rows'})"
        for label, column in zip(labels_of_columns(columns, names), columns, strict=True)
    ]
    raise ValueError(
        f"{table.noun} must be finite, but there is NaN or infinity in {listed(found)}. Drop "
        "those rows, or fill them in first (for instance with sklearn.impute.SimpleImputer)."
    )


def check_labels(y: Any, n: int, *, unlabelled: bool = False) -> Host | None:
    """The labels as +1.0 (normal) and −1.0 (anomaly), or None where all rows are normal.

    Parameters
    ----------
    y : array-like of shape (n,), or None
        +1 normal, −1 anomaly. Any other labels are refused with the line that maps them.
    n : int
        Number of rows of the scores.
    unlabelled : bool, default=False
        Whether 0 is allowed, for rows of which nothing is known.

    Examples
    --------
    >>> check_labels([1, -1, 1], 3)
    array([ 1., -1.,  1.])
    """
    if y is None:
        return None
    labels = _one_dimensional(y, n, "y", "label")
    known = (-1, 0, 1) if unlabelled else (-1, 1)
    if labels.dtype.kind not in "iuf" or not np.isin(labels, known).all():
        raise ValueError(how_to_label(labels.tolist(), unlabelled))
    if unlabelled and set(np.unique(labels)) == {0, 1}:
        warnings.warn(
            "y holds 1 and 0: taken as normal and unlabelled. If 1 means anomaly (as in PyOD) or 0 "
            "does, pass -1 for anomalies: y = np.where(y == 1, -1, 1) or np.where(y == 0, -1, 1).",
            UserWarning,
            stacklevel=3,
        )
    if not (labels >= 0 if unlabelled else labels > 0).any():
        raise ValueError(ONLY_ANOMALIES)
    return labels.astype(np.float64)


def labels_beside(y: Any, S: Array) -> Array | None:
    """The labels of rows S as `check_labels` wants them, in the library and place of S.

    Labels that are on the same device are looked at there.
    """
    n = int(S.shape[0])
    if _is_beside(y, S, "y") and tuple(y.shape) == (n,):
        xp = namespace(y)
        labels = xp.astype(y, xp.float64)
        if bool(xp.all(xp.abs(labels) == 1.0)) and bool(xp.any(labels > 0.0)):
            return labels
    labels = check_labels(y, n)
    return None if labels is None else like(labels, S)


def weights_beside(sample_weight: Any, S: Array) -> Array | None:
    """The weights of rows S as `check_sample_weight` wants them, in the library and place of S."""
    n = int(S.shape[0])
    if _is_beside(sample_weight, S, "sample_weight") and tuple(sample_weight.shape) == (n,):
        xp = namespace(sample_weight)
        weights = xp.astype(sample_weight, xp.float64)
        usable = xp.isfinite(weights) & (weights >= 0.0)
        if bool(xp.all(usable)) and bool(xp.any(weights > 0.0)):
            return weights
    weights = check_sample_weight(sample_weight, n)
    return None if weights is None else like(weights, S)


def _is_beside(vector: Any, S: Array, name: str) -> bool:
    """Whether a vector is of the library and device of S; another device is refused.

    What NumPy knows, lists and data frames included, may go with rows on any device.
    """
    if is_numpy(vector) or is_blocked(vector) or not array_api_compat.is_array_api_obj(vector):
        return False
    here, there = array_api_compat.device(S), array_api_compat.device(vector)
    library, other = namespace(S).__name__, namespace(vector).__name__
    if library != other or here != there:
        raise ValueError(
            f"S and {name} must be on one device, got S on {here!s} and {name} on {there!s}"
            f"{'' if library == other else ' of another array library'}. Move {name} to where S "
            "is, or pass it as a NumPy array."
        )
    return not is_numpy(S)


def how_to_label(labels: list[Any], unlabelled: bool) -> str:
    """What is wrong with labels, and the line that mends them."""
    expected = "+1 (normal)" + (
        ", -1 (anomaly) or 0 (unlabelled)" if unlabelled else " or -1 (anomaly)"
    )
    missing = sum(label is None or label != label for label in labels)
    if missing:
        mend = "Pass 0 for those rows" if unlabelled else "Drop those rows from both S and y"
        return (
            f"y must be {expected} in every row, but {missing} of {len(labels)} labels are missing "
            f"(NaN or None). {mend}."
        )
    values = sorted(set(labels), key=lambda value: (str(type(value)), value))
    chosen = f"y == {values[-1]!r}" if not isinstance(values[-1], bool) else "y"
    return (
        f"y must be {expected}, got {listed(map(repr, values))}.\n"
        f"If {values[-1]!r} means anomaly (as 1 does in PyOD): y = np.where({chosen}, -1, 1)\n"
        f"If {values[-1]!r} means normal: y = np.where({chosen}, 1, -1)"
    )


def check_values(values: Any, name: str, *, may_miss: bool = False) -> Host:
    """One number a row, as a one-dimensional float64 array.

    Parameters
    ----------
    values : array-like of shape (n,)
        What came.
    name : str
        What it is called.
    may_miss : bool, default=False
        Whether NaN may stand for a number that is missing.

    Examples
    --------
    >>> check_values([1, 2], "scores")
    array([1., 2.])
    """
    foreign = array_api_compat.is_array_api_obj(values) and not is_numpy(values)
    array: Host = check_array(
        to_host(values) if foreign else values,
        dtype=np.float64,
        ensure_2d=False,
        allow_nd=True,
        ensure_all_finite=False,
        ensure_min_samples=0,
        input_name=name,
    )
    if array.ndim != 1:
        raise ValueError(
            f"{name} must hold one number for each row: expected one dimension, got shape "
            f"{array.shape}."
        )
    missing = np.isnan(array)
    if missing.any() and not may_miss:
        raise ValueError(
            f"{name} must be numbers, but {missing.sum()} of {array.size} are NaN. "
            "Leave those rows out."
        )
    return array


def check_row_names(names: Any, n: int, argument: str) -> NDArray[Any] | None:
    """One name a row, such as the group that it belongs to; None where there are none.

    Parameters
    ----------
    names : array-like of shape (n,), or None
        Numbers or strings.
    n : int
        Number of rows.
    argument : str
        What it is called.

    Examples
    --------
    >>> check_row_names(["a", "b", "a"], 3, "groups")
    array(['a', 'b', 'a'], dtype='<U1')
    """
    return None if names is None else _one_dimensional(names, n, argument, "name")


def check_sample_weight(sample_weight: Any, n: int) -> Host | None:
    """The weight of each row: finite, not negative, not all zero; None where all weigh the same.

    Parameters
    ----------
    sample_weight : array-like of shape (n,), or None
        The factors ``c_i`` of the rows' losses.
    n : int
        Number of rows of the scores.

    Examples
    --------
    >>> check_sample_weight([1, 0, 2], 3)
    array([1., 0., 2.])
    """
    if sample_weight is None:
        return None
    weights = _one_dimensional(sample_weight, n, "sample_weight", "number")
    if weights.dtype.kind not in "biuf":
        raise ValueError(f"sample_weight must be numbers, got {weights.dtype} values.")
    weights = weights.astype(np.float64)
    refused = ~(np.isfinite(weights) & (weights >= 0))
    if refused.any():
        raise ValueError(
            f"sample_weight must be finite and not negative, got {weights[refused][0]} in row "
            f"{np.flatnonzero(refused)[0]} ({refused.sum()} such rows). Use 0 to leave a row out."
        )
    if not weights.any():
        raise ValueError("sample_weight is zero in every row; give some row a weight above zero.")
    return weights


def warn_about_columns(S: Array, names: Sequence[str] | None = None) -> None:
    """Warn of detectors that add nothing: no spread, or the same scores as another one.

    Parameters
    ----------
    S : array of shape (n, R)
        Checked scores.
    names : sequence of str, optional
        Names of the columns; their positions are told otherwise.
    """
    flat = _flat_columns(S)
    warn_about_flat(flat, names, stacklevel=4)
    warn_about_copies(S, flat, names, stacklevel=4)


def warn_about_flat(
    flat: NDArray[np.bool_], names: Sequence[str] | None, stacklevel: int = 3
) -> None:
    """Warn of columns that are the same for every row."""
    if flat.any():
        warnings.warn(
            f"Scores have no spread in {listed(labels_of_columns(np.flatnonzero(flat), names))}: a "
            "detector that says the same of every row carries no information. Leave it out.",
            UserWarning,
            stacklevel=stacklevel,
        )


def warn_about_copies(
    S: Array, flat: NDArray[np.bool_], names: Sequence[str] | None, stacklevel: int = 3
) -> None:
    """Warn of columns that repeat another one; those without spread are not looked at."""
    pairs = _equal_columns(S, np.flatnonzero(~flat))
    if pairs:
        first, second = zip(*pairs, strict=True)
        told = [
            f"{copy} = {original}"
            for original, copy in zip(
                labels_of_columns(first, names), labels_of_columns(second, names), strict=True
            )
        ]
        warnings.warn(
            f"Some detectors give the same scores twice: {listed(told)}. The copies count "
            "double; leave them out.",
            UserWarning,
            stacklevel=stacklevel,
        )


def no_spread(low: Host, high: Host) -> NDArray[np.bool_]:
    """Whether [low, high] is a point, but for rounding."""
    result: NDArray[np.bool_] = high - low <= 1e-9 * np.maximum(np.abs(low), np.abs(high))
    return result


def _flat_columns(S: Array) -> NDArray[np.bool_]:
    """Which columns have no spread; whole columns are read only where a few rows show none."""
    probe = _probe(S)
    flat = no_spread(probe.min(axis=0), probe.max(axis=0))
    for column in np.flatnonzero(flat):
        scores = S[:, int(column)]
        flat[column] = no_spread(np.array(smallest(scores)), np.array(largest(scores)))
    return flat


def _probe(S: Array) -> Host:
    """A few rows, spread evenly over all."""
    rows = sorted({round(row) for row in np.linspace(0, S.shape[0] - 1, PROBE_ROWS)})
    return to_host(take(S, np.array(rows)))


def _equal_columns(S: Array, columns: Iterable[int]) -> list[tuple[int, int]]:
    """Pairs (original, copy) of equal columns; whole columns are read only if a few rows agree."""
    xp = namespace(S)
    probe = _probe(S)
    originals: dict[tuple[float, ...], list[int]] = {}
    pairs = []
    for column in columns:
        alike = originals.setdefault(tuple(probe[:, column]), [])
        same = (other for other in alike if bool(xp.all(S[:, other] == S[:, column])))
        original = next(same, None)
        if original is None:
            alike.append(int(column))
        else:
            pairs.append((original, int(column)))
    return pairs


def _one_dimensional(values: Any, n: int, argument: str, noun: str) -> NDArray[Any]:
    """`values` as a NumPy array with one entry a row of the scores."""
    if is_blocked(values):
        raise TypeError(
            f"{argument} is a Dask collection, but the rows are in memory: pass "
            f"{argument}.compute()."
        )
    foreign = array_api_compat.is_array_api_obj(values) and not is_numpy(values)
    array = to_host(values) if foreign else np.asarray(values)
    if array.dtype == object:
        array = np.array(array.tolist())  # Python numbers in an object array are numbers
    if array.shape != (n,):
        remedy = f" Pass {argument}.ravel()." if array.size == n and array.ndim > 1 else ""
        raise ValueError(
            f"{argument} must hold one {noun} for each row: expected shape ({n},), "
            f"got {array.shape}.{remedy}"
        )
    return array


def _column_names(S: Any, estimator: Any) -> list[str] | None:
    names = getattr(S, "columns", getattr(estimator, "feature_names_in_", None))
    return None if names is None else [str(name) for name in names]


def _columns_that_are_not_numbers(S: Any) -> list[int]:
    cells = np.asarray(S, dtype=object)
    if cells.ndim != 2:
        return []
    return [j for j in range(cells.shape[1]) if not _are_numbers(cells[:, j])]


def _are_numbers(cells: NDArray[np.object_]) -> bool:
    try:
        cells.astype(np.complex128)  # complex scores are refused for being complex
    except (ValueError, TypeError):
        return False
    return True


def labels_of_columns(columns: Iterable[int], names: Sequence[str] | None) -> list[str]:
    """How columns are called in messages: by name, or by position."""
    return [f"column {names[j]!r}" if names is not None else f"column {j}" for j in columns]
