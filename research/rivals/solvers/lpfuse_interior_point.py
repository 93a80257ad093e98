"""Ours: the certified interior point of ``lpfuse.optim``, with screening where n is large."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lpfuse.optim import Problem
from lpfuse.optim import solve as lpfuse_solve
from research.common.judge import FusionProblem
from research.rivals.solvers._interface import Answer

name = "lpfuse"


def tolerances(gap: float) -> Sequence[float]:
    # The tolerance is a promise on the certified gap: a looser start has nothing to offer.
    return (gap, gap / 10)


def supports(problem: FusionProblem) -> bool:
    return True


def solve(problem: FusionProblem, tolerance: float, time_limit: float) -> Answer:
    labels = None if problem.is_pure else problem.labels
    ours = Problem(problem.scores, y=labels, p=problem.p, costs=problem.costs)
    solution = lpfuse_solve(ours, solver="interior-point", tol=tolerance)
    facts = {"passes": float(solution.certificate.passes), "iterations": float(solution.n_iter)}
    alpha = np.asarray(solution.certificate.alpha)
    return Answer(np.asarray(solution.weights), alpha, facts=facts)
