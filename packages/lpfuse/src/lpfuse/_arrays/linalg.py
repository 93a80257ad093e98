"""Linear algebra over array libraries: compensated sums, factorisations, eigenpairs, kernels."""

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


def symmetric_times(A: Array, x: Array) -> Array:
    """Return ``A @ x`` for a symmetric matrix, of which half is read."""
    if not is_numpy(A):
        return A @ x
    symv: Any = scipy.linalg.get_blas_funcs("symv", (A,))
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
            return scipy.linalg.cholesky(A.T, lower=True, overwrite_a=True, check_finite=False)
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
    """Return ``A⁻¹ b`` for a positive definite matrix, which is overwritten, and a vector."""
    if is_numpy(A):
        return scipy.linalg.solve(A, b, assume_a="pos")
    L = cholesky(A)
    if L is None:
        raise np.linalg.LinAlgError("The matrix is not positive definite.")
    return solve_lower(L, solve_lower(L, b[:, None]), transposed=True)[:, 0]


def invert_lower(L: Array, at_once: int = INVERTED_AT_ONCE) -> Array:
    """Return the inverse of a lower triangular matrix, which is overwritten.

    On a device it is halved down to triangles of `at_once` rows.
    """
    if is_numpy(L):
        trtri: Any = scipy.linalg.get_lapack_funcs("trtri", (L,))
        return np.tril(trtri(L, lower=1, overwrite_c=1)[0])
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
        return scipy.linalg.eigh(A)
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
                values, vectors = scipy.linalg.eigh(A, subset_by_index=wanted, check_finite=False)
        if len(values) < count:  # the fastest routine can fail where eigenvalues coincide
            values, vectors = scipy.linalg.eigh(A, driver="evd", check_finite=False)
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
    return scipy.linalg.eigh((small + small.T) / 2)


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


def times_triangle(A: Array, B: Array, ends: Sequence[int]) -> Array:
    """Return ``A @ B`` where parts of the columns of B after the first are zero past `ends`."""
    products = np.empty((A.shape[0], B.shape[1]))
    products[:, 0] = A @ B[:, 0]
    for part, end in zip(np.array_split(np.arange(1, B.shape[1]), len(ends)), ends, strict=True):
        columns = slice(part[0], part[-1] + 1)
        products[:, columns] = times_few_columns(A[:, :end], B[:end, columns])
    return products


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
