"""The constraint set: a ball around prior weights, optionally cut to non-negative weights.

`LpBall` is that of the ℓp norm, `GroupBall` of an ℓp norm of the ℓq norms of families of weights.
Vectors have R entries and are on the host.
`newton.BallPairs` and `newton.GroupPairs` are their forms for Newton's method.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

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


def _norms(V: Vector, p: float) -> Vector:
    """Return the norm of every row."""
    size = np.abs(V)
    top = size.max(axis=1)
    if p == np.inf:
        return top
    if p == 1.0:
        return size.sum(axis=1)
    below = np.where(top > 0.0, top, 1.0)
    return top * ((size / below[:, None]) ** p).sum(axis=1) ** (1.0 / p)


def _corners(V: Vector, p: float) -> Vector:
    """Return for every row v the z with ``‖z‖_p ≤ 1`` and the largest vᵀz; 0 where v = 0.

    Rows are divided by their largest entry first: its power reaches 31 on the paper's grid of p and
    would overflow. At p = 1 the first of several equal entries wins.
    """
    size = np.abs(V)
    if p == np.inf:
        return np.sign(V)
    if p == 1.0:
        first = np.arange(V.shape[1]) == size.argmax(axis=1)[:, None]
        return np.where(first, np.sign(V), 0.0)
    top = size.max(axis=1, keepdims=True)
    # At most 1: its powers cannot overflow.
    z = (size / np.where(top > 0.0, top, 1.0)) ** (1.0 / (p - 1.0))
    length = (z**p).sum(axis=1, keepdims=True) ** (1.0 / p)
    return np.sign(V) * (z / np.where(length > 0.0, length, 1.0))


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
    is_lp: ClassVar[bool] = True  # whether the norm is ‖·‖_p

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
        return self._dual(np.maximum(v, 0.0) if self.nonnegative else v)

    def _dual(self, v: Vector) -> float:
        return _norm(v, self.q)

    def support(self, v: Vector) -> float:
        """Return ``max {vᵀw : w in the ball}``, or slightly more; less only by rounding.

        ``r‖v‖_q + vᵀw₀``; with w ≥ 0 the least of ``r‖u‖_q + uᵀw₀`` over all u ≥ v. Any such u is
        a bound, for vᵀw ≤ uᵀw where w ≥ 0.
        """
        if self.centre is None:
            return self.radius * self.dual_norm(v)
        u = self._fill(v)[1] if self.nonnegative else v
        return self.radius * self._dual(u) + float(u @ self.centre)

    def support_size(self, v: Vector) -> float:
        """Return an upper bound of ``Σ |v_j w_j|`` over the ball."""
        if self.centre is None:
            return self.support(v)
        return self.radius * self._dual(v) + 2.0 * float(np.abs(v) @ np.abs(self.centre))

    def stretch(self, size: int, norm: float = np.inf) -> float:
        """Return the largest ratio of the support to ``‖v‖_norm``, for vectors v of that size."""
        reach = self.radius * self._stretch(size, norm)
        return reach if self.centre is None else reach + _norm(self.centre, _conjugate(norm))

    def _stretch(self, size: int, norm: float) -> float:
        return float(size ** max(1.0 / self.q - 1.0 / norm, 0.0))

    def linear_oracle(self, g: Vector) -> Vector:
        """Return ``argmin {gᵀw : w in the ball}``; the centre where g = 0.

        At p = 1 the first of several equal entries wins.
        """
        if self.centre is not None:
            z = self._fill(-g)[0] if self.nonnegative else self._corner(-g)
            w = self.centre + self.radius * z
            return np.maximum(w, 0.0) if self.nonnegative else w
        return self.radius * self._corner(np.maximum(-g, 0.0) if self.nonnegative else -g)

    def _corner(self, v: Vector) -> Vector:
        """Return the z of norm 1 with the largest vᵀz; 0 where v = 0."""
        return _corners(v[None], self.p)[0]

    def _fill(self, v: Vector) -> tuple[Vector, Vector]:
        """Return the optimal direction from the centre for v with w ≥ 0, and the best u ≥ v."""
        assert self.centre is not None
        with np.errstate(all="ignore"):  # an infinite bound is none
            return self.fill(v, self.centre / max(self.radius, 1e-300))

    def fill(self, v: Vector, c: Vector) -> tuple[Vector, Vector]:
        """Return the z ≥ −c of norm at most 1 with the largest vᵀz, and the best u ≥ v (c ≥ 0).

        Every u ≥ v bounds the maximum: vᵀz ≤ uᵀz + (u − v)ᵀc ≤ ‖u‖_q + (u − v)ᵀc. Entries that
        would fall below −c_j are fixed there, and the others share the rest of the ball, until none
        falls below: at most R times. At the optimum ``|u_j| = λ|z_j|^{p−1}``, so u_j = −λ c_j^{p−1}
        where z_j = −c_j, and u = v elsewhere.

        Examples
        --------
        >>> z, u = LpBall(2.0).fill(np.array([3.0, -4.0]), np.array([0.0, 0.6]))
        >>> z, u.round(6)
        (array([ 0.8, -0.6]), array([ 3.  , -2.25]))
        """
        low = np.zeros(v.size, dtype=bool)
        while True:
            rest = np.where(low, 0.0, v)
            left = max(1.0 - float((c[low] ** self.p).sum()), 0.0) ** (1.0 / self.p)
            z = np.where(low, -c, left * self._corner(rest))
            below = z < -c
            if not below.any():
                break
            low |= below
        bend, pull = c[low] ** (self.p - 1.0), _norm(rest, self.q)
        level = pull / left ** (self.p - 1.0) if pull > 0.0 else 0.0
        level = min(level, float((-v[low] / bend).min(initial=np.inf)))
        u = v.copy()
        u[low] = np.maximum(v[low], -level * bend)
        return z, u

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


# --------------------------------------------------------------------------------------------------
# The ball of a group norm.


@dataclass(frozen=True)
class GroupBall(LpBall):
    """The ball of ``‖(‖v_1‖_q, …, ‖v_G‖_q)‖_p``, v_g the entries of w − w₀ in group g.

    p = 1 with q = 2 leaves out whole groups; p = 2 with q = 1 chooses inside each of them. The dual
    norm is that of both conjugate exponents. Not for `nonnegative` around a centre.

    Parameters
    ----------
    inner : float in [1, ∞]
        q.
    groups : tuple of int
        The number of the group of each weight: 0, …, G − 1.

    Examples
    --------
    >>> ball = GroupBall(1.0, inner=2.0, groups=(0, 0, 1))
    >>> v = np.array([3.0, 4.0, 2.0])
    >>> ball.norm(v), ball.dual_norm(v), ball.linear_oracle(-v)
    (7.0, 5.0, array([0.6, 0.8, 0. ]))
    """

    inner: float = 2.0
    groups: tuple[int, ...] = ()
    is_lp: ClassVar[bool] = False

    @cached_property
    def of(self) -> NDArray[np.intp]:
        """The group of each weight."""
        return np.array(self.groups, dtype=np.intp)

    def _table(self, v: Vector) -> Vector:
        """Return a row for each group, with zeros for the weights of others."""
        rows = np.arange(max(self.groups) + 1)[:, None]
        return np.where(self.of == rows, v, 0.0)

    def group_norms(self, v: Vector) -> Vector:
        """``‖v_g‖_q`` of every group."""
        return _norms(self._table(v), self.inner)

    def norm(self, w: Vector) -> float:
        """``‖(‖w_g‖_q)_g‖_p``."""
        return _norm(self.group_norms(w), self.p)

    def _dual(self, v: Vector) -> float:
        return _norm(_norms(self._table(v), _conjugate(self.inner)), self.q)

    def _corner(self, v: Vector) -> Vector:
        table = self._table(v)
        shares = _corners(_norms(table, _conjugate(self.inner))[None], self.p)[0]
        corner: Vector = shares @ _corners(table, self.inner)
        return corner

    def _stretch(self, size: int, norm: float) -> float:
        return self._dual(np.ones(size))

    def uniform(self, size: int) -> Vector:
        """Return equal weights on the surface of a ball around 0."""
        return np.full(size, self.radius / self.norm(np.ones(size)))


def ball_of(
    p: float,
    nonnegative: bool,
    centre: Vector | None,
    radius: float,
    *,
    groups: Any = None,
    q: float = 2.0,
) -> LpBall:
    """Return the ball of these parameters: with groups, or that of the ℓp norm."""
    common = p, nonnegative, centre, radius
    return LpBall(*common) if groups is None else GroupBall(*common, inner=q, groups=tuple(groups))
