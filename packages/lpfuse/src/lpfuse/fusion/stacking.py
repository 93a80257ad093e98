"""Weights without a norm constraint: the best single detector, and linear stacking."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse._base import WeightedSum
from lpfuse._files import saved_as
from lpfuse._validation.params import check_number
from lpfuse._validation.tables import record_columns
from lpfuse.fusion.lp import LabelledScores, labelled_scores

# Smaller differences of areas and correlations are rounding: they are sums of n terms in [-1, 1],
# each accurate to some 1e-16. The first of tied detectors is chosen.
TIE_TOLERANCE = 1e-12
# liblinear penalises the intercept too, as (b / scaling)²: by a hundredth of a weight's penalty.
INTERCEPT_SCALING = 10.0


@saved_as("BestSingle")
class BestSingle(WeightedSum):
    r"""Use the single best detector.

    With labelled anomalies the best is the one whose scores have the largest area under the ROC
    curve. Without, it is the one that agrees most with the rest: the largest rank correlation
    (Spearman's) of its scores with the average rank that the other detectors give,

    .. math:: \mathrm{corr}\Big(r(s_{\cdot j}),\;
        r\Big(\tfrac{1}{R-1} \sum_{k \ne j} r(s_{\cdot k})\Big)\Big),

    where r turns n numbers into their ranks. Of equally good detectors the first is taken.

    Attributes
    ----------
    weights_ : ndarray of shape (R,)
        1 for the best detector, 0 for the others.
    criterion_ : ndarray of shape (R,)
        Area under the curve, or rank correlation, of each detector; a detector without spread, or
        without others, has correlation 0.
    offset_ : float
        Scores from here on count as normal: 0, the middle of signed scores.
    n_features_in_ : int
        Number of detectors R.
    feature_names_in_ : ndarray of shape (R,)
        Names of the detectors, when `S` had them.

    Notes
    -----
    Agreement is a stand-in for quality, in the style of ensembles that select detectors by their
    correlation with a consensus as pseudo ground truth [1]_ [2]_. It follows the majority: of two
    good detectors and three poor ones with correlated errors, a poor one is chosen. Of two
    detectors the first is chosen, since their agreement is equal. Ranks of normal rows need not
    predict how anomalies are ranked.

    Only the order of scores matters, not their scale.

    References
    ----------
    .. [1] Schubert, Wojdanowski, Zimek and Kriegel (2012). On evaluation of outlier rankings and
       outlier scores. SIAM International Conference on Data Mining, 1047–1058.
    .. [2] Rayana and Akoglu (2016). Less is more: building selective anomaly ensembles. ACM
       Transactions on Knowledge Discovery from Data 10(4), 42.

    Examples
    --------
    >>> from lpfuse.fusion.stacking import BestSingle
    >>> S = [[0.9, 0.2], [0.8, -0.4], [-0.7, 0.3], [-0.9, -0.2]]
    >>> best = BestSingle().fit(S, [1, 1, -1, -1])
    >>> best.criterion_
    array([1. , 0.25])
    >>> best.weights_
    array([1., 0.])
    """

    criterion_: Host

    def fit(self, S: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the best detector.

        Parameters
        ----------
        S : array-like of shape (n, R)
            Scores, high = normal.
        y : array-like of shape (n,), optional
            +1 normal, −1 anomaly. Without it all rows are normal.
        sample_weight : array-like of shape (n,), optional
            How many rows each row counts for.

        Returns
        -------
        BestSingle
            The fitted estimator.
        """
        rows = labelled_scores(S, y, sample_weight, warn=True)
        self.criterion_ = _aucs(rows) if rows.has_anomalies else _consensus_correlations(rows)
        best = np.flatnonzero(self.criterion_ >= self.criterion_.max() - TIE_TOLERANCE)[0]
        self.weights_ = np.eye(self.criterion_.size)[best]
        self.offset_ = 0.0
        record_columns(self, S)
        return self


def _aucs(rows: LabelledScores) -> Host:
    """Return the area under the ROC curve of each detector alone."""
    from sklearn.metrics import roc_auc_score

    S, y, weights = rows
    return np.array([roc_auc_score(y, column, sample_weight=weights) for column in S.T])


def _consensus_correlations(rows: LabelledScores) -> Host:
    """Return the rank correlation of each detector with the average rank of the others."""
    S, _, weights = rows
    ranks = [_ranks(column, weights) for column in S.T]
    others = [sum(ranks[:j] + ranks[j + 1 :], np.zeros(len(S))) for j in range(len(ranks))]
    return np.array(
        [
            _correlation(own, _ranks(rest, weights), weights)
            for own, rest in zip(ranks, others, strict=True)
        ]
    )


def _ranks(values: Host, sample_weight: Host) -> Host:
    """Return ranks, averaged over ties; a row of weight k counts as k rows."""
    _, group = np.unique(values, return_inverse=True)
    size = np.bincount(group, weights=sample_weight)
    # Up to a constant, which does not affect correlations: the weight of all lower rows plus half
    # of the row's own group.
    ranks: Host = (np.cumsum(size) - size / 2)[group]
    return ranks


def _correlation(a: Host, b: Host, sample_weight: Host) -> float:
    """Return Pearson's correlation; 0 if either is constant."""
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    a, b = (x - np.average(x, weights=sample_weight) for x in (a, b))
    wa, wb = sample_weight * a, sample_weight * b
    return float(wa @ b / np.sqrt((wa @ a) * (wb @ b)))


class _Stacker(WeightedSum):
    """Base of linear classifiers of the scores."""

    intercept_: float
    C: float

    def fit(self, S: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the weights; without anomalies they are all 1, with a warning.

        Parameters
        ----------
        S : array-like of shape (n, R)
            Scores, high = normal.
        y : array-like of shape (n,), optional
            +1 normal, −1 anomaly. Without it all rows are normal.
        sample_weight : array-like of shape (n,), optional
            How many rows each row counts for.

        Returns
        -------
        estimator
            The fitted estimator.
        """
        check_number("C", self.C, above=0)
        rows = labelled_scores(S, y, sample_weight, warn=True)
        if rows.has_anomalies:
            classifier = self._classifier()
            classifier.fit(rows.scores, rows.labels, sample_weight=rows.balanced_weight())
            self.weights_ = classifier.coef_[0]
            self.intercept_ = float(classifier.intercept_[0])
        else:
            self.weights_, self.intercept_ = np.ones(rows.scores.shape[1]), 0.0
            warnings.warn(
                f"{type(self).__name__} got no anomalies: every detector has the weight 1, as in "
                "the sum rule. Label some anomalies with -1 in y, or use LpFusion, which learns "
                "from normal rows alone.",
                UserWarning,
                stacklevel=2,
            )
        record_columns(self, S)
        return self

    def _classifier(self) -> Any:
        """Return a linear classifier to be fitted."""
        raise NotImplementedError

    @property
    def offset_(self) -> float:
        """Scores from here on count as normal."""
        return -self.intercept_


@saved_as("LinearSVMStacker")
class LinearSVMStacker(_Stacker):
    r"""Fuse detectors by a linear support vector machine trained on their scores.

    .. math::

        \min_{w, b} \tfrac12 \|w\|^2 + \tfrac12 (b / 10)^2
        + C \sum_i c_i \max(0, 1 - y_i (s_i^\top w + b))^2

    with costs :math:`c_i` that give both classes the same total. Weights may be negative, which
    inverts a detector.

    Parameters
    ----------
    C : float, default=1.0
        Inverse regularisation strength; smaller values shrink the weights.

    Attributes
    ----------
    weights_ : ndarray of shape (R,)
        The weight of each detector; ones without anomalies.
    intercept_ : float
        b; 0 without anomalies.
    offset_ : float
        ``−intercept_``: scores from here on count as normal.
    n_features_in_ : int
        Number of detectors R.
    feature_names_in_ : ndarray of shape (R,)
        Names of the detectors, when `S` had them.

    See Also
    --------
    lpfuse.LpFusion : With ``p=2`` the same idea, with a constraint instead of a penalty and a plain
        hinge; with ``loss="least_squares"`` the least-squares stacker.

    Notes
    -----
    Scores should be on one scale (`TwoSidedMinMax`): the penalty treats all weights alike.

    A classifier cannot learn from normal rows alone: without anomalies it is the sum rule, with a
    warning.

    This is scikit-learn's ``LinearSVC`` with the squared hinge, for which its solver is
    deterministic and takes time linear in the rows.

    References
    ----------
    Wolpert (1992). Stacked generalization. Neural Networks 5(2), 241–259.

    Cortes and Vapnik (1995). Support-vector networks. Machine Learning 20(3), 273–297.

    Examples
    --------
    >>> from lpfuse.fusion.stacking import LinearSVMStacker
    >>> S = [[0.9, 0.2], [0.8, -0.4], [-0.7, 0.3], [-0.9, -0.2]]
    >>> stacker = LinearSVMStacker().fit(S, [1, 1, -1, -1])
    >>> stacker.weights_.round(2)
    array([ 1.01, -0.16])
    >>> stacker.predict(S)
    array([ 1,  1, -1, -1])
    """

    def __init__(self, C: float = 1.0) -> None:
        self.C = C

    def _classifier(self) -> Any:
        from sklearn.svm import LinearSVC

        return LinearSVC(
            C=self.C, dual=False, intercept_scaling=INTERCEPT_SCALING, tol=1e-8, max_iter=10_000
        )


@saved_as("LogisticStacker")
class LogisticStacker(_Stacker):
    r"""Fuse detectors by a logistic regression trained on their scores.

    .. math::

        \min_{w, b} \tfrac12 \|w\|^2
        + C \sum_i c_i \log(1 + \exp(-y_i (s_i^\top w + b)))

    with costs :math:`c_i` that give both classes the same total. Weights may be negative, which
    inverts a detector. ``decision_function`` is the log-odds of being normal for balanced
    classes.

    Parameters
    ----------
    C : float, default=1.0
        Inverse regularisation strength; smaller values shrink the weights.

    Attributes
    ----------
    weights_ : ndarray of shape (R,)
        The weight of each detector; ones without anomalies.
    intercept_ : float
        b; 0 without anomalies.
    offset_ : float
        ``−intercept_``: scores from here on count as normal.
    n_features_in_ : int
        Number of detectors R.
    feature_names_in_ : ndarray of shape (R,)
        Names of the detectors, when `S` had them.

    See Also
    --------
    lpfuse.LpFusion : With ``loss="least_squares"`` the least-squares stacker.

    Notes
    -----
    Scores should be on one scale (`TwoSidedMinMax`): the penalty treats all weights alike.

    A classifier cannot learn from normal rows alone: without anomalies it is the sum rule, with a
    warning.

    References
    ----------
    Wolpert (1992). Stacked generalization. Neural Networks 5(2), 241–259.

    Ting and Witten (1999). Issues in stacked generalization. Journal of Artificial Intelligence
    Research 10, 271–289.

    Examples
    --------
    >>> from lpfuse.fusion.stacking import LogisticStacker
    >>> S = [[0.9, 0.2], [0.8, -0.4], [-0.7, 0.3], [-0.9, -0.2]]
    >>> stacker = LogisticStacker().fit(S, [1, 1, -1, -1])
    >>> stacker.weights_.round(2)
    array([ 1. , -0.1])
    >>> stacker.predict(S)
    array([ 1,  1, -1, -1])
    """

    def __init__(self, C: float = 1.0) -> None:
        self.C = C

    def _classifier(self) -> Any:
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(C=self.C, solver="newton-cholesky", tol=1e-8, max_iter=1000)
