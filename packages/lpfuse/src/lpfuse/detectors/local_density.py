"""Detector by the density around a row, compared with that around its neighbours."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays.operations import Host
from lpfuse._files import saved_as
from lpfuse._validation.params import check_count
from lpfuse.detectors.base import HeldOutDetector
from lpfuse.detectors.neighbours import SubsetSearch

# Added to mean reachability distances, in units of the mean distance of neighbours, since both may
# be zero; chosen by hand.
LEAST = 1e-6


@saved_as("LOFDetector")
class LOFDetector(HeldOutDetector):
    r"""Local outlier factor: the density around a row's neighbours over that around the row.

    With the k nearest training rows :math:`N(x)` of x, the k-distance :math:`d_k(o)` of each, and

    .. math:: r(x) = \frac1k \sum_{o \in N(x)} \max(d_k(o), \|x - o\|), \qquad
              \mathrm{LOF}(x) = \frac1k \sum_{o \in N(x)} \frac{r(x)}{r(o)}

    the score is :math:`-\mathrm{LOF}(x)`. A group of fewer than k rows does not hide its members.

    Parameters
    ----------
    n_neighbors : int, default=100
        Number k of neighbours; all other rows where there are fewer. Beyond half of the rows, lone
        anomalies hide as well.
    max_samples : int, default=1000
        Largest number of candidate neighbours, drawn at random.
    contamination : float in (0, 0.5], default=0.1
        Share of new normal rows below the threshold, by leave-one-out scores.
    random_state : int, RandomState instance or None, default=None
        Seed of the sample.

    Attributes
    ----------
    rows_ : ndarray of shape (n_kept, d)
        The training rows that are kept.
    kept_ : ndarray of shape (n_kept,)
        Their positions among the training rows.
    farthest_, reach_ : ndarray of shape (n_kept,)
        Their k-distances and mean reachability distances, to other rows.
    least_ : float
        What is added to the latter, since distances may be zero.
    n_samples_ : int
        Number of training rows.
    held_out_scores_ : ndarray of shape (n,) or None
        Scores of the training rows, none its own neighbour; None where some are not kept.
    offset_ : float
        Threshold of the scores.
    n_features_in_ : int
        Number of features d.
    feature_names_in_ : ndarray of shape (d,)
        Names of the features, when `X` had them.

    Notes
    -----
    As :class:`sklearn.neighbors.LocalOutlierFactor`, but with at most `max_samples` candidates, so
    that the time to score a row does not grow with the training rows. ``leave_one_out_scores``
    leave a row out of its own neighbours, not out of those of others.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import LOFDetector
    >>> rng = np.random.default_rng(0)
    >>> X = np.r_[rng.normal(0, 1, (100, 2)), rng.normal(9, 0.1, (100, 2))]  # a wide, a dense group
    >>> detector = LOFDetector(n_neighbors=20).fit(X)
    >>> detector.predict([[0.0, 1.0], [9.0, 10.0]])  # both one away from a centre
    array([ 1, -1])
    """

    rows_: Host
    kept_: NDArray[np.int64]
    farthest_: Host
    reach_: Host
    least_: float
    relative_work = 2.0

    def __init__(
        self,
        n_neighbors: int = 100,
        max_samples: int = 1000,
        contamination: float = 0.1,
        random_state: Any = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.max_samples = max_samples
        self.contamination = contamination
        self.random_state = random_state

    def _check_parameters(self) -> None:
        check_count("n_neighbors", self.n_neighbors)
        check_count("max_samples", self.max_samples)

    def _learn(self, X: Host, rng: np.random.RandomState) -> Host | None:
        n = len(X)
        most = max(2, int(self.max_samples))  # a neighbour needs another row
        self.kept_ = np.sort(rng.choice(n, min(n, most), replace=False)).astype(np.int64)
        self.rows_ = X[self.kept_]
        self.__dict__.pop("_search", None)  # of an earlier fit
        nearest, apart = self._neighbours(self.rows_, np.arange(len(self.rows_)))
        self.farthest_ = apart.max(axis=1)
        self.least_ = float(LEAST * self.farthest_.mean()) or 1.0
        self.reach_ = self._reach(nearest, apart)
        found: Host = -(self.reach_[:, None] / self.reach_[nearest]).mean(axis=1)
        return found if n <= most else None

    @cached_property
    def _search(self) -> SubsetSearch:
        every = np.arange(self.rows_.shape[1])
        return SubsetSearch(self.rows_, [np.arange(len(self.rows_))], [every])

    def _neighbours(self, X: Host, own: NDArray[np.int64]) -> tuple[NDArray[np.int64], Host]:
        """Return positions of the k nearest kept rows, and distances; `own` is excluded, −1: none.

        Both are of shape (m, k), in no order.
        """
        k = min(int(self.n_neighbors), len(self.rows_) - 1)
        return self._search.neighbours(X, k, own[:, None])

    def _reach(self, nearest: NDArray[np.int64], apart: Host) -> Host:
        found: Host = np.maximum(self.farthest_[nearest], apart).mean(axis=1) + self.least_
        return found

    def _factors(self, X: Host, own: NDArray[np.int64]) -> Host:
        nearest, apart = self._neighbours(X, own)
        found: Host = -(self._reach(nearest, apart)[:, None] / self.reach_[nearest]).mean(axis=1)
        return found

    def _score(self, X: Host) -> Host:
        return self._factors(X, np.full(len(X), -1))

    def _leave_one_out(self, X: Host, index: NDArray[np.int64]) -> Host:
        place = np.full(self.n_samples_, -1)
        place[self.kept_] = np.arange(len(self.kept_))
        return self._factors(X, place[index])
