"""The primal model that three cvxpy rivals share; they differ in the solver behind it.

    minimise  cᵀξ   subject to   ξ ≥ 1 − A w,  ξ ≥ 0,  ‖w‖_p ≤ 1

The ball is written with second-order cones, which is exact for the rational p of the grid;
cvxpy's power cones were tried too and were slower or failed (CLARABEL gives up at p = 32/31).
Explicit slacks give α as the multiplier of the first constraint. The time includes building and
compiling the model, as for any user; the solver's own time is kept beside it.
"""

from __future__ import annotations

import warnings
from typing import Any

import cvxpy as cp
import numpy as np

from research.speed.solver.problems import FusionProblem
from research.speed.solver.rivals._interface import Answer


def absolute_tolerance(problem: FusionProblem, tolerance: float) -> float:
    """The judge's floor under f is 1e-3 Σ c_i: this absolute gap is as good as the relative one."""
    return tolerance * 1e-3 * float(np.sum(problem.cost_vector))


def solve_with(solver: str, problem: FusionProblem, **options: Any) -> Answer:
    rows, costs = problem.signed_scores, problem.cost_vector
    w, slack = cp.Variable(rows.shape[1]), cp.Variable(problem.n, nonneg=True)
    margin = slack >= 1.0 - rows @ w
    model = cp.Problem(cp.Minimize(costs @ slack), [margin, cp.norm(w, problem.p) <= 1.0])
    run_model(model, solver, **options)
    if w.value is None:
        return Answer(np.full(rows.shape[1], np.nan))
    alpha = None if margin.dual_value is None else np.asarray(margin.dual_value) / costs
    return Answer(np.asarray(w.value), alpha, solver_seconds(model))


def run_model(model: cp.Problem, solver: str, **options: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "may be inaccurate": the judge will see
        model.solve(solver=solver, **options)


def solver_seconds(model: cp.Problem) -> float:
    """Some solvers report their set-up apart from the solve."""
    stats = model.solver_stats
    return float(stats.setup_time or 0.0) + float(stats.solve_time or 0.0)
