"""Rows in blocks of Dask collections: the only module that imports Dask.

One task works on one block: consecutive rows of a table, with their labels and weights. Work on
blocks is pure, so that a scheduler may repeat it when a worker is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

import array_api_compat
import numpy as np

from lpfuse._arrays import operations as ops
from lpfuse._arrays.operations import Array, Host

FAN_IN = 16  # results that are merged at a time, on a worker

T = TypeVar("T")


def meta_of(x: Any) -> Any:
    """Return an empty table with the columns of x and, if any, their names."""
    return x._meta if hasattr(x, "columns") else np.empty((0, *x.shape[1:]), dtype=x.dtype)


def dtype_of(x: Any) -> np.dtype[Any]:
    """Return the type of results: float32 where all of x is, else float64."""
    dtypes = list(x.dtypes) if hasattr(x, "columns") else [x.dtype]
    return np.dtype("float32" if all(dtype == np.float32 for dtype in dtypes) else "float64")


class Blocks:
    """Aligned blocks of a table and of vectors with one entry per row.

    Parameters
    ----------
    parts : sequence of tuples
        For each block, its part of the table and of the vectors; None for a missing vector. Parts
        are `Delayed` objects of Dask, or arrays.
    sizes : sequence of int, optional
        Numbers of rows, if known.
    """

    def __init__(self, parts: Sequence[tuple[Any, ...]], sizes: Sequence[int] | None) -> None:
        self.parts = list(parts)
        self.sizes = None if sizes is None else [int(size) for size in sizes]

    @classmethod
    def of(cls, table: Any, *vectors: Any, names: Sequence[str] = ("S", "y")) -> Blocks:
        """Return the blocks of a collection and of vectors (or None) aligned with it.

        Collections of Dask, or of a class with a method ``lpfuse_blocks(*vectors)``, which returns
        a `Blocks` of its own: with `reduce` and `lazy`.
        """
        if hasattr(table, "lpfuse_blocks"):
            own: Blocks = table.lpfuse_blocks(*vectors)
            return own
        columns = [_delayed_parts(table)]
        for name, vector in zip(names[1:], vectors, strict=False):
            columns.append(_aligned_parts(table, vector, columns[0], (names[0], name)))
        return cls(list(zip(*columns, strict=True)), _sizes(table))

    def __len__(self) -> int:
        return len(self.parts)

    def append(self, parts: tuple[Array, ...]) -> None:
        """Add a block of rows that are in memory."""
        self.parts.append(parts)
        if self.sizes is not None:
            self.sizes.append(len(parts[0]))

    def beside(self, more: Sequence[tuple[Any, ...]]) -> Blocks:
        """Return the same blocks with further parts: for each block, a tuple of them."""
        found = copy(self)
        found.parts = [(*parts, *extra) for parts, extra in zip(self.parts, more, strict=True)]
        return found

    def reduce(self, work: Callable[..., T], merge: Callable[[list[T]], T], *shared: Any) -> T:
        """Return ``merge`` of ``work(k, parts, *shared)`` over all blocks k, in one pass.

        Results are merged on the workers, a few at a time and always in the same order. `shared`
        is sent to each worker once, not with each task.
        """
        import dask

        # A dashboard shows the name; the key must be unique on the scheduler.
        call, sent, key = (
            dask.delayed(_call, pure=False),
            _delayed_shared(shared),
            f"{_name(work)}-{uuid4()}",
        )
        level = [
            call(work, k, parts, *sent, dask_key_name=f"{key}-{k}")
            for k, parts in enumerate(self.parts)
        ]
        merging = dask.delayed(merge, pure=False)
        while True:
            level = [merging(level[k : k + FAN_IN]) for k in range(0, len(level), FAN_IN)]
            if len(level) == 1:
                result: T = dask.compute(level[0])[0]
                return result

    def lazy(
        self,
        work: Callable[..., Array],
        shared: Sequence[Any],
        width: int | None,
        dtype: Any,
        along: Sequence[Any] | None = None,
    ) -> Any:
        """Return ``work(k, parts, along[k], *shared)`` over all blocks k as a lazy array.

        It has one entry a row, or `width` columns.
        """
        import dask
        import dask.array

        call, sent = dask.delayed(_rows_of, pure=False), _delayed_shared(shared)
        more: tuple[int, ...] = () if width is None else (width,)
        each = [[]] * len(self) if along is None else [[item] for item in along]
        pieces = [
            dask.array.from_delayed(
                call(work, k, parts, np.dtype(dtype), *each[k], *sent),
                shape=(float("nan"), *more),
                dtype=dtype,
            )
            for k, parts in enumerate(self.parts)
        ]
        joined = dask.array.concatenate(pieces, axis=0, allow_unknown_chunksizes=True)
        if self.sizes is not None:  # set afterwards: `concatenate` drops pieces of known size 0
            joined._chunks = (tuple(self.sizes), *joined.chunks[1:])
        return joined


class Summary(NamedTuple):
    """A statistic to compute in the same pass: ``merge`` of ``work(k, S, y, c)`` over blocks k."""

    work: Callable[[int, Array, Array | None, Array | None], Any]
    merge: Callable[[list[Any]], Any]


class CheckedBlocks(NamedTuple):
    """Validated blocks of rows with their statistics."""

    blocks: Blocks  # (table, labels or None, weights or None), with known sizes
    names: list[str] | None
    low: Host  # minimum and maximum of each column
    high: Host
    rows: tuple[int, int]  # numbers of normal rows and of anomalies
    mass: tuple[float, float]  # their total weights
    also: Any  # the caller's summary

    @property
    def n(self) -> int:
        """Number of rows."""
        return sum(self.rows)

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.low.size


def arrays_of(parts: tuple[Any, ...]) -> tuple[Array, Array | None, Array | None]:
    """Return a block's rows as floats, and its labels and weights as float64."""
    values, labels, weights = parts
    return _floats(values), _vector(labels), _vector(weights)


def _floats(values: Any) -> Array:
    if array_api_compat.is_array_api_obj(values) and not ops.is_numpy(values):
        return values
    table = np.asarray(values)
    if table.dtype == object and hasattr(values, "to_numpy"):  # pandas.NA
        return values.to_numpy(dtype=np.float64, na_value=np.nan)
    return table if table.dtype in (np.float64, np.float32) else table.astype(np.float64)


def _vector(values: Any) -> Host | None:
    if values is None:
        return None
    foreign = array_api_compat.is_array_api_obj(values) and not ops.is_numpy(values)
    return ops.to_host(values) if foreign else np.asarray(values, dtype=np.float64)


def map_rows(
    work: Callable[..., Array],
    X: Any,
    *shared: Any,
    width: int | None = None,
    dtype: Any = None,
) -> Any:
    """Return a lazy array of ``work(block, *shared)`` for the rows of X.

    Parameters
    ----------
    work : callable
        From a block of k rows to an array of shape (k,), or (k, width).
    X : Dask array or data frame
        Rows.
    *shared
        Further arguments of `work`, sent to each worker once.
    width : int, optional
        Number of columns of the result; None: it has one dimension.
    dtype : dtype, optional
        Of the result; by default float32 where X is, else float64.
    """
    return Blocks.of(X).lazy(partial(_on_table, work), shared, width, dtype or dtype_of(X))


def map_blocks(
    work: Callable[..., Array], blocks: Blocks, along: Sequence[Any] | None = None
) -> Any:
    """Return a lazy vector of ``work(k, parts)``, one number per row, over all blocks k.

    `along` has a further argument for each block.
    """
    return blocks.lazy(work, (), None, np.dtype("float64"), along)


def _call(work: Callable[..., T], k: int, parts: tuple[Any, ...], *shared: Any) -> T:
    # A worker runs several tasks in parallel.
    with ops.single_threaded(), ops.one_blas_thread:
        return work(k, tuple(parts), *shared)


def _rows_of(
    work: Callable[..., Array], k: int, parts: tuple[Any, ...], dtype: np.dtype[Any], *more: Any
) -> Array:
    found = _call(work, k, parts, *more)
    return found.astype(dtype, copy=False) if isinstance(found, np.ndarray) else found


def _on_table(work: Callable[..., Array], k: int, parts: tuple[Any, ...], *shared: Any) -> Array:
    try:
        return work(parts[0], *shared)
    except (ValueError, TypeError) as error:
        raise type(error)(f"block {k}: {error}") from error


def _delayed_shared(shared: Sequence[Any]) -> list[Any]:
    import dask

    return [dask.delayed(item, pure=False, traverse=False) for item in shared]


def _name(work: Any) -> str:
    while isinstance(work, partial):
        work = work.func
    return str(getattr(work, "__name__", "work")).strip("_")


def _delayed_parts(collection: Any) -> list[Any]:
    if hasattr(collection, "rechunk"):  # an array: a block holds all columns
        if collection.ndim > 1:
            collection = collection.rechunk(dict.fromkeys(range(1, collection.ndim), -1))
        return list(collection.to_delayed().ravel())
    # Optimising would join small partitions of a file, of a table and a vector differently.
    return list(collection.simplify().to_delayed(optimize_graph=False))


def _sizes(collection: Any) -> list[int] | None:
    """Return the number of rows of each block, if known without reading the data."""
    if not hasattr(collection, "chunks") or np.isnan(collection.chunks[0]).any():
        return None
    return [int(size) for size in collection.chunks[0]]


def _aligned_parts(table: Any, vector: Any, parts: list[Any], names: tuple[str, str]) -> list[Any]:
    if vector is None:
        return [None] * len(parts)
    found = _delayed_parts(vector)
    sizes, wanted = _sizes(vector), _sizes(table)
    if len(found) != len(parts) or (None not in (sizes, wanted) and sizes != wanted):
        raise ValueError(
            f"{names[1]} must have the same blocks as {names[0]}: {names[0]} has "
            f"{_describe_blocks(parts, wanted)}, {names[1]} has {_describe_blocks(found, sizes)}. "
            f"Pass {names[1]}.rechunk({names[0]}.chunks[0]) for arrays, or take both from one data "
            "frame."
        )
    return found


def _describe_blocks(parts: list[Any], sizes: list[int] | None) -> str:
    blocks = f"{len(parts)} block{'' if len(parts) == 1 else 's'}"
    if sizes is None:
        return f"{blocks} of unknown sizes"
    first = ", ".join(map(str, sizes[:5])) + (", …" if len(sizes) > 5 else "")
    return f"{blocks} ({first} rows)"
