"""A whole grid of p: the data are read once for all, and each p starts from what is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lpfuse._arrays import Host, one_blas_thread
from lpfuse.optim.interior_point import MAX_ITER
from lpfuse.optim.least_squares import Moments
from lpfuse.optim.problem import Certificate, Problem, Solution
from lpfuse.optim.solve import _certified, solve_moments


@dataclass(frozen=True)
class LpPath:
    """Weights for a grid of p.

    Attributes
    ----------
    ps : array of shape (k,)
    weights : array of shape (k, R)
    intercepts : array of shape (k,)
    certificates : list of k Certificate
    """

    ps: Host
    weights: Host
    intercepts: Host
    certificates: list[Certificate]


def solve_path(
    problem: Problem, ps: Sequence[float], *, tol: float = 1e-8, max_iter: int | None = None
) -> list[Solution]:
    """Solve the problem for every p of a grid."""
    limit = max_iter or MAX_ITER
    with one_blas_thread():
        if problem.loss.name == "least_squares":
            moments = Moments.of(problem)
            return [solve_moments(problem.with_ball(p), moments, tol, limit) for p in ps]
        return [_certified(problem.with_ball(p), tol, limit) for p in ps]
