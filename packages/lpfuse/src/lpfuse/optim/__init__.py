"""Optimisation: arrays and numbers only. Knows no detector and no scikit-learn."""

from lpfuse._compiled import solver_core
from lpfuse.optim.balls import LpBall
from lpfuse.optim.certificate import Certifier
from lpfuse.optim.problem import Problem
from lpfuse.optim.results import Candidate, Certificate, Outcome, Solution
from lpfuse.optim.solve import SOLVERS, LpPath, Request, Solver, solve, solve_path
from lpfuse.optim.tuning import Tuning

__all__ = [
    "SOLVERS",
    "Candidate",
    "Certificate",
    "Certifier",
    "LpBall",
    "LpPath",
    "Outcome",
    "Problem",
    "Request",
    "Solution",
    "Solver",
    "Tuning",
    "solve",
    "solve_path",
    "solver_core",
]
