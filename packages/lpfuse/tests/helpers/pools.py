"""Detectors that are easy to reason about, and rows for them."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin


def normal_rows(n=80, d=4, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)) * np.arange(1, d + 1)


def anomalous_rows(n=12, d=4, seed=1):
    return 2.5 + np.random.default_rng(seed).normal(size=(n, d)) * 2


def both(n=80, anomalies=12, d=4, seed=0):
    """Rows and labels, in no order."""
    X = np.vstack([normal_rows(n, d, seed), anomalous_rows(anomalies, d, seed + 1)])
    y = np.repeat([1, -1], [n, anomalies])
    order = np.random.default_rng(seed + 2).permutation(len(y))
    return X[order], y[order]


def numbered(X):
    """The rows with their numbers in front, by which a `Witness` tells them apart."""
    return np.column_stack([np.arange(len(X)), X])


class Distance(BaseEstimator):
    """Minus the distance to the mean, in some columns; NaN cells are refused, as by most."""

    def __init__(self, columns=slice(None), power=1.0):
        self.columns = columns
        self.power = power

    def fit(self, X, y=None):
        self.mean_ = self._view(X).mean(axis=0)
        return self

    def score_samples(self, X):
        return -(np.linalg.norm(self._view(X) - self.mean_, axis=1) ** self.power)

    def _view(self, X):
        view = np.asarray(X)[:, self.columns]
        if np.isnan(view).any():
            raise ValueError("There is NaN in X.")
        return view


class Says(BaseEstimator):
    """Learns nothing; `what` of the rows is its score."""

    def __init__(self, what):
        self.what = what

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def score_samples(self, X):
        return self.what(np.asarray(X))


class Lowest(BaseEstimator):
    """A fusion that is no sum: the lowest score."""

    def fit(self, S, y=None):
        self.fitted_ = True
        return self

    def score_samples(self, S):
        return S.min(axis=1)


class Nearby(Lowest):
    """A fusion that takes the features: more normal, the nearer a row is to the origin."""

    uses_features = True

    def fit(self, S, y=None, X=None):
        return super().fit(S)

    def score_samples(self, S, X=None):
        return S.mean(axis=1) - np.linalg.norm(X, axis=1)


class Journal:
    """Who learnt from which rows, and scored which; all copies write into the same one."""

    def __init__(self):
        self.fits, self.asked = [], []

    def __deepcopy__(self, memory):
        return self


class Witness(BaseEstimator):
    """Reads the number of a row in its first column, and writes down what it is shown."""

    def __init__(self, journal):
        self.journal = journal

    def fit(self, X, y=None):
        self.learnt_ = _numbers(X)
        self.journal.fits.append(self.learnt_)
        return self

    def score_samples(self, X):
        self.journal.asked.append((self.learnt_, _numbers(X)))
        return -np.linalg.norm(np.asarray(X)[:, 1:], axis=1)


class ExpertWitness(ClassifierMixin, Witness):
    """The same, for an expert."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.width_ = np.shape(X)[1]
        return super().fit(X)

    def decision_function(self, X):
        return -self.score_samples(X) * np.asarray(X)[:, 2]


def _numbers(X):
    return frozenset(np.asarray(X)[:, 0].astype(int).tolist())
