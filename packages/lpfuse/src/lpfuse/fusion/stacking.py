"""Weights from outside: the best detector alone, and linear classifiers stacked on the scores."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.svm import LinearSVC

from lpfuse._arrays import Host, to_host
from lpfuse._checks.data import (
    check_scores,
    column_names,
    remember_columns,
    warn_about_columns,
)
from lpfuse._checks.parameters import check_number
from lpfuse._saved import saved_as
from lpfuse.fusion._base import WeightedSum
from lpfuse.fusion._rows import labels_and_weights

TIED = 1e-12  # criteria nearer than this differ by rounding only
INTERCEPT_SCALING = 10.0  # liblinear shrinks the intercept too: by a hundredth as much as a weight


class _Lesson(NamedTuple):
    """Checked rows that count."""

    scores: Host
    labels: Host  # ±1
    mass: Host  # sample weights, all above 0

    @property
    def has_anomalies(self) -> bool:
        return bool((self.labels < 0).any())

    @property
    def balanced(self) -> Host:
        """Costs that give normal rows and anomalies the same total, and sum to all mass."""
        halves = [float(self.mass[self.labels == side].sum()) for side in (1.0, -1.0)]
        share = np.where(self.labels > 0, *(0.5 / half for half in halves))
        return self.mass * share * sum(halves)


def _lesson(S: Any, y: Any, sample_weight: Any) -> _Lesson:
    """What can be learnt from; a row of weight 0 is as if it were not there."""
    names = column_names(S)
    checked = check_scores(S)
    labels, mass = labels_and_weights(int(checked.shape[0]), y, sample_weight)
    counts = mass > 0
    warn_about_columns(checked, names)
    return _Lesson(to_host(checked)[counts], labels[counts], mass[counts])


@saved_as("BestSingle")
class BestSingle(WeightedSum):
    r"""Trust the best detector alone.

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
    correlation with a consensus as pseudo ground truth [1]_ [2]_. It trusts the majority: of two
    good detectors and three poor ones that err alike, a poor one is taken. Two detectors agree
    equally with each other, so that the first is taken. Ranks of normal rows need not tell how
    anomalies will be ranked.

    Only the order of scores matters here, not their scale.

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
        lesson = _lesson(S, y, sample_weight)
        self.criterion_ = _areas(lesson) if lesson.has_anomalies else _agreements(lesson)
        best = np.flatnonzero(self.criterion_ >= self.criterion_.max() - TIED)[0]
        self.weights_ = np.eye(self.criterion_.size)[best]
        self.offset_ = 0.0
        remember_columns(self, S)
        return self


def _areas(lesson: _Lesson) -> Host:
    S, y, mass = lesson
    return np.array([roc_auc_score(y, column, sample_weight=mass) for column in S.T])


def _agreements(lesson: _Lesson) -> Host:
    """Rank correlation of each detector with the average rank of the others."""
    S, _, mass = lesson
    ranks = [_ranks(column, mass) for column in S.T]
    others = [sum(ranks[:j] + ranks[j + 1 :], np.zeros(len(S))) for j in range(len(ranks))]
    return np.array(
        [
            _correlation(own, _ranks(rest, mass), mass)
            for own, rest in zip(ranks, others, strict=True)
        ]
    )


def _ranks(values: Host, mass: Host) -> Host:
    """Ranks, equal ones for ties, among rows that each count for their mass."""
    _, place = np.unique(values, return_inverse=True)
    held = np.bincount(place, weights=mass)
    ranks: Host = (np.cumsum(held) - held / 2)[place]
    return ranks


def _correlation(a: Host, b: Host, mass: Host) -> float:
    """Pearson's correlation; 0 where either does not vary."""
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    a, b = (x - np.average(x, weights=mass) for x in (a, b))
    return float((mass * a) @ b / np.sqrt(((mass * a) @ a) * ((mass * b) @ b)))


class _Stacker(WeightedSum):
    """The weights and the intercept of a linear classifier of the scores."""

    intercept_: float
    C: float

    def fit(self, S: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the weights; without anomalies they are all 1, and a warning says so.

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
        lesson = _lesson(S, y, sample_weight)
        if lesson.has_anomalies:
            classifier = self._classifier()
            classifier.fit(lesson.scores, lesson.labels, sample_weight=lesson.balanced)
            self.weights_ = classifier.coef_[0]
            self.intercept_ = float(classifier.intercept_[0])
        else:
            self.weights_, self.intercept_ = np.ones(lesson.scores.shape[1]), 0.0
            warnings.warn(
                f"There is no anomaly that {type(self).__name__} could learn from: every detector "
                "weighs 1, as in the sum rule. Label some anomalies with -1 in y, or use LpFusion, "
                "which learns from normal rows alone.",
                UserWarning,
                stacklevel=2,
            )
        remember_columns(self, S)
        return self

    def _classifier(self) -> Any:
        """A linear classifier to be fitted."""
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

    with costs :math:`c_i` that give both classes the same total. Weights have signs: a detector may
    be turned upside down.

    Parameters
    ----------
    C : float, default=1.0
        What errors cost; smaller values shrink the weights.

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

    A classifier has nothing to learn from normal rows alone: without anomalies it is the sum rule,
    with a warning.

    This is scikit-learn's ``LinearSVC``: the squared hinge, for which its solver does not depend on
    chance and takes time linear in the rows.

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
        return LinearSVC(
            C=self.C, dual=False, intercept_scaling=INTERCEPT_SCALING, tol=1e-8, max_iter=10_000
        )


@saved_as("LogisticStacker")
class LogisticStacker(_Stacker):
    r"""Fuse detectors by a logistic regression trained on their scores.

    .. math::

        \min_{w, b} \tfrac12 \|w\|^2
        + C \sum_i c_i \log(1 + \exp(-y_i (s_i^\top w + b)))

    with costs :math:`c_i` that give both classes the same total. Weights have signs: a detector may
    be turned upside down. ``decision_function`` is the log-odds of being normal, were both classes
    equally frequent.

    Parameters
    ----------
    C : float, default=1.0
        What errors cost; smaller values shrink the weights.

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

    A classifier has nothing to learn from normal rows alone: without anomalies it is the sum rule,
    with a warning.

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
        return LogisticRegression(C=self.C, solver="newton-cholesky", tol=1e-8, max_iter=1000)
