"""The judge must be right: everything else in the benchmark rests on it."""

import math

import numpy as np
import pytest

from helpers.cases import cases
from research.common.judge import (
    FusionProblem,
    Judge,
    conjugate,
    dual_bound,
    into_ball,
    lp_norm,
    objective,
    relative_gap,
)
from research.speed.solver.problems import ALL_P, parse_p, synthetic_scores

P = [parse_p(label) for label in ALL_P]


def small_problem(p, n=30, R=2, seed=0, costs=None):
    scores, labels = synthetic_scores(n, R, 0.2, seed)
    return FusionProblem(scores, labels, p, costs)


def naive_objective(problem, w):
    total = 0.0
    for s, y, c in zip(problem.scores, problem.labels, problem.cost_vector, strict=True):
        total += c * max(0.0, 1.0 - y * sum(s[j] * w[j] for j in range(len(w))))
    return total


def brute_force_minimum(problem, steps=4001):
    """R = 2: every direction, and along each every length (the loss is convex in it)."""
    best = math.inf
    for angle in np.linspace(0.0, 2.0 * np.pi, steps):
        direction = np.array([np.cos(angle), np.sin(angle)])
        direction /= lp_norm(direction, problem.p)
        for length in (0.0, 0.25, 0.5, 0.75, 1.0):
            best = min(best, objective(problem, length * direction))
    return best


@cases("p", P)
def test_objective_agrees_with_a_naive_loop(p):
    costs = np.random.default_rng(1).uniform(0.1, 3.0, 30)
    problem = small_problem(p, R=4, costs=costs)
    w = into_ball(np.random.default_rng(2).normal(size=4), p)
    assert objective(problem, w) == pytest.approx(naive_objective(problem, w), rel=1e-13)


@cases("p", P)
def test_dual_bound_never_exceeds_the_minimum(p):
    problem = small_problem(p)
    minimum = brute_force_minimum(problem, steps=721)
    rng = np.random.default_rng(3)
    for _ in range(50):
        assert dual_bound(problem, rng.uniform(-0.5, 1.5, problem.n)) <= minimum + 1e-12


def test_dual_bound_is_blockwise_but_exact():
    problem = small_problem(4 / 3, n=101, R=3)
    alpha = np.random.default_rng(0).random(101)
    rows = problem.scores * (alpha * problem.labels)[:, None]
    expected = alpha.sum() - lp_norm(rows.sum(axis=0), conjugate(4 / 3))
    assert dual_bound(problem, alpha, block_rows=10) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("p", [1.0, 8 / 7, 2.0, 10.0, math.inf])
def test_judge_accepts_the_optimum_and_refuses_what_is_worse(p):
    lpfuse = pytest.importorskip("research.rivals.solvers.lpfuse_interior_point")
    problem = small_problem(p)
    answer = lpfuse.solve(problem, 1e-10, 60.0)
    judge = Judge.from_certificate(problem, answer.alpha)
    assert judge.judge(answer.weights).relative_gap <= 1e-9
    assert judge.bound == pytest.approx(brute_force_minimum(problem), rel=1e-3)
    assert judge.judge(0.9 * answer.weights).relative_gap > 1e-6


def test_judge_scales_weights_into_the_ball():
    problem = small_problem(2.0)
    judge = Judge(problem, bound=0.0)
    outside = np.array([30.0, 40.0])
    found = judge.judge(outside)
    assert found.norm == pytest.approx(50.0)
    assert found.objective == pytest.approx(objective(problem, outside / 50.0))


def test_judge_gives_no_gap_to_nan():
    found = Judge(small_problem(2.0), bound=0.0).judge(np.array([np.nan, 0.0]))
    assert found.relative_gap == math.inf


def test_relative_gap_has_a_floor_under_a_vanishing_loss():
    problem = small_problem(2.0, n=30)
    assert relative_gap(problem, 0.0, -3e-5) == pytest.approx(1e-3)


@cases("p", P)
def test_norms_and_hoelder_equality(p):
    x = np.array([3.0, -4.0, 1e-3])
    if math.isinf(p):
        assert lp_norm(x, p) == 4.0
    else:
        assert lp_norm(x, p) == pytest.approx(np.linalg.norm(x, p))
    v = np.random.default_rng(0).normal(size=3)
    assert abs(x @ v) <= lp_norm(x, p) * lp_norm(v, conjugate(p)) + 1e-12


def test_norm_does_not_overflow():
    assert lp_norm(np.array([1e200, 1e200]), 100.0) == pytest.approx(1e200 * 2 ** (1 / 100))
