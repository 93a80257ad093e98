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
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache
from threading import Lock, current_thread, local
from typing import Any, NamedTuple, TypeVar

import array_api_compat
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from lpfuse._compiled import compiled

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
    """Return whether x is a collection in blocks, of Dask or with `lpfuse_blocks`; imports none."""
    kind = type(x)
    named = kind.__module__.startswith(("dask.array", "dask.dataframe"))
    return named or hasattr(kind, "lpfuse_blocks")


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


def fill_nan(x: Array, value: float) -> Array:
    """Return x with NaN replaced by a number."""
    xp = namespace(x)
    return xp.where(xp.isnan(x), xp.full_like(x, value), x)


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


# --------------------------------------------------------------------------------------------------
# Linear algebra over array libraries: compensated sums, factorisations, eigenpairs, kernels.


# --------------------------------------------------------------------------------------------------
# Error-free transformations: sums and products in twice the working precision.
#
# The sum and the product of two floats equal the rounded result plus a remainder that is a float
# (T. Ogita, S. M. Rump, S. Oishi, Accurate sum and dot product, SIAM J. Sci. Comput. 26, 2005).


SPLITTER = 2.0**27 + 1.0  # splits 53 binary digits into 26 and 26


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Return ``a + b`` rounded, and the rounding error."""
    rounded = a + b
    of_b = rounded - a
    return rounded, (a - (rounded - of_b)) + (b - of_b)


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """Return ``a · b`` rounded, and the rounding error."""
    rounded = a * b
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    return rounded, ((a1 * b1 - rounded) + a1 * b2 + a2 * b1) + a2 * b2


def _halves(a: Array) -> tuple[Array, Array]:
    shifted = SPLITTER * a
    high = shifted - (shifted - a)
    return high, a - high


def accurate_total(x: Array) -> float:
    """Return the sum of a vector to about the last digit.

    The digits of all terms above one common place are summed first, without rounding.
    """
    n, top = int(x.shape[0]), largest(abs(x)) if x.shape[0] else 0.0
    if not 0.0 < top < 1e290:  # zero or not finite, or no room for a higher place
        return total(x)
    place = math.ldexp(1.0, math.frexp(top)[1] + n.bit_length() + 1)
    high = (x + place) - place
    return total(high) + total(x - high)


def less(S: Array, origin: Host | None) -> tuple[Array, Array]:
    """Return ``S − origin`` rounded, and the rounding error."""
    return (S, 0.0 * S) if origin is None else two_sum(S, -like(origin, S))


def accurate_residuals(
    parts: tuple[Array, Array], y: Array | float, w: Host, b: tuple[float, float]
) -> Array:
    """Return ``1 − y (S w + b)`` with one or two rounding errors each.

    S and b are unevaluated sums of two parts.
    """
    S, low = parts
    fused = filled(S.shape[0], b[0], S)
    rest = low @ like(w, S) + b[1]
    for j, weight in enumerate(w.tolist()):
        product, missed = two_product(S[:, j], weight)
        fused, dropped = two_sum(fused, product)
        rest = rest + (missed + dropped)
    residual, dropped = two_sum(0.0 * fused + 1.0, -y * fused)
    return residual + (dropped - y * rest)


def accurate_pull(
    parts: tuple[Array, Array], y: Array | float, c: Array | float, alpha: Array
) -> Host:
    """Return ``Σ c α y s`` with one or two rounding errors per entry; S is a sum of two parts."""
    S, low = parts
    weight, missed = two_product(alpha, c)
    weight, missed = y * weight, y * missed
    sums = []
    for j in range(int(S.shape[1])):
        product, rest = two_product(S[:, j], weight)
        sums.append(accurate_total(product) + total(rest + S[:, j] * missed + low[:, j] * weight))
    return np.array(sums)


def rows_beyond(S: Array, limit: float) -> Array:
    """Return a mask of the rows with an absolute score above the limit."""
    xp = namespace(S)
    return xp.max(abs(S), axis=1) > limit


# --------------------------------------------------------------------------------------------------
# Factorisations, triangular solves and eigenpairs.

# Chosen by hand.
INVERTED_AT_ONCE = 1024  # rows of a triangle that is not halved any further
EXTRA_COLUMNS = 22  # beyond the wanted ones: close eigenvalues converge faster
DEPTH = 8  # products before a restart
RESTARTS = 20  # beyond, the eigenvalues are too close for the iteration
EXACT = 1e-12  # negligible residual, relative to the largest eigenvalue
# Rows of a matrix whose decomposition gains from several threads. By hand: with 500 rows, waiting
# threads on a busy machine took seconds instead of milliseconds.
THREADS_FROM = 2000


@cache
def _linalg() -> Any:
    """Import SciPy when it is first needed: the command refuses wrong calls without it."""
    import scipy.linalg

    return scipy.linalg


def symmetric_times(A: Array, x: Array) -> Array:
    """Return ``A @ x`` for a symmetric matrix, of which half is read."""
    if not is_numpy(A):
        return A @ x
    symv: Any = _linalg().get_blas_funcs("symv", (A,))
    return symv(1.0, A.T, x, lower=0)  # the transpose is A itself, in BLAS's order


def add_to_diagonal(A: Array, values: Array | float) -> Array:
    """Return ``A + diag(values)``, in place where the library can."""
    if is_numpy(A):
        A[np.diag_indices(len(A))] += values
        return A
    if array_api_compat.is_torch_array(A):
        A.diagonal().add_(values)
        return A
    xp = namespace(A)
    device = array_api_compat.device(A)
    return A + xp.eye(A.shape[0], dtype=A.dtype, device=device) * values


def diagonal_of(A: Array) -> Array:
    """Return a copy of the diagonal."""
    return A.diagonal().copy() if is_numpy(A) else namespace(A).linalg.diagonal(A) + 0.0


def cholesky(A: Array) -> Array | None:
    """Return the lower Cholesky factor; None where the matrix is not positive definite.

    The matrix is overwritten; NumPy and torch factor it in place.
    """
    try:
        if is_numpy(A):  # the transpose of a symmetric matrix is itself, in LAPACK's order
            return _linalg().cholesky(A.T, lower=True, overwrite_a=True, check_finite=False)
        if array_api_compat.is_torch_array(A):
            return _cholesky_in_place(A.T)
        with _raise_on_failure(A):
            return namespace(A).linalg.cholesky(A)
    except np.linalg.LinAlgError:
        return None


def _cholesky_in_place(A: Array) -> Array | None:
    """Factor a torch matrix in column-major order."""
    import torch

    info = torch.empty((), dtype=torch.int32, device=A.device)
    L, _ = torch.linalg.cholesky_ex(A, out=(A, info))
    return L if int(info) == 0 else None


def _raise_on_failure(A: Array) -> AbstractContextManager[Any]:
    """Let CuPy raise where a factorisation fails, which it does not do by default."""
    if not array_api_compat.is_cupy_array(A):
        return nullcontext()
    import cupyx

    return cupyx.errstate(linalg="raise")


def solve_lower(L: Array, B: Array, *, transposed: bool = False) -> Array:
    """Return ``L⁻¹ B``, or ``L⁻ᵀ B``, for a lower triangular L and a 2D array B."""
    if is_numpy(L):
        return _linalg().solve_triangular(
            L, B, trans="T" if transposed else "N", lower=True, check_finite=False
        )
    if array_api_compat.is_torch_array(L):
        import torch

        return torch.linalg.solve_triangular(L.T if transposed else L, B, upper=transposed)
    if array_api_compat.is_cupy_array(L):
        from cupyx.scipy.linalg import solve_triangular

        return solve_triangular(L, B, trans="T" if transposed else "N", lower=True)
    return namespace(L).linalg.solve(L.T if transposed else L, B)


def solve_positive(A: Array, b: Array) -> Array:
    """Return ``A⁻¹ b`` for a positive definite matrix, which is overwritten, and a vector."""
    if is_numpy(A):
        return _linalg().solve(A, b, assume_a="pos")
    L = cholesky(A)
    if L is None:
        raise np.linalg.LinAlgError("The matrix is not positive definite.")
    return solve_lower(L, solve_lower(L, b[:, None]), transposed=True)[:, 0]


def invert_lower(L: Array, at_once: int = INVERTED_AT_ONCE) -> Array:
    """Return the inverse of a lower triangular matrix, which is overwritten.

    On a device it is halved down to triangles of `at_once` rows.
    """
    if is_numpy(L):
        trtri: Any = _linalg().get_lapack_funcs("trtri", (L,))
        inverse: Array = trtri(L, lower=1, overwrite_c=1)[0]
        for j in range(1, len(inverse)):  # in place, column by column: no second matrix
            inverse[:j, j] = 0.0
        return inverse
    return namespace(L).tril(_invert_halves(L, at_once))


def _invert_halves(L: Array, at_once: int) -> Array:
    """Invert by ``[A 0; C B]⁻¹ = [A⁻¹ 0; −B⁻¹ C A⁻¹ B⁻¹]``, in place: nearly all products."""
    n = L.shape[0]
    if n <= at_once:
        xp, device = namespace(L), array_api_compat.device(L)
        return solve_lower(L, xp.eye(n, dtype=L.dtype, device=device))
    first, last = slice(0, n // 2), slice(n // 2, n)
    L[first, first] = _invert_halves(L[first, first], at_once)
    L[last, last] = _invert_halves(L[last, last], at_once)
    L[last, first] = -(L[last, last] @ L[last, first]) @ L[first, first]
    return L


def eigh(A: Array) -> tuple[Host, Array]:
    """Return all eigenvalues of a symmetric matrix, ascending, and the eigenvectors."""
    if is_numpy(A):
        return _linalg().eigh(A)
    with _raise_on_failure(A):
        values, vectors = namespace(A).linalg.eigh(A)
    return to_host(values), vectors


def eigh_largest(A: Array, count: int, *, coincide: bool = False) -> tuple[Host, Array]:
    """Return the largest eigenvalues of a symmetric matrix, descending, and the eigenvectors.

    `coincide` states that some are (nearly) equal.
    """
    n = A.shape[0]
    if is_numpy(A):
        values = np.empty(0)
        if not coincide:
            wanted = (n - count, n - 1)
            with suppress(np.linalg.LinAlgError):
                values, vectors = _linalg().eigh(A, subset_by_index=wanted, check_finite=False)
        if len(values) < count:  # the fastest routine can fail where eigenvalues coincide
            values, vectors = _linalg().eigh(A, driver="evd", check_finite=False)
    else:
        values, vectors = namespace(A).linalg.eigh(A)
    first = values.shape[0] - count
    return to_host(values)[first:][::-1], namespace(A).flip(vectors[:, first:], axis=1)


class EigenPairs(NamedTuple):
    """Eigenvalues in descending order, eigenvectors, and their residual."""

    values: Host
    vectors: Array
    residual: float  # the largest ‖A v − λ v‖, relative to the largest eigenvalue
    converged: bool


def eigh_leading(
    times: Callable[[Array], Array],
    start: Array,
    count: int,
    restarts: int = RESTARTS,
    depth: int = DEPTH,
) -> EigenPairs:
    """Return the largest eigenpairs of a symmetric operator.

    A restarted block Krylov method: on a device a product with many columns takes hardly longer
    than one with a single column.

    Parameters
    ----------
    times : callable
        From columns B, of shape (n, b), to A·B.
    start : array of shape (n, b)
        Random start, with more columns than are wanted (see `block_width`).
    count : int
        Number of eigenpairs.
    restarts : int
        Largest number of restarts.
    depth : int
        Products before a restart.
    """
    n, width = start.shape
    xp = namespace(start)
    eps = float(xp.finfo(start.dtype).eps)
    block = xp.linalg.qr(start)[0]
    image, residual = times(block), np.inf
    for _ in range(restarts):
        basis, images = block, image
        while basis.shape[1] < min(depth * width, n // width * width):
            block = _orthonormal(image, basis)
            image = times(block)
            basis = xp.concat([basis, block], axis=1)
            images = xp.concat([images, image], axis=1)
        values, vectors = _eigh_of_products(basis, images)
        best = beside(vectors[:, ::-1][:, :width], start)
        block, image, values = basis @ best, images @ best, values[::-1][:width]
        errors = image - block * beside(values, start)
        lengths = np.sqrt(to_host(xp.sum(errors[:, :count] ** 2, axis=0)))
        before, residual = residual, float(lengths.max() / (abs(values[0]) or 1.0))
        # The error of an eigenvalue is the residual squared: below √eps, only rounding stalls.
        converged = residual <= max(EXACT, 25 * eps)
        converged = converged or (residual > before / 2 and residual <= eps**0.5)
        if converged:
            break
    return EigenPairs(values[:count], block[:, :count], residual, converged)


def block_width(count: int) -> int:
    """Return the number of columns to start `eigh_leading` with."""
    return count + EXTRA_COLUMNS


def _orthonormal(columns: Array, basis: Array) -> Array:
    """Orthonormalise columns against the basis; noise replaces columns in its span."""
    xp = namespace(columns)
    for _ in range(3):  # zero becomes noise, then noise of length one, then orthogonal noise
        columns = xp.linalg.qr(columns - basis @ (basis.T @ columns))[0]
    return columns


def _eigh_of_products(basis: Array, images: Array) -> tuple[Host, Host]:
    """Return the eigenpairs of the small matrix ``Vᵀ A V`` from V and A V."""
    small = to_host(basis.T @ images)
    return _linalg().eigh((small + small.T) / 2)


def matrix_budget(x: Array) -> int:
    """Return the bytes for one n×n matrix: fixed on the host, a third of a GPU's memory.

    On a GPU the factor of a matrix is a second one.
    """
    if array_api_compat.is_torch_array(x) and x.is_cuda:
        import torch

        return int(torch.cuda.get_device_properties(x.device).total_memory // 3)
    if array_api_compat.is_cupy_array(x):
        return int(x.device.mem_info[1] // 3)
    return limits.matrix


def blas_threads_for(side: int) -> AbstractContextManager[None]:
    """Limit BLAS to one thread for small matrices, where threads cost more than they save."""
    return one_blas_thread if side < THREADS_FROM else nullcontext()


def times_few_columns(A: Array, B: Array) -> Array:
    """Return ``A @ B`` for a B with few columns, as the faster ``(Bᵀ Aᵀ)ᵀ``."""
    return (B.T @ A.T).T


def times_triangle(A: Host, B: Host) -> Host:
    """Return ``A @ B`` for an upper triangular B in column-major order; A is overwritten."""
    blas = _linalg().blas
    if len(A) == 1:
        return np.asarray(blas.dtrmv(B, A[0], trans=1))[None]
    return np.asarray(blas.dtrmm(1.0, B, A.T, trans_a=1, overwrite_b=1)).T


# --------------------------------------------------------------------------------------------------
# Compiled passes over blocks of rows: residuals and sums while a row is in the cache.
#
# `optim.passes` and `optim.bounds` have the same formulas as array operations, for other libraries
# and layouts and without compiled code. Tests compare both with `_rows.pyx`.


_kernels: Any = compiled("lpfuse._arrays._rows")
TYPES = (np.dtype(np.float64), np.dtype(np.float32))


def row_kernels(S: Array) -> Any:
    """Return the compiled functions if they can read the memory layout of S, else None."""
    if _kernels is None or not is_numpy(S) or S.dtype not in TYPES or not S.flags.aligned:
        return None
    size = S.itemsize
    in_rows = S.ndim == 2 and S.shape[1] > 0 and S.strides[1] == size and S.strides[0] % size == 0
    return _kernels if in_rows else None
