from math import cos, sin, sqrt

import numpy as np
import pytest

from helpers.pairwise import pairwise
from lpfuse._arrays.operations import limits
from lpfuse.detectors.kernels import Expansion, Kernel, Similarities, Waves
from oracles import kernel_learners as naive
from oracles.kernel_learners import LIBRARIES, assert_beside, every_library, on_host

RNG = np.random.default_rng(0)
ANCHORS, ROWS = RNG.normal(size=(7, 3)), RNG.normal(size=(12, 3))
FREQUENCIES, COLUMNS = RNG.normal(size=(3, 4)), RNG.normal(size=(8, 2))

KERNELS = {
    "rbf": Kernel("rbf", 0.3),
    "poly": Kernel("poly", 0.5, 2.0, 1.0),
    "laplacian": Kernel("laplacian", 0.3),
}


def error_and_value(diagonal, values):
    """A finish that needs all that it is given, in their order."""
    return diagonal - 2 * values[:, 0] + 3 * values[:, 1] ** 2


def expected_of(kernel, basis_values, columns):
    k = naive.kernel(kernel.name, kernel.gamma, kernel.degree, kernel.coef0)
    diagonal = [k(x, x) for x in ROWS]
    values = [[naive.dot(row, column) for column in columns.T] for row in basis_values]
    return error_and_value(np.array(diagonal), np.array(values))


def naive_waves(X):
    m = FREQUENCIES.shape[1]
    phases = [[naive.dot(x, FREQUENCIES[:, j]) for j in range(m)] for x in X]
    return np.array([[*map(cos, row), *map(sin, row)] for row in phases]) / sqrt(m)


@pytest.mark.parametrize("name", KERNELS)
def test_similarities_are_expanded_as_in_naive_loops(name):
    kernel = KERNELS[name]
    k = naive.kernel(name, kernel.gamma, kernel.degree, kernel.coef0)
    basis = Similarities(kernel, ANCHORS)
    assert basis.width == 7
    expected = naive.similarities(k, ROWS, ANCHORS)
    np.testing.assert_allclose(basis.rows(ROWS)(ROWS), expected, rtol=1e-12)
    np.testing.assert_allclose(
        Expansion(basis, COLUMNS[:7], 2).map(ROWS, error_and_value),
        expected_of(kernel, expected, COLUMNS[:7]),
        rtol=1e-11,
    )


def test_waves_are_expanded_as_in_naive_loops():
    basis = Waves(KERNELS["rbf"], FREQUENCIES)
    assert basis.width == 8
    expected = naive_waves(ROWS)
    np.testing.assert_allclose(basis.rows(ROWS)(ROWS), expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(
        Expansion(basis, COLUMNS, 2).map(ROWS, error_and_value),
        expected_of(KERNELS["rbf"], expected, COLUMNS),
        rtol=1e-11,
    )


BASES = [Similarities(KERNELS["rbf"], ANCHORS), Waves(KERNELS["rbf"], FREQUENCIES)]
every_basis = pytest.mark.parametrize("basis", BASES, ids=["similarities", "waves"])


@pairwise(basis=BASES, library=LIBRARIES, precision=(np.float64, np.float32))
def test_values_come_in_the_library_and_precision_of_the_rows(basis, library, precision):
    """Whatever the learner was fitted on: it keeps float64 of the host here."""
    expansion = Expansion(basis, COLUMNS[: basis.width], 2)
    X = library(ROWS.astype(precision))
    values = expansion.map(X, error_and_value)
    assert_beside(values, X)
    expected = expansion.map(ROWS, error_and_value)
    rtol = 1e-11 if precision == np.float64 else 1e-4
    np.testing.assert_allclose(on_host(values), expected, rtol=rtol)


@every_library
def test_a_learner_of_another_library_scores_rows_of_the_host(library):
    for host, basis in (
        (BASES[0], Similarities(KERNELS["rbf"], library(ANCHORS))),
        (BASES[1], Waves(KERNELS["rbf"], library(FREQUENCIES))),
    ):
        columns = COLUMNS[: basis.width]
        values = Expansion(basis, library(columns), 2).map(ROWS, error_and_value)
        assert_beside(values, ROWS)
        expected = Expansion(host, columns, 2).map(ROWS, error_and_value)
        np.testing.assert_allclose(values, expected, rtol=1e-12)


@pytest.mark.parametrize("basis", [*BASES, Similarities(KERNELS["poly"], ANCHORS)])
def test_blocks_and_threads_change_nothing_and_stay_small(monkeypatch, basis):
    X = np.random.default_rng(2).normal(size=(700, 3))
    expansion = Expansion(basis, COLUMNS[: basis.width], 2)
    whole = expansion.map(X, error_and_value)
    monkeypatch.setattr(limits, "block", 1)
    monkeypatch.setattr(limits, "parallel", 1)
    sizes = []

    def finish(diagonal, values):
        sizes.append(len(values))
        assert len(diagonal) == len(values)
        return error_and_value(diagonal, values)

    np.testing.assert_allclose(expansion.map(X, finish), whole, rtol=1e-11, atol=1e-13)
    assert sorted(sizes) == [188, 256, 256]


@every_basis
def test_the_width_of_the_basis_sets_the_size_of_blocks(monkeypatch, basis):
    monkeypatch.setattr(limits, "block", 8 * basis.width * 300)
    sizes = []

    def finish(_, values):
        sizes.append(len(values))
        return values

    Expansion(basis, COLUMNS[: basis.width], 2).map(np.zeros((700, 3)), finish)
    assert sizes == [300, 300, 100]


def test_a_finish_may_give_several_columns():
    def both(diagonal, values):
        return np.column_stack([diagonal, values])

    result = Expansion(BASES[0], COLUMNS[:7], 2).map(ROWS, both)
    np.testing.assert_allclose(result[:, 0], 1.0)
    np.testing.assert_allclose(result[:, 1:], BASES[0].rows(ROWS)(ROWS) @ COLUMNS[:7])


def test_one_row_and_one_anchor_are_enough():
    expansion = Expansion(Similarities(KERNELS["rbf"], ANCHORS[:1]), np.ones((1, 1)), 1)
    value = expansion.map(ANCHORS[:1], lambda diagonal, values: diagonal + values[:, 0])
    np.testing.assert_allclose(value, [2.0])


@every_basis
@every_library
def test_the_first_columns_may_be_enough(basis, library):
    """Coefficients are shared with learners that need more of them."""
    shared = library(COLUMNS[: basis.width])
    values = Expansion(basis, shared, 1).map(ROWS, lambda _, values: values)
    expected = Expansion(basis, shared, 2).map(ROWS, lambda _, values: values)
    np.testing.assert_allclose(values, expected[:, :1], rtol=1e-12)
