from itertools import product

import numpy as np
import pytest
from scipy.linalg import cho_factor, cho_solve
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from helpers.cases import cases
from helpers.pairwise import each_value, pairwise
from lpfuse import SVDD
from lpfuse._arrays.operations import limits
from lpfuse.detectors.svdd import enclosing_ball
from oracles import enclosing_ball as oracle

TOL = 1e-8


def problem(seed=0, n=25, r=4, nu=0.2, anomalies=0.0, weighted=False, own=0.0):
    """Features, κ, bounds and signs; `own` is what rows have beside their features."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, r))
    signs = np.where(np.arange(n) >= (1 - anomalies) * n, -1.0, 1.0)
    weights = rng.uniform(0.1, 3.0, n) if weighted else np.ones(n)
    return features, *rest(features, signs, weights, nu, own * rng.random(n))


def rest(features, signs, weights, nu, own=0.0):
    bounds = np.empty(len(signs))
    for side in (signs > 0, signs < 0):
        bounds[side] = weights[side] / (nu * max(weights[side].sum(), 1e-300))
    return (features**2).sum(axis=1) + own, bounds, signs


def distances2(features, kappa, centre):
    """To the centre, without the digits that a common offset would cancel."""
    mean = features.mean(axis=0)
    own = np.maximum(kappa - (features**2).sum(axis=1), 0.0)
    return ((features - mean - (centre - mean)) ** 2).sum(axis=1) + own


def assert_smallest(features, kappa, bounds, signs, tol=TOL):
    """The ball is cvxpy's, and the gap bounds how much larger it may be; returns the ball."""
    ball = enclosing_ball(features.copy(), kappa.copy(), bounds, signs, tol)
    best, centre = oracle.by_primal(features, kappa, bounds, signs)
    size = kappa.max()
    rounding = 1e-8 * best + 1e-13 * size
    from_centre = distances2(features, kappa, ball.centre)
    # For its centre the best radius is the distance of some row.
    reached = min(oracle.primal_value(from_centre, r2, bounds, signs) for r2 in from_centre)
    assert reached - best <= ball.gap + rounding
    assert ball.gap <= tol * reached + 1e-12 * size
    # F is strongly convex in the centre.
    assert np.sum((ball.centre - centre) ** 2) <= ball.gap + rounding
    # The radius leaves rows on the surface inside: a little more than the best one.
    whole = oracle.primal_value(from_centre, ball.radius2, bounds, signs)
    assert whole - best <= 30 * tol * best + 10 * ball.gap + rounding
    assert ball.beta.sum() == pytest.approx(1.0, abs=1e-9)
    assert (signs * ball.beta >= 0).all()
    assert (signs * ball.beta <= bounds * (1 + 1e-12)).all()
    return ball


# ------------------------------------------------------------------------------------ generic rows


@pairwise(nu=(0.05, 0.3, 0.9), weighted=(False, True), own=(0.0, 2.0))
def test_the_ball_is_the_smallest(nu, weighted, own):
    assert_smallest(*problem(nu=nu, weighted=weighted, own=own))


@cases("n, r, seed", product((10, 20), (1, 2), (1, 2, 3)))
def test_one_row_may_hold_all_of_the_weight(n, r, seed):
    """Where ν is one row in n, no row need lie on the surface with a share of its own."""
    assert_smallest(*problem(seed=seed, n=n, r=r, nu=1 / n, own=1.0))


@pairwise(nu=(0.05, 0.3, 0.9), cost=(0.1, 1.0, 5.0), weighted=(False, True))
def test_rows_that_belong_outside_are_kept_there(nu, weighted, cost):
    features, kappa, bounds, signs = problem(nu=nu, weighted=weighted, anomalies=0.3)
    bounds = np.where(signs < 0, cost * bounds, bounds)
    ball = assert_smallest(features, kappa, bounds, signs)
    assert (ball.beta[signs < 0] <= 0).all()


@pytest.mark.parametrize("seed", range(12))
def test_scales_offsets_repeats_and_grids(seed):
    """A handful of the problems that a search through a thousand of them was made of."""
    rng = np.random.default_rng(100 + seed)
    n, r = int(rng.integers(2, 40)), int(rng.integers(1, 12))
    features = rng.normal(size=(n, r)) * 10.0 ** rng.uniform(-3, 3)
    change = [
        lambda F: F[rng.integers(0, n, n)],
        lambda F: np.outer(F[:, 0], rng.normal(size=r)),
        lambda F: F + 1e3 * np.abs(F).max(),
        lambda F: np.round(2 * F / np.abs(F).max()),
    ][seed % 4]
    features = change(features)
    signs = np.where(rng.random(n) < (0.3 if seed % 3 == 0 else 0.0), -1.0, 1.0)
    signs[0] = 1.0
    nu = rng.choice([0.02, 0.1, 0.5, 1.0])
    weights = rng.uniform(0.05, 3.0, n)
    assert_smallest(features, *rest(features, signs, weights, nu), tol=1e-6)


@pytest.mark.parametrize("seed", [2, 10, 12, 16])
def test_rows_on_the_surface_that_carry_nothing(seed):
    """Right angles: the middle row lies on the sphere of the other two, with a multiplier of 0."""
    X = np.abs(np.random.default_rng(seed).normal(size=(27, 1)).round()) + 0.1
    settings = {"kernel": lambda x, z: float(np.minimum(x, z)[0]), "nu": 0.1, "tol": 1e-4}
    ball = SVDD(approximation="nystroem", **settings).fit(X)
    assert ball.radius_**2 == pytest.approx(np.ptp(X) / 4, rel=1e-5)
    np.testing.assert_allclose(-ball.score_samples(X), np.ptp(X) / 4, rtol=1e-3)


def test_a_looser_tolerance_stops_earlier_and_says_so():
    loose = assert_smallest(*problem(n=200, r=8), tol=1e-2)
    tight = assert_smallest(*problem(n=200, r=8), tol=1e-8)
    assert tight.gap < 1e-3 * loose.gap


def test_steps_that_do_not_suffice_are_told_with_the_gap():
    with pytest.warns(
        ConvergenceWarning, match=r"tol=1e-08.*after 1 steps the gap is .*larger tol"
    ):
        ball = enclosing_ball(*problem(), TOL, max_steps=1)
    assert ball.beta.sum() == pytest.approx(1.0)
    features, kappa, bounds, signs = problem()
    reached = oracle.primal_value(
        distances2(features, kappa, ball.centre), ball.radius2, bounds, signs
    )
    best, _ = oracle.by_primal(features, kappa, bounds, signs)
    assert best < reached
    assert ball.gap > TOL * best


# ---------------------------------------------------------------------------------- the exact SVDD


@each_value(
    kernel=(
        {"gamma": 0.4},
        {"kernel": "linear"},
        {"kernel": "poly", "degree": 2, "gamma": 0.5},
        {"kernel": "laplacian", "gamma": 0.3},
    ),
    anomalies=(0, 8),
    weighted=(False, True, True),
)
def test_features_of_all_rows_give_the_exact_detector(kernel, anomalies, weighted):
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(40, 3)), rng.normal(size=(60, 3))
    y = np.where(np.arange(40) < anomalies, -1, 1)
    weights = rng.uniform(0.2, 2.0, 40) if weighted else None
    settings = {"nu": 0.3, "C_negative": 0.1, **kernel}
    exact = SVDD(tol=1e-8, approximation=None, **settings).fit(X, y, sample_weight=weights)
    features = SVDD(tol=1e-5, approximation="nystroem", **settings)
    features.fit(X, y, sample_weight=weights)
    expected = exact.score_samples(new)
    size = np.abs(expected).max()
    np.testing.assert_allclose(features.score_samples(new), expected, rtol=0, atol=1e-4 * size)
    assert features.radius_ == pytest.approx(exact.radius_, rel=1e-4)
    assert features.center_norm2_ == pytest.approx(exact.center_norm2_, rel=1e-4)
    assert features.offset_ == pytest.approx(exact.offset_, rel=1e-4)
    ours, theirs = np.zeros(40), np.zeros(40)
    ours[features.support_], theirs[exact.support_] = features.dual_coef_, exact.dual_coef_
    if "kernel" not in kernel:  # a Gaussian kernel matrix leaves no choice of multipliers
        np.testing.assert_allclose(ours, theirs, atol=1e-3)
        assert set(features.boundary_) == set(exact.boundary_)


def test_fewer_features_give_nearly_the_same_detector():
    X = np.random.default_rng(0).normal(size=(400, 2))
    exact = SVDD(gamma=0.3).fit(X).score_samples(X)
    detector = SVDD(gamma=0.3, approximation="nystroem", n_components=60, random_state=0)
    assert np.corrcoef(detector.fit(X).score_samples(X), exact)[0, 1] > 0.999
    assert (detector.predict(X) == -1).mean() <= 0.1


def test_the_linear_centre_of_an_approximation_is_shown_too():
    X = np.random.default_rng(0).normal(5.0, 1.0, size=(50, 3))
    settings = {"kernel": "linear", "nu": 0.3}
    exact = SVDD(tol=1e-8, **settings).fit(X).center_
    found = SVDD(tol=1e-5, approximation="nystroem", **settings).fit(X).center_
    np.testing.assert_allclose(found, exact, atol=1e-4)


# ------------------------------------------------------------------------------- degenerate rows


@cases("n, nu, weighted", product((1, 2, 7), (0.1, 0.5, 1.0), (False, True)))
def test_equal_rows(n, nu, weighted):
    features = np.repeat([[3.0, 0.1, -7.7]], n, axis=0)
    weights = np.arange(1.0, n + 1) if weighted else np.ones(n)
    ball = assert_smallest(features, *rest(features, np.ones(n), weights, nu))
    np.testing.assert_allclose(ball.centre, features[0], rtol=1e-12)
    assert abs(ball.radius2) <= 1e-12 * 70


def test_rows_of_zeros():
    features = np.zeros((5, 3))
    ball = assert_smallest(features, *rest(features, np.ones(5), np.ones(5), 0.5))
    np.testing.assert_array_equal(ball.centre, 0.0)
    assert ball.radius2 == 0.0


@pytest.mark.parametrize("seed", [8, 15, 183])
def test_equal_rows_on_both_sides(seed):
    rng = np.random.default_rng(seed)
    n, r = int(rng.integers(2, 40)), int(rng.integers(1, 8))
    features = np.repeat(rng.normal(size=(1, r)) * 10 ** rng.uniform(-3, 3), n, axis=0)
    signs = np.where(rng.random(n) < 0.3, -1.0, 1.0)
    signs[0] = 1.0
    ball = assert_smallest(features, *rest(features, signs, np.ones(n), 0.02))
    np.testing.assert_allclose(ball.centre, features[0], rtol=1e-10)


def test_rows_beside_the_features_space():
    """Equal features, different κ: what sticks out counts as distance."""
    features = np.ones((4, 2))
    kappa = 2.0 + np.array([0.0, 1.0, 2.0, 3.0])
    ball = assert_smallest(features, kappa, np.full(4, 10.0), np.ones(4))
    np.testing.assert_allclose(ball.centre, [1.0, 1.0], atol=1e-4)
    assert ball.radius2 == pytest.approx(3.0, rel=1e-6)


@pytest.mark.parametrize("nu", [0.05, 0.4])
def test_rows_on_a_line(nu):
    features = np.outer(np.linspace(-3.0, 5.0, 21), [1.0, 2.0, -1.0]) + 1.0
    ball = assert_smallest(features, *rest(features, np.ones(21), np.ones(21), nu))
    np.testing.assert_allclose(ball.centre, features[10], atol=1e-3)


def test_more_features_than_rows():
    assert_smallest(*problem(n=6, r=40, nu=0.3))


def test_orthogonal_rows():
    ball = assert_smallest(np.eye(12), *rest(np.eye(12), np.ones(12), np.ones(12), 0.5))
    np.testing.assert_allclose(ball.centre, 1 / 12, atol=1e-4)
    assert ball.radius2 == pytest.approx(11 / 12, rel=1e-6)


@pytest.mark.parametrize("anomalies", [0.0, 0.3])
def test_normal_rows_all_outside_leave_the_centre_their_mean(anomalies):
    features, kappa, bounds, signs = problem(nu=1.0, weighted=True, anomalies=anomalies)
    ball = assert_smallest(features, kappa, bounds, signs)
    np.testing.assert_allclose(ball.centre, bounds[signs > 0] @ features[signs > 0])
    assert ball.gap <= 1e-12
    assert ball.radius2 == pytest.approx(distances2(features, kappa, ball.centre).min())


def test_costs_of_very_different_size():
    features, kappa, bounds, signs = problem(nu=0.3)
    assert_smallest(features, kappa, bounds * 10.0 ** np.linspace(-4, 4, 25), signs)


# ---------------------------------------------------------------------------- precision, libraries


@pytest.mark.parametrize("anomalies", [0.0, 0.3])
def test_single_precision_is_enough_for_its_own_accuracy(anomalies):
    features, kappa, bounds, signs = problem(n=60, anomalies=anomalies)
    exact = enclosing_ball(features.copy(), kappa, bounds, signs, TOL)
    single, kappa32 = features.astype(np.float32), kappa.astype(np.float32)
    ball = enclosing_ball(single, kappa32, bounds, signs, 1e-6)
    assert ball.centre.dtype == ball.beta.dtype == np.float64
    np.testing.assert_allclose(ball.centre, exact.centre, atol=3e-3)
    assert ball.radius2 == pytest.approx(exact.radius2, rel=1e-4)
    assert ball.beta.sum() == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("anomalies", [0.0, 0.3])
def test_torch_finds_the_same_ball(anomalies):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    features, kappa, bounds, signs = problem(anomalies=anomalies, weighted=True)
    expected = enclosing_ball(features.copy(), kappa, bounds, signs, TOL)
    ball = enclosing_ball(torch.tensor(features), torch.tensor(kappa), bounds, signs, TOL)
    assert isinstance(ball.centre, np.ndarray)
    np.testing.assert_allclose(ball.centre, expected.centre, atol=1e-6)
    np.testing.assert_allclose(ball.beta, expected.beta, atol=1e-5)
    assert ball.radius2 == pytest.approx(expected.radius2, rel=1e-7)


def test_blocks_change_nothing(monkeypatch):
    features, kappa, bounds, signs = problem(n=2000, r=5)
    whole = enclosing_ball(features.copy(), kappa, bounds, signs, TOL)
    monkeypatch.setattr(limits, "block", 256 * 8 * 5)
    monkeypatch.setattr(limits, "parallel", 1)
    blocks = enclosing_ball(features.copy(), kappa, bounds, signs, TOL)
    np.testing.assert_allclose(blocks.centre, whole.centre, atol=1e-7)
    assert blocks.radius2 == pytest.approx(whole.radius2, rel=1e-7)


def test_the_primal_and_the_dual_of_the_oracle_agree():
    """What the others are judged by."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3))
    K = rbf_kernel(X, gamma=0.5)
    signs = np.where(np.arange(20) < 5, -1.0, 1.0)
    bounds = np.where(signs > 0, 0.2, 0.1)
    root = np.linalg.cholesky(K + 1e-14 * np.eye(20))
    value, centre = oracle.by_primal(root, K.diagonal(), bounds, signs)
    best = oracle.by_dual(K, bounds, signs)
    assert value == pytest.approx(best.value, rel=1e-8)
    np.testing.assert_allclose(
        K @ best.beta, K @ cho_solve(cho_factor(K + 1e-14 * np.eye(20)), root @ centre), atol=1e-5
    )
