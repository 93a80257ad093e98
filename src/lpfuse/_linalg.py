"""Linear algebra that array libraries spell differently, or that one of them does faster."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import array_api_compat
import numpy as np
import scipy.linalg

from lpfuse._arrays import Array, Host, is_numpy, namespace, to_host


def times_few_columns(A: Array, B: Array) -> Array:
    """``A @ B`` for a B with few columns, which BLAS multiplies faster the other way round."""
    return (B.T @ A.T).T


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
    """The diagonal entries, as an array of their own."""
    return A.diagonal().copy() if is_numpy(A) else namespace(A).linalg.diagonal(A) + 0.0


def cholesky(A: Array) -> Array | None:
    """The lower factor of a symmetric matrix, which is lost; None where it is not positive."""
    try:
        if is_numpy(A):  # the transpose of a symmetric matrix is itself, in LAPACK's order
            return scipy.linalg.cholesky(A.T, lower=True, overwrite_a=True, check_finite=False)
        return namespace(A).linalg.cholesky(A)
    except (np.linalg.LinAlgError, RuntimeError):  # torch's own error is a RuntimeError
        return None


def solve_lower(L: Array, B: Array, *, transposed: bool = False) -> Array:
    """``L⁻¹ B``, or ``L⁻ᵀ B``, for a lower triangular L; B has two dimensions."""
    if is_numpy(L):
        return scipy.linalg.solve_triangular(
            L, B, trans="T" if transposed else "N", lower=True, check_finite=False
        )
    left = L.T if transposed else L
    if array_api_compat.is_torch_array(L):
        import torch

        return torch.linalg.solve_triangular(left, B, upper=transposed)
    return namespace(L).linalg.solve(left, B)


def invert_lower(L: Array) -> Array:
    """The inverse of a lower triangular matrix, which is lost."""
    if is_numpy(L):
        trtri: Any = scipy.linalg.get_lapack_funcs("trtri", (L,))
        return np.tril(trtri(L, lower=1, overwrite_c=1)[0])
    xp = namespace(L)
    device = array_api_compat.device(L)
    return solve_lower(L, xp.eye(L.shape[0], dtype=L.dtype, device=device))


def eigh_largest(A: Array, count: int, *, coincide: bool = False) -> tuple[Host, Array]:
    """The largest eigenvalues of a symmetric matrix, in falling order, with their vectors.

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
