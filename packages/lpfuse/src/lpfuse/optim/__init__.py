"""Optimisation: arrays and numbers only. Knows no detector and no scikit-learn."""

from lpfuse._compiled import solver_core
from lpfuse.optim.balls import LpBall
from lpfuse.optim.problem import Problem
from lpfuse.optim.results import Certificate, Solution
from lpfuse.optim.solve import SOLVERS, LpPath, solve, solve_path

__all__ = [
    "SOLVERS",
    "Certificate",
    "LpBall",
    "LpPath",
    "Problem",
    "Solution",
    "solve",
    "solve_path",
    "solver_core",
]
