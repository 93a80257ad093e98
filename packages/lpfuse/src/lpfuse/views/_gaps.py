"""Rows with missing cells as rows without: what no detector has to know about."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from lpfuse._arrays.operations import Host, is_blocked
from lpfuse._base import lazily
from lpfuse._checks.frames import refuse_dates
from lpfuse._checks.tables import check_features, check_table, remember_columns
from lpfuse._saved import saved_as

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
        remember_columns(self, X)
        return self

    @lazily(width=lambda view: view.n_features_in_)
    def transform(self, X: Any) -> Host:
        """The rows with every cell.

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
        """The missing cells of rows that all lack the same columns."""
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
        refuse_dates(table)
        kinds = [np.float64, np.float32]
        return np.asarray(check_array(table, dtype=kinds, ensure_all_finite="allow-nan"))
    except (ValueError, TypeError):
        check_features(X, estimator=estimator)  # says which column is to blame, if it can
        raise
