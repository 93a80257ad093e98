"""What both fused passes share: rows on a device, what chunks of them found, and adding it up.

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

from lpfuse._arrays.linalg import GROUPS, TOGETHER, Cut, cut_rows
from lpfuse._arrays.operations import Array, Host


class RowArrays(NamedTuple):
    """Scores, and labels and costs or None, on a device."""

    S: Array
    y: Array | None
    c: Array | None

    def cut_for(self, candidates: int) -> Cut:
        """Return how a pass for so many candidates cuts the rows."""
        n, R = map(int, self.S.shape)
        return cut_rows(n, R, candidates > 1, single=self.S.dtype == torch.float32)

    def beside(self, values: Any, dtype: Any = torch.float64) -> Array:
        """Return a few numbers of the host, there: whoever asks does not wait for the device."""
        here = torch.as_tensor(values, dtype=dtype)
        return here.pin_memory().to(self.S.device, non_blocking=True) if self.S.is_cuda else here

    def empty(self, *shape: int, dtype: Any = torch.float64) -> Array:
        """Return an array to be filled, there."""
        return torch.empty(shape, dtype=dtype, device=self.S.device)

    def or_any(self, x: Array | None) -> Array:
        """Return the array; the scores stand in for one that no kernel will look at."""
        return self.S if x is None else x.contiguous()

    @property
    def arrays(self) -> tuple[Array, Array, Array]:
        """As kernels take them."""
        return self.S, self.or_any(self.y), self.or_any(self.c)

    def constants(self, cut: Cut) -> dict[str, Any]:
        """Return what kernels that read rows are compiled for."""
        here = {"HAS_Y": self.y is not None, "HAS_C": self.c is not None, "num_warps": cut.warps}
        sizes = {"SLICES": cut.slices, "WIDTH": cut.width, "ROWS": cut.rows}
        return {"R": int(self.S.shape[1]), **sizes, **here}

    def at_home(self) -> AbstractContextManager[Any]:
        """Kernels are launched on the device of the scores."""
        return torch.cuda.device(self.S.device) if self.S.is_cuda else nullcontext()


class Found(NamedTuple):
    """What chunks have found: written by a pass, read by `collect`."""

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


@triton.jit
def two_sum(a, b):
    """Return the sum rounded, and what rounding has left out."""
    rounded = a + b
    of_b = rounded - a
    return rounded, (a - (rounded - of_b)) + (b - of_b)


@triton.jit
def add_pairs(high, low, other_high, other_low):
    """Return the sum of two numbers in two parts each."""
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


def add_up(rows: RowArrays, cut: Cut, found: Found, *, paired: bool) -> Array:
    """Return what all chunks have found, group by group: (candidates, groups, terms + lows + 1)."""
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
    return there


def brought(arrays: Sequence[Array]) -> list[Host]:
    """Arrays on the host, through memory that the device can write to by itself."""
    if not arrays or not arrays[0].is_cuda:
        return [np.ascontiguousarray(x.numpy()) for x in arrays]
    host = [torch.empty(x.shape, dtype=x.dtype, pin_memory=True) for x in arrays]
    for here, there in zip(host, arrays, strict=True):
        here.copy_(there, non_blocking=True)
    torch.cuda.current_stream(arrays[0].device).synchronize()
    return [here.numpy() for here in host]
