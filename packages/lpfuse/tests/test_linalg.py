"""Linear algebra on every array library, against NumPy."""

import sys
from contextlib import contextmanager
from itertools import product
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import scipy.linalg

from helpers.cases import cases
from lpfuse._arrays import operations as _linalg
from lpfuse._arrays.operations import (
    add_to_diagonal,
    block_width,
    cholesky,
    diagonal_of,
    eigh,
    eigh_largest,
    eigh_leading,
    invert_lower,
    solve_lower,
    solve_positive,
    symmetric_times,
    times_few_columns,
)
from oracles.kernel_learners import assert_beside, on_host, strict, strict_device, torch

LIBRARIES = [np.array, strict, strict_device, torch]
PRECISIONS = [np.float64, np.float32]
everywhere = pytest.mark.parametrize("library", LIBRARIES)
precisions = pytest.mark.parametrize("dtype", PRECISIONS)


def positive_matrix(n, dtype=np.float64):
    A = np.random.default_rng(0).normal(size=(n, n + 3))
    return (A @ A.T / n).astype(dtype)


def tolerance(dtype):
    return 1e-12 if dtype == np.float64 else 1e-4


@everywhere
@cases("dtype", PRECISIONS)
def test_a_diagonal_can_be_read_and_raised(library, dtype):
    A = positive_matrix(5, dtype)
    diagonal = diagonal_of(library(A))
    assert_beside(diagonal, library(A))
    np.testing.assert_array_equal(on_host(diagonal), A.diagonal())
    raised = add_to_diagonal(library(A), diagonal)
    assert_beside(raised, library(A))
    np.testing.assert_array_equal(on_host(raised), A + np.diag(A.diagonal()))
    np.testing.assert_array_equal(
        on_host(add_to_diagonal(library(A), 0.5)), A + 0.5 * np.eye(5, dtype=dtype)
    )


@everywhere
def test_the_diagonal_is_an_array_of_its_own(library):
    A = library(positive_matrix(4))
    diagonal = diagonal_of(A)
    before = on_host(diagonal).copy()
    add_to_diagonal(A, 1.0)
    np.testing.assert_array_equal(on_host(diagonal), before)


@pytest.mark.parametrize("library", [np.array, torch])
def test_a_diagonal_is_raised_in_place_where_that_is_possible(library):
    A = library(positive_matrix(4))
    assert add_to_diagonal(A, 1.0) is A


@everywhere
@cases("dtype, n", product(PRECISIONS, [1, 6]))
def test_a_cholesky_factor_is_lower_and_rebuilds_the_matrix(library, dtype, n):
    A = positive_matrix(n, dtype)
    L = cholesky(library(A))
    assert_beside(L, library(A))
    host = on_host(L)
    np.testing.assert_array_equal(host, np.tril(host))
    np.testing.assert_allclose(host @ host.T, A, rtol=tolerance(dtype), atol=tolerance(dtype))


@everywhere
def test_a_matrix_that_is_not_positive_has_no_factor(library):
    indefinite = np.array([[1.0, 2.0], [2.0, 1.0]])
    assert cholesky(library(indefinite)) is None
    assert cholesky(library(-np.eye(3))) is None


@everywhere
@cases("dtype, transposed", product(PRECISIONS, [False, True]))
def test_triangular_systems_are_solved(library, dtype, transposed):
    L = np.linalg.cholesky(positive_matrix(6, dtype))
    B = np.random.default_rng(1).normal(size=(6, 2)).astype(dtype)
    solved = solve_lower(library(L), library(B), transposed=transposed)
    assert_beside(solved, library(L))
    left = L.T if transposed else L
    np.testing.assert_allclose(left @ on_host(solved), B, rtol=0, atol=10 * tolerance(dtype))


@pytest.mark.parametrize("library", [np.array, torch])
@pytest.mark.parametrize("transposed", [False, True])
def test_only_the_lower_triangle_is_read(library, transposed):
    L = np.tril(np.random.default_rng(0).normal(size=(5, 5))) + 5 * np.eye(5)
    dirty = L + np.triu(np.full((5, 5), 99.0), 1)
    B = np.ones((5, 1))
    np.testing.assert_allclose(
        on_host(solve_lower(library(dirty), library(B), transposed=transposed)),
        np.linalg.solve(L.T if transposed else L, B),
    )


@pytest.mark.parametrize("library", [np.array, torch])
def test_an_inverse_is_lower_whatever_lies_above(library):
    L = np.tril(np.random.default_rng(0).normal(size=(5, 5))) + 5 * np.eye(5)
    dirty = L + np.triu(np.full((5, 5), 99.0), 1)
    np.testing.assert_allclose(on_host(invert_lower(library(dirty))), np.linalg.inv(L), atol=1e-12)


@everywhere
@cases("dtype, order, n", product(PRECISIONS, ["C", "F"], [1, 6]))
def test_the_inverse_of_a_lower_matrix_is_lower(library, dtype, order, n):
    L = np.linalg.cholesky(positive_matrix(n, dtype))
    inverse = invert_lower(library(np.array(L, order=order)))
    assert_beside(inverse, library(L))
    host = on_host(inverse)
    np.testing.assert_allclose(host, np.tril(host), rtol=0, atol=tolerance(dtype))
    np.testing.assert_allclose(host @ L, np.eye(n), rtol=0, atol=10 * tolerance(dtype))


@everywhere
@cases("dtype, count", product(PRECISIONS, [1, 3, 7]))
def test_the_largest_eigenpairs_come_in_falling_order(library, dtype, count):
    A = positive_matrix(7, dtype)
    values, vectors = eigh_largest(library(A), count)
    assert isinstance(values, np.ndarray)
    assert values.dtype == np.float64
    assert_beside(vectors, library(A))
    expected = np.linalg.eigvalsh(A.astype(np.float64))[::-1][:count]
    np.testing.assert_allclose(values, expected, rtol=10 * tolerance(dtype))
    host = on_host(vectors)
    assert host.shape == (7, count)
    np.testing.assert_allclose(host.T @ host, np.eye(count), atol=10 * tolerance(dtype))
    np.testing.assert_allclose(A @ host, host * values, atol=100 * tolerance(dtype))


@everywhere
def test_eigenvalues_that_coincide_all_come(library):
    for A in (np.eye(8), np.zeros((8, 8)), np.ones((8, 8)), np.diag([2.0] * 4 + [1.0] * 4)):
        values, vectors = eigh_largest(library(A), 5)
        np.testing.assert_allclose(values, np.linalg.eigvalsh(A)[::-1][:5], atol=1e-12)
        host = on_host(vectors)
        np.testing.assert_allclose(host.T @ host, np.eye(5), atol=1e-12)
        np.testing.assert_allclose(A @ host, host * values, atol=1e-12)


@pytest.mark.parametrize("how", ["raises", "finds too few"])
def test_where_the_fast_routine_fails_another_one_serves(monkeypatch, how):
    eigh = scipy.linalg.eigh

    def failing(A, subset_by_index=None, **options):
        if subset_by_index is None:
            return eigh(A, **options)
        if how == "raises":
            raise np.linalg.LinAlgError("no convergence")
        values, vectors = eigh(A, subset_by_index=subset_by_index, **options)
        return values[1:], vectors[:, 1:]

    A = positive_matrix(6)
    expected = eigh_largest(A, 3)
    monkeypatch.setattr(scipy.linalg, "eigh", failing)
    values, vectors = eigh_largest(A, 3)
    np.testing.assert_allclose(values, expected[0])
    np.testing.assert_allclose(np.abs(vectors.T @ expected[1]), np.eye(3), atol=1e-10)


@everywhere
@cases("dtype", PRECISIONS)
def test_products_are_those_of_plain_matrices(library, dtype):
    A, B = positive_matrix(6, dtype), positive_matrix(6, dtype)[:, :2]
    product = times_few_columns(library(A), library(B))
    np.testing.assert_allclose(on_host(product), A @ B, rtol=tolerance(dtype))
    times = symmetric_times(library(A), library(B[:, 0].copy()))
    np.testing.assert_allclose(on_host(times), A @ B[:, 0], rtol=tolerance(dtype))


# ------------------------------------------------------------------------------------- in place


@precisions
def test_torch_puts_the_factor_in_the_place_of_the_matrix(dtype):
    A = torch(positive_matrix(6, dtype))
    L = cholesky(A)
    assert L.data_ptr() == A.data_ptr()
    np.testing.assert_allclose(on_host(L @ L.T), positive_matrix(6, dtype), atol=tolerance(dtype))


@everywhere
@cases("dtype, n", product(PRECISIONS, [2, 7, 12]))
def test_a_lower_matrix_is_inverted_by_halves(library, dtype, n):
    L = np.linalg.cholesky(positive_matrix(n, dtype))
    inverse = invert_lower(library(L.copy()), at_once=2)
    assert_beside(inverse, library(L))
    np.testing.assert_allclose(on_host(inverse), np.linalg.inv(L), atol=10 * tolerance(dtype))


# ------------------------------------------------------------------------- eigenvalues, systems


@everywhere
@cases("dtype", PRECISIONS)
def test_all_eigenpairs_come_in_rising_order(library, dtype):
    A = positive_matrix(7, dtype)
    values, vectors = eigh(library(A))
    assert isinstance(values, np.ndarray)
    assert_beside(vectors, library(A))
    np.testing.assert_allclose(values, np.linalg.eigvalsh(A), rtol=10 * tolerance(dtype))
    host = on_host(vectors)
    np.testing.assert_allclose(A @ host, host * values, atol=100 * tolerance(dtype))


@everywhere
@cases("dtype", PRECISIONS)
def test_positive_systems_are_solved(library, dtype):
    A, b = positive_matrix(6, dtype), np.arange(6, dtype=dtype)
    x = solve_positive(library(A.copy()), library(b))
    assert_beside(x, library(b))
    np.testing.assert_allclose(A @ on_host(x), b, atol=100 * tolerance(dtype))


@everywhere
def test_a_system_that_is_not_positive_is_an_error(library):
    with pytest.raises(np.linalg.LinAlgError):
        solve_positive(library(-np.eye(3)), library(np.ones(3)))


def spectra(n):
    """Matrices with few large eigenvalues, with slowly falling ones, and of low rank."""
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    for values in (0.5 ** np.arange(n), 1 / (1 + np.arange(n)), (np.arange(n) < 5) * 1.0):
        yield (Q * values) @ Q.T


@everywhere
@cases("dtype, count", product(PRECISIONS, [1, 6]))
def test_leading_eigenpairs_are_found_through_products(library, dtype, count):
    for A in spectra(150):
        matrix = library(A.astype(dtype))
        start = np.random.default_rng(1).uniform(-1, 1, (150, block_width(count))).astype(dtype)
        found = eigh_leading(lambda B, A=matrix: A @ B, library(start), count)
        assert found.converged
        assert_beside(found.vectors, matrix)
        close = 1e-10 if dtype == np.float64 else 1e-5
        np.testing.assert_allclose(found.values, np.linalg.eigvalsh(A)[::-1][:count], atol=close)
        host = on_host(found.vectors)
        np.testing.assert_allclose(host.T @ host, np.eye(count), atol=close)
        errors = np.linalg.norm(A @ host - host * found.values, axis=0)
        assert errors.max() <= 10 * found.residual + close


@pytest.mark.parametrize("A", [np.zeros((90, 90)), np.eye(90), np.ones((90, 90))])
def test_leading_eigenpairs_of_simple_matrices(A):
    start = np.random.default_rng(1).uniform(-1, 1, (90, block_width(3)))
    found = eigh_leading(lambda B: A @ B, start, 3)
    assert found.converged
    np.testing.assert_allclose(found.values, np.linalg.eigvalsh(A)[::-1][:3], atol=1e-10)
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(3), atol=1e-10)


def test_an_iteration_that_is_cut_short_says_so():
    A = list(spectra(150))[1]
    start = np.random.default_rng(1).uniform(-1, 1, (150, block_width(5)))
    found = eigh_leading(lambda B: A @ B, start, 5, restarts=1, depth=2)
    assert not found.converged
    assert found.residual > 1e-6
    errors = np.linalg.norm(A @ found.vectors - found.vectors * found.values, axis=0)
    np.testing.assert_allclose(found.residual, errors.max() / found.values[0], rtol=1e-6)


# ------------------------------------------------------------------------------------------ CuPy


def test_cupy_is_asked_to_tell_and_solves_triangles(monkeypatch):
    """Its own names are called, with the arguments that they have; CuPy itself is not here."""
    told = []

    @contextmanager
    def errstate(*, linalg):
        told.append(linalg)
        yield

    def solve_triangular(a, b, trans=0, lower=False):
        assert lower
        return strict(np.linalg.solve({"N": on_host(a), "T": on_host(a).T}[trans], on_host(b)))

    cupyx = ModuleType("cupyx")
    cupyx.errstate = errstate
    modules = {"cupyx": cupyx, "cupyx.scipy": ModuleType("scipy")}
    modules["cupyx.scipy.linalg"] = linalg = ModuleType("linalg")
    linalg.solve_triangular = solve_triangular
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    answers = {"is_cupy_array": lambda x: x.ndim == 2, "is_torch_array": lambda x: False}
    is_cupy = SimpleNamespace(**{**vars(_linalg.array_api_compat), **answers})
    monkeypatch.setattr(_linalg, "array_api_compat", is_cupy)
    A, b = positive_matrix(4), np.arange(4.0)
    np.testing.assert_allclose(A @ on_host(solve_positive(strict(A.copy()), strict(b))), b)
    eigh(strict(A))
    assert told == ["raise", "raise"]
