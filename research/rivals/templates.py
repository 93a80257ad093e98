"""Fusion by similarity of a row's scores to the mean scores of the normal rows."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays.operations import Array, Host, beside, to_host
from lpfuse._base import Scorer
from lpfuse._validation.params import check_number
from lpfuse._validation.tables import check_scores, record_columns
from lpfuse.fusion.lp import labelled_scores
from research.rivals.by_class import by_class, lower_quantile


class _TemplateFusion(Scorer):
    """Base: similarity to the normal rows' mean score vector minus that to the anomalies'."""

    template_: Host
    anomaly_template_: Host | None

    def __init__(self, false_alarm_rate: float = 0.05) -> None:
        self.false_alarm_rate = false_alarm_rate

    def fit(self, S: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the templates.

        Parameters
        ----------
        S : array-like of shape (n, R)
            Scores, high = normal.
        y : array-like of shape (n,), optional
            +1 normal, −1 anomaly. Without it all rows are normal.
        sample_weight : array-like of shape (n,), optional
            How much each row counts in the templates and in the threshold.

        Returns
        -------
        self
            The fitted estimator.
        """
        rate = check_number("false_alarm_rate", self.false_alarm_rate, at_least=0, at_most=1)
        normal, anomalies = by_class(labelled_scores(S, y, sample_weight))
        template = normal.mean
        if anomalies is None:
            similarity = self._similarity(normal.scores, template)
            offset = float(lower_quantile(similarity, normal.sample_weight, rate))
        else:
            offset = 0.0
        self.template_ = template
        self.anomaly_template_ = None if anomalies is None else anomalies.mean
        self.offset_ = offset
        record_columns(self, S)
        return self

    def score_samples(self, S: Any) -> Array:
        """Return the similarity of each row to the templates, high = normal.

        Parameters
        ----------
        S : array-like of shape (n, R)
            Scores, high = normal.

        Returns
        -------
        array of shape (n,)
            Fused scores.
        """
        check_is_fitted(self)
        checked = check_scores(S, estimator=self)
        # C order, as in fit: sums over columns then round in the same order, and a training row on
        # the threshold stays on the same side of it.
        scores = np.ascontiguousarray(to_host(checked))
        fused = self._similarity(scores, self.template_)
        if self.anomaly_template_ is not None:
            fused = fused - self._similarity(scores, self.anomaly_template_)
        return beside(fused, checked)

    @staticmethod
    def _similarity(S: Host, template: Host) -> Host:
        """Return the similarity of each row to the template, of shape (n,)."""
        raise NotImplementedError


class DecisionTemplates(_TemplateFusion):
    r"""Fuse by the distance to a template: the mean score vector of a class.

    .. math::

        f(s) = -\|s - t_+\| \qquad \text{or, with anomalies,} \qquad
        f(s) = \|s - t_-\| - \|s - t_+\|

    where ``t₊`` is the mean of the normal rows' scores and ``t₋`` that of the anomalies'. A row
    scores low when its scores are unusual in any direction: too high as well as too low.

    Parameters
    ----------
    false_alarm_rate : float in [0, 1], default=0.05
        Share of the normal rows to be called anomalies by `predict`. With anomalies the nearer
        template decides instead.

    Attributes
    ----------
    template_ : ndarray of shape (R,)
        ``t₊``.
    anomaly_template_ : ndarray of shape (R,), or None
        ``t₋``; None without anomalies.
    offset_ : float
        Scores from here on count as normal. Without anomalies, the quantile `false_alarm_rate` of
        the training rows' scores; with them 0.
    n_features_in_ : int
        Number of detectors R.
    feature_names_in_ : ndarray of shape (R,)
        Names of the detectors, when `S` had them.

    Notes
    -----
    A row of scores is a decision profile with one class; the similarity of profile and template is
    taken from their Euclidean distance, one of the measures that the authors compare. The fused
    score is no sum over detectors, so there are no contributions.

    References
    ----------
    L. I. Kuncheva, J. C. Bezdek and R. P. W. Duin, "Decision templates for multiple classifier
    fusion: an experimental comparison", Pattern Recognition 34(2), 299-314, 2001.

    Examples
    --------
    >>> from research.rivals.templates import DecisionTemplates
    >>> S = [[0.9, 0.5], [0.7, 0.7], [-0.5, 0.6]]
    >>> fusion = DecisionTemplates().fit(S, [1, 1, -1])
    >>> fusion.template_
    array([0.8, 0.6])
    >>> fusion.score_samples([[0.8, 0.6], [-0.5, 0.6]]).round(6)
    array([ 1.3, -1.3])
    >>> fusion.predict(S)
    array([ 1,  1, -1])
    """

    @staticmethod
    def _similarity(S: Host, template: Host) -> Host:
        return -np.linalg.norm(S - template, axis=1)


class CosineSimilarity(_TemplateFusion):
    r"""Fuse by the angle to a template: the mean score vector of a class.

    .. math::

        f(s) = \cos(s, t_+) \qquad \text{or, with anomalies,} \qquad
        f(s) = \cos(s, t_+) - \cos(s, t_-)
        , \qquad \cos(s, t) = \frac{s^\top t}{\|s\| \|t\|}

    where ``t₊`` is the mean of the normal rows' scores and ``t₋`` that of the anomalies'. A zero
    vector has the cosine 0 with every vector.

    Parameters
    ----------
    false_alarm_rate : float in [0, 1], default=0.05
        Share of the normal rows to be called anomalies by `predict`. With anomalies the template
        at the smaller angle decides instead.

    Attributes
    ----------
    template_ : ndarray of shape (R,)
        ``t₊``.
    anomaly_template_ : ndarray of shape (R,), or None
        ``t₋``; None without anomalies.
    offset_ : float
        Scores from here on count as normal. Without anomalies, the quantile `false_alarm_rate` of
        the training rows' scores; with them 0.
    n_features_in_ : int
        Number of detectors R.
    feature_names_in_ : ndarray of shape (R,)
        Names of the detectors, when `S` had them.

    Notes
    -----
    In the style of Lai et al., who stack the outputs of several support vector data descriptions
    and compare images by the cosine of these vectors; the template in place of a query image is
    our own. Angles depend on the origin, not on lengths: use signed scores (`TwoSidedMinMax`), so
    that a row that all detectors score as anomalous points away from the template. With a single
    detector only the sign of its score matters.

    References
    ----------
    C. Lai, D. M. J. Tax, R. P. W. Duin, E. Pękalska and P. Paclík, "On combining one-class
    classifiers for image database retrieval", Multiple Classifier Systems, LNCS 2364, 212-221,
    2002.

    Examples
    --------
    >>> from research.rivals.templates import CosineSimilarity
    >>> fusion = CosineSimilarity().fit([[1.0, 0.0], [0.0, 1.0]])
    >>> fusion.score_samples([[2.0, 2.0], [0.5, -0.5], [-0.1, -0.1]]).round(6)
    array([ 1.,  0., -1.])
    """

    @staticmethod
    def _similarity(S: Host, template: Host) -> Host:
        return (_unit_vectors(S) * _unit_vectors(template)).sum(axis=1)


def _unit_vectors(vectors: Host) -> Host:
    """Normalise vectors along the last axis; zero vectors stay zero."""
    largest = np.abs(vectors).max(axis=-1, keepdims=True)  # squares neither overflow nor vanish
    vectors = np.divide(vectors, largest, out=np.zeros_like(vectors), where=largest > 0)
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.divide(vectors, lengths, out=vectors, where=lengths > 0)
