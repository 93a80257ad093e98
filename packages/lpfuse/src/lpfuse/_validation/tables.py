"""Validation of tables: scores, features, data frames, and warnings about columns.

Checked tables are trusted everywhere below. A message says what was expected, what was passed and
what to do.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import array_api_compat
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_array, validate_data

from lpfuse._arrays import operations as ops
from lpfuse._arrays.operations import Array, Host
from lpfuse._format import plain
from lpfuse._validation import params
from lpfuse._validation.params import Table

# --------------------------------------------------------------------------------------------------
# Reversed score columns: high for anomalies although high = normal is expected.
#
# A column is never reversed silently: a warning names it. With labelled anomalies the area under
# the ROC curve decides; without, the rank correlation with the other columns.


Index = NDArray[np.intp]

LEVEL = 1e-4  # significance level of the test by labels
# Without labels: largest mean rank correlation with the other columns, and the number of standard
# errors. On 71 to 500 normal rows of each of 120 real tables, pools of 2, 3, 5 and 10 of ten
# detectors were flagged in 0.2, 0.2, 0.3 and 0.0 % of the draws; with one of them reversed, in 90,
# 94, 94 and 95 %.
MAX_CORRELATION, STANDARD_ERRORS = -0.3, 4.0
OPPOSITE = "put rows in the opposite order of the others, so one side is reversed"
MOST_ROWS = 2000  # compared rows of each class; more give the same result


class DirectionWarning(UserWarning):
    """Scores of some columns seem to be high for anomalies, though high = normal is expected."""


class ReversedColumns(NamedTuple):
    """Columns that seem to be reversed, and the reason without their names."""

    columns: Index
    why: str


NOTHING = ReversedColumns(np.empty(0, dtype=np.intp), "")


def reversed_columns(
    S: Array, y: Host | None, known: NDArray[np.bool_] | None = None
) -> ReversedColumns:
    """Return the columns that seem to be reversed.

    Parameters
    ----------
    S : array of shape (n, R)
        Scores without gaps, of any array library.
    y : ndarray of shape (n,) or None
        +1 or −1; None: all rows are normal.
    known : ndarray of shape (R,), optional
        Columns whose direction is known, such as those of scikit-learn's detectors; they are not
        flagged without labels.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> common = rng.normal(size=(200, 1))
    >>> S = (common + rng.normal(size=(200, 3))) * [1, 1, -1]
    >>> reversed_columns(S, None).columns
    array([2])
    """
    if y is not None and (y < 0).any():
        normal, anomalies = (np.flatnonzero(side) for side in (y > 0, y < 0))
        return _reversed_by_labels(
            *(ops.take(S, rows[_evenly_spaced(len(rows))]) for rows in (normal, anomalies))
        )
    return _reversed_by_agreement(ops.take(S, _evenly_spaced(int(S.shape[0]))), known)


def _evenly_spaced(n: int) -> Index:
    """Return at most `MOST_ROWS` evenly spaced positions among n rows."""
    return np.linspace(0, n - 1, min(n, MOST_ROWS)).astype(np.intp)


def _reversed_by_labels(normal: Array, anomalies: Array) -> ReversedColumns:
    """Return columns that score anomalies above normal rows (one-sided Mann–Whitney test)."""
    n, m = int(normal.shape[0]), int(anomalies.shape[0])
    ranks = ops.column_ranks(ops.concatenate([normal, anomalies]))[n:, :]
    areas = 1 - (ops.to_host(ops.namespace(ranks).sum(ranks, axis=0)) - m * (m + 1) / 2) / (m * n)
    from scipy.stats import mannwhitneyu

    doubtful = np.flatnonzero(areas < 0.5)
    chances = [
        mannwhitneyu(
            ops.to_host(anomalies[:, int(j)]), ops.to_host(normal[:, int(j)]), alternative="greater"
        ).pvalue
        for j in doubtful
    ]
    found = doubtful[np.array(chances, dtype=float) < LEVEL]
    if len(found) == 0:
        return NOTHING
    aucs = params.listed([f"{areas[j]:.2f}" for j in found])
    return ReversedColumns(
        found, f"are higher for known anomalies than for normal rows (AUC {aucs})"
    )


def _reversed_by_agreement(S: Array, known: NDArray[np.bool_] | None) -> ReversedColumns:
    """Return columns that put rows in the opposite order of the others.

    The first eigenvector of the rank correlations splits the columns into two sides. The side with
    more columns of known direction is correct; without any, the larger side is, and of equal sides
    neither.
    """
    n, R = S.shape
    known = np.zeros(R, dtype=bool) if known is None else known
    ranks = ops.column_ranks(S) - 0.5 * (n + 1)  # less their mean
    together = ops.to_host(ranks.T @ ranks)
    lengths = np.sqrt(np.diag(together))
    moving = lengths > 0
    if n < 3 or moving.sum() < 2 or known.all():
        return NOTHING
    together /= np.outer(*[np.where(moving, lengths, 1.0)] * 2)
    first = np.linalg.eigh(together)[1][:, -1] >= 0
    sides = [moving & first, moving & ~first]
    if not all(side.any() for side in sides):
        return NOTHING
    across = np.where(first, *(together[:, side].mean(axis=1) for side in sides[::-1]))
    enough = min(MAX_CORRELATION, -STANDARD_ERRORS / np.sqrt(n - 1))
    suspects = moving & ~known & (across <= enough)
    votes = [int((side & known).sum() if known.any() else side.sum()) for side in sides]
    if votes[0] != votes[1]:
        suspects &= sides[int(np.argmin(votes))]
    found = np.flatnonzero(suspects)
    if len(found) == 0:
        return NOTHING
    how = "contradict each other" if all((side & suspects).any() for side in sides) else OPPOSITE
    correlations = params.listed([f"{across[j]:.2f}".replace("-", "−") for j in found])
    return ReversedColumns(found, f"{how} (rank correlation {correlations})")


def warn_reversed_columns(
    S: Host,
    y: Host | None,
    names: Sequence[str],
    remedy: str,
    known: NDArray[np.bool_] | None = None,
    stacklevel: int = 3,
) -> None:
    """Warn about columns that seem to be reversed, with their names and the remedy."""
    found = reversed_columns(S, y, known)
    if len(found.columns):
        _warn(found, [names[j] for j in found.columns], remedy, stacklevel + 1)


_unheard = ContextVar("unheard", default=False)


@contextmanager
def unheard_warnings() -> Iterator[None]:
    """Ignore warnings, and do not look for what scores would give rise to."""
    before = _unheard.set(True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        _unheard.reset(before)


def warn_doubtful_scores(S: Array, labels: Array | None, names: Sequence[str] | None) -> None:
    """Warn about reversed columns and unequal scales of checked scores of any array library."""
    if _unheard.get():
        return
    y = None
    if labels is None:
        rows = _evenly_spaced(int(S.shape[0]))
    else:
        # Labels on a device stay there: only those of the compared rows are copied.
        labels = labels if ops.on_accelerator(labels) else ops.to_host(labels)
        of_classes = [ops.nonzero(side) for side in (labels > 0, labels < 0)]
        some = [_evenly_spaced(int(each.shape[0])) for each in of_classes]
        y = np.repeat([1.0, -1.0], [len(each) for each in some])
        rows = ops.concatenate([ops.take(*each) for each in zip(of_classes, some, strict=True)])
    chosen = ops.take(S, rows)
    found = reversed_columns(chosen if ops.on_accelerator(chosen) else ops.to_host(chosen), y)
    if len(found.columns):
        columns = params.column_labels(found.columns.tolist(), names)
        _warn(found, columns, "negate it: S[:, j] = -S[:, j]", stacklevel=5)
    warn_unequal_scales(ops.to_host(chosen)[: None if y is None else int((y > 0).sum())], names)


def _warn(found: ReversedColumns, names: Sequence[str], remedy: str, stacklevel: int) -> None:
    text = f"Scores of {', '.join(names)} {found.why}. Does a high score mean normal there? If not,"
    warnings.warn(f"{text} {remedy}", DirectionWarning, stacklevel=stacklevel)


FAR_APART, FEW_ROWS = 100, 20  # chosen by hand: ratio of spreads, and rows that tell nothing of it


def warn_unequal_scales(S: Host, names: Sequence[str] | None) -> None:
    """Warn where some scores of normal rows spread a hundred times as much as others.

    Scaled columns can differ so by one of three ranges, because of ties or heavy tails: by all,
    by the 95 % or by the 50 % in the middle. Columns that were never scaled differ by each.
    """
    if len(S) < FEW_ROWS:
        return
    ends = np.quantile(S, [0.0, 0.025, 0.25, 0.75, 0.975, 1.0], axis=0)
    moving = np.flatnonzero(~is_constant(ends[2], ends[3]))
    if len(moving) < 2:
        return
    spreads = (ends[::-1] - ends)[:3]
    wide, narrow = (int(moving[f(spreads[2, moving])]) for f in (np.argmax, np.argmin))
    if (spreads[:, wide] > FAR_APART * spreads[:, narrow]).all():
        columns = params.column_labels([wide, narrow], names)
        warnings.warn(
            f"Scores of {columns[0]} spread more than {FAR_APART} times as much as those of "
            f"{columns[1]}: the weights then depend on the units. Put all on one scale, new ones "
            "as well: scaler = TwoSidedMinMax().fit(S, y); S = scaler.transform(S)",
            UserWarning,
            stacklevel=5,
        )


# --------------------------------------------------------------------------------------------------
# Data frames.


COMPLEX = "Complex data not supported: {} must be real numbers."


def to_known_frame(X: Any) -> Any:
    """Convert Arrow tables and narwhals frames to polars or pandas; return all else unchanged.

    Parameters
    ----------
    X : object
        The user's rows.

    Examples
    --------
    >>> import pyarrow as pa
    >>> type(to_known_frame(pa.table({"bar": [2.5, None]}))).__module__.partition(".")[0]
    'polars'
    """
    maker = type(X).__module__.partition(".")[0]
    if type(X).__name__ == "LazyFrame":
        raise TypeError("X is a lazy frame without rows in memory. Pass X.collect().")
    if maker == "narwhals":
        return to_known_frame(X.to_native())
    is_table = hasattr(X, "schema") and hasattr(X, "column_names")  # of Arrow; arrays have neither
    if maker in ("polars", "pandas") or not (is_table and hasattr(X, "to_pandas")):
        return X
    try:
        import polars
    except ImportError:
        return X.to_pandas()  # raises an error that names pandas where it is missing
    return polars.DataFrame(X)


def is_frame(X: Any) -> bool:
    """Return whether X is a data frame: it has columns and a shape."""
    return hasattr(X, "columns") and hasattr(X, "shape")


def check_frame(X: Any) -> bool:
    """Raise for an empty or complex data frame; return whether it holds infinity."""
    if 0 in X.shape:
        raise ValueError(params.FEATURES.too_small(f"{tuple(X.shape)}"))
    columns = (np.asarray(_safe_indexing(X, j, axis=1)) for j in range(X.shape[1]))
    return any(_is_infinite(column) for column in columns)


def _is_infinite(column: NDArray[Any]) -> bool:
    if column.dtype.kind == "c":
        raise ValueError(COMPLEX.format("features"))
    return column.dtype.kind == "f" and bool(np.isinf(column).any())


def temporal_columns(X: Any) -> list[int]:
    """Return positions of date and time columns, which some libraries convert to nanoseconds."""
    if is_frame(X):
        return [j for j, kind in enumerate(X.dtypes) if _is_temporal(kind)]
    temporal = getattr(X, "ndim", 0) == 2 and _is_temporal(X.dtype)
    return list(range(X.shape[1])) if temporal else []


def check_not_temporal(X: Any) -> None:
    """Raise for date or time columns; the caller's message names them."""
    if temporal_columns(X):
        raise TypeError("dates and times are not numbers")


def _is_temporal(kind: Any) -> bool:
    # NumPy and pandas have a letter as kind, polars a method.
    return getattr(kind, "kind", "") in ("m", "M") or bool(getattr(kind, "is_temporal", bool)())


# --------------------------------------------------------------------------------------------------
# Scores and features.

# Rows that are compared before whole columns: real scores nearly always differ in them. By hand.
PROBE_ROWS = 8
# A column that varies by less than this share of its largest absolute value is constant up to
# rounding. Chosen by hand, well above 1e-16 and below any useful spread.
ROUNDING = 1e-9


def check_scores(S: Any, *, estimator: Any = None, missing: bool = False) -> Array:
    """Return the n×R scores, finite and floating, in the array library that they came in.

    Parameters
    ----------
    S : array-like of shape (n, R)
        One column per detector, high = normal. NumPy arrays, lists and data frames of pandas or
        polars become NumPy arrays; arrays of torch and other array-API libraries keep their
        library. float64 and float32 are kept, other numbers become float64.
    estimator : estimator, optional
        A fitted estimator whose columns, in number and names, `S` must have.
    missing : bool, default=False
        Whether scores may be NaN.

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
    return _check_table(S, params.SCORES, estimator, missing)


def check_features(X: Any, *, estimator: Any = None) -> Array:
    """Return the n×d features, finite and floating, in the array library that they came in.

    Parameters
    ----------
    X : array-like of shape (n, d)
        One row per sample. Libraries and precisions are kept as in `check_scores`.
    estimator : estimator, optional
        A fitted estimator whose columns, in number and names, `X` must have.

    Returns
    -------
    array of shape (n, d)
        `X` itself where nothing had to be converted.
    """
    return _check_table(X, params.FEATURES, estimator)


def check_table(X: Any, *, estimator: Any = None) -> Any:
    """Return rows for detectors that may accept missing cells and data frames.

    Parameters
    ----------
    X : array-like of shape (n, d)
        A data frame of pandas or polars keeps its types, names and missing cells. Arrow tables and
        narwhals frames are converted to one. Anything else must hold numbers or NaN.
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
    X = to_known_frame(X)
    if is_frame(X):
        checked, infinite = X, check_frame(X)
    else:
        foreign = array_api_compat.is_array_api_obj(X) and not ops.is_numpy(X)
        checked = _check_numpy(
            ops.to_host(ops.detached(X)) if foreign else X, params.FEATURES, None
        )
        infinite = bool(np.isinf(checked).any())
    if infinite:
        raise ValueError(
            "X holds infinity. Replace it by a finite number, or by NaN where the value is missing."
        )
    if estimator is None:
        record_columns(BaseEstimator(), X)  # raises for invalid column names
    else:
        check_columns(X, estimator)
    return checked


def _check_table(values: Any, table: Table, estimator: Any, missing: bool = False) -> Array:
    if ops.is_blocked(values):
        raise TypeError(
            f"{table.noun} of Dask are accepted by LpFusion, FixedRule, TwoSidedMinMax, "
            "TailScaler, FusedDetector and lpfuse's detectors only. Load them into memory first: "
            f"{table.letter}.compute()."
        )
    values = to_known_frame(values)
    names = column_names(values, estimator)
    foreign = array_api_compat.is_array_api_obj(values) and not ops.is_numpy(values)
    checked = _check_array_api(values, table) if foreign else _check_numpy(values, table, names)
    if estimator is None:
        if type(values) is not np.ndarray:  # raises for invalid names before anything is fitted
            validate_data(BaseEstimator(), values, skip_check_array=True)
    else:
        check_columns(values, estimator)
    # Training scores are squared; rows that are only scored have no limit.
    limit = params.LARGEST_SCORE if table is params.SCORES and estimator is None else np.inf
    _check_finite(ops.fill_nan(checked, 0.0) if missing else checked, table, names, limit)
    return checked


def check_columns(X: Any, estimator: Any) -> None:
    """Raise where number or names of the columns differ from those of a fitted estimator."""
    same = X.shape[1] if _has_no_names(X, estimator) else None
    if same is None or getattr(estimator, "n_features_in_", same) != same:
        validate_data(estimator, to_known_frame(X), reset=False, skip_check_array=True)


def record_columns(estimator: Any, S: Any) -> None:
    """Set ``n_features_in_`` and ``feature_names_in_``, as the last step of a ``fit``."""
    if _has_no_names(S, estimator):
        estimator.n_features_in_ = S.shape[1]
    else:
        validate_data(estimator, to_known_frame(S), skip_check_array=True)


def _has_no_names(X: Any, estimator: Any) -> bool:
    """Tell whether columns have no names, here and there: scikit-learn takes long to find out."""
    is_plain = type(X) is np.ndarray and X.ndim == 2
    return is_plain and not hasattr(estimator, "feature_names_in_")


def column_names(S: Any, estimator: Any = None) -> list[str] | None:
    """Return the column names of a data frame or of a fitted estimator; None without names."""
    names = getattr(S, "columns", getattr(estimator, "feature_names_in_", None))
    return None if names is None else [str(name) for name in names]


def _check_numpy(values: Any, table: Table, names: Sequence[str] | None) -> Array:
    if getattr(values, "base", None) is not None:
        params.check_memmap_length(values)
    if type(values) is np.ndarray and values.dtype == float and values.ndim == 2 and values.size:
        return values  # nothing to convert or to check
    try:
        check_not_temporal(values)
        with np.errstate(over="ignore"):  # a long double may become infinite: checked below
            return check_array(
                ops.fill_masked(values),
                input_name=table.letter,
                dtype=[np.float64, np.float32],
                ensure_all_finite=False,
            )
    except (ValueError, TypeError, OverflowError) as error:
        if "complex" in str(error).casefold():
            raise ValueError(COMPLEX.format(table.noun.lower())) from error
        shape = getattr(values, "shape", None) or np.shape(values)
        if len(shape) != 2:
            raise ValueError(table.not_two_dimensional(len(shape), shape, values)) from error
        columns = [] if issparse(values) else _non_numeric_columns(values)
        if not columns:
            raise
        what = f"cannot be read as numbers ({plain(error)})"
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(
            table.not_numbers(params.listed(params.column_labels(columns, names)), what)
        ) from error


def _check_array_api(values: Array, table: Table) -> Array:
    """Apply scikit-learn's checks to an array of another library, on its device."""
    xp = ops.namespace(values)
    if xp.isdtype(values.dtype, "complex floating"):
        raise ValueError(COMPLEX.format(table.noun.lower()))
    if values.ndim != 2:
        raise ValueError(table.not_two_dimensional(values.ndim, values.shape, values))
    if 0 in values.shape:
        raise ValueError(table.too_small(f"{tuple(values.shape)}"))
    values = ops.detached(values)
    kept = values.dtype in (xp.float64, xp.float32)
    return values if kept else xp.astype(values, xp.float64)


def _check_finite(values: Array, table: Table, names: Sequence[str] | None, limit: float) -> None:
    """Raise for NaN, infinity, and numbers beyond the limit."""
    xp = ops.namespace(values)
    with np.errstate(over="ignore", invalid="ignore"):
        # One pass without a temporary: a small norm proves that all numbers are valid.
        if ops.norm(values) <= params.LARGEST_SCORE:
            return
    rows = ops.to_host(xp.sum(xp.astype(~xp.isfinite(values), xp.int64), axis=0)).astype(int)
    columns = np.flatnonzero(rows)
    if columns.size:
        found = map(params.with_row_count, params.column_labels(columns, names), rows[columns])
        raise ValueError(table.not_finite(list(found)))
    sizes = ops.to_host(xp.max(xp.abs(values), axis=0))
    if sizes.max() > limit:
        large = params.column_labels(np.flatnonzero(sizes > limit), names)
        raise ValueError(table.too_large(large, float(sizes.max())))


def warn_uninformative_columns(S: Array, names: Sequence[str] | None = None) -> None:
    """Warn about constant score columns and about duplicates; `S` are checked scores."""
    flat = _constant_columns(S)
    warn_constant_columns(flat, names, stacklevel=4)
    warn_duplicate_columns(S, flat, names, stacklevel=4)


def warn_constant_columns(
    flat: NDArray[np.bool_], names: Sequence[str] | None, stacklevel: int = 3
) -> None:
    """Warn about columns with the same value in every row."""
    if flat.any():
        columns = params.listed(params.column_labels(np.flatnonzero(flat), names))
        warnings.warn(
            f"Scores have no spread in {columns}: a detector with equal scores for all rows "
            "carries no information. Leave it out.",
            UserWarning,
            stacklevel=stacklevel,
        )


def warn_duplicate_columns(
    S: Array, flat: NDArray[np.bool_], names: Sequence[str] | None, stacklevel: int = 3
) -> None:
    """Warn about columns that repeat another one; constant columns are ignored."""
    pairs = _equal_columns(S, np.flatnonzero(~flat))
    if pairs:
        first, second = zip(*pairs, strict=True)
        equal = [
            f"{copy} = {original}"
            for original, copy in zip(
                params.column_labels(first, names), params.column_labels(second, names), strict=True
            )
        ]
        warnings.warn(
            f"Some detectors give the same scores twice: {params.listed(equal)}. The copies count "
            "double; leave them out.",
            UserWarning,
            stacklevel=stacklevel,
        )


def is_constant(low: Host, high: Host) -> NDArray[np.bool_]:
    """Return where low equals high up to rounding."""
    result: NDArray[np.bool_] = high - low <= ROUNDING * np.maximum(np.abs(low), np.abs(high))
    return result


def _constant_columns(S: Array) -> NDArray[np.bool_]:
    """Return which columns are constant; whole columns are read only if a few rows are equal."""
    probe = _probe(S)
    flat = is_constant(probe.min(axis=0), probe.max(axis=0))
    for column in np.flatnonzero(flat):
        scores = S[:, int(column)]
        flat[column] = is_constant(np.array(ops.smallest(scores)), np.array(ops.largest(scores)))
    return flat


def does_grow(values: Host, fewest: int) -> str:
    """Tell whether numbers only grow or fall from row to row, as row numbers and times do.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Numbers, NaN where one is missing: at most a tenth.
    fewest : int
        Numbers from which that is no coincidence.

    Returns
    -------
    str
        "grows", "falls", or nothing where it does neither.

    Examples
    --------
    >>> import numpy as np
    >>> does_grow(np.array([1.5, 1.7, 9.0]), 3), does_grow(np.array([1.5, 1.5, 9.0]), 3)
    ('grows', '')
    """
    known = values[~np.isnan(values)]
    if len(known) < max(fewest, 0.9 * len(values)):
        return ""
    up, down = known[1:] > known[:-1], known[1:] < known[:-1]
    return "grows" if up.all() else "falls" if down.all() else ""


def _probe(S: Array) -> Host:
    """Return a few evenly spaced rows."""
    rows = sorted({round(row) for row in np.linspace(0, S.shape[0] - 1, PROBE_ROWS)})
    return ops.to_host(ops.take(S, np.array(rows)))


def _equal_columns(S: Array, columns: Iterable[int]) -> list[tuple[int, int]]:
    """Return pairs (original, copy) of equal columns; few are compared beyond the probe rows."""
    xp = ops.namespace(S)
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


def _non_numeric_columns(S: Any) -> list[int]:
    dates = temporal_columns(S)  # as objects they may be integers
    if is_frame(S):
        cells = [np.asarray(_safe_indexing(S, j, axis=1), dtype=object) for j in range(S.shape[1])]
    else:
        array = np.asarray(S, dtype=object)
        cells = list(array.T) if array.ndim == 2 else []
    return [j for j, column in enumerate(cells) if j in dates or not _is_numeric(column)]


def _is_numeric(cells: NDArray[np.object_]) -> bool:
    try:
        cells.astype(np.complex128)  # complex scores have a message of their own
    except (ValueError, TypeError, OverflowError):
        return False
    return True
