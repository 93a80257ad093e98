"""The constraint set: an ℓp ball around prior weights, optionally cut to non-negative weights.

Vectors have R entries and are on the host. `newton.BallPairs` is its form for Newton's method.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays.operations import Host

# --------------------------------------------------------------------------------------------------
# Water-filling: the linear oracle over a ball with lower bounds.
#
#     maximise  vᵀz   subject to   ‖z‖_p ≤ 1,   z ≥ −c          (c ≥ 0)
#
# Its dual bounds the maximum: vᵀz ≤ uᵀz + (u − v)ᵀc ≤ ‖u‖_q + (u − v)ᵀc for *every* u ≥ v.


def fill(unit: LpBall, v: Host, c: Host) -> tuple[Host, Host]:
    """Return the best z, and the best u ≥ v, over the unit ball.

    Entries that would fall below −c_j are fixed there, and the others share the rest of the ball,
    until none falls below: at most R times. At the optimum
    |u_j| = λ|z_j|^{p−1}, so u_j = −λ c_j^{p−1} where z_j = −c_j, and u = v elsewhere.

    Examples
    --------
    >>> from lpfuse.optim import LpBall
    >>> z, u = fill(LpBall(2.0), np.array([3.0, -4.0]), np.array([0.0, 0.6]))
    >>> z, u.round(6)
    (array([ 0.8, -0.6]), array([ 3.  , -2.25]))
    """
    p, low = unit.p, np.zeros(v.size, dtype=bool)
    with np.errstate(all="ignore"):  # c may be infinite: no bound
        while True:
            left = max(1.0 - float((c[low] ** p).sum()), 0.0) ** (1.0 / p)
            rest = np.where(low, 0.0, v)
            z = np.where(low, -c, left * unit.linear_oracle(-rest))
            below = z < -c
            if not below.any():
                break
            low |= below
        pull, bend = unit.dual_norm(rest), c[low] ** (p - 1.0)
        level = pull / left ** (p - 1.0) if pull > 0.0 else 0.0
        level = min(level, float((-v[low] / bend).min(initial=np.inf)))
        u = v.copy()
        u[low] = np.maximum(v[low], -level * bend)
        return z, u


# --------------------------------------------------------------------------------------------------
# The ball.

Vector = NDArray[np.float64]

# The least radius for Newton's method, by hand: weights of size 1 are rounded by as much.
LEAST_RADIUS = 1e-16


def _norm(v: Vector, p: float) -> float:
    """``‖v‖_p`` without overflow: the largest entry is divided out before any power is taken."""
    if p == 2.0:
        return math.hypot(*v.tolist())
    size = np.abs(v)
    top = float(size.max(initial=0.0))
    if top == 0.0 or p == np.inf:
        return top
    if p == 1.0:
        return float(size.sum())
    return top * float(((size / top) ** p).sum() ** (1.0 / p))


def _conjugate(p: float) -> float:
    """Return the q with ``1/p + 1/q = 1``."""
    if p == 1.0:
        return np.inf
    return 1.0 if p == np.inf else p / (p - 1.0)


@dataclass(frozen=True)
class LpBall:
    """The set ``{w : ‖w − w₀‖_p ≤ r}``, with ``w ≥ 0`` added when `nonnegative`.

    Parameters
    ----------
    p : float in [1, ∞]
        1 favours a single learner, ∞ uses all of them.
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
        """r, or a tiny radius where that is 0: Newton's method needs an interior."""
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
        """Return ``max {vᵀw : w in the ball}``, or slightly more; less only by rounding.

        ``r‖v‖_q + vᵀw₀``; with w ≥ 0 the least of ``r‖u‖_q + uᵀw₀`` over all u ≥ v. Any such u is
        a bound, for vᵀw ≤ uᵀw where w ≥ 0.
        """
        if self.centre is None:
            return self.radius * self.dual_norm(v)
        u = self._fill(v)[1] if self.nonnegative else v
        return self.radius * _norm(u, self.q) + float(u @ self.centre)

    def support_size(self, v: Vector) -> float:
        """Return an upper bound of ``Σ |v_j w_j|`` over the ball."""
        if self.centre is None:
            return self.support(v)
        return self.radius * _norm(v, self.q) + 2.0 * float(np.abs(v) @ np.abs(self.centre))

    def stretch(self, size: int, norm: float = np.inf) -> float:
        """Return the largest ratio of the support to ``‖v‖_norm``, for vectors v of that size."""
        reach = self.radius * float(size ** max(1.0 / self.q - 1.0 / norm, 0.0))
        return reach if self.centre is None else reach + _norm(self.centre, _conjugate(norm))

    def linear_oracle(self, g: Vector) -> Vector:
        """Return ``argmin {gᵀw : w in the ball}``; the centre where g = 0.

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
        """Return the optimal direction from the centre for v with w ≥ 0, and the best u ≥ v."""
        assert self.centre is not None
        with np.errstate(over="ignore"):
            return fill(LpBall(self.p), v, self.centre / max(self.radius, 1e-300))

    def scale_into(self, w: Vector) -> Vector:
        """Scale w towards the centre into the ball (negative entries are set to 0 first)."""
        if self.nonnegative:
            w = np.maximum(w, 0.0)
        # One rounding error of slack ensures ‖w − w₀‖_p ≤ r in floating point.
        gauge = self.gauge(w) * (1.0 + 1e-15)
        if gauge <= 1.0:
            return w
        v = self.from_centre(w) / (gauge if self.radius > 0.0 else np.inf)
        if self.centre is None:
            return v
        w = self.centre + v  # rounded towards the centre
        return np.where(np.abs(w - self.centre) > np.abs(v), np.nextafter(w, self.centre), w)

    def shrunk(self, w: Vector, factor: float) -> Vector:
        """Return the point at this share of the way from the centre to w."""
        return self.at(factor * self.from_centre(w))

    def uniform(self, size: int) -> Vector:
        """``r R^{-1/p} · 1``: equal weights on the surface of a ball around 0."""
        return np.full(size, self.radius * (1.0 if self.p == np.inf else size ** (-1.0 / self.p)))

    def preferred(self, size: int) -> Vector:
        """Return the default weights: w₀, or equal ones without it."""
        return self.uniform(size) if self.centre is None else self.centre.copy()
