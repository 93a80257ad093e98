"""The constraint set: the unit ℓp ball, optionally cut to non-negative weights.

Everything that mentions p is here. Vectors have R entries and live on the host. `LpBall` is the set
itself; `BallPairs` is its form for Newton's method, where the ball is *lifted*: ‖w‖_p ≤ 1 holds if
and only if there are shares t ≥ 0 with Σ t = 1 and |w_j| ≤ τ_j = t_j^{1/p} (at p = ∞ τ = 1, and
there is no t). Each constraint becomes a pair slack × multiplier that is driven towards a product.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def _norm(v: Vector, p: float) -> float:
    """``‖v‖_p`` without overflow: the largest entry is divided out before any power is taken."""
    size = np.abs(v)
    top = float(size.max(initial=0.0))
    if top == 0.0 or p == np.inf:
        return top
    if p == 1.0:
        return float(size.sum())
    return top * float(((size / top) ** p).sum() ** (1.0 / p))


@dataclass(frozen=True)
class LpBall:
    """The set ``{w : ‖w‖_p ≤ 1}``, with ``w ≥ 0`` added when `nonnegative`.

    Parameters
    ----------
    p : float in [1, ∞]
        1 favours a single learner, ∞ trusts all of them.
    nonnegative : bool
        Keep only the part of the ball with ``w ≥ 0``.

    Examples
    --------
    >>> import numpy as np
    >>> ball = LpBall(2.0)
    >>> ball.norm(np.array([3.0, 4.0])), ball.dual_norm(np.array([3.0, 4.0]))
    (5.0, 5.0)
    >>> ball.linear_oracle(np.array([3.0, -4.0]))
    array([-0.6,  0.8])
    """

    p: float
    nonnegative: bool = False

    @property
    def q(self) -> float:
        """The conjugate exponent: ``1/p + 1/q = 1``."""
        if self.p == 1.0:
            return np.inf
        return 1.0 if self.p == np.inf else self.p / (self.p - 1.0)

    def norm(self, w: Vector) -> float:
        """``‖w‖_p``."""
        return _norm(w, self.p)

    def dual_norm(self, v: Vector) -> float:
        """``max {vᵀz : z in the ball}``: ``‖v‖_q``, of the positive part when `nonnegative`."""
        return _norm(np.maximum(v, 0.0) if self.nonnegative else v, self.q)

    def stretch(self, size: int, norm: float = np.inf) -> float:
        """How many times ``‖v‖_norm`` the norm ``‖v‖_q`` can be, for vectors of that size."""
        return float(size ** max(1.0 / self.q - 1.0 / norm, 0.0))

    def linear_oracle(self, g: Vector) -> Vector:
        """``argmin {gᵀz : z in the ball}``; the zero vector where g gives no direction.

        The gradient is divided by its largest entry first: its power reaches 31 on the paper's
        grid of p and would overflow. At p = 1 the first of several equal entries wins.
        """
        v = np.maximum(-g, 0.0) if self.nonnegative else -g
        size = np.abs(v)
        top = size.max(initial=0.0)
        if top == 0.0:
            return np.zeros_like(v)
        if self.p == 1.0:
            z = np.zeros_like(v)
            best = int(np.argmax(size))
            z[best] = np.sign(v[best])
            return z
        if self.p == np.inf:
            return np.sign(v)
        z = (size / top) ** (1.0 / (self.p - 1.0))  # at most 1, so its powers cannot overflow
        return np.sign(v) * (z / (z**self.p).sum() ** (1.0 / self.p))

    def scale_into(self, w: Vector) -> Vector:
        """The multiple of w nearest to w that lies in the ball (negative entries cut first)."""
        if self.nonnegative:
            w = np.maximum(w, 0.0)
        # One rounding error of slack keeps ‖w‖_p ≤ 1 true in floating point as well.
        norm = self.norm(w) * (1.0 + 1e-15)
        return w / norm if norm > 1.0 else w

    def uniform(self, size: int) -> Vector:
        """``R^{-1/p} · 1``: equal weights on the surface, the start of the paper's Algorithm 1."""
        return np.full(size, 1.0 if self.p == np.inf else size ** (-1.0 / self.p))


class BallStep(NamedTuple):
    """A direction of the pairs of the ball."""

    dx: Vector
    dz: Vector
    dw: Vector
    d_eta: float


def _shares(ball: LpBall, w: Vector, evenness: float) -> Vector:
    size = np.abs(w) ** ball.p
    total = float(size.sum())
    even = np.full_like(w, 1.0 / w.size)
    return evenness * even + (1.0 - evenness) * (size / total if total > 0.0 else even)


class BallPairs:
    """Pairs (u⁺, λ⁺), (u⁻, λ⁻), (t, θ) of every coordinate, stacked as (3, R); (2, R) at p = ∞.

    u⁺ = τ − w and u⁻ = στ + w, where σ = 0 turns the lower bound into w ≥ 0. The slacks are
    variables of their own: deriving them from w and t jams near p = 1, where t^{1/p} bends sharply.

    With η the multiplier of Σ t = 1, and ∇ the slope of the rest of the objective in w, the
    conditions of optimality are

        ∇ + λ⁺ − λ⁻ = 0,     η = (λ⁺ + σλ⁻) τ′(t) + θ,     u⁺λ⁺ = u⁻λ⁻ = tθ = 0.

    A Newton step linearises them, with the products driven to a target instead of 0.

    Parameters
    ----------
    w : array of shape (R,)
        Where to start, inside the ball.
    product : float
        Start of every product slack × multiplier.
    evenness : float in (0, 1]
        How much of Σ t = 1 is spread evenly at the start; the rest follows |w_j|^p.
    """

    def __init__(self, ball: LpBall, w: Vector, product: float, evenness: float) -> None:
        self.lifted = ball.p < np.inf
        self.exponent = 1.0 / ball.p if self.lifted else 0.0
        self.sigma = 0.0 if ball.nonnegative else 1.0
        self.w = w
        # u = signs·w + reach·τ for the two slacks of a coordinate
        self.signs, self.reach = np.array([[-1.0], [1.0]]), np.array([[1.0], [self.sigma]])
        share = _shares(ball, w, evenness) if self.lifted else np.ones_like(w)
        tau = share**self.exponent
        # Slacks start at no less than a twentieth of their range (by hand), and off τ ∓ w if need
        # be: the steps close that error.
        slacks = [np.maximum(tau - w, 0.05 * tau), np.maximum(self.sigma * tau + w, 0.05 * tau)]
        self.x = np.stack([*slacks, share] if self.lifted else slacks)
        self.z = product / self.x
        self.eta = 0.0
        if self.lifted:
            bend = self.exponent * tau / share
            self.eta = float(np.mean((self.z[0] + self.sigma * self.z[1]) * bend + self.z[2]))

    @property
    def force(self) -> Vector:
        """What the multipliers of the ball add to the slope in w."""
        return self.z[0] - self.z[1]

    def linearise(self) -> Vector:
        """Prepare a step; returns the diagonal that the ball adds to the Newton matrix.

        From u λ = target: dλ = h − d du, with d = λ/u and h = target/u − λ. Slacks move by
        du⁺ = τ′dt − dw − error and du⁻ = στ′dt + dw − error, where τ′ = τ/(p t). Put into the two
        conditions on slopes, this gives for each coordinate

            K_ww dw + K_wt dt = …,     K_wt dw + K_tt dt + dη = g_t

        with K_ww = d⁺ + d⁻, K_wt = τ′(σd⁻ − d⁺) and
        K_tt = τ′²(d⁺ + σd⁻) − (λ⁺ + σλ⁻)τ″ + θ/t. Each t_j meets only its own w_j: eliminating t
        leaves K_ww − K_wt²/K_tt on the diagonal, and dη as one more column, the border K_wt/K_tt.
        """
        x, z, sigma = self.x, self.z, self.sigma
        self.d = d = z / x
        up, down = d[0], d[1]
        t, e = x[-1], self.exponent
        tau = t**e
        self.error = x[:2] - self.signs * self.w - self.reach * tau
        if not self.lifted:
            return up + down
        self.bend = bend = e * tau / t  # τ′
        press = z[0] + sigma * z[1]
        curve = press * bend * ((1.0 - e) / t) + d[2]  # −(λ⁺ + σλ⁻)τ″ + θ/t
        bend_down, bend_squared = sigma * down, bend * bend
        self.Ktt = bend_squared * (up + bend_down) + curve
        self.Kwt = bend * (bend_down - up)
        self.border = self.Kwt / self.Ktt
        self.t_slope = self.eta - press * bend - z[2]
        self.t_missing = 1.0 - float(t.sum())
        # K_ww − K_wt²/K_tt, written so that nothing cancels: near the optimum d spans twenty orders
        # of magnitude, and the difference of the two terms would lose all digits.
        return ((up + down) * curve + (1.0 + sigma) ** 2 * bend_squared * up * down) / self.Ktt

    def pull(self, change: Vector) -> Vector:
        """Right-hand side in w of the step that changes the products x·z by `change`.

        g_t is the right-hand side of the eliminated t, of which the border's share goes to w.
        """
        self.h = h = change / self.x
        up, down = h[:2] + self.d[:2] * self.error
        if not self.lifted:
            return down - up
        self.gt = self.bend * (up + self.sigma * down) + h[2] - self.t_slope
        return down - up - self.border * self.gt

    def multiplier_step(self, z0: Vector, z1: Vector) -> float:
        """dη such that Σ t returns to 1 when dw = z0 + z1 dη."""
        # Σ dt = Σ (g_t − K_wt dw − dη)/K_tt must be 1 − Σ t.
        top = float(((self.gt - self.Kwt * z0) / self.Ktt).sum()) - self.t_missing
        return top / float(((1.0 + self.Kwt * z1) / self.Ktt).sum())

    def direction(self, dw: Vector, d_eta: float) -> BallStep:
        """The direction of the pairs that belongs to dw."""
        dx = np.empty_like(self.x)
        dx[:2] = self.signs * dw - self.error
        if self.lifted:
            dx[2] = (self.gt - self.Kwt * dw - d_eta) / self.Ktt
            dx[:2] += self.reach * (self.bend * dx[2])
        return BallStep(dx, self.h - self.d * dx, dw, d_eta)

    def move(self, step: BallStep, primal: float, dual: float) -> None:
        """Take the step, with lengths of their own for slacks and multipliers."""
        self.x = self.x + primal * step.dx
        self.z = self.z + dual * step.dz
        self.w = self.w + primal * step.dw
        self.eta += dual * step.d_eta
        self._follow_the_bend()

    def _follow_the_bend(self) -> None:
        """Return slacks to τ ∓ w where that changes them little: t^{1/p} is not the line it was."""
        if self.lifted:
            slacks = self.x[:2]
            exact = self.signs * self.w + self.reach * self.x[2] ** self.exponent
            self.x[:2] = np.where(np.abs(exact - slacks) < 0.5 * slacks, exact, slacks)
