"""CLARABEL, the interior-point solver that cvxpy chooses by default, on the shared model."""

from __future__ import annotations

import clarabel  # noqa: F401 (a missing package shows at once)

from research.common.judge import FusionProblem
from research.rivals.solvers._cvxpy_model import absolute_tolerance, solve_with
from research.rivals.solvers._interface import Answer, tightening

name = "cvxpy+CLARABEL"
tolerances = tightening


def supports(problem: FusionProblem) -> bool:
    return True


def solve(problem: FusionProblem, tolerance: float, time_limit: float) -> Answer:
    return solve_with(
        "CLARABEL",
        problem,
        tol_gap_rel=tolerance,
        tol_gap_abs=absolute_tolerance(problem, tolerance),
        tol_feas=tolerance,
        time_limit=time_limit,
    )
