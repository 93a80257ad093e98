"""Models of many rows in memory. Thresholds are lowered (see conftest.py)."""

import numpy as np
import pytest

from lpfuse.optim import solve
from lpfuse.optim._large_n import screening
from lpfuse.optim._large_n.passes import Reader
from lpfuse.optim._solvers.interior_point import interior_point
from lpfuse.optim._solvers.model import Guess
from lpfuse.optim._solvers.smoothing import approach, cold_guess
from oracles import naive
from oracles.problems import (
    GRID,
    GUESSES,
    VARIANTS,
    assert_certified,
    random_problem,
)

every_p = pytest.mark.parametrize("p", GRID)
every_variant = pytest.mark.parametrize("variant", VARIANTS)


def assert_proven(problem, found, tol=1e-8):
    """Naive loops come to the same bounds, and they meet."""
    costs = np.ones(problem.n) if problem.costs is None else problem.costs
    value = naive.value(problem, found.w[: problem.R], sum(found.w[problem.R :]))
    bound = naive.dual_value(problem, found.alpha / costs)
    assert naive.norm(found.w[: problem.R], problem.ball.p) <= 1 + 1e-12
    assert found.primal == pytest.approx(value, rel=1e-10)
    assert found.dual == pytest.approx(bound, rel=1e-10)
    assert naive.relative_gap(problem, value, bound) <= 1.001 * tol


@every_p
@every_variant
@pytest.mark.parametrize("anomalies", [0.0, 0.2], ids=["pure", "labelled"])
@pytest.mark.usefixtures("low_thresholds")
def test_screened_models_end_with_a_proof(p, variant, anomalies):
    problem = random_problem(n=390, R=4, anomalies=anomalies, p=p, **VARIANTS[variant])
    assert_certified(problem, solve(problem))


def test_only_few_rows_reach_the_interior_point(low_thresholds, monkeypatch):
    sizes = []

    def sized(model, *args, **kwargs):
        sizes.append(model.n_rows)
        return interior_point(model, *args, **kwargs)

    monkeypatch.setattr(screening, "interior_point", sized)
    problem = random_problem(n=390, R=4)
    assert_certified(problem, solve(problem))
    assert 0 < max(sizes) < 100


@every_variant
@pytest.mark.parametrize("p", [1.0, 4 / 3, np.inf])
@pytest.mark.parametrize("kind", GUESSES)
@pytest.mark.usefixtures("low_thresholds")
def test_a_model_survives_a_wrong_guess(kind, p, variant):
    problem = random_problem(n=800, R=4, p=p, **VARIANTS[variant])
    model, _ = Reader(problem).whole()
    right = np.append(solve(problem).weights, [0.0] * problem.fit_intercept)
    guess = Guess(*GUESSES[kind](right))
    assert_proven(problem, screening.minimise(model, 1e-8, problem.scale, guess=guess))


def test_rows_that_changed_side_are_taken_back(low_thresholds, monkeypatch):
    problem = random_problem(n=390, R=4)
    sizes = []

    def sized(model, *args, **kwargs):
        sizes.append(model.n_rows)
        return interior_point(model, *args, **kwargs)

    def askew(*args):
        start = approach(*args)
        return start._replace(w=0.9 * start.w)

    monkeypatch.setattr(screening, "interior_point", sized)
    monkeypatch.setattr(screening, "approach", askew)
    assert_certified(problem, solve(problem))
    assert sizes[0] < max(sizes) < problem.n


def test_when_screening_fails_the_interior_point_takes_all_rows(low_thresholds, monkeypatch):
    problem = random_problem(n=300, R=4)
    model, _ = Reader(problem).whole()
    sizes = []

    def sized(model, *args, **kwargs):
        sizes.append(model.n_rows)
        return interior_point(model, *args, **kwargs)

    def astray(*args):
        start = approach(*args)
        return start._replace(w=-start.w)

    monkeypatch.setattr(screening, "interior_point", sized)
    monkeypatch.setattr(screening, "approach", astray)
    monkeypatch.setattr(screening, "ROUNDS", 1)  # nothing that crossed is mended
    assert_proven(problem, screening.minimise(model, 1e-8, problem.scale))
    assert sizes[-1] == model.n_rows


@every_p
@pytest.mark.parametrize("variant", ["plain", "costs", "nonnegative", "intercept"])
def test_the_smoothed_approach_comes_near_the_optimum(p, variant):
    problem = random_problem(n=800, R=4, p=p, **VARIANTS[variant])
    model, _ = Reader(problem).whole()
    start = approach(model, cold_guess(model), 22)
    reached = model.primal(model.feasible(start.w))
    best = solve(problem).certificate.primal
    assert best - 1e-8 * problem.n <= reached <= 1.05 * best + 1e-3 * problem.total_cost
