"""PIQP, a proximal interior point for quadratic programs, on the dual: p = 1, 2 and ∞.

p = 1 and p = ∞ are linear programs; at p = 2 the ball is a cone and no quadratic program, so the
penalised form is solved and `_penalised` searches for C. Of PIQP's interfaces the sparse one with a
plain LDLᵀ factorisation serves: its condensed and dense systems have a column a sample.
"""

from __future__ import annotations

import math

import numpy as np
import piqp
import scipy.sparse as sparse

from research.common.judge import FusionProblem, Vector
from research.rivals.solvers._cvxpy_model import absolute_tolerance
from research.rivals.solvers._dual_program import program_of
from research.rivals.solvers._interface import Answer, tightening
from research.rivals.solvers._penalised import solve_penalised

name = "PIQP (p = 1, 2, ∞)"
tolerances = tightening


def supports(problem: FusionProblem) -> bool:
    return problem.p in (1.0, 2.0, math.inf)


def solve(problem: FusionProblem, tolerance: float, time_limit: float) -> Answer:
    if problem.p == 2.0:
        return _over_penalties(problem, tolerance, time_limit)
    program, solver = program_of(problem), _solver(problem, tolerance)
    none = sparse.csc_array((program.size, program.size))
    rows = 0 if program.below is None else program.below.shape[0]
    above = None if rows == 0 else np.zeros(rows)
    solver.setup(
        none, program.cost, program.equations, np.zeros(problem.scores.shape[1]),
        program.below, None, above, program.low, program.high,
    )  # fmt: skip
    solver.solve()
    found, told = solver.result, solver.result.info
    alpha = found.x[: problem.n] / problem.cost_vector
    seconds = told.setup_time + told.solve_time
    return Answer(np.array(found.y), alpha, seconds, {"iterations": float(told.iter)})


def _over_penalties(problem: FusionProblem, tolerance: float, time_limit: float) -> Answer:
    """Only the factor of ‖v‖² changes with C: what was set up at first is kept."""
    program, solver = program_of(problem, bound=False), _solver(problem, tolerance)
    is_v = np.arange(program.size) >= problem.n
    square = sparse.diags_array(is_v.astype(float), format="csc")
    square.eliminate_zeros()
    solver.setup(
        square, program.cost, program.equations, np.zeros(problem.scores.shape[1]),
        x_l=program.low, x_u=program.high,
    )  # fmt: skip

    def fit(C: float) -> tuple[Vector, Vector]:
        solver.update(P=C * square)
        solver.solve()
        return np.array(solver.result.y), solver.result.x[: problem.n] / problem.cost_vector

    return solve_penalised(problem, fit, tolerance, time_limit, warm=False)


def _solver(problem: FusionProblem, tolerance: float) -> piqp.SparseSolver:
    solver = piqp.SparseSolver()
    settings = solver.settings
    settings.compute_timings = True
    settings.eps_abs = settings.eps_rel = settings.eps_duality_gap_rel = tolerance
    settings.eps_duality_gap_abs = absolute_tolerance(problem, tolerance)
    return solver
