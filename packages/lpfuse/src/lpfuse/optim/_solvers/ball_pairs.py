"""The ball inside Newton's method: pairs slack × multiplier, driven towards a product.

The ball is *lifted*: v = w − w₀ has ‖v‖_p ≤ r if and only if there are shares t ≥ 0 with Σ t = 1,
and |v_j| ≤ τ_j = r t_j^{1/p} (at p = ∞ τ = r, and there is no t). Each constraint becomes a pair.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lpfuse.optim.balls import LpBall, Vector


class Spread(NamedTuple):
    """How pairs start at a point.

    Attributes
    ----------
    product : float
        Start of every product slack × multiplier.
    evenness : float in (0, 1]
        How much of Σ t = 1 is spread evenly at the start; the rest follows |v_j|^p.
    """

    product: float
    evenness: float


class PairsState(NamedTuple):
    """Where pairs were left: slacks and shares x, multipliers z, v = w − w₀ and η."""

    x: Vector
    z: Vector
    v: Vector
    eta: float


class BallStep(NamedTuple):
    """A direction of the pairs of the ball."""

    dx: Vector
    dz: Vector
    dw: Vector
    d_eta: float


def _shares(p: float, v: Vector, evenness: float) -> Vector:
    size = np.abs(v) ** p
    total = float(size.sum())
    even = np.full_like(v, 1.0 / v.size)
    return evenness * even + (1.0 - evenness) * (size / total if total > 0.0 else even)


class BallPairs:
    """Pairs (u⁺, λ⁺), (u⁻, λ⁻), (t, θ) of every coordinate, stacked as (3, R); (2, R) at p = ∞.

    u⁺ = τ − v and u⁻ = στ + v, where σ = 0 turns the lower bound into w ≥ 0 where w₀ = 0. Around
    another centre w ≥ 0 needs a pair of its own, (w, λ⁰), before t. The slacks are variables of
    their own: deriving them from v and t jams near p = 1, where t^{1/p} bends sharply.

    With η the multiplier of Σ t = 1, and ∇ the slope of the rest of the objective in w, the
    conditions of optimality are

        ∇ + λ⁺ − λ⁻ − λ⁰ = 0,     η = (λ⁺ + σλ⁻) τ′(t) + θ,     u⁺λ⁺ = u⁻λ⁻ = wλ⁰ = tθ = 0.

    A Newton step linearises them, with the products driven to a target instead of 0.

    Parameters
    ----------
    w : array of shape (R,)
        Where to start, inside the ball.
    place : Spread or PairsState
        How to start there, or where pairs at w were left.
    """

    def __init__(self, ball: LpBall, w: Vector, place: Spread | PairsState) -> None:
        self.lifted = ball.p < np.inf
        self.exponent = 1.0 / ball.p if self.lifted else 0.0
        floor = ball.centre if ball.nonnegative else None  # w ≥ 0 is v ≥ −floor
        self.bounded = floor is not None
        self.sigma = 0.0 if ball.nonnegative and not self.bounded else 1.0
        self.radius = ball.room
        # u = base + signs·v + reach·τ for the slacks of a coordinate
        self.signs, self.reach = np.array([[-1.0], [1.0]]), np.array([[1.0], [self.sigma]])
        if floor is not None:
            self.signs = np.append(self.signs, [[1.0]], axis=0)
            self.reach = np.append(self.reach, [[0.0]], axis=0)
            none = np.zeros_like(floor)
            self.base = np.stack([none, none, floor])
        self.n_slacks = len(self.signs)
        if isinstance(place, PairsState):
            self.x, self.z, self.v, self.eta = place
        else:
            self._start(ball, w, *place)

    def _start(self, ball: LpBall, w: Vector, product: float, evenness: float) -> None:
        self.v = v = ball.from_centre(w)
        share = _shares(ball.p, v / self.radius, evenness) if self.lifted else np.ones_like(v)
        tau = self.radius * share**self.exponent
        # Slacks start at no less than a twentieth of their range (by hand), and off τ ∓ v if need
        # be: the steps close that error.
        slacks = np.maximum(self._slacks_at(tau), 0.05 * tau)
        self.x = np.concatenate([slacks, share[None]]) if self.lifted else slacks
        self.z = product / self.x
        self.eta = 0.0
        if self.lifted:
            bend = self.exponent * tau / share
            self.eta = float(np.mean((self.z[0] + self.sigma * self.z[1]) * bend + self.z[-1]))

    @property
    def state(self) -> PairsState:
        """Where the pairs are."""
        return PairsState(self.x, self.z, self.v, self.eta)

    def _slacks_at(self, tau: Vector) -> Vector:
        exact = self.signs * self.v + self.reach * tau
        return exact + self.base if self.bounded else exact

    def pressure(self, z: Vector) -> Vector:
        """What multipliers of the ball add to the slope in w."""
        return z[0] - z[1] - z[2] if self.bounded else z[0] - z[1]

    @property
    def force(self) -> Vector:
        """What the multipliers of the ball add to the slope in w."""
        return self.pressure(self.z)

    def linearise(self) -> Vector:
        """Prepare a step; returns the diagonal that the ball adds to the Newton matrix.

        From u λ = target: dλ = h − d du, with d = λ/u and h = target/u − λ. Slacks move by
        du⁺ = τ′dt − dw − error and du⁻ = στ′dt + dw − error, where τ′ = τ/(p t); that of w ≥ 0 by
        dw − error, which adds d⁰ to K_ww. Put into the two conditions on slopes, this gives for
        each coordinate

            K_ww dw + K_wt dt = …,     K_wt dw + K_tt dt + dη = g_t

        with K_ww = d⁺ + d⁻, K_wt = τ′(σd⁻ − d⁺) and
        K_tt = τ′²(d⁺ + σd⁻) − (λ⁺ + σλ⁻)τ″ + θ/t. Each t_j meets only its own w_j: eliminating t
        leaves K_ww − K_wt²/K_tt on the diagonal, and dη as one more column, the border K_wt/K_tt.
        """
        x, z, sigma = self.x, self.z, self.sigma
        self.d = d = z / x
        up, down = d[0], d[1]
        t, e = x[-1], self.exponent
        tau = self.radius * t**e
        self.error = x[: self.n_slacks] - self.signs * self.v - self.reach * tau
        if self.bounded:
            self.error -= self.base
        floor = d[2] if self.bounded else 0.0
        if not self.lifted:
            return up + down + floor
        self.bend = bend = e * tau / t  # τ′
        press = z[0] + sigma * z[1]
        curve = press * bend * ((1.0 - e) / t) + d[-1]  # −(λ⁺ + σλ⁻)τ″ + θ/t
        bend_down, bend_squared = sigma * down, bend * bend
        self.Ktt = bend_squared * (up + bend_down) + curve
        self.Kwt = bend * (bend_down - up)
        self.border = self.Kwt / self.Ktt
        self.t_slope = self.eta - press * bend - z[-1]
        self.t_missing = 1.0 - float(t.sum())
        # K_ww − K_wt²/K_tt, written so that nothing cancels: near the optimum d spans twenty orders
        # of magnitude, and the difference of the two terms would lose all digits.
        top = (up + down) * curve + (1.0 + sigma) ** 2 * bend_squared * up * down
        return top / self.Ktt + floor

    def pull(self, change: Vector) -> Vector:
        """Right-hand side in w of the step that changes the products x·z by `change`.

        g_t is the right-hand side of the eliminated t, of which the border's share goes to w.
        """
        self.h = h = change / self.x
        k = self.n_slacks
        push = h[:k] + self.d[:k] * self.error
        pull = -self.pressure(push)
        if not self.lifted:
            return pull
        self.gt = self.bend * (push[0] + self.sigma * push[1]) + h[-1] - self.t_slope
        return pull - self.border * self.gt

    def multiplier_step(self, z0: Vector, z1: Vector) -> float:
        """dη such that Σ t returns to 1 when dw = z0 + z1 dη."""
        # Σ dt = Σ (g_t − K_wt dw − dη)/K_tt must be 1 − Σ t.
        top = float(((self.gt - self.Kwt * z0) / self.Ktt).sum()) - self.t_missing
        return top / float(((1.0 + self.Kwt * z1) / self.Ktt).sum())

    def direction(self, dw: Vector, d_eta: float) -> BallStep:
        """The direction of the pairs that belongs to dw."""
        dx, k = np.empty_like(self.x), self.n_slacks
        dx[:k] = self.signs * dw - self.error
        if self.lifted:
            dx[k] = (self.gt - self.Kwt * dw - d_eta) / self.Ktt
            dx[:k] += self.reach * (self.bend * dx[k])
        return BallStep(dx, self.h - self.d * dx, dw, d_eta)

    def move(self, step: BallStep, primal: float, dual: float) -> None:
        """Take the step, with lengths of their own for slacks and multipliers."""
        self.x = self.x + primal * step.dx
        self.z = self.z + dual * step.dz
        self.v = self.v + primal * step.dw
        self.eta += dual * step.d_eta
        self._follow_the_bend()

    def _follow_the_bend(self) -> None:
        """Return slacks to τ ∓ v where that changes them little: t^{1/p} is not the line it was."""
        if self.lifted:
            slacks = self.x[: self.n_slacks]
            exact = self._slacks_at(self.radius * self.x[-1] ** self.exponent)
            self.x[: self.n_slacks] = np.where(np.abs(exact - slacks) < 0.5 * slacks, exact, slacks)
