"""The ball inside the interior point: its start, and that a step solves the linearised conditions.

A wrong step would still end at a proven optimum, only later, so nothing else notices it.
"""

import numpy as np
import pytest

from lpfuse.optim import LpBall
from lpfuse.optim.newton import BallPairs, Spread

W0 = np.array([0.3, 0.1, 0.2, 0.4])
BALLS = {
    "p near 1": LpBall(32 / 31),
    "p 2": LpBall(2.0),
    "p 8, w from 0": LpBall(8.0, True),
    "p inf": LpBall(float("inf")),
    "radius": LpBall(3.0, radius=0.5),
    "centre": LpBall(2.0, centre=W0, radius=0.3),
    "centre, w from 0": LpBall(2.0, True, centre=W0, radius=0.3),
}
every_ball = pytest.mark.parametrize("ball", BALLS.values(), ids=BALLS)


def start(ball):
    """Near the centre, where all slacks are those of the formula."""
    w = np.full(4, 0.01) if ball.centre is None else ball.centre + 0.001
    return BallPairs(ball, w, Spread(product=0.1, evenness=1.0)), w


def moved(ball, seed=0):
    """Pairs off their start, with errors in every condition."""
    pairs, _ = start(ball)
    rng = np.random.default_rng(seed)
    pairs.x = pairs.x * rng.uniform(0.5, 1.5, pairs.x.shape)
    pairs.z = pairs.z * rng.uniform(0.5, 1.5, pairs.z.shape)
    pairs.eta += 0.1
    return pairs, rng


@every_ball
def test_the_start_keeps_to_the_formulas(ball):
    pairs, w = start(ball)
    v = w if ball.centre is None else w - ball.centre
    tau = ball.room * (4.0 ** (-1 / ball.p) if ball.p < np.inf else 1.0)
    np.testing.assert_allclose(pairs.x[0], tau - v, rtol=1e-12)
    np.testing.assert_allclose(pairs.x[1], pairs.sigma * tau + v, rtol=1e-12, atol=0.05 * tau)
    np.testing.assert_allclose(pairs.x * pairs.z, 0.1, rtol=1e-12)
    if ball.p < np.inf:
        assert pairs.x[-1].sum() == pytest.approx(1.0, rel=1e-12)
        slope = tau / (ball.p * 0.25)  # τ′(t) at t = 1/R
        eta = (pairs.z[0] + pairs.sigma * pairs.z[1]) * slope + pairs.z[-1]
        assert pairs.eta == pytest.approx(eta.mean(), rel=1e-12)
    assert len(pairs.x) == 2 + pairs.bounded + pairs.lifted
    assert pairs.lifted == (ball.p < np.inf)


@every_ball
def test_a_step_solves_the_linearised_conditions(ball):
    pairs, rng = moved(ball)
    diagonal = pairs.linearise()
    change, dw, d_eta = rng.normal(size=pairs.x.shape), rng.normal(size=4), 0.3 * pairs.lifted
    pull = pairs.pull(change)
    step = pairs.direction(dw, d_eta)

    # Products: z dx + x dz = change.
    np.testing.assert_allclose(pairs.z * step.dx + pairs.x * step.dz, change, atol=1e-10)

    # The slope in w: what the multipliers change is what the Newton matrix says.
    border = pairs.border * d_eta if pairs.lifted else 0.0
    size = np.abs(step.dz).max()
    np.testing.assert_allclose(
        pairs.pressure(step.dz), diagonal * dw - border - pull, atol=1e-11 * size
    )

    # η = (λ⁺ + σλ⁻) τ′(t) + θ, to first order.
    if pairs.lifted:
        t, dt, e = pairs.x[-1], step.dx[-1], 1.0 / ball.p
        tau = ball.room * t**e
        first, second = e * tau / t, e * (e - 1.0) * tau / t**2
        press = pairs.z[0] + pairs.sigma * pairs.z[1]
        more = step.dz[0] + pairs.sigma * step.dz[1]
        right = press * first + more * first + press * second * dt + pairs.z[-1] + step.dz[-1]
        np.testing.assert_allclose(right, pairs.eta + d_eta, atol=1e-11 * size)


@every_ball
def test_the_multiplier_brings_the_shares_back_to_one(ball):
    pairs, rng = moved(ball, seed=1)
    if not pairs.lifted:
        pytest.skip("at p = ∞ there are no shares")
    pairs.linearise()
    pairs.pull(rng.normal(size=pairs.x.shape))
    z0, z1 = rng.normal(size=(2, 4))
    d_eta = pairs.multiplier_step(z0, z1)
    step = pairs.direction(z0 + z1 * d_eta, d_eta)
    assert pairs.x[-1].sum() + step.dx[-1].sum() == pytest.approx(1.0, abs=1e-9)
