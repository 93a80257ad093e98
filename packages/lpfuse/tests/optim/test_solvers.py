import multiprocessing
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lpfuse._arrays
from helpers.cases import cases
from helpers.pairwise import each_value, pairwise
from lpfuse.optim import Problem, solve
from lpfuse.optim.tuning import Tuning
from oracles import naive
from oracles.optimum import linear_regime, optimum
from oracles.problems import (
    BOTH,
    GRID,
    LOSSES,
    LOW_THRESHOLDS,
    OPTIONS,
    PURE_OR_LABELLED,
    VARIANTS,
    assert_certified,
    assert_feasible,
    changed,
    random_problem,
)

every_p = pytest.mark.parametrize("p", GRID)
both_losses = pytest.mark.parametrize("loss", LOSSES)


def assert_same_optimum(first, second, problem):
    """Two certified values of one problem lie within their gaps."""
    one, other = first.certificate, second.certificate
    slack = 1e-12 * problem.total_cost
    assert one.primal <= other.primal + one.gap + slack
    assert other.primal <= one.primal + other.gap + slack


# --------------------------------------------------------------------------------------- optima


@pairwise(p=GRID, loss=LOSSES, anomalies=PURE_OR_LABELLED, **OPTIONS)
def test_the_optimum_of_other_solvers_is_reached_and_proven(
    p, loss, anomalies, costs, nonnegative, fit_intercept
):
    problem = random_problem(
        anomalies=anomalies,
        costs=costs,
        p=p,
        loss=loss,
        nonnegative=nonnegative,
        fit_intercept=fit_intercept,
    )
    solution = solve(problem)
    assert_certified(problem, solution)
    best = naive.value(problem, *optimum(problem))
    tolerance = 1e-7 * max(best, problem.scale)
    assert solution.certificate.primal == pytest.approx(best, rel=0, abs=tolerance)


@each_value(p=GRID, costs=BOTH)
def test_short_scores_have_the_optimum_in_closed_form(p, costs):
    """No weights of the ball reach a margin of 1, so the hinge is linear on it."""
    problem = random_problem(R=4, p=p, costs=costs, scale=0.01)
    solution = solve(problem)
    expected = linear_regime(problem)
    best = naive.value(problem, expected)
    assert solution.certificate.primal == pytest.approx(best, rel=1e-8)
    np.testing.assert_allclose(solution.weights, expected, atol=1e-2)


@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-10])
def test_the_tolerance_is_what_is_proven(tol):
    problem = random_problem(n=300, p=4 / 3, costs=True)
    assert_certified(problem, solve(problem, tol=tol), tol)


def test_auto_is_the_certified_solver():
    problem = random_problem()
    auto, named = solve(problem), solve(problem, solver="interior-point")
    np.testing.assert_array_equal(auto.weights, named.weights)


@both_losses
def test_too_few_steps_are_admitted(loss):
    problem = random_problem(loss=loss, p=4 / 3)
    solution = solve(problem, max_iter=2)
    assert_feasible(problem, solution.weights)
    assert solution.certificate.status == "max_iter"
    assert solution.certificate.relative_gap > 1e-8
    assert solution.certificate.dual <= solve(problem).certificate.primal


# ------------------------------------------------------------------------------------ degenerate

RNG = np.random.default_rng(1)
LABELS = np.r_[np.ones(16), -np.ones(4)]
USUAL = RNG.normal(0.0, 0.6, (20, 3)) + 0.7 * LABELS[:, None]
DEGENERATE = {
    "one detector": (USUAL[:, :1], LABELS),
    "one row": (USUAL[:1], None),
    "one anomaly": (USUAL[-1:], -np.ones(1)),
    "fewer rows than detectors": (RNG.normal(0.3, 1.0, (4, 9)), np.array([1.0, 1.0, -1.0, 1.0])),
    "constant column": (np.c_[USUAL, np.full(20, 0.4)], LABELS),
    "zero column": (np.c_[USUAL, np.zeros(20)], LABELS),
    "equal columns": (USUAL[:, [0, 1, 1, 2, 1]], LABELS),
    "opposite columns": (np.c_[USUAL, -USUAL], LABELS),
    "equal rows": (np.repeat(USUAL[[0, 1, 17]], 7, axis=0), np.repeat([1.0, 1.0, -1.0], 7)),
    "opposite rows": (np.r_[USUAL[:6], -USUAL[:6]], None),
    "contradictory labels": (np.r_[USUAL[:6], USUAL[:6]], np.repeat([1.0, -1.0], 6)),
    "a column times 1000": (USUAL * [1.0, 1000.0, 1.0], LABELS),
    "a column over 1000": (USUAL * [1.0, 1e-3, 1.0], LABELS),
    "heavy tails": (RNG.standard_cauchy((60, 4)) + 0.5, np.where(np.arange(60) % 5, 1.0, -1.0)),
    "all scores zero": (np.zeros((6, 3)), None),
    "all scores zero, labelled": (np.zeros((6, 3)), np.repeat([1.0, -1.0], 3)),
    "tiny scores": (1e-9 * USUAL, LABELS),
    "huge scores": (1e6 * USUAL, LABELS),
    "separable": (USUAL + 9.0 * LABELS[:, None], LABELS),
    "easy and pure": (5.0 + np.abs(USUAL), None),
    "margins of exactly one": (np.eye(3) + 0.0, None),
    "one class only in name": (USUAL, np.ones(20)),
    "sorted anomalies first": (USUAL[::-1], LABELS[::-1]),
}


@pytest.mark.parametrize("case", DEGENERATE)
@cases("loss", LOSSES)
def test_degenerate_problems_are_solved_and_proven(case, loss):
    """Variants take turns along p, and start with another one in each case."""
    S, y = DEGENERATE[case]
    variants, first = list(VARIANTS.values()), list(DEGENERATE).index(case)
    for turn, p in enumerate(GRID, first):
        settings = dict(variants[turn % len(variants)])
        if settings.pop("costs", False):
            settings["costs"] = np.where(
                np.arange(len(S)) % 4 == 1, 0.0, 0.5 + np.arange(len(S)) % 3
            )
        problem = Problem(S, y, p=p, loss=loss, **settings)
        assert_certified(problem, solve(problem))


@every_p
def test_votes_that_leave_error_free_weights_no_room_are_solved(p):
    """One detector is always right: its weight must be 1, where a ball of large p is flat."""
    for votes in (
        ["+-+", "+++", "+++", "+++", "--+", "+-+", "+++"],
        ["++++", "+++-", "++++", "-+--"],
        ["+-+++-", "++-+++", "-+-+-+", "-+++--", "-+-+-+", "+-++++"],
    ):
        scores = np.array([[1.0 if vote == "+" else -1.0 for vote in row] for row in votes])
        problem = Problem(scores, p=p)
        assert_certified(problem, solve(problem))


@both_losses
def test_rows_without_cost_might_as_well_be_absent(loss):
    problem = random_problem(costs=True, loss=loss)
    kept = np.arange(problem.n) % 3 > 0
    silenced = changed(problem, costs=problem.costs * kept)
    without = changed(problem, problem.S[kept], problem.y[kept], problem.costs[kept])
    solution = solve(silenced)
    assert_certified(silenced, solution)
    assert_same_optimum(solution, solve(without), without)
    np.testing.assert_allclose(solution.weights, solve(without).weights, atol=1e-4)


@pytest.mark.parametrize("factor", [1e-6, 1e6])
@both_losses
def test_the_unit_of_the_costs_does_not_matter(loss, factor):
    problem = random_problem(costs=True, loss=loss, fit_intercept=True)
    scaled = changed(problem, costs=factor * problem.costs)
    one, other = solve(problem), solve(scaled)
    assert_certified(scaled, other)
    assert other.certificate.primal == pytest.approx(factor * one.certificate.primal, rel=2e-8)
    np.testing.assert_allclose(other.weights, one.weights, atol=1e-4)


# ------------------------------------------------------------------------------------ invariance


@each_value(p=(1.0, 4 / 3, 2.0, 10.0, np.inf), loss=LOSSES)
def test_the_order_of_rows_and_columns_does_not_matter(p, loss):
    problem = random_problem(n=90, p=p, loss=loss, costs=True, fit_intercept=True)
    rng = np.random.default_rng(0)
    rows, cols = rng.permutation(problem.n), rng.permutation(problem.R)
    S, y, c = problem.S[rows][:, cols], problem.y[rows], problem.costs[rows]
    one, other = solve(problem), solve(changed(problem, S, y, c))
    assert_same_optimum(one, other, problem)
    if 1 < p < np.inf:  # a unique optimum
        np.testing.assert_allclose(other.weights, one.weights[cols], atol=1e-4)


@each_value(p=(1.0, 4 / 3, 2.0, 10.0, np.inf), loss=LOSSES)
def test_a_cost_of_k_is_the_row_k_times(p, loss):
    problem = random_problem(n=40, p=p, loss=loss, fit_intercept=True)
    times = np.arange(problem.n) % 4
    times[0] = 1
    one = solve(changed(problem, costs=times.astype(float)))
    repeated = changed(problem, np.repeat(problem.S, times, axis=0), np.repeat(problem.y, times))
    other = solve(repeated)
    assert_same_optimum(one, other, repeated)
    if 1 < p < np.inf:
        np.testing.assert_allclose(other.weights, one.weights, atol=1e-4)


@pytest.mark.parametrize("p", [1.0, 4 / 3, 2.0, np.inf])
def test_a_common_offset_is_absorbed_by_the_intercept(p):
    problem = random_problem(n=300, p=p, fit_intercept=True)
    moved = changed(problem, problem.S + 1e4)
    one, other = solve(problem), solve(moved)
    assert_certified(moved, other)
    assert other.certificate.primal == pytest.approx(one.certificate.primal, rel=2e-8)


def test_turning_a_detector_upside_down_turns_its_weight():
    problem = random_problem(p=4 / 3, fit_intercept=True)
    signs = np.array([1.0, -1.0, 1.0, -1.0, 1.0])
    one, other = solve(problem), solve(changed(problem, problem.S * signs))
    np.testing.assert_allclose(other.weights, one.weights * signs, atol=1e-4)


# ------------------------------------------------------------------------- kinds of scores, size


@both_losses
def test_single_precision_scores_are_solved_as_if_double(loss):
    problem = random_problem(n=500, loss=loss)
    single = changed(problem, problem.S.astype(np.float32))
    double = changed(problem, single.S.astype(np.float64))
    solution = solve(single)
    assert_certified(single, solution)
    assert_same_optimum(solution, solve(double), double)


@pytest.mark.parametrize("loss", LOSSES)
@cases("layout", ["fortran", "strided", "reversed", "read-only"])
def test_the_memory_layout_of_the_scores_does_not_matter(loss, layout):
    problem = random_problem(n=500, loss=loss, costs=True)
    S = problem.S
    if layout == "fortran":
        S = np.asfortranarray(S)
    elif layout == "strided":
        S = np.repeat(S, 2, axis=1)[:, ::2]
    elif layout == "reversed":
        S = np.ascontiguousarray(S[::-1])[::-1]
    else:
        S = S.copy()
        S.flags.writeable = False
    other = changed(problem, S)
    solution = solve(other)
    assert_certified(other, solution)
    np.testing.assert_allclose(solution.weights, solve(problem).weights, atol=1e-6)


@pytest.mark.parametrize("order", ["shuffled", "sorted by class"])
def test_forty_thousand_rows_go_through_the_sample_and_are_proven(order):
    problem = random_problem(n=40_000, R=4, p=4 / 3, costs=order == "shuffled")
    if order == "sorted by class":
        rows = np.argsort(problem.y, kind="stable")
        problem = changed(problem, problem.S[rows], problem.y[rows])
    assert problem.n > Tuning().search.in_memory
    solution = solve(problem)
    assert_certified(problem, solution)
    assert solution.certificate.passes < 20


@both_losses
def test_the_scores_are_not_changed(loss):
    problem = random_problem(n=2000, costs=True, loss=loss)
    before = problem.S.copy(), problem.y.copy(), problem.costs.copy()
    solve(problem)
    for now, then in zip((problem.S, problem.y, problem.costs), before, strict=True):
        np.testing.assert_array_equal(now, then)


# ------------------------------------------------------------------------------------ determinism


def assert_identical(one, other):
    np.testing.assert_array_equal(one.weights, other.weights)
    assert one.intercept == other.intercept
    assert one.certificate == other.certificate
    if one.certificate.alpha is not None:
        np.testing.assert_array_equal(one.certificate.alpha, other.certificate.alpha)


@both_losses
@pytest.mark.parametrize("n", [100, 3000])
def test_the_same_problem_gives_the_same_bits(loss, n):
    settings = {"n": n, "loss": loss, "costs": True, "fit_intercept": True, "p": 4 / 3}
    assert_identical(solve(random_problem(**settings)), solve(random_problem(**settings)))


@pytest.fixture
def threads_for_small_problems(monkeypatch):
    monkeypatch.setattr(lpfuse._arrays.operations.limits, "block", 1)
    monkeypatch.setattr(lpfuse._arrays.operations.limits, "parallel", 0)


@both_losses
@pytest.mark.usefixtures("threads_for_small_problems")
def test_the_number_of_threads_does_not_change_a_bit(loss):
    problem = random_problem(n=3000, loss=loss, costs=True, fit_intercept=True, p=4 / 3)
    several = solve(problem, tuning=LOW_THRESHOLDS)
    with lpfuse._arrays.operations.single_threaded():
        assert_identical(solve(problem, tuning=LOW_THRESHOLDS), several)


# -------------------------------------------------------------------------------- many at a time


@pytest.mark.usefixtures("threads_for_small_problems")
def test_problems_can_be_solved_in_several_threads_at_once():
    problems = [random_problem(seed, n=1000, costs=True) for seed in range(6)]
    sampled = partial(solve, tuning=LOW_THRESHOLDS)
    with ThreadPoolExecutor(3) as pool:
        together = list(pool.map(sampled, problems))
    for problem, solution in zip(problems, together, strict=True):
        assert_identical(solution, sampled(problem))


OVERLAPPING = """
from contextlib import ExitStack
import scipy.linalg
from threadpoolctl import threadpool_info, threadpool_limits
from lpfuse._arrays.operations import one_blas_thread

def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

with threadpool_limits(3, user_api="blas"):
    before = blas_threads()
    with ExitStack() as one, ExitStack() as other:
        one.enter_context(one_blas_thread)
        other.enter_context(one_blas_thread)
        one.close()
        assert set(blas_threads()) == {1}, blas_threads()
    assert blas_threads() == before, (blas_threads(), before)
"""


def test_overlapping_solves_leave_the_threads_of_blas_as_they_were():
    # In a process of its own: other tests load further copies of BLAS after the first solve.
    subprocess.run([sys.executable, "-c", OVERLAPPING], check=True)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # of forking with threads
@pytest.mark.usefixtures("threads_for_small_problems")
def test_a_forked_process_can_solve_too():
    """The threads of the parent do not exist in the child: waiting for them would never end."""
    problem, low = random_problem(n=1000), {"tuning": LOW_THRESHOLDS}
    solve(problem, **low)
    child = multiprocessing.get_context("fork").Process(target=solve, args=(problem,), kwargs=low)
    child.start()
    child.join(timeout=10)
    ended = not child.is_alive()
    child.kill()
    assert ended
    assert child.exitcode == 0


# -------------------------------------------------------------------------------------- agreement


@settings(max_examples=40)
@given(
    seed=st.integers(0, 9999),
    n=st.integers(1, 60),
    R=st.integers(1, 8),
    anomalies=st.sampled_from([0.0, 0.1, 0.5]),
    costs=st.booleans(),
    nonnegative=st.booleans(),
    p=st.floats(1.0, 50.0) | st.sampled_from(GRID),
    loss=st.sampled_from(["hinge", "least_squares"]),
)
def test_all_solvers_agree_within_their_certified_gaps(**settings):
    problem = random_problem(**settings)
    certified = solve(problem)
    assert_certified(problem, certified)
    for solver in ("frank-wolfe", "smoothed-frank-wolfe"):
        other = solve(problem, solver=solver, max_iter=50)
        assert_feasible(problem, other.weights)
        slack = 1e-12 * problem.total_cost
        proof = other.certificate
        assert proof.primal == pytest.approx(naive.value(problem, other.weights), abs=slack)
        assert proof.primal - proof.gap <= certified.certificate.primal + slack
        assert certified.certificate.dual <= proof.primal + slack
