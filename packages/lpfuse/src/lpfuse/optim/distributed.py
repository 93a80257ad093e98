"""The problem over Dask blocks, and rows that are gathered on the host.

Every pass is one reduction. Blocks are processed on their workers by the same functions as rows in
memory; R numbers and a few rows are returned. Workers keep no state between passes, so a worker may
be lost at any time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays import operations as ops
from lpfuse._arrays.blocks import Blocks, CheckedBlocks, Summary, arrays_of, map_blocks
from lpfuse._arrays.operations import Array, Host
from lpfuse.optim.problem import Block, LinearPieces, Problem, Terms, stratified_positions
from lpfuse.optim.results import Watch

T = TypeVar("T")

# Rows drawn during validation. Chosen by hand: some more than the sample of a search
# (`SearchTuning.in_memory`), because classes and blocks get integer numbers of rows.
LOGGER = logging.getLogger("lpfuse")
SAMPLE_ROWS = 40_000


class DrawnRows(NamedTuple):
    """Rows drawn from some blocks, each with the weight of the rows that it represents."""

    S: Host
    y: Host
    weight: Host


def stratified_sample(blocks: Blocks, n_rows: int = SAMPLE_ROWS) -> Summary:
    """Return a summary that draws rows proportionally from each class and each block."""
    if blocks.sizes is None:
        shares = [1.5 / len(blocks)] * len(blocks)  # unknown sizes: some more from each
    else:
        shares = [size / max(sum(blocks.sizes), 1) for size in blocks.sizes]
    return Summary(partial(_draw, [int(np.ceil(n_rows * share)) for share in shares]), _joined)


def _draw(wanted: list[int], k: int, S: Array, y: Array | None, c: Array | None) -> DrawnRows:
    n, R = (int(side) for side in S.shape)
    labels = np.ones(n) if y is None else y
    weights = np.ones(n) if c is None else c
    rng = np.random.default_rng(k)
    parts = [DrawnRows(np.empty((0, R)), np.empty(0), np.empty(0))]
    for side in (1.0, -1.0):
        rows = np.flatnonzero((labels == side) & (weights > 0))
        m = min(wanted[k], rows.size)
        if m:
            heap = np.cumsum(weights[rows])
            chosen = rows[stratified_positions(heap, m, rng)]
            parts.append(
                DrawnRows(
                    ops.to_host(ops.take(S, chosen)), np.full(m, side), np.full(m, heap[-1] / m)
                )
            )
    return _joined(parts)


def _joined(parts: list[DrawnRows]) -> DrawnRows:
    return DrawnRows(*(np.concatenate(group) for group in zip(*parts, strict=True)))


@dataclass(frozen=True)
class Costs:
    """Class factors of the costs: a row's cost is its weight times the factor of its class."""

    normal: float = 1.0
    anomaly: float = 1.0

    def of(self, n: int, y: Array | None, c: Array | None) -> Array | None:
        """Return the costs of a block of n rows; None: all 1. Without labels all are normal."""
        if (self.normal, self.anomaly) == (1.0, 1.0):
            return c
        factors = np.where(np.ones(n) if y is None else y > 0, self.normal, self.anomaly)
        return factors if c is None else c * factors


class BlockedProblem(Problem):
    """Scores in blocks, with labels and weights, over a ball.

    Parameters
    ----------
    checked : CheckedBlocks
        With the rows that `stratified_sample` has drawn.
    costs : Costs
        Factors of the classes.
    p, loss, nonnegative, fit_intercept, centre, radius, **norm
        As for a `Problem` in memory.
    """

    in_memory = False
    validation_passes = 1.0

    def __init__(
        self,
        checked: CheckedBlocks,
        costs: Costs,
        *,
        p: float = 2.0,
        loss: str = "hinge",
        nonnegative: bool = False,
        fit_intercept: bool = False,
        centre: Host | None = None,
        radius: float = 1.0,
        **norm: Any,
    ) -> None:
        drawn: DrawnRows = checked.also
        labels = None if not checked.rows[1] else drawn.y
        super().__init__(
            drawn.S,
            labels,
            p=p,
            costs=drawn.weight * np.where(drawn.y > 0, costs.normal, costs.anomaly),
            loss=loss,
            nonnegative=nonnegative,
            fit_intercept=fit_intercept,
            centre=centre,
            radius=radius,
            **norm,
        )
        self.checked, self.factors = checked, costs
        self.blocks: Blocks = checked.blocks
        assert self.blocks.sizes is not None
        self.starts = np.concatenate([[0], np.cumsum(self.blocks.sizes)]).astype(np.int64)
        normal, anomaly = checked.mass
        self.total_cost = normal * costs.normal + anomaly * costs.anomaly
        self.marks: dict[int, Fingerprint] = {}  # of each block, from the first pass on

    @property
    def n(self) -> int:
        """Number of rows in all blocks."""
        return int(self.starts[-1])

    def draw(self, m: int) -> Block:
        """Return at most m of the rows drawn during validation, with equal costs; no pass."""
        assert self.costs is not None
        index = stratified_positions(
            np.cumsum(self.costs), min(m, len(self.S)), np.random.default_rng(0)
        )
        return self._gather(index)._replace(c=1.0)

    def reduce(
        self,
        work: Callable[..., T],
        merge: Callable[[list[T]], T],
        *along: Array | None,
        stored: bool = False,
    ) -> T:
        """Return ``merge`` of ``work(block, …)`` over all blocks: one reduction."""
        self.passes += 1.0
        task = partial(_on_block, work, merge, stored, self.factors, self.starts.tolist())
        blocks = self.blocks.beside(self._cut(along))
        marks, found = blocks.reduce(task, partial(_merge_read, merge))
        LOGGER.debug("pass %d over %d blocks", self.passes, len(blocks))
        assert found is not None  # some block has rows
        self._check_unchanged(marks)
        return found

    def _check_unchanged(self, marks: dict[int, Fingerprint]) -> None:
        """Raise where blocks have changed since the last pass."""
        for k, mark in marks.items():
            before = self.marks.setdefault(k, mark)
            # Rounding differs between machines.
            if not abs(mark.value - before.value) <= 1e-9 * (mark.size + before.size):
                raise ValueError(
                    f"block {k} has changed between two passes over it, but a proof needs the same "
                    "rows, labels and weights each time. Call persist() on the collection before "
                    "the fit, or make what it is computed from repeatable (a fixed seed)."
                )

    def _cut(self, along: tuple[Array | None, ...]) -> list[tuple[Any, ...]]:
        """Split vectors with one entry per row into blocks."""
        columns: list[Any] = []
        for vector in along:
            if vector is None:
                columns.append([None] * len(self.blocks))
            elif ops.is_blocked(vector):
                columns.append([part for (part,) in Blocks.of(vector).parts])
            else:
                columns.append(np.split(np.asarray(vector), self.starts[1:-1]))
        return list(zip(*columns, strict=True)) if columns else [()] * len(self.blocks)

    def everything(self) -> tuple[Block, Array]:
        """Return all rows with positive cost, and their positions."""
        S, y, c, index = self.reduce(_all_rows, _stack)
        labels = None if not self.checked.rows[1] else y
        return Block(S, 1.0 if labels is None else labels, c, 0), index

    def per_row(self, work: Callable[[Block], Array]) -> Array:
        """Return one number per row as a lazy Dask array."""
        task = partial(_per_row, work, self.factors, self.starts.tolist())
        return map_blocks(task, self.blocks)

    def multipliers(self, pieces: LinearPieces | None, index: Array, shares: Array) -> Array:
        """Return α of all rows as a lazy Dask array."""
        order = np.argsort(index, kind="stable")
        ends = np.searchsorted(index[order], self.starts)
        known = [
            (index[order[a:b]] - start, shares[order[a:b]])
            for a, b, start in zip(ends[:-1], ends[1:], self.starts[:-1], strict=True)
        ]
        task = partial(_multipliers, self.terms, self.factors, pieces)
        return map_blocks(task, self.blocks, along=known)

    def no_multipliers(self) -> Array:
        """Return α = 0 as a lazy Dask array."""
        return map_blocks(_zeros, self.blocks)


class Fingerprint(NamedTuple):
    """A number that identifies the content of a block, and a bound of its size."""

    value: float
    size: float

    @classmethod
    def of(cls, problem: Problem) -> Fingerprint:
        """Return a sum with a different factor for each column and row."""
        # Multiples of the golden ratio: distinct within a block.
        by_row, by_column = (0.5 + np.arange(m) * 0.6180339887498949 % 1.0 for m in problem.S.shape)
        rows = ops.to_host(problem.S @ ops.beside(by_column, problem.S))
        for vector in (problem.y, problem.costs):
            rows = rows if vector is None else rows + ops.to_host(vector)
        return cls(float(by_row @ rows), float(np.linalg.norm(by_row) * np.linalg.norm(rows)))


Read = tuple[
    dict[int, Fingerprint], T | None
]  # what a pass over blocks has met, and what it has found


def _on_block(
    work: Callable[..., T],
    merge: Callable[[list[T]], T],
    stored: bool,
    costs: Costs,
    starts: list[int],
    k: int,
    parts: tuple[Any, ...],
) -> Read[T]:
    problem = _local(costs, starts, k, parts)
    if not problem.n:
        return {}, None
    return {k: Fingerprint.of(problem)}, problem.reduce(work, merge, *parts[3:], stored=stored)


def _local(costs: Costs, starts: list[int], k: int, parts: tuple[Any, ...]) -> Problem:
    """Return a block as a problem, with the position of its first row."""
    S, y, c = arrays_of(parts[:3])
    problem = Problem(S, y, costs=costs.of(int(S.shape[0]), y, c))
    problem.start = starts[k]
    return problem


def _merge_read(merge: Callable[[list[T]], T], parts: list[Read[T]]) -> Read[T]:
    marks = {k: mark for met, _ in parts for k, mark in met.items()}
    present = [found for _, found in parts if found is not None]
    return marks, merge(present) if present else None


def _all_rows(block: Block) -> tuple[Array, ...]:
    n = block.S.shape[0]
    y, c = (np.full(n, v) if isinstance(v, float) else ops.to_host(v) for v in (block.y, block.c))
    kept = np.flatnonzero(c > 0)
    return ops.to_host(block.S)[kept], y[kept], c[kept], kept + block.start


def _stack(parts: list[tuple[Array, ...]]) -> tuple[Array, ...]:
    return tuple(np.concatenate(group) for group in zip(*parts, strict=True))


def _per_row(
    work: Callable[[Block], Array], costs: Costs, starts: list[int], k: int, parts: tuple[Any, ...]
) -> Host:
    problem = _local(costs, starts, k, parts)
    return ops.to_host(problem.per_row(work)) if problem.n else np.empty(0)


def _multipliers(
    terms: Terms,
    costs: Costs,
    pieces: LinearPieces | None,
    k: int,
    parts: tuple[Any, ...],
    known: tuple[Any, Host],
) -> Host:
    S, y, c = arrays_of(parts)
    alpha = np.zeros(int(S.shape[0]))
    if pieces is not None and alpha.size:
        problem = Problem(S, y, costs=costs.of(int(S.shape[0]), y, c))
        alpha = ops.to_host(problem.per_row(partial(_rising, terms, pieces.w)))
    alpha[known[0]] = known[1]
    return alpha


def _rising(terms: Terms, w: Host, block: Block) -> Host:
    """Return 1 for rows of positive cost on the rising piece of their hinge at w, else 0."""
    rising = ops.to_host(terms.residuals(block, w)) > 0
    idle = ops.to_host(block.c) == 0 if block.is_weighted else False
    return (rising & ~np.asarray(idle)).astype(np.float64)


def _zeros(k: int, parts: tuple[Any, ...]) -> Host:
    return np.zeros(int(parts[0].shape[0]))


# --------------------------------------------------------------------------------------------------
# Rows gathered on the host, and what is observed while a point is certified: functions of a block.


Positions = NDArray[np.int64]


class GatheredRows(NamedTuple):
    """Rows on the host: a_i = y_i s_i (with y_i last when there is an intercept)."""

    a: Host  # (k, coordinates)
    costs: Host  # (k,)
    slopes: Host  # (k,) 1 for rows on the rising piece of their hinge, 0 for rows at zero
    positions: Positions  # (k,) in S

    def at(self, chosen: NDArray[np.intp]) -> GatheredRows:
        """Return some of them."""
        a, costs, slopes, positions = self
        return GatheredRows(a[chosen], costs[chosen], slopes[chosen], positions[chosen])


def gather_rows(terms: Terms, block: Block, chosen: Array, slopes: Array | None) -> GatheredRows:
    """Return the chosen rows of a block, with their costs, slopes and positions."""
    S, y, c, start = block
    a = ops.as_float64(ops.take(S, chosen))
    k = int(a.shape[0])
    labels = y if isinstance(y, float) else ops.take(y, chosen)
    costs = np.ones(k) if isinstance(c, float) else ops.to_host(ops.take(c, chosen))
    on = np.zeros(k) if slopes is None else ops.to_host(ops.take(slopes, chosen))
    index = ops.to_host(chosen).astype(np.int64) + start
    return GatheredRows(ops.to_host(terms.signed_rows(a, labels)), costs, on, index)


def join_rows(most: int, parts: Sequence[GatheredRows | None]) -> GatheredRows | None:
    """Concatenate rows; None where they are too many, or a part is None."""
    present = [part for part in parts if part is not None]
    if len(present) < len(parts) or sum(len(part.costs) for part in present) > most:
        return None
    if len(present) == 1:
        return present[0]
    a, costs, slopes, positions = zip(*present, strict=True)
    # In the memory order of a model's columns, which then needs no copy.
    return GatheredRows(
        ops.concat_transposed(list(a)).T,
        np.concatenate(costs),
        np.concatenate(slopes),
        np.concatenate(positions),
    )


def class_score_range(problem: Problem, point: Host) -> tuple[float, float]:
    """Return the lowest normal and the highest anomalous fused score, without b, in one pass."""
    return problem.reduce(partial(_class_range, problem.terms, point), _extremes)


def watch_crossings(terms: Terms, most: int) -> Watch:
    """Return a `Watch` of the rows on the wrong side of their linear piece.

    These have α = 1 and r < 0, or α = 0 and r > 0. It returns None for more than `most` rows.
    """
    return Watch(partial(_crossed, terms, most), partial(join_rows, most))


def watch_violations(terms: Terms, point: Host, most: int) -> Watch:
    """Return a `Watch` of the number of rows that violate their margin, and the worst rows a_i."""
    return Watch(partial(_violating, terms, most), partial(_join_violating, point, most))


def _crossed(
    terms: Terms, most: int, block: Block, r: Array, alpha: Array | None
) -> GatheredRows | None:
    assert alpha is not None
    if (kernels := ops.row_kernels(block.S)) is not None:
        crossed = kernels.crossed(r, alpha, block.c)
        return gather_rows(terms, block, crossed, alpha) if len(crossed) <= most else None
    # A cheap test first, then the exact rule on the few remaining rows.
    suspects = ops.nonzero((r > 0) != (alpha > 0.5))
    r, on = ops.take(r, suspects), ops.take(alpha, suspects)
    wrong = ((on == 1.0) & (r < 0)) | ((on == 0.0) & (r > 0))
    if block.is_weighted:
        wrong &= ops.take(block.c, suspects) > 0
    crossed = suspects[wrong]
    return gather_rows(terms, block, crossed, alpha) if crossed.shape[0] <= most else None


def _violating(
    terms: Terms, most: int, block: Block, r: Array, alpha: Array | None
) -> tuple[int, Host]:
    wrong = r > 0
    if block.is_weighted:
        wrong &= block.c > 0
    chosen = ops.nonzero(wrong)
    count = int(chosen.shape[0])
    if count > most:
        worst = ops.namespace(r).argsort(-ops.take(r, chosen), stable=True)[:most]
        chosen = ops.take(chosen, worst)
    return count, gather_rows(terms, block, chosen, None).a


def _join_violating(point: Host, most: int, parts: list[tuple[int, Host]]) -> tuple[int, Host]:
    counts, rows = zip(*parts, strict=True)
    a = np.concatenate(rows)
    worst = np.argsort(a @ point, kind="stable")[:most]
    return sum(counts), a[worst]


def _class_range(terms: Terms, point: Host, block: Block) -> tuple[float, float]:
    fused = 1.0 - terms.residuals(block._replace(y=1.0), np.append(point[:-1], 0.0))
    xp = ops.namespace(block.S)
    y = xp.sign(block.c * block.y + 0.0 * fused)  # 0 for rows without cost
    return (
        float(xp.min(xp.where(y > 0, fused, fused + np.inf))),
        float(xp.max(xp.where(y < 0, fused, fused - np.inf))),
    )


def _extremes(parts: list[tuple[float, float]]) -> tuple[float, float]:
    lows, highs = zip(*parts, strict=True)
    return min(lows), max(highs)
