"""CLARABEL on the dual problem, as someone who knows convex duality would hand it over.

Same solver, same answer (w is minus the multiplier of the equation), and up to 1.7 times faster
than the primal that most users would write. It stands here so that the comparison with cvxpy
does not rest on the way the model was written.
"""

from __future__ import annotations

import clarabel  # noqa: F401 (a missing package shows at once)
import numpy as np

from research.common.cvxpy_models import dual, run, solver_seconds
from research.common.judge import FusionProblem, conjugate
from research.rivals.solvers._cvxpy_model import absolute_tolerance
from research.rivals.solvers._interface import Answer, tightening

name = "cvxpy+CLARABEL (dual)"
tolerances = tightening


def supports(problem: FusionProblem) -> bool:
    return True


def solve(problem: FusionProblem, tolerance: float, time_limit: float) -> Answer:
    rows, costs = problem.signed_scores, problem.cost_vector
    model, beta, gathered = dual(rows, conjugate(problem.p), costs)
    run(
        model,
        "CLARABEL",
        tol_gap_rel=tolerance,
        tol_gap_abs=absolute_tolerance(problem, tolerance),
        tol_feas=tolerance,
        time_limit=time_limit,
    )
    if gathered.dual_value is None or beta.value is None:
        return Answer(np.full(rows.shape[1], np.nan))
    return Answer(-np.asarray(gathered.dual_value), beta.value / costs, solver_seconds(model))
