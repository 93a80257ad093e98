"""Primal–dual interior point: the certified solver for a model of moderately many rows.

The pairs slack × multiplier of the rows (`newton.RowPairs`) and of the ball (`balls.BallPairs`) are
complementary: at the optimum every product is 0, and near it the sum of the products is the gap. A
step drives them all towards a common target μ that shrinks (Mehrotra's predictor–corrector). It
costs one product A D Aᵀ and one Cholesky factor of R×R.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite
from typing import NamedTuple

import numpy as np

from lpfuse._arrays.operations import Array, Host, dot, namespace, to_host, total
from lpfuse.optim._solvers.newton import (
    Breakdown,
    Model,
    NewtonSystem,
    NoRowPairs,
    RowPairs,
    RowStep,
    longest_step,
)
from lpfuse.optim._tuning import FAST, InteriorPointTuning, StepRule
from lpfuse.optim.balls import BallPairs, BallStep

DEFAULT = InteriorPointTuning()


@dataclass(frozen=True)
class Optimum:
    """A feasible w, multipliers, and the values that they prove: dual ≤ optimum ≤ primal.

    With a quadratic term the bound also depends on a point, which need not be feasible: `witness`.
    """

    w: Host
    alpha: Array
    primal: float
    dual: float
    n_iter: int
    witness: Host

    def within(self, tol: float, scale: float) -> bool:
        """Whether the gap is at most ``tol · max(primal, scale)``."""
        return self.primal - self.dual <= tol * max(self.primal, scale)


class WarmStart(NamedTuple):
    """Where another method left off: w and the pairs of the ball that belong to it."""

    w: Host
    pairs: BallPairs

    @classmethod
    def near(cls, model: Model, w: Host) -> WarmStart:
        """At w, drawn back from the surface of the ball so that it can still turn.

        The three factors were chosen by hand.
        """
        R = model.n_weights
        w = np.concatenate([model.ball.shrunk(w[:R], 0.9), w[R:]])
        product = 0.03 * total(model.costs) * min(model.ball.room, 1.0) / R
        return cls(w, BallPairs(model.ball, w[:R], product, evenness=0.3))


class _Step(NamedTuple):
    """A direction of the whole iterate and the longest steps along it, at most 1."""

    dw: Host
    rows: RowStep
    ball: BallStep
    primal: float
    dual: float


class _Iterate:
    """The iterate of one run: w, the pairs of rows and ball, and the best bounds so far."""

    def __init__(
        self,
        model: Model,
        scale: float,
        start: WarmStart | None,
        rule: StepRule,
        tuning: InteriorPointTuning,
    ) -> None:
        self.model, self.scale, self.rule = model, scale, rule
        R = model.n_weights
        self.w = inside(model, tuning.start_radius) if start is None else start.w
        mu = tuning.start_product
        self.rows: RowPairs | NoRowPairs = NoRowPairs(model.size)
        if model.n_rows:
            residual = model.residuals(self.w)
            # The floor keeps a start at which all residuals vanish off the boundary.
            mu *= max(total(abs(residual)) / model.n_rows, 1e-3 if start is None else 1e-12)
            mu *= total(model.costs) / model.n_rows
            self.rows = RowPairs(model, residual, mu)
        if start is None:
            # The multipliers of the ball must balance the slope in the end: products that could.
            steepest = float(np.abs(model.slope(self.w, self.alpha)).max())
            product = max(mu, 0.1 * steepest * model.ball.room / R)
            self.ball = BallPairs(model.ball, self.w[:R], product, tuning.start_evenness)
        else:
            self.ball = start.pairs
        self.count = 2 * model.n_rows + self.ball.x.size
        self.least_centring = rule.centring
        self.best = Optimum(model.feasible(self.w), self.alpha, np.inf, -np.inf, 0, self.w)
        self.weigh()

    @property
    def alpha(self) -> Array:
        return self.rows.z[0, :]

    def weigh(self) -> None:
        """Sum of all products: near the optimum, the gap."""
        self.products = dot(self.rows.x, self.rows.z) + dot(self.ball.x, self.ball.z)
        value = self.model.smooth_value(self.w) + dot(self.model.costs, self.rows.x[1, :])
        self.value = max(abs(value), self.scale)

    def bound(self, n_iter: int) -> None:
        """Evaluate both bounds at this iterate and keep the better ones."""
        w, best = self.model.feasible(self.w), self.best
        primal = self.model.primal(w)
        costs = self.model.costs  # α may overstep them by a rounding error
        alpha = namespace(costs).where(self.alpha < costs, self.alpha, costs)
        dual, alpha = self.model.dual(self.w, alpha)
        if not primal < best.primal:
            w, primal = best.w, best.primal
        witness = self.w
        if not dual > best.dual:
            alpha, dual, witness = best.alpha, best.dual, best.witness
        self.best = Optimum(w, alpha, primal, dual, n_iter, witness)

    def step(self) -> float:
        """One predictor–corrector step; returns its length (the larger of primal and dual)."""
        curvature = self.rows.curvature()
        if self.model.quadratic is not None:
            curvature = curvature + self.model.quadratic
        self.system = NewtonSystem(curvature, self.ball)
        self.slope = self.model.slope(self.w, self.alpha)
        self.slope[: self.model.n_weights] += self.ball.force
        step = self._predict_and_correct()
        if not isfinite(float(step.dw.sum()) + step.primal + step.dual):
            raise Breakdown("the step is not finite")
        # Near the optimum go almost to the boundary; far from it keep a tenth of the way in hand.
        caution = min(self.rule.reach, max(0.9, 1.0 - 10.0 * self.mu / self.value))
        primal, dual = min(1.0, caution * step.primal), min(1.0, caution * step.dual)
        self.rows.move(step.rows, primal, dual)
        self.ball.move(step.ball, primal, dual)
        self.w = self.w + primal * step.dw
        before = self.products
        self.weigh()
        # Where t^{1/p} bends, a long step can miss its target by far: go on more carefully then.
        hoped = before * (1.0 - min(primal, dual)) + self.target * self.count
        self.least_centring = 0.2 if self.products > 10.0 * hoped else self.rule.centring
        return max(primal, dual)

    @property
    def mu(self) -> float:
        return self.products / self.count

    def _solve(self, row_target: Array | None, ball_target: Host) -> _Step:
        ball, rows = self.ball, self.rows
        divided = None if row_target is None else row_target / rows.z
        pull, change = rows.pull(divided) - self.slope, ball_target - ball.x * ball.z
        dw, b = self.system.solve(pull.copy(), change)
        r = rows.direction(dw)
        for _ in range(self.rule.refinements):
            pull -= self._slope_after(dw, r, b)
            dw, b = self.system.solve(pull.copy(), change)
            r = rows.direction(dw)
        primal = min(longest_step(rows.x, r.dx), longest_step(ball.x, b.dx))
        dual = min(longest_step(rows.z, r.dz), longest_step(ball.z, b.dz))
        return _Step(dw, r, b, primal, dual)

    def _slope_after(self, dw: Host, rows: RowStep, ball: BallStep) -> Host:
        """What a full step would leave of the slope: zero, but for the errors of the solve."""
        slope = self.slope - to_host(self.model.columns @ rows.dz[0, :])
        slope[: self.model.n_weights] += self.ball.pressure(ball.dz)
        return slope if self.model.quadratic is None else slope + self.model.quadratic @ dw

    def _predict_and_correct(self) -> _Step:
        """Mehrotra: how far a step to zero gets decides how much centring the real step needs.

        The predictor aims at products 0. If it could be taken in full little centring is needed:
        σ = (products left / products)³, Mehrotra's choice. The corrector aims at σμ less the
        second-order term dx·dz that a linear step misses, with the same factorisation.
        """
        rows, ball = self.rows, self.ball
        step = self._solve(None, 0.0 * ball.x)
        primal, dual = min(1.0, step.primal), min(1.0, step.dual)
        r, b = step.rows, step.ball
        left = dot(rows.x + primal * r.dx, rows.z + dual * r.dz)
        left += dot(ball.x + primal * b.dx, ball.z + dual * b.dz)
        centring = min(1.0, max(self.least_centring, (left / self.products) ** 3))
        self.target = centring * self.mu
        if min(primal, dual) <= 0.1:  # the second-order term is no guide for so short a step
            return self._solve(self.target + 0.0 * rows.x, self.target + 0.0 * ball.x)
        return self._solve(self.target - r.dx * r.dz, self.target - b.dx * b.dz)


def inside(model: Model, radius: float = DEFAULT.start_radius) -> Host:
    """A point well inside the ball, towards the steepest descent from its centre."""
    w, ball = np.zeros(model.size), model.ball
    R = model.n_weights
    w[:R] = ball.at(w[:R])
    w[:R] = ball.shrunk(ball.linear_oracle(model.slope(w, model.costs)[:R]), radius)
    return w


@np.errstate(all="ignore")  # past the last digit quotients overflow: `step` ends the run then
def interior_point(
    model: Model,
    tol: float,
    scale: float,
    max_iter: int | None = None,
    start: WarmStart | None = None,
    tuning: InteriorPointTuning = DEFAULT,
) -> Optimum:
    """Solve the model until ``primal − dual ≤ tol · max(primal, scale)``.

    A warm start is given a few fast steps; if they fail the run begins anew from a cold start. Each
    step rule is tried until one succeeds. Returns the best bounds found, also when the tolerance is
    not reached within `max_iter` steps or float64 allows no further progress.
    """
    limit = max_iter or tuning.max_iter
    if start is not None:
        steps = min(limit, tuning.warm_steps)
        warm = _run(model, tol, scale, steps, start, tuning._replace(rules=(FAST,)))
        if warm.within(tol, scale):
            return warm
    return _run(model, tol, scale, limit, None, tuning)


def _run(
    model: Model,
    tol: float,
    scale: float,
    max_iter: int,
    start: WarmStart | None,
    tuning: InteriorPointTuning,
) -> Optimum:
    found: Optimum | None = None
    for rule in tuning.rules:
        found = better(found, _iterate(model, tol, scale, max_iter, start, rule, tuning))
        if not found.within(tol, scale):
            found = _rounded(model, found)
        if found.within(tol, scale):
            break
    assert found is not None
    return found


def _rounded(model: Model, found: Optimum) -> Optimum:
    """The result with w stretched to the surface of the ball, or at its corner, if that is better.

    An interior point stays inside by its last digits, and they can be all that is missing.
    """
    weights, free = np.split(found.w, [model.n_weights])
    ball, v = model.ball, model.ball.from_centre(weights)
    gauge = ball.gauge(weights)
    if gauge < 0.999:
        return found
    corner = np.where(np.abs(v) == np.abs(v).max(), np.sign(v), 0.0)
    for point in (v / gauge, ball.radius * corner):
        w = np.concatenate([ball.scale_into(ball.at(point)), free])
        found = better(found, replace(found, w=w, primal=model.primal(w)))
    return found


def better(best: Optimum | None, new: Optimum) -> Optimum:
    """The better primal side and the better dual side of two results."""
    if best is None:
        return new
    w, primal = (new.w, new.primal) if new.primal <= best.primal else (best.w, best.primal)
    proof = new if new.dual >= best.dual else best
    steps = max(best.n_iter, new.n_iter)
    return Optimum(w, proof.alpha, primal, proof.dual, steps, proof.witness)


def _iterate(
    model: Model,
    tol: float,
    scale: float,
    max_iter: int,
    start: WarmStart | None,
    rule: StepRule,
    tuning: InteriorPointTuning,
) -> Optimum:
    run = _Iterate(model, scale, start, rule, tuning)
    short = n_iter = 0
    for n_iter in range(max_iter):
        if run.products <= tuning.look_below * tol * run.value:
            run.bound(n_iter)
            if run.best.within(tol, scale):
                return run.best
        try:
            short = short + 1 if run.step() < tuning.stalled else 0
        except Breakdown:
            break
        if short == 3 or run.products < tuning.exhausted * run.value:
            break
    run.bound(n_iter)
    return run.best
