"""SCS, the first-order cone solver, on the shared model."""

from __future__ import annotations

import scs  # noqa: F401 (a missing package shows at once)

from research.common.judge import FusionProblem
from research.rivals.solvers._cvxpy_model import solve_with
from research.rivals.solvers._interface import Answer, tightening

name = "cvxpy+SCS"
tolerances = tightening

NO_LIMIT = 10**8  # the time limit ends the run, not a number of iterations


def supports(problem: FusionProblem) -> bool:
    return True


def solve(problem: FusionProblem, tolerance: float, time_limit: float) -> Answer:
    return solve_with(
        "SCS",
        problem,
        eps_rel=tolerance,
        eps_abs=tolerance,
        max_iters=NO_LIMIT,
        time_limit_secs=time_limit,
    )
