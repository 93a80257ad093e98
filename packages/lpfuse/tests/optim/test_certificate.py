"""The proof belongs to nobody who profits from it: solvers that lie, losses that nobody handles."""

from dataclasses import dataclass
from functools import partial
from math import inf

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.cases import cases
from helpers.pairwise import each_value
from lpfuse._validation.dask_blocks import check_score_blocks
from lpfuse.optim import SOLVERS, Problem, solve, solve_path
from lpfuse.optim.certificate import Certifier
from lpfuse.optim.distributed import BlockedProblem, Costs, stratified_sample
from lpfuse.optim.problem import LOSSES
from lpfuse.optim.results import Candidate, Outcome
from lpfuse.optim.solve import Solver
from oracles import naive
from oracles.problems import GRID, VARIANTS, assert_certified, random_problem

EVERYTHING = frozenset({"intercept", "nonnegative", "dask", "path"})


def liar(propose, losses=("hinge", "least_squares")):
    """A solver that proposes what a function of the problem says, and claims to be done."""

    def run(request):
        problem = request.certifier.problem
        return [
            Outcome(7, propose(problem.with_ball(ball.p)), stopped=True)
            for ball in request.certifier.balls
        ]

    return Solver("liar", losses, run, EVERYTHING)


def honest(problem):
    """What the interior point would propose."""
    best = solve(problem)
    point = np.append(best.weights, [best.intercept] * problem.fit_intercept)
    return Candidate(point, best.certificate.alpha, best.certificate.dual_weights)


def assert_true(problem, solution):
    """Value, bound and gap of a certificate are those of naive loops."""
    proof = solution.certificate
    alpha = problem.dual_point(proof.dual_weights) if proof.alpha is None else proof.alpha
    value = naive.value(problem, solution.weights, solution.intercept)
    bound = naive.dual_value(problem, alpha)
    assert proof.primal == pytest.approx(value, rel=1e-10, abs=1e-10)
    assert proof.dual == pytest.approx(bound, rel=1e-9, abs=1e-9)
    assert proof.gap == pytest.approx(value - bound, rel=1e-6, abs=1e-8)
    assert proof.relative_gap == pytest.approx(naive.relative_gap(problem, value, bound), rel=1e-6)


# ------------------------------------------------------------------------------ solvers that lie


@each_value(variant=VARIANTS, loss=("hinge", "least_squares"), anomalies=(0.0, 0.2, 0.2))
def test_weights_worse_than_claimed_are_found_out(loss, variant, anomalies):
    problem = random_problem(loss=loss, anomalies=anomalies, p=4 / 3, **VARIANTS[variant])

    def worse(problem):
        best = honest(problem)
        return best._replace(point=0.0 * best.point)

    solution = solve(problem, solver=liar(worse))
    assert_true(problem, solution)
    assert solution.certificate.status == "stopped"
    assert solution.certificate.relative_gap > 1e-3
    assert solution.n_iter == 7


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_weaker_dual_point_than_claimed_is_found_out(variant):
    problem = random_problem(p=4 / 3, **VARIANTS[variant])
    weaker = liar(lambda q: honest(q)._replace(alpha=0.5 * honest(q).alpha))
    solution = solve(problem, solver=weaker)
    assert_true(problem, solution)
    assert solution.certificate.status == "stopped"


@pytest.mark.parametrize("alpha", [1.5, -0.5, np.nan, inf], ids=str)
def test_multipliers_out_of_range_prove_nothing(alpha):
    problem = random_problem()

    def inadmissible(problem):
        best = honest(problem)
        wrong = best.alpha.copy()
        wrong[17] = alpha
        return best._replace(alpha=wrong)

    solution = solve(problem, solver=liar(inadmissible))
    assert solution.certificate.dual == 0.0
    assert solution.certificate.status == "stopped"
    assert not solution.certificate.alpha.any()
    assert_true(problem, solution)


def test_unbalanced_multipliers_prove_nothing_beside_an_intercept():
    problem = random_problem(fit_intercept=True)
    better = honest(problem).alpha * np.where(problem.y > 0, 1.0, 0.9)
    free = liar(lambda q: honest(q)._replace(alpha=better))
    assert solve(problem, solver=free).certificate.dual == 0.0
    without = Problem(problem.S, problem.y)
    held = liar(lambda q: honest(q)._replace(alpha=better))
    assert solve(without, solver=held).certificate.dual > 0.0


def test_no_multipliers_at_all_prove_that_no_value_is_negative():
    problem = random_problem()
    solution = solve(problem, solver=liar(lambda q: Candidate(honest(q).point)))
    assert solution.certificate.dual == 0.0
    assert_true(problem, solution)


@pytest.mark.parametrize("dual_weights", [0.0, 9.0])
def test_any_dual_weights_of_least_squares_give_a_true_bound(dual_weights):
    problem = random_problem(loss="least_squares", fit_intercept=True)
    wrong = np.full(problem.R, dual_weights)
    solution = solve(problem, solver=liar(lambda q: honest(q)._replace(dual_weights=wrong)))
    best = solve(problem).certificate
    assert solution.certificate.dual <= best.primal
    assert solution.certificate.status == "stopped"
    if solution.certificate.dual > 0.0:
        assert_true(problem, solution)


@cases("loss", ["hinge", "least_squares"])
@cases(
    "fault, words",
    [
        (lambda point: 1.001 * point / naive.norm(point, 4 / 3), "outside the ball"),
        (lambda point: np.full_like(point, np.nan), "finite numbers"),
        (lambda point: point * np.r_[inf, np.ones(point.size - 1)], "finite numbers"),
        (lambda point: point[:-1], "5 finite numbers"),
    ],
)
def test_a_solver_that_leaves_the_ball_is_refused_by_name(loss, fault, words):
    problem = random_problem(loss=loss, p=4 / 3)
    outside = liar(lambda q: honest(q)._replace(point=fault(honest(q).point)))
    with pytest.raises(ArithmeticError, match=f"solver='liar' proposed .*{words}"):
        solve(problem, solver=outside)


def test_a_negative_weight_is_refused_where_none_is_allowed():
    problem = random_problem(nonnegative=True)
    negative = liar(lambda q: Candidate(np.array([0.5, -1e-9, 0.0, 0.0, 0.0])))
    with pytest.raises(ArithmeticError, match=r"'liar' proposed a negative weight, -1e-09"):
        solve(problem, solver=negative)


def test_an_honest_solver_is_certified():
    problem = random_problem(p=4 / 3, costs=True, fit_intercept=True)
    solution = solve(problem, solver=liar(honest))
    assert_certified(problem, solution)


def test_changing_the_weights_after_the_examination_changes_nothing():
    problem, kept = random_problem(), []

    def run(request):
        candidate = honest(problem)
        kept.append(candidate)
        request.certifier.examine({0: candidate})
        candidate.point[:] = 0.0
        return [Outcome(1)]

    solution = solve(problem, solver=Solver("liar", ("hinge",), run, EVERYTHING))
    assert_certified(problem, solution)


def test_a_registered_solver_is_found_by_its_name(monkeypatch):
    monkeypatch.setitem(SOLVERS, "liar", liar(honest))
    problem = random_problem()
    assert_certified(problem, solve(problem, solver="liar"))


# ---------------------------------------------------------------- losses and options by name


@dataclass(frozen=True)
class SquaredHinge:
    """``max(0, r)²``: no solver of ours minimises it."""

    name: str = "squared_hinge"
    multipliers: tuple[float, float] = (0.0, inf)

    def value(self, r):
        return np.maximum(r, 0.0) ** 2

    def slope(self, r):
        return 2.0 * np.maximum(r, 0.0)

    def gain(self, alpha):
        return alpha - 0.25 * alpha * alpha


@pytest.fixture
def squared_hinge(monkeypatch):
    monkeypatch.setitem(LOSSES, "squared_hinge", SquaredHinge())
    problem = random_problem()
    return Problem(problem.S, problem.y, loss="squared_hinge")


@pytest.mark.parametrize("solver", ["auto", "interior-point", "frank-wolfe"])
def test_a_loss_that_nobody_handles_is_refused_by_name(squared_hinge, solver):
    words = (
        "loss='squared_hinge' is handled by no solver; "
        "'interior-point' handles 'hinge', 'least_squares'"
    )
    with pytest.raises(ValueError, match=words):
        solve(squared_hinge, solver=solver)
    with pytest.raises(ValueError, match=words):
        solve_path(squared_hinge, [1.0, 2.0])


def test_a_loss_of_another_solver_is_refused_by_name():
    problem = random_problem(loss="least_squares")
    only_hinge = liar(honest, losses=("hinge",))
    words = r"loss='least_squares' is not compatible with solver='liar'.*'liar' handles 'hinge'\."
    with pytest.raises(ValueError, match=words):
        solve(problem, solver=only_hinge)


def test_the_certificate_of_an_unknown_loss_is_true(squared_hinge):
    """Its own solver, by plain subgradient steps, gets a true if loose certificate."""

    def descend(problem):
        w = problem.ball.uniform(problem.R)
        rows = problem.S * problem.y[:, None]
        for t in range(1, 2000):
            slope = 2.0 * np.maximum(1.0 - rows @ w, 0.0)
            w = w + 2.0 / (t + 2.0) * (problem.ball.linear_oracle(-slope @ rows) - w)
        return Candidate(w, 2.0 * np.maximum(1.0 - rows @ w, 0.0))

    own = liar(descend, losses=("squared_hinge",))
    solution = solve(squared_hinge, solver=own, tol=1e-2)
    proof, S, y = solution.certificate, squared_hinge.S, squared_hinge.y
    margins = y * (S @ solution.weights)
    value = sum(max(0.0, 1.0 - margin) ** 2 for margin in margins)
    assert proof.primal == pytest.approx(value, rel=1e-12)
    pull = (proof.alpha * y) @ S
    bound = sum(a - a * a / 4 for a in proof.alpha) - naive.norm(pull, 2)
    assert proof.dual == pytest.approx(bound, rel=1e-12)
    assert proof.status == "optimal"


@pytest.mark.parametrize(
    ("missing", "options", "words"),
    [
        ("intercept", {"fit_intercept": True}, "cannot fit an intercept.*fit_intercept=False"),
        ("nonnegative", {"nonnegative": True}, "cannot keep weights ≥ 0.*nonnegative=False"),
    ],
)
def test_an_option_that_a_solver_does_not_handle_is_refused(missing, options, words):
    lesser = Solver("lesser", ("hinge",), lambda request: [], EVERYTHING - {missing})
    with pytest.raises(ValueError, match=f"solver='lesser' {words}"):
        solve(random_problem(**options), solver=lesser)


# -------------------------------------------------------------------------------- the certifier


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 999),
    n=st.integers(1, 40),
    R=st.integers(1, 5),
    anomalies=st.sampled_from([0.0, 0.3]),
    costs=st.booleans(),
    nonnegative=st.booleans(),
    fit_intercept=st.booleans(),
    p=st.sampled_from(GRID),
)
def test_both_sides_agree_with_naive_loops(seed, **options):
    problem, rng = random_problem(seed, **options), np.random.default_rng(seed)
    w = problem.ball.scale_into(rng.normal(size=problem.R))
    b = [float(rng.normal())] * problem.fit_intercept
    alpha = rng.uniform(0.0, 1.0, problem.n)
    certifier = Certifier(problem, [problem.ball], 1e-8)
    bounds = certifier.examine({0: Candidate(np.append(w, b), alpha)})[0]
    assert bounds.primal == pytest.approx(naive.value(problem, w, sum(b)), rel=1e-11, abs=1e-11)
    exact = naive.dual_value(problem, alpha)
    if exact > -inf:
        assert bounds.dual == pytest.approx(exact, rel=1e-10, abs=1e-10)
    else:  # classes of unequal weight: mended at a loss, or no bound at all, but never a wrong one
        assert bounds.dual - bounds.dual_error <= solve(problem).certificate.primal
    assert problem.passes == 1.0


def test_several_balls_are_examined_in_one_pass():
    problem = random_problem(n=80)
    balls = [problem.with_ball(p).ball for p in (1.0, 2.0, inf)]
    certifier = Certifier(problem, balls, 1e-8)
    candidates = {k: honest(problem.with_ball(ball.p)) for k, ball in enumerate(balls)}
    together = certifier.examine(candidates)
    assert problem.passes == 1.0
    for k, ball in enumerate(balls):
        alone = Certifier(problem, [ball], 1e-8).examine({0: candidates[k]})[0]
        assert together[k] == alone


def test_the_better_value_and_the_better_bound_are_kept():
    problem = random_problem()
    certifier, best = Certifier(problem, [problem.ball], 1e-8), honest(problem)
    certifier.examine({0: Candidate(best.point, 0.5 * best.alpha)})
    certifier.examine({0: Candidate(0.5 * best.point, best.alpha)})
    assert certifier.within(0)
    solution = certifier.solution(0, 1, problem.passes, "max_iter")
    np.testing.assert_array_equal(solution.weights, best.point)
    assert_certified(problem, solution)
    assert solution.certificate.passes == 2.0


@each_value(variant=VARIANTS, loss=("hinge", "least_squares"))
def test_blocks_elsewhere_are_judged_alike(loss, variant):
    problem = random_problem(n=90, loss=loss, **VARIANTS[variant])
    chunks = (40, 0, 50)
    rows, *vectors = (
        None if a is None else da.from_array(a, chunks=(chunks, -1)[: a.ndim])
        for a in (problem.S, problem.y, problem.costs)
    )
    with dask.config.set(scheduler="synchronous"):
        checked = check_score_blocks(rows, *vectors, partial(stratified_sample, n_rows=50))
        theirs = BlockedProblem(
            checked,
            Costs(),
            p=problem.ball.p,
            loss=loss,
            nonnegative=problem.ball.nonnegative,
            fit_intercept=problem.fit_intercept,
        )
        halved = honest(problem)._replace(point=0.5 * honest(problem).point)
        ours, blocked = (solve(q, solver=liar(lambda _: halved)) for q in (problem, theirs))
    assert blocked.certificate.primal == pytest.approx(ours.certificate.primal, rel=1e-12)
    assert blocked.certificate.dual == pytest.approx(ours.certificate.dual, rel=1e-12)
    assert blocked.certificate.status == "stopped"


# ---------------------------------------------------------------------------- what it says


def certificate_of(problem, point, alpha=None, tol=1e-3, otherwise="stopped"):
    certifier = Certifier(problem, [problem.ball], tol)
    certifier.examine({0: Candidate(np.asarray(point), alpha)})
    return certifier.solution(0, 1, problem.passes, otherwise).certificate


def test_gaps_are_relative_to_the_value_or_the_costs():
    problem = Problem(np.ones((4, 1)), costs=[1.0, 2.0, 3.0, 4.0])
    half = certificate_of(problem, [0.5])
    assert (half.primal, half.dual, half.gap) == (5.0, 0.0, 5.0 + half.rounding)
    assert half.relative_gap == half.gap / 5.0
    near = certificate_of(problem, [1.0 - 1e-6])
    assert near.gap == pytest.approx(1e-5)
    assert near.relative_gap == pytest.approx(1e-3)


def test_the_status_tells_whether_the_tolerance_was_met():
    problem = Problem(0.5 * np.ones((4, 1)))  # the best weight is 1, with the value 2
    assert certificate_of(problem, [1.0], np.ones(4)).status == "optimal"
    assert certificate_of(problem, [0.999], np.ones(4)).status == "optimal"
    assert certificate_of(problem, [0.9], np.ones(4)).status == "stopped"
    assert certificate_of(problem, [0.9], np.ones(4), otherwise="max_iter").status == "max_iter"
    assert certificate_of(problem, [1.0], np.ones(4)).gap <= 1e-13


def test_a_bound_below_zero_is_replaced_by_zero():
    problem = Problem(9.0 * np.ones((4, 1)))
    proof = certificate_of(problem, [0.0], np.ones(4))
    assert (proof.primal, proof.dual, proof.gap) == (4.0, 0.0, 4.0 + proof.rounding)
    assert 0.0 < proof.rounding <= 1e-13
    assert naive.dual_value(problem, proof.alpha) == 0.0


def test_a_certificate_reads_as_a_sentence():
    proof = certificate_of(Problem(0.5 * np.ones((4, 1))), [0.5], 0.75 * np.ones(4))
    assert str(proof) == (
        "stopped: value 3, at most 1.5e+00 above the optimum "
        "(relative gap 5.0e-01, 1.0 passes over the scores)"
    )
