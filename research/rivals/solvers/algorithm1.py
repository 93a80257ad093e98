"""The paper's Algorithm 1: Frank-Wolfe with a subgradient, stopped by its own rule.

Written out here from the paper, so that it pays for nothing but its own steps. Its "tolerance"
is the paper's precision: stop when max |w_{t+1} − w_t| falls below it. The shrinking step
2/(2+t) meets that rule by itself, so a tighter precision buys iterations rather than
optimality; the ladder therefore is the paper's own three.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from research.common.judge import FusionProblem, Vector, lp_norm
from research.rivals.solvers._interface import Answer

name = "Algorithm 1"


def tolerances(gap: float) -> Sequence[float]:
    return (1e-2, 1e-3, 1e-4)


def supports(problem: FusionProblem) -> bool:
    return True


def solve(problem: FusionProblem, tolerance: float, time_limit: float) -> Answer:
    deadline = time.perf_counter() + time_limit
    rows, costs = problem.signed_scores, problem.cost_vector
    w = np.full(rows.shape[1], rows.shape[1] ** (-1.0 / problem.p))
    steps, change = 0, np.inf
    while change > tolerance and time.perf_counter() < deadline:
        steps += 1
        gradient = -((rows @ w < 1.0) * costs) @ rows
        move = 2.0 / (2.0 + steps) * (_vertex(gradient, problem.p) - w)
        w = w + move
        change = float(np.max(np.abs(move)))
    return Answer(w, facts={"iterations": float(steps)})


def _vertex(gradient: Vector, p: float) -> Vector:
    """The point of the ball lowest along the gradient, scaled first lest its power overflow."""
    size = np.abs(gradient)
    if not size.any():
        return np.zeros_like(gradient)
    if p == 1.0:
        z = np.where(np.arange(len(size)) == np.argmax(size), -np.sign(gradient), 0.0)
    else:
        z = -np.sign(gradient) * (size / size.max()) ** (1.0 / (p - 1.0))
    return z / lp_norm(z, p)
