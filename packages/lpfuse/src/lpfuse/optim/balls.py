"""The constraint set: an ℓp ball around prior weights, optionally cut to non-negative weights.

Everything that mentions p is here. Vectors have R entries and live on the host. `LpBall` is the set
itself; `BallPairs` is its form for Newton's method, where the ball is *lifted*: v = w − w₀ has
‖v‖_p ≤ r if and only if there are shares t ≥ 0 with Σ t = 1 and |v_j| ≤ τ_j = r t_j^{1/p} (at p = ∞
τ = r, and there is no t). Each constraint becomes a pair slack × multiplier that is driven towards
a product.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpfuse.optim._filling import fill

Vector = NDArray[np.float64]

# The least radius for Newton's method, by hand: weights of size 1 are rounded by as much.
LEAST_RADIUS = 1e-16


def _norm(v: Vector, p: float) -> float:
    """``‖v‖_p`` without overflow: the largest entry is divided out before any power is taken."""
    size = np.abs(v)
    top = float(size.max(initial=0.0))
    if top == 0.0 or p == np.inf:
        return top
    if p == 1.0:
        return float(size.sum())
    return top * float(((size / top) ** p).sum() ** (1.0 / p))


def _conjugate(p: float) -> float:
    """The q with ``1/p + 1/q = 1``."""
    if p == 1.0:
        return np.inf
    return 1.0 if p == np.inf else p / (p - 1.0)


@dataclass(frozen=True)
class LpBall:
    """The set ``{w : ‖w − w₀‖_p ≤ r}``, with ``w ≥ 0`` added when `nonnegative`.

    Parameters
    ----------
    p : float in [1, ∞]
        1 favours a single learner, ∞ trusts all of them.
    nonnegative : bool
        Keep only the part of the ball with ``w ≥ 0``.
    centre : array of shape (R,) or None
        w₀, which is not negative where weights must not be; None: 0.
    radius : float
        r ≥ 0.

    Examples
    --------
    >>> import numpy as np
    >>> ball = LpBall(2.0)
    >>> ball.norm(np.array([3.0, 4.0])), ball.dual_norm(np.array([3.0, 4.0]))
    (5.0, 5.0)
    >>> ball.linear_oracle(np.array([3.0, -4.0]))
    array([-0.6,  0.8])
    >>> LpBall(2.0, centre=np.array([1.0, 0.0]), radius=0.5).support(np.array([3.0, 4.0]))
    5.5
    """

    p: float
    nonnegative: bool = False
    centre: Vector | None = None
    radius: float = 1.0

    @property
    def q(self) -> float:
        """The conjugate exponent: ``1/p + 1/q = 1``."""
        return _conjugate(self.p)

    @property
    def room(self) -> float:
        """r, or a little where that is 0: Newton's method needs an inside to move in."""
        return max(self.radius, LEAST_RADIUS)

    def norm(self, w: Vector) -> float:
        """``‖w‖_p``."""
        return _norm(w, self.p)

    def from_centre(self, w: Vector) -> Vector:
        """``w − w₀``."""
        return w if self.centre is None else w - self.centre

    def at(self, v: Vector) -> Vector:
        """``w₀ + v``."""
        return v if self.centre is None else self.centre + v

    def gauge(self, w: Vector) -> float:
        """``‖w − w₀‖_p / r``: at most 1 in the ball, and 1 on its surface."""
        return self.norm(self.from_centre(w)) / max(self.radius, 1e-300)

    def dual_norm(self, v: Vector) -> float:
        """``max {vᵀz : ‖z‖_p ≤ 1}``: ``‖v‖_q``, of the positive part when z ≥ 0 is required."""
        return _norm(np.maximum(v, 0.0) if self.nonnegative else v, self.q)

    def support(self, v: Vector) -> float:
        """``max {vᵀw : w in the ball}``, or a little more, but for rounding never less.

        ``r‖v‖_q + vᵀw₀``; with w ≥ 0 the least of ``r‖u‖_q + uᵀw₀`` over all u ≥ v. Any such u is
        a bound, for vᵀw ≤ uᵀw where w ≥ 0.
        """
        if self.centre is None:
            return self.radius * self.dual_norm(v)
        u = self._fill(v)[1] if self.nonnegative else v
        return self.radius * _norm(u, self.q) + float(u @ self.centre)

    def support_size(self, v: Vector) -> float:
        """What the terms of the support add up to in size: no ``Σ |v_j w_j|`` inside exceeds it."""
        if self.centre is None:
            return self.support(v)
        return self.radius * _norm(v, self.q) + 2.0 * float(np.abs(v) @ np.abs(self.centre))

    def stretch(self, size: int, norm: float = np.inf) -> float:
        """How many times ``‖v‖_norm`` the support can be, for vectors v of that size."""
        reach = self.radius * float(size ** max(1.0 / self.q - 1.0 / norm, 0.0))
        return reach if self.centre is None else reach + _norm(self.centre, _conjugate(norm))

    def linear_oracle(self, g: Vector) -> Vector:
        """``argmin {gᵀw : w in the ball}``; the centre where g gives no direction.

        The gradient is divided by its largest entry first: its power reaches 31 on the paper's
        grid of p and would overflow. At p = 1 the first of several equal entries wins.
        """
        if self.centre is not None:
            z = self._fill(-g)[0] if self.nonnegative else LpBall(self.p).linear_oracle(g)
            w = self.centre + self.radius * z
            return np.maximum(w, 0.0) if self.nonnegative else w
        v = np.maximum(-g, 0.0) if self.nonnegative else -g
        size = np.abs(v)
        top = size.max(initial=0.0)
        z = np.zeros_like(v)
        if top == 0.0:
            return z
        if self.p == 1.0:
            best = int(np.argmax(size))
            z[best] = np.sign(v[best])
        elif self.p == np.inf:
            z = np.sign(v)
        else:
            z = (size / top) ** (1.0 / (self.p - 1.0))  # at most 1: its powers cannot overflow
            z = np.sign(v) * (z / (z**self.p).sum() ** (1.0 / self.p))
        return self.radius * z

    def _fill(self, v: Vector) -> tuple[Vector, Vector]:
        """The direction from the centre that is best for v where w ≥ 0, and the best u ≥ v."""
        assert self.centre is not None
        with np.errstate(over="ignore"):
            return fill(LpBall(self.p), v, self.centre / max(self.radius, 1e-300))

    def scale_into(self, w: Vector) -> Vector:
        """The point of the ball nearest to w towards its centre (negative entries cut first)."""
        if self.nonnegative:
            w = np.maximum(w, 0.0)
        # One rounding error of slack keeps ‖w − w₀‖_p ≤ r true in floating point as well.
        gauge = self.gauge(w) * (1.0 + 1e-15)
        if gauge <= 1.0:
            return w
        v = self.from_centre(w) / (gauge if self.radius > 0.0 else np.inf)
        if self.centre is None:
            return v
        w = self.centre + v  # rounded towards the centre
        return np.where(np.abs(w - self.centre) > np.abs(v), np.nextafter(w, self.centre), w)

    def shrunk(self, w: Vector, factor: float) -> Vector:
        """The point at this share of the way from the centre to w."""
        return self.at(factor * self.from_centre(w))

    def uniform(self, size: int) -> Vector:
        """``r R^{-1/p} · 1``: equal weights on the surface of a ball around 0."""
        return np.full(size, self.radius * (1.0 if self.p == np.inf else size ** (-1.0 / self.p)))

    def preferred(self, size: int) -> Vector:
        """The weights to take where nothing speaks against them: w₀, or equal ones without it."""
        return self.uniform(size) if self.centre is None else self.centre.copy()


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
    product : float
        Start of every product slack × multiplier.
    evenness : float in (0, 1]
        How much of Σ t = 1 is spread evenly at the start; the rest follows |v_j|^p.
    """

    def __init__(self, ball: LpBall, w: Vector, product: float, evenness: float) -> None:
        self.lifted = ball.p < np.inf
        self.exponent = 1.0 / ball.p if self.lifted else 0.0
        floor = ball.centre if ball.nonnegative else None  # w ≥ 0 is v ≥ −floor
        self.bounded = floor is not None
        self.sigma = 0.0 if ball.nonnegative and not self.bounded else 1.0
        self.radius = ball.room
        self.v = v = ball.from_centre(w)
        # u = base + signs·v + reach·τ for the slacks of a coordinate
        self.signs, self.reach = np.array([[-1.0], [1.0]]), np.array([[1.0], [self.sigma]])
        if floor is not None:
            self.signs = np.append(self.signs, [[1.0]], axis=0)
            self.reach = np.append(self.reach, [[0.0]], axis=0)
            none = np.zeros_like(floor)
            self.base = np.stack([none, none, floor])
        self.n_slacks = len(self.signs)
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
