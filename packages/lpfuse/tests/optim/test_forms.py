"""The compiled form of the innermost formulas and that of NumPy: driven by the same steps, they
agree in every number that they tell."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from lpfuse._compiled import compiled
from lpfuse.optim import LpBall
from lpfuse.optim import newton as numpy_form
from lpfuse.optim.balls import ball_of
from lpfuse.optim.newton import Breakdown, Model, Spread

compiled_form = compiled("lpfuse.optim._newton")
pytestmark = pytest.mark.skipif(
    compiled_form is None, reason="nothing is compiled here: there is one form only"
)


@st.composite
def models(draw, rows=True):
    """A model with or without rows, curvature and an intercept, over any kind of ball."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    R, m = draw(st.sampled_from([1, 3, 6, 7, 20, 36])), draw(st.sampled_from([1, 2, 50, 300]))
    if not rows and draw(st.booleans()):
        m = 0
    free = draw(st.integers(0, 1)) if m > 2 else 0
    centre = rng.uniform(0.1, 0.5, R) if draw(st.booleans()) else None
    exponents = st.sampled_from([1.0, 32 / 31, 4 / 3, 2.0, 10.0, 100.0, np.inf])
    grouped, nonnegative = draw(st.booleans()), draw(st.booleans())
    groups = {"groups": np.arange(R) % min(R, 3), "q": draw(exponents)} if grouped else {}
    if grouped and nonnegative:
        centre = None
    radius = draw(st.sampled_from([1.0, 0.3]))
    ball = ball_of(draw(exponents), nonnegative, centre, radius, **groups)
    columns = rng.normal(0.4, 1.0, (R + free, m))
    if free:
        columns[-1] = np.where(np.arange(m) % 3, 1.0, -1.0)
    root = rng.normal(size=(R + free, R + free))
    curved = m == 0 or draw(st.booleans())
    model = Model(
        columns,
        rng.uniform(0.2, 3.0, m),
        ball,
        rng.normal(size=R + free),
        quadratic=root @ root.T if curved else None,
        free=free,
    )
    w = np.zeros(R + free)
    w[:R] = ball.at(0.1 * rng.uniform(0.1, 1.0, R) * ball.radius / R)
    return model, w


def same(left, right, rtol=1e-7):
    """Equal to `rtol` of the largest entry: what cancels is compared with what it came from."""
    left, right = np.asarray(left), np.asarray(right)
    np.testing.assert_allclose(
        left, right, rtol=rtol, atol=rtol * max(1e-300, np.abs(right).max(initial=0.0))
    )


def lengths(found):
    """Step lengths as they are used: beyond 1 they make no difference."""
    return np.minimum(found, 2.0)


@settings(max_examples=150, deadline=None)
@given(models(rows=False), st.sampled_from([0, 2]))
def test_interior_systems_agree_step_by_step(drawn, refinements):
    model, w = drawn
    pair = [
        form.InteriorSystem(model, w, model.residuals(w), 0.2)
        for form in (compiled_form, numpy_form)
    ]
    same(*(system.steepest() for system in pair))
    for system in pair:
        system.surround(model.ball, Spread(0.1, 0.5))
    assert pair[0].count == pair[1].count
    for _ in range(4):
        same(*(system.products for system in pair))
        same(*(system.hinges for system in pair))
        for system in pair:
            system.factor()
        predicted = [system.aim(0.0, False, refinements) for system in pair]
        same(*map(lengths, predicted), rtol=1e-6)
        same(*(system.left(0.3, 0.4) for system in pair))
        target = 0.2 * pair[1].products / pair[1].count
        aimed = [system.aim(target, True, refinements) for system in pair]
        same(*map(lengths, aimed), rtol=1e-6)
        step = [min(1.0, 0.9 * length) for length in aimed[1]]
        for system in pair:
            system.move(*step)
        same(*(system.w for system in pair))
        same(*(system.alpha for system in pair))


@settings(max_examples=150, deadline=None)
@given(models(), st.floats(0.05, 2.0), st.integers(1, 400))
def test_smoothed_systems_agree_step_by_step(drawn, band, wanted):
    model, w = drawn
    pair = [
        form.SmoothedSystem(model, w, model.residuals(w), band)
        for form in (compiled_form, numpy_form)
    ]
    same(*(system.steepest() for system in pair))
    for system in pair:
        system.surround(model.ball, Spread(0.1, 0.3))
    for _ in range(3):
        assert pair[0].n_inside == pair[1].n_inside
        try:
            found = [system.newton(0.05, wanted) for system in pair]
        except Breakdown:  # without a row in the band there may be no curvature at all
            with pytest.raises(Breakdown):
                pair[1].newton(0.05, wanted)
            return
        same(*(lengths(each[:2]) for each in found), rtol=1e-6)
        same(*(np.add(each[2:], 1.0) for each in found), rtol=1e-6)
        primal, dual = (min(1.0, 0.9 * length) for length in found[1][:2])
        same(*(system.ahead(primal) + found[1][3] + 1.0 for system in pair))
        for system in pair:
            system.move(primal, dual)
        same(*(system.w for system in pair))
        same(*(system.residuals for system in pair))
        same(*(system.stationarity() + 1.0 for system in pair))
        same(*(system.largest_slide() for system in pair))
        for one, other in zip(*(system.state for system in pair), strict=True):
            same(one, other)
        for system in pair:
            system.look(0.7 * band)


@settings(max_examples=50, deadline=None)
@given(models())
def test_pairs_resume_where_they_were_left(drawn):
    model, w = drawn
    first = compiled_form.SmoothedSystem(model, w, model.residuals(w), 0.5)
    first.surround(model.ball, Spread(0.1, 0.3))
    again = [
        form.InteriorSystem(model, w, model.residuals(w), 0.2)
        for form in (compiled_form, numpy_form)
    ]
    for system in again:
        system.surround(model.ball, first.state)
    same(*(system.products for system in again))


def test_what_cannot_be_factored_breaks_down_in_both_forms():
    model = Model(np.full((2, 3), np.nan), np.ones(3), LpBall(2.0), np.zeros(2))
    for form in (compiled_form, numpy_form):
        system = form.InteriorSystem(model, np.zeros(2), np.full(3, np.nan), 0.1)
        system.surround(model.ball, Spread(0.1, 0.5))
        with pytest.raises(Breakdown), np.errstate(invalid="ignore"):
            system.factor()


def projections(seeds):
    """Balls, preferred weights and rows that some point of the ball satisfies."""
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        R, p = (
            int(rng.choice([1, 2, 4, 10, 36])),
            float(rng.choice([2.0, 2.5, 4.0, 8.0, 100.0, 1000.0])),
        )
        centre = rng.uniform(0, 0.5, R) if seed % 3 == 0 else None
        ball = LpBall(p, centre=centre, radius=float(rng.choice([1.0, 0.3, 3.0])))
        u = ball.preferred(R)
        inside = ball.scale_into(u + 0.3 * ball.radius * rng.normal(size=R))
        rows = rng.normal(size=(int(rng.integers(1, 3 * R + 3)), R))
        margins = 1.0 + rng.exponential(0.1, len(rows))
        rows += np.outer(margins - rows @ inside, inside) / (inside @ inside)
        yield ball, u, rows


def test_nearest_points_agree_and_fulfil_their_conditions():
    surface = compiled("lpfuse.optim._surface")
    found = 0
    for ball, u, rows in projections(200):
        with np.errstate(all="ignore"):
            right = numpy_form.nearest_by_newton(ball, u, rows, u)
        w = surface.nearest_by_newton(ball, u, rows, u)
        assert (w is None) == (right is None)
        if w is None:
            continue
        found += 1
        np.testing.assert_allclose(w, right, rtol=0, atol=1e-11)
        # u − w lies in the cone of −a_i of binding rows and, on the surface, of its normal.
        margins, v = rows @ w, ball.from_centre(w)
        assert margins.min() > 1.0 - 1e-9
        assert ball.gauge(w) <= 1.0 + 1e-12
        normal = np.sign(v) * (np.abs(v) / max(ball.norm(v), 1e-300)) ** (ball.p - 1.0)
        on_surface = ball.gauge(w) > 1.0 - 1e-9
        cone = np.vstack([-rows[margins < 1.0 + 1e-9], normal[None][: int(on_surface)]])
        left = nnls(cone.T, u - w)[1] if len(cone) else np.linalg.norm(u - w)
        assert left < 1e-8
    assert found > 100
