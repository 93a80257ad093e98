"""Kernels that both fused passes share: adding up what chunks found, and gathering marked rows.

Imported late, by whoever has asked `fused.may_fuse`: this module needs torch and Triton. Nothing
here adds floats atomically: every sum has one order, and results are the same in every run.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray

from lpfuse._arrays.fused import GROUPS, TOGETHER, Cut, cut_rows
from lpfuse._arrays.operations import Array, Host


class RowArrays(NamedTuple):
    """Scores, and labels and costs or None, on a device."""

    S: Array
    y: Array | None
    c: Array | None

    def cut_for(self, candidates: int) -> Cut:
        """How a pass for so many candidates cuts the rows."""
        n, R = map(int, self.S.shape)
        return cut_rows(n, R, candidates > 1, single=self.S.dtype == torch.float32)

    def beside(self, values: Any, dtype: Any = torch.float64) -> Array:
        """A few numbers of the host, there: whoever asks does not wait for the device."""
        here = torch.as_tensor(values, dtype=dtype)
        return here.pin_memory().to(self.S.device, non_blocking=True) if self.S.is_cuda else here

    def empty(self, *shape: int, dtype: Any = torch.float64) -> Array:
        """An array to be filled, there."""
        return torch.empty(shape, dtype=dtype, device=self.S.device)

    def or_any(self, x: Array | None) -> Array:
        """The array; the scores stand in for one that no kernel will look at."""
        return self.S if x is None else x.contiguous()

    def at_home(self) -> AbstractContextManager[Any]:
        """Kernels are launched on the device of the scores."""
        return torch.cuda.device(self.S.device) if self.S.is_cuda else nullcontext()


class Found(NamedTuple):
    """What chunks have found: written by a pass, read by `add_up` and `gather`."""

    sums: Array  # (candidates, chunks, terms); the last two may be one sum in two parts
    lows: Array  # (candidates, chunks, few): of which the least matters
    marks: Array  # (candidates, n) of int8; 0: a row that is wanted
    counts: Array  # (candidates, chunks) of int32: rows that are wanted

    @classmethod
    def room(cls, rows: RowArrays, cut: Cut, candidates: int, terms: int, lows: int) -> Found:
        """Memory for it."""
        shape, n = (candidates, cut.chunks), int(rows.S.shape[0])
        return cls(
            rows.empty(*shape, terms),
            rows.empty(*shape, lows),
            rows.empty(candidates, n, dtype=torch.int8),
            rows.empty(*shape, dtype=torch.int32),
        )


class Groups(NamedTuple):
    """Sums over groups of chunks, there and on the host."""

    there: Array  # (candidates, groups, terms + lows + 1)
    sums: Host  # (candidates, groups, terms)
    lows: Host  # (candidates, groups, lows)
    counts: NDArray[np.int64]  # (candidates,)


@triton.jit
def two_sum(a, b):
    """The sum rounded, and what rounding has left out."""
    rounded = a + b
    of_b = rounded - a
    return rounded, (a - (rounded - of_b)) + (b - of_b)


@triton.jit
def add_pairs(high, low, other_high, other_low):
    """The sum of two numbers in two parts each."""
    rounded, missed = two_sum(high, other_high)
    return rounded, (low + other_low) + missed


@triton.jit
def _add_up(
    sums,
    lows,
    counts,
    out,
    chunks,
    group,
    TERMS: tl.constexpr,
    ROOM: tl.constexpr,
    PAIRED: tl.constexpr,
    LOWS: tl.constexpr,
    TOGETHER: tl.constexpr,
):
    k, g = tl.program_id(0), tl.program_id(1)
    first = g * group
    last = tl.minimum(first + group, chunks)
    terms = tl.arange(0, ROOM)
    lanes = tl.arange(0, TOGETHER)
    total = tl.zeros((TOGETHER, ROOM), dtype=tl.float64)
    high = tl.zeros((TOGETHER,), dtype=tl.float64)
    low = tl.zeros((TOGETHER,), dtype=tl.float64)
    count = tl.zeros((TOGETHER,), dtype=tl.int64)
    for start in range(first, last, TOGETHER):
        chunk = start + lanes
        inside = chunk < last
        at = k.to(tl.int64) * chunks + chunk
        here = sums + at[:, None] * TERMS + terms[None, :]
        total += tl.load(here, mask=inside[:, None] & (terms < TERMS)[None, :], other=0.0)
        count += tl.load(counts + at, mask=inside, other=0).to(tl.int64)
        if PAIRED:
            more = tl.load(sums + at * TERMS + TERMS - 2, mask=inside, other=0.0)
            rest = tl.load(sums + at * TERMS + TERMS - 1, mask=inside, other=0.0)
            high, low = add_pairs(high, low, more, rest)
    result = out + (k * tl.num_programs(1) + g) * (TERMS + LOWS + 1)
    plain = TERMS - 2 * PAIRED
    tl.store(result + terms, tl.sum(total, axis=0), mask=terms < plain)
    if PAIRED:
        all_high, all_low = tl.reduce((high, low), 0, add_pairs)
        tl.store(result + TERMS - 2, all_high)
        tl.store(result + TERMS - 1, all_low)
    for q in tl.static_range(LOWS):
        least = tl.full((TOGETHER,), float("inf"), dtype=tl.float64)
        for start in range(first, last, TOGETHER):
            chunk = start + lanes
            at = k.to(tl.int64) * chunks + chunk
            seen = tl.load(lows + at * LOWS + q, mask=chunk < last, other=float("inf"))
            least = tl.minimum(least, seen)
        tl.store(result + TERMS + q, tl.min(least, axis=0))
    tl.store(result + TERMS + LOWS, tl.sum(count, axis=0).to(tl.float64))


def add_up(rows: RowArrays, cut: Cut, found: Found, *, paired: bool) -> Groups:
    """What all chunks have found, group by group, on the host: the one trip of a pass."""
    candidates, chunks, terms = found.sums.shape
    lows = found.lows.shape[2]
    there = rows.empty(candidates, GROUPS, terms + lows + 1)
    with rows.at_home():
        _add_up[(candidates, GROUPS)](
            found.sums,
            found.lows,
            found.counts,
            there,
            chunks,
            cut.group,
            TERMS=terms,
            ROOM=triton.next_power_of_2(terms),
            PAIRED=int(paired),
            LOWS=lows,
            TOGETHER=TOGETHER,
        )
        all_of_it = _brought(there)
    counts = all_of_it[:, :, -1].sum(axis=1).astype(np.int64)
    return Groups(there, all_of_it[:, :, :terms], all_of_it[:, :, terms:-1], counts)


def _brought(x: Array) -> Host:
    """An array on the host, through memory that the device can write to by itself."""
    if not x.is_cuda:
        return x.numpy()
    host = torch.empty(x.shape, dtype=x.dtype, pin_memory=True)
    host.copy_(x, non_blocking=True)
    torch.cuda.current_stream(x.device).synchronize()
    return host.numpy()


class Gathered(NamedTuple):
    """Rows that were marked, in their order."""

    columns: Host  # (coordinates, k): a_i = y_i s_i, with y_i last where there is an intercept
    costs: Host
    slopes: Host
    positions: NDArray[np.int64]


@triton.jit
def _gather(
    S,
    y,
    c,
    slopes,
    marks,
    counts,
    groups,
    plans,
    out,
    n,
    chunks,
    group,
    tiles,
    R: tl.constexpr,
    SLICES: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    GROUPS: tl.constexpr,
    ENTRIES: tl.constexpr,
    HAS_Y: tl.constexpr,
    HAS_C: tl.constexpr,
    HAS_SLOPES: tl.constexpr,
    FREE: tl.constexpr,
):
    chunk, k = tl.program_id(0), tl.program_id(1)
    wanted = tl.load(counts + k.to(tl.int64) * chunks + chunk)
    start = tl.load(plans + 3 * k)
    taken = tl.load(plans + 3 * k + 1)
    stride = tl.load(plans + 3 * k + 2)
    if (wanted > 0) & (taken > 0):
        # How many come before this chunk: in groups before its own, and in its own.
        own = chunk // group
        every = tl.arange(0, GROUPS)
        of_groups = groups + (k * GROUPS + every) * ENTRIES + ENTRIES - 1
        before = tl.sum(tl.load(of_groups, mask=every < own, other=0.0), axis=0).to(tl.int64)
        for first in range(own * group, chunk, GROUPS):
            other = first + every
            at = counts + k.to(tl.int64) * chunks + other
            before += tl.sum(tl.load(at, mask=other < chunk, other=0).to(tl.int64), axis=0)
        column = tl.arange(0, SLICES)[None, :, None] * WIDTH + tl.arange(0, WIDTH)[None, None, :]
        for tile in range(tiles):
            row = (chunk.to(tl.int64) * tiles + tile) * ROWS + tl.arange(0, ROWS)
            inside = row < n
            mark = tl.load(marks + k.to(tl.int64) * n + row, mask=inside, other=1)
            hit = (mark == 0).to(tl.int64)
            number = before + tl.cumsum(hit, axis=0) - hit
            before += tl.sum(hit, axis=0)
            chosen = (hit > 0) & (number % stride == 0)
            place = start + number // stride
            cell = chosen[:, None, None] & (column < R)
            s = tl.load(S + row[:, None, None] * R + column, mask=cell, other=0.0).to(tl.float64)
            label = tl.full((ROWS,), 1.0, dtype=tl.float64)
            if HAS_Y:
                label = tl.load(y + row, mask=chosen, other=1.0)
            tl.store(
                out + place[:, None, None] + column * taken, s * label[:, None, None], mask=cell
            )
            if FREE:
                tl.store(out + place + R * taken, label, mask=chosen)
            cost = tl.full((ROWS,), 1.0, dtype=tl.float64)
            if HAS_C:
                cost = tl.load(c + row, mask=chosen, other=1.0)
            slope = tl.zeros((ROWS,), dtype=tl.float64)
            if HAS_SLOPES:
                slope = tl.load(slopes + k.to(tl.int64) * n + row, mask=chosen, other=0.0)
            rest = out + place + (R + FREE) * taken
            tl.store(rest, cost, mask=chosen)
            tl.store(rest + taken, slope, mask=chosen)
            tl.store(rest + 2 * taken, row.to(tl.float64), mask=chosen)


def gather(
    rows: RowArrays,
    cut: Cut,
    found: Found,
    groups: Groups,
    most: Sequence[int],
    strides: Sequence[int],
    *,
    slopes: Array | None,
    free: bool,
) -> list[Gathered | None]:
    """Of each candidate every `stride`-th of the marked rows; None where those exceed `most`.

    `slopes`, of shape (candidates, n) or None, has one more number for each row.
    """
    R = int(rows.S.shape[1])
    height = R + int(free) + 3
    taken = [-(-int(count) // stride) for count, stride in zip(groups.counts, strides, strict=True)]
    brought = [0 if k > limit else k for k, limit in zip(taken, most, strict=True)]
    ends = np.cumsum([k * height for k in brought])
    host = np.empty(0)
    if ends[-1]:
        plans = np.column_stack([ends - [k * height for k in brought], brought, strides])
        out = rows.empty(int(ends[-1]))
        with rows.at_home():
            _gather[(cut.chunks, len(brought))](
                rows.S,
                rows.or_any(rows.y),
                rows.or_any(rows.c),
                rows.or_any(slopes),
                found.marks,
                found.counts,
                groups.there,
                rows.beside(plans, torch.int64),
                out,
                rows.S.shape[0],
                cut.chunks,
                cut.group,
                cut.tiles,
                R=R,
                SLICES=cut.slices,
                WIDTH=cut.width,
                ROWS=cut.rows,
                GROUPS=GROUPS,
                ENTRIES=groups.there.shape[2],
                HAS_Y=rows.y is not None,
                HAS_C=rows.c is not None,
                HAS_SLOPES=slopes is not None,
                FREE=int(free),
                num_warps=cut.warps,
            )
            host = _brought(out)
    results: list[Gathered | None] = []
    for k, end, limit, wanted in zip(brought, ends, most, taken, strict=True):
        table = host[end - k * height : end].reshape(height, k)
        *_, costs, slope, positions = table
        rows_of_it = Gathered(table[:-3], costs, slope, positions.astype(np.int64))
        results.append(rows_of_it if wanted <= limit else None)
    return results


def try_out(device: int) -> bool:
    """Whether a kernel compiles, runs and is right: the rows 0 and 2 of three."""
    S = torch.arange(6.0, dtype=torch.float64, device=f"cuda:{device}").reshape(3, 2)
    rows, cut = RowArrays(S, None, None), cut_rows(3, 2)
    found = Found.room(rows, cut, 1, 2, 1)
    found.sums.fill_(2.0), found.lows.fill_(1.0), found.counts.fill_(2)
    found.marks.copy_(rows.beside([[0, 1, 0]], torch.int8))
    groups = add_up(rows, cut, found, paired=False)
    [taken] = gather(rows, cut, found, groups, [3], [1], slopes=None, free=False)
    return taken is not None and bool((taken.columns == [[0.0, 4.0], [1.0, 5.0]]).all())
