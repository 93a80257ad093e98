"""Optimisation: arrays and numbers only. Knows no detector and no scikit-learn."""

from lpfuse._compiled import solver_core
from lpfuse.optim._results import Candidate, Certificate, Outcome, Solution
from lpfuse.optim._tuning import Tuning
from lpfuse.optim.balls import LpBall
from lpfuse.optim.certificate import Certifier
from lpfuse.optim.path import LpPath, solve_path
from lpfuse.optim.problem import Problem
from lpfuse.optim.solve import SOLVERS, Request, Solver, solve

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
