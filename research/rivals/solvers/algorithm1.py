"""The paper's Algorithm 1: Frank–Wolfe with a subgradient, stopped by its own rule.

It is the library's own, which pays for nothing but its steps on tables that fit one block. Its
"tolerance" is the paper's precision: stop when max |w_{t+1} − w_t| falls below it. The shrinking
step 2/(2+t) meets that rule by itself, so a tighter precision buys iterations rather than
optimality; the tolerances tried are therefore the paper's own three.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from lpfuse.optim import Problem
from lpfuse.optim.frank_wolfe import frank_wolfe
from research.common.judge import FusionProblem
from research.rivals.solvers._interface import Answer

name = "Algorithm 1"

PATIENCE = 10**9  # steps; its own rule, or the time limit, ends a run before


def tolerances(gap: float) -> Sequence[float]:
    return (1e-2, 1e-3, 1e-4)


def supports(problem: FusionProblem) -> bool:
    return True


def solve(problem: FusionProblem, tolerance: float, time_limit: float) -> Answer:
    deadline = time.perf_counter() + time_limit
    labels = None if problem.is_pure else problem.labels
    ours = Problem(problem.scores, labels, p=problem.p, costs=problem.costs)
    found = frank_wolfe(
        ours,
        precision=tolerance,
        max_iter=PATIENCE,
        watch=lambda step, w: time.perf_counter() > deadline,
    )
    return Answer(np.asarray(found.weights), facts={"iterations": float(found.n_iter)})
