"""Newton steps for problems over the ℓp ball, shared by the interior point and the smoothed hinge.

The ball is lifted: |w_j| ≤ τ_j = t_j^{1/p}, Σ t = 1, t ≥ 0 (no t at p = ∞). Its constraints enter
as complementary pairs slack × multiplier, which a step drives towards given targets.
"""

from __future__ import annotations

from math import isfinite
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from lpfuse._arrays import Array, Host, smallest
from lpfuse.optim.balls import LpBall


def longest_step(x: Array, dx: Array) -> float:
    """The largest step with ``x + step·dx ≥ 0`` for positive x; no limit is 1e30."""
    worst = smallest(dx / x) if x.shape[-1] else 0.0
    return -1.0 / worst if worst < 0.0 else 1e30


class BallStep(NamedTuple):
    """A direction of the pairs of the ball."""

    dx: Host
    dz: Host
    dw: Host
    d_eta: float


def _shares(ball: LpBall, w: Host, evenness: float) -> Host:
    size = np.abs(w) ** ball.p
    total = float(size.sum())
    even = np.full_like(w, 1.0 / w.size)
    return evenness * even + (1.0 - evenness) * (size / total if total > 0.0 else even)


class BallPairs:
    """Pairs (u⁺, λ⁺), (u⁻, λ⁻), (t, θ) of every coordinate, stacked as (3, R); (2, R) at p = ∞.

    u⁺ = τ − w and u⁻ = στ + w, where σ = 0 turns the lower bound into w ≥ 0. The slacks are
    variables of their own: deriving them from w and t jams near p = 1, where t^{1/p} bends sharply.

    Parameters
    ----------
    w : array of shape (R,)
        Where to start, inside the ball.
    product : float
        Start of every product slack × multiplier.
    evenness : float in (0, 1]
        How much of Σ t = 1 is spread evenly at the start; the rest follows |w_j|^p.
    """

    def __init__(self, ball: LpBall, w: Host, product: float, evenness: float) -> None:
        self.lifted = ball.p < np.inf
        self.exponent = 1.0 / ball.p if self.lifted else 0.0
        self.sigma = 0.0 if ball.nonnegative else 1.0
        self.w = w
        # u = signs·w + reach·τ for the two slacks of a coordinate
        self.signs, self.reach = np.array([[-1.0], [1.0]]), np.array([[1.0], [self.sigma]])
        share = _shares(ball, w, evenness) if self.lifted else np.ones_like(w)
        tau = share**self.exponent
        slacks = [np.maximum(tau - w, 0.05 * tau), np.maximum(self.sigma * tau + w, 0.05 * tau)]
        self.x = np.stack([*slacks, share] if self.lifted else slacks)
        self.z = product / self.x
        self.eta = 0.0
        if self.lifted:
            bend = self.exponent * tau / share
            self.eta = float(np.mean((self.z[0] + self.sigma * self.z[1]) * bend + self.z[2]))

    @property
    def force(self) -> Host:
        """What the multipliers of the ball add to the slope in w."""
        return self.z[0] - self.z[1]

    def linearise(self) -> Host:
        """Prepare a step; returns the diagonal that the ball adds to the Newton matrix."""
        x, z, sigma = self.x, self.z, self.sigma
        self.d = d = z / x
        up, down = d[0], d[1]
        t, e = x[-1], self.exponent
        tau = t**e
        self.error = x[:2] - self.signs * self.w - self.reach * tau
        if not self.lifted:
            return up + down
        self.bend = bend = e * tau / t
        press = z[0] + sigma * z[1]
        curve = press * bend * ((1.0 - e) / t) + d[2]
        bend_down, bend_squared = sigma * down, bend * bend
        self.Ktt = bend_squared * (up + bend_down) + curve
        self.Kwt = bend * (bend_down - up)
        self.border = self.Kwt / self.Ktt
        self.t_slope = self.eta - press * bend - z[2]
        self.t_missing = 1.0 - float(t.sum())
        # (up + down) − Kwt²/Ktt, written so that nothing cancels
        return ((up + down) * curve + (1.0 + sigma) ** 2 * bend_squared * up * down) / self.Ktt

    def pull(self, change: Host) -> Host:
        """Right-hand side in w of the step that changes the products x·z by `change`."""
        self.h = h = change / self.x
        up, down = h[:2] + self.d[:2] * self.error
        if not self.lifted:
            return down - up
        self.gt = self.bend * (up + self.sigma * down) + h[2] - self.t_slope
        return down - up - self.border * self.gt

    def multiplier_step(self, z0: Host, z1: Host) -> float:
        """dη such that Σ t returns to 1 when dw = z0 + z1 dη."""
        top = float(((self.gt - self.Kwt * z0) / self.Ktt).sum()) - self.t_missing
        return top / float(((1.0 + self.Kwt * z1) / self.Ktt).sum())

    def direction(self, dw: Host, d_eta: float) -> BallStep:
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


class Breakdown(ArithmeticError):
    """The Newton matrix could not be factored: the iterate has left the range of float64."""


class NewtonSystem:
    """Curvature of the rows plus that of the ball, factored once and solved for several targets."""

    def __init__(self, curvature: Host, pairs: BallPairs) -> None:
        self.pairs = pairs
        self.R = R = pairs.w.size
        diagonal = curvature.reshape(-1)[:: curvature.shape[0] + 1]
        diagonal[:R] += pairs.linearise()
        self.factor = self._cholesky(curvature, diagonal)
        if pairs.lifted:
            border = np.zeros(diagonal.size)
            border[:R] = pairs.border
            self.z1 = lapack.dpotrs(self.factor, border, lower=1)[0]

    @staticmethod
    def _cholesky(matrix: Host, diagonal: Host) -> Host:
        # Relative to each entry: the diagonal spans twenty orders of magnitude near the optimum.
        ridge = 1e-15
        for _ in range(5):
            diagonal *= 1.0 + ridge
            factor, failed = lapack.dpotrf(matrix, lower=1)
            if not failed and isfinite(factor[-1, -1]):
                return factor
            ridge *= 100.0
        raise Breakdown("the Newton matrix is not positive definite")

    def solve(self, pull: Host, change: Host) -> tuple[Host, BallStep]:
        """dw for the rows' right-hand side, and the ball's step that changes its products."""
        pull[: self.R] += self.pairs.pull(change)
        dw = lapack.dpotrs(self.factor, pull, lower=1)[0]
        d_eta = 0.0
        if self.pairs.lifted:
            d_eta = self.pairs.multiplier_step(dw[: self.R], self.z1[: self.R])
            dw = dw + d_eta * self.z1
        return dw, self.pairs.direction(dw[: self.R], d_eta)
