"""Least squares from its moments: a quadratic over the ball, without rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse.optim._moments import Moments
from lpfuse.optim._solvers.interior_point import DEFAULT, interior_point
from lpfuse.optim._solvers.model import Model
from lpfuse.optim._tuning import FAST, InteriorPointTuning
from lpfuse.optim.balls import LpBall

# Holds what the scores have decided while the rest is chosen; chosen by hand.
STIFFNESS = 1e6


class QuadraticOptimum(NamedTuple):
    """Feasible weights, and the weights whose residuals are the multipliers."""

    w: Host
    dual_weights: Host
    n_iter: int


def quadratic_model(moments: Moments, ball: LpBall) -> Model:
    """``f(w)`` over a ball: a model without rows."""
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
    """The best weights for the moments.

    Where the scores leave directions open (fewer rows than learners, columns that depend on each
    other), the weights nearest to the preferred ones are taken among the best ones.
    """
    model = quadratic_model(moments, ball)
    found = interior_point(model, tuning.quadratic_margin * tol, scale, max_iter, tuning=tuning)
    w, value = found.w, found.primal
    if moments.null_space.shape[1]:
        settled = _settled(moments, ball, w, tuning)
        if model.primal(settled) <= max(value, found.dual + tol * max(value, scale)):
            w = settled
    return QuadraticOptimum(w, found.witness, found.n_iter)


def _settled(moments: Moments, ball: LpBall, w: Host, tuning: InteriorPointTuning) -> Host:
    """w moved in the null space of the Gram matrix to the point nearest the preferred weights."""
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
