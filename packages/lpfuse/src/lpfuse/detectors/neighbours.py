"""The distance to the k-th nearest training row, in all columns or in subsets of them."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays.operations import Host
from lpfuse._checks.arguments import check_count
from lpfuse._saved import saved_as
from lpfuse.detectors._held_out import HeldOutDetector
from lpfuse.detectors._nearest import SubsetSearch

# Chosen by hand. Of so many samples the rows are kept that those of the subsets are drawn from.
RESERVE = 5
# Added to the mean distance of neighbours, in units of the spread: it may be zero, where every row
# has an equal one. A larger share ranks worse (0.01: by 0.4 AUC on 51 tables).
LEAST = 1e-6
# Mean distances from which on logarithms count, so that a new value of a column with few, which may
# be a million of them away, does not outweigh all other subsets. On the same tables a hard limit
# there costs 0.05 AUC, ranks of distances instead of distances as much.
FAR = 10.0


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

    @property
    def relative_work(self) -> float:  # type: ignore[override]
        """Six times that of a histogram with 20 subsets of 2,000 rows; with fewer, less."""
        return max(1.0, (self.n_subspaces or 1) * self.max_samples / 6_000)

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
        self.__dict__.pop("_search", None)  # of a fit before this one
        every = n <= most
        own = self._search.own_distances(int(self.n_neighbors), every)
        self.scale_ = np.ones(len(self.columns_))
        if self.n_subspaces is not None:
            for b, (sample, columns) in enumerate(zip(self.samples_, self.columns_, strict=True)):
                spread = np.sqrt(self.rows_[np.ix_(sample, columns)].var(axis=0).sum())
                # Rows that are all alike have neither: distances then stay what they are.
                self.scale_[b] = (own[:, b].mean() + LEAST * spread) or 1.0
        return self._averaged(own) if every else None

    @cached_property
    def _search(self) -> SubsetSearch:
        return SubsetSearch(self.rows_, self.samples_, self.columns_)

    def _averaged(self, distances: Host) -> Host:
        """Scores from the distances in each subset, of shape (n, m)."""
        if self.n_subspaces is None:
            return -distances[:, 0]
        units = distances / self.scale_
        far = np.log(np.maximum(units / FAR, 1.0))
        return -(np.minimum(units, FAR) + far).mean(axis=1)

    def _score(self, X: Host) -> Host:
        return self._averaged(self._search.distances(X, int(self.n_neighbors)))

    def _leave_one_out(self, X: Host, index: NDArray[np.int64]) -> Host:
        place = np.full(self.n_samples_, -1)  # where a row is kept
        place[self.kept_] = np.arange(len(self.kept_))
        own = self._search.places(place[index])
        return self._averaged(self._search.distances(X, int(self.n_neighbors), own))
