import json
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lpfuse._arrays
from helpers.pairwise import each_value, pairwise
from lpfuse.optim import Problem, solve
from lpfuse.optim.frank_wolfe import frank_wolfe as raw_frank_wolfe
from oracles import naive
from oracles.optimum import nearest_error_free_to_uniform, nearest_least_squares_to_uniform
from oracles.problems import GRID, LOW_THRESHOLDS, assert_certified, changed

VARIANTS = {
    "plain": {},
    "costs": {"costs": True},
    "nonnegative": {"nonnegative": True},
    "intercept": {"fit_intercept": True},
}
every_variant = pytest.mark.parametrize("variant", VARIANTS)


def separable_problem(seed=0, n=40, R=4, margin=0.3, costs=False, **settings):
    """No error is needed, by a little: a hidden w in the ball has all margins above 1 + margin.

    It is far from uniform, so the uniform weights make errors when rows are many.
    """
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.4, -1.0, 1.0)
    y[0] = 1.0
    w = Problem(np.ones((1, R)), **settings).ball.linear_oracle(-(np.arange(R, 0.0, -1.0) ** 2))
    S = 3.0 * rng.normal(size=(n, R))
    S += ((1.0 + margin + rng.exponential(1.0, n)) * y - S @ w)[:, None] * w / (w @ w)
    c = rng.integers(0, 3, n) + 1.0 * (np.arange(n) == 0)  # some rows have no say
    return Problem(S, y, costs=c if costs else None, **settings)


@pairwise(p=(1.0, 8 / 7, 2.0, np.inf), variant=VARIANTS, seed=range(3))
def test_among_weights_without_error_those_nearest_to_uniform_are_taken(p, variant, seed):
    problem = separable_problem(seed, p=p, **VARIANTS[variant])
    if p < 100:
        assert problem.value(problem.ball.uniform(problem.R)) > 0
    solution = solve(problem)
    assert_certified(problem, solution)
    np.testing.assert_allclose(
        solution.weights, nearest_error_free_to_uniform(problem), rtol=0, atol=1e-6
    )


@settings(max_examples=25)
@given(
    seed=st.integers(0, 9999),
    n=st.integers(1, 60),
    R=st.integers(1, 6),
    margin=st.sampled_from([1e-3, 0.1, 5.0]),
    p=st.sampled_from([1.0, 4 / 3, 2.0, 10.0, np.inf]),
    variant=st.sampled_from(list(VARIANTS)),
)
def test_whatever_the_data_the_nearest_weights_without_error_are_found(variant, **data):
    problem = separable_problem(**data, **VARIANTS[variant])
    solution = solve(problem)
    nearest, uniform = nearest_error_free_to_uniform(problem), problem.ball.uniform(problem.R)
    assert naive.value(problem, solution.weights, solution.intercept) <= 1e-12 * problem.n
    assert naive.norm(solution.weights - uniform, 2) <= naive.norm(nearest - uniform, 2) + 1e-6
    # A general solver's point is as near in value but can lie 1e-5 off: the square root of its gap.
    np.testing.assert_allclose(solution.weights, nearest, rtol=0, atol=5e-5)


@each_value(p=GRID, solver=("interior-point", "frank-wolfe", "smoothed-frank-wolfe"))
def test_every_solver_keeps_uniform_weights_that_make_no_error(solver, p):
    S = 4.0 + np.abs(np.random.default_rng(0).normal(size=(150, 3)))
    solution = solve(Problem(S, p=p), solver=solver)
    np.testing.assert_array_equal(solution.weights, np.full(3, 3 ** (-1 / p)))
    assert solution.certificate.primal == solution.certificate.gap == 0.0
    assert solution.certificate.status == "optimal"


@pytest.mark.parametrize("p", [4 / 3, 2.0, 4.0])
def test_frank_wolfe_breaks_ties_like_the_certified_solver(p):
    problem = separable_problem(margin=2.0, p=p)
    steps = raw_frank_wolfe(problem, max_iter=2000).weights
    assert problem.value(steps) == 0.0
    certified = solve(problem)
    assert np.abs(steps - certified.weights).max() > 1e-3
    frank_wolfe = solve(problem, solver="frank-wolfe", max_iter=2000)
    assert frank_wolfe.certificate.primal <= 1e-12 * problem.n
    np.testing.assert_allclose(frank_wolfe.weights, certified.weights, rtol=0, atol=1e-9)


@pytest.mark.parametrize("p", [1.0, 4 / 3, 10.0, np.inf])
def test_permuted_detectors_get_permuted_weights(p):
    problem = separable_problem(p=p)
    order = np.array([2, 0, 3, 1])
    permuted = solve(changed(problem, problem.S[:, order])).weights
    np.testing.assert_allclose(permuted, solve(problem).weights[order], rtol=0, atol=1e-7)


def test_equal_detectors_get_equal_weights():
    problem = separable_problem(p=2.0)
    doubled = changed(problem, np.c_[problem.S, problem.S[:, 0]])
    weights = solve(doubled).weights
    assert weights[0] == pytest.approx(weights[-1], abs=1e-7)


def test_a_free_intercept_lies_midway_between_the_classes():
    problem = separable_problem(p=2.0, fit_intercept=True)
    solution = solve(problem)
    fused = problem.S @ solution.weights + solution.intercept
    normal, anomalous = fused[problem.y > 0].min(), fused[problem.y < 0].max()
    assert normal >= 1 - 1e-9
    assert normal == pytest.approx(-anomalous, abs=1e-9)


@each_value(p=(1.0, 2.0, np.inf, 2.0), short=(1e-14, 1e-12, 1e-10))
def test_an_optimum_of_almost_zero_is_proven_too(p, short):
    """Too small to tell from zero by the tolerance, yet no weights reach zero."""
    problem = Problem((1.0 - short) * np.eye(1), p=p)
    assert_certified(problem, solve(problem))
    crossing = Problem(np.array([[3.0, 0.0], [0.0, 3.0]]) * (2 ** (1 / p) / 3 - short), p=p)
    assert_certified(crossing, solve(crossing))


@every_variant
def test_many_rows_break_ties_as_few_do(monkeypatch, variant):
    problem = separable_problem(n=1500, p=4 / 3, **VARIANTS[variant])
    monkeypatch.setattr(lpfuse._arrays.operations.limits, "block", 1)
    many = solve(problem, tuning=LOW_THRESHOLDS)
    monkeypatch.undo()
    np.testing.assert_allclose(many.weights, solve(problem).weights, rtol=0, atol=1e-6)


# --------------------------------------------------------------------------------- least squares


def open_problem(kind, **settings):
    """Least squares with directions that no score decides."""
    rng = np.random.default_rng(3)
    n, R = (4, 7) if kind == "fewer rows than detectors" else (40, 4)
    y = np.where(np.arange(n) % 3, 1.0, -1.0)
    S = rng.normal(0.0, 1.0, (n, R)) + 0.7 * y[:, None]
    if kind == "equal columns":
        S = S[:, [0, 1, 1, 2, 1]]
    elif kind == "a sum of two others":
        S = np.c_[S, S[:, 0] + S[:, 1]]
    elif kind == "a zero column":
        S = np.c_[S, np.zeros(n)]
    return Problem(S, y, loss="least_squares", **settings)


KINDS = ["fewer rows than detectors", "equal columns", "a sum of two others", "a zero column"]


@pairwise(kind=KINDS, p=(1.0, 4 / 3, 10.0, np.inf), variant=VARIANTS)
def test_open_directions_of_least_squares_stay_near_uniform_weights(kind, p, variant):
    settings = dict(VARIANTS[variant])
    if settings.pop("costs", False):
        settings["costs"] = np.arange(4 if kind == KINDS[0] else 40) % 2 + 1.0
    problem = open_problem(kind, p=p, **settings)
    solution = solve(problem, tol=1e-11)
    nearest = nearest_least_squares_to_uniform(problem, solution.weights)
    np.testing.assert_allclose(solution.weights, nearest, rtol=0, atol=2e-5)


# ------------------------------------------------------------------------- compiled and NumPy alike

TIES = """
import itertools
import json
import numpy as np
from lpfuse.optim import Problem, solve
found = {}
for seed in range(3):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(40) % 3, 1.0, -1.0)
    far = np.abs(np.round(rng.normal(size=(40, 4)), 1)) + 3.0
    tables = {
        "normal rows": (far, None),
        "equal columns": (far[:, [0, 0, 1, 1]], None),
        "labelled": (3.0 * y[:, None] + rng.normal(size=(40, 4)) / 2.0, y),
        "equal rows": (np.repeat(far[:4], 10, axis=0), None),
    }
    ways = itertools.product(tables.items(), (1.0, 4 / 3, 2.0, 10.0, np.inf), (0, 1), (0, 1))
    for (name, (S, labels)), p, positive, shifted in ways:
        problem = Problem(S, labels, p=p, nonnegative=bool(positive), fit_intercept=bool(shifted))
        solution = solve(problem)
        key = f"{name}, seed={seed}, p={p:.3g}, nonnegative={positive}, intercept={shifted}"
        certificate = solution.certificate
        found[key] = certificate.status, certificate.primal, solution.weights.tolist()
print(json.dumps(found))
"""


def test_ties_at_zero_are_broken_alike_in_both_forms():
    ask = [sys.executable, "-c", TIES]
    compiled, plain = (
        json.loads(subprocess.run(ask, capture_output=True, env=env, check=True).stdout)
        for env in (os.environ | {"LPFUSE_COMPILED": form} for form in ("", "0"))
    )
    for case, (status, value, weights) in compiled.items():
        assert status == plain[case][0] == "optimal", case
        assert value < 1e-9, case
        np.testing.assert_allclose(weights, plain[case][2], rtol=0, atol=1e-6, err_msg=case)
