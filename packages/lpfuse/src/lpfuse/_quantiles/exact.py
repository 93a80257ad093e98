"""Exact order statistics of one number a row of a Dask collection, which is read twice at most."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from lpfuse._arrays.blocks import Blocks, arrays_of
from lpfuse._arrays.operations import Host, namespace, to_host, total
from lpfuse._checks.blocks import check_vector_blocks
from lpfuse._checks.messages import listed
from lpfuse._quantiles.sketch import SIZE, QuantileSketch

Missing = list[tuple[int, int]]  # (block, number of its rows that are NaN)


class VectorInBlocks(NamedTuple):
    """One number a row of a Dask collection, after it was read once.

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
        """Read the numbers once; NaN, and what is no vector of numbers, is refused.

        Parameters
        ----------
        values : Dask array or series of shape (n,)
            The numbers.
        name : str
            What they are called in messages.
        size : int, default=SIZE
            Of the sketch.
        """
        check_vector_blocks(values, name)
        blocks = Blocks.of(values)
        sketch, missing = blocks.reduce(partial(_first_look, size), _merged)
        if missing:
            told = listed(f"block {block} ({rows} of its rows)" for block, rows in missing)
            raise ValueError(f"{name} must be numbers, but NaN is in {told}. Leave those rows out.")
        return cls(blocks, sketch)

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return self.sketch.n

    def smallest(self, ranks: Sequence[int]) -> list[float]:
        """The smallest numbers of given ranks, from 0, exactly; if need be by a second look.

        The sketch tells between which two values a number lies. What lies between them is fetched:
        no more than ``4 · rank_error`` rows for each rank, however many rows are tied.
        """
        brackets = [(float(low[0]), float(high[0])) for low, high in map(self.sketch.bounds, ranks)]
        if all(low == high for low, high in brackets):
            return [low for low, _ in brackets]
        found = self.blocks.reduce(_look_between, _joined, brackets)
        return [
            _of_rank(rank, *bracket, *seen)
            for rank, bracket, seen in zip(ranks, brackets, found, strict=True)
        ]


def _first_look(size: int, k: int, parts: tuple[Any, ...]) -> tuple[QuantileSketch, Missing]:
    """The sketch of block k without its NaN, and how many of these there are."""
    values = arrays_of((parts[0], None, None))[0]
    missing = namespace(values).isnan(values)
    rows = int(total(missing))
    return QuantileSketch.of(values[~missing], size), [(k, rows)] if rows else []


def _merged(seen: list[tuple[QuantileSketch, Missing]]) -> tuple[QuantileSketch, Missing]:
    sketches = [sketch for sketch, _ in seen]
    return QuantileSketch.merge(sketches), [place for _, missing in seen for place in missing]


def _look_between(
    k: int, parts: tuple[Any, ...], brackets: list[tuple[float, float]]
) -> list[tuple[int, Host]]:
    """For each bracket the number of rows up to its lower end, and those strictly inside."""
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
    """The number of that rank: `low`, one of those strictly inside the bracket, or `high`.

    Ranks below `up_to_low` are left to `low`: the bracket holds the number, so it is `low` itself
    or a tie of it.
    """
    if rank < up_to_low:
        return low
    place = rank - up_to_low
    return float(np.partition(inside, place)[place]) if place < inside.size else high
