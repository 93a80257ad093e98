"""Models of many rows in memory, by thresholds that are low enough for naive loops."""

import numpy as np
import pytest

from helpers.pairwise import each_value, pairwise
from lpfuse.optim import solve
from lpfuse.optim.interior_point import interior_point
from lpfuse.optim.newton import Guess, Model
from lpfuse.optim.screening import approach, cold_guess, minimise
from oracles import naive
from oracles.problems import (
    FEW_P,
    GRID,
    GUESSES,
    LOW_THRESHOLDS,
    OPTIONS,
    PURE_OR_LABELLED,
    VARIANTS,
    assert_certified,
    random_problem,
)


def assert_proven(problem, found, tol=1e-8):
    """Naive loops come to the same bounds, and they meet."""
    costs = np.ones(problem.n) if problem.costs is None else problem.costs
    value = naive.value(problem, found.w[: problem.R], sum(found.w[problem.R :]))
    bound = naive.dual_value(problem, found.alpha / costs)
    assert naive.norm(found.w[: problem.R], problem.ball.p) <= 1 + 1e-12
    assert found.primal == pytest.approx(value, rel=1e-10)
    assert found.dual == pytest.approx(bound, rel=1e-10)
    assert naive.relative_gap(problem, value, bound) <= 1.001 * tol


@pairwise(p=FEW_P, anomalies=PURE_OR_LABELLED, **OPTIONS)
def test_screened_models_end_with_a_proof(p, anomalies, costs, nonnegative, fit_intercept):
    problem = random_problem(
        n=390,
        R=4,
        anomalies=anomalies,
        costs=costs,
        p=p,
        nonnegative=nonnegative,
        fit_intercept=fit_intercept,
    )
    assert_certified(problem, solve(problem, tuning=LOW_THRESHOLDS))


class SizedInteriorPoint:
    """The interior point, which remembers how many rows it was given."""

    def __init__(self):
        self.sizes = []

    def __call__(self, model, *args, **kwargs):
        self.sizes.append(model.n_rows)
        return interior_point(model, *args, **kwargs)


def model_of(problem):
    return Model.of_rows(problem, problem.everything()[0], problem.ball)


def minimised(problem, **options):
    options = {"tuning": LOW_THRESHOLDS, **options}
    return minimise(model_of(problem), 1e-8, problem.scale, **options)


def test_only_few_rows_reach_the_interior_point():
    problem, inner = random_problem(n=390, R=4), SizedInteriorPoint()
    assert_proven(problem, minimised(problem, inner=inner))
    assert 0 < max(inner.sizes) < 100


@pairwise(kind=GUESSES, p=(1.0, 4 / 3, np.inf), variant=("plain", "intercept"))
def test_a_model_survives_a_wrong_guess(kind, p, variant):
    problem = random_problem(n=800, R=4, p=p, **VARIANTS[variant])
    right = np.append(solve(problem).weights, [0.0] * problem.fit_intercept)
    assert_proven(problem, minimised(problem, guess=Guess(*GUESSES[kind](right))))


def test_rows_that_changed_side_are_taken_back():
    problem, inner = random_problem(n=390, R=4), SizedInteriorPoint()

    def askew(*args):
        start = approach(*args)
        return start._replace(w=0.9 * start.w)

    assert_proven(problem, minimised(problem, inner=inner, towards=askew))
    assert inner.sizes[0] < max(inner.sizes) < problem.n


def test_when_screening_fails_the_interior_point_takes_all_rows():
    problem, inner = random_problem(n=300, R=4), SizedInteriorPoint()

    def astray(*args):
        start = approach(*args)
        return start._replace(w=-start.w)

    never_mended = LOW_THRESHOLDS.screening._replace(rounds=1)
    tuning = LOW_THRESHOLDS._replace(screening=never_mended)
    assert_proven(problem, minimised(problem, inner=inner, towards=astray, tuning=tuning))
    assert inner.sizes[-1] == problem.n


@each_value(p=GRID, variant=("plain", "costs", "nonnegative", "intercept"))
def test_the_smoothed_approach_comes_near_the_optimum(p, variant):
    problem = random_problem(n=800, R=4, p=p, **VARIANTS[variant])
    model = model_of(problem)
    start = approach(model, cold_guess(model), 22)
    reached = model.primal(model.feasible(start.w))
    best = solve(problem).certificate.primal
    assert best - 1e-8 * problem.n <= reached <= 1.05 * best + 1e-3 * problem.total_cost
