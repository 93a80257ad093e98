import numpy as np
import pytest

from helpers.pairwise import each_value
from lpfuse.optim import solve, solve_path
from oracles.problems import (
    GRID,
    LOSSES,
    LOW_THRESHOLDS,
    PURE_OR_LABELLED,
    VARIANTS,
    assert_certified,
    random_problem,
)

both_losses = pytest.mark.parametrize("loss", LOSSES)


@each_value(variant=VARIANTS, loss=LOSSES, anomalies=(*PURE_OR_LABELLED, 0.2))
def test_every_p_of_a_path_is_as_good_as_alone(loss, variant, anomalies):
    problem = random_problem(n=200, anomalies=anomalies, loss=loss, **VARIANTS[variant])
    for p, solution in zip(GRID, solve_path(problem, GRID), strict=True):
        assert_certified(problem.with_ball(p), solution)
        alone = solve(problem.with_ball(p)).certificate
        slack = 1e-12 * problem.total_cost
        assert solution.certificate.primal <= alone.primal + solution.certificate.gap + slack
        assert alone.primal <= solution.certificate.primal + alone.gap + slack


@both_losses
def test_the_grid_keeps_its_order_and_its_repeats(loss):
    problem = random_problem(loss=loss)
    ps = [10.0, 1.0, np.inf, 4 / 3, 1.0]
    for p, solution in zip(ps, solve_path(problem, ps), strict=True):
        assert_certified(problem.with_ball(p), solution)


@each_value(variant=VARIANTS, anomalies=(0.0, 0.2))
def test_the_path_of_many_rows_is_proven(variant, anomalies):
    problem = random_problem(n=1500, R=4, anomalies=anomalies, **VARIANTS[variant])
    for p, solution in zip(GRID, solve_path(problem, GRID, tuning=LOW_THRESHOLDS), strict=True):
        assert_certified(problem.with_ball(p), solution)


def test_a_least_squares_path_reads_the_scores_once():
    problem = random_problem(n=5000, loss="least_squares", fit_intercept=True)
    assert {solution.certificate.passes for solution in solve_path(problem, GRID)} == {1.0}


def test_a_path_of_many_rows_shares_its_passes():
    problem = random_problem(n=1600, R=4)
    counted = [
        solution.certificate.passes for solution in solve_path(problem, GRID, tuning=LOW_THRESHOLDS)
    ]
    alone = sum(solve(problem.with_ball(p), tuning=LOW_THRESHOLDS).certificate.passes for p in GRID)
    assert min(counted) >= 400 / 1600 + 2  # the sample, a partition, an examination
    assert max(counted) < 0.5 * alone


def test_ties_are_broken_for_every_p_of_a_path():
    problem = random_problem(n=600, R=4, fit_intercept=True)
    problem.S = problem.S + 4.0 * problem.y[:, None] * np.array([1.0, 0.3, 1.0, 0.5])
    for p, solution in zip(GRID, solve_path(problem, GRID, tuning=LOW_THRESHOLDS), strict=True):
        alone = solve(problem.with_ball(p), tuning=LOW_THRESHOLDS)
        np.testing.assert_allclose(solution.weights, alone.weights, rtol=0, atol=1e-6)


def test_the_tolerance_holds_for_every_p():
    problem = random_problem(n=300)
    for p, solution in zip(GRID, solve_path(problem, GRID, tol=1e-4), strict=True):
        assert_certified(problem.with_ball(p), solution, tol=1e-4)


def test_too_few_steps_are_admitted_for_every_p():
    problem = random_problem(n=300, R=8)
    for solution in solve_path(problem, [1.0, 2.0], max_iter=2):
        assert solution.certificate.status == "max_iter"


def test_the_path_does_not_depend_on_earlier_calls():
    problem = random_problem(n=400)
    first = solve_path(problem, GRID)
    problem.everything()
    for one, other in zip(first, solve_path(problem, GRID), strict=True):
        np.testing.assert_array_equal(one.weights, other.weights)
