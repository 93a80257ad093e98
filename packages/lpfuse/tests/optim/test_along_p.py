"""Paths from p to p: as good as single solves, whatever the data, in both forms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.pairwise import each_value
from lpfuse._compiled import compiled
from lpfuse.optim import LpBall, Problem, solve, solve_path
from lpfuse.optim import newton as numpy_form
from lpfuse.optim import paths as along_p
from lpfuse.optim.certificate import Certifier
from lpfuse.optim.interior_point import interior_point
from lpfuse.optim.newton import Breakdown, Model
from lpfuse.optim.paths import PathState, SamplePath, follow, settle
from lpfuse.optim.results import Candidate
from lpfuse.optim.tuning import DEFAULT
from oracles import naive
from oracles.problems import (
    GRID,
    LOW_THRESHOLDS,
    PURE_OR_LABELLED,
    VARIANTS,
    assert_certified,
    random_problem,
)

compiled_form = compiled("lpfuse.optim._surface")
needs_both = pytest.mark.skipif(
    compiled_form is None, reason="nothing is compiled here: there is one form only"
)
PAPER = (32 / 31, 16 / 15, 8 / 7, 4 / 3, 2.0, 4.0, 8.0, 10.0, 100.0)
# Few numbers are "many" here: samples go ahead, and models are screened.
SAMPLED = DEFAULT._replace(
    along=DEFAULT.along._replace(sample=40, sample_per_weight=4, least_stride=2, whole=600)
)
SETTINGS = {"default": DEFAULT, "sampled": SAMPLED, "many rows": LOW_THRESHOLDS}


@pytest.fixture(params=["compiled", "NumPy"])
def each_form(request, monkeypatch):
    """Both forms of the steps on the surface."""
    if request.param == "compiled" and compiled_form is None:
        pytest.skip("nothing is compiled here")
    form = compiled_form if request.param == "compiled" else numpy_form
    monkeypatch.setattr(along_p, "surface", form)


def model_of(problem):
    return Model.of_rows(problem, problem.everything()[0], problem.ball)


def over(model, p):
    return Model(model.columns, model.costs, LpBall(p), model.linear, free=model.free)


# ------------------------------------------------------------------------------------ single steps


@pytest.mark.parametrize("R", [3, 20], ids=["few coordinates", "many"])
def test_a_model_without_rows_pulls_by_its_linear_term(R, capfd):
    model = Model(np.empty((R, 0)), np.empty(0), LpBall(2.0), np.linspace(-1.0, 1.0, R))
    for form in filter(None, (compiled_form, numpy_form)):
        for _ in range(2):  # the second may take over the memory of the first
            system = form.SurfaceSystem(model, np.full(R, R**-0.5), np.empty(0), False)
            system.look(0.1)
            np.testing.assert_allclose(system.pull, -model.linear, atol=1e-15)
            assert system.n_within(0.1) == 0
            del system
    assert "illegal value" not in "".join(capfd.readouterr())  # BLAS was not asked


@each_value(p=(32 / 31, 4 / 3, 2.0, 3.0, 10.0, 100.0), centred=(False, True, True, False))
def test_the_step_solves_the_linearised_conditions(p, centred):
    rng = np.random.default_rng(3)
    R, m = 5, 80
    centre = rng.normal(size=R) if centred else None
    ball = LpBall(p, centre=centre, radius=0.7)
    model = Model(rng.normal(0.5, 1.0, (R, m)), rng.uniform(0.5, 2.0, m), ball, rng.normal(size=R))
    x = rng.uniform(0.2, 1.0, R)
    system = numpy_form.SurfaceSystem(model, x / LpBall(p).norm(x), np.empty(0), False)
    system.look(0.5)
    eta = float(system.pull @ system.x)
    if eta <= 0:
        pytest.skip("the ball does not hold this point")
    system.newton(10**9)
    # −∇f − v after the step, by finite differences along it, is smaller by their square.
    phi = np.sign(system.x) * np.abs(system.x) ** (p - 1)
    assert abs(phi @ system.dw) <= 1e-8 * np.abs(system.dw).max()
    inside = (system.alpha > 0) & (system.alpha < system.c)
    slope = model.columns[:, inside] * system.stiff[inside] @ model.columns[:, inside].T
    bend = eta * (p - 1) * np.abs(system.x) ** (p - 2) / ball.radius
    left = system.pull - eta * phi - slope @ system.dw - bend * system.dw
    along = left @ phi / (phi @ phi)
    np.testing.assert_allclose(left, along * phi, atol=1e-7 * np.abs(system.pull).max())


@needs_both
@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from([1.01, 32 / 31, 4 / 3, 2.0, 3.5, 10.0, 100.0]),
    st.sampled_from([1, 3, 9, 30]),
    st.integers(0, 1),
    st.booleans(),
)
def test_both_forms_take_the_same_steps(seed, p, R, free, centred):
    rng = np.random.default_rng(seed)
    m = 200
    ball = LpBall(p, centre=rng.normal(size=R) if centred else None, radius=0.8)
    columns = rng.normal(0.5, 1.0, (R + free, m))
    if free:
        columns[-1] = np.where(rng.random(m) < 0.7, 1.0, -1.0)
    model = Model(
        columns, rng.uniform(0.5, 2.0, m), ball, 0.1 * rng.normal(size=R + free), free=free
    )
    x = rng.normal(size=R)
    x /= LpBall(p).norm(x)
    pair = [
        form.SurfaceSystem(model, x, np.zeros(free), False) for form in (compiled_form, numpy_form)
    ]
    for band in (1.0, 0.5, 0.2):
        for system in pair:
            system.look(band)
        lengths = []
        for system in pair:
            try:
                system.newton(50)
                lengths.append(system.search(8))
            except Breakdown:
                lengths.append(-1.0)
        assert lengths[0] == lengths[1]
        if lengths[0] <= 0.0:
            return
        assert pair[0].n_near == pair[1].n_near
        assert pair[0].inside == pair[1].inside
        for name in ("x", "w", "r", "alpha", "pull"):
            left, right = (np.asarray(getattr(system, name)) for system in pair)
            scale = np.abs(right).max(initial=1e-300)
            np.testing.assert_allclose(left, right, rtol=1e-6, atol=1e-6 * scale)
        np.testing.assert_allclose(pair[0].bounds(), pair[1].bounds(), rtol=1e-6, atol=1e-6 * m)


# ------------------------------------------------------------------------------- from p to the next


@pytest.mark.usefixtures("each_form")
@each_value(variant=("plain", "costs", "intercept"), tuning=("default", "sampled"))
def test_what_is_followed_is_the_optimum(variant, tuning):
    problem = random_problem(n=600, R=6, **VARIANTS[variant])
    model, before, followed = model_of(problem), None, 0
    for p in PAPER:
        here = over(model, p)
        alone = interior_point(here, 1e-9, problem.scale)
        if before is not None:
            found = follow(here, before, 1e-8, problem.scale, SETTINGS[tuning])
            if found is not None:
                followed += 1
                assert found.within(1e-8, problem.scale)
                assert found.dual - 1e-9 * problem.n <= alone.primal
                assert alone.dual <= found.primal + 1e-9 * problem.n
                assert found.alpha.min() >= 0.0
                assert (found.alpha <= here.costs).all()
        before = PathState.of(here, alone)
    assert followed >= 6


def test_corners_and_one_sign_are_left_to_the_interior_point():
    problem = random_problem(n=100)
    model = model_of(problem)
    before = PathState.of(model, interior_point(model, 1e-8, problem.scale))
    for ball in (LpBall(1.0), LpBall(np.inf), LpBall(3.0, nonnegative=True), LpBall(3.0, radius=0)):
        other = Model(model.columns, model.costs, ball, model.linear)
        assert follow(other, before, 1e-8, problem.scale, DEFAULT) is None
    quadratic = Model(model.columns, model.costs, LpBall(3.0), model.linear, quadratic=np.eye(5))
    assert follow(quadratic, before, 1e-8, problem.scale, DEFAULT) is None


def test_an_optimum_inside_a_ball_serves_larger_balls_only():
    problem = random_problem(n=400, R=3, scale=5.0)
    model = over(model_of(problem), 2.0)
    best = interior_point(model, 1e-10, problem.scale)
    assert model.ball.gauge(best.w) < 0.9
    track = PathState.of(model, best)
    larger = track.reuse_if_optimal(over(model, 8.0), 1e-8, problem.scale)
    assert larger is not None
    assert larger.w is best.w
    assert naive.dual_value(problem.with_ball(8.0), larger.alpha) == pytest.approx(larger.dual)
    assert track.reuse_if_optimal(over(model, 1.0), 1e-8, problem.scale) is None or (
        np.abs(best.w).sum() <= 1.0
    )


@pytest.mark.usefixtures("each_form")
@pytest.mark.parametrize("p", [32 / 31, 4 / 3, 2.0, 10.0])
def test_a_wrong_start_is_mended_or_given_up(p):
    problem = random_problem(n=800, R=4)
    model = over(model_of(problem), p)
    alone = interior_point(model, 1e-9, problem.scale)
    for w in (-alone.w, np.eye(4)[0], 1e-9 * alone.w, 1e9 * alone.w):
        found = settle(model, w, None, 1e-8, problem.scale, DEFAULT)
        assert found is None or abs(found.primal - alone.primal) <= 1e-7 * problem.n


def test_a_trail_keeps_to_the_optima_of_its_sample():
    problem = random_problem(n=3000, R=4)
    model = over(model_of(problem), PAPER[0])
    trail = SamplePath(model, interior_point(model, 1e-6, problem.scale).w, DEFAULT.along)
    for p in PAPER[1:]:
        if not trail.follow(LpBall(p)):
            continue
        here = over(model, p)
        best = interior_point(here, 1e-8, problem.scale).primal
        assert here.primal(here.feasible(trail.w)) <= 1.02 * best + 1e-3 * problem.total_cost


# ----------------------------------------------------------------------------------- whole paths


@st.composite
def problems(draw):
    """Ties, repeated rows, empty and repeated columns, costs of 0, a prior, one class, no error."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n, R = draw(st.sampled_from([1, 3, 20, 150, 700])), draw(st.sampled_from([1, 2, 5, 12]))
    S = rng.normal(draw(st.sampled_from([0.0, 0.4, 2.0])), 1.0, (n, R))
    y = np.where(rng.random(n) < draw(st.sampled_from([0.0, 0.2])), -1.0, 1.0)
    dirt = draw(st.sampled_from(["none", "ties", "repeats", "empty", "copies", "parted"]))
    if dirt == "ties":
        S = np.round(S)
    elif dirt == "repeats":
        S = S[rng.integers(0, max(1, n // 5), n)]
    elif dirt == "empty":
        S[:, 0] = 0.0
    elif dirt == "copies":
        S[:, -1] = S[:, 0]
    elif dirt == "parted":
        S = S + 5.0 * y[:, None]
    costs = None
    if draw(st.booleans()):
        costs = rng.uniform(0.0, 2.0, n) * (rng.random(n) < 0.7)
        costs[0] = 1.0
    nonnegative = draw(st.booleans()) and draw(st.booleans())
    centre = rng.uniform(0.0, 0.5, R) if draw(st.booleans()) and draw(st.booleans()) else None
    return Problem(
        S,
        y,
        costs=costs,
        nonnegative=nonnegative,
        fit_intercept=draw(st.booleans()),
        centre=centre,
        radius=draw(st.sampled_from([1.0, 1.0, 0.3])),
    )


def assert_as_good_as_alone(problem, ps, tuning):
    for p, solution in zip(ps, solve_path(problem, ps, tuning=tuning), strict=True):
        alone = solve(problem.with_ball(p), tuning=tuning).certificate
        proof = solution.certificate
        slack = 1e-11 * problem.total_cost
        assert proof.status == alone.status == "optimal" or proof.gap <= 2 * alone.gap + slack
        assert proof.dual <= alone.primal + slack
        assert alone.dual <= proof.primal + slack
        value = naive.value(problem, solution.weights, solution.intercept)
        assert value == pytest.approx(proof.primal, abs=1e-9 * problem.total_cost)


@pytest.mark.parametrize("tuning", SETTINGS)
@settings(max_examples=40, deadline=None)
@given(problems(), st.permutations(GRID), st.integers(1, len(GRID)))
def test_a_path_is_as_good_as_single_solves(tuning, problem, ps, length):
    assert_as_good_as_alone(problem, [*ps[:length], ps[0]], SETTINGS[tuning])


@pytest.mark.usefixtures("each_form")
@each_value(variant=VARIANTS, tuning=SETTINGS, anomalies=PURE_OR_LABELLED)
def test_the_papers_grid_is_proven(variant, anomalies, tuning):
    problem = random_problem(n=900, R=5, anomalies=anomalies, scale=0.5, **VARIANTS[variant])
    for p, solution in zip(PAPER, solve_path(problem, PAPER, tuning=SETTINGS[tuning]), strict=True):
        assert_certified(problem.with_ball(p), solution)


def test_ties_are_broken_alike_along_a_path():
    problem = random_problem(n=300, R=6, anomalies=0.0)
    problem.S = problem.S + 4.0
    for p, solution in zip(PAPER, solve_path(problem, PAPER), strict=True):
        alone = solve(problem.with_ball(p))
        np.testing.assert_allclose(solution.weights, alone.weights, rtol=0, atol=1e-6)


def test_larger_balls_wait_for_an_optimum_inside():
    problem = random_problem(n=1500, R=3, scale=5.0)
    solutions = solve_path(problem, PAPER, tuning=LOW_THRESHOLDS)
    assert LpBall(4.0).gauge(solutions[5].weights) < 0.9
    for p, solution in zip(PAPER[6:], solutions[6:], strict=True):
        assert_certified(problem.with_ball(p), solution)
        np.testing.assert_array_equal(solution.weights, solutions[5].weights)


def test_a_candidate_of_several_balls_is_bounded_for_each():
    problem = random_problem(n=200, R=3, scale=5.0)
    best = solve(problem.with_ball(2.0))
    candidate = Candidate(best.weights, best.certificate.alpha)
    balls = [LpBall(2.0), LpBall(4.0), LpBall(8.0)]
    together = Certifier(problem, balls, 1e-8).examine(dict.fromkeys(range(3), candidate))
    for k, ball in enumerate(balls):
        apart = Certifier(problem, [ball], 1e-8).examine({0: candidate})[0]
        assert together[k] == apart
    assert together[1].dual != together[0].dual
