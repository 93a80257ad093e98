"""Approach → screen → solve → verify: the certified solver for a model of many rows in memory.

Few rows decide: those near the kink of their hinge at the optimum. All others are folded into a
linear term, which can only lower the objective, so the lower bound of the small model holds for the
whole. One look at all rows then tells whether the fold was right; rows on the wrong side move into
the model and it is solved again.
"""

from __future__ import annotations

import numpy as np

from lpfuse._arrays import (
    Host,
    dot,
    kth_smallest,
    namespace,
    positive_part,
    put,
    total,
)
from lpfuse.optim._solvers.interior_point import (
    BOLD,
    MAX_ITER,
    Optimum,
    WarmStart,
    better,
    interior_point,
)
from lpfuse.optim._solvers.model import Guess, Model
from lpfuse.optim._solvers.newton import BallPairs
from lpfuse.optim._solvers.smoothing import approach, cold_guess
from lpfuse.optim.balls import LpBall

ROUNDS = 8
APPROACHES = 3
WIDER = 4  # times as many rows are kept by each further approach
WARM_STEPS = 25  # a warm start that helps needs fewer


def few(size: int) -> int:
    """Rows that the interior point handles faster alone than with a detour through screening."""
    return 1000 + 20 * size


def pilot_rows(size: int) -> int:
    """Rows that give a first guess."""
    return 200 + 8 * size


def enough(size: int) -> int:
    """Rows in the band at which the smoothed Newton method has done its part."""
    return 3 * size + 10


def _kept(size: int) -> int:
    """Rows kept around the kink for the interior point."""
    return 6 * size + 100


def minimise(
    model: Model, tol: float, scale: float, max_iter: int = MAX_ITER, guess: Guess | None = None
) -> Optimum:
    """Solve a model in memory to ``primal − dual ≤ tol · max(primal, scale)``."""
    if model.n_rows <= few(model.size):
        start = None if guess is None else _set_back(model, guess.w)
        return _warm_or_cold(model, tol, scale, max_iter, start)
    guess = guess or pilot(model)
    best: Optimum | None = None
    if guess.band == 0.0:  # the optimum, but for a few rows that came later
        best = _screened(model, guess.w, None, _kept(model.size), tol, scale, max_iter)
        if best.within(tol, scale):
            return best
        guess = Guess(best.w, kth_smallest(abs(model.residuals(best.w)), model.n_rows // 10))
    for attempt in range(APPROACHES):
        start = approach(model, guess, enough(model.size))
        kept = min(_kept(model.size) * WIDER**attempt, model.n_rows - 1)
        best = better(best, _screened(model, start.w, start, kept, tol, scale, max_iter))
        if best.within(tol, scale):
            return best
        guess = Guess(best.w, 4.0 * guess.band)
    return better(best, interior_point(model, tol, scale, max_iter))


def _screened(
    model: Model,
    w: Host,
    start: WarmStart | None,
    kept: int,
    tol: float,
    scale: float,
    max_iter: int,
) -> Optimum:
    """Keep so many rows near their kink at w, solve for them, and add those that change side.

    Gives up, with the bounds it has, when more rows change side than were kept: w was off.
    """
    r = model.residuals(model.feasible(w))
    xp = namespace(r)
    width = kth_smallest(abs(r), kept)
    side = xp.sign(r) * xp.astype(abs(r) > width, r.dtype)
    best: Optimum | None = None
    steps = 0
    for attempt in range(ROUNDS):
        reduced, open_rows = model.fold(side)
        warm = start if attempt == 0 else None
        found = _warm_or_cold(reduced, 0.3 * tol, scale, max_iter, warm)
        steps += found.n_iter
        r = model.residuals(found.w)
        alpha = put(xp.where(side > 0, model.costs, 0.0 * model.costs), open_rows, found.alpha)
        primal = model.smooth_value(found.w) + dot(model.costs, positive_part(r))
        best = better(best, Optimum(found.w, alpha, primal, found.dual, steps, found.w))
        crossed = r * side < 0
        n_crossed = total(crossed)
        if best.within(tol, scale) or n_crossed == 0 or n_crossed > 2 * reduced.n_rows:
            break
        side = xp.where(crossed, 0.0 * side, side)
    return best  # type: ignore[return-value]


def _open_share(sample: Model) -> float:
    """The share of rows whose side a sample leaves open, by its error: R numbers from m rows."""
    return float(min(0.9, 2.0 * (sample.size / sample.n_rows) ** 0.5))


def _warm_or_cold(
    model: Model, tol: float, scale: float, max_iter: int, start: WarmStart | None
) -> Optimum:
    """The interior point from a warm start if there is one, and from a cold one if that fails."""
    if start is not None:
        limit = min(max_iter, WARM_STEPS)
        found = interior_point(model, tol, scale, limit, start, paces=(BOLD,))
        if found.within(tol, scale):
            return found
    return interior_point(model, tol, scale, max_iter)


def _set_back(model: Model, w: Host) -> WarmStart:
    """A warm start at w, drawn back from the surface of the ball so that it can still turn."""
    w = np.concatenate([0.9 * w[: model.n_weights], w[model.n_weights :]])
    product = 0.03 * total(model.costs) / model.n_weights
    return WarmStart(w, BallPairs(model.ball, w[: model.n_weights], product, evenness=0.3))


def neighbour_guess(model: Model, w: Host, ball: LpBall) -> Guess:
    """A guess from the optimum w over the ball of a neighbouring p.

    Where that optimum lay on the surface, its direction is kept and its length fitted to this ball.
    """
    R = model.n_weights
    norm = max(model.ball.norm(w[:R]), 1e-300)
    on_surface = ball.norm(w[:R]) > 0.999
    factor = min(1.5 if on_surface else 1.0, 1.0 / norm)
    w = np.concatenate([0.98 * factor * w[:R], w[R:]])
    return Guess(w, kth_smallest(abs(model.residuals(w)), int(0.2 * model.n_rows)))


def pilot(model: Model) -> Guess:
    """A guess from a few of the model's rows."""
    sample = model.subsample(pilot_rows(model.size))
    w = model.feasible(approach(sample, cold_guess(sample), enough(model.size)).w)
    open_rows = int(_open_share(sample) * model.n_rows)
    return Guess(w, kth_smallest(abs(model.residuals(w)), open_rows))
