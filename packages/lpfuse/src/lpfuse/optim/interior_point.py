"""Primal–dual interior point for a model of moderately many rows, and for least squares.

The pairs slack × multiplier of the rows and of the ball are complementary: at the optimum every
product is 0, and near it the sum of the products is the gap. A step moves all products towards a
common decreasing target μ (Mehrotra's predictor–corrector). It costs one product A D Aᵀ and one
Cholesky factor of R×R.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from lpfuse._arrays.operations import Array, Host, total
from lpfuse._compiled import compiled
from lpfuse.optim import newton
from lpfuse.optim.balls import LpBall
from lpfuse.optim.moments import Moments
from lpfuse.optim.newton import Breakdown, Model, PairsState, Spread
from lpfuse.optim.tuning import FAST, InteriorPointTuning, StepRule

# The compiled implementation where it was built, else NumPy.
systems: Any = compiled("lpfuse.optim._newton") or newton
surface: Any = compiled("lpfuse.optim._surface") or newton

DEFAULT = InteriorPointTuning()


@dataclass(frozen=True)
class Optimum:
    """A feasible w, multipliers, and their bounds: dual ≤ optimum ≤ primal.

    With a quadratic term the dual bound also depends on a point, `witness`, which may be
    infeasible.
    """

    w: Host
    alpha: Array
    primal: float
    dual: float
    n_iter: int
    witness: Host

    def within(self, tol: float, scale: float) -> bool:
        """Return whether the gap is at most ``tol · max(primal, scale)``."""
        return self.primal - self.dual <= tol * max(self.primal, scale)


class WarmStart(NamedTuple):
    """Initial w, with the pairs of the ball from another method or spread evenly."""

    w: Host
    place: Spread | PairsState

    @classmethod
    def near(cls, model: Model, w: Host) -> WarmStart:
        """Return a start at w, moved away from the surface; the factors are chosen by hand."""
        R = model.n_weights
        w = np.concatenate([model.ball.shrunk(w[:R], 0.9), w[R:]])
        product = 0.03 * total(model.costs) * min(model.ball.room, 1.0) / R
        return cls(w, Spread(product, evenness=0.3))


class _Iterate:
    """The iterate of one run: a system of pairs, and the best bounds so far."""

    def __init__(
        self,
        model: Model,
        scale: float,
        start: WarmStart | None,
        rule: StepRule,
        tuning: InteriorPointTuning,
    ) -> None:
        self.model, self.scale, self.rule = model, scale, rule
        R, m = model.n_weights, model.n_rows
        w = inside(model, tuning.start_radius) if start is None else start.w
        residual, mu = model.residuals(w), tuning.start_product
        if m:
            # The floor keeps a start at which all residuals vanish off the boundary.
            mu *= max(total(abs(residual)) / m, 1e-3 if start is None else 1e-12)
            mu *= total(model.costs) / m
        self.system = system = systems.InteriorSystem(model, w, residual, mu)
        if start is None:
            # The multipliers of the ball balance the slope at the optimum: products of that size.
            product = max(mu, 0.1 * system.steepest() * model.ball.room / R)
            system.surround(model.ball, Spread(product, tuning.start_evenness))
        else:
            system.surround(model.ball, start.place)
        self.least_centring = rule.centring
        self.best: Optimum | None = None
        self.weigh()

    def weigh(self) -> None:
        """Evaluate the objective at this iterate."""
        value = self.model.smooth_value(self.system.w) + self.system.hinges
        self.value = max(abs(value), self.scale)

    @property
    def products(self) -> float:
        return float(self.system.products)

    def bound(self, n_iter: int) -> Optimum:
        """Evaluate both bounds at this iterate and keep the better ones."""
        w, alpha = self.system.w, self.system.alpha
        # Rounding may have moved α above the costs.
        dual, alpha = self.model.dual(w, np.minimum(alpha, self.model.costs))
        feasible = self.model.feasible(w)
        found = Optimum(feasible, alpha, self.model.primal(feasible), dual, n_iter, w)
        self.best = better(self.best, found)
        return self.best

    def step(self) -> float:
        """Take a predictor–corrector step (Mehrotra); return the larger of its two lengths.

        The predictor aims at products 0. If a full step is possible little centring is needed:
        σ = (products left / products)³, Mehrotra's choice. The corrector aims at σμ minus the
        second-order term dx·dz, with the same factorisation.
        """
        system, rule, before = self.system, self.rule, self.products
        system.factor()
        primal, dual = system.aim(0.0, False, rule.refinements)
        primal, dual = min(1.0, primal), min(1.0, dual)
        left = system.left(primal, dual)
        mu = before / system.count
        target = mu * min(1.0, max(self.least_centring, (left / before) ** 3))
        # The second-order term is inaccurate for a very short step.
        primal, dual = system.aim(target, min(primal, dual) > 0.1, rule.refinements)
        if not isfinite(primal + dual):
            raise Breakdown("the step is not finite")
        # Near the optimum step almost to the boundary, elsewhere nine tenths of the way.
        caution = min(rule.reach, max(0.9, 1.0 - 10.0 * mu / self.value))
        primal, dual = min(1.0, caution * primal), min(1.0, caution * dual)
        system.move(primal, dual)
        self.weigh()
        # Where t^{1/p} curves, a long step can miss its target: centre more then.
        hoped = before * (1.0 - min(primal, dual)) + target * system.count
        self.least_centring = 0.2 if self.products > 10.0 * hoped else rule.centring
        return max(primal, dual)


def inside(model: Model, radius: float = DEFAULT.start_radius) -> Host:
    """Return a point well inside the ball in the direction of steepest descent from its centre."""
    w, ball = np.zeros(model.size), model.ball
    R = model.n_weights
    w[:R] = ball.at(w[:R])
    w[:R] = ball.shrunk(ball.linear_oracle(model.slope(w, model.costs)[:R]), radius)
    return w


@np.errstate(all="ignore")  # quotients may overflow at convergence: `step` ends the run then
def interior_point(
    model: Model,
    tol: float,
    scale: float,
    max_iter: int | None = None,
    start: WarmStart | None = None,
    tuning: InteriorPointTuning = DEFAULT,
) -> Optimum:
    """Solve the model until ``primal − dual ≤ tol · max(primal, scale)``.

    A warm start gets a few fast steps; if they fail the run restarts from a cold start. Step rules
    are tried in turn until one succeeds. Returns the best bounds found, also when the tolerance is
    not reached within `max_iter` steps or within float64.
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
    """Return the result with w on the surface of the ball, or at its corner, if that is better.

    An interior point is strictly inside, which can cost the last digits.
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
    """Return the better primal side and the better dual side of two results."""
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
            found = run.bound(n_iter)
            if found.within(tol, scale):
                return found
        try:
            short = short + 1 if run.step() < tuning.stalled else 0
        except Breakdown:
            break
        if short == 3 or run.products < tuning.exhausted * run.value:
            break
    return run.bound(n_iter)


# --------------------------------------------------------------------------------------------------
# Least squares from its moments: a quadratic over the ball, without rows.


# Penalty on changes outside the null space of the Gram matrix; chosen by hand.
STIFFNESS = 1e6


class QuadraticOptimum(NamedTuple):
    """Feasible weights, and the weights whose residuals are the multipliers."""

    w: Host
    dual_weights: Host
    n_iter: int


def quadratic_model(moments: Moments, ball: LpBall) -> Model:
    """Return the model of ``f(w)`` over a ball, without rows."""
    return Model(
        columns=np.empty((moments.cross.size, 0)),
        costs=np.empty(0),
        ball=ball,
        linear=-2.0 * moments.cross,
        constant=moments.constant,
        quadratic=2.0 * moments.gram,
    )


def minimise_quadratic(
    moments: Moments,
    ball: LpBall,
    tol: float,
    scale: float,
    max_iter: int | None = None,
    tuning: InteriorPointTuning = DEFAULT,
) -> QuadraticOptimum:
    """Return the optimal weights for the moments.

    With a singular Gram matrix (fewer rows than learners, linearly dependent columns), the optimal
    weights nearest to the preferred ones are returned.
    """
    model = quadratic_model(moments, ball)
    found = interior_point(model, tuning.quadratic_margin * tol, scale, max_iter, tuning=tuning)
    w, value = found.w, found.primal
    if moments.null_space.shape[1]:
        settled = _nearest_preferred(moments, ball, w, tuning)
        if model.primal(settled) <= max(value, found.dual + tol * max(value, scale)):
            w = settled
    return QuadraticOptimum(w, found.witness, found.n_iter)


def _nearest_preferred(
    moments: Moments, ball: LpBall, w: Host, tuning: InteriorPointTuning
) -> Host:
    """Return w moved in the null space of the Gram matrix nearest to the preferred weights."""
    null, R = moments.null_space, w.size
    undecided = null @ null.T  # projects on the null space
    decided = np.eye(R) - undecided
    nearest = Model(
        columns=np.empty((R, 0)),
        costs=np.empty(0),
        ball=ball,
        linear=-(undecided @ ball.preferred(R)) - STIFFNESS * (decided @ w),
        quadratic=undecided + STIFFNESS * decided,
    )
    moved = interior_point(nearest, 1e-12, 1.0, tuning=tuning._replace(rules=(FAST,))).w
    return ball.scale_into(decided @ w + undecided @ moved)
