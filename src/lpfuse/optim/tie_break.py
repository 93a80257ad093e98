"""Which weights, when many make no error at all: those nearest to the uniform ones.

Where the optimum is f* = 0, every w in the ball with all margins at least 1 is optimal. The choice
is then

    minimise   ½ ‖w − u‖²    subject to    y_i (s_iᵀw + b) ≥ 1 for all i,   w in the ball

with u the uniform weights: strictly convex, so every solver and platform gives the same answer. A
free intercept goes to the middle of its interval.
"""

from __future__ import annotations

import numpy as np

from lpfuse._arrays import Host, map_row_blocks, namespace, to_host
from lpfuse.optim.interior_point import interior_point
from lpfuse.optim.model import Model
from lpfuse.optim.passes import Reader
from lpfuse.optim.problem import Problem

ROUNDS = 30
CLEAN = 1e-13  # a value below this share of Σ c is no error but rounding


def nearest_to_uniform(reader: Reader, inside: Host) -> Host:
    """The point (w, b) above, found by adding violated rows until none is left.

    Parameters
    ----------
    inside : array of shape (coordinates,)
        Any point without an error: rounding is mended towards it, and it is the answer should the
        search not end.
    """
    problem = reader.problem
    xp = namespace(problem.S)
    all_held = -xp.ones(problem.n, dtype=xp.int8)
    uniform = np.zeros(problem.size)
    uniform[: problem.R] = problem.ball.uniform(problem.R)
    chosen, rows = uniform, np.empty((0, problem.size))
    for _ in range(ROUNDS):
        value, wrong = reader.verify(chosen, all_held)
        if value <= CLEAN * problem.total_cost:
            return _with_middle_intercept(problem, chosen) if problem.fit_intercept else chosen
        violated = to_host(wrong.a)
        worst = np.argsort(violated @ chosen, kind="stable")[: 100 + 5 * problem.size]
        rows = np.vstack([rows, violated[worst]])
        chosen = _mended(rows, _nearest(problem, rows, uniform), inside)
    return inside


def _nearest(problem: Problem, rows: Host, uniform: Host) -> Host:
    """The nearest point with margin 1 on a few rows, by an exact penalty that grows as needed."""
    quadratic = np.eye(problem.size)
    quadratic[problem.R :, problem.R :] = 0.0
    columns = np.ascontiguousarray(rows.T)
    nearest = uniform
    for penalty in (1e2, 1e5, 1e8):
        model = Model(
            columns=columns,
            costs=np.full(len(rows), penalty),
            ball=problem.ball,
            linear=-uniform,
            constant=0.5 * float(uniform @ uniform),
            quadratic=quadratic,
            free=problem.size - problem.R,
        )
        nearest = interior_point(model, 1e-14, 1.0).w
        if float((rows @ nearest).min()) >= 1.0 - 1e-8:
            break
    return nearest


def _mended(rows: Host, point: Host, inside: Host) -> Host:
    """The point moved towards `inside` by the hair that rounding left a row short of its margin."""
    short = 1.0 - rows @ point
    room = np.maximum(rows @ inside - 1.0, 0.0)
    needed = np.where(short > 0.0, short / np.maximum(short + room, 1e-300), 0.0)
    share = float(needed.max())
    return point + share * (inside - point) if share <= 1e-4 else point


def _with_middle_intercept(problem: Problem, v: Host) -> Host:
    """The same weights with the intercept halfway between the two classes."""

    def work(part: slice) -> tuple[float, float]:
        S, y, c = problem.rows(part)
        fused = 1.0 - problem.residuals(S, 1.0, np.append(v[:-1], 0.0))
        xp = namespace(S)
        y = xp.sign(c * y) + 0.0 * fused  # a row without cost has no say
        return (
            float(xp.min(xp.where(y > 0, fused, fused + np.inf))),
            float(xp.max(xp.where(y < 0, fused, fused - np.inf))),
        )

    lows, highs = zip(*map_row_blocks(work, problem.S), strict=True)
    normal, anomaly = min(lows), max(highs)
    if not np.isfinite(normal + anomaly):
        return v
    return np.append(v[:-1], -0.5 * (normal + anomaly))
