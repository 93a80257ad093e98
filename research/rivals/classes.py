"""One-class experts for many classes: how their scores are joined, as in the paper's related work.

A *profile* holds the scores of J experts for each of K units, a class or a bit of a code: an array
of shape (n, K, J), high = the row belongs to the unit. Joints learn from profiles of rows that no
expert has learnt from, and their labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestNeighbors

from lpfuse import LpFusion
from lpfuse._arrays.operations import Host
from research.rivals.related import GeneticSelection

__all__ = [
    "BestLearner",
    "Codes",
    "DynamicWeights",
    "JointlyCalibrated",
    "LpPerClass",
    "StackedScores",
    "SumOfExperts",
    "Templates",
    "code_of",
]


class SumOfExperts:
    """The class with the largest sum of scores."""

    def fit(self, profile: Host, labels: Host, X: Host) -> Self:
        """Learn nothing."""
        return self

    def predict(self, profile: Host, X: Host) -> Host:
        """The class of each row, of shape (n,)."""
        return profile.sum(axis=2).argmax(axis=1)


class BestLearner:
    """The class with the largest score of the learner that is right most often (the first)."""

    def fit(self, profile: Host, labels: Host, X: Host) -> Self:
        """Choose the learner."""
        right = profile.argmax(axis=1) == labels[:, None]
        self.best_ = int(right.mean(axis=0).argmax())
        return self

    def predict(self, profile: Host, X: Host) -> Host:
        """The class of each row, of shape (n,)."""
        return profile[:, :, self.best_].argmax(axis=1)


class StackedScores:
    """Logistic regression on the scores of all experts, with a vector for each class."""

    def fit(self, profile: Host, labels: Host, X: Host) -> Self:
        """Learn the weights."""
        self.model_ = LogisticRegression(max_iter=2000).fit(self._rows(profile), labels)
        return self

    def predict(self, profile: Host, X: Host) -> Host:
        """The class of each row, of shape (n,)."""
        classes: Host = self.model_.predict(self._rows(profile))
        return classes

    def _rows(self, profile: Host) -> Host:
        return profile.reshape(len(profile), -1)


class LpPerClass:
    """The most probable class: ℓp weights for each, and Platt's calibration (ours)."""

    def fit(self, profile: Host, labels: Host, X: Host) -> Self:
        """Learn weights of each class against the others."""
        self.fusions_ = [
            LpFusion(2.0, nonnegative=True, class_weight="balanced", fit_intercept=True).fit(
                profile[:, k], np.where(labels == k, 1, -1)
            )
            for k in range(profile.shape[1])
        ]
        self.platt_ = [
            LogisticRegression().fit(self._fused(profile, k)[:, None], labels == k)
            for k in range(profile.shape[1])
        ]
        return self

    def predict(self, profile: Host, X: Host) -> Host:
        """The class of each row, of shape (n,)."""
        chances = [
            platt.predict_proba(self._fused(profile, k)[:, None])[:, 1]
            for k, platt in enumerate(self.platt_)
        ]
        return np.argmax(chances, axis=0)

    def score_samples(self, profile: Host) -> Host:
        """The fused score of each class, of shape (n, K), before calibration."""
        return np.column_stack([self._fused(profile, k) for k in range(profile.shape[1])])

    def _fused(self, profile: Host, k: int) -> Host:
        scores: Host = self.fusions_[k].score_samples(profile[:, k])
        return scores


class JointlyCalibrated:
    """Softmax regression on the fused scores of all classes, in place of Platt's for each.

    Parameters
    ----------
    joint : LpPerClass or JointLp
        Weights, with ``score_samples``.
    """

    def __init__(self, joint: Any) -> None:
        self.joint = joint

    def fit(self, profile: Host, labels: Host, X: Host) -> Self:
        """Learn the weights, then the regression from the same rows."""
        fused = self.joint.fit(profile, labels, X).score_samples(profile)
        self.model_ = LogisticRegression(max_iter=2000).fit(fused, labels)
        return self

    def predict(self, profile: Host, X: Host) -> Host:
        """The class of each row, of shape (n,)."""
        classes: Host = self.model_.predict(self.joint.score_samples(profile))
        return classes


class Templates:
    """The class whose mean profile is nearest: decision templates of Kuncheva et al. (2001).

    Examples
    --------
    >>> import numpy as np
    >>> profile = np.array([[[1.0], [0.0]], [[0.2], [0.9]]])
    >>> found = Templates().fit(profile, np.array([0, 1]), None)
    >>> found.predict(np.array([[[0.9], [0.3]]]), None)
    array([0])
    """

    def fit(self, profile: Host, labels: Host, X: Host) -> Self:
        """Learn the mean profile of each class that occurs."""
        self.classes_ = np.unique(labels)
        self.templates_ = np.stack([profile[labels == k].mean(axis=0) for k in self.classes_])
        return self

    def predict(self, profile: Host, X: Host) -> Host:
        """The class of each row, of shape (n,)."""
        apart = profile[:, None] - self.templates_[None]
        return self.classes_[np.square(apart).sum(axis=(2, 3)).argmin(axis=1)]


class DynamicWeights:
    r"""Weights of experts by what they are worth near the row, across the classes.

    With the signed scores :math:`s_{ikj}` of the row's neighbours in validation and
    :math:`y_{ik} = 1` for rows of class k, −1 for others,

    .. math:: w_{kj} = \max\Big(0, \frac{1}{|N|} \sum_{i \in N} y_{ik} s_{ikj}\Big),

    scaled to a sum of 1 over all classes and experts: a class whose experts err near the row is
    heard less. In the style of Krawczyk et al. (2018), whose competence could not be read.

    Parameters
    ----------
    n_neighbors : int
        How many rows of validation are near.
    """

    def __init__(self, n_neighbors: int = 20) -> None:
        self.n_neighbors = n_neighbors

    def fit(self, profile: Host, labels: Host, X: Host) -> Self:
        """Keep the rows of validation and how right each expert is there."""
        truth = np.where(labels[:, None] == np.arange(profile.shape[1]), 1.0, -1.0)
        self.worth_ = truth[:, :, None] * np.clip(profile, -1.0, 1.0)
        self.near_ = NearestNeighbors(n_neighbors=min(self.n_neighbors, len(X))).fit(X)
        return self

    def weights(self, X: Host) -> Host:
        """The weights for each row, of shape (n, K, J)."""
        near = self.near_.kneighbors(X, return_distance=False)
        worth = np.maximum(self.worth_[near].mean(axis=1), 0.0)
        total = worth.sum(axis=(1, 2), keepdims=True)
        even = np.full_like(worth, 1.0 / worth[0].size)
        return np.where(total > 0, worth / np.where(total > 0, total, 1.0), even)

    def predict(self, profile: Host, X: Host) -> Host:
        """The class of each row, of shape (n,)."""
        return (self.weights(X) * np.clip(profile, -1.0, 1.0)).sum(axis=2).argmax(axis=1)


def code_of(classes: int, seed: int, length: int | None = None) -> Host:
    """A random code of ±1: a row a class, all different; a column a bit, with both values.

    Examples
    --------
    >>> code_of(3, 0, 4).shape
    (3, 4)
    """
    rng = np.random.default_rng(seed)
    length = length or 2 * classes
    while True:
        code = rng.choice([-1.0, 1.0], size=(classes, length))
        rows_differ = len(np.unique(code, axis=0)) == classes
        if rows_differ and (np.abs(code.sum(axis=0)) < classes).all():
            return code


class Codes:
    """Error-correcting output codes: each bit is fused, and the nearest code word is the class.

    A bit's experts learn the classes for which it is +1. With `select`, those of each bit are
    selected by a genetic search (He et al. 2004 joined to Krawczyk et al. 2015).

    Parameters
    ----------
    code : ndarray of shape (K, bits)
        From `code_of`.
    select : bool
        Whether a genetic search selects the experts of each bit.
    seed : int
        Of the search.
    """

    def __init__(self, code: Host, select: bool = False, seed: int = 0) -> None:
        self.code = code
        self.select = select
        self.seed = seed

    def fit(self, profile: Host, labels: Host, X: Host) -> Self:
        """Learn which experts count for each bit."""
        bits = self.code[labels]
        experts = profile.shape[2]
        self.weights_ = np.full((self.code.shape[1], experts), 1.0 / experts)
        for k in range(self.code.shape[1]) if self.select else ():
            search: Any = GeneticSelection(random_state=self.seed)
            if len(np.unique(bits[:, k])) == 2:
                self.weights_[k] = search.fit(profile[:, k], bits[:, k]).weights_
        return self

    def predict(self, profile: Host, X: Host) -> Host:
        """The class of each row, of shape (n,)."""
        fused = np.clip((profile * self.weights_).sum(axis=2), -1.0, 1.0)
        return (fused @ self.code.T).argmax(axis=1)


def units_of(labels: Host, code: Host | None, classes: int) -> Sequence[NDArray[np.bool_]]:
    """Which training rows each unit learns from: a class, or the classes of a bit."""
    if code is None:
        return [labels == k for k in range(classes)]
    return [np.isin(labels, np.flatnonzero(column > 0)) for column in code.T]
