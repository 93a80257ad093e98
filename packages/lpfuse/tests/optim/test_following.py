"""A mixture that cannot lose much, and gradient descent over the ball: bounds as inequalities."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lpfuse.optim import LpBall
from lpfuse.optim._following import GradientLearner, SafeMixture, diameter_of, drawn_in
from oracles.following import NaiveMixture
from oracles.problems import GRID

gains = st.lists(st.floats(-3, 3), max_size=60)
seeds = st.integers(0, 10_000)
few_examples = settings(max_examples=40, deadline=None)


def played(mixture, gains, refill_every=None):
    """Regrets to the base and to the other strategy; the losses of both differ by the gains."""
    to_base = to_other = 0.0
    for t, gain in enumerate(gains, start=1):
        share = mixture.share
        assert 0.0 <= share <= 1.0
        to_base -= share * gain
        to_other += (1.0 - share) * gain
        mixture.update(gain)
        if refill_every and t % refill_every == 0:
            mixture.refill()
    return to_base, to_other


def holds(mixture, to_base, to_other):
    assert to_base <= mixture.bound_to_base() + 1e-9
    assert to_other <= mixture.bound_to_other() + 1e-9


@given(gains=gains, scale=st.sampled_from([1e-3, 1.0, 10.0]), every=st.sampled_from([None, 7]))
@few_examples
def test_the_mixture_is_what_its_formula_says(gains, scale, every):
    ours, naive = SafeMixture(scale), NaiveMixture(scale)
    assert ours.share == pytest.approx(1.0)
    for t, gain in enumerate(gains, start=1):
        ours.update(gain)
        naive.update(gain)
        if every and t % every == 0:
            ours.refill()
            naive.refill()
        assert ours.share == pytest.approx(naive.share, rel=1e-9, abs=1e-12)


@given(gains=gains, scale=st.sampled_from([1e-6, 1e-3, 1.0, 10.0]), every=st.integers(1, 20))
@few_examples
def test_the_bounds_hold_whatever_comes(gains, scale, every):
    mixture = SafeMixture(scale)
    holds(mixture, *played(mixture, gains, every))


T = np.arange(20_000)
ADVERSARIES = {
    "always worse": -np.ones(T.size),
    "always better": np.ones(T.size),
    "alternating": np.where(T % 2, 1.0, -1.0),
    "worse, then better": np.where(T < T.size // 2, -1.0, 1.0),
    "better, then worse": np.where(T < T.size // 2, 1.0, -1.0),
    "noise": np.random.default_rng(0).choice([-1.0, 1.0], T.size),
    "a little better": np.random.default_rng(1).choice([-1.0, 1.0], T.size, p=[0.49, 0.51]),
    "growing": np.random.default_rng(2).normal(size=T.size) * 1.0005**T,
    "heavy tails": np.random.default_rng(3).standard_t(1.1, T.size),
    "waves": np.sin(T / 300.0),
}


@pytest.mark.parametrize("name", ADVERSARIES)
def test_regret_to_the_base_is_constant_and_to_the_other_a_root(name):
    gains, mixture = ADVERSARIES[name], SafeMixture(0.01)
    regrets = played(mixture, gains, refill_every=50)
    holds(mixture, *regrets)
    assert mixture.bound_to_base() == pytest.approx(7 * np.abs(gains).max())
    # No bound that says nothing: of the root's order, with the logarithm.
    heard = max(mixture.squares, mixture.scale**2)
    assert mixture.bound_to_other() <= 12 * np.sqrt(heard * np.log(heard / 0.01**2 + 9)) + 500


def test_an_adversary_that_sees_the_share_takes_no_more():
    """Gains that hurt most: against the other strategy where it is trusted, for it where not."""
    for trust in (0.2, 0.5, 0.8):
        mixture, to_base, to_other = SafeMixture(1.0), 0.0, 0.0
        for _ in range(20_000):
            gain = -1.0 if mixture.share > trust else 1.0
            to_base -= mixture.share * gain
            to_other += (1 - mixture.share) * gain
            mixture.update(gain)
        holds(mixture, to_base, to_other)


def test_a_strategy_that_was_bad_for_long_is_trusted_again_soon():
    mixture = SafeMixture(1.0)
    for t in range(5000):
        mixture.update(-1.0)
        if t % 50 == 0:
            mixture.refill()
    assert mixture.share < 0.01
    mixture.refill()
    rounds = 0
    while mixture.share < 1.0:
        mixture.update(0.5)
        rounds += 1
    assert rounds < 100


def balls(rng, R):
    """All kinds: every p, a prior or none, w ≥ 0 or any."""
    for p in (*GRID, 1.01, 50.0):
        for nonnegative in (False, True):
            yield LpBall(p, nonnegative)
            centre = np.abs(rng.normal(size=R)) if nonnegative else rng.normal(size=R)
            yield LpBall(p, nonnegative, centre, float(rng.choice([0.3, 2.0])))


@given(seed=seeds)
@settings(max_examples=25, deadline=None)
def test_a_point_is_drawn_into_the_ball_and_nearer_to_all_of_it(seed):
    rng = np.random.default_rng(seed)
    R = int(rng.integers(1, 8))
    for ball in balls(rng, R):
        inside = ball.scale_into(ball.preferred(R) + rng.normal(size=R))
        x = inside + rng.normal(size=R) * rng.choice([0.01, 0.3, 3.0])
        found = drawn_in(ball, x)
        assert ball.gauge(found) <= 1 + 1e-12
        assert not ball.nonnegative or found.min() >= 0
        for _ in range(5):
            u = ball.scale_into(ball.preferred(R) + rng.normal(size=R))
            assert np.linalg.norm(found - u) <= np.linalg.norm(x - u) + 1e-7


def test_inside_nothing_moves_and_around_a_point_of_no_extent_nothing_can():
    w = np.array([0.3, 0.4])
    np.testing.assert_array_equal(drawn_in(LpBall(2.0), w), w)
    fixed = LpBall(2.0, centre=w, radius=0.0)
    np.testing.assert_array_equal(drawn_in(fixed, w + 5), w)


@given(seed=seeds)
@few_examples
def test_no_two_points_are_farther_apart_than_the_diameter(seed):
    rng = np.random.default_rng(seed)
    R = int(rng.integers(1, 8))
    for ball in balls(rng, R):
        u, v = (ball.linear_oracle(rng.normal(size=R)) for _ in range(2))
        assert np.linalg.norm(u - v) <= diameter_of(ball, R) * (1 + 1e-9)


@pytest.mark.parametrize("kind", ["random", "alternating", "against", "drifting"])
def test_descent_competes_with_the_best_fixed_point(kind):
    """Linear losses: the best fixed point is the linear oracle of their sum."""
    rng, R, rounds = np.random.default_rng(5), 4, 3000
    for ball in balls(rng, R):
        start = np.append(ball.preferred(R), 0.0)
        learner, suffered = GradientLearner.start(ball, start), 0.0
        total = np.zeros(R)
        for t in range(rounds if ball.p in (1.0, 2.0) else 300):
            slope = {
                "random": rng.normal(size=R),
                "alternating": np.where(t % 2, 1.0, -1.0) * np.ones(R),
                "against": np.sign(learner.point[:R]) + 0.1,
                "drifting": np.cos(t / 100 + np.arange(R)),
            }[kind]
            suffered += slope @ learner.point[:R]
            total += slope
            learner.update(ball, np.append(slope, 0.0))
        assert suffered - total @ ball.linear_oracle(total) <= learner.bound() + 1e-9


def test_the_intercept_stays_in_its_interval():
    learner = GradientLearner.start(LpBall(2.0), np.array([0.5, 0.1, 1.0]), 2.0)
    for _ in range(100):
        learner.update(LpBall(2.0), np.array([0.0, 0.0, 1.0]))
    assert learner.point[-1] == -1.0
    np.testing.assert_array_equal(learner.point[:-1], [0.5, 0.1])
