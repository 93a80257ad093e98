"""What the detectors ask of an array library, against NumPy."""

import threading
from itertools import product

import numpy as np
import pytest

from helpers.cases import cases
from lpfuse._arrays import operations as threads
from lpfuse._arrays.operations import (
    beside,
    map_row_blocks,
    matrix_budget,
    new_empty,
    single_threaded,
    sum_row_blocks,
)
from oracles.kernel_learners import assert_beside, on_host, strict, strict_device, torch

ROWS = np.arange(12.0).reshape(4, 3)

LIBRARIES = [np.array, strict, strict_device, torch]
PRECISIONS = [np.float64, np.float32]
everywhere = pytest.mark.parametrize("library", LIBRARIES)


# ---------------------------------------------------------------------------------------- places


@everywhere
@cases("source, given, dtype", product([np.array, strict, torch], PRECISIONS, PRECISIONS))
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
@cases("dtype", PRECISIONS)
def test_an_empty_array_has_its_shape_precision_and_place(library, dtype):
    x = library(ROWS.astype(dtype))
    made = new_empty((5, 2), x)
    assert tuple(made.shape) == (5, 2)
    assert_beside(made, x)


# ---------------------------------------------------------------------------------------- blocks


def lengths(blocks):
    """Sizes of consecutive slices that start at 0 and leave no gap."""
    assert [block.start for block in blocks] == [0, *(block.stop for block in blocks[:-1])]
    return [block.stop - block.start for block in blocks]


@pytest.mark.parametrize("n", [1, 255, 256, 257, 1000])
def test_blocks_cover_the_rows_in_order(monkeypatch, n):
    monkeypatch.setattr(threads.limits, "block", 1)
    blocks = map_row_blocks(lambda block: block, np.empty((n, 3)), width=10**6)
    assert lengths(blocks) == [256] * (n // 256) + [n % 256] * (n % 256 > 0)


def test_the_output_width_sets_the_size_of_blocks(monkeypatch):
    monkeypatch.setattr(threads.limits, "block", 8 * 4000)
    rows = np.empty((1000, 2))
    assert lengths(map_row_blocks(lambda block: block, rows, width=10)) == [400, 400, 200]
    assert lengths(map_row_blocks(lambda block: block, rows)) == [1000]


@pytest.mark.parametrize("library", [strict, torch])
def test_device_arrays_are_cut_only_for_wide_work(monkeypatch, library):
    monkeypatch.setattr(threads.limits, "block", 1)
    monkeypatch.setattr(threads.limits, "device_block", 8 * 3000)
    rows = library(np.zeros((1000, 50)))
    assert lengths(map_row_blocks(lambda block: block, rows)) == [1000]
    assert lengths(map_row_blocks(lambda block: block, rows, width=10)) == [300, 300, 300, 100]


def test_enough_work_goes_to_threads_and_comes_back_in_order(monkeypatch):
    monkeypatch.setattr(threads.limits, "block", 1)

    def work(block):
        return block.start, threading.current_thread().name

    rows = np.empty((1000, 1))
    starts, names = zip(*map_row_blocks(work, rows, width=1), strict=True)
    assert starts == (0, 256, 512, 768)
    assert set(names) == {threading.current_thread().name}
    starts, names = zip(*map_row_blocks(work, rows, width=10**6), strict=True)
    assert starts == (0, 256, 512, 768)
    assert all(name.startswith(threads.WORKER) for name in names)


@pytest.mark.parametrize("library", [np.array, strict, torch])
def test_a_sum_over_blocks_is_the_sum_over_rows(monkeypatch, library):
    monkeypatch.setattr(threads.limits, "block", 1)
    monkeypatch.setattr(threads.limits, "device_block", 1)
    for n in (1, 300, 256 * 9 + 5):
        host = np.random.default_rng(0).normal(size=(n, 3))
        rows, sizes = library(host), []

        def work(block, rows=rows, sizes=sizes):
            sizes.append(block.stop - block.start)
            some = on_host(rows[block, :])
            return some.T @ some

        result = sum_row_blocks(work, rows, width=10**6)
        assert isinstance(result, np.ndarray)
        np.testing.assert_allclose(result, host.T @ host, rtol=1e-12, atol=1e-12)
        assert sum(sizes) == n
        assert max(sizes) <= 256


def test_a_sum_over_blocks_does_not_depend_on_the_cores(monkeypatch):
    monkeypatch.setattr(threads.limits, "block", 1)
    rows = np.random.default_rng(0).normal(size=(5000, 2))

    def of_rows():
        return sum_row_blocks(lambda block: rows[block].sum(axis=0), rows, width=10**6)

    parallel = of_rows()
    with single_threaded():
        np.testing.assert_array_equal(of_rows(), parallel)


@everywhere
def test_the_host_has_a_fixed_budget_for_a_matrix(monkeypatch, library):
    assert matrix_budget(library(ROWS)) == 2**32
    monkeypatch.setattr(threads.limits, "matrix", 123)
    assert matrix_budget(library(ROWS)) == 123
