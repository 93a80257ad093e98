"""The ball around prior weights: ‖w − w₀‖_p ≤ r, with or without w ≥ 0."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.pairwise import each_value, pairwise
from lpfuse.optim import LpBall, Problem, solve, solve_path
from lpfuse.optim.tuning import Tuning
from oracles import naive
from oracles.optimum import nearest_error_free_to_uniform, optimum
from oracles.problems import (
    BOTH,
    FEW_P,
    GRID,
    LOSSES,
    LOW_THRESHOLDS,
    OPTIONS,
    VARIANTS,
    assert_certified,
    assert_feasible,
    changed,
    random_problem,
)

every_p = pytest.mark.parametrize("p", GRID)
FRANK_WOLFE = ("frank-wolfe", "smoothed-frank-wolfe")

CENTRES = {
    "zero": lambda R: np.zeros(R),
    "inside": lambda R: np.linspace(0.1, 0.9, R),
    "some at zero": lambda R: np.where(np.arange(R) % 2, 0.7, 0.0),
    "a vertex": lambda R: np.eye(R)[1 % R],
    "far": lambda R: np.linspace(1.0, 30.0, R),
}
AROUND = [("inside", 0.3), ("some at zero", 1.0), ("a vertex", 0.05), ("far", 2.0), ("zero", 3.0)]


def centred(variant="plain", centre="inside", R=5, **settings):
    return random_problem(R=R, centre=CENTRES[centre](R), **VARIANTS[variant], **settings)


# ------------------------------------------------------------------------------------- the set

balls = st.builds(
    lambda p, nonnegative, centre, power: LpBall(
        p, nonnegative, np.array(centre) * 10.0**power, 10.0**power
    ),
    st.sampled_from((*GRID, 1.0 + 1e-9, 1e6)),
    st.booleans(),
    st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0, 1.5, 40.0]), min_size=4, max_size=4),
    st.sampled_from([-9, 0, 6]),
)
directions = st.lists(st.integers(-8, 8).map(lambda k: k / 4), min_size=4, max_size=4).map(np.array)


def rounding(ball, g):
    return 1e-12 * ball.support_size(np.abs(g)) + 1e-300


@settings(max_examples=200)
@given(ball=balls, g=directions, seed=st.integers(0, 99))
def test_no_point_of_the_ball_exceeds_the_support(ball, g, seed):
    rng = np.random.default_rng(seed)
    w = ball.scale_into(ball.centre + ball.radius * rng.normal(size=4) * rng.choice([0.1, 1, 5]))
    assert g @ w <= ball.support(g) + rounding(ball, g)


@settings(max_examples=200)
@given(ball=balls, g=directions)
def test_the_linear_oracle_attains_the_support(ball, g):
    w = ball.linear_oracle(-g)
    assert naive.norm(w - ball.centre, ball.p) <= ball.radius * (1 + 1e-9)
    assert not ball.nonnegative or w.min() >= 0
    # The distance of w from a centre 40 radii away has lost two digits.
    assert g @ w == pytest.approx(ball.support(g), rel=1e-9, abs=100 * rounding(ball, g))
    assert ball.support(g) == pytest.approx(naive.support(ball, g), abs=100 * rounding(ball, g))


@settings(max_examples=100)
@given(ball=balls, g=directions)
def test_support_is_within_what_stretch_and_size_say(ball, g):
    assert abs(ball.support(g)) <= ball.support_size(g) * (1 + 1e-12)
    for norm in (2.0, np.inf):
        most = ball.stretch(4, norm) * naive.norm(g, norm)
        assert ball.support(g) <= most * (1 + 1e-12) + rounding(ball, g)


@settings(max_examples=200)
@given(ball=balls, seed=st.integers(0, 99), size=st.sampled_from([1e-3, 1.0, 1e6]))
def test_points_are_brought_into_the_ball_towards_its_centre(ball, seed, size):
    outside = ball.centre + size * ball.radius * np.random.default_rng(seed).normal(size=4)
    w = ball.scale_into(outside)
    assert ball.norm(w - ball.centre) <= ball.radius
    assert not ball.nonnegative or w.min() >= 0
    assert (np.abs(w - ball.centre) <= np.abs(outside - ball.centre)).all()


@every_p
def test_a_ball_below_rounding_of_its_centre_is_a_point(p):
    ball = LpBall(p, False, np.array([1.0, 3.0, 1e6]), 1e-30)
    assert ball.scale_into(np.array([5.0, -5.0, 0.0])).tolist() == ball.centre.tolist()


# ------------------------------------------------------------------------------------- optima


@pairwise(p=FEW_P, around=AROUND, variant=VARIANTS, loss=LOSSES)
def test_the_optimum_of_other_solvers_is_reached_and_proven(p, loss, variant, around):
    centre, radius = around
    problem = centred(variant, centre, p=p, loss=loss, radius=radius)
    solution = solve(problem)
    assert_certified(problem, solution)
    w, b = optimum(problem)
    other = naive.value(problem, w, b)
    assert other >= solution.certificate.dual * (1 - 1e-12) - 1e-12 * problem.total_cost
    assert solution.certificate.primal <= other + solution.certificate.gap
    # A check of the other solvers: they reach five digits where cones approximate powers.
    assert other <= solution.certificate.primal * (1 + 1e-5) + 1e-5 * problem.total_cost


@pairwise(p=FEW_P, loss=LOSSES, **OPTIONS)
def test_many_rows_and_few_give_one_optimum(p, loss, costs, nonnegative, fit_intercept):
    options = {"costs": costs, "nonnegative": nonnegative, "fit_intercept": fit_intercept}
    problem = centred(n=900, p=p, loss=loss, radius=0.4, **options)
    many = solve(problem, tuning=LOW_THRESHOLDS)
    assert_certified(problem, many)
    few = solve(problem)
    assert many.certificate.primal == pytest.approx(few.certificate.primal, rel=3e-8)


@each_value(variant=VARIANTS, loss=LOSSES)
def test_a_path_solves_each_p(loss, variant):
    problem = centred(variant, "some at zero", n=500, loss=loss, radius=0.7)
    for tuning in (LOW_THRESHOLDS, Tuning()):
        for p, solution in zip(GRID, solve_path(problem, GRID, tuning=tuning), strict=True):
            assert_certified(problem.with_ball(p), solution)


@each_value(centre=CENTRES, p=FEW_P, variant=VARIANTS, loss=LOSSES)
def test_radius_zero_keeps_the_prior_and_learns_the_intercept(p, loss, variant, centre):
    problem = centred(variant, centre, p=p, loss=loss, radius=0.0)
    solution = solve(problem)
    assert solution.weights.tolist() == problem.ball.centre.tolist()
    assert_certified(problem, solution)


@each_value(p=FEW_P, loss=(*LOSSES, "hinge"))
def test_a_larger_ball_is_never_worse(p, loss):
    values = [
        solve(centred(p=p, loss=loss, radius=r)).certificate.primal for r in (0.0, 0.1, 1, 10, 1e3)
    ]
    assert (np.diff(values) <= 1e-8 * np.array(values[:-1])).all()
    from_zero = solve(random_problem(p=p, loss=loss, radius=1e3)).certificate.primal
    assert values[-1] == pytest.approx(from_zero, rel=1e-6)


@each_value(p=FEW_P, loss=LOSSES, nonnegative=(False, True, True))
def test_a_centre_at_zero_is_the_ball_without_one(p, loss, nonnegative):
    around = solve(centred(centre="zero", p=p, loss=loss, nonnegative=nonnegative))
    without = solve(random_problem(p=p, loss=loss, nonnegative=nonnegative))
    assert around.certificate.primal == pytest.approx(without.certificate.primal, rel=2e-8)


@each_value(p=FEW_P, loss=LOSSES, nonnegative=(False, True, True))
def test_scaled_scores_scale_prior_radius_and_weights(p, loss, nonnegative):
    first = centred(p=p, loss=loss, nonnegative=nonnegative, radius=0.3)
    ball = first.ball
    for factor in (1e-4, 1e3):
        second = Problem(
            first.S * factor,
            first.y,
            p=p,
            loss=loss,
            nonnegative=nonnegative,
            centre=ball.centre / factor,
            radius=ball.radius / factor,
        )
        one, other = solve(first), solve(second)
        assert other.certificate.primal == pytest.approx(one.certificate.primal, rel=2e-8)
        assert other.certificate.status == "optimal"


@pairwise(p=FEW_P, loss=LOSSES, **OPTIONS)
def test_the_order_of_detectors_does_not_matter(p, loss, costs, nonnegative, fit_intercept):
    options = {"costs": costs, "nonnegative": nonnegative, "fit_intercept": fit_intercept}
    problem = centred(p=p, loss=loss, radius=0.5, **options)
    order = np.array([3, 1, 4, 0, 2])
    other = changed(problem, S=problem.S[:, order])
    other.ball = LpBall(p, problem.ball.nonnegative, problem.ball.centre[order], 0.5)
    values = [solve(each).certificate.primal for each in (problem, other)]
    assert values[0] == pytest.approx(values[1], rel=2e-8)


@pairwise(p=FEW_P, solver=FRANK_WOLFE, nonnegative=BOTH, centre=("inside", "far"))
def test_frank_wolfe_stays_in_the_ball_and_is_bounded_alike(p, solver, nonnegative, centre):
    problem = centred(centre=centre, p=p, nonnegative=nonnegative, radius=0.3)
    reached, best = solve(problem, solver=solver, max_iter=300), solve(problem)
    assert_feasible(problem, reached.weights)
    assert reached.certificate.primal >= best.certificate.dual - 1e-12
    assert reached.certificate.dual == pytest.approx(best.certificate.dual, rel=2e-8)
    assert reached.certificate.primal <= problem.value(problem.ball.centre) * (1 + 1e-9) + 0.5


def test_smoothed_frank_wolfe_converges_around_a_centre():
    problem = centred(p=2.0, radius=0.3, nonnegative=True)
    reached = solve(problem, solver="smoothed-frank-wolfe", max_iter=5000)
    assert reached.certificate.primal == pytest.approx(solve(problem).certificate.primal, rel=2e-3)


# ---------------------------------------------------------------------------------- tie-break


@pairwise(
    p=(1.0, 8 / 7, np.inf),
    variant=("plain", "costs", "nonnegative", "intercept"),
    tuned=("few rows", "many rows"),
)
def test_error_free_weights_nearest_to_the_prior_are_taken(p, variant, tuned):
    problem = centred(variant, "inside", n=500, p=p, radius=0.9)
    rows = 0.05 * problem.S + problem.y[:, None] * np.array([0.9, 0.3, 0.2, 0.1, 0.4])
    problem = changed(problem, S=rows)
    assert problem.value(problem.ball.centre) > 0
    options = {"tuning": LOW_THRESHOLDS} if tuned == "many rows" else {}
    solution = solve(problem, **options)
    assert_certified(problem, solution)
    assert solution.certificate.primal <= 1e-11 * problem.total_cost
    np.testing.assert_allclose(
        solution.weights, nearest_error_free_to_uniform(problem), rtol=0, atol=2e-4
    )


@each_value(p=GRID, variant=VARIANTS)
def test_a_prior_without_error_is_kept(p, variant):
    problem = centred(variant, "inside", p=p, radius=0.5)
    problem = changed(problem, S=4.0 * problem.y[:, None] + 0.1 * problem.S)
    np.testing.assert_allclose(solve(problem).weights, problem.ball.centre, rtol=0, atol=1e-12)


@every_p
def test_what_scores_leave_open_stays_with_the_prior(p):
    """Two equal columns: least squares tells their sum only."""
    problem = centred("plain", "inside", p=p, loss="least_squares", radius=0.5)
    S = problem.S.copy()
    S[:, 1] = S[:, 0]
    problem = changed(problem, S=S)
    v = solve(problem).weights - problem.ball.centre
    assert v[0] == pytest.approx(v[1], abs=1e-5)
