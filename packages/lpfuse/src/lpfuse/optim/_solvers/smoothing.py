"""Newton's method on the smoothed hinge: a quick way to the neighbourhood of the optimum.

The hinge max(0, r) is replaced by a parabola for |r| < δ, so its slope is

    α_i = c_i · clip(½ + r_i / 2δ, 0, 1)

and only rows in that band have curvature. With δ shrinking, a Newton step costs two products with
the rows and one small A_J A_Jᵀ over the band, where the interior point needs every row and squeezes
each one that changes side through its kink. What comes out is a good start, not a proof.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lpfuse._arrays.operations import Host, kth_smallest, take, total
from lpfuse.optim._solvers.ball_pairs import Spread
from lpfuse.optim._solvers.forms import systems
from lpfuse.optim._solvers.interior_point import WarmStart, inside
from lpfuse.optim._solvers.model import Breakdown, Guess, Model, linearise_rows
from lpfuse.optim._tuning import SmoothingTuning

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
    R, (w, band) = model.n_weights, guess
    system = systems.SmoothedSystem(model, w, model.residuals(w), band)
    looseness = min(0.1, 3.0 * band)  # a narrow band comes with a good place in the ball
    product = looseness * (system.steepest() + 1e-300) * model.ball.room / R
    system.surround(model.ball, Spread(product, evenness=looseness))
    cost = total(model.costs) / max(model.n_rows, 1)
    wanted = tuning.curvature_rows + tuning.curvature_rows_per_weight * model.size
    for _ in range(tuning.max_steps):
        try:
            primal, dual, gain, bend = system.newton(product, wanted)
        except Breakdown:
            break
        primal = _damped(system, min(1.0, tuning.boundary * primal), gain, bend, tuning.halvings)
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


def _damped(system: Any, step: float, gain: float, bend: float, halvings: int) -> float:
    """The step, halved while the slope along it overshoots what the curvature promised.

    Rows that enter the band on the way bend the objective more than the Newton model knows.
    """
    allowed = 0.5 * (abs(gain) + bend)  # a step back to the middle of the ball gains nothing
    for _ in range(halvings):
        if system.ahead(step) <= allowed:
            return step
        step *= 0.5
    system.ahead(step)
    return step


def _without_far_rows(model: Model, r: Host, far: float) -> tuple[Model, Host] | None:
    """The model less its far rows, when that spares at least half of them."""
    beyond = np.abs(r) > far
    if 2 * np.count_nonzero(beyond) < r.size:
        return None
    model, kept = linearise_rows(model, np.where(beyond, np.sign(r), 0.0))
    return model, take(r, kept)
