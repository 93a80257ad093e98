"""Screening: the solver for a model of many rows in memory.

Only rows near the kink of their hinge determine the optimum. All others are replaced by a linear
piece of their hinge, which can only lower the objective, so the lower bound of the reduced model
holds for the whole. Residuals of all rows then show whether the pieces were right; rows on the
wrong side get their hinge back and the model is solved again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from lpfuse._arrays import operations as ops
from lpfuse._arrays.operations import Array, Host
from lpfuse.optim.balls import LpBall
from lpfuse.optim.interior_point import Optimum, WarmStart, better, inside, interior_point, systems
from lpfuse.optim.newton import Breakdown, Guess, Model, Spread, linearise_rows
from lpfuse.optim.tuning import DEFAULT, SmoothingTuning, Tuning

# --------------------------------------------------------------------------------------------------
# Newton's method on the smoothed hinge, for a point near the optimum.
#
# The hinge max(0, r) is replaced by a parabola for |r| < δ, so its slope is
#
#     α_i = c_i · clip(½ + r_i / 2δ, 0, 1)
#
# and only rows in that band have curvature. With δ shrinking, a Newton step costs two products with
# the rows and one small A_J A_Jᵀ over the band, where the interior point needs every row. The
# result is a warm start without bounds.


DEFAULT_SMOOTHING = SmoothingTuning()


def cold_guess(model: Model) -> Guess:
    """Return a cold start in the direction of steepest descent, with a wide band."""
    w = inside(model)
    return Guess(w, ops.kth_smallest(abs(model.residuals(w)), model.n_rows // 2) + 1e-12)


@np.errstate(all="ignore")
def approach(
    model: Model, guess: Guess, enough: int, tuning: SmoothingTuning = DEFAULT_SMOOTHING
) -> WarmStart:
    """Move towards the optimum until about `enough` rows are left in the band around the kink."""
    R, (w, band) = model.n_weights, guess
    system = systems.SmoothedSystem(model, w, model.residuals(w), band)
    looseness = min(0.1, 3.0 * band)  # a narrow band indicates a good point in the ball
    product = looseness * (system.steepest() + 1e-300) * model.ball.room / R
    system.surround(model.ball, Spread(product, evenness=looseness))
    cost = ops.total(model.costs) / max(model.n_rows, 1)
    wanted = tuning.curvature_rows + tuning.curvature_rows_per_weight * model.size
    for _ in range(tuning.max_steps):
        try:
            primal, dual, gain, bend = system.newton(product, wanted)
        except Breakdown:
            break
        primal = _backtracked(
            system, min(1.0, tuning.boundary * primal), gain, bend, tuning.halvings
        )
        system.move(primal, min(1.0, tuning.boundary * dual))
        blur = band * cost * max(system.n_inside, R)  # value lost to the smoothing
        slack = 3.0 * R * product  # and to the barrier of the ball
        if primal > 0.5 and system.stationarity() < tuning.settled * (blur + slack):
            inside = system.n_inside
            if inside <= enough and slack <= blur:
                break
            shrink = max(tuning.shrink, 0.7 * enough / max(inside, 1.0))
            if inside > enough:
                band *= shrink
            product *= min(shrink, 0.5) ** 2
            far = tuning.reach * band
            fewer = None
            if slack <= blur and primal * system.largest_slide() < far:
                fewer = _without_far_rows(model, system.residuals, far)
            if fewer is None:
                system.look(band)
            else:
                model, r = fewer
                state = system.state
                system = systems.SmoothedSystem(model, system.w, r, band)
                system.surround(model.ball, state)
    return WarmStart(system.w, system.state)


def _backtracked(system: Any, step: float, gain: float, bend: float, halvings: int) -> float:
    """Return the step length, halved while the slope exceeds the Newton model's prediction.

    Rows that enter the band along the step add curvature.
    """
    allowed = 0.5 * (abs(gain) + bend)  # `gain` may be negative towards the centre of the ball
    for _ in range(halvings):
        if system.ahead(step) <= allowed:
            return step
        step *= 0.5
    system.ahead(step)
    return step


def _without_far_rows(model: Model, r: Host, far: float) -> tuple[Model, Host] | None:
    """Return the model without far rows, if these are at least half of them."""
    beyond = np.abs(r) > far
    if 2 * np.count_nonzero(beyond) < r.size:
        return None
    model, kept = linearise_rows(model, np.where(beyond, np.sign(r), 0.0))
    return model, ops.take(r, kept)


# --------------------------------------------------------------------------------------------------
# Screening.


def minimise(
    model: Model,
    tol: float,
    scale: float,
    max_iter: int | None = None,
    guess: Guess | None = None,
    tuning: Tuning = DEFAULT,
    *,
    inner: Callable[..., Optimum] = interior_point,
    towards: Callable[..., WarmStart] = approach,
) -> Optimum:
    """Solve a model in memory to ``primal − dual ≤ tol · max(primal, scale)``.

    `inner` solves the reduced models, `towards` computes the warm start.
    """
    rules, size = tuning.screening, model.size
    if model.n_rows <= rules.alone + rules.alone_per_weight * size:
        start = None if guess is None else WarmStart.near(model, guess.w)
        return inner(model, tol, scale, max_iter, start, tuning.interior_point)
    guess = guess or pilot(model, tuning)
    best: Optimum | None = None
    screen = Screen(model, tol, scale, max_iter, tuning, inner)
    kept = rules.kept + rules.kept_per_weight * size
    if guess.band == 0.0:  # the optimum without a few rows that were added
        best = screen.solve(guess.w, None, kept)
        if best.within(tol, scale):
            return best
        guess = Guess(best.w, ops.kth_smallest(abs(model.residuals(best.w)), model.n_rows // 10))
    for _ in range(rules.approaches):
        start = towards(model, guess, resolved(size, tuning), tuning.smoothing)
        best = better(best, screen.solve(start.w, start, min(kept, model.n_rows - 1)))
        if best.within(tol, scale):
            return best
        guess, kept = Guess(best.w, 4.0 * guess.band), kept * rules.wider
    return better(best, inner(model, tol, scale, max_iter, None, tuning.interior_point))


class Screen:
    """Solution of a model through growing reduced models."""

    def __init__(
        self,
        model: Model,
        tol: float,
        scale: float,
        max_iter: int | None,
        tuning: Tuning,
        inner: Callable[..., Optimum],
    ) -> None:
        self.model, self.tol, self.scale, self.max_iter = model, tol, scale, max_iter
        self.tuning, self.inner = tuning, inner

    def solve(self, w: Host, start: WarmStart | None, kept: int) -> Optimum:
        """Keep `kept` rows near their kink at w, solve, and add the rows that change side.

        Stops, with the bounds so far, when too many rows change side: w was inaccurate.
        """
        r = self.model.residuals(self.model.feasible(w))
        return self.solve_within(r, ops.kth_smallest(abs(r), kept), start)

    def solve_within(self, r: Array, band: float, start: WarmStart | None) -> Optimum:
        """Do the same for the rows with residuals r within a band."""
        model, tol, scale = self.model, self.tol, self.scale
        xp = ops.namespace(r)
        side = xp.sign(r) * xp.astype(abs(r) > band, r.dtype)
        best: Optimum | None = None
        steps = 0
        for attempt in range(self.tuning.screening.rounds):
            reduced, open_rows = linearise_rows(model, side)
            inner_tol, warm = self.tuning.screening.margin * tol, start if attempt == 0 else None
            rules = self.tuning.interior_point
            found = self.inner(reduced, inner_tol, scale, self.max_iter, warm, rules)
            steps += found.n_iter
            r = model.residuals(found.w)
            alpha = ops.put(
                xp.where(side > 0, model.costs, 0.0 * model.costs), open_rows, found.alpha
            )
            primal = model.smooth_value(found.w) + ops.dot(model.costs, ops.positive_part(r))
            best = better(best, Optimum(found.w, alpha, primal, found.dual, steps, found.w))
            crossed = r * side < 0
            n_crossed = ops.total(crossed)
            if best.within(tol, scale) or n_crossed == 0 or n_crossed > 2 * reduced.n_rows:
                break
            side = xp.where(crossed, 0.0 * side, side)
        assert best is not None
        return best


def open_share(size: int, n_rows: int) -> float:
    """Return the share of rows whose side is undecided by a sample of `n_rows` rows."""
    return float(min(0.9, 2.0 * (size / n_rows) ** 0.5))


def resolved(size: int, tuning: Tuning) -> int:
    """Return the number of rows in the band at which the smoothed Newton method stops."""
    return tuning.screening.resolved + tuning.screening.resolved_per_weight * size


def pilot_rows(size: int, tuning: Tuning) -> int:
    """Return the number of rows of a pilot sample."""
    return tuning.screening.pilot + tuning.screening.pilot_per_weight * size


def neighbour_guess(model: Model, w: Host, ball: LpBall) -> Guess:
    """Return a guess from the optimum w over the ball of a neighbouring p.

    Where that optimum is on the surface, its direction is kept and its length adapted to this ball.
    The factors are chosen by hand; starting from the neighbour saved a fifth to two fifths of the
    work of a path in memory.
    """
    R = model.n_weights
    gauge = max(model.ball.gauge(w[:R]), 1e-300)
    on_surface = ball.gauge(w[:R]) > 0.999
    factor = min(1.5 if on_surface else 1.0, 1.0 / gauge)
    w = np.concatenate([model.ball.shrunk(w[:R], 0.98 * factor), w[R:]])
    return Guess(w, ops.kth_smallest(abs(model.residuals(w)), int(0.2 * model.n_rows)))


def pilot(model: Model, tuning: Tuning = DEFAULT) -> Guess:
    """Return a guess from a few of the model's rows."""
    sample = subsample(model, pilot_rows(model.size, tuning))
    start = approach(sample, cold_guess(sample), resolved(model.size, tuning), tuning.smoothing)
    w = model.feasible(start.w)
    open_rows = int(open_share(sample.size, sample.n_rows) * model.n_rows)
    return Guess(w, ops.kth_smallest(abs(model.residuals(w)), open_rows))


def subsample(model: Model, m: int) -> Model:
    """Return about m evenly spaced rows, with costs scaled to represent all."""
    stride = model.n_rows / m
    ticks = np.arange(m) + np.random.default_rng(0).random(m)
    index = np.minimum((ticks * stride).astype(np.int64), model.n_rows - 1)
    columns, costs = ops.take(model.columns, index, axis=1), ops.take(model.costs, index) * stride
    return replace(model, columns=columns, costs=costs)
