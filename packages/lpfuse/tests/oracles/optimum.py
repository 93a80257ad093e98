"""Optimal weights from general-purpose solvers, and in closed form where there is one.

p = 1 and p = ∞ with the hinge are linear programs (HiGHS); everything else is left to cvxpy and
CLARABEL. The answer is (w, b), with w scaled into the ball: its value is an upper bound of the
optimum that owes nothing to the solver's own tolerances.
"""

from math import inf

import cvxpy as cp
import numpy as np
from scipy.optimize import linprog

from oracles import cvxpy_models, naive
from oracles.cvxpy_models import minimise


def optimum(problem):
    """An optimal (w, b)."""
    linear = problem.ball.p in (1, inf) and problem.loss.name == "hinge"
    w, b = _linear_program(problem) if linear else _cone_program(problem)
    if problem.ball.nonnegative:
        w = np.maximum(w, 0.0)
    v = w - _centre(problem)
    return _centre(problem) + v / max(1.0, naive.norm(v, problem.ball.p) / problem.ball.radius), b


def _linear_program(problem):
    """Variables v⁺, v⁻, b, ξ, with w = w₀ + v⁺ − v⁻ and ξ ≥ 1 − y(Sw + b)."""
    S, y, c = arrays(problem)
    n, R = S.shape
    A = y[:, None] * S
    margins = np.hstack([A, -A, y[:, None], np.eye(n)])
    centre, radius = _centre(problem), problem.ball.radius
    size = inf if problem.ball.p == 1 else radius
    bounds = [(0, size)] * R
    bounds += [(0, min(size, c) if problem.ball.nonnegative else size) for c in centre]
    bounds += [(None, None) if problem.fit_intercept else (0, 0)]
    bounds += [(0, None)] * n
    rows, limits = [-margins], [A @ centre - 1.0]
    if problem.ball.p == 1:
        rows.append(np.r_[np.ones(2 * R), np.zeros(1 + n)][None])
        limits.append(np.full(1, radius))
    found = linprog(
        np.r_[np.zeros(2 * R + 1), c],
        np.vstack(rows),
        np.concatenate(limits),
        bounds=bounds,
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert found.success, found.message
    return centre + found.x[:R] - found.x[R : 2 * R], found.x[2 * R]


def _centre(problem):
    return np.zeros(problem.R) if problem.ball.centre is None else problem.ball.centre


def _cone_program(problem):
    S, y, c = arrays(problem)
    model, w, b = cvxpy_models.primal(
        y[:, None] * S,
        problem.ball.p,
        costs=c,
        labels=y if problem.fit_intercept else None,
        loss=problem.loss.name,
        nonnegative=problem.ball.nonnegative,
        centre=_centre(problem),
        radius=problem.ball.radius,
    )
    cvxpy_models.run_tightly(model)
    return w.value, 0.0 if b is None else float(b.value)


def nearest_error_free_to_uniform(problem):
    """argmin ‖w − u‖² subject to y(Sw + b) ≥ 1 on all rows that cost something, w in the ball.

    u are the uniform weights, or the centre of the ball where it has one.
    """
    S, y, c = arrays(problem)
    S, y = S[c > 0], y[c > 0]
    R, p = S.shape[1], problem.ball.p
    w, b = cp.Variable(R, nonneg=problem.ball.nonnegative), cp.Variable()
    inside = cp.norm(w - _centre(problem), p) <= problem.ball.radius
    constraints = [cp.multiply(y, S @ w + b) >= 1, inside]
    if not problem.fit_intercept:
        constraints.append(b == 0)
    wanted = R ** (-1 / p) if problem.ball.centre is None else problem.ball.centre
    minimise(cp.sum_squares(w - wanted), constraints)
    return w.value


def nearest_least_squares_to_uniform(problem, w):
    """argmin ‖v − u‖² over v in the ball with the same fused scores, up to b, as w."""
    S, _, c = arrays(problem)
    S = S[c > 0]
    if problem.fit_intercept:
        S = S - np.average(S, axis=0, weights=c[c > 0])
    R, p = S.shape[1], problem.ball.p
    v = cp.Variable(R, nonneg=problem.ball.nonnegative)
    _, sizes, directions = np.linalg.svd(S)
    decided = directions[: int((sizes > 1e-9 * sizes.max()).sum())]
    constraints = [decided @ v == decided @ w, cp.norm(v, p) <= 1]
    minimise(cp.sum_squares(v - R ** (-1 / p)), constraints)
    return v.value


def linear_regime(problem):
    """The optimum where no weights in the ball reach a margin of 1: w_j ∝ sign(g_j)|g_j|^{1/(p−1)}.

    There every row counts and f(w) = Σ c − gᵀw with g = Σ c_i y_i s_i.
    """
    S, y, c = arrays(problem)
    g = (c * y) @ S
    p = problem.ball.p
    if p == 1:
        w = np.where(np.abs(g) == np.abs(g).max(), np.sign(g), 0.0)
    elif p == inf:
        w = np.sign(g)
    else:
        w = np.sign(g) * (np.abs(g) / np.abs(g).max()) ** (1 / (p - 1))
    return w / naive.norm(w, p)


def arrays(problem):
    """S, y and c as arrays of floats."""
    S = np.asarray(problem.S, dtype=float)
    ones = np.ones(len(S))
    y, c = (ones if v is None else np.asarray(v) for v in (problem.y, problem.costs))
    return S, y, c
