import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from helpers.cases import cases
from lpfuse.optim import LpBall
from oracles import naive
from oracles.problems import GRID

balls = st.sampled_from(
    [LpBall(p, nonnegative) for p in (*GRID, 1.0 + 1e-9, 1e6) for nonnegative in (False, True)]
)
examples_of_all_balls = settings(max_examples=300)
# Quarters: ties and zeros are common. The powers of ten reach the ends of float64.
vectors = st.builds(
    lambda v, power: v * 10.0**power,
    st.integers(1, 6).flatmap(
        lambda R: arrays(np.float64, R, elements=st.integers(-40, 40).map(lambda k: k / 4))
    ),
    st.sampled_from([-300, -30, -3, 0, 3, 30, 300]),
)


@examples_of_all_balls
@given(ball=balls, g=vectors)
@np.errstate(over="raise", invalid="raise", divide="raise")
def test_the_linear_oracle_attains_the_dual_norm(ball, g):
    z = ball.linear_oracle(g)
    np.testing.assert_allclose(g @ z, -ball.dual_norm(-g), rtol=1e-12)


@examples_of_all_balls
@given(ball=balls, g=vectors)
def test_the_linear_oracle_stays_in_the_ball(ball, g):
    z = ball.linear_oracle(g)
    assert naive.norm(z, ball.p) <= 1 + 1e-12
    assert not ball.nonnegative or z.min() >= 0


@examples_of_all_balls
@given(ball=balls, g=vectors, seed=st.integers(0, 99))
def test_no_point_of_the_ball_beats_the_linear_oracle(ball, g, seed):
    w = ball.scale_into(np.random.default_rng(seed).normal(size=g.size) * 3)
    assert g @ ball.linear_oracle(g) <= g @ w + 1e-12 * np.abs(g).max()


@examples_of_all_balls
@given(ball=balls, v=vectors)
def test_norms_agree_with_the_naive_ones(ball, v):
    np.testing.assert_allclose(ball.norm(v), naive.norm(v, ball.p), rtol=1e-12)
    seen = np.maximum(v, 0.0) if ball.nonnegative else v
    expected = naive.norm(seen, naive.conjugate(ball.p))
    np.testing.assert_allclose(ball.dual_norm(v), expected, rtol=1e-12)


@cases("p", GRID)
def test_a_gradient_without_direction_gives_the_zero_vector(p):
    assert LpBall(p).linear_oracle(np.zeros(3)).tolist() == [0.0, 0.0, 0.0]
    upwards = np.array([1.0, 0.0, 2.0])
    assert LpBall(p, nonnegative=True).linear_oracle(upwards).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("p", [32 / 31, 4 / 3, 2.0, 10.0, 100.0])
def test_the_linear_oracle_is_the_formula_of_the_paper(p):
    g = np.array([0.9, -1.1, 0.3])
    power = np.abs(g) ** (1 / (p - 1))
    expected = -np.sign(g) * power / (power**p).sum() ** (1 / p)
    np.testing.assert_allclose(LpBall(p).linear_oracle(g), expected, rtol=1e-12)


def test_at_p_1_the_first_of_equal_entries_takes_all():
    assert LpBall(1.0).linear_oracle(np.array([1.0, -3.0, 3.0])).tolist() == [0.0, 1.0, 0.0]


def test_at_p_inf_entries_go_to_bounds_and_zeros_stay():
    assert LpBall(np.inf).linear_oracle(np.array([2.0, -1e-9, 0.0])).tolist() == [-1.0, 1.0, 0.0]
    cut = LpBall(np.inf, nonnegative=True)
    assert cut.linear_oracle(np.array([2.0, -1e-9, 0.0])).tolist() == [0.0, 1.0, 0.0]


@cases("p", GRID)
def test_equal_entries_share_equally_above_p_1(p):
    z = LpBall(p).linear_oracle(np.full(4, -5.0))
    expected = [1.0, 0.0, 0.0, 0.0] if p == 1 else [4 ** (-1 / p)] * 4
    np.testing.assert_allclose(z, expected, rtol=1e-14)


@examples_of_all_balls
@given(ball=balls, w=vectors)
def test_scaling_brings_any_vector_into_the_ball(ball, w):
    scaled = ball.scale_into(w)
    assert ball.norm(scaled) <= 1.0
    kept = np.maximum(w, 0.0) if ball.nonnegative else w
    if ball.norm(kept) < 1.0:
        np.testing.assert_array_equal(scaled, kept)
    else:
        np.testing.assert_allclose(scaled * ball.norm(kept), kept, rtol=1e-12)


@examples_of_all_balls
@given(ball=balls, R=st.integers(1, 300))
def test_uniform_weights_are_equal_and_on_the_surface(ball, R):
    uniform = ball.uniform(R)
    assert len(set(uniform)) == 1
    np.testing.assert_allclose(naive.norm(uniform, ball.p), 1.0, rtol=1e-12)


@pytest.mark.parametrize(("p", "q"), [(1.0, np.inf), (4 / 3, 4.0), (2.0, 2.0), (np.inf, 1.0)])
def test_the_conjugate_exponents(p, q):
    assert LpBall(p).q == pytest.approx(q, rel=1e-15)
