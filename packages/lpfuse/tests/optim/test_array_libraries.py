"""The same weights from every array library; arrays with one entry a sample stay in it."""

import array_api_strict
import numpy as np
import pytest
from array_api_compat import device

from helpers.pairwise import each_value, pairwise
from lpfuse.optim import Problem, solve, solve_path
from lpfuse.optim.passes import PartitionPlan, ScorePasses
from oracles.problems import (
    BOTH,
    LOSSES,
    LOW_THRESHOLDS,
    PURE_OR_LABELLED,
    VARIANTS,
    assert_certified,
    random_problem,
)


def strict(x):
    return array_api_strict.asarray(x)


def strict_device(x):
    """An array that stands for one on a GPU: it cannot be mixed with arrays of the host."""
    return array_api_strict.asarray(x, device=array_api_strict.Device("device1"))


def torch(x):
    return pytest.importorskip("torch", reason="torch is not installed").from_numpy(x.copy())


LIBRARIES = [strict, strict_device, torch]
every_library = pytest.mark.parametrize("library", LIBRARIES)
both_losses = pytest.mark.parametrize("loss", LOSSES)


def moved(problem, library):
    """The problem with its data in another array library."""
    return Problem(
        library(problem.S),
        None if problem.y is None else library(problem.y),
        costs=None if problem.costs is None else library(problem.costs),
        p=problem.ball.p,
        nonnegative=problem.ball.nonnegative,
        loss=problem.loss.name,
        fit_intercept=problem.fit_intercept,
    )


def assert_same_solution(problem, library, atol=1e-8, **options):
    ours, theirs = solve(problem, **options), solve(moved(problem, library), **options)
    assert isinstance(theirs.weights, np.ndarray)
    np.testing.assert_allclose(theirs.weights, ours.weights, rtol=0, atol=atol)
    assert theirs.intercept == pytest.approx(ours.intercept, abs=atol)
    if theirs.certificate.alpha is not None:
        assert device(theirs.certificate.alpha) == device(library(problem.S))
        assert moved(problem, library).dual_value(theirs.certificate.alpha) == pytest.approx(
            theirs.certificate.dual, rel=1e-12, abs=1e-12 * problem.n
        )


@pairwise(
    library=LIBRARIES,
    variant=("plain", "costs", "intercept"),
    loss=LOSSES,
    anomalies=PURE_OR_LABELLED,
)
def test_small_problems_get_the_same_weights(library, loss, variant, anomalies):
    problem = random_problem(n=80, anomalies=anomalies, loss=loss, p=4 / 3, **VARIANTS[variant])
    assert_same_solution(problem, library)


@each_value(variant=VARIANTS, library=LIBRARIES, n=(400, 1200))
def test_screened_problems_get_the_same_weights(library, variant, n):
    problem = random_problem(n=n, R=4, p=4 / 3, **VARIANTS[variant])
    # Rows of NumPy are read by compiled loops, and searches end where the gap is small enough: two
    # that differ in a last digit on the way end at weights within the root of the gap, 1e-4.
    assert_same_solution(problem, library, atol=1e-5, tuning=LOW_THRESHOLDS)
    certificates = [
        solve(each, tuning=LOW_THRESHOLDS).certificate
        for each in (problem, moved(problem, library))
    ]
    assert {each.status for each in certificates} == {"optimal"}
    assert certificates[0].primal == pytest.approx(certificates[1].primal, rel=2e-8)


@each_value(p=(1.0, 2.0, np.inf, 2.0), library=LIBRARIES, fit_intercept=BOTH)
def test_ties_are_broken_the_same_way(library, p, fit_intercept):
    problem = random_problem(n=60, p=p, fit_intercept=fit_intercept)
    problem.S = problem.S + 2.5 * problem.y[:, None] * np.array([1.0, 0.2, 1.0, 0.5, 1.0])
    assert solve(problem).certificate.primal == pytest.approx(0.0, abs=1e-12)
    assert_same_solution(problem, library)


@pairwise(library=LIBRARIES, loss=LOSSES, solver=("frank-wolfe", "smoothed-frank-wolfe"))
def test_frank_wolfe_takes_the_same_steps(library, loss, solver):
    problem = random_problem(costs=True, loss=loss)
    ours = solve(problem, solver=solver, max_iter=100)
    theirs = solve(moved(problem, library), solver=solver, max_iter=100)
    np.testing.assert_allclose(theirs.weights, ours.weights, rtol=0, atol=1e-8)


@each_value(library=LIBRARIES, loss=LOSSES)
def test_a_path_gets_the_same_weights(library, loss):
    problem = random_problem(costs=True, fit_intercept=True, loss=loss)
    ps = [1.0, 2.0, np.inf]
    for p, theirs in zip(ps, solve_path(moved(problem, library), ps), strict=True):
        ours = solve(problem.with_ball(p))
        np.testing.assert_allclose(theirs.weights, ours.weights, rtol=0, atol=1e-6)


@every_library
def test_single_precision_scores_may_have_labels_of_the_host(library):
    problem = random_problem(n=80, costs=True, fit_intercept=True)
    S = problem.S.astype(np.float32)
    theirs = solve(Problem(library(S), problem.y, costs=problem.costs, fit_intercept=True))
    ours = solve(Problem(S, problem.y, costs=problem.costs, fit_intercept=True))
    np.testing.assert_allclose(theirs.weights, ours.weights, rtol=0, atol=1e-8)


@each_value(variant=VARIANTS, library=LIBRARIES)
def test_values_and_dual_points_are_the_same_numbers(library, variant):
    problem = random_problem(loss="least_squares", **VARIANTS[variant])
    other = moved(problem, library)
    w = problem.ball.uniform(problem.R)
    alpha = problem.dual_point(w)
    assert other.value(w, 0.3) == pytest.approx(problem.value(w, 0.3), rel=1e-13)
    np.testing.assert_allclose(np.from_dlpack(other.dual_point(w)), alpha, rtol=1e-12, atol=1e-12)
    assert other.dual_value(library(alpha)) == pytest.approx(problem.dual_value(alpha), rel=1e-12)


@every_library
def test_partitions_are_the_same(library):
    problem = random_problem(n=300, costs=True, fit_intercept=True)
    v = np.r_[problem.ball.uniform(problem.R), 0.1]
    ours, theirs = (
        ScorePasses(q).partition([PartitionPlan(v, 0.3, 1, 300)], [q.ball])[0]
        for q in (problem, moved(problem, library))
    )
    np.testing.assert_array_equal(np.from_dlpack(theirs.pieces.side), ours.pieces.side)
    np.testing.assert_array_equal(theirs.positions, ours.positions)
    np.testing.assert_allclose(theirs.model.columns, ours.model.columns)
    np.testing.assert_allclose(theirs.model.linear, ours.model.linear, rtol=1e-12)


def test_a_tensor_that_wants_gradients_is_no_obstacle():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    problem = random_problem()
    S = torch.tensor(problem.S, requires_grad=True)
    np.testing.assert_allclose(
        solve(Problem(S, problem.y)).weights, solve(problem).weights, rtol=0, atol=1e-8
    )


@every_library
def test_certificates_from_other_libraries_pass_the_naive_check(library):
    problem = random_problem(n=80, costs=True, fit_intercept=True, p=4 / 3)
    solution = solve(moved(problem, library))
    proof = solution.certificate
    object.__setattr__(proof, "alpha", np.from_dlpack(proof.alpha))
    assert_certified(problem, solution)
