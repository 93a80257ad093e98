"""Sums of a fused pass and the rows that it marked, on their way from a device to the host.

Imported late, by whoever has asked `fused.may_fuse`: this module needs torch and Triton.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray

from lpfuse._arrays.fused_rows import Found, RowArrays, add_up, brought
from lpfuse._arrays.linalg import GROUPS, Cut, cut_rows
from lpfuse._arrays.operations import Array, Host

AHEAD = 1 << 23  # numbers of rows for which there is room before it is known how many there are


class Groups(NamedTuple):
    """Sums over groups of chunks, on the host."""

    sums: Host  # (candidates, groups, terms)
    lows: Host  # (candidates, groups, lows)
    counts: NDArray[np.int64]  # (candidates,)


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
    room = tl.load(plans + 3 * k + 1)
    stride = tl.load(plans + 3 * k + 2)
    every = tl.arange(0, GROUPS)
    counted = tl.load(groups + (k * GROUPS + every) * ENTRIES + ENTRIES - 1)
    taken = (tl.sum(counted, axis=0).to(tl.int64) + stride - 1) // stride
    if (wanted > 0) & (taken <= room):
        # How many come before this chunk: in groups before its own, and in its own.
        own = chunk // group
        before = tl.sum(tl.where(every < own, counted, 0.0), axis=0).to(tl.int64)
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
                out + place[:, None, None] + column * room, s * label[:, None, None], mask=cell
            )
            if FREE:
                tl.store(out + place + R * room, label, mask=chosen)
            cost = tl.full((ROWS,), 1.0, dtype=tl.float64)
            if HAS_C:
                cost = tl.load(c + row, mask=chosen, other=1.0)
            slope = tl.zeros((ROWS,), dtype=tl.float64)
            if HAS_SLOPES:
                slope = tl.load(slopes + k.to(tl.int64) * n + row, mask=chosen, other=0.0)
            rest = out + place + (R + FREE) * room
            tl.store(rest, cost, mask=chosen)
            tl.store(rest + room, slope, mask=chosen)
            tl.store(rest + 2 * room, row.to(tl.float64), mask=chosen)


class Wanted(NamedTuple):
    """Which of the marked rows are to be brought, and what with them."""

    most: Sequence[int]  # of each candidate; none where there are more
    strides: Sequence[int]  # every so many-th of them
    slopes: Array | None  # (candidates, n): one more number for each row
    free: bool  # whether the label is one more coordinate


def collect(
    rows: RowArrays, cut: Cut, found: Found, wanted: Wanted, *, paired: bool
) -> tuple[Groups, list[Gathered | None]]:
    """Sums of all chunks and, of each candidate, its marked rows; None where they are too many.

    Where there is room for as many rows as are allowed they are gathered while the host waits for
    the sums; else when it knows how many they are.
    """
    n, R = map(int, rows.S.shape)
    height, terms = R + int(wanted.free) + 3, found.sums.shape[2]
    there = add_up(rows, cut, found, paired=paired)
    rooms = [min(max(limit, 0), n) for limit in wanted.most]
    ahead = sum(rooms) * height <= AHEAD
    out = _gathered(rows, cut, found, there, wanted, rooms, height) if ahead else None
    [all_of_it] = brought([there])
    counts = all_of_it[:, :, -1].sum(axis=1).astype(np.int64)
    groups = Groups(all_of_it[:, :, :terms], all_of_it[:, :, terms:-1], counts)
    taken = [-(-int(count) // k) for count, k in zip(counts, wanted.strides, strict=True)]
    few = [0 if k > limit else k for k, limit in zip(taken, wanted.most, strict=True)]
    if out is None:
        rooms = few
        out = _gathered(rows, cut, found, there, wanted, rooms, height)
    ends = np.cumsum([room * height for room in rooms]).tolist()
    tables = [
        out[end - room * height : end].reshape(height, room)[:, :k]
        for end, room, k in zip(ends, rooms, few, strict=True)
    ]
    tables_here = iter(brought([table for table in tables if table.shape[1]]))
    results: list[Gathered | None] = []
    for k, table, limit in zip(taken, tables, wanted.most, strict=True):
        here = next(tables_here) if table.shape[1] else np.empty((height, 0))
        rows_of_it = Gathered(here[:-3], here[-3], here[-2], here[-1].astype(np.int64))
        results.append(rows_of_it if k <= limit else None)
    return groups, results


def _gathered(
    rows: RowArrays,
    cut: Cut,
    found: Found,
    groups: Array,
    wanted: Wanted,
    rooms: Sequence[int],
    height: int,
) -> Array:
    """Tables of `height` lines with room for so many rows, one after the other, there."""
    sizes = [room * height for room in rooms]
    out = rows.empty(sum(sizes))
    if not sum(sizes):
        return out
    plans = np.column_stack([np.cumsum(sizes) - sizes, rooms, wanted.strides])
    with rows.at_home():
        _gather[(cut.chunks, len(rooms))](
            *rows.arrays,
            rows.or_any(wanted.slopes),
            found.marks,
            found.counts,
            groups,
            rows.beside(plans, torch.int64),
            out,
            rows.S.shape[0],
            cut.chunks,
            cut.group,
            cut.tiles,
            **rows.constants(cut),
            GROUPS=GROUPS,
            ENTRIES=groups.shape[2],
            HAS_SLOPES=wanted.slopes is not None,
            FREE=int(wanted.free),
        )
    return out


def try_out(device: int) -> bool:
    """Return whether a kernel compiles, runs and is right: the rows 0 and 2 of three."""
    S = torch.arange(6.0, dtype=torch.float64, device=f"cuda:{device}").reshape(3, 2)
    rows, cut = RowArrays(S, None, None), cut_rows(3, 2)
    found = Found.room(rows, cut, 1, 2, 1)
    found.sums.fill_(2.0), found.lows.fill_(1.0), found.counts.fill_(2)
    found.marks.copy_(rows.beside([[0, 1, 0]], torch.int8))
    _, [taken] = collect(rows, cut, found, Wanted([3], [1], None, False), paired=False)
    return taken is not None and bool((taken.columns == [[0.0, 4.0], [1.0, 5.0]]).all())
