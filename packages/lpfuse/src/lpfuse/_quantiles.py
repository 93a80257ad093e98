"""Quantiles of rows in blocks: a mergeable sketch, exact order statistics, distinct values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays.blocks import Blocks, arrays_of
from lpfuse._arrays.operations import Array, Host, concatenate, namespace, to_host, total
from lpfuse._validation.dask_blocks import check_vector_blocks
from lpfuse._validation.params import listed

__all__ = ["SIZE", "QuantileSketch", "VectorInBlocks", "positions_among", "tolerance_of"]


# --------------------------------------------------------------------------------------------------
# A mergeable quantile sketch with a proven error bound.
#
# A sketch of a block keeps some of its values in levels: a value of level ``l`` represents ``2^l``
# rows. A level that exceeds a fixed size is halved: sorted, paired, and one value of each pair is
# promoted to the next level. Values are chosen per column; their number and weights are common to
# all columns.
#
# Error of a halving. Let ``w`` be the weight of a value of the level, and let j of the paired
# values be at most x; together they represent ``j w`` rows up to x. One of each pair is promoted,
# with weight ``2 w``. If it is the lower one, ``⌈j/2⌉`` of the promoted values are at most x, which
# represent ``2 ⌈j/2⌉ w`` rows: as many as before, or w more. If it is the upper one, ``⌊j/2⌋`` are:
# as many rows as before, or w fewer. So the sum of w over all halvings, separately for both sides,
# bounds the error of the sketch, whatever the values are.
#
# Munro and Paterson (1980). Selection and sorting with limited storage. Theoretical Computer
# Science 12(3), 315–323. (halving)
#
# Agarwal, Cormode, Huang, Phillips, Wei and Yi (2013). Mergeable summaries. ACM Transactions on
# Database Systems 38(4), 26. (merging)


# Values of a level. Up to 9,000 · 2^18 = 2.36e9 rows 18 levels at most are halved, so that ranks
# are wrong by 18 / (2 · 9,000) = 0.1 % of the rows at most (the bound of `QuantileSketch`).
SIZE = 9000


@dataclass(frozen=True)
class QuantileSketch:
    r"""Quantile sketch of the columns of a table, from one pass over its blocks.

    With :math:`F(x)` the number of rows up to x and :math:`\hat F(x)` the weight of the kept
    values up to x, for every x of every column

    .. math:: \hat F(x) - \mathrm{over} \le F(x) \le \hat F(x) + \mathrm{under} .

    Attributes
    ----------
    n : int
        Number of rows.
    lowest, highest : ndarray of shape (R,)
        Minimum and maximum of each column, exactly; ±∞ without rows.
    levels : tuple of ndarray of shape (m_l, R)
        The kept values, each level sorted; those of level l represent ``2^l`` rows.
    under, over : int
        The bounds above: largest errors of the halvings, downwards and upwards.
    size : int
        The most values that a level holds.

    Notes
    -----
    Halving a level of weight ``w = 2^l`` adds ``w`` to `under` or to `over`, and promotes values
    that represent at least ``size · w`` rows. No row is promoted from a level twice, so level l is
    halved ``n / (size · w)`` times at most and costs ``n / size`` rows at most, whatever the blocks
    and merges. Level l is halved only if it holds more than `size` values, ``size · 2^l < n``:
    ``log2(2 n / size)`` levels at most. Half-way between its two bounds a rank is off by half of
    their distance at most, so

    .. math:: \mathrm{rank\_error} \le \frac{n}{2\,\mathrm{size}} \log_2 \frac{2 n}{\mathrm{size}} .

    Large blocks and wide merges cost far less, because they halve a level once. Up to `size` rows
    are all kept, and the sketch is exact.

    Examples
    --------
    >>> import numpy as np
    >>> halves = np.arange(50_000.0), np.arange(50_000.0, 100_000.0)
    >>> sketch = QuantileSketch.merge([QuantileSketch.of(half) for half in halves])
    >>> sketch.n, sketch.rank_error, sketch.bounds(25_000)
    (100000, 11, (array([24981.]), array([25013.])))
    """

    n: int
    lowest: Host
    highest: Host
    levels: tuple[Host, ...]
    under: int
    over: int
    size: int

    @classmethod
    def of(cls, values: Array, size: int = SIZE) -> Self:
        """Return the sketch of one block, in little more than the time to sort it.

        Parameters
        ----------
        values : array of shape (n, R) or (n,)
            Numbers without NaN, sorted on their device. There may be no rows.
        size : int, default=SIZE
            The most values that a level holds.

        Returns
        -------
        QuantileSketch
            On the host.
        """
        columns = values if values.ndim == 2 else values[:, None]
        n, R = columns.shape
        if n == 0:
            return cls(0, np.full(R, np.inf), np.full(R, -np.inf), (np.empty((0, R)),), 0, 0, size)
        ordered = namespace(columns).sort(columns, axis=0)
        levels, under, over = _halved([[ordered]], 0, 0, size)
        ends = to_host(ordered[0, :]), to_host(ordered[n - 1, :])
        return cls(n, *ends, levels, under, over, size)

    @classmethod
    def merge(cls, sketches: Sequence[Self]) -> Self:
        """Merge sketches of the same size; merging many at once loses least.

        Parameters
        ----------
        sketches : sequence of QuantileSketch
            At least one.

        Returns
        -------
        QuantileSketch
            It depends on the order of the sketches; its error bound does not.
        """
        runs = [
            [run for run in level if run is not None]
            for level in zip_longest(*(sketch.levels for sketch in sketches))
        ]
        levels, under, over = _halved(
            runs,
            sum(sketch.under for sketch in sketches),
            sum(sketch.over for sketch in sketches),
            sketches[0].size,
        )
        return cls(
            sum(sketch.n for sketch in sketches),
            np.min([sketch.lowest for sketch in sketches], axis=0),
            np.max([sketch.highest for sketch in sketches], axis=0),
            levels,
            under,
            over,
            sketches[0].size,
        )

    @property
    def rank_error(self) -> int:
        """Upper bound of the error of an order statistic's rank, in rows."""
        return -(-(self.under + self.over) // 2)

    def order_statistic(self, k: int) -> Host:
        """Return a value of each column with a rank within `rank_error` of k; exact at both ends.

        Parameters
        ----------
        k : int
            The rank: 0 for the smallest, n − 1 for the largest.

        Returns
        -------
        ndarray of shape (R,)
            Values that occur.
        """
        if k in (0, self.n - 1):
            return self.lowest if k == 0 else self.highest
        values, rows = self._in_order()
        # The rows up to a value are known best half-way between their bounds, F̂ − over and
        # F̂ + under; doubled, so that all stays in whole numbers.
        below = 2 * rows + self.under - self.over < 2 * (k + 1)
        return _picked(values, below.sum(axis=0))

    def bounds(self, k: int) -> tuple[Host, Host]:
        """Return two values that occur, with the k-th smallest of each column between them.

        Parameters
        ----------
        k : int
            The rank: 0 for the smallest, n − 1 for the largest.

        Returns
        -------
        low, high : ndarray of shape (R,)
            No more than ``2 (under + over)`` rows lie strictly between them.
        """
        if k in (0, self.n - 1):
            return self.order_statistic(k), self.order_statistic(k)
        values, rows = self._in_order()
        low = (rows[:-1] + self.under <= k).sum(axis=0)
        high = (rows[1:] - self.over <= k).sum(axis=0)
        return _picked(values, low), _picked(values, 1 + high)

    def ranks(self, x: Host) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return bounds of the number of rows up to given values.

        Parameters
        ----------
        x : ndarray of shape (m, R)
            Values, per column.

        Returns
        -------
        at_least, at_most : ndarray of shape (m, R)
            ``under + over`` apart at most; exact below the lowest row and from the highest on.
        """
        values, rows = self._in_order()
        counted = np.empty(x.shape, dtype=np.int64)
        for j, column in enumerate(values[1:-1].T):
            counted[:, j] = rows[np.searchsorted(column, x[:, j], side="right"), j]
        # Minimum and maximum are exact: no row is below the lowest, all are up to the highest, and
        # in between there is at least one and not all.
        fewest = np.where(x < self.highest, x >= self.lowest, self.n)
        most = np.where(x < self.lowest, 0, np.where(x < self.highest, self.n - 1, self.n))
        return (
            np.clip(counted - self.over, fewest, most),
            np.clip(counted + self.under, fewest, most),
        )

    def _in_order(self) -> tuple[Host, NDArray[np.int64]]:
        """Return the kept values in order between minimum and maximum, and cumulative weights."""
        kept = np.concatenate(self.levels)
        weights = np.repeat(2 ** np.arange(len(self.levels)), [len(level) for level in self.levels])
        order = np.argsort(kept, axis=0, stable=True)
        kept = np.take_along_axis(kept, order, axis=0)
        values = np.concatenate([self.lowest[None], kept, self.highest[None]])
        rows = np.zeros((len(kept) + 1, kept.shape[1]), dtype=np.int64)
        np.cumsum(weights[order], axis=0, out=rows[1:])
        return values, rows


def _halved(
    runs: Sequence[list[Array]], under: int, over: int, size: int
) -> tuple[tuple[Host, ...], int, int]:
    """Return levels of at most `size` values from sorted runs of each level, `under` and `over`.

    Long levels are halved from the bottom up. An odd value stays, so that weights add up to n. All
    pairs promote the same side, so that the smaller of both errors grows.
    """
    levels: list[Array] = []
    rising: list[Array] = []
    while rising or len(levels) < len(runs):
        weight = 2 ** len(levels)
        values = _one_run([*(runs[len(levels)] if len(levels) < len(runs) else []), *rising])
        rising = []
        if values.shape[0] > size:
            pairs = values.shape[0] // 2 * 2
            keep_upper = under <= over
            rising = [values[int(keep_upper) : pairs : 2, :]]
            values = values[pairs:, :]
            under, over = under + weight * keep_upper, over + weight * (not keep_upper)
        levels.append(values)
    # Copies: a view would keep its base alive.
    return tuple(np.array(to_host(level)) for level in levels), under, over


def _one_run(runs: list[Array]) -> Array:
    joined = concatenate(runs)
    # NumPy's stable sort finds the runs and merges them.
    return joined if len(runs) == 1 else namespace(joined).sort(joined, axis=0, stable=True)


def _picked(values: Host, rows: NDArray[np.intp]) -> Host:
    """Return one value per column, at the column's row."""
    return np.take_along_axis(values, rows[None], axis=0)[0]


# --------------------------------------------------------------------------------------------------
# Exact order statistics of a Dask vector, which is read twice at most.


Missing = list[tuple[int, int]]  # (block, number of its rows that are NaN)


class VectorInBlocks(NamedTuple):
    """A Dask vector with its quantile sketch, from one pass.

    Attributes
    ----------
    blocks : Blocks
        Blocks whose first part is a vector; without NaN.
    sketch : QuantileSketch
        Of all these numbers.

    Examples
    --------
    >>> import dask.array as da
    >>> VectorInBlocks.of(da.arange(100_000, chunks=9_000), "scores").smallest([0, 54_321])
    [0.0, 54321.0]
    """

    blocks: Blocks
    sketch: QuantileSketch

    @classmethod
    def of(cls, values: Any, name: str, size: int = SIZE) -> VectorInBlocks:
        """Read the numbers once; NaN, and anything but a numeric vector, raise an error.

        Parameters
        ----------
        values : Dask array or series of shape (n,)
            The numbers.
        name : str
            Their name in messages.
        size : int, default=SIZE
            Of the sketch.
        """
        check_vector_blocks(values, name)
        blocks = Blocks.of(values)
        sketch, missing = blocks.reduce(partial(_sketch_block, size), _merged)
        if missing:
            where = listed(f"block {block} ({rows} of its rows)" for block, rows in missing)
            raise ValueError(
                f"{name} must be numbers, but NaN is in {where}. Leave those rows out."
            )
        return cls(blocks, sketch)

    @property
    def size(self) -> int:
        """Number of rows."""
        return self.sketch.n

    def smallest(self, ranks: Sequence[int]) -> list[float]:
        """Return the exact order statistics of given ranks, from 0, by a second pass if needed.

        The sketch brackets each of them. The values inside the bracket are fetched: at most
        ``4 · rank_error`` rows per rank, whatever the number of ties.
        """
        brackets = [(float(low[0]), float(high[0])) for low, high in map(self.sketch.bounds, ranks)]
        if all(low == high for low, high in brackets):
            return [low for low, _ in brackets]
        found = self.blocks.reduce(_select_between, _joined, brackets)
        return [
            _of_rank(rank, *bracket, *seen)
            for rank, bracket, seen in zip(ranks, brackets, found, strict=True)
        ]


def _sketch_block(size: int, k: int, parts: tuple[Any, ...]) -> tuple[QuantileSketch, Missing]:
    """Return the sketch of block k without NaN, and the number of NaN."""
    values = arrays_of((parts[0], None, None))[0]
    missing = namespace(values).isnan(values)
    rows = int(total(missing))
    return QuantileSketch.of(values[~missing], size), [(k, rows)] if rows else []


def _merged(seen: list[tuple[QuantileSketch, Missing]]) -> tuple[QuantileSketch, Missing]:
    sketches = [sketch for sketch, _ in seen]
    return QuantileSketch.merge(sketches), [place for _, missing in seen for place in missing]


def _select_between(
    k: int, parts: tuple[Any, ...], brackets: list[tuple[float, float]]
) -> list[tuple[int, Host]]:
    """Return, per bracket, the number of rows up to its lower end and the values inside."""
    values = arrays_of((parts[0], None, None))[0]
    return [
        (int(total(values <= low)), to_host(values[(values > low) & (values < high)]))
        for low, high in brackets
    ]


def _joined(found: list[list[tuple[int, Host]]]) -> list[tuple[int, Host]]:
    return [
        (sum(count for count, _ in block), np.concatenate([inside for _, inside in block]))
        for block in zip(*found, strict=True)
    ]


def _of_rank(rank: int, low: float, high: float, up_to_low: int, inside: Host) -> float:
    """Return the order statistic: `low`, one of the values inside the bracket, or `high`.

    For ranks below `up_to_low` it is `low`, because the bracket holds it.
    """
    if rank < up_to_low:
        return low
    place = rank - up_to_low
    return float(np.partition(inside, place)[place]) if place < inside.size else high


# --------------------------------------------------------------------------------------------------
# Columns with few distinct values.


# Chosen by hand: the rounding of single precision, and far below the distance of two values.
ROUNDING = 1e-6  # of the largest value
APART = 1e-3  # of the smallest distance of two values


def tolerance_of(values: Host) -> float:
    """Return the tolerance for matching numbers with the values."""
    least = float(np.diff(values).min(initial=np.inf))
    return min(ROUNDING * float(np.abs(values).max()), APART * least)


def positions_among(values: Host, x: Host) -> NDArray[np.int64]:
    """Return the position of each number among ascending values; −1 without a match.

    Examples
    --------
    >>> positions_among(np.array([0.0, 0.1, 5.0]), np.array([np.float32(0.1), 5.0, 0.2]))
    array([ 1,  2, -1])
    """
    nearest = np.searchsorted(values[:-1] / 2 + values[1:] / 2, x)
    off = np.abs(x - values[nearest])
    return np.where(off <= tolerance_of(values), nearest, -1)
