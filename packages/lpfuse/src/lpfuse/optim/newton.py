"""The reduced problem of the solvers, and the Newton systems for one step on it, in NumPy.

The hinge of a row is c ξ with ξ ≥ r = 1 − aᵀw and ξ ≥ 0: two slacks, s = ξ − r and ξ, with the
multipliers α and c − α. The constraints of the ball are pairs slack × multiplier as well
(`BallPairs`). A step moves the products of all pairs towards targets, by one Cholesky factor of
R×R.

`InteriorSystem` holds the pairs of all rows, `SmoothedSystem` smoothed hinges and the pairs of the
ball, `SurfaceSystem` smoothed hinges on the surface of the ball. `_newton.pyx` and `_surface.pyx`
implement the same classes in compiled code; step lengths and stopping rules are in
`interior_point`, `screening` and `paths`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.linalg import lapack

from lpfuse._arrays import operations as ops
from lpfuse._arrays.operations import Array, Host, total
from lpfuse.optim.balls import GroupBall, LpBall, Vector

if TYPE_CHECKING:
    from lpfuse.optim.problem import Block, Problem

# --------------------------------------------------------------------------------------------------
# The reduced problem of the solvers.
#
# minimise   k + gᵀw + ½ wᵀQw + Σ_i c_i max(0, 1 − a_iᵀw)   subject to   (w_1, …, w_R) in the ball
#
# Rows far from the kink of their hinge may be replaced by a linear piece in k and g: a model of few
# rows then represents a problem of many, and its lower bound holds for the whole.


class Guess(NamedTuple):
    """A point inside the ball, and the expected change of margins."""

    w: Host
    band: float


@dataclass(frozen=True)
class Model:
    """Data of the model above.

    Attributes
    ----------
    columns : array of shape (coordinates, m)
        The rows a_i as columns: products along samples then run over contiguous memory.
    costs : array of shape (m,)
        The c_i, all positive.
    ball : LpBall
        Constrains all coordinates but the last `free` ones.
    linear, constant, quadratic
        g, k and Q, on the host. Q may be None.
    free : int
        1 when the last coordinate is an intercept (its coefficients are the labels), else 0.
    """

    columns: Array
    costs: Array
    ball: LpBall
    linear: Host
    constant: float = 0.0
    quadratic: Host | None = None
    free: int = 0

    @classmethod
    def of_rows(cls, problem: Problem, block: Block, ball: LpBall) -> Model:
        """Return the model of a problem's rows, on the host."""
        S, R, free = ops.to_host(block.S), problem.R, int(problem.fit_intercept)
        labels = block.y if isinstance(block.y, float) else ops.to_host(block.y)
        columns = np.empty((R + free, len(S)))
        np.multiply(S.T, labels, out=columns[:R])
        columns[R:] = labels
        costs = np.ones(len(S)) if isinstance(block.c, float) else ops.to_host(block.c)
        return cls(columns, costs, ball, np.zeros(R + free), free=free)

    @property
    def n_rows(self) -> int:
        """m."""
        return int(self.columns.shape[1])

    @property
    def size(self) -> int:
        """Number of coordinates, the free one included."""
        return int(self.columns.shape[0])

    @property
    def n_weights(self) -> int:
        """R: the coordinates inside the ball."""
        return self.size - self.free

    def margins(self, w: Host) -> Array:
        """``Aᵀw``, one number a row."""
        return ops.weigh_columns(w, self.columns)

    def residuals(self, w: Host) -> Array:
        """``r = 1 − Aᵀw``: a row costs something where r > 0."""
        return 1.0 - self.margins(w)

    def smooth_value(self, w: Host) -> float:
        """``k + gᵀw + ½ wᵀQw``."""
        value = self.constant + float(self.linear @ w)
        return value if self.quadratic is None else value + 0.5 * float(w @ self.quadratic @ w)

    def primal(self, w: Host) -> float:
        """Return the objective at w."""
        return self.smooth_value(w) + ops.dot(self.costs, ops.positive_part(self.residuals(w)))

    def feasible(self, w: Host) -> Host:
        """Return w scaled into the ball; a free coordinate is unchanged."""
        R = self.n_weights
        return np.concatenate([self.ball.scale_into(w[:R]), w[R:]])

    def slope(self, w: Host, alpha: Array) -> Host:
        """``g + Qw − Aα``: the gradient in w with the hinges replaced by their multipliers."""
        return self.slope_of(w, ops.sum_columns(self.columns, alpha))

    def slope_of(self, w: Host, pull: Host) -> Host:
        """``g + Qw − pull``, for the pull ``Aα`` of the rows."""
        slope = self.linear - pull
        return slope if self.quadratic is None else slope + self.quadratic @ w

    def dual(self, w: Host, alpha: Array) -> tuple[float, Array]:
        """Return a lower bound of the optimum, and the multipliers that prove it.

        ``D = k + Σα − ½wᵀQw − max{−slopeᵀz : z in the ball}`` holds for every w and 0 ≤ α ≤ c whose
        slope vanishes in the free coordinate; there α is balanced first.
        """
        if self.free:
            alpha, balanced = self._balanced(alpha)
            if not balanced:
                return -np.inf, alpha
        slope = self.slope(w, alpha)
        bound = self.constant + total(alpha) - self.ball.support(-slope[: self.n_weights])
        if self.quadratic is not None:
            bound -= 0.5 * float(w @ self.quadratic @ w)
        return bound, alpha

    def _balanced(self, alpha: Array) -> tuple[Array, bool]:
        """Scale down α of one class until ``Σ α_i y_i`` is the free part of g, if possible."""
        labels = self.columns[-1, :]
        xp = ops.namespace(alpha)
        normal = xp.where(labels > 0, alpha, 0.0 * alpha)
        heavy = [total(normal), total(alpha) - total(normal)]
        excess = heavy[0] - heavy[1] - float(self.linear[-1])
        side = 0 if excess > 0 else 1
        if abs(excess) > heavy[side]:
            return alpha, False
        factor = [1.0, 1.0]
        factor[side] = 1.0 - abs(excess) / heavy[side] if heavy[side] > 0 else 1.0
        return xp.where(labels > 0, alpha * factor[0], alpha * factor[1]), True


def linearise_rows(model: Model, side: Array) -> tuple[Model, Array]:
    """Return the model with rows replaced by a linear piece of their hinge, and the kept rows.

    `side` is +1 for the rising piece ``c (1 − aᵀw)``, −1 for the piece at zero and 0 for rows that
    keep their hinge. Both pieces lie below the hinge, which is their maximum: the objective can
    only fall, and lower bounds of the smaller model hold for the larger one.
    """
    kept = ops.nonzero(side == 0)
    rising = ops.namespace(side).where(side > 0, model.costs, 0.0 * model.costs)
    reduced = replace(
        model,
        columns=ops.take(model.columns, kept, axis=1),
        costs=ops.take(model.costs, kept),
        linear=model.linear - ops.sum_columns(model.columns, rising),
        constant=model.constant + total(rising),
    )
    return reduced, kept


class Breakdown(ArithmeticError):
    """The Newton matrix could not be factored: the iterate has left the range of float64."""


# --------------------------------------------------------------------------------------------------
# The ball in Newton's method: pairs slack × multiplier.
#
# The ball is *lifted*: v = w − w₀ has ‖v‖_p ≤ r if and only if there are shares t ≥ 0 with Σ t = 1,
# and |v_j| ≤ τ_j = r t_j^{1/p} (at p = ∞ τ = r, and there is no t). Each constraint becomes a pair.


class Spread(NamedTuple):
    """Initial pairs at a point.

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
    """State of pairs: slacks and shares x, multipliers z, v = w − w₀ and η."""

    x: Vector
    z: Vector
    v: Vector
    eta: Any


class BallStep(NamedTuple):
    """A direction of the pairs of the ball."""

    dx: Vector
    dz: Vector
    dw: Vector
    d_eta: Any


def _shares(size: Vector, evenness: float) -> Vector:
    total = float(size.sum())
    even = np.full_like(size, 1.0 / size.size)
    return evenness * even + (1.0 - evenness) * (size / total if total > 0.0 else even)


class BallPairs:
    """Pairs (u⁺, λ⁺), (u⁻, λ⁻), (t, θ) of every coordinate, stacked as (3, R); (2, R) at p = ∞.

    u⁺ = τ − v and u⁻ = στ + v, where σ = 0 turns the lower bound into w ≥ 0 where w₀ = 0. Around
    another centre w ≥ 0 needs a pair of its own, (w, λ⁰), before t. The slacks are variables of
    their own: deriving them from v and t stalls near p = 1, where t^{1/p} is steep.

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
        self.lifted, self.exponent = ball.p < np.inf, 1.0 / ball.p
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
        size = np.abs(v / self.radius)
        share = np.ones_like(v)
        if self.lifted:
            share = _shares(size**ball.p, evenness)
        tau = self._reach_of(share)
        # Slacks start at no less than a twentieth of their range (by hand), and off τ ∓ v if need
        # be: the steps close that error.
        slacks = np.maximum(self._slacks_at(tau), 0.05 * tau)
        self.x = np.concatenate([slacks, share[None]]) if self.lifted else slacks
        self.z = product / self.x
        self.eta = 0.0
        if self.lifted:
            bend = self.exponent * tau / share
            self.eta = float(np.mean((self.z[0] + self.sigma * self.z[1]) * bend + self.z[-1]))

    def _reach_of(self, t: Vector) -> Vector:
        """``τ(t)``."""
        tau: Vector = self.radius * t**self.exponent
        return tau

    @property
    def state(self) -> PairsState:
        """Where the pairs are."""
        return PairsState(self.x, self.z, self.v, self.eta)

    def _slacks_at(self, tau: Vector) -> Vector:
        exact = self.signs * self.v + self.reach * tau
        return exact + self.base if self.bounded else exact

    def pressure(self, z: Vector) -> Vector:
        """Return the contribution of multipliers of the ball to the slope in w."""
        return z[0] - z[1] - z[2] if self.bounded else z[0] - z[1]

    @property
    def force(self) -> Vector:
        """Contribution of the ball's multipliers to the slope in w."""
        return self.pressure(self.z)

    def bordered(self, curvature: Host) -> Host:
        """Prepare a step; return the Newton matrix, the rows' curvature and that of the ball."""
        diagonal = curvature.reshape(-1)[:: curvature.shape[0] + 1]
        diagonal[: self.v.size] += self.linearise()
        return curvature

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
        t = x[-1]
        tau = self._reach_of(t)
        self.error = x[: self.n_slacks] - self.signs * self.v - self.reach * tau
        if self.bounded:
            self.error -= self.base
        floor = d[2] if self.bounded else 0.0
        if not self.lifted:
            return up + down + floor
        self.bend = bend = self.exponent * tau / t
        press = z[0] + sigma * z[1]
        curve = press * bend * ((1.0 - self.exponent) / t) + d[-1]  # −(λ⁺ + σλ⁻)τ″ + θ/t
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

    def border_column(self, size: int) -> Host:
        """Return the column of dη."""
        column = np.zeros(size)
        column[: self.v.size] = self.border
        return column

    def right_side(self, pull: Host, change: Vector) -> Host:
        """Return the right-hand side of the step that changes the products x·z by `change`."""
        whole = pull.copy()
        whole[: self.v.size] += self.pull(change)
        return whole

    def pull(self, change: Vector) -> Vector:
        """Return what the ball adds to it in w.

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
        z0, z1 = z0[: self.v.size], z1[: self.v.size]
        top = float(((self.gt - self.Kwt * z0) / self.Ktt).sum()) - self.t_missing
        return top / float(((1.0 + self.Kwt * z1) / self.Ktt).sum())

    def direction(self, dw: Vector, d_eta: float) -> BallStep:
        """Return the direction of the pairs that belongs to dw."""
        dw = dw[: self.v.size]
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
        self._restore_slacks()

    def _restore_slacks(self) -> None:
        """Reset slacks to τ ∓ v where that changes them little, since t^{1/p} is nonlinear."""
        if self.lifted:
            slacks = self.x[: self.n_slacks]
            exact = self._slacks_at(self._reach_of(self.x[-1]))
            self.x[: self.n_slacks] = np.where(np.abs(exact - slacks) < 0.5 * slacks, exact, slacks)


class GroupPairs(BallPairs):
    """Pairs of a `GroupBall`: (u⁺, λ⁺), (u⁻, λ⁻), (m, ζ) of every weight, (t, θ) of every group.

    ‖v‖ ≤ r if and only if there are shares t ≥ 0 of the groups with Σ t = 1, and m ≥ 0 of their
    weights with Σ_{j in g} m_j = t_g^{1/p}, such that |v_j| ≤ τ_j = r t_g^a m_j^b with b = 1/q and
    a = (1 − b)/p: concave in both, as a + b ≤ 1. With multipliers η of the sums over groups and κ
    of Σ t = 1, and λ = λ⁺ + σλ⁻, the conditions of optimality are those of `BallPairs` in w and

        η_g = λ_j ∂τ_j/∂m_j + ζ_j,     κ = Σ_{j in g} λ_j ∂τ_j/∂t_g + η_g ∂t_g^{1/p}/∂t_g + θ_g.

    Arrays are flat: two or three pairs of R numbers, R numbers of m, and G of t. The Newton matrix
    has the G changes of t as further coordinates; those of m and η are eliminated.
    """

    def __init__(self, ball: GroupBall, w: Vector, place: Spread | PairsState) -> None:
        self.lifted, self.of, self.radius = True, ball.of, ball.room
        self.R, self.G = self.of.size, int(self.of.max()) + 1
        self.outer, self.b = 1.0 / ball.p, 1.0 / ball.inner
        self.a = (1.0 - self.b) * self.outer
        # w ≥ 0 around 0: the lower bound is 0 instead of −τ.
        self.sigma = 0.0 if ball.nonnegative else 1.0
        if isinstance(place, PairsState):
            self.x, self.z, self.v, self.eta = place
        else:
            self._start(ball, w, *place)

    def _start(self, ball: Any, w: Vector, product: float, evenness: float) -> None:
        self.v = v = ball.from_centre(w)
        size = np.abs(v) / self.radius
        norms = ball.group_norms(size)
        t = _shares(norms**ball.p if ball.p < np.inf else np.ones_like(norms), evenness)
        below = np.where(norms > 0.0, norms, 1.0)[self.of]
        inner = (size / below) ** ball.inner if ball.inner < np.inf else np.ones_like(v)
        whole = self._sum(inner)[self.of]
        even = (1.0 / self._sum(np.ones_like(v)))[self.of]
        share = np.where(whole > 0.0, inner / np.where(whole > 0.0, whole, 1.0), even)
        m = (evenness * even + (1.0 - evenness) * share) * (t**self.outer)[self.of]
        tau = self._tau(m, t[self.of])
        slacks = np.maximum([tau - v, self.sigma * tau + v], 0.05 * tau)
        self.x = np.concatenate([*slacks, m, t])
        self.z = product / self.x
        up, down, zeta, theta = self._parts(self.z)
        press = up + self.sigma * down
        eta = self._sum(press * self.b * tau / m + zeta) * self._sum(even * even)
        kappa = self._sum(press * tau) * (self.a / t) + eta * self.outer * t**self.outer / t + theta
        self.eta = np.append(eta, kappa.mean())

    def _parts(self, x: Vector) -> tuple[Vector, Vector, Vector, Vector]:
        R = self.R
        return x[:R], x[R : 2 * R], x[2 * R : 3 * R], x[3 * R :]

    def _sum(self, x: Vector) -> Vector:
        """Return the sums over groups."""
        return np.asarray(np.bincount(self.of, weights=x, minlength=self.G), dtype=np.float64)

    def _tau(self, m: Vector, t: Vector) -> Vector:
        tau: Vector = self.radius * t**self.a * m**self.b
        return tau

    def pressure(self, z: Vector) -> Vector:
        """Return the contribution of multipliers of the ball to the slope in w."""
        return z[: self.R] - z[self.R : 2 * self.R]

    def bordered(self, curvature: Host) -> Host:
        """Prepare a step; return the Newton matrix in (w, t), of the rows' curvature.

        With the conditions linearised as in `BallPairs`, K the coefficients of a weight in w, m and
        t, and E = Σ 1/K_mm over a group,

            dm = (g_m − K_wm dw − K_mt dt − dη) / K_mm,     dη = (s − Σ β dw − γ dt) / E

        with β = K_wm/K_mm and γ = Σ K_mt/K_mm + ∂t^{1/p}/∂t. What is left in w and t is written so
        that nothing cancels; eliminating η adds squares of (β, γ)/√E.
        """
        x, z, of, sigma = self.x, self.z, self.of, self.sigma
        self.d = d = z / x
        up, down, dm, d_theta = self._parts(d)
        m, t = x[2 * self.R : 3 * self.R], x[3 * self.R :]
        above, below, zeta, theta = self._parts(z)
        T, eta, press = t[of], self.eta[:-1], above + sigma * below
        tau = self._tau(m, T)
        self.error = np.concatenate(
            [x[: self.R] + self.v - tau, x[self.R : 2 * self.R] - self.v - sigma * tau]
        )
        self.by_m, self.by_t = by_m, by_t = self.b * tau / m, self.a * tau / T
        mixed, pairs = press * by_m * (self.a / T), up + sigma * down
        in_m, in_t = press * by_m * ((1.0 - self.b) / m) + dm, press * by_t * ((1.0 - self.a) / T)
        self.Kmm = Kmm = by_m * by_m * pairs + in_m
        self.Kmt = by_m * by_t * pairs - mixed
        self.Kwm = by_m * (sigma * down - up)
        rho = t**self.outer
        slope = self.outer * rho / t
        self.m_slope = eta[of] - press * by_m - zeta
        self.t_slope = self.eta[-1] - self._sum(press * by_t) - eta * slope - theta
        self.m_missing, self.t_missing = rho - self._sum(m), 1.0 - float(t.sum())
        self.beta, self.E = self.Kwm / Kmm, self._sum(1.0 / Kmm)
        self.gamma = self._sum(self.Kmt / Kmm) + slope

        both = (1.0 + sigma) ** 2 * by_m * by_m * up * down
        ww = ((up + down) * in_m + both) / Kmm
        wt = (sigma * down - up) * (by_t * in_m + by_m * mixed) / Kmm
        curved = by_t * by_t * in_m + by_m * by_m * in_t + 2.0 * by_m * by_t * mixed
        bent = press * press * by_m * by_t * ((1.0 - self.a - self.b) / (m * T))
        tt = self._sum((pairs * curved + in_t * dm + bent) / Kmm)
        tt += eta * slope * ((1.0 - self.outer) / t) + d_theta

        n, every = len(curvature), np.arange(self.R)
        matrix = np.zeros((n + self.G, n + self.G))
        matrix[:n, :n] = curvature
        matrix[every, every] += ww
        matrix[every, n + of] = matrix[n + of, every] = wt
        squares = np.zeros((n + self.G, self.G))
        squares[every, of] = self.beta
        squares[n + np.arange(self.G), np.arange(self.G)] = self.gamma
        matrix += (squares / self.E) @ squares.T
        matrix[n + np.arange(self.G), n + np.arange(self.G)] += tt
        return matrix

    def border_column(self, size: int) -> Host:
        """Return the column of dκ, with the sign of `BallPairs`."""
        column = np.zeros(size + self.G)
        column[size:] = -1.0
        return column

    def right_side(self, pull: Host, change: Vector) -> Host:
        """Return the right-hand side of the step that changes the products x·z by `change`."""
        self.h = h = change / self.x
        k = 2 * self.R
        push = h[:k] + self.d[:k] * self.error
        press = push[: self.R] + self.sigma * push[self.R :]
        self.gm = gm = self.by_m * press + h[k : k + self.R] - self.m_slope
        gt = self._sum(self.by_t * press - self.Kmt * gm / self.Kmm) + h[k + self.R :]
        self.s = self._sum(gm / self.Kmm) - self.m_missing
        right = np.concatenate([pull, gt - self.t_slope + self.gamma * self.s / self.E])
        right[: self.R] += self.beta * ((self.s / self.E)[self.of] - gm) - self.pressure(push)
        return right

    def multiplier_step(self, z0: Vector, z1: Vector) -> float:
        """Return dκ such that Σ t returns to 1 when the step is z0 + z1 dκ."""
        return (self.t_missing - float(z0[-self.G :].sum())) / float(z1[-self.G :].sum())

    def direction(self, step: Vector, d_kappa: float) -> BallStep:
        """Return the direction of the pairs for a step of (w, t)."""
        dw, dt, of = step[: self.R], step[-self.G :], self.of
        d_eta = (self.s - self._sum(self.beta * dw) - self.gamma * dt) / self.E
        dm = (self.gm - self.Kwm * dw - self.Kmt * dt[of] - d_eta[of]) / self.Kmm
        d_tau = self.by_m * dm + self.by_t * dt[of]
        slacks = np.concatenate([d_tau - dw, self.sigma * d_tau + dw]) - self.error
        dx = np.concatenate([slacks, dm, dt])
        return BallStep(dx, self.h - self.d * dx, dw, np.append(d_eta, d_kappa))

    def move(self, step: BallStep, primal: float, dual: float) -> None:
        """Take the step; reset slacks to τ ∓ v where that changes them little."""
        self.x = self.x + primal * step.dx
        self.z = self.z + dual * step.dz
        self.v = self.v + primal * step.dw
        self.eta = self.eta + dual * step.d_eta
        _, _, m, t = self._parts(self.x)
        tau, slacks = self._tau(m, t[self.of]), self.x[: 2 * self.R]
        exact = np.concatenate([tau - self.v, self.sigma * tau + self.v])
        slacks[:] = np.where(np.abs(exact - slacks) < 0.5 * slacks, exact, slacks)


def pairs_of(ball: LpBall, w: Vector, place: Spread | PairsState) -> BallPairs:
    """Return the pairs of a ball."""
    return GroupPairs(ball, w, place) if isinstance(ball, GroupBall) else BallPairs(ball, w, place)


# --------------------------------------------------------------------------------------------------
# Newton's method on the surface of an ℓp ball.
#
# With x = (w − w₀)/r and v = −∇f, the optimum has
#
#     v = η φ(x),   φ(x) = sign(x)|x|^{p−1},   Σ|x|^p = 1          or   v = 0 inside the ball,
#
# a smooth equation in w for every p in (1, ∞). The hinges are smoothed around multipliers α₀,
#
#     max {α r − (α − α₀)²/2κ : 0 ≤ α ≤ c},   κ = c/2δ,   attained at α = clip(α₀ + κ r, 0, c),
#
# so that only rows with 0 < α < c have curvature: J. A step solves
#
#     (A_J κ A_Jᵀ + diag(η φ′)) dw + φ dη = −∇f − ηφ,    φᵀdw = 0
#
# by one Cholesky factor of R×R.


SHORTER = 0.35  # by hand: backtracking factor of the step length
ENOUGH = 1e-4  # by hand: required share of the predicted decrease
ALL = 1 << 62


class SurfaceSystem:
    """State on the surface: x, the residuals and the smoothed hinges.

    Parameters
    ----------
    model : Model
        Without a quadratic term, over a ball with 1 < p < ∞ in which weights may be negative.
    x : array of shape (R,)
        Of norm 1, or less where `inside`.
    free : array of shape (0,) or (1,)
        The intercept.
    inside : bool
        Whether the ball is ignored for now.

    Attributes
    ----------
    moved : float
        Largest change of a margin in J along the last step.
    n_near : int
        Number of rows in J.
    """

    def __init__(self, model: Model, x: Host, free: Host, inside: bool) -> None:
        self.model, self.R, self.p = model, model.n_weights, model.ball.p
        self.A, self.c, self.g = model.columns, model.costs, model.linear
        self.x, self.free, self.inside = x, free, inside
        self.at = 0.5 * self.c
        self.w = self._point(x, free)
        self.r = 1.0 - self.w @ self.A

    def _point(self, x: Host, free: Host) -> Host:
        return np.concatenate([self.model.ball.at(self.model.ball.radius * x), free])

    def bounds(self) -> tuple[float, float]:
        """Return the objective and the dual bound of α without an intercept, minus the constant."""
        primal = float(self.g @ self.w + self.c @ np.maximum(self.r, 0.0))
        return primal, float(self.alpha.sum()) - self.model.ball.support(self.pull[: self.R])

    def n_within(self, band: float) -> int:
        """Return the number of rows within a band around their kink."""
        return int(np.count_nonzero(np.abs(self.r) < band))

    def look(self, band: float) -> None:
        """Smooth the hinges with this band."""
        self.band, self.stiff = band, self.c / (2.0 * band)
        self.alpha, self.value = self._rounded(self.w, self.r)
        self.pull = self.A @ self.alpha - self.g

    def hold(self) -> None:
        """Smooth the hinges around the current multipliers."""
        self.at = self.alpha

    def follow(self) -> None:
        """Smooth them around the multipliers predicted by the last full step."""
        near = self.near
        alpha = self.before
        alpha[near] -= self.stiff[near] * self.slide
        self.at = np.minimum(np.maximum(alpha, 0.0), self.c)

    def _rounded(self, w: Host, r: Host) -> tuple[Host, float]:
        alpha = np.minimum(np.maximum(self.at + self.stiff * r, 0.0), self.c)
        off = alpha - self.at
        return alpha, float(self.g @ w + alpha @ r - 0.5 * (off @ (off / self.stiff)))

    def newton(self, wanted: int) -> None:
        """Compute the Newton step, with the curvature of about `wanted` rows."""
        near = np.flatnonzero((self.alpha > 0.0) & (self.alpha < self.c))
        self.n_near = near.size
        stride = max(1, near.size // wanted)
        self.near = near = near[::stride]
        columns = self.A[:, near]
        matrix = (columns * (stride * self.stiff[near])) @ columns.T
        diagonal = matrix.reshape(-1)[:: matrix.shape[0] + 1]
        if self.model.free:  # an intercept with no row in the band has nothing else to hold it
            diagonal[-1] += 1e-9 * float(self.c.sum()) / self.band
        eta = float(self.pull[: self.R] @ self.x)
        self.inside = self.inside or eta <= 0.0
        self.dw = self._free(matrix) if self.inside else self._held(matrix, eta)
        if not np.isfinite(self.dw).all():
            raise Breakdown("the step is not finite")
        self.slide = self.dw @ columns
        self.moved = float(np.abs(self.slide).max(initial=0.0))

    @staticmethod
    def _factor(matrix: Host) -> Host:
        factor, failed = lapack.dpotrf(matrix, lower=1)
        if failed:
            raise Breakdown("the Newton matrix is not positive definite")
        return factor

    def _free(self, matrix: Host) -> Host:
        """Return the step inside the ball."""
        diagonal = matrix.reshape(-1)[:: matrix.shape[0] + 1]
        diagonal += 1e-9 * float(diagonal.max()) + 1e-300
        return lapack.dpotrs(self._factor(matrix), self.pull, lower=1)[0]

    def _held(self, matrix: Host, eta: float) -> Host:
        """Return the step along the surface."""
        R, p, x = self.R, self.p, self.x
        size = np.abs(x)
        power = size ** (p - 2.0)
        bend = (eta * (p - 1.0) / self.model.ball.radius) * np.minimum(power, 1e60)
        diagonal = matrix.reshape(-1)[:: matrix.shape[0] + 1]
        diagonal[:R] += bend
        # For p > 2 the ball has no curvature at a zero weight.
        diagonal += 1e-14 * diagonal + (1e-12 * float(diagonal.max()) if p > 2.0 else 0.0)
        sides = np.zeros((diagonal.size, 2), order="F")
        phi = np.copysign(size ** (p - 1.0), x)
        sides[:, 0] = self.pull
        sides[:R, 0] -= eta * phi
        sides[:R, 1] = phi
        ahead, aside = lapack.dpotrs(self._factor(matrix), sides, lower=1)[0].T
        d_eta = float(phi @ ahead[:R]) / float(phi @ aside[:R])
        dw: Host = ahead - d_eta * aside
        self.size, self.power = size, power
        self.v, self.dv = eta * phi, bend * dw[:R] + d_eta * phi
        return dw

    def _ahead(self, dx: Host, length: float) -> tuple[Host, bool]:
        """Return x after a part of the step, and whether it is on the surface."""
        p = self.p
        if p < 2.0 and not self.inside:  # v changes little where x vanishes, or grows many times
            v = self.v + length * self.dv
            size = np.abs(v)
            z = (size / size.max()) ** (1.0 / (p - 1.0))
            return np.copysign(z / _norm(z, p), v), False
        x = self.x + length * dx
        x = x if self.inside else _capped(x, p, self.size, self.power)
        norm = _norm(x, p)
        out = not self.inside or norm > 1.0
        return (x / norm if out else x), out

    def search(self, tries: int) -> float:
        """Backtrack until the smoothed objective decreases; return the step length, or 0."""
        dx, gain = self.dw[: self.R] / self.model.ball.radius, float(self.pull @ self.dw)
        length = 1.0
        for _ in range(tries):
            x, out = self._ahead(dx, length)
            free = self.free + length * self.dw[self.R :]
            w = self._point(x, free)
            r = 1.0 - w @ self.A
            alpha, value = self._rounded(w, r)
            if value <= self.value - ENOUGH * length * gain + 1e-13 * abs(self.value):
                self.x, self.free, self.w, self.r = x, free, w, r
                self.before, self.alpha, self.value = self.alpha, alpha, value
                self.pull = self.A @ alpha - self.g
                self.inside = self.inside and not out
                return length
            length *= SHORTER
        return 0.0


def _capped(x: Host, p: float, size: Host, power: Host) -> Host:
    """Limit the growth of |x|^{p−1}, which curves sharply, to that of its tangent plus 0.1."""
    grown = np.maximum((p - 1.0) * power * (np.abs(x) - size), 0.0)
    most = (size * power + grown + 0.1) ** (1.0 / (p - 1.0))
    return np.copysign(np.minimum(np.abs(x), most), x)


def _norm(x: Host, p: float) -> float:
    size = np.abs(x)
    top = float(size.max())
    return top * float(((size / top) ** p).sum() ** (1.0 / p))


@np.errstate(all="ignore")  # a wrong guess may run away: the checks at the end refuse it
def nearest_by_newton(ball: LpBall, uniform: Host, rows: Host, start: Host) -> Host | None:
    """Return the point of the ball nearest to `uniform` with ``a_iᵀw ≥ 1`` for all rows.

    With binding rows of multipliers ν ≥ 0, and λ ≥ 0 that of the surface if w lies on it,

        w − u − Σ ν_i a_i + λ n = 0,     a_iᵀw = 1,     ‖v‖_p = 1,     v = (w − w₀)/r,

    n the gradient of ‖v‖_p. The curvature H = I + λ diag(n′)/r is diagonal except along n, where
    the step is zero: so a Newton step costs k×k for k binding rows. Rows with a negative multiplier
    leave the active set, and violated ones enter, until the conditions hold; None where they do
    not, and w may exceed the ball by rounding. For 2 ≤ p < ∞, where they are smooth; steps along
    the surface are capped as those of the `SurfaceSystem` are.
    """
    R, p, r = uniform.size, ball.p, ball.radius
    w, chosen = start, np.flatnonzero(rows @ start < 1.0 + 1e-6)
    held = bool(ball.gauge(w) > 0.9)  # by its surface, or nearly
    nu: Host = np.empty(0)
    for _ in range(40):
        if chosen.size + held > R:
            return None
        A, x = rows[chosen].T, ball.from_centre(w) / r
        norm = ball.norm(x)
        size = np.abs(x) / max(norm, 1e-300)
        power = size ** (p - 2.0)
        B = np.column_stack([A, -np.copysign(power * size, x)]) if held else A
        if nu.size != B.shape[1]:
            nu = np.asarray(np.linalg.lstsq(B, w - uniform, rcond=None)[0], dtype=np.float64)
        H = 1.0 + (max(float(nu[-1]), 0.0) * (p - 1.0) / (norm * r)) * power if held else np.ones(R)
        off = uniform - w + B @ nu
        short = 1.0 - A.T @ w
        short = np.append(short, (norm - 1.0) * r) if held else short
        scaled = B / H[:, None]
        try:
            change = np.linalg.solve(B.T @ scaled, short - scaled.T @ off)
        except np.linalg.LinAlgError:  # rows that depend on each other
            return None
        step = off / H + scaled @ change
        moved, nu = w + step, nu + change
        far = float(np.abs(step).max())
        if not far < 1e3:
            return None
        if held:
            x = _capped(ball.from_centre(moved) / r, p, size, power)
            moved = ball.at(r * x / ball.norm(x))
            far = max(far, float(np.abs(moved - w).max()))
        w = moved
        # Signs are known before convergence; with a wrong one full precision is not needed.
        wrong = nu.size > 0 and float(nu.min()) < 0.0
        if far > (1e-3 if wrong else 1e-13):
            continue
        if held and nu[-1] < 0.0:  # the ball is not active
            held, nu = False, nu[:-1]
        elif chosen.size and nu[: chosen.size].min() < 0.0:
            worst = int(nu[: chosen.size].argmin())
            chosen, nu = np.delete(chosen, worst), np.delete(nu, worst)
        else:
            violated = np.setdiff1d(np.flatnonzero(rows @ w < 1.0 - 1e-10), chosen)
            outside = not held and ball.gauge(w) > 1.0
            if not violated.size and not outside:
                return w if ball.gauge(w) <= 1.0 + 1e-12 else None
            zeros = np.zeros(violated.size)
            nu = np.concatenate([nu[: chosen.size], zeros, nu[chosen.size :], [0.0] * outside])
            chosen, held = np.append(chosen, violated), held or outside
    return None


# --------------------------------------------------------------------------------------------------
# Newton systems of the interior point and of smoothed hinges.


def _longest_step(x: Host, dx: Host) -> float:
    """Return the largest step with ``x + step·dx ≥ 0`` for positive x; no limit is 1e30."""
    worst = float((dx / x).min(initial=0.0))
    return -1.0 / worst if worst < 0.0 else 1e30


class NewtonFactor:
    """Curvature of the rows plus that of the ball, factored once and solved for several targets.

    H dw = pull + border·dη, with one Cholesky factor of H (R×R). z1 = H⁻¹·border is the same for
    all targets; each costs one back-substitution z0 = H⁻¹·pull, dη follows from Σ t = 1, and
    dw = z0 + z1 dη.
    """

    def __init__(self, curvature: Host, pairs: BallPairs) -> None:
        self.pairs, self.size = pairs, len(curvature)
        matrix = pairs.bordered(curvature)
        self.factor = self._cholesky(matrix, matrix.reshape(-1)[:: len(matrix) + 1])
        if pairs.lifted:
            self.z1 = lapack.dpotrs(self.factor, pairs.border_column(self.size), lower=1)[0]

    @staticmethod
    def _cholesky(matrix: Host, diagonal: Host) -> Host:
        # Relative to each entry: the diagonal spans twenty orders of magnitude near the optimum. It
        # begins at a few eps and grows a hundredfold for each factorisation that fails.
        ridge = 1e-15
        for _ in range(5):
            diagonal *= 1.0 + ridge
            factor, failed = lapack.dpotrf(matrix, lower=1)
            if not failed and isfinite(factor[-1, -1]):
                return factor
            ridge *= 100.0
        raise Breakdown("the Newton matrix is not positive definite")

    def solve(self, pull: Host, change: Host) -> tuple[Host, BallStep]:
        """Return dw for the rows' right-hand side, and the step of the ball's pairs."""
        step = lapack.dpotrs(self.factor, self.pairs.right_side(pull, change), lower=1)[0]
        d_eta = 0.0
        if self.pairs.lifted:
            d_eta = self.pairs.multiplier_step(step, self.z1)
            step = step + d_eta * self.z1
        if not isfinite(float(step.sum())):
            raise Breakdown("the step is not finite")
        return step[: self.size], self.pairs.direction(step, d_eta)


class InteriorSystem:
    """Pairs (s, α) and (ξ, c − α) of every row, as arrays of shape (2, m), and those of the ball.

    c − α is kept on its own: computed from α it would lose all its digits near α = c.

    A step to products `target`: from s α = τ₁ and ξ (c − α) = τ₂, with d(c − α) = −dα,
    ds = τ₁/α − s − (s/α) dα and dξ = τ₂/(c − α) − ξ + (ξ/(c − α)) dα. Slacks must keep
    ξ − s = r: dξ − ds = −aᵀdw + (r − ξ + s). Hence, with D = 1/(s/α + ξ/(c − α)),

        dα = D (r + τ₁/α − τ₂/(c − α) − aᵀdw)

    so that the rows add A D Aᵀ to the Newton matrix and A D (r + τ₁/α − τ₂/(c − α)) to its
    right-hand side. No row is ever left out for a small D: it may be the one that binds next.

    Parameters
    ----------
    model : Model
        Its rows may be none.
    w : array of shape (coordinates,)
        Initial point.
    residual : array of shape (m,)
        r at w.
    mu : float
        Initial product of the rows' pairs.

    Attributes
    ----------
    products : float
        Their sum over rows and ball: near the optimum, the gap.
    hinges : float
        Σ c ξ.
    """

    def __init__(self, model: Model, w: Host, residual: Host, mu: float) -> None:
        self.model, self.w = model, w
        self.residual = r = residual
        # A centred start, α s = (c − α) ξ = μ with s = ξ − r, is a quadratic equation in each row:
        # ξ = m + (r + √(r² + 4m²))/2 with m = μ/c. The form without cancellation is used.
        m = mu / model.costs
        root = np.sqrt(r * r + 4.0 * m * m) + np.abs(r)
        large, small = 0.5 * root + m, 2.0 * m * m / root + m
        self.x = np.stack([np.where(r < 0, large, small), np.where(r > 0, large, small)])
        self.z = mu / self.x
        self.slope = model.slope(w, self.alpha)

    def surround(self, ball: LpBall, place: Spread | PairsState) -> None:
        """Add the pairs of the ball: as they start at w, or as they were left there."""
        self.pairs = pairs_of(ball, self.w[: self.model.n_weights], place)
        self._weigh()

    @property
    def alpha(self) -> Host:
        """The multipliers of the rows."""
        return self.z[0]

    @property
    def count(self) -> int:
        """How many pairs there are."""
        return self.x.size + self.pairs.x.size

    def steepest(self) -> float:
        """Return the largest entry of the slope, by size."""
        return float(np.abs(self.slope).max())

    def factor(self) -> None:
        """Factor the Newton matrix at this point, and evaluate the slope."""
        model = self.model
        self.ratio = self.x / self.z
        self.D = 1.0 / (self.ratio[0] + self.ratio[1])
        scaled = model.columns * np.sqrt(self.D)
        curvature = scaled @ scaled.T
        if model.quadratic is not None:
            curvature = curvature + model.quadratic
        self.newton = NewtonFactor(curvature, self.pairs)
        self.slope = model.slope(self.w, self.alpha)
        self.slope[: model.n_weights] += self.pairs.force

    def aim(self, target: float, curved: bool, refinements: int) -> tuple[float, float]:
        """Compute the direction to products `target`; return its longest primal and dual steps.

        If `curved`, the target is reduced by the second-order terms dx·dz of the last direction.
        """
        pairs, model = self.pairs, self.model
        row_target = target - self.dx * self.dz if curved else np.full_like(self.x, target)
        ball_target = target - self.ball.dx * self.ball.dz if curved else target
        change = ball_target - pairs.x * pairs.z
        shift = row_target / self.z
        force = self.D * (self.residual + shift[0] - shift[1])
        pull = model.columns @ force - self.slope
        self._direct(pull, change, shift, force)
        for _ in range(refinements):
            pull = pull - self._slope_residual()
            self._direct(pull, change, shift, force)
        return (
            min(_longest_step(self.x, self.dx), _longest_step(pairs.x, self.ball.dx)),
            min(_longest_step(self.z, self.dz), _longest_step(pairs.z, self.ball.dz)),
        )

    def _direct(self, pull: Host, change: Host, shift: Host, force: Host) -> None:
        self.dw, self.ball = self.newton.solve(pull, change)
        self.slide = self.model.margins(self.dw)
        d_alpha = force - self.D * self.slide
        self.dz = np.stack([d_alpha, -d_alpha])
        self.dx = shift - self.x - self.ratio * self.dz

    def _slope_residual(self) -> Host:
        """Return the slope after a full step, which is zero up to errors of the solve."""
        slope = self.slope - self.model.columns @ self.dz[0]
        slope[: self.model.n_weights] += self.pairs.pressure(self.ball.dz)
        return slope if self.model.quadratic is None else slope + self.model.quadratic @ self.dw

    def left(self, primal: float, dual: float) -> float:
        """Return the sum of products after a step of these lengths."""
        pairs, ball = self.pairs, self.ball
        rows = np.vdot(self.x + primal * self.dx, self.z + dual * self.dz)
        return float(rows + np.vdot(pairs.x + primal * ball.dx, pairs.z + dual * ball.dz))

    def move(self, primal: float, dual: float) -> None:
        """Take the step, with lengths of their own for slacks and multipliers."""
        self.x = self.x + primal * self.dx
        self.z = self.z + dual * self.dz
        self.residual = self.residual - primal * self.slide
        self.w = self.w + primal * self.dw
        self.pairs.move(self.ball, primal, dual)
        self._weigh()

    def _weigh(self) -> None:
        pairs = self.pairs
        self.products = float(np.vdot(self.x, self.z) + np.vdot(pairs.x, pairs.z))
        self.hinges = float(self.model.costs @ self.x[1])


class SmoothedSystem:
    """Hinges smoothed to a parabola for |r| < δ, δ the band.

    The slope of a row is ``α_i = c_i · clip(½ + r_i / 2δ, 0, 1)``.

    Parameters
    ----------
    model, w, residual
        As for the `InteriorSystem`.
    band : float
        δ.

    Attributes
    ----------
    n_inside : float
        Number of rows in the band.
    """

    def __init__(self, model: Model, w: Host, residual: Host, band: float) -> None:
        self.model, self.w, self.residuals = model, w, residual
        self.look(band)

    def surround(self, ball: LpBall, place: Spread | PairsState) -> None:
        """Add the pairs of the ball: as they start at w, or as they were left there."""
        self.pairs = pairs_of(ball, self.w[: self.model.n_weights], place)

    @property
    def state(self) -> PairsState:
        """Where the pairs of the ball are."""
        return self.pairs.state

    def steepest(self) -> float:
        """Return the largest entry of the slope, by size."""
        return float(np.abs(self.slope).max())

    def look(self, band: float) -> None:
        """Smooth with this band."""
        self.band = band
        self.pull, self.n_inside = self._smoothed(self.residuals)
        self.slope = self.model.slope_of(self.w, self.pull)

    def _smoothed(self, r: Host) -> tuple[Host, float]:
        alpha = np.clip(0.5 + r / (2.0 * self.band), 0.0, 1.0) * self.model.costs
        return self.model.columns @ alpha, float(np.count_nonzero(np.abs(r) < self.band))

    def newton(self, product: float, wanted: int) -> tuple[float, float, float, float]:
        """Compute the step to products `product` of the ball.

        Returns the longest lengths of the ball's slacks and multipliers, how much the objective
        falls to first order, and dwᵀH dw, with the curvature by at most about `wanted` rows.
        """
        pairs = self.pairs
        self.slope[: self.model.n_weights] += pairs.force
        curvature = self._curvature(wanted)
        newton = NewtonFactor(curvature.copy(), pairs)
        self.dw, self.ball = newton.solve(-self.slope, product - pairs.x * pairs.z)
        self.slide = self.model.margins(self.dw)
        self.promised = float(self.dw @ curvature @ self.dw)
        return (
            _longest_step(pairs.x, self.ball.dx),
            _longest_step(pairs.z, self.ball.dz),
            -float(self.slope @ self.dw),
            self.promised,
        )

    def _curvature(self, wanted: int) -> Host:
        """Return ``A D Aᵀ`` over the rows in the band, plus the quadratic term of the model."""
        model, rows = self.model, np.flatnonzero(np.abs(self.residuals) < self.band)
        stride = max(1, rows.size // wanted)  # a sample is enough
        rows = rows[::stride]
        columns = model.columns.take(rows, axis=1)
        weight = model.costs.take(rows) * (0.5 * stride / self.band)
        matrix = (columns * weight) @ columns.T
        if model.free:  # an intercept with no row in the band has nothing else to hold it
            matrix[-1, -1] += 1e-6 * float(model.costs.sum()) / self.band
        return matrix if model.quadratic is None else matrix + model.quadratic

    def ahead(self, step: float) -> float:
        """Return by how much the slope along a step exceeds the prediction of the Newton model."""
        self.r_ahead = self.residuals - step * self.slide
        self.pull_ahead, self.inside_ahead = self._smoothed(self.r_ahead)
        return float((self.pull - self.pull_ahead) @ self.dw) - step * self.promised

    def move(self, primal: float, dual: float) -> None:
        """Take the step of the last call of `ahead`."""
        self.residuals, self.pull, self.n_inside = self.r_ahead, self.pull_ahead, self.inside_ahead
        self.pairs.move(self.ball, primal, dual)
        self.w = self.w + primal * self.dw
        self.slope = self.model.slope_of(self.w, self.pull)

    def largest_slide(self) -> float:
        """Return the largest change of a margin along the last full step."""
        return float(np.abs(self.slide).max(initial=0.0))

    def stationarity(self) -> float:
        """Return the residual of the stationarity condition."""
        R = self.model.n_weights
        free = float(np.abs(self.slope[R:]).max(initial=0.0))
        return max(free, self.pairs.radius * float(np.abs(self.slope[:R] + self.pairs.force).max()))
