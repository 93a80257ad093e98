"""Linear algebra that array libraries spell differently, or that one of them does faster."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, NamedTuple

import array_api_compat
import numpy as np
import scipy.linalg

from lpfuse._arrays.operations import (
    Array,
    Host,
    beside,
    filled,
    is_numpy,
    largest,
    like,
    limits,
    namespace,
    one_blas_thread,
    to_host,
    total,
)
from lpfuse._compiled import compiled

# --------------------------------------------------------------------------------------------------
# Sums and products to twice the digits, for numbers too large for plain ones.
#
# The sum and the product of two numbers each equal the rounded result and a remainder that is a
# number itself (T. Ogita, S. M. Rump, S. Oishi, Accurate sum and dot product, SIAM J. Sci. Comput.
# 26, 2005). Any array library can do that.


SPLITTER = 2.0**27 + 1.0  # cuts 53 binary digits into 26 and 26


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """``a + b`` rounded, and what rounding has left out."""
    rounded = a + b
    of_b = rounded - a
    return rounded, (a - (rounded - of_b)) + (b - of_b)


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """``a · b`` rounded, and what rounding has left out."""
    rounded = a * b
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    return rounded, ((a1 * b1 - rounded) + a1 * b2 + a2 * b1) + a2 * b2


def _halves(a: Array) -> tuple[Array, Array]:
    shifted = SPLITTER * a
    high = shifted - (shifted - a)
    return high, a - high


def accurate_total(x: Array) -> float:
    """Return the sum of a vector, right to the last digit or nearly.

    The digits of all terms above one common place are added up first, which rounds nothing.
    """
    n, top = int(x.shape[0]), largest(abs(x)) if x.shape[0] else 0.0
    if not 0.0 < top < 1e290:  # nothing to add up, or no room for a higher place
        return total(x)
    place = math.ldexp(1.0, math.frexp(top)[1] + n.bit_length() + 1)
    high = (x + place) - place
    return total(high) + total(x - high)


def less(S: Array, origin: Host | None) -> tuple[Array, Array]:
    """``S − origin`` in two parts: rounded, and what rounding has left out."""
    return (S, 0.0 * S) if origin is None else two_sum(S, -like(origin, S))


def accurate_residuals(
    parts: tuple[Array, Array], y: Array | float, w: Host, b: tuple[float, float]
) -> Array:
    """``1 − y (S w + b)``, each within a rounding or two of the truth.

    S and b each come in two parts that add up to them.
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
    """``Σ c α y s``, each entry within a rounding or two of the truth; S comes in two parts."""
    S, low = parts
    weight, missed = two_product(alpha, c)
    weight, missed = y * weight, y * missed
    sums = []
    for j in range(int(S.shape[1])):
        product, rest = two_product(S[:, j], weight)
        sums.append(accurate_total(product) + total(rest + S[:, j] * missed + low[:, j] * weight))
    return np.array(sums)


def rows_beyond(S: Array, limit: float) -> Array:
    """Return a mask of the rows with a score larger than the limit in size."""
    xp = namespace(S)
    return xp.max(abs(S), axis=1) > limit


# --------------------------------------------------------------------------------------------------

# Chosen by hand.
INVERTED_AT_ONCE = 1024  # rows of a triangle that is not halved any further
EXTRA_COLUMNS = 22  # beyond those that are wanted: eigenvalues that lie close together part faster
DEPTH = 8  # products before the iteration starts again
RESTARTS = 20  # past them the eigenvalues lie too close together for the iteration
EXACT = 1e-12  # a residual, as a share of the largest eigenvalue, that is as good as none
# Rows of a matrix whose decomposition gains from several threads. By hand: one of 500 rows was seen
# to take seconds instead of milliseconds on a busy machine, threads waiting for threads.
THREADS_FROM = 2000


def symmetric_times(A: Array, x: Array) -> Array:
    """``A @ x`` for a symmetric matrix and a vector; half of the matrix is enough to read."""
    if not is_numpy(A):
        return A @ x
    symv: Any = scipy.linalg.get_blas_funcs("symv", (A,))
    return symv(1.0, A.T, x, lower=0)  # the transpose is A itself, in BLAS's order


def add_to_diagonal(A: Array, values: Array | float) -> Array:
    """``A + diag(values)``, in place where the library can."""
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
    """Return the diagonal entries, as an array of their own."""
    return A.diagonal().copy() if is_numpy(A) else namespace(A).linalg.diagonal(A) + 0.0


def cholesky(A: Array) -> Array | None:
    """Return the lower factor of a symmetric matrix, which is lost; None where it is not positive.

    NumPy and torch put it in the matrix's place: there is no second one.
    """
    try:
        if is_numpy(A):  # the transpose of a symmetric matrix is itself, in LAPACK's order
            return scipy.linalg.cholesky(A.T, lower=True, overwrite_a=True, check_finite=False)
        if array_api_compat.is_torch_array(A):
            return _cholesky_in_place(A.T)
        with _raise_on_failure(A):
            return namespace(A).linalg.cholesky(A)
    except np.linalg.LinAlgError:
        return None


def _cholesky_in_place(A: Array) -> Array | None:
    """By torch, for a matrix in LAPACK's order."""
    import torch

    info = torch.empty((), dtype=torch.int32, device=A.device)
    L, _ = torch.linalg.cholesky_ex(A, out=(A, info))
    return L if int(info) == 0 else None


def _raise_on_failure(A: Array) -> AbstractContextManager[Any]:
    """CuPy says nothing of a failed factorisation unless it is told to."""
    if not array_api_compat.is_cupy_array(A):
        return nullcontext()
    import cupyx

    return cupyx.errstate(linalg="raise")


def solve_lower(L: Array, B: Array, *, transposed: bool = False) -> Array:
    """``L⁻¹ B``, or ``L⁻ᵀ B``, for a lower triangular L; B has two dimensions."""
    if is_numpy(L):
        return scipy.linalg.solve_triangular(
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
    """``A⁻¹ b`` for a positive matrix, which is lost, and a vector."""
    if is_numpy(A):
        return scipy.linalg.solve(A, b, assume_a="pos")
    L = cholesky(A)
    if L is None:
        raise np.linalg.LinAlgError("The matrix is not positive definite.")
    return solve_lower(L, solve_lower(L, b[:, None]), transposed=True)[:, 0]


def invert_lower(L: Array, at_once: int = INVERTED_AT_ONCE) -> Array:
    """Return the inverse of a lower triangular matrix, which is lost.

    On a device it is halved down to triangles of `at_once` rows.
    """
    if is_numpy(L):
        trtri: Any = scipy.linalg.get_lapack_funcs("trtri", (L,))
        return np.tril(trtri(L, lower=1, overwrite_c=1)[0])
    return namespace(L).tril(_invert_halves(L, at_once))


def _invert_halves(L: Array, at_once: int) -> Array:
    """``[A 0; C B]⁻¹ = [A⁻¹ 0; −B⁻¹ C A⁻¹ B⁻¹]``, in place: nearly all the work is products."""
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
    """All eigenvalues of a symmetric matrix, in rising order, with their vectors beside it."""
    if is_numpy(A):
        return scipy.linalg.eigh(A)
    with _raise_on_failure(A):
        values, vectors = namespace(A).linalg.eigh(A)
    return to_host(values), vectors


def eigh_largest(A: Array, count: int, *, coincide: bool = False) -> tuple[Host, Array]:
    """Return the largest eigenvalues of a symmetric matrix, in falling order, with their vectors.

    `coincide` tells that some are known to be (nearly) equal.
    """
    n = A.shape[0]
    if is_numpy(A):
        values = np.empty(0)
        if not coincide:
            wanted = (n - count, n - 1)
            with suppress(np.linalg.LinAlgError):
                values, vectors = scipy.linalg.eigh(A, subset_by_index=wanted, check_finite=False)
        if len(values) < count:  # the fastest routine can fail where eigenvalues coincide
            values, vectors = scipy.linalg.eigh(A, driver="evd", check_finite=False)
    else:
        values, vectors = namespace(A).linalg.eigh(A)
    first = values.shape[0] - count
    return to_host(values)[first:][::-1], namespace(A).flip(vectors[:, first:], axis=1)


class EigenPairs(NamedTuple):
    """Eigenvalues, the largest first, their vectors, and how far these are from being some."""

    values: Host
    vectors: Array
    residual: float  # the longest of A v − λ v, as a share of the largest eigenvalue
    settled: bool


def eigh_leading(
    times: Callable[[Array], Array],
    start: Array,
    count: int,
    restarts: int = RESTARTS,
    depth: int = DEPTH,
) -> EigenPairs:
    """The largest eigenpairs of a symmetric matrix that is known by its products with columns.

    A block Krylov method, started again from the best vectors so far: on a device a product with
    many columns takes hardly longer than one with a single column, and every number stays there.

    Parameters
    ----------
    times : callable
        From columns B, of shape (n, b), to A·B.
    start : array of shape (n, b)
        Where to begin: at random, with more columns than are wanted (see `block_width`).
    count : int
        How many pairs are wanted.
    restarts : int
        How often it may start again before it ends unsettled.
    depth : int
        Products before it starts again.
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
            basis, images = (
                xp.concat([basis, block], axis=1),
                xp.concat([images, image], axis=1),
            )
        values, vectors = _eigh_of_products(basis, images)
        best = beside(vectors[:, ::-1][:, :width], start)
        block, image, values = basis @ best, images @ best, values[::-1][:width]
        errors = image - block * beside(values, start)
        lengths = np.sqrt(to_host(xp.sum(errors[:, :count] ** 2, axis=0)))
        before, residual = residual, float(lengths.max() / (abs(values[0]) or 1.0))
        # A residual costs an eigenvalue its square: past that root, what stalls is rounding.
        settled = residual <= max(EXACT, 25 * eps)
        settled = settled or (residual > before / 2 and residual <= eps**0.5)
        if settled:
            break
    return EigenPairs(values[:count], block[:, :count], residual, settled)


def block_width(count: int) -> int:
    """Return how many columns to start `eigh_leading` with."""
    return count + EXTRA_COLUMNS


def _orthonormal(columns: Array, basis: Array) -> Array:
    """As many orthonormal columns that are orthogonal to the basis; noise where nothing is left."""
    xp = namespace(columns)
    for _ in range(3):  # from nothing to noise, to noise of length one, to what is orthogonal
        columns = xp.linalg.qr(columns - basis @ (basis.T @ columns))[0]
    return columns


def _eigh_of_products(basis: Array, images: Array) -> tuple[Host, Host]:
    """Eigenpairs of ``Vᵀ A V``, which is small, from V and A V."""
    small = to_host(basis.T @ images)
    return scipy.linalg.eigh((small + small.T) / 2)


def matrix_budget(x: Array) -> int:
    """Bytes that one n×n matrix beside x may take: fixed on the host, a third of a GPU's memory.

    On a GPU the factor of a matrix is a second one.
    """
    if array_api_compat.is_torch_array(x) and x.is_cuda:
        import torch

        return int(torch.cuda.get_device_properties(x.device).total_memory // 3)
    if array_api_compat.is_cupy_array(x):
        return int(x.device.mem_info[1] // 3)
    return limits.matrix


def blas_threads_for(side: int) -> AbstractContextManager[None]:
    """As many threads as BLAS likes for a large matrix of that side; one for a small one.

    Threads that wait for each other lose far more on a busy machine than they gain on a small
    matrix.
    """
    return one_blas_thread if side < THREADS_FROM else nullcontext()


def times_few_columns(A: Array, B: Array) -> Array:
    """``A @ B`` for a B with few columns, which BLAS multiplies faster the other way round."""
    return (B.T @ A.T).T


def times_triangle(A: Array, B: Array, ends: Sequence[int]) -> Array:
    """``A @ B`` where the columns of B after the first, in as many parts, end at these rows."""
    products = np.empty((A.shape[0], B.shape[1]))
    products[:, 0] = A @ B[:, 0]
    for part, end in zip(np.array_split(np.arange(1, B.shape[1]), len(ends)), ends, strict=True):
        columns = slice(part[0], part[-1] + 1)
        products[:, columns] = times_few_columns(A[:, :end], B[:end, columns])
    return products


# --------------------------------------------------------------------------------------------------
# Blocks of rows in compiled code: residuals and sums while a row is in the cache, hardly a copy.
#
# What is computed is written down in array operations by those who use it, `optim._large_n.passes`
# and `optim._bounds`: that is what serves other libraries, other layouts, and where nothing was
# compiled. Each function of `_rows.pyx` is one of their formulas, and tests compare the two.


_kernels: Any = compiled("lpfuse._arrays._rows")
TYPES = (np.dtype(np.float64), np.dtype(np.float32))


def row_kernels(S: Array) -> Any:
    """Return the compiled functions, where they can read these rows as they lie in memory.

    Else None.
    """
    if _kernels is None or not is_numpy(S) or S.dtype not in TYPES or not S.flags.aligned:
        return None
    size = S.itemsize
    in_rows = S.ndim == 2 and S.shape[1] > 0 and S.strides[1] == size and S.strides[0] % size == 0
    return _kernels if in_rows else None
