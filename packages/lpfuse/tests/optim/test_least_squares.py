import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lpfuse._arrays
from lpfuse.optim import solve
from lpfuse.optim.interior_point import quadratic_model
from lpfuse.optim.moments import Moments
from oracles import naive
from oracles.problems import assert_certified, random_problem


@settings(max_examples=50)
@given(
    seed=st.integers(0, 999),
    n=st.integers(1, 30),
    R=st.integers(1, 5),
    anomalies=st.sampled_from([0.0, 0.3]),
    costs=st.booleans(),
    fit_intercept=st.booleans(),
)
def test_moments_reproduce_the_value_of_any_weights(seed, **settings):
    problem = random_problem(seed, loss="least_squares", **settings)
    moments = Moments.of(problem)
    w = np.random.default_rng(seed).normal(size=problem.R)
    quadratic = moments.constant - 2.0 * moments.cross @ w + w @ moments.gram @ w
    b = moments.intercept(w)
    assert quadratic == pytest.approx(naive.value(problem, w, b), rel=1e-10, abs=1e-10)
    assert quadratic_model(moments, problem.ball).primal(w) == pytest.approx(
        quadratic, rel=1e-12, abs=1e-12
    )


def test_the_intercept_is_the_best_one_for_the_weights():
    problem = random_problem(costs=True, fit_intercept=True, loss="least_squares")
    solution = solve(problem)
    at = [naive.value(problem, solution.weights, solution.intercept + d) for d in (-1e-3, 0, 1e-3)]
    assert at[1] < min(at[0], at[2])


def test_a_wide_ball_gives_ordinary_least_squares():
    problem = random_problem(n=200, R=4, loss="least_squares", fit_intercept=True, scale=10.0)
    *w, b = np.linalg.lstsq(np.c_[problem.S, np.ones(200)], problem.y)[0]
    solution = solve(problem, tol=1e-12)
    np.testing.assert_allclose(solution.weights, w, atol=1e-6)
    assert solution.intercept == pytest.approx(b, abs=1e-5)


def test_scores_are_read_once_whatever_their_number(monkeypatch):
    monkeypatch.setattr(lpfuse._arrays.operations.limits, "block", 1)
    problem = random_problem(n=5000, R=3, costs=True, fit_intercept=True, loss="least_squares")
    solution = solve(problem)
    assert solution.certificate.passes == 1.0
    assert_certified(problem, solution)


@pytest.mark.parametrize("offset", [1e2, 1e4, 1e6])
def test_a_large_common_offset_is_absorbed_by_the_intercept(offset):
    """Scores far from zero with a small spread: sums of squares cancel, the proof must not."""
    problem = random_problem(n=300, R=4, loss="least_squares", fit_intercept=True)
    plain = solve(problem)
    problem.S = problem.S + offset
    moved = solve(problem)
    best = plain.certificate.primal
    assert naive.value(problem, moved.weights, moved.intercept) == pytest.approx(best, rel=1e-8)
    assert moved.certificate.primal == pytest.approx(best, rel=1e-8)
    assert moved.certificate.dual <= best * (1 + 1e-9)
    assert moved.certificate.status == "optimal"


@pytest.mark.parametrize("offset", [1e2, 1e4, 1e6])
def test_an_offset_without_an_intercept_costs_digits_not_truth(offset):
    problem = random_problem(n=300, R=4, loss="least_squares", p=np.inf)
    problem.S = problem.S + offset
    w = np.linalg.lstsq(problem.S, problem.y, rcond=None)[0]
    assert np.abs(w).max() < 1  # inside the ball, so optimal over it, but for rounding
    best = naive.value(problem, w)
    proof = solve(problem).certificate
    assert proof.dual <= best * (1 + 1e-9)
    assert proof.primal <= best * (1 + max(proof.relative_gap, 1e-8))
