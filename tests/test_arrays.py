"""What the detectors ask of an array library, against NumPy."""

import threading

import numpy as np
import pytest

from lpfuse import _arrays
from lpfuse._arrays import (
    add_to_diagonal,
    beside,
    cholesky,
    diagonal_of,
    eigh_largest,
    empty_beside,
    invert_lower,
    map_row_blocks,
    matrix_budget,
    solve_lower,
    sum_row_blocks,
)
from tests.oracles.kernel_learners import assert_beside, on_host, strict, strict_device, torch

ROWS = np.arange(12.0).reshape(4, 3)

everywhere = pytest.mark.parametrize("library", [np.array, strict, strict_device, torch])
precisions = pytest.mark.parametrize("dtype", [np.float64, np.float32])


def positive_matrix(n, dtype=np.float64):
    A = np.random.default_rng(0).normal(size=(n, n + 3))
    return (A @ A.T / n).astype(dtype)


def tolerance(dtype):
    return 1e-12 if dtype == np.float64 else 1e-4


# ---------------------------------------------------------------------------------------- places


@everywhere
@pytest.mark.parametrize("source", [np.array, strict, torch])
@pytest.mark.parametrize("given", [np.float64, np.float32])
@precisions
def test_numbers_of_any_library_come_beside_any_other(library, source, given, dtype):
    x = library(ROWS.astype(dtype))
    moved = beside(source(ROWS[:2].astype(given)), x)
    assert_beside(moved, x)
    np.testing.assert_array_equal(on_host(moved), ROWS[:2])


@everywhere
def test_a_reversed_view_comes_beside_too(library):
    x = library(ROWS)
    np.testing.assert_array_equal(on_host(beside(ROWS[::-1, ::-1], x)), ROWS[::-1, ::-1])


@everywhere
def test_numbers_that_are_beside_already_are_not_copied(library):
    x = library(ROWS)
    moved = beside(x, x)
    moved[0, 0] = 7.0
    assert float(x[0, 0]) == 7.0


@everywhere
@precisions
def test_an_empty_array_has_its_shape_precision_and_place(library, dtype):
    x = library(ROWS.astype(dtype))
    made = empty_beside((5, 2), x)
    assert tuple(made.shape) == (5, 2)
    assert_beside(made, x)


# ---------------------------------------------------------------------------------------- blocks


def lengths(blocks):
    """Sizes of consecutive slices that start at 0 and leave no gap."""
    assert [block.start for block in blocks] == [0, *(block.stop for block in blocks[:-1])]
    return [block.stop - block.start for block in blocks]


@pytest.mark.parametrize("n", [1, 255, 256, 257, 1000])
def test_blocks_cover_the_rows_in_order(monkeypatch, n):
    monkeypatch.setattr(_arrays, "BLOCK_BYTES", 1)
    blocks = map_row_blocks(lambda block: block, np.empty((n, 3)), width=10**6)
    assert lengths(blocks) == [256] * (n // 256) + [n % 256] * (n % 256 > 0)


def test_the_width_of_what_is_made_sets_the_size_of_blocks(monkeypatch):
    monkeypatch.setattr(_arrays, "BLOCK_BYTES", 8 * 4000)
    rows = np.empty((1000, 2))
    assert lengths(map_row_blocks(lambda block: block, rows, width=10)) == [400, 400, 200]
    assert lengths(map_row_blocks(lambda block: block, rows)) == [1000]


@pytest.mark.parametrize("library", [strict, torch])
def test_an_array_of_a_device_is_cut_only_where_the_work_is_wide(monkeypatch, library):
    monkeypatch.setattr(_arrays, "BLOCK_BYTES", 1)
    monkeypatch.setattr(_arrays, "DEVICE_BLOCK_BYTES", 8 * 3000)
    rows = library(np.zeros((1000, 50)))
    assert lengths(map_row_blocks(lambda block: block, rows)) == [1000]
    assert lengths(map_row_blocks(lambda block: block, rows, width=10)) == [300, 300, 300, 100]


def test_enough_work_goes_to_threads_and_comes_back_in_order(monkeypatch):
    monkeypatch.setattr(_arrays, "BLOCK_BYTES", 1)

    def work(block):
        return block.start, threading.current_thread().name

    rows = np.empty((1000, 1))
    starts, names = zip(*map_row_blocks(work, rows, width=1), strict=True)
    assert starts == (0, 256, 512, 768)
    assert set(names) == {threading.current_thread().name}
    starts, names = zip(*map_row_blocks(work, rows, width=10**6), strict=True)
    assert starts == (0, 256, 512, 768)
    assert all(name.startswith(_arrays.WORKER) for name in names)


@pytest.mark.parametrize("library", [np.array, strict, torch])
@pytest.mark.parametrize("n", [1, 300, 256 * 9 + 5])
def test_a_sum_over_blocks_is_the_sum_over_rows(monkeypatch, library, n):
    monkeypatch.setattr(_arrays, "BLOCK_BYTES", 1)
    monkeypatch.setattr(_arrays, "DEVICE_BLOCK_BYTES", 1)
    host = np.random.default_rng(0).normal(size=(n, 3))
    rows, sizes = library(host), []

    def work(block):
        sizes.append(block.stop - block.start)
        some = on_host(rows[block, :])
        return some.T @ some

    result = sum_row_blocks(work, rows, width=10**6)
    assert isinstance(result, np.ndarray)
    np.testing.assert_allclose(result, host.T @ host, rtol=1e-12, atol=1e-12)
    assert sum(sizes) == n
    assert max(sizes) <= 256


def test_a_sum_over_blocks_does_not_depend_on_the_cores(monkeypatch):
    monkeypatch.setattr(_arrays, "BLOCK_BYTES", 1)
    rows = np.random.default_rng(0).normal(size=(5000, 2))

    def of_rows():
        return sum_row_blocks(lambda block: rows[block].sum(axis=0), rows, width=10**6)

    parallel = of_rows()
    monkeypatch.setattr(_arrays, "map_parallel", lambda work, items: list(map(work, items)))
    np.testing.assert_array_equal(of_rows(), parallel)


# --------------------------------------------------------------------------------- linear algebra


@everywhere
@precisions
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
@precisions
@pytest.mark.parametrize("n", [1, 6])
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
@precisions
@pytest.mark.parametrize("transposed", [False, True])
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
@precisions
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("n", [1, 6])
def test_the_inverse_of_a_lower_matrix_is_lower(library, dtype, order, n):
    L = np.linalg.cholesky(positive_matrix(n, dtype))
    inverse = invert_lower(library(np.asarray(L, order=order)))
    assert_beside(inverse, library(L))
    host = on_host(inverse)
    np.testing.assert_allclose(host, np.tril(host), rtol=0, atol=tolerance(dtype))
    np.testing.assert_allclose(host @ L, np.eye(n), rtol=0, atol=10 * tolerance(dtype))


@everywhere
@precisions
@pytest.mark.parametrize("count", [1, 3, 7])
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
@pytest.mark.parametrize(
    "A", [np.eye(8), np.zeros((8, 8)), np.ones((8, 8)), np.diag([2.0] * 4 + [1.0] * 4)]
)
def test_eigenvalues_that_coincide_all_come(library, A):
    values, vectors = eigh_largest(library(A), 5)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(A)[::-1][:5], atol=1e-12)
    host = on_host(vectors)
    np.testing.assert_allclose(host.T @ host, np.eye(5), atol=1e-12)
    np.testing.assert_allclose(A @ host, host * values, atol=1e-12)


@pytest.mark.parametrize("how", ["raises", "finds too few"])
def test_where_the_fast_routine_fails_another_one_serves(monkeypatch, how):
    eigh = _arrays.scipy.linalg.eigh

    def failing(A, subset_by_index=None, **options):
        if subset_by_index is None:
            return eigh(A, **options)
        if how == "raises":
            raise np.linalg.LinAlgError("no convergence")
        values, vectors = eigh(A, subset_by_index=subset_by_index, **options)
        return values[1:], vectors[:, 1:]

    A = positive_matrix(6)
    expected = eigh_largest(A, 3)
    monkeypatch.setattr(_arrays.scipy.linalg, "eigh", failing)
    values, vectors = eigh_largest(A, 3)
    np.testing.assert_allclose(values, expected[0])
    np.testing.assert_allclose(np.abs(vectors.T @ expected[1]), np.eye(3), atol=1e-10)


@everywhere
def test_the_host_has_a_fixed_budget_for_a_matrix(monkeypatch, library):
    assert matrix_budget(library(ROWS)) == 2**32
    monkeypatch.setattr(_arrays, "MATRIX_BYTES", 123)
    assert matrix_budget(library(ROWS)) == 123
