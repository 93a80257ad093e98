"""Both sides of candidates of the hinge on a CUDA device: one kernel reads each tile once for all.

The sums are those of `_bounds`, with bounds that are counted for this order of summation, and row
by row: how far a residual can be off follows from its own terms, not from the largest score. What
they leave too uncertain is not answered here, and read by `_bounds` to more digits. No solver uses
this module. Imported late, where `lpfuse._arrays.linalg.may_fuse` says that it serves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch
import triton
import triton.language as tl

from lpfuse._arrays.fused_gather import Wanted, collect
from lpfuse._arrays.fused_rows import Found, RowArrays, add_pairs, two_sum
from lpfuse._arrays.linalg import Cut
from lpfuse._arrays.operations import Array, Host, like
from lpfuse.optim.bounds import UNIT, DualSums, Reading, Sides, gamma
from lpfuse.optim.results import Watch

if TYPE_CHECKING:
    from lpfuse.optim.problem import Problem

TERMS = 7  # sums beside the pull: value, highest, net, mass, reach, and the balance in two parts


@triton.jit
def _join(
    value,
    highest,
    net,
    mass,
    reach,
    high,
    low,
    least,
    most,
    crossed,
    other_value,
    other_highest,
    other_net,
    other_mass,
    other_reach,
    other_high,
    other_low,
    other_least,
    other_most,
    other_crossed,
):
    high, low = add_pairs(high, low, other_high, other_low)
    return (
        value + other_value,
        highest + other_highest,
        net + other_net,
        mass + other_mass,
        reach + other_reach,
        high,
        low,
        tl.minimum(least, other_least),
        tl.maximum(most, other_most),
        crossed + other_crossed,
    )


@triton.jit
def _examine(
    S,
    y,
    c,
    alphas,
    points,
    sums,
    lows,
    marks,
    counts,
    n,
    candidates,
    tiles,
    R: tl.constexpr,
    SLICES: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    HAS_Y: tl.constexpr,
    HAS_C: tl.constexpr,
    FREE: tl.constexpr,
    UNIT: tl.constexpr,
):
    chunk = tl.program_id(0)
    chunks = tl.num_programs(0)
    slices = tl.arange(0, SLICES)
    within = tl.arange(0, WIDTH)
    column = slices[None, :, None] * WIDTH + within[None, None, :]
    lanes = tl.arange(0, ROWS)
    for k in range(candidates):
        point = points + k * (R + 3)
        w = tl.load(point + column, mask=column < R, other=0.0)
        b = tl.load(point + R)
        rest = tl.load(point + R + 1)  # 1 + |b|
        once = tl.load(point + R + 2)  # the relative error of a residual
        pull = tl.zeros((ROWS, SLICES, WIDTH), dtype=tl.float64)
        value = tl.zeros((ROWS,), dtype=tl.float64)
        highest = tl.zeros((ROWS,), dtype=tl.float64)
        net = tl.zeros((ROWS,), dtype=tl.float64)
        mass = tl.zeros((ROWS,), dtype=tl.float64)
        reach = tl.zeros((ROWS,), dtype=tl.float64)
        high = tl.zeros((ROWS,), dtype=tl.float64)
        low = tl.zeros((ROWS,), dtype=tl.float64)
        least = tl.full((ROWS,), float("inf"), dtype=tl.float64)
        most = tl.full((ROWS,), float("-inf"), dtype=tl.float64)
        crossed = tl.zeros((ROWS,), dtype=tl.int32)
        for tile in range(tiles):
            row = (chunk.to(tl.int64) * tiles + tile) * ROWS + lanes
            inside = row < n
            cell = inside[:, None, None] & (column < R)
            s = tl.load(S + row[:, None, None] * R + column, mask=cell, other=0.0).to(tl.float64)
            alpha = tl.load(alphas + tl.cast(k, tl.int64) * n + row, mask=inside, other=0.0)
            product = s * w
            margin = tl.sum(tl.sum(product, axis=1), axis=1) + b
            terms = tl.sum(tl.sum(tl.abs(product), axis=1), axis=1)
            largest = tl.max(tl.max(tl.abs(s), axis=1), axis=1)
            if HAS_Y:
                label = tl.load(y + row, mask=inside, other=1.0)
                margin = label * margin
            r = 1.0 - margin
            off = once * (rest + terms) + 2.0 * UNIT * tl.abs(r)
            # The hinge grows with r: on an interval it is largest at its upper end.
            short = tl.where((r > 0.0) & inside, r, 0.0)
            worst = tl.where((r + off > 0.0) & inside, r + off, 0.0)
            wrong = ((alpha == 1.0) & (r < 0.0)) | ((alpha == 0.0) & (r > 0.0))
            wrong = wrong & inside
            weighted = alpha
            if HAS_C:
                cost = tl.load(c + row, mask=inside, other=0.0)
                short = short * cost
                worst = worst * cost
                weighted = alpha * cost
                wrong = wrong & (cost > 0.0)
            value += short
            highest += worst
            net += weighted
            mass += tl.abs(weighted)
            reach += tl.abs(weighted) * largest
            signed = weighted
            if HAS_Y:
                signed = weighted * label
            pull += s * signed[:, None, None]
            if FREE:
                high, missed = two_sum(high, signed)
                low += missed
            least = tl.minimum(least, tl.where(inside, alpha, float("inf")))
            most = tl.maximum(most, tl.where(inside, alpha, float("-inf")))
            tl.store(marks + tl.cast(k, tl.int64) * n + row, (wrong == 0).to(tl.int8), mask=inside)
            crossed += wrong.to(tl.int32)
        at = tl.cast(k, tl.int64) * chunks + chunk
        out = sums + at * (R + 7)
        flat_column = slices[:, None] * WIDTH + within[None, :]
        tl.store(out + flat_column, tl.sum(pull, axis=0), mask=flat_column < R)
        # All in one go over the rows of a tile: warps wait for each other once, not ten times.
        all_of_it = tl.reduce(
            (value, highest, net, mass, reach, high, low, least, most, crossed), 0, _join
        )
        for term in tl.static_range(7):
            tl.store(out + R + term, all_of_it[term])
        tl.store(lows + 2 * at, all_of_it[7])
        tl.store(lows + 2 * at + 1, -all_of_it[8])
        tl.store(counts + at, all_of_it[9])


def read_both_sides(
    rows: RowArrays, cut: Cut, alphas: Array, points: Array, found: Found, *, free: bool
) -> None:
    """Launch the kernel for points (w, b, 1 + |b|, error of a residual), one a candidate."""
    with rows.at_home():
        _examine[(cut.chunks,)](
            *rows.arrays,
            alphas,
            points,
            *found,
            rows.S.shape[0],
            points.shape[0],
            cut.tiles,
            **rows.constants(cut),
            FREE=free,
            UNIT=UNIT,
        )


def examine_fused(
    problem: Problem,
    reading: Reading,
    candidates: Mapping[int, tuple[Host, Array]],
    watch: Mapping[int, Watch],
) -> dict[int, Sides]:
    """Both sides of candidates (point, α) in one pass, but for those that need more digits."""
    keys, R, free = list(candidates), problem.R, problem.fit_intercept
    rows = RowArrays(problem.S, problem.y, problem.costs)
    cut = rows.cut_for(len(keys))
    points = np.zeros((len(keys), R + 3))
    for line, k in zip(points, keys, strict=True):
        point = candidates[k][0]
        line[: point.size] = point
        line[R + 1 :] = 1.0 + abs(line[R]), gamma(R + 8)
    each = [like(candidates[k][1], problem.S) for k in keys]
    alphas = torch.stack(each) if len(each) > 1 else each[0][None, :].contiguous()
    found = Found.room(rows, cut, len(keys), R + TERMS, 2)
    problem.passes += 1.0
    read_both_sides(rows, cut, alphas, rows.beside(points), found, free=free)
    most = [watch[k].most if k in watch else -1 for k in keys]
    wanted = Wanted(most, [1] * len(keys), alphas, free)
    groups, crossed = collect(rows, cut, found, wanted, paired=True)
    parts = {}
    for k, sums, lows, wrong in zip(keys, groups.sums, groups.lows, crossed, strict=True):
        sides = _sides(reading, sums, lows, gamma(cut.roundings))
        if _certain(problem, reading, sides):
            make = watch[k].of_rows if k in watch else None
            parts[k] = sides if make is None else sides._replace(watched=make(wrong))
    return parts


def _sides(reading: Reading, sums: Host, lows: Host, summed: float) -> Sides:
    """From the sums of groups; those of the balance are added up without any loss."""
    total, R = sums.sum(axis=0), reading.terms.R
    value, highest, net, mass, reach = total[R : R + 5].tolist()
    low, high = lows[:, 0].min(), -lows[:, 1].min()
    if not math.isfinite(mass):  # the least and the largest of a kernel pass over NaN
        low = high = math.nan
    balance = math.fsum(sums[:, R + 5 :].ravel()) if reading.terms.fit_intercept else 0.0
    dual = DualSums(
        gain=net,
        pull=total[:R],
        balance=balance,
        net=net,
        mass=mass,
        reach=reach * (1.0 + summed),
        gain_error=summed * (2.0 * mass + abs(net)),
        pull_error=summed * reach * (1.0 + summed),
        # Of products, and of sums in two parts.
        balance_error=(reading.costs_error + 4.0 * UNIT) * mass,
        low=float(low),
        high=float(high),
        centre=None,
        pull_slack=None,
    )
    return Sides(value, highest - value + 2.0 * summed * highest, dual, None)


def _certain(problem: Problem, reading: Reading, sides: Sides) -> bool:
    """Return whether rounding takes no more than its share of the value, on both sides."""
    enough = reading.precision * max(sides.value, problem.scale)
    assert sides.dual is not None
    return sides.error <= enough and sides.dual.pull_error <= enough / reading.terms.R
