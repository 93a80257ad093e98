"""Newton's method on the smoothed hinge: a quick way to the neighbourhood of the optimum.

The hinge max(0, r) is replaced by a parabola for |r| < δ, so its slope is

    α_i = c_i · clip(½ + r_i / 2δ, 0, 1)

and only rows in that band have curvature. With δ shrinking, a Newton step costs two products with
the rows and one small A_J A_Jᵀ over the band, where the interior point needs every row and squeezes
each one that changes side through its kink. What comes out is a good start, not a proof.
"""

from __future__ import annotations

import numpy as np

from lpfuse._arrays.operations import (
    Array,
    Host,
    kth_smallest,
    largest,
    namespace,
    nonzero,
    sum_columns,
    take,
    to_host,
    total,
)
from lpfuse.optim._solvers.interior_point import WarmStart, inside
from lpfuse.optim._solvers.newton import (
    Breakdown,
    Guess,
    Model,
    NewtonSystem,
    linearise_rows,
    longest_step,
)
from lpfuse.optim._tuning import SmoothingTuning
from lpfuse.optim.balls import BallPairs

DEFAULT = SmoothingTuning()


def cold_guess(model: Model) -> Guess:
    """Where to begin when nothing is known: towards the steepest descent, with a wide band."""
    w = inside(model)
    return Guess(w, kth_smallest(abs(model.residuals(w)), model.n_rows // 2) + 1e-12)


@np.errstate(all="ignore")
def approach(
    model: Model, guess: Guess, enough: int, tuning: SmoothingTuning = DEFAULT
) -> WarmStart:
    """Move towards the optimum until about `enough` rows are left in the band around the kink."""
    R = model.n_weights
    w, band = guess
    view = _SmoothedRows(model, model.residuals(w), band)
    slope = model.slope_of(w, view.pull)
    steepest = float(np.abs(slope).max()) + 1e-300
    looseness = min(0.1, 3.0 * band)  # a narrow band comes with a good place in the ball
    product = looseness * steepest * model.ball.room / R
    pairs = BallPairs(model.ball, w[:R], product, evenness=looseness)
    cost = total(model.costs) / max(model.n_rows, 1)
    for _ in range(tuning.max_steps):
        slope[:R] += pairs.force
        curvature = view.curvature(tuning)
        try:
            system = NewtonSystem(curvature.copy(), pairs)
        except Breakdown:
            break
        dw, step = system.solve(-slope, product - pairs.x * pairs.z)
        if not np.isfinite(dw).all():
            break
        slide = model.margins(dw)
        longest = min(1.0, tuning.boundary * longest_step(pairs.x, step.dx))
        gain = -float(slope @ dw)
        primal, view = _damped(view, dw, slide, longest, curvature, gain, tuning.halvings)
        pairs.move(step, primal, min(1.0, tuning.boundary * longest_step(pairs.z, step.dz)))
        w = w + primal * dw
        slope = model.slope_of(w, view.pull)
        blur = band * cost * max(view.n_inside, R)  # value lost to the smoothing
        slack = 3.0 * R * product  # and to the barrier of the ball
        if primal > 0.5 and _stationarity(slope, pairs) < tuning.settled * (blur + slack):
            if view.n_inside <= enough and slack <= blur:
                break
            shrink = max(tuning.shrink, 0.7 * enough / max(view.n_inside, 1))
            if view.n_inside > enough:
                band *= shrink
            product *= min(shrink, 0.5) ** 2
            r = view.r
            far = tuning.reach * band
            if slack <= blur and primal * largest(abs(slide)) < far:
                model, r = _without_far_rows(model, r, far)
            view = _SmoothedRows(model, r, band)
            slope = model.slope_of(w, view.pull)
    return WarmStart(w, pairs)


class _SmoothedRows:
    """The smoothed hinges at the residuals r: the pull of their slopes, and who has curvature."""

    def __init__(self, model: Model, r: Array, band: float) -> None:
        self.model, self.r, self.band = model, r, band
        alpha = namespace(r).clip(0.5 + r / (2.0 * band), 0.0, 1.0) * model.costs
        self.pull = sum_columns(model.columns, alpha)
        self.n_inside = int(total(abs(r) < band))

    def curvature(self, tuning: SmoothingTuning) -> Host:
        """``A D Aᵀ`` over the rows in the band, and the curvature that the model has without."""
        model, rows = self.model, nonzero(abs(self.r) < self.band)
        wanted = tuning.curvature_rows + tuning.curvature_rows_per_weight * model.size
        stride = max(1, rows.shape[0] // wanted)  # a sample tells the curvature
        rows = rows[::stride]
        columns = take(model.columns, rows, axis=1)
        weight = take(model.costs, rows) * (0.5 * stride / self.band)
        matrix = to_host((columns * weight) @ columns.T)
        if model.free:  # an intercept with no row in the band has nothing else to hold it
            matrix[-1, -1] += 1e-6 * total(model.costs) / self.band
        return matrix if model.quadratic is None else matrix + model.quadratic


def _damped(
    view: _SmoothedRows,
    dw: Host,
    slide: Array,
    step: float,
    curvature: Host,
    gain: float,
    halvings: int,
) -> tuple[float, _SmoothedRows]:
    """The step, halved while the slope along it overshoots what the curvature promised.

    Rows that enter the band on the way bend the objective more than the Newton model knows.
    """
    bend = float(dw @ curvature @ dw)
    allowed = 0.5 * (abs(gain) + bend)  # a step back to the middle of the ball gains nothing
    for attempt in range(halvings + 1):
        ahead = _SmoothedRows(view.model, view.r - step * slide, view.band)
        overshoot = float((view.pull - ahead.pull) @ dw) - step * bend
        if attempt == halvings or overshoot <= allowed:
            break
        step *= 0.5
    return step, ahead


def _without_far_rows(model: Model, r: Array, far: float) -> tuple[Model, Array]:
    """The model less its far rows, when that spares at least half of them."""
    xp = namespace(r)
    beyond = abs(r) > far
    if 2 * total(beyond) < model.n_rows:
        return model, r
    model, kept = linearise_rows(model, xp.sign(r) * xp.astype(beyond, r.dtype))
    return model, take(r, kept)


def _stationarity(slope: Host, pairs: BallPairs) -> float:
    R = pairs.v.size
    free = float(np.abs(slope[R:]).max(initial=0.0))
    return max(free, pairs.radius * float(np.abs(slope[:R] + pairs.force).max()))
