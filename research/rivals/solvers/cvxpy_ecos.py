"""ECOS, the embedded interior-point solver, on the shared model. It knows no time limit."""

from __future__ import annotations

import ecos  # noqa: F401 (a missing package shows at once)

from research.common.judge import FusionProblem
from research.rivals.solvers._cvxpy_model import absolute_tolerance, solve_with
from research.rivals.solvers._interface import Answer, tightening

name = "cvxpy+ECOS"
tolerances = tightening


def supports(problem: FusionProblem) -> bool:
    return True


def solve(problem: FusionProblem, tolerance: float, time_limit: float) -> Answer:
    return solve_with(
        "ECOS",
        problem,
        reltol=tolerance,
        abstol=absolute_tolerance(problem, tolerance),
        feastol=tolerance,
        max_iters=200,
    )
