from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lpfuse._arrays
from lpfuse.optim import Problem
from oracles import naive
from oracles.problems import GRID, random_problem

problems = st.builds(
    random_problem,
    seed=st.integers(0, 999),
    n=st.integers(1, 30),
    R=st.integers(1, 6),
    anomalies=st.sampled_from([0.0, 0.3]),
    costs=st.booleans(),
    p=st.sampled_from(GRID),
    loss=st.sampled_from(["hinge", "least_squares"]),
    nonnegative=st.booleans(),
    fit_intercept=st.booleans(),
)


def random_point(problem, seed):
    """Weights in the ball and an intercept."""
    rng = np.random.default_rng(seed)
    w = problem.ball.scale_into(rng.normal(size=problem.R))
    return w, float(rng.normal()) if problem.fit_intercept else 0.0


def random_alpha(problem, seed):
    """A dual point: in [0, 1] for the hinge, balanced where there is an intercept."""
    alpha = np.random.default_rng(seed).uniform(0.0, 1.0, problem.n)
    if problem.fit_intercept:
        y = np.ones(problem.n) if problem.y is None else problem.y
        mass = alpha if problem.costs is None else alpha * problem.costs
        normal, anomalous = mass[y > 0].sum(), mass[y < 0].sum()
        lighter = min(normal, anomalous)
        alpha = alpha * np.where(y > 0, lighter / normal, lighter / max(anomalous, 1e-300))
    return alpha if problem.loss.name == "hinge" else 5.0 * alpha


@given(problem=problems, seed=st.integers(0, 99))
def test_the_value_agrees_with_naive_loops(problem, seed):
    w, b = random_point(problem, seed)
    assert problem.value(w, b) == pytest.approx(naive.value(problem, w, b), rel=1e-12, abs=1e-12)


@given(problem=problems, seed=st.integers(0, 99))
def test_the_dual_value_agrees_with_naive_loops(problem, seed):
    alpha = random_alpha(problem, seed)
    expected = naive.dual_value(problem, alpha)
    assert problem.dual_value(alpha) == pytest.approx(expected, rel=1e-11, abs=1e-11)


@given(problem=problems, seed=st.integers(0, 99))
def test_every_dual_value_is_below_every_value(problem, seed):
    value = problem.value(*random_point(problem, seed))
    assert problem.dual_value(random_alpha(problem, seed)) <= value + 1e-11 * (1 + value)


@given(
    problem=problems.filter(lambda q: q.loss.name == "least_squares" or not q.fit_intercept),
    seed=st.integers(0, 99),
)
def test_dual_points_of_weights_are_admissible(problem, seed):
    w, b = random_point(problem, seed)
    bound = naive.dual_value(problem, problem.dual_point(w))
    assert -inf < bound <= problem.value(w, b) + 1e-9 * (1 + problem.value(w, b))


def test_the_dual_point_of_least_squares_proves_unconstrained_optima():
    problem = random_problem(n=40, R=3, loss="least_squares", fit_intercept=True, p=2.0, scale=9.0)
    X = np.c_[problem.S, np.ones(40)]
    *w, b = np.linalg.lstsq(X, problem.y)[0]
    assert naive.norm(w, 2.0) < 1  # inside the ball, so optimal over it
    best = naive.value(problem, w, b)
    assert naive.dual_value(problem, problem.dual_point(np.array(w))) == pytest.approx(best)


def test_an_unbalanced_dual_point_proves_nothing_with_an_intercept():
    S, y = np.array([[1.0], [2.0], [0.5]]), np.array([1.0, 1.0, -1.0])
    free = Problem(S, y, fit_intercept=True)
    assert free.dual_value(np.array([1.0, 0.0, 0.5])) == -inf
    assert free.dual_value(np.array([0.5, 0.0, 0.5])) == pytest.approx(1.0 - 0.25)
    assert Problem(S, y).dual_value(np.array([1.0, 0.0, 0.5])) == pytest.approx(1.5 - 0.75)


def test_values_by_hand():
    data = np.array([[0.0, 2.0], [0.5, 0.0]]), [1, -1]
    problem = Problem(*data, costs=[1.0, 4.0], fit_intercept=True)
    assert problem.value(np.array([1.0, 0.25])) == 0.5 + 4 * 1.5
    assert problem.value(np.array([1.0, 0.25]), 0.5) == 0.0 + 4 * 2.0
    squares = Problem(*data, costs=[1.0, 4.0], loss="least_squares")
    assert squares.value(np.array([1.0, 0.25])) == 0.25 + 4 * 2.25


@pytest.mark.parametrize("workers_from", [0, 2**60], ids=["threads", "one thread"])
def test_many_blocks_give_the_same_sums(monkeypatch, workers_from):
    monkeypatch.setattr(lpfuse._arrays.operations.limits, "block", 1)  # 256 rows a block
    monkeypatch.setattr(lpfuse._arrays.operations.limits, "parallel", workers_from)
    problem = random_problem(n=1001, R=3, costs=True, fit_intercept=True, loss="least_squares")
    w, b = random_point(problem, 0)
    alpha = problem.dual_point(w)
    assert alpha.shape == (1001,)
    assert problem.value(w, b) == pytest.approx(naive.value(problem, w, b), rel=1e-12)
    assert problem.dual_value(alpha) == pytest.approx(naive.dual_value(problem, alpha), rel=1e-12)


@settings(max_examples=20)
@given(seed=st.integers(0, 99))
def test_float32_scores_are_summed_in_float64(seed):
    problem = random_problem(seed, n=500)
    w = problem.ball.uniform(problem.R)
    single = problem.S.astype(np.float32)
    expected = Problem(single.astype(np.float64), problem.y).value(w)
    assert Problem(single, problem.y).value(w) == pytest.approx(expected, rel=1e-13)


def test_another_ball_keeps_the_data_and_the_settings():
    problem = random_problem(nonnegative=True, fit_intercept=True, costs=True, p=2.0)
    other = problem.with_ball(np.inf)
    assert (other.ball.p, other.ball.nonnegative, other.fit_intercept) == (np.inf, True, True)
    assert other.S is problem.S
    assert other.costs is problem.costs
    assert problem.ball.p == 2.0
