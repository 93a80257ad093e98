"""QOCO, an interior point for second-order cone programs, on the dual.

p = 1, 2 and ∞ are handed over as matrices; at other p cvxpy writes ‖·‖_q as a tower of cones, and
its time counts, as for the other rivals that are called through it. QOCO knows no time limit.
"""

from __future__ import annotations

import math
from typing import Any

import cvxpy
import numpy as np
import qoco
import scipy.sparse as sparse

from research.common.cvxpy_models import dual, run, solver_seconds
from research.common.judge import FusionProblem, conjugate
from research.rivals.solvers._dual_program import program_of
from research.rivals.solvers._interface import Answer, tightening

name = "QOCO"
tolerances = tightening


DIRECT = (1.0, 2.0, math.inf)


def supports(problem: FusionProblem) -> bool:
    return problem.p in DIRECT or "QOCO" in cvxpy.installed_solvers()


def solve(problem: FusionProblem, tolerance: float, time_limit: float) -> Answer:
    if problem.p in DIRECT:
        return _by_matrices(problem, tolerance)
    return _by_towers(problem, tolerance)


def _by_matrices(problem: FusionProblem, tolerance: float) -> Answer:
    """minimise cᵀx subject to E x = 0 and h − G x in the orthant, then in the cone."""
    program = program_of(problem)
    n, R = problem.scores.shape
    unit = sparse.eye_array(program.size, format="csr")
    bounded = np.isfinite(program.low)
    parts = [unit[:n], -unit[bounded], program.below]
    rows = [part for part in parts if part is not None]
    limits = np.r_[problem.cost_vector, np.zeros(sum(part.shape[0] for part in rows) - n)]
    cone = 0
    if problem.p == 2.0:  # (t, v)
        rows += [-unit[[-1]], -unit[n : n + R]]
        limits, cone = np.r_[limits, np.zeros(R + 1)], R + 1
    solver = qoco.QOCO()
    solver.setup(
        program.size, len(limits), R, None, program.cost, _csc(program.equations), np.zeros(R),
        _csc(sparse.vstack(rows)), limits, len(limits) - cone, int(cone > 0), [cone] * (cone > 0),
        abstol=tolerance, reltol=tolerance, verbose=0,
    )  # fmt: skip
    found = solver.solve()
    seconds = found.setup_time_sec + found.solve_time_sec
    alpha = np.array(found.x)[:n] / problem.cost_vector
    return Answer(np.array(found.y), alpha, seconds, {"iterations": float(found.iters)})


def _by_towers(problem: FusionProblem, tolerance: float) -> Answer:
    rows, costs = problem.signed_scores, problem.cost_vector
    model, beta, gathered = dual(rows, conjugate(problem.p), costs)
    try:
        run(model, "QOCO", abstol=tolerance, reltol=tolerance)
    except cvxpy.SolverError:  # it gave up: nothing to judge
        return Answer(np.full(rows.shape[1], np.nan))
    if gathered.dual_value is None or beta.value is None:
        return Answer(np.full(rows.shape[1], np.nan))
    return Answer(-np.asarray(gathered.dual_value), beta.value / costs, solver_seconds(model))


def _csc(matrix: Any) -> Any:
    """As QOCO takes it: indices of 32 bits."""
    found = sparse.csc_matrix(matrix)
    found.indices, found.indptr = found.indices.astype(np.int32), found.indptr.astype(np.int32)
    return found
