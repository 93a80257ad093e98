from math import exp

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS
from sklearn.svm import OneClassSVM

from helpers.cases import cases
from helpers.pairwise import each_value, pairwise
from lpfuse._arrays.operations import limits
from lpfuse.detectors import PAPER_WIDTHS, OneClassGP, gamma_from_sigma
from lpfuse.detectors.kernels import (
    INNER_PRODUCTS,
    Kernel,
    distances_to,
    resolve_gamma,
    resolve_kernel,
    squared_distances,
)
from oracles import kernel_learners as naive
from oracles.kernel_learners import LIBRARIES, assert_beside, every_library, on_host

NAMES = sorted(PAIRWISE_KERNEL_FUNCTIONS)
PARAMETERS = {"gamma": 0.7, "degree": 2.5, "coef0": 0.3}

every_kernel = pytest.mark.parametrize("name", NAMES)
steady = settings(deadline=None, derandomize=True, max_examples=25)


@pytest.fixture
def rows():
    """Not negative, as chi2 needs them, with a row of zeros, as cosine must endure."""
    X = np.random.default_rng(0).uniform(0, 1.5, size=(13, 4))
    X[5] = 0.0
    return X


@pytest.fixture
def others():
    return np.random.default_rng(1).uniform(0, 1.5, size=(8, 4))


def weighted_product(x, z, weight=1.0, power=1):
    return weight * float(np.sum(x * z)) ** power


def random_rows(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


# ---------------------------------------------------------------------------------------- values


@cases("name", NAMES)
def test_values_agree_with_naive_loops(rows, others, name):
    expected = naive.similarities(naive.kernel(name, **PARAMETERS), rows, others)
    kernel = Kernel(name, **PARAMETERS)
    np.testing.assert_allclose(kernel.between(rows, others), expected, rtol=1e-12, atol=1e-14)
    against = kernel.against(others)
    for some in (rows[:1], rows[4:9], rows):
        np.testing.assert_allclose(against(some), kernel.between(some, others), rtol=1e-14)


@cases("name", NAMES)
def test_the_matrix_and_its_diagonal_are_values_too(rows, name):
    k, kernel = naive.kernel(name, **PARAMETERS), Kernel(name, **PARAMETERS)
    gram = kernel.gram(rows)
    np.testing.assert_allclose(gram, naive.similarities(k, rows, rows), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(kernel.diagonal(rows), [k(x, x) for x in rows], rtol=1e-12)
    assert kernel.has_unit_diagonal <= bool((kernel.diagonal(rows) == 1).all())


@cases("name", NAMES)
def test_single_precision_is_kept(rows, others, name):
    kernel, single = Kernel(name, **PARAMETERS), rows.astype(np.float32)
    expected = kernel.between(single.astype(np.float64), others)
    values = kernel.between(single, others.astype(np.float32))
    assert values.dtype == kernel.gram(single).dtype == kernel.diagonal(single).dtype == np.float32
    np.testing.assert_allclose(values, expected, rtol=2e-5, atol=1e-6)


@cases("name", NAMES)
def test_the_order_in_memory_does_not_matter(rows, others, name):
    kernel = Kernel(name, **PARAMETERS)
    X, Z = np.asfortranarray(rows), np.asfortranarray(others)
    np.testing.assert_allclose(kernel.between(X, Z), kernel.between(rows, others), rtol=1e-13)
    np.testing.assert_allclose(kernel.gram(X), kernel.gram(rows), rtol=1e-13)
    strided = np.repeat(np.repeat(rows, 2, axis=0), 2, axis=1)[::2, ::2]
    np.testing.assert_allclose(kernel.gram(strided), kernel.gram(rows), rtol=1e-13)


@pytest.mark.parametrize("params", [{}, {"weight": 2.5}, {"weight": 0.5, "power": 2}])
def test_a_function_of_two_rows_is_a_kernel(rows, others, params):
    kernel = resolve_kernel(rows, weighted_product, "scale", 3, 1, params, None)
    expected = [[weighted_product(x, z, **params) for z in others] for x in rows]
    np.testing.assert_allclose(kernel.between(rows, others), expected)
    np.testing.assert_allclose(kernel.gram(rows).diagonal(), kernel.diagonal(rows))
    assert not kernel.has_unit_diagonal


@pytest.mark.parametrize("precision", [np.float64, np.float32])
def test_a_function_keeps_the_precision_of_the_rows(rows, precision):
    kernel, X = Kernel(weighted_product), rows.astype(precision)
    assert kernel.between(X, X).dtype == kernel.gram(X).dtype == kernel.diagonal(X).dtype
    assert kernel.diagonal(X).dtype == precision


@each_value(gamma=(0.01, 1.0, 100.0), offset=(0.0, 1e6, -1e6))
def test_a_common_offset_costs_no_digits(gamma, offset):
    X, Z = random_rows(20, 3) + offset, random_rows(15, 3, seed=1) + offset
    expected = [[naive.squared_distance(x, z) for z in Z] for x in X]
    np.testing.assert_allclose(distances_to(Z, 1.0)(X), expected, rtol=1e-12, atol=1e-13)
    similar = naive.similarities(naive.kernel("rbf", gamma), X, Z)
    np.testing.assert_allclose(Kernel("rbf", gamma).between(X, Z), similar, rtol=1e-10)


def test_a_common_offset_costs_single_precision_no_digits():
    X = (random_rows(20, 3) + 4096.0).astype(np.float32)
    expected = naive.similarities(naive.kernel("rbf", 0.5), X, X)
    np.testing.assert_allclose(Kernel("rbf", 0.5).gram(X), expected, atol=3e-6)


@pytest.mark.parametrize("precision", [np.float64, np.float32])
def test_no_row_is_more_similar_to_another_than_to_itself(precision):
    X = np.repeat(random_rows(40, 7) * 100, 3, axis=0).astype(precision)
    distances = squared_distances(X)
    assert (distances >= 0).all()
    assert (distances.diagonal() == 0).all()
    for gamma in (1e-6, 1.0, 5000.0):
        gram = Kernel("rbf", gamma).gram(X)
        assert gram.max() <= 1 + 1e-12
        assert (gram.diagonal() == 1).all()


def test_one_set_of_distances_serves_every_width(rows):
    distances = squared_distances(rows)
    before = distances.copy()
    for gamma in (0.01, 1.0, 50.0):
        kernel = Kernel("rbf", gamma)
        np.testing.assert_allclose(kernel.of_distances(distances), kernel.gram(rows), rtol=1e-12)
    np.testing.assert_array_equal(distances, before)


def test_equal_kernels_are_one_key():
    assert len({Kernel("rbf", 2.0), Kernel("rbf", 2.0), Kernel("rbf", 3.0)}) == 2
    assert Kernel("poly", degree=3) == Kernel("poly", degree=3.0) != Kernel("poly", degree=2)


# ---------------------------------------------------------------------------------------- blocks


@pytest.mark.parametrize("name", ["rbf", "poly", "cosine", "laplacian"])
def test_blocks_and_threads_change_nothing(monkeypatch, name):
    kernel, X = Kernel(name, 0.2, 2.0), random_rows(600, 3)
    whole, distances = kernel.between(X, X), squared_distances(X)
    monkeypatch.setattr(limits, "block", 1)
    monkeypatch.setattr(limits, "parallel", 1)
    np.testing.assert_allclose(kernel.gram(X), whole, rtol=1e-11)
    np.testing.assert_allclose(squared_distances(X), distances, rtol=1e-11, atol=1e-12)


def test_blocks_of_a_device_change_nothing(monkeypatch):
    X = naive.torch(random_rows(600, 3))
    whole = Kernel("rbf", 0.2).gram(X)
    monkeypatch.setattr(limits, "device_block", 1)
    np.testing.assert_allclose(Kernel("rbf", 0.2).gram(X), whole, rtol=1e-11)


# ------------------------------------------------------------------------------ array libraries


@pytest.mark.parametrize("library", LIBRARIES)
@cases(
    "name, precision",
    [(name, kind) for name in ("rbf", *INNER_PRODUCTS) for kind in (np.float64, np.float32)],
)
def test_every_library_gives_the_same_values(library, rows, others, name, precision):
    kernel = Kernel(name, **PARAMETERS)
    host, X, Z = rows.astype(precision), *(library(x.astype(precision)) for x in (rows, others))
    near = {"rtol": 1e-12 if precision == np.float64 else 1e-4, "atol": 1e-6}
    for ours, theirs in (
        (kernel.between(host, others.astype(precision)), kernel.between(X, Z)),
        (kernel.gram(host), kernel.gram(X)),
        (kernel.diagonal(host), kernel.diagonal(X)),
    ):
        assert_beside(theirs, X)
        np.testing.assert_allclose(on_host(theirs), ours, **near)


@each_value(library=LIBRARIES, name=("additive_chi2", "chi2", "laplacian", weighted_product))
def test_kernels_that_need_numpy_say_so(library, rows, name):
    with pytest.raises(ValueError, match=r"needs NumPy arrays.*Use one of rbf, linear, poly"):
        resolve_kernel(library(rows), name, 1.0, 3, 1, None, None)


@every_library
def test_every_library_gets_the_same_width(library, rows):
    for gamma in ("scale", "median"):
        expected = resolve_gamma(gamma, rows)
        assert resolve_gamma(gamma, library(rows)) == pytest.approx(expected, rel=1e-12)
    weights = np.arange(1.0, 14.0)
    expected = resolve_gamma("scale", rows, weights)
    assert resolve_gamma("scale", library(rows), weights) == pytest.approx(expected, rel=1e-12)


# ----------------------------------------------------------------------------------------- width


@pytest.mark.parametrize("gamma", [0.5, 2, np.float32(0.25), np.int64(3)])
def test_a_number_is_the_width(rows, gamma):
    settled = resolve_gamma(gamma, rows)
    assert type(settled) is float
    assert settled == gamma


@pytest.mark.parametrize("factor", [1e-3, 1.0, 1e3])
def test_scale_is_that_of_scikit_learn(rows, factor):
    X = rows * factor
    settled = resolve_gamma("scale", X)
    assert resolve_gamma("narrow", X) == pytest.approx(3 * settled)
    assert settled == pytest.approx(OneClassSVM(gamma="scale").fit(X)._gamma, rel=1e-12)
    assert settled == pytest.approx(naive.gamma_scale(X), rel=1e-12)


def test_scale_in_single_precision_survives_an_offset(rows):
    X = (rows + 1000).astype(np.float32)
    assert resolve_gamma("scale", X) == pytest.approx(naive.gamma_scale(X), rel=1e-3)


def test_weights_count_as_repetitions_for_the_scale(rows):
    weights = np.arange(13) % 4
    repeated = np.repeat(rows, weights, axis=0)
    weighted = resolve_gamma("scale", rows[weights > 0], weights[weights > 0].astype(float))
    assert weighted == pytest.approx(naive.gamma_scale(repeated), rel=1e-12)


def test_the_median_is_that_of_the_pairs(rows):
    assert resolve_gamma("median", rows) == pytest.approx(naive.gamma_median(rows), rel=1e-12)


@pytest.mark.parametrize("precision", [np.float64, np.float32])
@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_repeated_rows_do_not_narrow_the_median(offset, precision):
    different = (random_rows(5, 6) * 10 + offset).astype(precision)
    X = np.random.default_rng(0).permutation(np.repeat(different, 12, axis=0))
    assert resolve_gamma("median", X) == pytest.approx(naive.gamma_median(X), rel=1e-3)


def test_the_median_of_many_rows_is_taken_over_some():
    X = random_rows(3000, 2)
    distances = squared_distances(X)
    exact = 0.5 / np.median(distances[np.triu_indices(3000, 1)])
    assert resolve_gamma("median", X) == pytest.approx(exact, rel=0.05)


@pairwise(
    X=(np.full((4, 3), 2.0), np.full((17, 9), 0.1), np.ones((1, 2))),
    gamma=("scale", "median"),
    precision=(np.float64, np.float32),
)
def test_rows_without_spread_get_the_width_one(X, gamma, precision):
    """Though rounding may give them a variance, of 1e-33 say."""
    assert resolve_gamma(gamma, X.astype(precision)) == 1.0


@cases("gamma", [0, -1.0, np.nan, np.inf, "auto", "Scale", None, True, [1.0]])
def test_other_widths_are_refused(rows, gamma):
    with pytest.raises(ValueError, match=r"gamma must be a .*number above"):
        resolve_gamma(gamma, rows)


@pytest.mark.parametrize("gamma", ["auto", None])
def test_a_refused_width_names_the_choices(rows, gamma):
    with pytest.raises(
        ValueError, match=r'"narrow", "scale" or "median".*gamma_from_sigma\(sigma\)'
    ):
        resolve_gamma(gamma, rows)


@pytest.mark.parametrize("kernel", ["gaussian", None, 3, "precomputed", ["rbf"]])
def test_unknown_kernels_are_refused_with_the_known_ones(rows, kernel):
    with pytest.raises(ValueError, match=r"additive_chi2, chi2, .*sigmoid, or a function"):
        resolve_kernel(rows, kernel, "scale", 3, 1, None, None)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [({"degree": "three"}, "degree"), ({"degree": np.nan}, "degree"), ({"coef0": None}, "coef0")],
)
def test_parameters_of_kernels_must_be_numbers(rows, parameters, words):
    with pytest.raises(ValueError, match=f"{words} must be a finite number"):
        OneClassGP(kernel="poly", **parameters).fit(rows)


def test_parameters_of_any_number_type_keep_single_precision(rows):
    X = rows.astype(np.float32)
    kernel = resolve_kernel(X, "poly", np.float64(0.5), np.float64(2), np.int64(1), None, None)
    assert kernel.gram(X).dtype == np.float32


# ----------------------------------------------------------------------------------------- sigma


@given(sigma=st.floats(1e-3, 1e3))
@steady
def test_gamma_from_sigma_gives_the_paper_kernel(sigma):
    gamma = gamma_from_sigma(sigma)
    similarity = Kernel("rbf", gamma).between(np.zeros((1, 1)), np.full((1, 1), sigma))
    assert similarity.item() == pytest.approx(exp(-0.5), rel=1e-12)  # at a distance of σ


def test_the_widths_of_the_paper():
    assert PAPER_WIDTHS == (0.01, 0.1, 0.5, 1.0, 10.0)
    gammas = [gamma_from_sigma(sigma) for sigma in PAPER_WIDTHS]
    np.testing.assert_allclose(gammas, [5000, 50, 2, 0.5, 0.005])


@cases("width", [0, -1, np.nan, np.inf, "1", None, True])
def test_widths_must_be_positive_numbers(width):
    with pytest.raises(ValueError, match="sigma must be a finite number above 0"):
        gamma_from_sigma(width)


# ------------------------------------------------------------------------------------ properties

sizes = st.tuples(st.integers(1, 12), st.integers(1, 5), st.integers(0, 1000))


@given(size=sizes, offset=st.floats(-1e4, 1e4), gamma=st.floats(1e-3, 10))
@steady
def test_gaussian_kernels_do_not_see_a_translation(size, offset, gamma):
    X, kernel = random_rows(*size), Kernel("rbf", gamma)
    np.testing.assert_allclose(kernel.gram(X + offset), kernel.gram(X), rtol=0, atol=1e-9)


@given(size=sizes, scale=st.floats(1e-3, 1e3), gamma=st.floats(1e-3, 10))
@steady
def test_scaling_rows_is_scaling_the_width(size, scale, gamma):
    X = random_rows(*size)
    scaled = Kernel("rbf", gamma * scale**2).gram(X / scale)
    np.testing.assert_allclose(scaled, Kernel("rbf", gamma).gram(X), rtol=1e-9, atol=1e-12)
    for word in ("scale", "median") if len(X) > 1 else ():
        expected = scale**2 * resolve_gamma(word, X)
        assert resolve_gamma(word, X / scale) == pytest.approx(expected, rel=1e-9)


@given(size=sizes, random=st.randoms(use_true_random=False), name=st.sampled_from(NAMES))
@steady
def test_the_order_of_rows_is_the_order_of_values(size, random, name):
    X, kernel = np.abs(random_rows(*size)), Kernel(name, **PARAMETERS)
    order = random.sample(range(len(X)), len(X))
    gram = kernel.gram(X)
    np.testing.assert_allclose(kernel.gram(X[order]), gram[order][:, order], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(gram, gram.T, rtol=1e-12, atol=1e-14)
