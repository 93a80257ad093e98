import numpy as np
import pytest
from sklearn.utils import check_random_state

from helpers.pairwise import each_value, pairwise
from lpfuse._arrays.operations import limits
from lpfuse.detectors.kernels import Kernel, nystroem
from oracles import kernel_learners as naive
from oracles.kernel_learners import LIBRARIES, assert_beside, on_host

RBF = Kernel("rbf", 0.4)
KERNELS = [RBF, Kernel("poly", 0.5, 2.0, 1.0), Kernel("laplacian", 0.4), Kernel("cosine")]


def rng(seed=0):
    return check_random_state(seed)


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(60, 3))


@pytest.fixture
def new():
    return np.random.default_rng(1).normal(size=(25, 3))


def product(features, X, Z):
    return features.of(X) @ features.of(Z).T


@each_value(kernel=KERNELS, size=(60, 1000))
def test_all_rows_as_landmarks_are_exact(rows, new, kernel, size):
    features = nystroem(kernel, rows, size, rng())
    np.testing.assert_allclose(product(features, rows, rows), kernel.gram(rows), atol=1e-8)
    np.testing.assert_allclose(product(features, new, rows), kernel.between(new, rows), atol=1e-7)


def test_landmarks_are_the_centres_of_groups():
    corners = np.array([[-9.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    X = np.vstack([corners - 0.5, corners + 0.5])
    found = nystroem(Kernel("rbf", 0.01), X, 3, rng()).basis.anchors
    assert sorted(map(tuple, found.round(6))) == sorted(map(tuple, corners))


def test_features_are_those_of_the_formula(rows, new):
    features = nystroem(RBF, rows, 10, rng())
    landmarks = features.basis.anchors
    k = naive.kernel("rbf", RBF.gamma)
    inverse = np.linalg.inv(naive.similarities(k, landmarks, landmarks))
    similar = naive.similarities(k, new, landmarks)
    np.testing.assert_allclose(
        product(features, new, new), similar @ inverse @ similar.T, atol=1e-9
    )


def test_the_error_is_positive_and_falls_as_landmarks_grow(rows):
    K = RBF.gram(rows)
    errors = []
    for size in (3, 10, 30, 60):
        gap = K - product(nystroem(RBF, rows, size, rng()), rows, rows)
        assert np.linalg.eigvalsh(gap).min() > -1e-9  # never more similar than the kernel says
        errors.append(np.trace(gap))
    assert errors[0] > 2 * errors[1] > 8 * errors[2] > 0
    assert abs(errors[3]) < 1e-8


def test_directions_without_extent_are_left_out(rows):
    repeated = np.repeat(rows[:4], 10, axis=0)
    features = nystroem(RBF, repeated, 40, rng())
    assert features.width == 4
    np.testing.assert_allclose(product(features, rows[:4], rows[:4]), RBF.gram(rows[:4]), atol=1e-9)
    linear = nystroem(Kernel("linear"), rows, 40, rng())
    assert linear.width == 3
    np.testing.assert_allclose(product(linear, rows, rows), rows @ rows.T, atol=1e-9)


def test_single_precision_noise_is_no_direction(rows):
    single = rows.astype(np.float32)
    assert nystroem(Kernel("linear"), single, 40, rng()).width == 3
    features = nystroem(RBF, single, 60, rng())
    assert features.of(single).dtype == np.float32
    np.testing.assert_allclose(product(features, single, single), RBF.gram(rows), atol=1e-3)


@pytest.mark.parametrize(
    ("kernel", "X"),
    [(Kernel("linear"), np.zeros((5, 2))), (Kernel(lambda x, z: -float(x @ z)), np.eye(4))],
    ids=["zero", "negative"],
)
def test_a_kernel_without_positive_part_is_refused(kernel, X):
    with pytest.raises(ValueError, match=r"no positive eigenvalue.*approximation=None"):
        nystroem(kernel, X, 3, rng())


def test_the_seed_decides(rows):
    one, same, other = (nystroem(RBF, rows, 10, rng(seed)).of(rows) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert not np.allclose(one @ one.T, other @ other.T)


@pytest.mark.parametrize("weighted", [False, True])
def test_moments_agree_with_naive_loops(rows, weighted):
    features = nystroem(RBF, rows, 10, rng())
    weights = np.random.default_rng(0).uniform(size=60) if weighted else np.ones(60)
    Phi = features.of(rows)
    first, second = features.moments(rows, weights)
    expected = sum(c * np.outer(phi, phi) for c, phi in zip(weights, Phi, strict=True))
    np.testing.assert_allclose(second, expected, rtol=1e-10, atol=1e-12)
    expected = sum(c * phi for c, phi in zip(weights, Phi, strict=True))
    np.testing.assert_allclose(first, expected, rtol=1e-10, atol=1e-12)


def test_directions_are_folded_into_the_basis(rows, new):
    features = nystroem(RBF, rows, 10, rng())
    directions = np.random.default_rng(0).normal(size=(features.width, 3))
    values = features.expansion(directions, rows).map(new, lambda _, values: values)
    np.testing.assert_allclose(values, features.of(new) @ directions, rtol=1e-9, atol=1e-10)


def test_blocks_and_threads_change_nothing(monkeypatch):
    X = np.random.default_rng(0).normal(size=(2600, 2))
    features, weights = nystroem(RBF, X, 8, rng()), np.linspace(0, 1, 2600)
    whole, (first, second) = features.of(X), features.moments(X, weights)
    monkeypatch.setattr(limits, "block", 1)
    monkeypatch.setattr(limits, "parallel", 1)
    np.testing.assert_allclose(features.of(X), whole, rtol=1e-9, atol=1e-11)
    in_blocks = features.moments(X, weights)
    np.testing.assert_allclose(in_blocks[0], first, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(in_blocks[1], second, rtol=1e-9, atol=1e-9)


def test_moments_of_single_precision_rows_are_summed_in_double():
    """A thousand times a thousandth: in single precision the sum loses what this test checks."""
    X = np.full((20_000, 1), 0.25, dtype=np.float32)
    X[0] = 0.0
    features = nystroem(RBF, X, 2, rng())
    first, second = features.moments(X, np.full(20_000, 1e-3))
    phi = features.of(X[1:2]).astype(np.float64)[0]
    assert first.dtype == second.dtype == np.float64
    np.testing.assert_allclose(first, 20 * phi, rtol=1e-3)
    np.testing.assert_allclose(second, np.outer(20 * phi, phi), rtol=1e-3, atol=1e-8)


@pytest.mark.usefixtures("same_landmarks")
@pairwise(library=LIBRARIES, precision=(np.float64, np.float32))
def test_every_library_gets_the_same_features(rows, library, precision):
    host, weights = rows.astype(precision), np.linspace(0, 1, 60)
    X = library(host)
    ours, theirs = nystroem(RBF, host, 10, rng()), nystroem(RBF, X, 10, rng())
    near = {"rtol": 0, "atol": 1e-8 if precision == np.float64 else 0.02}
    assert_beside(theirs.of(X), X)
    # Directions may point either way: only what does not depend on their signs is compared.
    Phi, Psi = ours.of(host), on_host(theirs.of(X))
    np.testing.assert_allclose(Psi @ Psi.T, Phi @ Phi.T, **near)
    first, second = ours.moments(host, weights)
    moments = theirs.moments(X, weights)
    for moment in moments:
        assert_beside(moment, library(rows))  # in double precision, where the rows are
    their_first, their_second = map(on_host, moments)
    np.testing.assert_allclose(Psi @ their_first, Phi @ first, **near)
    np.testing.assert_allclose(Psi @ their_second @ Psi.T, Phi @ second @ Phi.T, **near)
