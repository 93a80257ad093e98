"""A whole grid of p: the data are read once for all, and each p starts from what is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lpfuse._arrays import Host, one_blas_thread
from lpfuse._saved import saved_as
from lpfuse.optim._large_n.passes import Reader
from lpfuse.optim._large_n.search import minimise_rows
from lpfuse.optim._solvers.interior_point import MAX_ITER
from lpfuse.optim._solvers.least_squares import Moments
from lpfuse.optim.problem import Certificate, Problem, Solution
from lpfuse.optim.solve import certified, flawless, solve_moments


@saved_as("LpPath")
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
    """Solve the problem for every p of a grid; `passes` of each certificate counts shared passes.

    Least squares reads the scores once. The hinge copies few rows once, and each p starts from its
    neighbour; of many rows it takes one sample, and partitions and verifies for all p together.
    """
    limit = max_iter or MAX_ITER
    problems = [problem.with_ball(p) for p in ps]
    with one_blas_thread:
        if problem.loss.name == "least_squares":
            moments = Moments.of(problem)
            return [solve_moments(each, moments, tol, limit) for each in problems]
        readers = [Reader(each) for each in problems]
        found = [flawless(reader) for reader in readers]
        shared = Reader(problem)
        open_ = [k for k, done in enumerate(found) if done is None]
        balls = [problems[k].ball for k in open_]
        for k, optimum in zip(open_, minimise_rows(shared, balls, tol, limit), strict=True):
            found[k] = optimum
            readers[k].passes += shared.passes
        return [certified(r, f, tol) for r, f in zip(readers, found, strict=True) if f is not None]
