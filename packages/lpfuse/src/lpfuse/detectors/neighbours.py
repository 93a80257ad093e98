"""Detector by the distance to the k-th nearest training row, in all columns or in subsets."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from lpfuse._arrays.operations import Host, one_blas_thread
from lpfuse._compiled import compiled
from lpfuse._files import saved_as
from lpfuse._validation.params import check_count
from lpfuse.detectors.base import HeldOutDetector

# --------------------------------------------------------------------------------------------------
# Nearest neighbours in many subsets of the columns at once.


Positions = NDArray[np.int64]

_core: Any = compiled("lpfuse.detectors._neighbours")

# Rows whose median is subtracted before numbers are rounded to single precision; chosen by hand.
CENTRE_ROWS = 101
# Largest number of anchors per product, unless one subset has more, and of distances held at a
# time, which then stay in the cache. Both by measurement.
ANCHORS_AT_A_TIME = 4_000
DISTANCES_AT_A_TIME = 512_000
# Rounding error of a product of a few hundred terms, and the share of the squared distance below
# which it does not affect the order of neighbours. Both by hand.
ROUNDING, TELLS_APART = 32 * 2.0**-52, 1e-6


class Stack(NamedTuple):
    """Anchors of several subsets, side by side."""

    subsets: slice
    right: Host  # (d + 1, subsets · anchors)


class SubsetSearch:
    """Search of the nearest anchors in each subset of the columns, compiled or by `ProductSearch`.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
        All anchors.
    samples : sequence of ndarray of shape (s,)
        For each subset the positions of its anchors, equally many.
    columns : sequence of ndarray
        For each subset its columns.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.array([[0.0, 9.0], [5.0, 0.0]])
    >>> search = SubsetSearch(rows, [np.arange(2)] * 2, [np.array([0]), np.array([1])])
    >>> search.distances(np.array([[1.0, 1.0]]), 1)  # in the first column, in the second
    array([[1., 1.]])
    """

    def __init__(
        self, rows: Host, samples: Sequence[Positions], columns: Sequence[Positions]
    ) -> None:
        self.rows, self.samples, self.columns = rows, np.stack(samples), columns

    @cached_property
    def _form(self) -> Any:
        if _core is None:
            return ProductSearch(self.rows, list(self.samples), self.columns)
        places = np.linspace(0, len(self.rows) - 1, CENTRE_ROWS).astype(np.intp)
        with np.errstate(over="ignore"):
            centre = np.median(self.rows[places], axis=0)
        return _core.Search(self.rows, self.samples, self.columns, centre)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_form"}

    def distances(self, X: Host, k: int, own: Positions | None = None) -> Host:
        """Return distances of rows to their k-th nearest anchor.

        Parameters
        ----------
        X : ndarray of shape (m, d)
            Rows.
        k : int
            Number of the neighbour; the farthest one where there are fewer.
        own : ndarray of shape (m, subsets), optional
            Position of a row among a subset's anchors, which is excluded; −1: none.

        Returns
        -------
        ndarray of shape (m, subsets)
            Distances.
        """
        with one_blas_thread:
            found: Host = self._form.distances(X, k, own)
        return found

    def own_distances(self, k: int, every: bool) -> Host:
        """Return distances of each subset's anchors to the k-th nearest other one: (s, subsets).

        Where `every` row is an anchor of all subsets, one search is enough.
        """
        if every:
            places = np.arange(self.samples.shape[1])[:, None]
            return self.distances(self.rows, k, np.broadcast_to(places, self.samples.T.shape))
        with one_blas_thread:
            return np.hstack([self._form.own_distances(b, k) for b in range(len(self.samples))])

    def neighbours(self, X: Host, k: int, own: Positions) -> tuple[Positions, Host]:
        """Return positions of the k nearest anchors of the first subset, and distances: (m, k)."""
        with one_blas_thread:
            found: tuple[Positions, Host] = self._form.neighbours(X, k, own)
        return found

    def places(self, rows: Positions) -> Positions:
        """Return the positions of rows (−1: no row) among the anchors of each subset; −1: none."""
        where = np.full((len(self.samples), len(self.rows) + 1), -1)
        np.put_along_axis(where, self.samples, np.arange(self.samples.shape[1])[None], axis=1)
        found: Positions = where[:, rows].T
        return found


class ProductSearch:
    r"""The search of `SubsetSearch` by NumPy: one matrix product for many subsets.

    In the columns C, :math:`\|x_C - a_C\|^2 = \|x_C\|^2 - 2 x^\top (a \odot 1_C) + \|a_C\|^2`. With
    the other columns of an anchor set to zero, one matrix holds the anchors of many subsets, and
    one product computes the distances to all. The first term is the same for all anchors of a
    subset and is left out.

    Parameters
    ----------
    rows, samples, columns
        As in `SubsetSearch`.
    """

    def __init__(
        self, rows: Host, samples: Sequence[Positions], columns: Sequence[Positions]
    ) -> None:
        self.rows, self.samples = rows, np.stack(samples)
        self.mask = np.zeros((len(columns), rows.shape[1]))
        for b, some in enumerate(columns):
            self.mask[b, some] = 1.0
        # Centring at the median avoids the cancellation of a common offset, and is robust to
        # outliers.
        with np.errstate(over="ignore", invalid="ignore"):
            self.centre = np.median(rows, axis=0)
            self.largest = np.sqrt(((rows - self.centre) ** 2 @ self.mask.T).max(axis=0))
            together = max(1, ANCHORS_AT_A_TIME // self.samples.shape[1])
            starts = range(0, len(columns), together)
            self.stacks = [self._stack(slice(start, start + together)) for start in starts]

    def _stack(self, subsets: slice) -> Stack:
        anchors = (self.rows[self.samples[subsets]] - self.centre) * self.mask[subsets][:, None, :]
        flat = anchors.reshape(-1, self.rows.shape[1])
        right = np.vstack([-2.0 * flat.T, (flat * flat).sum(axis=1)])
        return Stack(subsets, np.ascontiguousarray(right))

    def distances(self, X: Host, k: int, own: Positions | None = None) -> Host:
        """Return distances of rows to their k-th nearest anchor: (m, subsets)."""
        found = np.empty((len(X), len(self.mask)))
        width = max(stack.right.shape[1] for stack in self.stacks)
        step = max(1, DISTANCES_AT_A_TIME // width)
        # One buffer for all products: allocation costs more than the product itself.
        buffer = np.empty(min(step, len(X)) * width)
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, len(X), step):
                block = slice(start, start + step)
                inside = None if own is None else own[block]
                found[block] = self._of_block(X[block], k, inside, buffer)
        return found

    def own_distances(self, b: int, k: int) -> Host:
        """Return distances of a subset's anchors to the k-th nearest other one: (s, 1)."""
        sample = self.samples[b]
        search = ProductSearch(self.rows, [sample], [np.flatnonzero(self.mask[b])])
        return search.distances(self.rows[sample], k, np.arange(len(sample))[:, None])

    def neighbours(self, X: Host, k: int, own: Positions) -> tuple[Positions, Host]:
        """Return positions of the k nearest anchors of the first subset, and distances: (m, k)."""
        anchors, columns = self.rows[self.samples[0]], self.mask[0] > 0
        nearest, apart = np.empty((len(X), k), dtype=np.int64), np.empty((len(X), k))
        step = max(1, DISTANCES_AT_A_TIME // len(anchors))
        for start in range(0, len(X), step):
            block = slice(start, start + step)
            every = cdist(X[block][:, columns], anchors[:, columns])
            inside = np.flatnonzero(own[block, 0] >= 0)
            every[inside, own[block, 0][inside]] = np.inf
            nearest[block] = np.argpartition(every, k - 1, axis=1)[:, :k]
            apart[block] = np.take_along_axis(every, nearest[block], axis=1)
        return nearest, apart

    def _of_block(self, X: Host, k: int, own: Positions | None, buffer: Host) -> Host:
        left = np.column_stack([X - self.centre, np.ones(len(X))])
        size = self.samples.shape[1]
        nearest = np.empty((len(X), len(self.mask)), dtype=np.int64)
        for subsets, right in self.stacks:
            products = buffer[: len(X) * right.shape[1]].reshape(len(X), -1)
            apart = np.matmul(left, right, out=products).reshape(len(X), -1, size)
            if own is not None:
                row, subset = np.nonzero(own[:, subsets] >= 0)
                apart[row, subset, own[:, subsets][row, subset]] = np.inf
            nearest[:, subsets] = _kth(apart, k, own if own is None else own[:, subsets] >= 0)
        # Recomputed from differences: the product cancels, and is off by 1e-8 between equal rows.
        chosen = self.rows[self.samples[np.arange(len(self.mask)), nearest]]
        chosen -= X[:, None, :]
        chosen *= chosen
        squares = np.einsum("ibd,bd->ib", chosen, self.mask)
        # Where rounding of the products may have changed the order, compare by differences.
        size = np.sqrt((left[:, :-1] ** 2) @ self.mask.T)
        unsure = ROUNDING * self.largest * (size + self.largest) > TELLS_APART * squares
        if k == 1:
            unsure &= squares > 0
        for b in np.flatnonzero(unsure.any(axis=0)).tolist():
            rows = np.flatnonzero(unsure[:, b])
            squares[rows, b] = self._one_by_one(
                X[rows], b, k, None if own is None else own[rows, b]
            )
        return np.sqrt(squares)

    def _one_by_one(self, X: Host, b: int, k: int, own: Positions | None) -> Host:
        """Return squared distances to a subset's k-th nearest anchor from differences of rows."""
        columns = self.mask[b] > 0
        anchors = self.rows[self.samples[b]][:, columns]
        apart = cdist(X[:, columns], anchors, "sqeuclidean")
        place = np.full(len(X), min(k, len(anchors)) - 1)
        if own is not None:
            inside = np.flatnonzero(own >= 0)
            apart[inside, own[inside]] = np.inf
            place[inside] = min(k, len(anchors) - 1) - 1
        found: Host = np.sort(apart, axis=1)[np.arange(len(X)), place]
        return found


def _kth(apart: Host, k: int, own: NDArray[np.bool_] | None) -> Positions:
    """Return positions of the k-th smallest along the last axis; own anchors are infinite."""
    size = apart.shape[2]
    if k == 1 or size == 1:
        return apart.argmin(axis=2)
    place = np.full(apart.shape[:2], min(k, size) - 1)
    if own is not None:  # one anchor less
        place = np.where(own, min(k, size - 1) - 1, place)
    order = np.argpartition(apart, np.unique(place), axis=2)
    found: Positions = np.take_along_axis(order, place[:, :, None], axis=2)[:, :, 0]
    return found


# --------------------------------------------------------------------------------------------------
# The detector.

RESERVE = 5  # kept rows in units of `max_samples`, of which subsets draw samples; chosen by hand
# Added to the mean distance of neighbours, in units of the spread, since it may be zero. A larger
# share ranks worse (0.01: by 0.4 AUC on 51 tables).
LEAST = 1e-6
# Mean distances beyond which logarithms are used, so that a new value of a column with few, which
# may be a million of them away, does not dominate all other subsets. On the same tables a hard
# limit costs 0.05 AUC, and ranks of distances as much.
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
        Largest number of candidate neighbours. Of more rows, each subset draws its own sample,
        from a sample five times as large.
    contamination : float in (0, 0.5], default=0.1
        Share of new normal rows below the threshold, by leave-one-out scores.
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
        Divisors of the distances; 1 without subsets.
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
    ``leave_one_out_scores`` exclude the row from its neighbours. They are exact where all rows are
    kept, except for the scales, which one row hardly changes. Computation is on the host for all
    array libraries.

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
        """Relative duration: 6 for 20 subsets of 2,000 rows, less for fewer."""
        return max(1.0, (self.n_subspaces or 1) * self.max_samples / 6_000)

    def _check_parameters(self) -> None:
        check_count("n_neighbors", self.n_neighbors)
        check_count("max_samples", self.max_samples)
        if self.n_subspaces is not None:
            check_count("n_subspaces", self.n_subspaces)

    def _learn(self, X: Host, rng: np.random.RandomState) -> Host | None:
        n, d = X.shape
        most = max(2, int(self.max_samples))  # a neighbour needs another row
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
        self.__dict__.pop("_search", None)  # of an earlier fit
        every = n <= most
        own = self._search.own_distances(int(self.n_neighbors), every)
        self.scale_ = np.ones(len(self.columns_))
        if self.n_subspaces is not None:
            for b, (sample, columns) in enumerate(zip(self.samples_, self.columns_, strict=True)):
                spread = np.sqrt(self.rows_[np.ix_(sample, columns)].var(axis=0).sum())
                # Both are zero where all rows are equal: distances are then not scaled.
                self.scale_[b] = (own[:, b].mean() + LEAST * spread) or 1.0
        return self._averaged(own) if every else None

    @cached_property
    def _search(self) -> SubsetSearch:
        return SubsetSearch(self.rows_, self.samples_, self.columns_)

    def _averaged(self, distances: Host) -> Host:
        """Return scores from the distances in each subset, of shape (n, m)."""
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
