"""Operations on arrays of NumPy, torch, CuPy and other array-API libraries, and on row blocks.

Arrays with one entry per sample stay in the library and on the device that the user chose. Arrays
with one entry per learner (R, or R×R) are small and always NumPy on the host.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from threading import Lock, current_thread, local
from typing import Any, TypeVar

import array_api_compat
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

# --------------------------------------------------------------------------------------------------
# Threads and memory limits.


T = TypeVar("T")
X = TypeVar("X")

WORKER = "lpfuse-worker"  # prefix of thread names
IN_BROWSER = sys.platform in ("emscripten", "wasi")  # without threads


class MemoryLimits:
    """Sizes in bytes; `limits` holds those of the process and may be changed.

    Attributes
    ----------
    block : int
        A block of rows, which should stay in a core's cache between its two uses (residuals, then
        sums over the rows). 4 MiB: on 1,000,000 × 36 scores, blocks from 0.5 to 4 MiB are equally
        fast, 8 MiB a third slower.
    parallel : int
        Below this, threads cost more than they save. Chosen by hand: two blocks.
    device_block : int
        A block on a device, large enough to keep it busy. Chosen by hand.
    matrix : int
        An n×n matrix on the host: 4 GiB are 23,170 rows in float64. Chosen by hand.
    """

    def __init__(self) -> None:
        self.block = 2**22
        self.parallel = 2**23
        self.device_block = 2**28
        self.matrix = 2**32


limits = MemoryLimits()


@cache
def _pool() -> ThreadPoolExecutor | None:
    """Return a pool with one thread per core; None with a single core."""
    allowed = getattr(os, "sched_getaffinity", None)  # Linux: cores available to this process
    cores = len(allowed(0)) if allowed else os.cpu_count()
    return None if cores == 1 else ThreadPoolExecutor(cores, thread_name_prefix=WORKER)


if hasattr(os, "register_at_fork"):  # threads do not survive a fork: the child starts its own
    os.register_at_fork(after_in_child=_pool.cache_clear)


_this_thread = local()


@contextmanager
def single_threaded() -> Iterator[None]:
    """Make `map_parallel` run single_threaded in this thread."""
    before = getattr(_this_thread, "alone", False)
    _this_thread.alone = True
    try:
        yield
    finally:
        _this_thread.alone = before


def map_parallel(work: Callable[[X], T], items: Sequence[X]) -> list[T]:
    """Apply ``work`` to each item in parallel threads; for work that releases the GIL."""
    # A worker that waits for workers would deadlock.
    alone = getattr(_this_thread, "alone", False) or current_thread().name.startswith(WORKER)
    pool = None if alone or IN_BROWSER or len(items) == 1 else _pool()
    return [work(item) for item in items] if pool is None else list(pool.map(work, items))


@cache
def _thread_pools() -> ThreadpoolController:
    return ThreadpoolController()


class _OneThread:
    """Limit BLAS, or OpenMP, to one thread.

    The limit is per process and shared by overlapping users: the first one sets it and the last
    one restores the former value.
    """

    def __init__(self, user_api: str) -> None:
        self.user_api = user_api
        self.lock = Lock()
        self.users = 0

    def __enter__(self) -> None:
        with self.lock:
            self.users += 1
            if self.users == 1:
                self.limit = _thread_pools().limit(limits=1, user_api=self.user_api)

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.users -= 1
            if self.users == 0:
                self.limit.restore_original_limits()


one_blas_thread = _OneThread("blas")  # products here are small or memory-bound
_one_openmp_thread = _OneThread("openmp")


def openmp_threads_for(n: int) -> AbstractContextManager[None]:
    """Limit OpenMP to one thread for fits of fewer than 50,000 rows (chosen by hand).

    Boosting 270 rows took 0.1 s with one thread, and up to minutes with two on busy cores.
    """
    return _one_openmp_thread if n < 50_000 else nullcontext()


# --------------------------------------------------------------------------------------------------
# Operations in the library and on the device of their argument.

Array = Any  # an array of any library that follows the array API standard
Host = NDArray[np.float64]


def is_numpy(x: Array) -> bool:
    """Return whether x is a NumPy array."""
    return isinstance(x, np.ndarray)


def is_blocked(x: Any) -> bool:
    """Return whether x is an array, data frame or series of Dask, without importing Dask."""
    return type(x).__module__.startswith(("dask.array", "dask.dataframe"))


def on_accelerator(x: Array) -> bool:
    """Return whether x is on an accelerator, where products are cheap and transfers expensive."""
    if array_api_compat.is_torch_array(x):
        return bool(x.device.type != "cpu")
    return bool(array_api_compat.is_cupy_array(x))


def is_single(x: Array) -> bool:
    """Return whether x has single precision."""
    return bool(x.dtype == np.float32) if is_numpy(x) else "float32" in str(x.dtype)


def namespace(x: Array) -> Any:
    """Return the array-API namespace of x; NumPy itself, without wrappers, for NumPy arrays."""
    return np if is_numpy(x) else array_api_compat.array_namespace(x)


def to_host(x: Array) -> Host:
    """Return a small array as float64 NumPy."""
    if not is_numpy(x):
        if array_api_compat.is_torch_array(x):
            x = x.detach().cpu().numpy()
        else:
            x = x.get() if array_api_compat.is_cupy_array(x) else np.from_dlpack(x)
    return np.asarray(x, dtype=np.float64)


def to_host_together(*parts: Array) -> list[Host]:
    """Return several small arrays of one library as float64 NumPy, in one transfer."""
    if is_numpy(parts[0]):
        return [np.asarray(part, dtype=np.float64) for part in parts]
    xp = namespace(parts[0])
    flat = to_host(xp.concat([xp.reshape(xp.astype(part, xp.float64), (-1,)) for part in parts]))
    ends = np.cumsum([int(np.prod(part.shape)) for part in parts])
    pieces = np.split(flat, ends[:-1])
    return [piece.reshape(part.shape) for piece, part in zip(pieces, parts, strict=True)]


def like(values: Array, x: Array) -> Array:
    """Convert host numbers, or an array of x's library, to float64 on the device of x."""
    if is_numpy(x):
        return np.asarray(values, dtype=np.float64)
    xp = namespace(x)
    return xp.asarray(values, dtype=xp.float64, device=array_api_compat.device(x))


def beside(values: Array, x: Array) -> Array:
    """Convert an array to the library, precision and device of x; without a copy if possible."""
    if is_numpy(x):
        host = values if is_numpy(values) else to_host(values)
        return host.astype(x.dtype, copy=False)
    xp = namespace(x)
    if not is_numpy(values) and namespace(values) is not xp:
        values = to_host(values)
    if is_numpy(values):
        values = np.ascontiguousarray(values)  # torch has no negative strides
    return xp.asarray(values, dtype=x.dtype, device=array_api_compat.device(x))


def new_empty(shape: tuple[int, ...], x: Array) -> Array:
    """Return an uninitialised array in the library, precision and device of x."""
    if is_numpy(x):
        return np.empty(shape, dtype=x.dtype)
    return namespace(x).empty(shape, dtype=x.dtype, device=array_api_compat.device(x))


def filled(n: int, value: float, x: Array, dtype: str = "float64") -> Array:
    """Return a vector of n equal entries in the library and on the device of x."""
    xp = namespace(x)
    device = None if is_numpy(x) else array_api_compat.device(x)
    return xp.full(n, value, dtype=getattr(xp, dtype), device=device)


def as_float64(x: Array) -> Array:
    """Return x in float64, without a copy if it is already."""
    if is_numpy(x):
        return np.asarray(x, dtype=np.float64)
    xp = namespace(x)
    return xp.astype(x, xp.float64, copy=False)


def positive_part(x: Array) -> Array:
    """Return ``max(0, x)`` elementwise."""
    return np.maximum(x, 0.0) if is_numpy(x) else namespace(x).clip(x, min=0.0)


def kth_smallest(x: Array, k: int) -> float:
    """Return the k-th smallest entry (k from 0) of a one-dimensional array."""
    if is_numpy(x):
        return float(np.partition(x, k)[k])
    return float(namespace(x).sort(x)[k])


def nonzero(mask: Array) -> Array:
    """Return the indices of the true entries of a 1D mask."""
    return namespace(mask).nonzero(mask)[0]


def take(x: Array, index: Array, axis: int = 0) -> Array:
    """Return entries of x at integer positions, which may be on the host."""
    if is_numpy(x):
        return x.take(index, axis=axis)
    xp = namespace(x)
    return xp.take(x, xp.asarray(index, device=array_api_compat.device(x)), axis=axis)


def concatenate(parts: list[Array]) -> Array:
    """Concatenate arrays of one library along the first axis."""
    return parts[0] if len(parts) == 1 else namespace(parts[0]).concat(parts, axis=0)


def concat_transposed(parts: list[Array]) -> Array:
    """Concatenate arrays of shape (k_i, R) to a contiguous (R, Σ k_i), with a single copy."""
    flipped = [part.T for part in parts]
    if is_numpy(parts[0]):
        columns = np.empty((parts[0].shape[1], sum(len(part) for part in parts)))
        return np.concatenate(flipped, axis=1, out=columns)
    return namespace(parts[0]).concat(flipped, axis=1)


def dot(x: Array, z: Array) -> float:
    """Return ``Σ x·z`` over all entries of two arrays of one shape."""
    return float(np.vdot(x, z)) if is_numpy(x) else float(namespace(x).sum(x * z))


def total(x: Array) -> float:
    """Return the sum of all entries; of a mask, the number of true ones."""
    if is_numpy(x):
        return float(x.sum())
    xp = namespace(x)
    return float(xp.sum(xp.astype(x, xp.int64) if x.dtype == xp.bool else x))


def norm(x: Array) -> float:
    """Return the Frobenius norm, without a temporary; infinite on overflow."""
    if is_numpy(x):
        return float(np.sqrt(np.einsum("ij,ij->", x, x)))
    return float(namespace(x).linalg.vector_norm(x))


def largest(x: Array) -> float:
    """Return the largest entry."""
    return float(x.max()) if is_numpy(x) else float(namespace(x).max(x))


def smallest(x: Array) -> float:
    """Return the smallest entry."""
    return float(x.min()) if is_numpy(x) else float(namespace(x).min(x))


def put(x: Array, index: Array, values: Array | float) -> Array:
    """Return x with entries at integer positions replaced, in place where the library can."""
    if not is_numpy(x) and is_numpy(index):
        index = namespace(x).asarray(index, device=array_api_compat.device(x))
    if not isinstance(values, float):
        values = beside(values, x)
    if is_numpy(x) or array_api_compat.is_torch_array(x) or array_api_compat.is_cupy_array(x):
        x[index] = values
        return x
    # The array API has no assignment at integer positions: go through the host.
    xp, host = namespace(x), np.array(np.from_dlpack(x))
    host[np.from_dlpack(index)] = values if isinstance(values, float) else np.from_dlpack(values)
    return xp.asarray(host, device=array_api_compat.device(x))


def fill_masked(values: Any) -> Any:
    """Replace masked cells of a NumPy masked array by NaN or, for texts, None.

    Examples
    --------
    >>> fill_masked(np.ma.array([1, 2], mask=[False, True]))
    array([ 1., nan])
    """
    if isinstance(values, np.ma.MaskedArray):
        missing: Any = np.nan if values.dtype.kind in "biufc" else None
        return np.where(np.ma.getmaskarray(values), missing, values.data)
    return values


def detached(x: Array) -> Array:
    """Return the array without torch's autograd graph."""
    return x.detach() if getattr(x, "requires_grad", False) else x


def array_range(n: int, x: Array) -> Array:
    """Return the integers 0, …, n − 1 in the library and on the device of x."""
    return namespace(x).arange(n, device=None if is_numpy(x) else array_api_compat.device(x))


def exp_in_place(x: Array) -> Array:
    """Return the elementwise exponential, in place where the library can."""
    if is_numpy(x):
        return np.exp(x, out=x)
    return x.exp_() if array_api_compat.is_torch_array(x) else namespace(x).exp(x)


def map_row_blocks(
    work: Callable[[slice], T], rows: Array, width: int | None = None, *, once: bool = False
) -> list[T]:
    """Apply ``work`` to consecutive slices of the rows, in order.

    NumPy rows are split into blocks that fit the cache and run on all cores. The split does not
    depend on the number of cores, so neither do sums over it. An array on a device is one block,
    unless `width`, the numbers that the work computes per row, bounds its size. Work that reads
    rows `once` does not need the cache and gets blocks up to four times as large, of which there
    are at least 32.
    """
    blocks = _row_blocks(rows, width, 4 if once else 1)
    if not is_numpy(rows) or rows.shape[0] * _row_bytes(rows, width) < limits.parallel:
        return [work(block) for block in blocks]
    return map_parallel(work, blocks)


def sum_row_blocks(work: Callable[[slice], Array], rows: Array, width: int) -> Array:
    """Return the sum of ``work`` over slices of the rows, on their device, in bounded memory."""
    blocks = _row_blocks(rows, width)

    def part(blocks: list[slice]) -> Array:
        result = work(blocks[0])
        for block in blocks[1:]:
            result += work(block)
        return result

    if not is_numpy(rows):
        return part(blocks)
    span = -(-len(blocks) // 8)  # eight partial sums whatever the number of cores: reproducible
    spans = [blocks[start : start + span] for start in range(0, len(blocks), span)]
    return np.sum(map_parallel(part, spans), axis=0)


def _row_blocks(rows: Array, width: int | None, larger: int = 1) -> list[slice]:
    n, row_bytes = rows.shape[0], _row_bytes(rows, width)
    if is_numpy(rows):
        block = min(max(limits.block, n * row_bytes // 32), larger * limits.block)
        return _slices(n, max(256, block // row_bytes))
    return _slices(n, n if width is None else max(256, limits.device_block // row_bytes))


def _row_bytes(rows: Array, width: int | None) -> int:
    return 8 * max(1, width or math.prod(rows.shape[1:]))


def _slices(n: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def weigh_columns(w: Host, columns: Array) -> Array:
    """Return ``wᵀ · columns``, one number per column, for columns of shape (R, m)."""
    v = like(w, columns)
    parts = _column_blocks(columns)
    if len(parts) == 1:
        return v @ columns
    return np.concatenate(map_parallel(lambda part: v @ columns[:, part], parts))


def sum_columns(columns: Array, factors: Array) -> Host:
    """Return ``columns · factors``: R numbers on the host."""
    parts = _column_blocks(columns)
    if len(parts) == 1:
        return to_host(columns @ factors)
    sums = map_parallel(lambda part: columns[:, part] @ factors[part], parts)
    return np.sum(sums, axis=0)


def _column_blocks(columns: Array) -> list[slice]:
    """Return four equal parts of large NumPy columns, else one: sums are reproducible."""
    m = columns.shape[1]
    if not is_numpy(columns) or columns.nbytes < limits.parallel:
        return [slice(0, m)]
    return [slice(m * k // 4, m * (k + 1) // 4) for k in range(4)]


def column_ranks(S: Array) -> Array:
    """Return the rank of each entry in its column, from 1; ties share their mean rank.

    Examples
    --------
    >>> column_ranks(np.array([[3.0, 1.0], [3.0, 0.0], [-1.0, 2.0]])).tolist()
    [[2.5, 2.0], [2.5, 1.0], [1.0, 3.0]]
    """
    if array_api_compat.is_torch_array(S):
        import torch

        columns = S.T.contiguous()
        ordered = torch.sort(columns, dim=1).values
        below = torch.searchsorted(ordered, columns)
        up_to = torch.searchsorted(ordered, columns, right=True)
        return (0.5 * (below + up_to + 1).to(torch.float64)).T
    if not is_numpy(S):
        return like(column_ranks(to_host(S)), S)
    n, R = S.shape
    ranks, in_order = np.empty((R, n)), np.arange(1.0, n + 1.0)
    for rank, scores in zip(ranks, np.ascontiguousarray(S.T), strict=True):
        order = scores.argsort()
        ordered = scores[order]
        rank[order] = in_order
        if (ordered[1:] == ordered[:-1]).any():
            rank[:] = ordered.searchsorted(scores) + ordered.searchsorted(scores, "right") + 1
            rank *= 0.5
    return ranks.T
