import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.pairwise import each_value
from lpfuse.optim.interior_point import interior_point
from lpfuse.optim.newton import Model
from oracles import naive
from oracles.problems import GRID, random_problem

problems = st.builds(
    random_problem,
    seed=st.integers(0, 999),
    n=st.integers(1, 40),
    R=st.integers(1, 6),
    anomalies=st.sampled_from([0.0, 0.3]),
    costs=st.booleans(),
    p=st.sampled_from(GRID),
    nonnegative=st.booleans(),
    fit_intercept=st.booleans(),
    scale=st.sampled_from([0.01, 1.0, 100.0]),
)


def model_of(problem):
    return Model.of_rows(problem, problem.everything()[0], problem.ball)


@settings(max_examples=60)
@given(problem=problems)
def test_both_bounds_are_true_and_meet(problem):
    found = interior_point(model_of(problem), 1e-9, problem.scale)
    value = naive.value(problem, found.w[: problem.R], sum(found.w[problem.R :]))
    costs = np.ones(problem.n) if problem.costs is None else problem.costs
    bound = naive.dual_value(problem, found.alpha / costs)
    assert found.primal == pytest.approx(value, rel=1e-11, abs=1e-12 * problem.total_cost)
    assert found.dual == pytest.approx(bound, rel=1e-11, abs=1e-12 * problem.total_cost)
    assert found.within(1e-9, problem.scale)


@settings(max_examples=30)
@given(problem=problems, steps=st.integers(1, 8))
def test_few_steps_end_with_loose_but_true_bounds(problem, steps):
    found = interior_point(model_of(problem), 1e-9, problem.scale, max_iter=steps)
    best = interior_point(model_of(problem), 1e-9, problem.scale)
    slack = 1e-9 * max(best.primal, problem.scale)
    assert found.n_iter < steps
    assert naive.norm(found.w[: problem.R], problem.ball.p) <= 1 + 1e-12
    assert found.dual <= best.primal + slack
    assert found.primal >= best.dual - slack


@each_value(p=GRID, anomalies=(0.0, 0.3))
def test_a_tolerance_beyond_float64_ends_without_harm(p, anomalies):
    problem = random_problem(n=200, R=8, anomalies=anomalies, p=p)
    found = interior_point(model_of(problem), 1e-30, problem.scale)
    assert found.within(1e-10, problem.scale)
    assert naive.norm(found.w, p) <= 1 + 1e-12


def test_many_detectors_use_correctors_and_still_agree():
    problem = random_problem(n=120, R=40, p=4 / 3, costs=True, fit_intercept=True)
    found = interior_point(model_of(problem), 1e-9, problem.scale)
    assert found.within(1e-9, problem.scale)
    assert naive.dual_value(problem, found.alpha / problem.costs) == pytest.approx(found.dual)
