import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.pairwise import each_value, pairwise
from lpfuse.optim import Problem, solve
from lpfuse.optim.frank_wolfe import frank_wolfe
from oracles import naive
from oracles.problems import FEW_P, GRID, LOSSES, assert_feasible, random_problem

# Its optimum at p = 2 is w = (√3/2, 1/2) with the value 2 − √3/4 − 1 = 0.56699.
COUNTEREXAMPLE = np.array([[0.0, 2.0], [0.5, 0.0]])


@pytest.fixture
def counterexample():
    return Problem(COUNTEREXAMPLE, p=2.0)


def by_hand(problem, steps):
    """Algorithm 1 as it is printed: subgradient, corner, step 2/(2+t)."""
    S, R, p = problem.S, problem.R, problem.ball.p
    y = np.ones(len(S)) if problem.y is None else problem.y
    w = np.full(R, R ** (-1 / p))
    for t in range(1, steps + 1):
        gradient = np.zeros(R)
        for s, label in zip(S, y, strict=True):
            if 1 - label * (s @ w) > 0:
                gradient -= label * s
        corner = -np.sign(gradient) * np.abs(gradient) ** (1 / (p - 1))
        corner /= (np.abs(corner) ** p).sum() ** (1 / p)
        w = w + 2 / (2 + t) * (corner - w)
    return w


@each_value(p=(4 / 3, 2.0, 4.0, 2.0), steps=(1, 2, 25))
def test_steps_are_those_printed_in_the_paper(p, steps):
    problem = random_problem(n=30, p=p)
    reached = frank_wolfe(problem, max_iter=steps)
    np.testing.assert_allclose(reached.weights, by_hand(problem, steps), rtol=1e-12)
    assert (reached.n_iter, reached.stopped) == (steps, False)


def test_the_first_step_on_paper(counterexample):
    """w = (1, 1)/√2 leaves row 2 short; the corner is (1, 0), the step 2/3."""
    expected = [1 / (3 * np.sqrt(2)) + 2 / 3, 1 / (3 * np.sqrt(2))]
    np.testing.assert_allclose(frank_wolfe(counterexample, max_iter=1).weights, expected)


@pytest.mark.parametrize("steps", [10_000, 20_000])
def test_algorithm_1_stays_far_from_the_optimum(counterexample, steps):
    stalled = frank_wolfe(counterexample, max_iter=steps)
    assert counterexample.value(stalled.weights) == pytest.approx(0.695, abs=2e-3)
    best = solve(counterexample)
    assert best.certificate.primal == pytest.approx(1.0 - np.sqrt(3) / 4, rel=1e-8)
    np.testing.assert_allclose(best.weights, [np.sqrt(3) / 2, 0.5], atol=1e-7)


@pytest.mark.parametrize(("tol", "status"), [(1e-3, "stopped"), (1e-6, "max_iter")])
def test_its_certificate_does_not_hide_that(counterexample, tol, status):
    """At 1e-3 it stops by its own rule, 20 % above the optimum."""
    solution = solve(counterexample, solver="frank-wolfe", tol=tol, max_iter=5000)
    proof = solution.certificate
    true_gap = naive.value(counterexample, solution.weights) - (1.0 - np.sqrt(3) / 4)
    assert proof.gap == pytest.approx(true_gap, abs=1e-8)
    assert proof.relative_gap > 0.1
    assert proof.status == status
    assert (solution.n_iter < 5000) == (status == "stopped")
    assert naive.dual_value(counterexample, proof.alpha) == pytest.approx(proof.dual, abs=1e-12)


def test_the_smoothed_sibling_converges_there(counterexample):
    best = 1.0 - np.sqrt(3) / 4
    errors = [
        counterexample.value(frank_wolfe(counterexample, max_iter=steps, smoothing=1.0).weights)
        - best
        for steps in (100, 1000, 10_000)
    ]
    assert errors[0] > 2 * errors[1] > 4 * errors[2] > 0
    assert errors[2] < 0.01


def test_it_stops_by_the_papers_rule_once_weights_rest():
    problem = random_problem(anomalies=0.0, p=2.0, scale=0.05)
    reached = frank_wolfe(problem, precision=1e-2, max_iter=1000)
    assert reached.stopped
    assert 1 < reached.n_iter < 1000
    one_less = frank_wolfe(problem, max_iter=reached.n_iter - 1).weights
    two_less = frank_wolfe(problem, max_iter=reached.n_iter - 2).weights
    assert np.abs(reached.weights - one_less).max() <= 1e-2 < np.abs(one_less - two_less).max()


def test_without_precision_all_steps_are_run():
    problem = random_problem(anomalies=0.0, scale=0.01)
    assert frank_wolfe(problem, max_iter=77).n_iter == 77


@pytest.mark.parametrize("p", [8.0, 100.0])
@np.errstate(all="raise", under="ignore")
def test_easy_pure_data_never_give_nan(p):
    """All margins are met at the start: the gradient is zero and the paper's formula is 0/0."""
    S = 2.0 + np.abs(random_problem(n=50, anomalies=0.0).S)
    reached = frank_wolfe(Problem(S, p=p), max_iter=100)
    np.testing.assert_array_equal(reached.weights, Problem(S, p=p).ball.uniform(5))
    assert (reached.n_iter, reached.stopped) == (0, True)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 999),
    p=st.sampled_from(GRID),
    nonnegative=st.booleans(),
    costs=st.booleans(),
    scale=st.sampled_from([1e-3, 1.0, 1e3]),
    loss=st.sampled_from(["hinge", "least_squares"]),
    smoothing=st.sampled_from([0.0, 1.0]),
)
@np.errstate(over="raise", invalid="raise", divide="raise")
def test_it_never_leaves_the_ball_and_never_gives_nan(smoothing, **settings):
    problem = random_problem(n=20, **settings)
    assert_feasible(problem, frank_wolfe(problem, max_iter=30, smoothing=smoothing).weights)


@pairwise(p=FEW_P, solver=("frank-wolfe", "smoothed-frank-wolfe"), loss=LOSSES)
def test_the_certified_gap_is_the_true_one(solver, loss, p):
    problem = random_problem(p=p, loss=loss, costs=True)
    solution = solve(problem, solver=solver, max_iter=20)
    best = solve(problem).certificate
    true_gap = naive.value(problem, solution.weights) - best.primal
    assert solution.certificate.gap == pytest.approx(true_gap, abs=best.gap + 1e-8 * problem.n)
    assert solution.n_iter <= 20


@pytest.mark.parametrize("solver", ["frank-wolfe", "smoothed-frank-wolfe"])
def test_an_intercept_is_refused_with_the_remedy(solver):
    problem = random_problem(fit_intercept=True)
    with pytest.raises(ValueError, match=r"cannot fit an intercept.*interior-point.*=False"):
        solve(problem, solver=solver)
