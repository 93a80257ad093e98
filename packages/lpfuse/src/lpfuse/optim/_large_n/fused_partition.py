"""The partition pass on a CUDA device: one kernel reads each tile of rows once, for all plans.

Imported late, where `lpfuse._arrays.fused.may_fuse` says that it serves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import triton
import triton.language as tl

from lpfuse._arrays.fused import Cut
from lpfuse._arrays.fused_gather import Gathered, Wanted, collect
from lpfuse._arrays.fused_rows import Found, RowArrays
from lpfuse._arrays.operations import Array, Host

if TYPE_CHECKING:
    from lpfuse.optim._large_n.passes import PartitionPlan
    from lpfuse.optim.problem import Problem

TERMS = 3  # sums beside the linear part: the value, and Σ c and Σ c y over rising rows


class FusedPartition(NamedTuple):
    """What a pass finds for one plan."""

    value: float  # Σ c max(0, r)
    linear: Host  # Σ c y s over rising rows, with Σ c y last where there is an intercept
    constant: float  # Σ c over rising rows
    n_near: int
    rows: Gathered | None  # near rows, every k-th of them; None where those are too many
    side: Array  # (n,) of int8


@triton.jit
def _add_each(a, b, c, d, other_a, other_b, other_c, other_d):
    return a + other_a, b + other_b, c + other_c, d + other_d


@triton.jit
def _partition(
    S,
    y,
    c,
    points,
    sums,
    lows,
    marks,
    counts,
    n,
    plans,
    tiles,
    R: tl.constexpr,
    SLICES: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    HAS_Y: tl.constexpr,
    HAS_C: tl.constexpr,
):
    chunk = tl.program_id(0)
    chunks = tl.num_programs(0)
    slices = tl.arange(0, SLICES)
    within = tl.arange(0, WIDTH)
    column = slices[None, :, None] * WIDTH + within[None, None, :]
    lanes = tl.arange(0, ROWS)
    for k in range(plans):
        point = points + k * (R + 2)
        w = tl.load(point + column, mask=column < R, other=0.0)
        b = tl.load(point + R)
        band = tl.load(point + R + 1)
        linear = tl.zeros((ROWS, SLICES, WIDTH), dtype=tl.float64)
        value = tl.zeros((ROWS,), dtype=tl.float64)
        slopes = tl.zeros((ROWS,), dtype=tl.float64)
        signed = tl.zeros((ROWS,), dtype=tl.float64)
        near = tl.zeros((ROWS,), dtype=tl.int32)
        for tile in range(tiles):
            row = (chunk.to(tl.int64) * tiles + tile) * ROWS + lanes
            inside = row < n
            cell = inside[:, None, None] & (column < R)
            s = tl.load(S + row[:, None, None] * R + column, mask=cell, other=0.0).to(tl.float64)
            margin = tl.sum(tl.sum(s * w, axis=1), axis=1) + b
            if HAS_Y:
                label = tl.load(y + row, mask=inside, other=1.0)
                margin = label * margin
            r = 1.0 - margin
            rising = (r > band) & inside
            flat = (r < -band) & inside
            slope = rising.to(tl.float64)
            short = tl.where((r > 0.0) & inside, r, 0.0)
            if HAS_C:
                cost = tl.load(c + row, mask=inside, other=0.0)
                rising = rising & (cost != 0.0)
                flat = flat | (inside & (cost == 0.0))
                slope = slope * cost
                short = short * cost
            value += short
            slopes += slope
            if HAS_Y:
                slope = slope * label
            signed += slope
            linear += s * slope[:, None, None]
            side = rising.to(tl.int8) - flat.to(tl.int8)
            tl.store(marks + tl.cast(k, tl.int64) * n + row, side, mask=inside)
            near += (inside & (side == 0)).to(tl.int32)
        at = tl.cast(k, tl.int64) * chunks + chunk
        out = sums + at * (R + 3)
        flat_column = slices[:, None] * WIDTH + within[None, :]
        tl.store(out + flat_column, tl.sum(linear, axis=0), mask=flat_column < R)
        # All in one go over the rows of a tile: warps wait for each other once, not four times.
        value_, slopes_, signed_, near_ = tl.reduce((value, slopes, signed, near), 0, _add_each)
        tl.store(out + R, value_)
        tl.store(out + R + 1, slopes_)
        tl.store(out + R + 2, signed_)
        tl.store(lows + at, 0.0)
        tl.store(counts + at, near_)


def read_sides(rows: RowArrays, cut: Cut, points: Array, found: Found) -> None:
    """Launch the kernel for points (w, b, band), one a plan."""
    with rows.at_home():
        _partition[(cut.chunks,)](
            *rows.arrays,
            points,
            *found,
            rows.S.shape[0],
            points.shape[0],
            cut.tiles,
            **rows.constants(cut),
        )


def partition_fused(problem: Problem, plans: Sequence[PartitionPlan]) -> list[FusedPartition]:
    """For each plan the sums over rising rows, the sides of all rows, and rows near the kink."""
    R, free = problem.R, problem.fit_intercept
    rows = RowArrays(problem.S, problem.y, problem.costs)
    cut = rows.cut_for(len(plans))
    points = np.zeros((len(plans), R + 2))
    for point, plan in zip(points, plans, strict=True):
        point[: plan.w.size], point[-1] = plan.w, plan.band
    found = Found.room(rows, cut, len(plans), R + TERMS, 1)
    problem.passes += 1.0
    read_sides(rows, cut, rows.beside(points), found)
    wanted = Wanted([plan.most for plan in plans], [plan.stride for plan in plans], None, free)
    groups, near = collect(rows, cut, found, wanted, paired=False)
    results = []
    for k, total in enumerate(groups.sums.sum(axis=1)):
        value, constant, signed = total[R:]
        linear = np.append(total[:R], signed) if free else total[:R]
        side, n_near = found.marks[k, :], int(groups.counts[k])
        results.append(FusedPartition(value, linear, constant, n_near, near[k], side))
    return results
