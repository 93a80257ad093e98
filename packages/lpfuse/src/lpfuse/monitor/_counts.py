"""Streams of numbers side by side, in bins: what workers count, and what a monitor remembers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from lpfuse._arrays.operations import Host
from lpfuse._saved import saved_as
from lpfuse.monitor._bins import Bins

# Stakes are placed, and a change is dated, a block at a time: of so many rows, and of more where
# that would make more blocks of one batch, each of which costs as much as the other.
BLOCK, MOST_BLOCKS = 100, 20
# Blocks that are remembered apart; where there are more, two become one.
REMEMBERED = 64


@dataclass(frozen=True, eq=False)
class StreamCounts:
    """What a monitor takes of some rows; ``a + b`` is that of the rows of a, then those of b.

    Attributes
    ----------
    rows : ndarray of shape (b,)
        Rows in each block.
    columns : ndarray of shape (b, d, B) or None
        Counts of the columns' bins, where there are such.
    scores : ndarray of shape (b, 1 + R, B) or None
        Counts of the bins of the fused score and the detectors'.
    waiting : ndarray of shape (m, 1 + R) or None
        The scores themselves, where there are no bins yet.
    """

    rows: NDArray[np.int64]
    columns: Host | None
    scores: Host | None
    waiting: Host | None

    def __add__(self, other: StreamCounts) -> StreamCounts:
        if (self.scores is None) != (other.scores is None):
            raise ValueError(
                "Counts from before and after scores had bins cannot be added. Take them in one "
                "after the other: monitor.update_counts(a), then b."
            )
        return StreamCounts(
            np.concatenate([self.rows, other.rows]),
            _joined(self.columns, other.columns),
            _joined(self.scores, other.scores),
            _joined(self.waiting, other.waiting),
        )


def _joined(one: Host | None, other: Host | None) -> Host | None:
    return None if one is None or other is None else np.concatenate([one, other])


def block_sizes(n: int) -> NDArray[np.int64]:
    """How many of n rows go to each block."""
    size = max(BLOCK, -(-n // MOST_BLOCKS))
    return np.diff(np.append(np.arange(0, n, size), n))


def count_blocks(places: Bins, n_bins: int, rows: NDArray[np.int64]) -> Host:
    """Counts of bins, of shape (blocks, J, B)."""
    width = places.shape[1]
    block = np.repeat(np.arange(len(rows)), rows)
    index = (block[:, None] * width + np.arange(width)) * n_bins + places
    found = np.bincount(index.ravel(), minlength=len(rows) * width * n_bins)
    return found.reshape(len(rows), width, n_bins).astype(np.float64)


@saved_as("StreamHistory")
@dataclass(frozen=True, eq=False)
class StreamHistory:
    """How J streams went: sums over at most `REMEMBERED` blocks, and how many rows a block has.

    Attributes
    ----------
    rows : ndarray of shape (h,)
        Rows of each block.
    sums, squares : ndarrays of shape (h, J)
        Of normal scores: the reference's quantiles as those of the standard normal law.
    """

    rows: NDArray[np.int64]
    sums: Host
    squares: Host

    @classmethod
    def empty(cls, width: int) -> StreamHistory:
        """Of no rows."""
        nothing = np.empty((0, width))
        return cls(np.empty(0, dtype=np.int64), nothing, nothing)

    def with_blocks(self, blocks: Host, rows: NDArray[np.int64], gaps: Host) -> StreamHistory:
        """With the counts of further blocks, of shape (blocks, J, B)."""
        scores = normal_scores(gaps)
        added = StreamHistory(rows, blocks @ scores, blocks @ scores**2)
        return self.beside(added)

    def beside(self, other: StreamHistory) -> StreamHistory:
        """With what another one remembers, of later rows."""
        found = StreamHistory(
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.sums, other.sums]),
            np.concatenate([self.squares, other.squares]),
        )
        while len(found.rows) > REMEMBERED:
            found = found._by_pairs()
        return found

    def _by_pairs(self) -> StreamHistory:
        """Every two neighbours together, from the first on."""
        return StreamHistory(*(_paired(each) for each in (self.rows, self.sums, self.squares)))

    def latest(self) -> tuple[Host, Host]:
        """Mean and standard deviation of the latest rows, a fiftieth of all at least."""
        if not len(self.rows):
            empty = np.full(self.sums.shape[1], np.nan)
            return empty, empty
        back = np.cumsum(self.rows[::-1])
        first = len(self.rows) - 1 - int(np.searchsorted(back, max(BLOCK, 0.02 * back[-1])))
        first = max(first, 0)
        n = self.rows[first:].sum()
        mean = self.sums[first:].sum(axis=0) / n
        square = self.squares[first:].sum(axis=0) / n
        return mean, np.sqrt(np.maximum(square - mean**2, 0.0))


def _paired(values: Any) -> Any:
    even = len(values) // 2 * 2
    return np.concatenate([values[:even:2] + values[1:even:2], values[even:]])


def normal_scores(gaps: Host) -> Host:
    """The mean of the standard normal law in each bin."""
    ends = ndtri(np.concatenate([[0.0], np.cumsum(gaps) / gaps.sum()]))
    density = np.exp(-(ends**2) / 2) / np.sqrt(2 * np.pi)
    found: Host = -np.diff(density) / (gaps / gaps.sum())
    return found
