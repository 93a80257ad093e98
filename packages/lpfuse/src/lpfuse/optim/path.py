"""A whole grid of p: the data are read once for all, and each p starts from what is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lpfuse._arrays.operations import Host
from lpfuse._saved import saved_as
from lpfuse.optim._results import Certificate, Solution
from lpfuse.optim._tuning import DEFAULT, Tuning
from lpfuse.optim.problem import Problem
from lpfuse.optim.solve import compatible, solve_balls


@saved_as("LpPath")
@dataclass(frozen=True)
class LpPath:
    """Weights for a grid of p.

    Attributes
    ----------
    ps : array of shape (k,)
        The grid.
    weights : array of shape (k, R)
        One row a p.
    intercepts : array of shape (k,)
        One b a p.
    certificates : list of k Certificate
        One proof a p.
    """

    ps: Host
    weights: Host
    intercepts: Host
    certificates: list[Certificate]


def solve_path(
    problem: Problem,
    ps: Sequence[float],
    *,
    tol: float = 1e-8,
    max_iter: int | None = None,
    tuning: Tuning = DEFAULT,
) -> list[Solution]:
    """Solve the problem for every p of a grid; `passes` of each certificate counts shared passes.

    Least squares reads the scores once. The hinge copies few rows once and goes from the smallest p
    upwards, each from its neighbour's optimum; of many rows it takes one sample, whose guesses
    follow each other, and partitions and verifies for all p together.

    Examples
    --------
    >>> import numpy as np
    >>> problem = Problem(np.array([[0.0, 2.0], [0.5, 0.0]]))
    >>> [solution.weights.round(2).tolist() for solution in solve_path(problem, [1, 2])]
    [[0.5, 0.5], [0.87, 0.5]]
    """
    solver = compatible(problem, "interior-point")
    balls = [problem.with_ball(p).ball for p in ps]
    return solve_balls(solver, problem, balls, tol, max_iter, tuning)
