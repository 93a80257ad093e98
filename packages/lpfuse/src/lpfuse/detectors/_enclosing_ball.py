"""The smallest ball, with slack, around rows that are given by explicit features.

With C_i the bound of row i, y_i = ±1 its side of the ball and κ_i = k(x_i, x_i), the centre a and
the squared radius ρ + ‖a‖² minimise the convex function

    F(a, ρ) = ‖a‖² + ρ + Σ_i C_i max(0, t_i),    t_i = y_i (v_i − ρ),    v_i = κ_i − 2 φ_iᵀa.

Any β with β_i y_i in [0, C_i] and Σ β_i = 1 bounds it from below. For the β of a hinge that is
smoothed over a band of width μ, that is β_i = C_i y_i α_i with α_i = t_i / μ cut to [0, 1], and for
the point g = Σ β_i φ_i, the distance to the optimum is at most

    gap = ‖a − g‖² + Σ_i C_i (max(0, t_i) − α_i t_i).

Newton steps on the smoothed function bring down the first term and a narrower band the second. A
step takes two passes over the features and one r×r system.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from lpfuse._arrays.linalg import add_to_diagonal, diagonal_of, solve_positive
from lpfuse._arrays.operations import (
    Array,
    Host,
    as_float64,
    beside,
    concatenate,
    dot,
    largest,
    like,
    map_row_blocks,
    namespace,
    nonzero,
    positive_part,
    put,
    smallest,
    sum_row_blocks,
    take,
    to_host,
    total,
)
from lpfuse._arrays.threads import one_blas_thread

# Chosen by hand.
NARROWER = 0.1  # the band's shrinkage, once the steps have no more to gain than it hides
MOST_STEPS = 200  # of both kinds together
# What rounding can do, as shares of the sizes at hand: float64 resolves 2e-16, and sums over rows
# and features lose a few more digits.
ROUNDING = 1e-13


@dataclass(frozen=True)
class Ball:
    """A ball, the multipliers that prove it, and how far from the smallest it may be."""

    centre: Host  # (r,)
    radius2: float
    beta: Host  # (n,)
    gap: float


def enclosing_ball(
    features: Array,
    kappa: Array,
    bounds: Host,
    signs: Host,
    tol: float,
    max_steps: int = MOST_STEPS,
) -> Ball:
    """The smallest ball around the rows of side +1, away from those of side −1.

    Parameters
    ----------
    features : array of shape (n, r)
        The rows φ_i; they are overwritten.
    kappa : array of shape (n,)
        Their ``k(x_i, x_i)``, at least ‖φ_i‖².
    bounds : ndarray of shape (n,)
        The C_i: how much a row on the wrong side costs.
    signs : ndarray of shape (n,)
        +1 inside, −1 outside.
    tol : float
        Largest gap, as a share of F.
    max_steps : int
        Steps after which the ball is returned as it is, with a `ConvergenceWarning`.
    """
    with one_blas_thread:
        return _Descent(features, kappa, bounds, signs).run(tol, max_steps)


class _Descent:
    """The state of the search: the point a, with v at it; all is measured from the rows' mean."""

    def __init__(self, features: Array, kappa: Array, bounds: Host, signs: Host) -> None:
        self.features = features
        self.C, self.y = like(bounds, features), like(signs, features)
        inside = bounds * (signs > 0)
        self.mean = self.backward(like(inside / inside.sum(), features))
        whole = as_float64(kappa)
        own = whole - self.squares()  # what the features do not show of a row
        own = own * as_float64(own > ROUNDING * whole)
        self.features -= beside(self.mean, features)
        self.kappa = self.squares() + own
        # Rows that are equal but for rounding (1e-14 in distance) make a point of the ball.
        self.is_point = bool(largest(self.kappa) <= 1e-28 * largest(whole))
        self.a = np.zeros(len(self.mean))
        self.v = self.kappa
        # Σ β = 1 then leaves no choice: every normal row is at its bound.
        self.all_outside = bool(inside.sum() <= 1 + 1e-12)

    def run(self, tol: float, max_steps: int) -> Ball:
        """Newton steps, and narrower bands, until the gap is small enough."""
        size = largest(self.kappa)
        if self.all_outside or self.is_point:
            share = positive_part(self.y) * self.C
            return self.ball(smallest(self.v), share / total(share), 0.0)
        band, rho, steps = size, smallest(self.v), 0
        while True:
            rho = self.balance(self.v, band, rho)
            t, alpha = self.hinge(self.v, band, rho)
            alpha = self.balanced(alpha)
            beta = self.C * self.y * alpha
            g = self.backward(beta)
            distance2 = float(np.sum((self.a - g) ** 2))
            cost = dot(self.C, positive_part(t))
            hidden = cost - dot(self.C, alpha * t)
            value = float(self.a @ self.a) + rho + cost
            gap = distance2 + hidden
            enough = max(tol * value, ROUNDING * size)
            if gap <= enough or steps >= max_steps:
                break
            steps += 1
            # The gap has two parts: a step brings down the first, a narrower band the second.
            if distance2 <= NARROWER * hidden:
                self.narrow(t, alpha, NARROWER * band)
                band *= NARROWER
            else:
                self.step(alpha, g, band, rho)
        if gap > enough:
            warnings.warn(
                f"The enclosing ball was not found to tol={tol:g} of its size: after {steps} steps "
                f"the gap is {gap / value:.2g}. Use fewer n_components, or a larger tol.",
                ConvergenceWarning,
                stacklevel=2,
            )
        # All rows on the surface, equal but for the band's width, are inside.
        normal = as_float64((alpha > 0) & (alpha < 1) & (self.y > 0))
        return self.ball(rho + largest(normal * t), beta, gap)

    def ball(self, surface: float, beta: Array, gap: float) -> Ball:
        return Ball(self.mean + self.a, surface + float(self.a @ self.a), to_host(beta), gap)

    def hinge(self, v: Array, band: float, rho: float) -> tuple[Array, Array]:
        t = self.y * (v - rho)
        return t, namespace(t).clip(t / band, 0.0, 1.0)

    def balance(self, v: Array, band: float, guess: float) -> float:
        """The ρ at which ``Σ β = 1``: Newton's method, bisection where it leaves the bracket."""
        low, high = smallest(v) - band, largest(v) + band
        # Σ β changes by up to ΣC · Δρ / band: closer than the rounding of ρ it cannot come.
        enough = 1e-15 * total(self.C) * (1 + max(abs(low), abs(high)) / band)
        rho = min(max(guess, low), high)
        for _ in range(100):  # bisection alone needs 60 for all digits
            _, alpha = self.hinge(v, band, rho)
            excess = dot(self.C * self.y, alpha) - 1.0
            if abs(excess) <= enough:
                break
            low, high = (rho, high) if excess > 0 else (low, rho)
            slope = total(self.C * as_float64((alpha > 0) & (alpha < 1))) / band
            proposal = rho + excess / slope if slope > 0 else np.inf
            rho = proposal if low < proposal < high else (low + high) / 2
        return rho

    def balanced(self, alpha: Array) -> Array:
        """α with ``Σ β = 1``: what rounding left over goes to rows that have room, in the band."""
        excess = dot(self.C * self.y, alpha) - 1.0
        if excess == 0.0:
            return alpha
        falling = as_float64(self.y * excess > 0)  # these give α away, the others take it
        room = self.C * (falling * alpha + (1 - falling) * (1 - alpha))
        in_band = as_float64((alpha > 0) & (alpha < 1))
        if dot(room, in_band) < 2 * abs(excess):
            in_band = in_band * 0 + 1
        share = abs(excess) / dot(room, in_band) * in_band
        return alpha + share * ((1 - falling) - alpha)

    def step(self, alpha: Array, g: Host, band: float, rho: float) -> None:
        """A Newton step in a, with ρ following it, as long as the smoothed function falls."""
        gradient = 2 * (self.a - g)
        curvature, _ = self.curvature(_between(alpha), band)
        direction = -_solve(curvature, gradient)
        change = -2 * self.forward(direction)

        def slope_at(length: float) -> float:
            v = self.v + length * change
            _, alpha = self.hinge(v, band, self.balance(v, band, rho))
            ahead = 2 * float((self.a + length * direction) @ direction)
            return ahead + dot(self.C * self.y * alpha, change)

        length = _first_flat(slope_at, float(gradient @ direction))
        self.a = self.a + length * direction
        self.v = self.v + length * change

    def narrow(self, t: Array, alpha: Array, band: float) -> None:
        """Move to where the rows in the band keep their α in a narrower one."""
        inside = _between(alpha)
        kept = alpha + 0.0
        kept = put(kept, inside, take(t, inside) / band)  # what α would be if it were not cut
        beta = self.C * self.y * kept
        curvature, mean = self.curvature(inside, band)
        gradient = 2 * (self.a - self.backward(beta)) - 2 * mean * (1 - total(beta))
        direction = -_solve(curvature, gradient)
        self.a = self.a + direction
        self.v = self.v - 2 * self.forward(direction)

    def curvature(self, inside: Array, band: float) -> tuple[Array, Host]:
        """``2I + (4/μ) Σ C_i (φ_i − φ̄)(φ_i − φ̄)ᵀ`` over the rows in the band, and their mean φ̄.

        The matrix stays beside the features.
        """
        r, xp = len(self.a), namespace(self.features)
        if inside.shape[0] == 0:
            return like(2 * np.eye(r), self.features), np.zeros(r)

        def moments(block: slice) -> Array:
            some = as_float64(take(self.features, inside[block]))
            some = xp.concat([some, xp.ones_like(some[:, :1])], axis=1)
            return some.T @ (take(self.C, inside[block])[:, None] * some)

        second = sum_row_blocks(moments, inside, r)
        weight = second[-1, -1]
        mean = second[-1, :-1] / weight
        matrix = 4 / band * (second[:-1, :-1] - weight * (mean[:, None] * mean[None, :]))
        # Next to a very narrow band the 2 would vanish: what is added keeps the matrix regular.
        return add_to_diagonal(matrix, 2 + 1e-15 * total(diagonal_of(matrix))), to_host(mean)

    def squares(self) -> Array:
        """``‖φ_i‖²`` for all rows."""

        def work(block: slice) -> Array:
            some = as_float64(self.features[block, :])
            return namespace(some).sum(some**2, axis=1)

        return concatenate(map_row_blocks(work, self.features))

    def forward(self, a: Host) -> Array:
        """``φ_iᵀ a`` for all rows."""
        direction = beside(a, self.features)

        def work(block: slice) -> Array:
            return as_float64(self.features[block, :] @ direction)

        return concatenate(map_row_blocks(work, self.features))

    def backward(self, beta: Array) -> Host:
        """``Σ β_i φ_i``."""
        factors = beside(beta, self.features)

        def work(block: slice) -> Host:
            return to_host(factors[block] @ self.features[block, :])

        return np.sum(map_row_blocks(work, self.features), axis=0)


def _solve(curvature: Array, gradient: Host) -> Host:
    return to_host(solve_positive(curvature, like(gradient, curvature)))


def _between(alpha: Array) -> Array:
    """Positions of the rows inside the band."""
    return nonzero((alpha > 0) & (alpha < 1))


def _first_flat(slope_at: Callable[[float], float], start: float) -> float:
    """A length at which the slope is nearly gone: 1 where that will do.

    Regula falsi on the slope, which rises along the step, since the function is convex. A full
    Newton step may leave half of the slope: exactness pays near the optimum only, and there the
    full step is right. The shares 0.5, 0.05 and 0.95 are chosen by hand.
    """
    slope = slope_at(1.0)
    if abs(slope) <= 0.5 * abs(start) or slope < 0:
        return 1.0
    low, high, slope_low, slope_high = 0.0, 1.0, start, slope
    length = 1.0
    while abs(slope) > 0.05 * abs(start) and high - low > 1e-14:
        share = slope_low / (slope_low - slope_high)
        length = low + (high - low) * min(max(share, 0.05), 0.95)
        slope = slope_at(length)
        if slope < 0:
            low, slope_low = length, slope
        else:
            high, slope_high = length, slope
    return length
