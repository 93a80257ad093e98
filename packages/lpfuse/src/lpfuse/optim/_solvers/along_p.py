"""From the optimum at one p to the optimum at the next: Newton's method on the surface of the ball.

Between neighbours the sides of most rows and the pull of the rows on the weights change little, so
no barrier is needed, as the interior point needs one. With v = −∇f the slope against which the ball
holds the weights, and x = (w − w₀)/r,

    v = η φ(x),   φ(x) = sign(x)|x|^{p−1},   Σ|x|^p = 1          or   v = 0 inside the ball

is one smooth equation in w for every p in (1, ∞). A step costs one small product A_J D A_Jᵀ over
the rows J near their kink, and one Cholesky factor of R×R.

1. *Near*: the hinge is rounded within a band (see `smoothing`), which shrinks from step to step
   until few rows are left in it.
2. *At the kink*: α = clip(α₀ + c r/2δ, 0, c) around multipliers α₀ that follow their own estimate
   (the method of multipliers), so that it ends with the exact sides. Where many rows lie at their
   kink, or it does not get on, the interior point finishes on the few rows that matter.

What comes out is a proposal with its bounds, or None: then a solver that needs no neighbour serves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from lpfuse._arrays.operations import Host, kth_smallest
from lpfuse.optim._solvers.interior_point import Optimum, WarmStart, interior_point
from lpfuse.optim._solvers.newton import Model
from lpfuse.optim._solvers.screening import Screen
from lpfuse.optim._tuning import AlongTuning, InteriorPointTuning, Tuning
from lpfuse.optim.balls import BallPairs, LpBall


class Track(NamedTuple):
    """What an optimum leaves to the next p."""

    ball: LpBall
    found: Optimum
    pull: Host  # (R,): Aα − g, what the ball holds the weights against
    gain: float  # k + Σα

    @classmethod
    def of(cls, model: Model, found: Optimum) -> Track:
        """One product with the rows."""
        pull = (model.columns @ found.alpha - model.linear)[: model.n_weights]
        return cls(model.ball, found, pull, model.constant + float(found.alpha.sum()))

    def still_best(self, ball: LpBall, tol: float, scale: float) -> Optimum | None:
        """The same weights and multipliers, where they are proof enough over another ball.

        What is best inside a ball is best in every larger one. Both bounds are known, and only the
        support of the other ball is new.
        """
        found = self.found
        if not ball.gauge(found.w[: self.pull.size]) <= 1.0:
            return None
        dual = self.gain - ball.support(self.pull)
        same = Optimum(found.w, found.alpha, found.primal, dual, 1, found.witness)
        return same if same.within(tol, scale) else None


def follow(model: Model, before: Track, tol: float, scale: float, tuning: Tuning) -> Optimum | None:
    """The optimum over the model's ball, from that over a neighbouring one.

    None where this way does not lead there: w ≥ 0 and the corners of p = 1 and p = ∞ are left to
    the interior point, and so are runs that do not get on.
    """
    rules, ball = tuning.along, model.ball
    if ball.nonnegative or not rules.least_p <= ball.p <= rules.most_p or ball.radius < 1e-6:
        return None
    if model.quadratic is not None or not np.abs(before.pull).max() > 0.0:
        return None
    with np.errstate(all="ignore"):  # a wrong turn may overflow: it is noticed
        run = _Newton(model, before, rules)
        if not run.near():
            return None
        if model.n_rows <= rules.whole and (found := run.at_kink(tol, scale)) is not None:
            return found
        kept = min(rules.kept + rules.kept_per_weight * model.size, model.n_rows - 1)
        found = Screen(model, tol, scale, None, tuning, run.finish).solve(run.w, None, kept)
        return found if found.within(tol, scale) else None


class _Newton:
    """The iterate of one run: x on the surface or inside, residuals r, the band δ and α₀."""

    def __init__(self, model: Model, before: Track, rules: AlongTuning) -> None:
        self.rules, self.ball, self.p = rules, model.ball, model.ball.p
        self.R, self.steps, self.inside = model.n_weights, 0, False
        w = before.found.w
        if self.p < 2.0:  # small p: the pull decides, whose power is the weight
            self.x = self._towards(before.pull)
        else:
            x = self.ball.from_centre(w[: self.R])
            self.x = x / self.ball.norm(x)
        self.free = w[self.R :]
        self._enter(model)
        self.band = kth_smallest(abs(self.r), int(rules.first_band * model.n_rows)) + 1e-12
        self.at = 0.5 * self.c

    def _enter(self, model: Model) -> None:
        self.model, self.A, self.c, self.g = model, model.columns, model.costs, model.linear
        self.w = self._point(self.x, self.free)
        self.r = 1.0 - self.w @ self.A

    def _point(self, x: Host, free: Host) -> Host:
        return np.concatenate([self.ball.at(self.ball.radius * x), free])

    def _towards(self, v: Host) -> Host:
        """The x on the surface with φ(x) along v."""
        size = np.abs(v)
        z = (size / size.max()) ** (1.0 / (self.p - 1.0))
        return np.copysign(z / (z**self.p).sum() ** (1.0 / self.p), v)

    def near(self) -> bool:
        """Shrink the band to few rows; whether that was reached."""
        rules, enough = self.rules, self.rules.resolved + self.rules.resolved_per_weight * self.R
        self._weigh()
        for _ in range(rules.near_steps):
            if not self._step(sampled=True):
                return False
            if self.length == 1.0 and self.moved < rules.settled * self.band:
                inside = int(np.count_nonzero(np.abs(self.r) < self.band))
                if inside <= enough:
                    return True
                self.band *= max(rules.shrink, 0.7 * enough / inside)
                self._weigh()
        return False

    def at_kink(self, tol: float, scale: float) -> Optimum | None:
        """The exact sides, by multipliers that follow their estimate."""
        rules, halted = self.rules, 0
        most = max(rules.at_kink, int(rules.at_kink_per_weight * self.R))
        band, self.at = self.band, self.alpha
        self.band *= rules.closer
        self._weigh()
        for attempt in range(rules.kink_steps):
            found = self._bounds()
            if found.within(tol, scale) or found.primal <= tol * scale:
                return found
            alpha = self.alpha
            if not self._step(sampled=False) or (attempt > 0 and self.near_rows.size > most):
                break
            if self.length == 1.0:
                estimate = alpha[self.near_rows] - self.stiff[self.near_rows] * self.slide
                alpha[self.near_rows] = estimate
                self.at = np.minimum(np.maximum(alpha, 0.0), self.c)
                self.band *= rules.closer
            else:
                halted += 1
                self.band *= rules.wider
                if halted > rules.halts:
                    break
            self._weigh()
        self.band = band
        return None

    def finish(
        self,
        model: Model,
        tol: float,
        scale: float,
        max_iter: int | None,
        start: WarmStart | None,
        rules: InteriorPointTuning,
    ) -> Optimum:
        """Solve a model of few rows from here: as above, or by the interior point."""
        whole = self.model.n_rows <= self.rules.whole
        if not whole:
            self._enter(model)
            self.at = 0.5 * self.c
            self._weigh()
            if (found := self.at_kink(tol, scale)) is not None:
                return found
        found = interior_point(model, tol, scale, max_iter, self._warm(model), rules)
        steps = self.steps + found.n_iter
        return Optimum(found.w, found.alpha, found.primal, found.dual, steps, found.witness)

    def _warm(self, model: Model) -> WarmStart:
        if not self.inside:
            return WarmStart.near(model, self.w)
        # Inside, the multipliers of the ball end at zero: they start small.
        x = self.x * min(1.0, 0.995 / max(self.ball.norm(self.x), 1e-300))
        w = self._point(x, self.free)
        product = 0.1 * self.band * float(self.c.mean())
        return WarmStart(w, BallPairs(self.ball, w[: self.R], product, evenness=0.01))

    def _weigh(self) -> None:
        """The rounded hinges at r: their value, slopes α and pull."""
        self.stiff = self.c / (2.0 * self.band)
        self.value = self._rounded(self.w, self.r)
        self.pull = self.A @ self.alpha - self.g

    def _rounded(self, w: Host, r: Host) -> float:
        """``gᵀw + Σ max{α r − (α − α₀)²/2κ : 0 ≤ α ≤ c}``, with κ = c/2δ."""
        self.wanted = self.at + self.stiff * r
        self.alpha = np.minimum(np.maximum(self.wanted, 0.0), self.c)
        off = self.alpha - self.at
        return float(self.g @ w + self.alpha @ r - 0.5 * (off @ (off / self.stiff)))

    def _bounds(self) -> Optimum:
        model, alpha, w = self.model, self.alpha, self.w
        primal = model.constant + float(self.g @ w + self.c @ np.maximum(self.r, 0.0))
        if model.free:
            dual, alpha = model.dual(w, alpha)
        else:
            support = self.ball.support(self.pull[: self.R])
            dual = model.constant + float(alpha.sum()) - support
        return Optimum(model.feasible(w), alpha, primal, dual, self.steps, w)

    def _step(self, sampled: bool) -> bool:
        """One Newton step, as long as the rounded objective falls; whether there was one."""
        self.steps += 1
        R, pull = self.R, self.pull
        self.near_rows = near = np.flatnonzero(self.alpha == self.wanted)
        if sampled:  # a sample tells the curvature
            most = self.rules.curvature_rows + self.rules.curvature_rows_per_weight * R
            stride = max(1, near.size // most)
            self.near_rows = near = near[::stride]
        columns, stiff = self.A[:, near], self.stiff[near]
        matrix = (columns * (stiff * stride if sampled else stiff)) @ columns.T
        diagonal = matrix.reshape(-1)[:: matrix.shape[0] + 1]
        if self.model.free:  # an intercept with no row in the band has nothing else to hold it
            diagonal[-1] += 1e-9 * float(self.c.sum()) / self.band
        eta = float(pull[:R] @ self.x)
        if eta <= 0.0:
            self.inside = True
        dw = self._free_step(matrix, diagonal) if self.inside else self._held(matrix, diagonal, eta)
        if dw is None or not np.isfinite(dw).all():
            return False
        self.slide = dw @ columns
        self.moved = float(np.abs(self.slide).max()) if near.size else 0.0
        return self._search(dw, float(pull @ dw))

    def _free_step(self, matrix: Host, diagonal: Host) -> Host | None:
        """Inside the ball: no more than the rows."""
        diagonal += 1e-9 * float(diagonal.max()) + 1e-300
        factor, failed = lapack.dpotrf(matrix, lower=1)
        self.turn = None
        return None if failed else lapack.dpotrs(factor, self.pull, lower=1)[0]

    def _held(self, matrix: Host, diagonal: Host, eta: float) -> Host | None:
        """On the surface: H dw + φ dη = pull − ηφ with H = A_J κ A_Jᵀ + diag(ηφ′), and φᵀdw = 0."""
        R, p, x = self.R, self.p, self.x
        size = np.abs(x)
        power = size ** (p - 2.0)
        bend = (eta * (p - 1.0) / self.ball.radius) * np.minimum(power, 1e60)
        diagonal[:R] += bend
        diagonal *= 1.0 + 1e-14
        if p > 2.0:
            diagonal += 1e-12 * float(diagonal.max())
        factor, failed = lapack.dpotrf(matrix, lower=1)
        if failed:
            return None
        sides = np.zeros((diagonal.size, 2), order="F")
        phi = np.copysign(size ** (p - 1.0), x)
        sides[:, 0] = self.pull
        sides[:R, 0] -= eta * phi
        sides[:R, 1] = phi
        ahead, aside = lapack.dpotrs(factor, sides, lower=1)[0].T
        d_eta = float(phi @ ahead[:R]) / float(phi @ aside[:R])
        dw = ahead - d_eta * aside
        self.turn = (eta * phi, bend * dw[:R] + d_eta * phi, size, power)
        return dw

    def _ahead(self, dx: Host, length: float) -> Host:
        """x after a part of the step: on the surface, or inside."""
        p, x = self.p, self.x
        if self.turn is None:
            ahead = x + length * dx
            norm = self.ball.norm(ahead)
            self.outside = norm > 1.0
            return ahead / norm if self.outside else ahead
        v, dv, size, power = self.turn
        if p < 2.0:  # v changes little where x may vanish or grow many times
            return self._towards(v + length * dv)
        ahead = x + length * dx
        # |x|^{p−1} bends sharply: where x grows, v may by what its tangent says, and a little.
        grown = np.maximum((p - 1.0) * power * (np.abs(ahead) - size), 0.0)
        most = (size * power + grown + 0.1) ** (1.0 / (p - 1.0))
        ahead = np.copysign(np.minimum(np.abs(ahead), most), ahead)
        return ahead / self.ball.norm(ahead)

    def _search(self, dw: Host, gain: float) -> bool:
        """Shorten the step until the rounded objective falls."""
        dx, length, value = dw[: self.R] / self.ball.radius, 1.0, self.value
        noise = 1e-13 * abs(value)
        for _ in range(self.rules.halvings):
            x, free = self._ahead(dx, length), self.free + length * dw[self.R :]
            w = self._point(x, free)
            r = 1.0 - w @ self.A
            reached = self._rounded(w, r)
            if reached <= value - 1e-4 * length * gain + noise:
                if self.inside and self.outside:
                    self.inside = False
                self.x, self.free, self.w, self.r = x, free, w, r
                self.length, self.value = length, reached
                self.pull = self.A @ self.alpha - self.g
                return True
            length *= 0.35
        return False
