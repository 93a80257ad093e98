"""What three cvxpy rivals share: the primal with slacks; they differ in the solver behind it.

The time includes building and compiling the model, as for any user; the solver's own time is kept
beside it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from research.common.cvxpy_models import primal_with_slacks, run, solver_seconds
from research.common.judge import FusionProblem
from research.rivals.solvers._interface import Answer


def absolute_tolerance(problem: FusionProblem, tolerance: float) -> float:
    """The judge's floor under f is 1e-3 Σ c_i: this absolute gap is as good as the relative one."""
    return tolerance * 1e-3 * float(np.sum(problem.cost_vector))


def solve_with(solver: str, problem: FusionProblem, **options: Any) -> Answer:
    """Build the model, solve it, and read α from the multipliers."""
    rows, costs = problem.signed_scores, problem.cost_vector
    model, w, margin = primal_with_slacks(rows, problem.p, costs)
    run(model, solver, **options)
    if w.value is None:
        return Answer(np.full(rows.shape[1], np.nan))
    alpha = None if margin.dual_value is None else np.asarray(margin.dual_value) / costs
    return Answer(np.asarray(w.value), alpha, solver_seconds(model))
