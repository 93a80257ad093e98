"""Base classes of detectors and fusion objects, and quantiles for thresholds.

A `Scorer` decides by ``score_samples`` and ``offset_``. A `Detector` is a scorer that is fitted to
rows of features and sets its threshold by `contamination`. A `WeightedSum` fuses scores.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from copy import copy
from functools import partial, wraps
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays import operations as ops
from lpfuse._arrays.blocks import map_rows, meta_of
from lpfuse._arrays.operations import Array, Host
from lpfuse._autolog import fit_logged_once, fits_are_logged
from lpfuse._validation.params import check_number, check_sample_weight, read_labels
from lpfuse._validation.tables import check_columns, check_features, check_scores

Gaps = NDArray[np.bool_]  # where a detector gives no score
Method = TypeVar("Method", bound=Callable[..., Array])
Fit = TypeVar("Fit", bound=Callable[..., Any])


def lazily(
    *, width: Callable[[Any], int] | None = None, dtype: str | None = None
) -> Callable[[Method], Method]:
    """Let a row-wise method accept Dask collections and return a lazy Dask array.

    Parameters
    ----------
    width : callable, optional
        From the estimator to the number of columns of the result; None: one number per row.
    dtype : str, optional
        Of the result; by default float32 where the rows are, else float64.
    """

    def decorate(method: Method) -> Method:
        @wraps(method)
        def wrapper(self: Any, *rows: Any, **named: Any) -> Array:
            X = (*rows, *named.values())  # by position or by name
            if not (X and ops.is_blocked(X[0])):
                return method(self, *rows, **named)
            check_is_fitted(self)
            check_columns(meta_of(X[0]), self)
            columns = None if width is None else width(self)
            work = partial(_apply, method.__name__, columns)
            # A copy: the estimator may be refitted before anything is computed.
            return map_rows(work, X[0], copy(self), width=columns, dtype=dtype)

        return cast(Method, wrapper)

    return decorate


def _apply(method: str, width: int | None, block: Any, estimator: Any) -> Array:
    """Call a method of the estimator on a block, which may be empty."""
    if block.shape[0] == 0:
        return np.empty(0 if width is None else (0, width))
    return getattr(estimator, method)(block)


def logged_once(fit: Fit) -> Fit:
    """Let MLflow, where it logs fits, log one run for a fit, and none for the fits inside."""

    @wraps(fit)
    def wrapper(self: Any, X: Any, *args: Any, **named: Any) -> Any:
        if "mlflow.utils.autologging_utils" not in sys.modules or not fits_are_logged():
            return fit(self, X, *args, **named)
        return fit_logged_once(partial(fit, self, X, *args, **named), self, X)

    return cast(Fit, wrapper)


class Scorer(OutlierMixin, BaseEstimator):
    """Decisions from ``score_samples`` and ``offset_``; a subclass provides both."""

    offset_: Any  # a float: an attribute, or a property in some subclasses
    scores_rows_alone = True  # a score does not depend on the other rows of the batch

    def score_samples(self, X: Any) -> Array:
        """Score of each row, high = normal.

        Parameters
        ----------
        X : array-like of shape (n, columns)
            Rows with the columns that `fit` saw.

        Returns
        -------
        array of shape (n,)
            Scores.
        """
        raise NotImplementedError

    @lazily()
    def decision_function(self, X: Any) -> Array:
        """``score_samples(X) − offset_``: negative for anomalies.

        Parameters
        ----------
        X : array-like, or Dask array or data frame, of shape (n, columns)
            Rows with the columns that `fit` saw.

        Returns
        -------
        array of shape (n,)
            Signed distance to the threshold.
        """
        return self.score_samples(X) - self.offset_

    @lazily(dtype="int64")
    def predict(self, X: Any) -> Array:
        """+1 for normal rows, −1 for anomalies.

        Parameters
        ----------
        X : array-like, or Dask array or data frame, of shape (n, columns)
            Rows with the columns that `fit` saw.

        Returns
        -------
        array of shape (n,)
            Integers +1 and −1.
        """
        return signs(self.decision_function(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Area under the ROC curve: how well scores separate normal rows from anomalies.

        Parameters
        ----------
        X : array-like, or Dask array or data frame, of shape (n, columns)
            Rows with the columns that `fit` saw.
        y : array-like of shape (n,)
            +1 normal, −1 anomaly; unlabelled rows (0) are left out.
        sample_weight : array-like of shape (n,), optional
            Weight of each row.

        Returns
        -------
        float
            From 0 to 1: the share of pairs of a normal row and an anomaly in which the normal row
            has the higher score; ties count half. A row without a score is below all others.
        """
        return auc_of_decisions(self.decision_function(X), y, sample_weight)


def auc_of_decisions(
    found: Any, y: Any, sample_weight: Any = None, words: Mapping[str, Any] | None = None
) -> float:
    """Return the area under the ROC curve of signed distances to a threshold.

    Parameters
    ----------
    found : array or Dask array of shape (n,)
        Signed distances; NaN is below all others.
    y, sample_weight : array-like of shape (n,)
        ±1, or 0 for a row to leave out; how much each row counts.
    words : dict, optional
        The labels that are ``normal`` and ``anomaly``, if `y` holds names.
    """
    decision = np.asarray(found.compute() if ops.is_blocked(found) else ops.to_host(found))
    y = y.compute() if ops.is_blocked(y) else y
    read = read_labels(y, len(decision), call=None, is_later=True, **(words or {}))
    labels = np.zeros(len(decision)) if read is None else read.values
    if not ((labels > 0).any() and (labels < 0).any()):
        raise ValueError(
            "score compares normal rows with anomalies: pass y with +1 (normal) and -1 "
            "(anomaly), at least one row of each."
        )
    weights = check_sample_weight(sample_weight, len(decision))
    known = labels != 0
    from sklearn.metrics import roc_auc_score

    seen = np.where(np.isnan(decision), -np.inf, decision)[known]
    ranks = ops.column_ranks(seen[:, None])[:, 0]
    rest = None if weights is None else weights[known]
    return float(roc_auc_score(labels[known], ranks, sample_weight=rest))


def sklearn_name(cls: type) -> str:
    """Return the name of a class of scikit-learn, whose module need not be imported; else ''."""
    return cls.__name__ if cls.__module__.startswith("sklearn.") else ""


class WeightedSum(Scorer):
    """A fused score ``Σ_j w_j s_ij`` from ``weights_``; a subclass learns or sets them."""

    weights_: Host

    @lazily()
    def score_samples(self, S: Any) -> Array:
        """Fused score ``Σ_j w_j s_ij`` of each row, high = normal.

        Parameters
        ----------
        S : array-like, or Dask array or data frame, of shape (n, R)
            Scores, high = normal.

        Returns
        -------
        array of shape (n,)
            Fused scores.
        """
        S, weights = self._checked(S)
        return S @ weights

    @lazily(width=lambda fusion: fusion.n_features_in_)
    def contributions(self, S: Any) -> Array:
        """Return each detector's part of the fused score; rows sum to ``score_samples(S)``.

        Parameters
        ----------
        S : array-like, or Dask array or data frame, of shape (n, R)
            Scores, high = normal.

        Returns
        -------
        array of shape (n, R)
            ``w_j s_ij``.
        """
        S, weights = self._checked(S)
        return S * weights

    def _checked(self, S: Any) -> tuple[Array, Array]:
        check_is_fitted(self)
        S = check_scores(S, estimator=self)
        return S, ops.namespace(S).astype(ops.like(self.weights_, S), S.dtype, copy=False)


def rows_by_gaps(gaps: Gaps) -> list[tuple[NDArray[np.bool_], Gaps]]:
    """Group rows by missing scores: (rows, detectors without a score)."""
    if len(gaps) and not gaps.any():  # nearly always, and sorting is slow
        return [(np.ones(len(gaps), dtype=bool), gaps[0])]
    patterns, pattern_of = np.unique(gaps, axis=0, return_inverse=True)
    return [(pattern_of.ravel() == i, pattern) for i, pattern in enumerate(patterns)]


def signs(decision: Array) -> Array:
    """+1 where the signed distance to a threshold is not negative, −1 elsewhere."""
    xp = ops.namespace(decision)
    return 2 * xp.astype(decision >= 0, xp.int64) - 1


class Detector(Scorer):
    """A detector whose threshold leaves a share `contamination` of rows below it."""

    contamination: Any
    # Rough duration of a fit relative to other detectors of the default pool at 16,000 rows, for
    # the progress display only.
    relative_work = 1.0
    _accepts_auto = False  # whether contamination="auto" is allowed

    @lazily()
    def score_samples(self, X: Any) -> Array:
        """Score of each row, high = normal.

        Parameters
        ----------
        X : array-like, or Dask array or data frame, of shape (n, d)
            Rows to score, in bounded memory.

        Returns
        -------
        array of shape (n,)
            Scores, in the library and precision of `X`; a lazy Dask array for Dask rows.
        """
        check_is_fitted(self)
        return self._scores(check_features(X, estimator=self))

    def _scores(self, X: Array) -> Array:
        """Score checked rows."""
        raise NotImplementedError

    def _check_contamination(self) -> None:
        named = isinstance(self.contamination, str) and self.contamination == "auto"
        if self._accepts_auto and named:
            return
        choice = ' Or pass "auto".' if self._accepts_auto else ""
        hint = f"It is the share of unseen rows like the training rows below the threshold.{choice}"
        check_number("contamination", self.contamination, above=0, at_most=0.5, hint=hint)


def lower_by_rounding(threshold: float, size: float, scores: Array) -> float:
    """Return the threshold, lowered by the rounding error of scores with terms of that size.

    The row that set the threshold must not fall below it by rounding when it is scored again in
    blocks of another size.
    """
    # Chosen by hand: far above observed errors, far below differences between rows.
    of_score, of_terms = (1e-6, 1e-6) if ops.is_single(scores) else (1e-9, 1e-12)
    return threshold - of_score * abs(threshold) - of_terms * size


def conformal_quantile(scores: Host, weights: Host, different: int, share: float) -> float:
    r"""Return the highest threshold with at most a share of new rows below it, on average.

    It is the k-th smallest of n held-out scores, :math:`k = \lfloor \alpha (n + 1) \rfloor`: a new
    row lies strictly below it with probability :math:`k / (n + 1) \le \alpha` at most (Vovk,
    Gammerman and Shafer, Algorithmic learning in a random world, 2005). With weights, n counts
    distinct rows, so that a row of weight 2 equals two copies. Where k = 0 it is the lowest score,
    with the smallest probability that n rows can guarantee, :math:`1 / (n + 1)`.

    Parameters
    ----------
    scores, weights : ndarrays of shape (m,)
        Scores of held-out rows and their weights.
    different : int
        Number of distinct rows.
    share : float
        :math:`\alpha`, above 0 and at most 0.5.

    Returns
    -------
    float
        One of the scores.

    Examples
    --------
    >>> conformal_quantile(np.arange(1.0, 100.0), np.ones(99), 99, 0.05)
    5.0
    >>> conformal_quantile(np.array([3.0, 1.0, 2.0]), np.ones(3), 3, 0.1)
    1.0
    """
    order = np.argsort(scores, kind="stable")
    reached = np.cumsum(weights[order])
    everything = float(reached[-1])
    of_one_row = everything / different
    # Sums of weights are rounded: a tenth of 100 rows must be ten rows.
    allowed = share * (everything + of_one_row) - of_one_row + 1e-9 * everything
    return float(scores[order[int((reached <= allowed).sum())]])


def lower_quantile(scores: Array, weights: Host, share: float) -> float:
    """Return the score with the given share of the rows, by weight, strictly below it.

    Halfway between two scores where the share falls between them.

    Examples
    --------
    >>> lower_quantile(np.array([3.0, 1.0, 2.0, 4.0]), np.ones(4), 0.25)
    1.5
    """
    xp, scores = ops.namespace(scores), ops.as_float64(scores)
    order = xp.argsort(scores, stable=True)
    ordered, reached = (
        ops.take(scores, order),
        xp.cumulative_sum(ops.take(ops.like(weights, scores), order)),
    )
    everything = float(reached[-1])
    # Sums of weights are rounded: 0.3 of ten rows must be three rows.
    target, exact = share * everything, 1e-9 * everything
    above = int(ops.total(reached <= target + exact))
    value = float(ordered[above])
    if above > 0 and abs(float(reached[above - 1]) - target) <= exact:
        value = (value + float(ordered[above - 1])) / 2
    return value
