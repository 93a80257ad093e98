"""Optimisation: arrays and numbers only. Knows no detector and no scikit-learn."""

from lpfuse.optim.balls import LpBall
from lpfuse.optim.path import LpPath, solve_path
from lpfuse.optim.problem import Certificate, Problem, Solution
from lpfuse.optim.solve import SOLVERS, solve

__all__ = [
    "SOLVERS",
    "Certificate",
    "LpBall",
    "LpPath",
    "Problem",
    "Solution",
    "solve",
    "solve_path",
]
