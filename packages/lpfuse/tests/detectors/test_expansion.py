import numpy as np
import pytest

from helpers.pairwise import pairwise
from lpfuse._arrays.operations import limits
from lpfuse.detectors.kernels import Expansion, Kernel, Similarities
from oracles import kernel_learners as naive
from oracles.kernel_learners import LIBRARIES, assert_beside, every_library, on_host

RNG = np.random.default_rng(0)
ANCHORS, ROWS = RNG.normal(size=(7, 3)), RNG.normal(size=(12, 3))
COLUMNS = RNG.normal(size=(7, 2))

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


@pytest.mark.parametrize("name", KERNELS)
def test_similarities_are_expanded_as_in_naive_loops(name):
    kernel = KERNELS[name]
    k = naive.kernel(name, kernel.gamma, kernel.degree, kernel.coef0)
    basis = Similarities(kernel, ANCHORS)
    assert basis.width == 7
    expected = naive.similarities(k, ROWS, ANCHORS)
    np.testing.assert_allclose(basis.rows(ROWS)(ROWS), expected, rtol=1e-12)
    np.testing.assert_allclose(
        Expansion(basis, COLUMNS, 2).map(ROWS, error_and_value),
        expected_of(kernel, expected, COLUMNS),
        rtol=1e-11,
    )


BASIS = Similarities(KERNELS["rbf"], ANCHORS)


@pairwise(library=LIBRARIES, precision=(np.float64, np.float32))
def test_values_come_in_the_library_and_precision_of_the_rows(library, precision):
    """Whatever the learner was fitted on: it keeps float64 of the host here."""
    expansion = Expansion(BASIS, COLUMNS, 2)
    X = library(ROWS.astype(precision))
    values = expansion.map(X, error_and_value)
    assert_beside(values, X)
    expected = expansion.map(ROWS, error_and_value)
    rtol = 1e-11 if precision == np.float64 else 1e-4
    np.testing.assert_allclose(on_host(values), expected, rtol=rtol)


@every_library
def test_a_learner_of_another_library_scores_rows_of_the_host(library):
    basis = Similarities(KERNELS["rbf"], library(ANCHORS))
    values = Expansion(basis, library(COLUMNS), 2).map(ROWS, error_and_value)
    assert_beside(values, ROWS)
    expected = Expansion(BASIS, COLUMNS, 2).map(ROWS, error_and_value)
    np.testing.assert_allclose(values, expected, rtol=1e-12)


@pytest.mark.parametrize("basis", [BASIS, Similarities(KERNELS["poly"], ANCHORS)])
def test_blocks_and_threads_change_nothing_and_stay_small(monkeypatch, basis):
    X = np.random.default_rng(2).normal(size=(700, 3))
    expansion = Expansion(basis, COLUMNS, 2)
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


def test_the_width_of_the_basis_sets_the_size_of_blocks(monkeypatch):
    monkeypatch.setattr(limits, "block", 8 * BASIS.width * 300)
    sizes = []

    def finish(_, values):
        sizes.append(len(values))
        return values

    Expansion(BASIS, COLUMNS, 2).map(np.zeros((700, 3)), finish)
    assert sizes == [300, 300, 100]


def test_a_finish_may_give_several_columns():
    def both(diagonal, values):
        return np.column_stack([diagonal, values])

    result = Expansion(BASIS, COLUMNS, 2).map(ROWS, both)
    np.testing.assert_allclose(result[:, 0], 1.0)
    np.testing.assert_allclose(result[:, 1:], BASIS.rows(ROWS)(ROWS) @ COLUMNS)


def test_one_row_and_one_anchor_are_enough():
    expansion = Expansion(Similarities(KERNELS["rbf"], ANCHORS[:1]), np.ones((1, 1)), 1)
    value = expansion.map(ANCHORS[:1], lambda diagonal, values: diagonal + values[:, 0])
    np.testing.assert_allclose(value, [2.0])


@every_library
def test_the_first_columns_may_be_enough(library):
    """Coefficients are shared with learners that need more of them."""
    shared = library(COLUMNS)
    values = Expansion(BASIS, shared, 1).map(ROWS, lambda _, values: values)
    expected = Expansion(BASIS, shared, 2).map(ROWS, lambda _, values: values)
    np.testing.assert_allclose(values, expected[:, :1], rtol=1e-12)
