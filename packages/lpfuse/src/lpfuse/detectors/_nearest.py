"""The k-th nearest of some rows, in many subsets of the columns at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from lpfuse._arrays.operations import Host
from lpfuse._arrays.threads import one_blas_thread

Positions = NDArray[np.int64]

# Anchors that one product compares with, at most, unless one subset has more; and distances that
# are held at a time, which then stay in the cache. Both by measurement.
ANCHORS_AT_A_TIME = 4_000
DISTANCES_AT_A_TIME = 512_000
# A product of a few hundred terms is off by some units in the last place, and neighbours count as
# told apart where that is below a millionth of the squared distance. Both by hand.
ROUNDING, TELLS_APART = 32 * 2.0**-52, 1e-6


class Stack(NamedTuple):
    """Anchors of several subsets, side by side."""

    subsets: slice
    right: Host  # (d + 1, subsets · anchors)


class SubsetSearch:
    r"""Finds, in each subset of the columns, the k-th nearest of the subset's anchors.

    In the columns C, :math:`\|x_C - a_C\|^2 = \|x_C\|^2 - 2 x^\top (a \odot 1_C) + \|a_C\|^2`. With
    the other columns of an anchor set to zero, one matrix holds the anchors of many subsets, and
    one product does the work of all. The first term is the same for all anchors of a subset, and is
    left out: what is nearest stays nearest.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
        What anchors are taken from.
    samples : sequence of ndarray of shape (s,)
        For each subset the positions of its anchors, equally many.
    columns : sequence of ndarray
        Its columns.

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
        self.rows, self.samples = rows, np.stack(samples)
        self.mask = np.zeros((len(columns), rows.shape[1]))
        for b, some in enumerate(columns):
            self.mask[b, some] = 1.0
        # Measured from their median, rows keep the digits that a common offset would cancel, and no
        # row that is far off takes the digits of the others.
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
        """Distances of rows to their k-th nearest anchor.

        Parameters
        ----------
        X : ndarray of shape (m, d)
            Rows.
        k : int
            Which neighbour; the farthest one where there are fewer.
        own : ndarray of shape (m, subsets), optional
            Where a row is itself among a subset's anchors, which then does not count; −1: nowhere.

        Returns
        -------
        ndarray of shape (m, subsets)
            Distances.
        """
        found = np.empty((len(X), len(self.mask)))
        width = max(stack.right.shape[1] for stack in self.stacks)
        step = max(1, DISTANCES_AT_A_TIME // width)
        # One buffer for all products: a new one each time costs more than the product itself.
        buffer = np.empty(min(step, len(X)) * width)
        with one_blas_thread, np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, len(X), step):
                block = slice(start, start + step)
                inside = None if own is None else own[block]
                found[block] = self._of_block(X[block], k, inside, buffer)
        return found

    def own_distances(self, k: int, every: bool) -> Host:
        """Distances of each subset's anchors to the k-th nearest *other* one: (s, subsets).

        Where `every` row is an anchor of all subsets, one search serves them all.
        """
        places = np.arange(self.samples.shape[1])
        if every:
            own = np.broadcast_to(places[:, None], self.samples.T.shape)
            return self.distances(self.rows, k, own)
        alone = (SubsetSearch(self.rows, [sample], [np.flatnonzero(mask)])
                 for sample, mask in zip(self.samples, self.mask, strict=True))  # fmt: skip
        found = [search.distances(self.rows[search.samples[0]], k, places[:, None])
                 for search in alone]  # fmt: skip
        return np.hstack(found)

    def places(self, rows: Positions) -> Positions:
        """Where rows, by their positions (−1: none of them), are among the anchors of a subset."""
        where = np.full((len(self.samples), len(self.rows) + 1), -1)
        np.put_along_axis(where, self.samples, np.arange(self.samples.shape[1])[None], axis=1)
        found: Positions = where[:, rows].T
        return found

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
        # Computed anew: the product takes squares apart, and is off by 1e-8 between equal rows.
        chosen = self.rows[self.samples[np.arange(len(self.mask)), nearest]]
        chosen -= X[:, None, :]
        chosen *= chosen
        squares = np.einsum("ibd,bd->ib", chosen, self.mask)
        # What rounding may have done to the products; beside it, near anchors cannot be told apart.
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
        """Squared distances to the k-th nearest anchor of a subset, from differences of rows."""
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
    """Positions of the k-th smallest along the last axis; own anchors are infinitely far."""
    size = apart.shape[2]
    if k == 1 or size == 1:
        return apart.argmin(axis=2)
    place = np.full(apart.shape[:2], min(k, size) - 1)
    if own is not None:  # there is one anchor less to choose from
        place = np.where(own, min(k, size - 1) - 1, place)
    order = np.argpartition(apart, np.unique(place), axis=2)
    found: Positions = np.take_along_axis(order, place[:, :, None], axis=2)[:, :, 0]
    return found
