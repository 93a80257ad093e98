"""Partition passes over the scores, and the budget of a search.

A pass returns R numbers and a few rows to the host: the scores may be on a GPU or on other
machines. Work on a block of rows depends on that block only, so that it stays in the cache between
two uses and may run on any worker.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np

from lpfuse._arrays import operations as ops
from lpfuse._arrays.operations import Array, Host
from lpfuse.optim.balls import LpBall
from lpfuse.optim.distributed import GatheredRows, Positions, gather_rows, join_rows
from lpfuse.optim.newton import Model
from lpfuse.optim.problem import Block, LinearPieces, Problem, Terms
from lpfuse.optim.tuning import SearchTuning

# --------------------------------------------------------------------------------------------------
# The budget of a search.


T = TypeVar("T")
X = TypeVar("X")


class SearchBudget(NamedTuple):
    """Numbers of rows and passes of a search, by the cost of a pass.

    An accelerator reads all rows in the time that the host needs for a few thousand: small steps
    with a partition after each are best there. Elsewhere it is better to keep more rows and save a
    pass.
    """

    sample: int  # rows that give the first guess
    kept: int  # rows of a first partition
    overfull: int  # how many times as many may be at risk before they are thinned
    risk: float  # how many times its expected error a margin may move
    serial: bool  # whether searches run one after another: with few rows, threads only queue
    layered: bool = False  # whether thinned partitions take more of the rows closer to the kink

    @classmethod
    def of(cls, problem: Problem, tuning: SearchTuning) -> SearchBudget:
        """Return the budget for a problem, by location and number of its rows."""
        if ops.on_accelerator(problem.S):
            few = tuning.device_sample + tuning.device_sample_per_weight * problem.size
            kept = tuning.device_kept * few
            return cls(few, kept, tuning.device_overfull, tuning.device_risk, serial=True)
        # From m of n rows margins are off by about m^(-1/2), which leaves n·m^(-1/2) rows
        # undecided: for m = n^(2/3) both numbers are equal.
        balanced = round(problem.n ** (2 / 3))
        sample = max(tuning.sample, tuning.sample_per_weight * problem.size, balanced)
        kept, overfull = max(tuning.kept, round(tuning.kept_share * problem.n)), tuning.overfull
        if not problem.in_memory:
            kept, overfull = max(tuning.far_kept, 4 * balanced), tuning.far_overfull
        rules = kept, overfull, tuning.risk
        return cls(min(sample, problem.n), *rules, serial=False, layered=True)

    def each(self, work: Callable[[X], T], items: Sequence[X]) -> list[T]:
        """Apply ``work`` to each item."""
        return [work(item) for item in items] if self.serial else ops.map_parallel(work, items)


# --------------------------------------------------------------------------------------------------
# Partition of the rows by the distance of r from its kink at w.


class PartitionPlan(NamedTuple):
    """Point and band of a partition, and how many rows to gather.

    With a stride k, every k-th row within the band is gathered to represent the others; without,
    all are, up to `most`. Layers are pairs of a band and a stride, from the kink outwards, with
    larger strides far away. The linear pieces of all rows at w are then known, and a gathered row
    contributes k times its hinge minus its piece: it causes no error where it does not change side.
    """

    w: Host
    band: float
    stride: int
    most: int
    layers: tuple[tuple[float, int], ...] = ()

    @property
    def rising_threshold(self) -> float:
        """The residual above which rows count as rising in sums."""
        return 0.0 if self.layers else self.band


class Partition(NamedTuple):
    """The outcome of a partition pass at some w."""

    value: float
    n_near: int
    model: Model  # rows near the kink, the others on linear pieces
    pieces: LinearPieces
    positions: Positions  # in S, of the model's rows


class TooManyRows(NamedTuple):
    """The outcome of a partition pass that found more rows near the kink than were wanted."""

    n_rows: int


class ScorePasses:
    """Passes over the scores of one problem, which counts them."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def partition(
        self, plans: Sequence[PartitionPlan], balls: Sequence[LpBall]
    ) -> list[Partition | TooManyRows]:
        """For each plan, keep the rows within its band; the others become linear pieces."""
        problem = self.problem
        work = partial(_linearise_each, problem.terms, plans, problem.in_memory)
        merge = partial(_join_each, [plan.most for plan in plans])
        parts = problem.reduce(work, merge, stored=True)
        each = zip(parts, plans, balls, strict=True)
        return [_partition(*one, int(problem.fit_intercept)) for one in each]


class _BlockPartition(NamedTuple):
    """Contribution of a block to a partition."""

    value: float
    linear: Host
    constant: float
    n_near: int
    rows: GatheredRows | None
    side: Array | None


def _sides(block: Block, r: Array, band: float) -> tuple[Array, Array]:
    """Return masks of rows on the rising piece and at zero: outside the band, or without cost."""
    rising, flat = r > band, r < -band
    if block.is_weighted:
        idle = block.c == 0
        rising, flat = rising & ~idle, flat | idle
    return rising, flat


def _linearise_each(
    terms: Terms, plans: Sequence[PartitionPlan], remember: bool, block: Block
) -> list[_BlockPartition]:
    return [_linearise(terms, plan, remember, block) for plan in plans]


def _linearise(terms: Terms, plan: PartitionPlan, remember: bool, block: Block) -> _BlockPartition:
    side, r, near, linear, value, constant, intercept = _split_rows(terms, plan, block)
    if terms.fit_intercept:
        linear = np.append(linear, intercept)
    if plan.layers:
        some, n_near = _sample_layers(terms, plan, block, r)
        on_piece = some.costs * (some.a @ plan.w < 1.0)
        linear, constant = linear - on_piece @ some.a, constant - float(on_piece.sum())
        return _BlockPartition(value, linear, constant, n_near, some, None)
    n_near = int(near.shape[0])
    near = near[:: plan.stride]
    rows = gather_rows(terms, block, near, None) if near.shape[0] <= plan.most else None
    if plan.stride > 1:
        rows = _reweighted(rows, n_near)
    return _BlockPartition(
        value=value,
        linear=linear,
        constant=constant,
        n_near=n_near,
        rows=rows,
        side=side if remember and plan.stride == 1 else None,
    )


def _split_rows(
    terms: Terms, plan: PartitionPlan, block: Block
) -> tuple[Array, Array, Array, Host, float, float, float]:
    """Return sides and residuals of the rows, positions of those near the kink, and sums.

    The sums are ``Σ c y s`` over the rising rows, ``Σ c max(0, r)`` and, over the rising rows,
    ``Σ c`` and ``Σ c y``.
    """
    if (kernels := ops.row_kernels(block.S)) is not None:
        b = float(plan.w[terms.R]) if terms.fit_intercept else 0.0
        rows = block.S, block.y, block.c
        bands = plan.band, plan.rising_threshold
        return kernels.part(*rows, plan.w[: terms.R], b, *bands, not plan.layers)
    block = block.in_double()
    r = terms.residuals(block, plan.w)
    xp = ops.namespace(r)
    rising, flat = _sides(block, r, plan.band)
    slopes = block.times_costs(ops.as_float64(r > 0.0 if plan.layers else rising))
    pull = block.times_labels(slopes)
    value = xp.sum(block.times_costs(terms.loss.value(r)))
    sums = pull @ block.S, xp.sum(pull), xp.sum(slopes), value
    linear, intercept, constant, value = ops.to_host_together(*sums)
    side = xp.astype(rising, xp.int8) - xp.astype(flat, xp.int8)
    near = ops.nonzero(~(rising | flat))
    return side, r, near, linear, float(value), float(constant), float(intercept)


def _sample_layers(
    terms: Terms, plan: PartitionPlan, block: Block, r: Array
) -> tuple[GatheredRows, int]:
    """Return some rows of each layer, weighted to represent it, and the rows in all layers."""
    bands, strides = (
        np.array(column, dtype=np.float64) for column in zip(*plan.layers, strict=True)
    )
    if (kernels := ops.row_kernels(block.S)) is not None:
        chosen, layer, counts = kernels.layered(r, block.c, bands, strides.astype(np.int64))
    else:
        size = abs(r)
        if block.is_weighted:  # a row without cost is in no layer
            size = ops.namespace(r).where(block.c > 0, size, size + np.inf)
        found, counts, inner = [], [], -1.0
        for outer, stride in plan.layers:
            rows = ops.nonzero((size > inner) & (size <= outer))
            found.append(ops.to_host(rows[::stride]).astype(np.int64))
            counts.append(int(rows.shape[0]))
            inner = outer
        chosen = np.concatenate(found)
        layer = np.repeat(np.arange(len(found)), [len(rows) for rows in found])
        order = np.argsort(chosen)
        chosen, layer = chosen[order], layer[order]
    rows = gather_rows(terms, block, chosen, None)
    taken = np.bincount(layer, minlength=len(bands))
    factors = np.array(counts) / np.maximum(taken, 1)
    return rows._replace(costs=rows.costs * factors[layer]), sum(counts)


def _reweighted(rows: GatheredRows | None, n_near: int) -> GatheredRows | None:
    """Return rows with costs scaled to represent all rows near the kink."""
    if rows is None:
        return None
    return rows._replace(costs=rows.costs * (n_near / max(len(rows.costs), 1)))


def _join_each(most: Sequence[int], parts: list[list[_BlockPartition]]) -> list[_BlockPartition]:
    """Merge the results of blocks for each plan."""
    groups = zip(zip(*parts, strict=True), most, strict=True)
    return [_join_partitions(list(group), limit) for group, limit in groups]


def _join_partitions(parts: list[_BlockPartition], most: int) -> _BlockPartition:
    return _BlockPartition(
        value=math.fsum(part.value for part in parts),
        linear=np.sum([part.linear for part in parts], axis=0),
        constant=math.fsum(part.constant for part in parts),
        n_near=sum(part.n_near for part in parts),
        rows=join_rows(most, [part.rows for part in parts]),
        side=None if parts[0].side is None else ops.concatenate([part.side for part in parts]),
    )


def _partition(
    joined: _BlockPartition, plan: PartitionPlan, ball: LpBall, free: int
) -> Partition | TooManyRows:
    rows = joined.rows
    if rows is None:
        return TooManyRows(joined.n_near)
    model = Model(
        columns=np.ascontiguousarray(rows.a.T),
        costs=rows.costs,
        ball=ball,
        linear=-joined.linear,
        constant=joined.constant,
        free=free,
    )
    pieces = LinearPieces(plan.w, plan.band, joined.side)
    return Partition(joined.value, joined.n_near, model, pieces, rows.positions)


def rows_outside(partition: Partition, rows: GatheredRows) -> GatheredRows:
    """Return the rows that are not in the partition's model."""
    return rows.at(np.flatnonzero(~np.isin(rows.positions, partition.positions)))


def add_rows(partition: Partition, rows: GatheredRows) -> Partition:
    """Return the partition with rows moved from their linear piece into the model."""
    model, pieces = partition.model, partition.pieces
    rising = rows.slopes * rows.costs
    grown = Model(
        columns=ops.concat_transposed([model.columns.T, rows.a]),
        costs=np.concatenate([model.costs, rows.costs]),
        ball=model.ball,
        linear=model.linear + rising @ rows.a,
        constant=model.constant - float(rising.sum()),
        free=model.free,
    )
    if pieces.side is not None:
        copied = ops.namespace(pieces.side).asarray(pieces.side, copy=True)
        pieces = pieces._replace(side=ops.put(copied, rows.positions, 0.0))
    index = np.concatenate([partition.positions, rows.positions])
    return Partition(partition.value, partition.n_near, grown, pieces, index)
