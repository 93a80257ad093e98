"""Views of a table: the same rows without gaps, or with columns that distances suit better."""

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
from lpfuse._quantiles import positions_among
from lpfuse._saved import saved_as
from lpfuse._validation.params import check_count
from lpfuse._validation.tables import (
    check_features,
    check_not_temporal,
    check_table,
    record_columns,
)

__all__ = ["FilledGaps", "Indicators", "NormalQuantiles"]


# --------------------------------------------------------------------------------------------------
# Columns of other shapes: normal quantiles, and indicators of few values.


# Chosen by hand.
KNOTS = 256  # kept of each column: between two of them lies less than half a per cent of the rows
FARTHEST = 1e9  # standard deviations beyond the range; the squares stay finite in single precision
UNKNOWN = 5.0  # the height of "none of these": as of a value that one row in 100 has
RAREST = 0.01  # share of the rows below which a value is no rarer


@saved_as("NormalQuantiles")
class NormalQuantiles(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    r"""Each column brought to normal quantiles; values outside the range keep their distance.

    The knots of a column are its different values :math:`u_1 < \dots < u_m`; with
    :math:`c_i` rows of the value :math:`u_i` among n,

    .. math:: z_i = \Phi^{-1}\Bigl(\frac{c_1 + \dots + c_i - c_i / 2}{n}\Bigr)

    is where the i-th one goes, and numbers between two knots go between, on a straight line. Below
    the lowest knot and above the highest one :math:`z = z_{1} + (x - u_{1}) / s` and
    :math:`z = z_{m} + (x - u_{m}) / s`, with the column's standard deviation s: a row that is
    farther out stays farther out, which :class:`sklearn.preprocessing.QuantileTransformer` loses.

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
        rows = to_host(check_features(X))
        self.knots_, self.quantiles_, self.scale_ = _learn(rows)
        record_columns(self, X)
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
        X = check_features(X, estimator=self)
        return beside(_mapped(to_host(X), self.knots_, self.quantiles_, self.scale_), X)

    def quick_transform(self) -> Callable[[Host], Host]:
        """Return a function of one checked row, of shape (1, d), that does what `transform` does.

        All columns are looked up at once, in knots that are filled up to equal numbers.
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
        return _keeps_precision(super().__sklearn_tags__())


@saved_as("Indicators")
class Indicators(TransformerMixin, BaseEstimator):
    r"""Columns with few values as indicators of each, rare ones higher; others as normal quantiles.

    A column with 2 to `max_values` different values becomes one column a value, which is

    .. math:: \tfrac12 \sqrt{1 / \max(q, 0.01)}

    where the row has this value, of which the share q of the training rows was, and 0 elsewhere; so
    squared distances are a quarter of those of a chi-squared statistic. One more column is 5 where
    the row has none of these values. All other columns become :class:`NormalQuantiles`; they come
    first, then the indicators, in the order of the columns.

    Parameters
    ----------
    max_values : int, default=15
        Most values of a column that becomes indicators.

    Attributes
    ----------
    values_ : list of ndarray
        For each column its different values; empty where it becomes quantiles.
    heights_ : list of ndarray
        The heights of their indicators.
    knots_, quantiles_, scale_
        Of the other columns, as in :class:`NormalQuantiles`.
    n_features_out_ : int
        Number of columns of the view.
    n_features_in_ : int
        Number of features d.
    feature_names_in_ : ndarray of shape (d,)
        Names of the features, when `X` had them.

    Examples
    --------
    >>> from lpfuse.views import Indicators
    >>> view = Indicators().fit([[0.0], [0.0], [0.0], [1.0]])
    >>> view.transform([[0.0], [1.0], [2.0]]).round(2)
    array([[0.58, 0.  , 0.  ],
           [0.  , 1.  , 0.  ],
           [0.  , 0.  , 5.  ]])
    """

    values_: list[Host]
    heights_: list[Host]
    knots_: list[Host]
    quantiles_: list[Host]
    scale_: Host
    n_features_out_: int

    def __init__(self, max_values: int = 15) -> None:
        self.max_values = max_values

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the values and the knots.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows.
        y : object
            Ignored; here for scikit-learn's conventions.

        Returns
        -------
        Indicators
            The fitted view.
        """
        most = check_count("max_values", self.max_values)
        rows = to_host(check_features(X))
        values, heights = [], []
        for column in rows.T:
            different, counts = np.unique(column, return_counts=True)
            few = 2 <= len(different) <= most
            values.append(different if few else np.empty(0))
            shares = np.maximum(counts / len(column), RAREST)
            heights.append(0.5 / np.sqrt(shares) if few else np.empty(0))
        self.values_, self.heights_ = values, heights
        self.knots_, self.quantiles_, self.scale_ = _learn(rows[:, self._others])
        self.n_features_out_ = len(self.knots_) + sum(len(each) + 1 for each in values if len(each))
        record_columns(self, X)
        return self

    @property
    def _others(self) -> list[int]:
        """Columns that become quantiles."""
        return [j for j, values in enumerate(self.values_) if not len(values)]

    @lazily(width=lambda view: view.n_features_out_)
    def transform(self, X: Any) -> Array:
        """Return the rows in quantiles and indicators.

        Parameters
        ----------
        X : array-like, or Dask array or data frame, of shape (n, d)
            Rows.

        Returns
        -------
        array of shape (n, `n_features_out_`)
            In the library and precision of `X`; of rows of Dask, a lazy Dask array.
        """
        check_is_fitted(self)
        X = check_features(X, estimator=self)
        rows = to_host(X)
        parts = [_mapped(rows[:, self._others], self.knots_, self.quantiles_, self.scale_)]
        for column, values, heights in zip(rows.T, self.values_, self.heights_, strict=True):
            if len(values):  # position −1, none of them, is the last row
                parts.append(np.diag([*heights, UNKNOWN])[positions_among(values, column)])
        return beside(np.hstack(parts), X)

    def __sklearn_tags__(self) -> Any:
        return _keeps_precision(super().__sklearn_tags__())


def _learn(X: Host) -> tuple[list[Host], list[Host], Host]:
    """Knots, their quantiles and the scale of each column."""
    pairs = [_knots(column) for column in X.T]
    with np.errstate(over="ignore", invalid="ignore"):  # squares beyond the largest number
        scale = np.nan_to_num(X.std(axis=0), nan=np.inf, posinf=np.inf)
    varies = np.array([len(knots) > 1 for knots, _ in pairs], dtype=bool) & (scale > 0)
    return [k for k, _ in pairs], [z for _, z in pairs], np.where(varies, scale, 1.0)


def _knots(column: Host) -> tuple[Host, Host]:
    values, counts = np.unique(column, return_counts=True)
    ranks = (np.cumsum(counts) - counts / 2) / len(column)
    if len(values) > KNOTS:  # the ends are among them, for the search meets them exactly
        kept = np.unique(np.searchsorted(ranks, np.linspace(ranks[0], ranks[-1], KNOTS)))
        values, ranks = values[kept], ranks[kept]
    return values, ndtri(ranks)


def _mapped(X: Host, knots: list[Host], quantiles: list[Host], scale: Host) -> Host:
    mapped = np.empty(X.shape)
    for j, (values, z) in enumerate(zip(knots, quantiles, strict=True)):
        x = X[:, j]
        with np.errstate(over="ignore"):
            beyond = (x - np.clip(x, values[0], values[-1])) / scale[j]
        mapped[:, j] = np.interp(x, values, z) + np.clip(beyond, -FARTHEST, FARTHEST)
    return mapped


def _keeps_precision(tags: Any) -> Any:
    tags.transformer_tags.preserves_dtype = ["float64", "float32"]
    return tags


# --------------------------------------------------------------------------------------------------
# Rows with missing cells as rows without: what no detector has to know about.


Gaps = NDArray[np.bool_]

# Rows that lend cells: enough to be near, and cheap where 200,000 rows are filled in. By hand.
LENDERS = 1_000


@saved_as("FilledGaps")
class FilledGaps(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    r"""Missing cells filled in: the nearest training row that has the cell lends it.

    The row x lacks the columns M. For each :math:`j \in M` it gets the cell of the training row

    .. math:: \arg\min_r \sum_{k \notin M} (x_k - r_k)^2 / s_k^2

    among those that have the cell j (hot-deck imputation: Andridge and Little, 2010), with the
    standard deviations :math:`s_k`; where r lacks a cell k, the column's median stands in for the
    distance. Columns that go together still do, curved ones too, and a column of few values gets
    one of these: a median, or a mean, in their place makes a row with a gap strange. A row that has
    no cell gets the medians. A column that never had a cell tells nothing: it is 0 in every row.
    Whether a cell was missing does not show. Rows without gaps stay as they are, to the bit.

    Attributes
    ----------
    rows_ : ndarray of shape (at most 1000, d)
        Training rows, taken evenly, NaN where a cell is missing.
    medians_, scale_ : ndarrays of shape (d,)
        Of the cells that are there. The median is NaN where none is; the scale of a column without
        spread is 1.
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
        """Keep rows that can lend cells.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows; NaN, or what a data frame calls missing, is a gap.
        y : object
            Ignored; here for scikit-learn's conventions.

        Returns
        -------
        FilledGaps
            The fitted view.
        """
        rows = _cells(X)
        there = [column[~np.isnan(column)] for column in rows.T]
        self.medians_ = np.array([np.median(cells) if len(cells) else np.nan for cells in there])
        with np.errstate(over="ignore", invalid="ignore"):  # squares beyond the largest number
            scale = np.array([np.std(cells) if len(cells) else 0.0 for cells in there])
        self.scale_ = np.where(scale > 0, scale, 1.0)
        self.rows_ = rows[np.linspace(0, len(rows) - 1, min(len(rows), LENDERS)).astype(np.intp)]
        record_columns(self, X)
        return self

    @lazily(width=lambda view: view.n_features_in_)
    def transform(self, X: Any) -> Host:
        """Return the rows with every cell.

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
        rows = _cells(X, self)
        empty, gaps = np.isnan(self.medians_), np.isnan(rows)
        if not (gaps.any() or empty.any()):
            return rows
        filled = np.where(empty, rows.dtype.type(0), rows)
        for missing, some in _by_pattern(gaps & ~empty):
            filled[np.ix_(some, missing)] = self._lent(filled[some], missing)
        return filled

    def _lent(self, rows: Host, missing: Gaps) -> Host:
        """Return the missing cells of rows that all lack the same columns."""
        lent = np.tile(self.medians_[missing], (len(rows), 1))
        seen = ~missing & ~np.isnan(self.medians_)
        if not seen.any():
            return lent
        near = np.where(np.isnan(self.rows_), self.medians_, self.rows_) / self.scale_
        # Each distance by itself, not as a matrix product: it must not depend on the other rows.
        apart = cdist((rows / self.scale_)[:, seen], near[:, seen], "sqeuclidean")
        for place, j in enumerate(np.flatnonzero(missing)):
            lenders = np.flatnonzero(~np.isnan(self.rows_[:, j]))
            if len(lenders):
                lent[:, place] = self.rows_[lenders[apart[:, lenders].argmin(axis=1)], j]
        return lent

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.allow_nan = True
        return tags


def _by_pattern(gaps: Gaps) -> list[tuple[Gaps, NDArray[np.intp]]]:
    """Rows that have gaps, by which: (the columns that are missing, positions of the rows)."""
    rows = np.flatnonzero(gaps.any(axis=1))
    if len(rows) == 0:
        return []
    patterns, pattern_of = np.unique(gaps[rows], axis=0, return_inverse=True)
    pattern_of = pattern_of.ravel()
    ends = np.cumsum(np.bincount(pattern_of))[:-1]
    parts = np.split(rows[np.argsort(pattern_of, kind="stable")], ends)
    return list(zip(patterns, parts, strict=True))


def _cells(X: Any, estimator: Any = None) -> Host:
    """Numbers, NaN where one is missing."""
    if is_blocked(X):
        check_features(X)  # refuses it
    try:
        table = check_table(X, estimator=estimator)
        check_not_temporal(table)
        kinds = [np.float64, np.float32]
        return np.asarray(check_array(table, dtype=kinds, ensure_all_finite="allow-nan"))
    except (ValueError, TypeError):
        check_features(X, estimator=estimator)  # says which column is to blame, if it can
        raise
