"""Balls of group norms: oracle, dual norm, pairs and optima."""

import math

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lpfuse.optim import LpBall, Problem, solve
from lpfuse.optim.balls import GroupBall, ball_of
from lpfuse.optim.newton import GroupPairs, Spread
from oracles import cvxpy_models, naive

EXPONENTS = (1.0, 32 / 31, 4 / 3, 2.0, 4.0, 100.0, math.inf)
exponents = st.sampled_from(EXPONENTS)


@st.composite
def balls(draw, centred=True):
    """A ball, and a vector of its size with ties and zeros."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    R, nonnegative = draw(st.integers(1, 7)), draw(st.booleans())
    centre, radius = None, draw(st.sampled_from([1.0, 0.25, 3.0]))
    if centred and draw(st.booleans()):
        centre = rng.uniform(0.0, 0.5, R) * (rng.random(R) < 0.8)
    norm = {"groups": groups(rng, R), "q": draw(exponents)}
    nonnegative = nonnegative and centre is None
    v = np.round(4 * rng.normal(size=R)) / 4 * 10.0 ** draw(st.sampled_from([-30, 0, 30]))
    return ball_of(draw(exponents), nonnegative, centre, radius, **norm), v


def groups(rng, R):
    """Numbers of groups, all of which occur."""
    return np.unique(rng.integers(0, 3, R), return_inverse=True)[1].tolist()


def naive_norm(ball, v):
    """The norm, group by group."""
    of = np.array(ball.groups)
    each = [naive.norm(v[of == g], ball.inner) for g in sorted(set(ball.groups))]
    return naive.norm(np.array(each), ball.p)


@settings(max_examples=200, deadline=None)
@given(balls(centred=False))
def test_norms_agree_with_the_naive_ones(drawn):
    ball, v = drawn
    assert ball.norm(v) == pytest.approx(naive_norm(ball, v), rel=1e-9, abs=1e-290)
    uniform = ball.uniform(v.size)
    assert len(set(uniform)) == 1
    assert ball.gauge(ball.at(uniform)) == pytest.approx(1.0)


@settings(max_examples=300, deadline=None)
@given(balls(), st.integers(0, 99))
def test_the_oracle_attains_the_support_and_nothing_is_beyond(drawn, seed):
    ball, v = drawn
    w, size = ball.linear_oracle(-v), np.abs(v).max()
    assert v @ w == pytest.approx(ball.support(v), rel=1e-11, abs=1e-11 * size)
    assert ball.gauge(w) <= 1.0 + 1e-12
    assert not ball.nonnegative or w.min() >= 0.0
    other = ball.scale_into(3.0 * np.random.default_rng(seed).normal(size=v.size))
    assert ball.gauge(other) <= 1.0
    assert v @ other <= ball.support(v) + 1e-12 * size
    assert ball.support(v) <= ball.stretch(v.size) * size * (1 + 1e-12)


def constraints(w, p, centre, radius, groups, q):
    """The ball for cvxpy."""
    of = np.array(groups)
    each = [cp.norm(w[np.flatnonzero(of == g)] - centre[of == g], q) for g in sorted(set(of))]
    return [cp.norm(cp.hstack(each), p) <= radius]


@pytest.mark.parametrize("loss", ["hinge", "least_squares"])
@pytest.mark.parametrize("seed", range(12))
def test_the_optimum_of_clarabel_is_reached_and_proven(seed, loss):
    rng = np.random.default_rng(seed)
    n, R = 40, int(rng.integers(2, 8))
    y = np.where(rng.random(n) < 0.3, -1.0, 1.0)
    S = rng.normal(size=(n, R)) + 0.5 * y[:, None] * rng.random(R)
    norm = {"groups": groups(rng, R), "q": float(rng.choice([1.0, 4 / 3, 2.0, 4.0, math.inf]))}
    p = float(rng.choice([1.0, 4 / 3, 2.0, 4.0, math.inf]))
    centre, radius = (rng.random(R) * 0.4, 0.3) if seed % 2 else (np.zeros(R), 1.0)
    nonnegative = seed % 4 == 0
    w, b = cp.Variable(R, nonneg=nonnegative), cp.Variable()
    residuals = 1.0 - cp.multiply(y, S @ w + b)
    value = cp.sum(cp.pos(residuals) if loss == "hinge" else cp.square(residuals))
    ball = constraints(w, p, centre, radius, **norm)
    cvxpy_models.minimise(value, ball, 1e-10)
    common = {"p": p, "loss": loss, "nonnegative": nonnegative, "fit_intercept": True}
    around = centre if seed % 2 else None
    solution = solve(Problem(S, y, centre=around, radius=radius, **common, **norm))
    assert solution.certificate.status == "optimal"
    assert solution.certificate.primal == pytest.approx(float(value.value), rel=2e-6)
    assert solution.certificate.primal <= float(value.value) * (1 + 1e-7)


def test_limits_are_the_lp_balls():
    v = np.random.default_rng(0).normal(size=6)
    for p in EXPONENTS:
        one = GroupBall(4.0, inner=p, groups=(0,) * 6)
        apart = GroupBall(p, inner=3.0, groups=tuple(range(6)))
        same = GroupBall(p, inner=p, groups=(0, 1, 0, 1, 2, 2))
        for ball in (one, apart, same):
            assert ball.norm(v) == pytest.approx(LpBall(p).norm(v))
            assert ball.dual_norm(v) == pytest.approx(LpBall(p).dual_norm(v))


def test_many_rows_reach_the_optimum_too():
    """The search with a sample and smoothed hinges, for n beyond what is solved at once."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(30_000) < 0.2, -1.0, 1.0)
    S = (rng.normal(size=(30_000, 5)) + 0.5 * y[:, None]).clip(-3, 3)
    groups = [0, 0, 1, 1, 2]
    solution = solve(Problem(S, y, p=4 / 3, fit_intercept=True, groups=groups, q=4.0))
    assert solution.certificate.status == "optimal"


@settings(max_examples=60, deadline=None)
@given(exponents, exponents, st.booleans(), st.integers(0, 999))
def test_a_step_of_the_pairs_solves_the_linearised_conditions(p, q, nonnegative, seed):
    """By differences: the conditions of `GroupPairs` after a short part of the step."""
    rng = np.random.default_rng(seed)
    ball = GroupBall(p, nonnegative, None, 0.7, inner=q, groups=(0, 0, 1, 2, 1))
    pairs = GroupPairs(ball, np.full(5, 0.01), Spread(0.1, 1.0))
    pairs.x = pairs.x * rng.uniform(0.8, 1.25, pairs.x.size)
    pairs.z = pairs.z * rng.uniform(0.8, 1.25, pairs.z.size)
    curvature, pull = np.eye(5), rng.normal(size=5)
    change = 0.1 - pairs.x * pairs.z
    step = np.linalg.solve(pairs.bordered(curvature), pairs.right_side(pull, change))
    border = np.linalg.solve(pairs.bordered(curvature), pairs.border_column(5))
    d_kappa = pairs.multiplier_step(step, border)
    step = step + d_kappa * border
    found = pairs.direction(step, d_kappa)
    np.testing.assert_allclose(pairs.z * found.dx + pairs.x * found.dz, change, atol=1e-9)
    h = 1e-6

    def conditions(part):
        x, z = pairs.x + part * found.dx, pairs.z + part * found.dz
        eta, v = pairs.eta + part * found.d_eta, pairs.v + part * found.dw
        m, t, of = x[10:15], x[15:], pairs.of
        sigma, a, b, e = pairs.sigma, (1 - 1 / q) / p, 1 / q, 1 / p
        tau = 0.7 * t[of] ** a * m**b
        press = z[:5] + sigma * z[5:10]
        sums = [np.bincount(of, weights=each) for each in (m, press * a * tau / t[of])]
        return np.concatenate(
            [
                x[:5] + v - tau,
                x[5:10] - v - sigma * tau,
                eta[of] - press * b * tau / m - z[10:15],
                eta[-1] - sums[1] - eta[:-1] * e * t ** (e - 1) - z[15:],
                sums[0] - t**e,
                [t.sum() - 1.0],
            ]
        )

    # Newton: F + F′ dx = 0.
    slope = (conditions(h) - conditions(-h)) / (2 * h)
    scale = 1.0 + np.abs(slope).max()
    np.testing.assert_allclose(conditions(0.0) + slope, 0.0, atol=1e-6 * scale)
    left = curvature @ found.dw + pairs.pressure(found.dz)
    np.testing.assert_allclose(left, pull, atol=1e-8 * (1.0 + np.abs(found.dz).max()))
