"""The distance to the k-th nearest training row, in all columns or in subsets of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree
from sklearn.neighbors import NearestNeighbors

from lpfuse._arrays.operations import Host
from lpfuse._checks.arguments import check_count
from lpfuse._saved import saved_as
from lpfuse.detectors._held_out import HeldOutDetector

# Chosen by hand. Of so many samples the rows are kept that those of the subsets are drawn from.
RESERVE = 5
# Added to the mean distance of neighbours, in units of the spread: it may be zero, where every row
# has an equal one. A larger share ranks worse (0.01: by 0.4 AUC on 51 tables).
LEAST = 1e-6
# Mean distances from which on logarithms count, so that a new value of a column with few, which may
# be a million of them away, does not outweigh all other subsets. On the same tables a hard limit
# there costs 0.05 AUC, ranks of distances instead of distances as much.
FAR = 10.0
TREE_COLUMNS = 8  # up to which a tree finds neighbours faster than products do


@saved_as("KNNDetector")
class KNNDetector(HeldOutDetector):
    r"""Distance to the k-th nearest training row, in all columns or averaged over subsets of them.

    With :math:`d_k(x)` the Euclidean distance of x to its k-th nearest training row, the score is
    :math:`-d_k(x)`. With `n_subspaces`, m random sets of columns :math:`C_1, \dots, C_m`, of sizes
    drawn evenly from 1 to d, it is

    .. math:: -\frac1m \sum_{b=1}^{m} f\Bigl(\frac{d_k(x_{C_b})}{\bar d_b}\Bigr), \quad
              f(z) = \min(z, 10) + \log \frac{\max(z, 10)}{10}

    where :math:`\bar d_b` is the mean distance of the training rows to their k-th nearest *other*
    row in these columns.

    Parameters
    ----------
    n_neighbors : int, default=5
        Number k of the neighbour; the farthest one where there are fewer.
    n_subspaces : int or None, default=None
        Number m of subsets of the columns; None: one distance, in all columns.
    max_samples : int, default=2000
        Most rows that neighbours are sought among. Of more rows, each subset draws its own sample,
        from a sample five times as large.
    contamination : float in (0, 0.5], default=0.1
        Share of unseen rows like the training rows below the threshold, by leave-one-out scores.
    random_state : int, RandomState instance or None, default=None
        Seed of the subsets and samples.

    Attributes
    ----------
    rows_ : ndarray of shape (n_kept, d)
        The training rows that are kept.
    kept_ : ndarray of shape (n_kept,)
        Their positions among the training rows.
    columns_, samples_ : list of ndarray
        For each subset its columns, and which of `rows_` it searches.
    scale_ : ndarray of shape (m,)
        What its distances are divided by; 1 without subsets.
    n_samples_ : int
        Number of training rows.
    held_out_scores_ : ndarray of shape (n,) or None
        Their leave-one-out scores; None where there are more than `max_samples`.
    offset_ : float
        Threshold of the scores.
    n_features_in_ : int
        Number of features d.
    feature_names_in_ : ndarray of shape (d,)
        Names of the features, when `X` had them.

    Notes
    -----
    ``leave_one_out_scores`` are exact where all rows are kept, but for the scales, which one row
    hardly changes: a training row is no neighbour of itself. A row that a subset's sample does not
    hold gets the plain distance there. Work is done on the host, whatever library `X` is of.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import KNNDetector
    >>> X = np.array([[0.0], [1.0], [3.0], [7.0]])
    >>> detector = KNNDetector(n_neighbors=1).fit(X)
    >>> detector.score_samples([[0.5], [9.0]])
    array([-0.5, -2. ])
    >>> detector.leave_one_out_scores(X)
    array([-1., -1., -2., -4.])
    """

    rows_: Host
    kept_: NDArray[np.int64]
    columns_: list[NDArray[np.int64]]
    samples_: list[NDArray[np.int64]]
    scale_: Host

    def __init__(
        self,
        n_neighbors: int = 5,
        n_subspaces: int | None = None,
        max_samples: int = 2000,
        contamination: float = 0.1,
        random_state: Any = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.n_subspaces = n_subspaces
        self.max_samples = max_samples
        self.contamination = contamination
        self.random_state = random_state

    def _check_parameters(self) -> None:
        check_count("n_neighbors", self.n_neighbors)
        check_count("max_samples", self.max_samples)
        if self.n_subspaces is not None:
            check_count("n_subspaces", self.n_subspaces)

    def _learn(self, X: Host, rng: np.random.RandomState) -> Host | None:
        n, d = X.shape
        most = max(2, int(self.max_samples))  # one row has no other
        kept = np.sort(rng.choice(n, min(n, RESERVE * most), replace=False))
        if self.n_subspaces is None:
            self.columns_ = [np.arange(d)]
        else:
            sizes = rng.randint(1, d + 1, size=int(self.n_subspaces))
            self.columns_ = [np.sort(rng.choice(d, size, replace=False)) for size in sizes]
        self.samples_ = [
            np.arange(n) if n <= most else np.sort(rng.choice(len(kept), most, replace=False))
            for _ in self.columns_
        ]
        self.kept_, self.rows_ = kept, X[kept]
        self.scale_ = np.ones(len(self.columns_))
        total = np.zeros(len(X))
        for b, sample in enumerate(self.samples_):
            own = self.rows_[sample]
            distances = self._distances(b, own, np.ones(len(own), dtype=bool))
            if self.n_subspaces is not None:
                spread = np.sqrt(own[:, self.columns_[b]].var(axis=0).sum())
                # Rows that are all alike have neither: distances then stay what they are.
                self.scale_[b] = (distances.mean() + LEAST * spread) or 1.0
            if n <= most:
                total += self._counted(b, distances)
        return -total / len(self.scale_) if n <= most else None

    def _distances(self, b: int, X: Host, own: NDArray[np.bool_]) -> Host:
        """Distances to the k-th nearest row of a subset's sample; own rows do not count."""
        columns = self.columns_[b]
        anchors, new = self.rows_[np.ix_(self.samples_[b], columns)], X[:, columns]
        some = bool(own.any())
        k = min(int(self.n_neighbors), len(anchors) - some)
        nearest = _nearest(anchors, new, k + some)
        chosen = anchors[nearest[np.arange(len(new)), np.where(own, k, k - 1)]]
        # Computed anew: the search takes squares apart, and is off by 1e-8 between equal rows.
        with np.errstate(over="ignore"):
            return np.sqrt(((new - chosen) ** 2).sum(axis=1))

    def _counted(self, b: int, distances: Host) -> Host:
        """What distances in a subset add to the mean."""
        if self.n_subspaces is None:
            return distances
        units = distances / self.scale_[b]
        return np.minimum(units, FAR) + np.log(np.maximum(units / FAR, 1.0))

    def _score(self, X: Host) -> Host:
        return self._averaged(X, np.full(len(X), -1))

    def _leave_one_out(self, X: Host, index: NDArray[np.int64]) -> Host:
        places = np.full(self.n_samples_, -1)  # where a row is kept
        places[self.kept_] = np.arange(len(self.kept_))
        return self._averaged(X, places[index])

    def _averaged(self, X: Host, places: NDArray[np.int64]) -> Host:
        subsets = enumerate(self.samples_)
        parts = (self._counted(b, self._distances(b, X, np.isin(places, s))) for b, s in subsets)
        total: Host = -sum(parts, np.zeros(len(X))) / len(self.scale_)
        return total


def _nearest(anchors: Host, new: Host, k: int) -> NDArray[np.int64]:
    """Positions of the k nearest anchors of each row, the nearest first."""
    if anchors.shape[1] <= TREE_COLUMNS:
        found = KDTree(anchors, balanced_tree=False).query(new, range(1, k + 1))[1]
        return np.minimum(found, len(anchors) - 1)  # none is found at distances beyond all numbers
    search = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(anchors)
    nearest: NDArray[np.int64] = search.kneighbors(new, return_distance=False)
    return nearest
