"""Transformers of feature tables: normal quantiles, and imputation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.special import ndtri
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from lpfuse._arrays.operations import Array, Host, beside, is_blocked, to_host
from lpfuse._base import lazily
from lpfuse._compiled import compiled
from lpfuse._files import saved_as
from lpfuse._validation import tables

__all__ = ["FilledGaps", "NormalQuantiles"]


# --------------------------------------------------------------------------------------------------
# Normal quantiles

_core: Any = compiled("lpfuse._arrays._columns")

# Chosen by hand.
KNOTS = 256  # of each column; between two of them lie less than half a per cent of the rows
FARTHEST = 1e9  # standard deviations beyond the range; squares stay finite in single precision


@saved_as("NormalQuantiles")
class NormalQuantiles(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    r"""Map each column to normal quantiles, and extrapolate linearly outside its range.

    The knots of a column are its different values :math:`u_1 < \dots < u_m`; with
    :math:`c_i` rows of the value :math:`u_i` among n,

    .. math:: z_i = \Phi^{-1}\Bigl(\frac{c_1 + \dots + c_i - c_i / 2}{n}\Bigr)

    is the value of the i-th knot, with linear interpolation between knots. Below
    the lowest knot and above the highest one :math:`z = z_{1} + (x - u_{1}) / s` and
    :math:`z = z_{m} + (x - u_{m}) / s`, with the column's standard deviation s: unlike
    :class:`sklearn.preprocessing.QuantileTransformer`, the distance of outliers is kept.

    Attributes
    ----------
    knots_, quantiles_ : list of ndarray
        For each column the values :math:`u_i`, at most 256 of them, evenly by rank, with the
        lowest and the highest one; and their :math:`z_i`.
    scale_ : ndarray of shape (d,)
        Standard deviations; 1 for a constant column.
    n_features_in_ : int
        Number of features d.
    feature_names_in_ : ndarray of shape (d,)
        Names of the features, when `X` had them.

    Examples
    --------
    >>> from lpfuse.views import NormalQuantiles
    >>> view = NormalQuantiles().fit([[1.0], [2.0], [3.0], [1000.0]])
    >>> view.transform([[1.0], [2.0], [2.5], [1000.0], [2000.0]]).round(2).ravel()
    array([-1.15, -0.32,  0.  ,  1.15,  3.46])
    """

    knots_: list[Host]
    quantiles_: list[Host]
    scale_: Host

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the knots.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows.
        y : object
            Ignored; here for scikit-learn's conventions.

        Returns
        -------
        NormalQuantiles
            The fitted view.
        """
        rows = to_host(tables.check_features(X))
        self.knots_, self.quantiles_, self.scale_ = _fit_quantiles(rows)
        tables.record_columns(self, X)
        return self

    @lazily(width=lambda view: view.n_features_in_)
    def transform(self, X: Any) -> Array:
        """Return the rows in normal quantiles.

        Parameters
        ----------
        X : array-like, or Dask array or data frame, of shape (n, d)
            Rows.

        Returns
        -------
        array of shape (n, d)
            In the library and precision of `X`; of rows of Dask, a lazy Dask array.
        """
        check_is_fitted(self)
        X = tables.check_features(X, estimator=self)
        return beside(_apply_quantiles(to_host(X), self.knots_, self.quantiles_, self.scale_), X)

    def single_row_transform(self) -> Callable[[Host], Host]:
        """Return a fast `transform` of one checked row of shape (1, d).

        All columns are looked up at once, in knots padded to equal numbers.
        """
        d, most = len(self.knots_), max(map(len, self.knots_))
        knots, slopes, z = np.full((d, most), np.inf), np.zeros((d, most)), np.zeros((d, most))
        for j, (values, quantiles) in enumerate(zip(self.knots_, self.quantiles_, strict=True)):
            m = len(values)
            knots[j, :m], z[j, :m] = values, quantiles
            with np.errstate(over="ignore", invalid="ignore"):
                slopes[j, : m - 1] = np.diff(quantiles) / np.diff(values)
        columns, scale = np.arange(d), self.scale_
        low, high = knots[:, 0], np.array([values[-1] for values in self.knots_])

        def transform(row: Host) -> Host:
            x = row[0]
            inside = np.clip(x, low, high)
            place = (knots <= inside[:, None]).sum(axis=1) - 1
            mapped = slopes[columns, place] * (inside - knots[columns, place]) + z[columns, place]
            with np.errstate(over="ignore"):
                beyond = (x - inside) / scale
            found: Host = mapped + np.clip(beyond, -FARTHEST, FARTHEST)
            return found[None]

        return transform

    def __sklearn_tags__(self) -> Any:
        return _preserve_float_dtypes(super().__sklearn_tags__())


def _fit_quantiles(X: Host) -> tuple[list[Host], list[Host], Host]:
    """Return knots, their quantiles and the scale of each column."""
    columns, one_each = np.sort(X.T, axis=1), np.ones(len(X), dtype=np.intp)
    kept, z = _evenly_by_rank(one_each)  # of every column without ties
    differ: NDArray[np.bool_] = np.all(columns[:, 1:] > columns[:, :-1], axis=1)
    pairs = [
        (column[kept], z.copy()) if without_ties else _knots(X[:, j])
        for j, (column, without_ties) in enumerate(zip(columns, differ, strict=True))
    ]
    with np.errstate(over="ignore", invalid="ignore"):  # squares may overflow
        scale = np.nan_to_num(X.std(axis=0), nan=np.inf, posinf=np.inf)
    varies = np.array([len(knots) > 1 for knots, _ in pairs], dtype=bool) & (scale > 0)
    return [k for k, _ in pairs], [z for _, z in pairs], np.where(varies, scale, 1.0)


def _knots(column: Host) -> tuple[Host, Host]:
    values, counts = np.unique(column, return_counts=True)
    kept, z = _evenly_by_rank(counts)
    return values[kept], z


def _evenly_by_rank(counts: NDArray[np.intp]) -> tuple[Any, Host]:
    """Return which of the different values are knots, and their quantiles, from their counts."""
    ranks = (np.cumsum(counts) - counts / 2) / counts.sum()
    kept = np.arange(len(ranks))
    if len(ranks) > KNOTS:  # includes both ends
        kept = np.unique(np.searchsorted(ranks, np.linspace(ranks[0], ranks[-1], KNOTS)))
    return kept, ndtri(ranks[kept])


def _apply_quantiles(X: Host, knots: list[Host], quantiles: list[Host], scale: Host) -> Host:
    if _core is not None and X.dtype == np.float64 and knots[0].dtype == np.float64:
        found: Host = _core.interpolate(X, knots, quantiles, scale, FARTHEST)
        return found
    mapped = np.empty(X.shape)
    for j, (values, z) in enumerate(zip(knots, quantiles, strict=True)):
        x = X[:, j]
        with np.errstate(over="ignore"):
            beyond = (x - np.clip(x, values[0], values[-1])) / scale[j]
        mapped[:, j] = np.interp(x, values, z) + np.clip(beyond, -FARTHEST, FARTHEST)
    return mapped


def _preserve_float_dtypes(tags: Any) -> Any:
    tags.transformer_tags.preserves_dtype = ["float64", "float32"]
    return tags


# --------------------------------------------------------------------------------------------------
# Imputation of missing values


Gaps = NDArray[np.bool_]

# Donor rows: enough to be near, and cheap to search for 200,000 rows. Chosen by hand.
MAX_DONORS = 1_000
EMPTY = np.array([[np.nan], [0.0]])  # median and deviation of no values


@saved_as("FilledGaps")
class FilledGaps(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    r"""Impute missing values from the nearest training row that has the value.

    Let the row x miss the columns M. For each :math:`j \in M` it gets the value of the donor row

    .. math:: \arg\min_r \sum_{k \notin M} (x_k - r_k)^2 / s_k^2

    among those that have column j (hot-deck imputation: Andridge and Little, 2010), with the
    standard deviations :math:`s_k`; the column's median replaces a missing :math:`r_k`. Dependence
    between columns is preserved, also nonlinear, and a column of few values gets one of these; a
    median or a mean would make a row with a missing value an outlier. A row without any value gets
    the medians. A column that was always missing is 0 in every row. Rows without missing values are
    unchanged to the bit.

    Attributes
    ----------
    rows_ : ndarray of shape (at most 1000, d)
        Donors: evenly spaced training rows, NaN where a value is missing.
    medians_, scale_ : ndarrays of shape (d,)
        Of the observed values. The median is NaN if there are none; the scale of a constant column
        is 1.
    n_features_in_ : int
        Number of features d.
    feature_names_in_ : ndarray of shape (d,)
        Names of the features, when `X` had them.

    Examples
    --------
    >>> from lpfuse.views import FilledGaps
    >>> view = FilledGaps().fit([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0], [4.0, float("nan")]])
    >>> view.transform([[2.2, float("nan")], [7.0, float("nan")]])
    array([[ 2.2, 20. ],
           [ 7. , 30. ]])
    """

    rows_: Host
    medians_: Host
    scale_: Host

    def fit(self, X: Any, y: Any = None) -> Self:
        """Store donor rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows; NaN and missing values of data frames are missing.
        y : object
            Ignored; here for scikit-learn's conventions.

        Returns
        -------
        FilledGaps
            The fitted view.
        """
        rows = _check_numbers(X)
        columns = np.ascontiguousarray(rows.T)
        there: Any = [columns]  # all at once, or each without its gaps
        if np.isnan(rows).any():
            there = [column[None, ~np.isnan(column)] for column in columns]
        with np.errstate(over="ignore", invalid="ignore"):  # squares may overflow
            found = [(np.median(c, axis=1), c.std(axis=1)) if c.size else EMPTY for c in there]
        self.medians_, scale = np.concatenate(found, axis=1)
        self.scale_ = np.where(scale > 0, scale, 1.0)
        self.rows_ = rows[np.linspace(0, len(rows) - 1, min(len(rows), MAX_DONORS)).astype(np.intp)]
        tables.record_columns(self, X)
        return self

    @lazily(width=lambda view: view.n_features_in_)
    def transform(self, X: Any) -> Host:
        """Return the rows with missing values imputed.

        Parameters
        ----------
        X : array-like, or Dask array or data frame, of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n, d)
            In the precision of `X`; of rows of Dask, a lazy Dask array.
        """
        check_is_fitted(self)
        rows = _check_numbers(X, self)
        empty, gaps = np.isnan(self.medians_), np.isnan(rows)
        if not (gaps.any() or empty.any()):
            return rows
        filled = np.where(empty, rows.dtype.type(0), rows)
        for missing, some in _group_by_pattern(gaps & ~empty):
            filled[np.ix_(some, missing)] = self._impute(filled[some], missing)
        return filled

    def _impute(self, rows: Host, missing: Gaps) -> Host:
        """Return the missing values of rows that miss the same columns."""
        imputed = np.tile(self.medians_[missing], (len(rows), 1))
        seen = ~missing & ~np.isnan(self.medians_)
        if not seen.any():
            return imputed
        near = np.where(np.isnan(self.rows_), self.medians_, self.rows_) / self.scale_
        # Not as a matrix product: a distance must not depend on the other rows of the batch.
        apart = cdist((rows / self.scale_)[:, seen], near[:, seen], "sqeuclidean")
        for place, j in enumerate(np.flatnonzero(missing)):
            donors = np.flatnonzero(~np.isnan(self.rows_[:, j]))
            if len(donors):
                imputed[:, place] = self.rows_[donors[apart[:, donors].argmin(axis=1)], j]
        return imputed

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.allow_nan = True
        return tags


def _group_by_pattern(gaps: Gaps) -> list[tuple[Gaps, NDArray[np.intp]]]:
    """Group rows by missing columns: pairs of a mask of columns and positions of rows."""
    rows = np.flatnonzero(gaps.any(axis=1))
    if len(rows) == 0:
        return []
    patterns, pattern_of = np.unique(gaps[rows], axis=0, return_inverse=True)
    pattern_of = pattern_of.ravel()
    ends = np.cumsum(np.bincount(pattern_of))[:-1]
    parts = np.split(rows[np.argsort(pattern_of, kind="stable")], ends)
    return list(zip(patterns, parts, strict=True))


def _check_numbers(X: Any, estimator: Any = None) -> Host:
    """Check the table; return numbers, NaN where one is missing."""
    if is_blocked(X):
        tables.check_features(X)  # raises
    try:
        table = tables.check_table(X, estimator=estimator)
        tables.check_not_temporal(table)
        kinds = [np.float64, np.float32]
        return np.asarray(check_array(table, dtype=kinds, ensure_all_finite="allow-nan"))
    except (ValueError, TypeError):
        tables.check_features(X, estimator=estimator)  # names the column at fault, if possible
        raise
