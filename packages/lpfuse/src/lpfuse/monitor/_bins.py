"""Where values fall among those of reference rows: bins whose chances are known exactly.

The n values of a column in the reference part the line into n + 1 gaps. Whatever continuous law the
values follow, the chances of the gaps are, before one has looked, uniform on the simplex: a
Dirichlet law with a parameter of 1 for each gap (Wilks 1962, chapter 8.7), and with a parameter of
k for a bin of k gaps. Ties are broken at random, so that it holds for counts, for words as numbers
and for missing cells as well; these lie below all others.

Wilks (1962). Mathematical Statistics. Wiley.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays.operations import Host
from lpfuse._saved import saved_as

# Quantiles of the reference at which bins end, as far as its rows tell them: narrow at both ends,
# where anomalies are. Chosen by hand; detection hardly depends on them.
_LOW = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05)
LEVELS = (*_LOW, *(k / 10 for k in range(1, 10)), *(1 - level for level in reversed(_LOW)))

Bins = NDArray[np.int8]


@saved_as("ReferenceBins")
@dataclass(frozen=True, eq=False)
class ReferenceBins:
    """The bins of J columns, equally many in each.

    Attributes
    ----------
    edges, ranks_among_ties : ndarrays of shape (B − 1, J)
        Where bins end: values of the reference; and numbers in (0, 1) that break ties with them.
    gaps : ndarray of shape (B,)
        How many of the n + 1 gaps each bin holds.
    seed : int
        For breaking ties.
    """

    edges: Host
    ranks_among_ties: Host
    gaps: Host
    seed: int

    @classmethod
    def of(cls, reference: Host, seed: int) -> Self:
        """Bins of a reference of shape (n, J); NaN where a value is missing."""
        n, width = reference.shape
        ends = np.unique(np.rint(np.array(LEVELS) * (n + 1)).astype(int))
        # What lies outside all of the reference has bins of its own.
        ends = np.unique(np.clip(np.concatenate([[1], ends, [n]]), 1, n))
        ordered = np.sort(without_missing(reference), axis=0)
        edges = ordered[ends - 1]
        ranks = np.empty(edges.shape)
        for j in range(width):
            ranks[:, j] = _ranks_among_ties(ordered[:, j], edges[:, j], ends, [seed, j])
        return cls(edges, ranks, np.diff(ends, prepend=0, append=n + 1).astype(np.float64), seed)

    def places(self, values: Host, first_row: int) -> Bins:
        """The bin of each value, of shape (m, J); rows are numbered from `first_row`."""
        values = without_missing(values)
        found = np.empty(values.shape, dtype=np.int8)
        for j, edges in enumerate(self.edges.T):
            column = values[:, j]
            low = np.searchsorted(edges, column, side="left")
            high = np.searchsorted(edges, column, side="right")
            tied = np.flatnonzero(low < high)
            if tied.size:  # among equal edges, by numbers drawn for each row
                drawn = uniform_numbers(self.seed, first_row + tied, 1, j)
                below = self.ranks_among_ties[:, j] < drawn
                here = np.arange(len(edges))
                inside = (here >= low[tied, None]) & (here < high[tied, None])
                low[tied] += (below & inside).sum(axis=1)
            found[:, j] = low
        return found


def _ranks_among_ties(ordered: Host, edges: Host, ends: Any, seed: list[int]) -> Host:
    """Had each row drawn a number to break its ties: those of the rows at which bins end."""
    rng = np.random.default_rng(seed)
    first = np.searchsorted(ordered, edges, side="left")
    last = np.searchsorted(ordered, edges, side="right")
    ranks = np.empty(len(edges))
    for start in np.unique(first):
        here = first == start
        drawn = np.sort(rng.random(last[here][0] - start))  # of all rows with that value
        ranks[here] = drawn[ends[here] - 1 - start]
    return ranks


def without_missing(values: Host) -> Host:
    """Missing values below all others."""
    return np.where(np.isnan(values), -np.inf, values)


def uniform_numbers(seed: int, rows: NDArray[np.int64], width: int, first: int = 0) -> Host:
    """Numbers in (0, 1), as good as random, that depend on seed, row and column alone.

    So it does not matter in which batches, or on which machine, a row is looked at.

    Examples
    --------
    >>> import numpy as np
    >>> uniform_numbers(0, np.arange(2), 3).round(2)
    array([[0.65, 0.7 , 0.39],
           [0.37, 0.94, 0.05]])
    """
    with np.errstate(over="ignore"):
        number = np.asarray(rows, dtype=np.int64).astype(np.uint64)[:, None]
        column = np.arange(first, first + width, dtype=np.uint64)
        mixed = _mix(_mix(number + np.uint64(seed)) + column * np.uint64(0x9E3779B97F4A7C15))
    return ((mixed >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def _mix(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Every bit of the result depends on every bit of a number (Steele, Lea and Flood 2014)."""
    numbers = numbers + np.uint64(0x9E3779B97F4A7C15)
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))
