"""One entrance to the solvers: a problem in, weights with their certificate out."""

from __future__ import annotations

import numpy as np

from lpfuse._arrays import Host, one_blas_thread, total
from lpfuse.optim._large_n.passes import Reader
from lpfuse.optim._large_n.search import MANY, minimise_rows
from lpfuse.optim._solvers import frank_wolfe as fw
from lpfuse.optim._solvers.interior_point import MAX_ITER, Optimum
from lpfuse.optim._solvers.least_squares import Moments, minimise_quadratic
from lpfuse.optim._solvers.tie_break import nearest_to_uniform
from lpfuse.optim.problem import Problem, Solution

SOLVERS = ("auto", "interior-point", "frank-wolfe", "smoothed-frank-wolfe")


def solve(
    problem: Problem, *, solver: str = "auto", tol: float = 1e-8, max_iter: int | None = None
) -> Solution:
    """Minimise the problem and prove how well.

    Parameters
    ----------
    problem : Problem
    solver : {"auto", "interior-point", "frank-wolfe", "smoothed-frank-wolfe"}
        "auto" is the certified solver: the interior point, with screening when rows are many and
        on the Gram matrix for least squares.
    tol : float
        Relative gap to reach. For the Frank–Wolfe solvers also the paper's precision: they stop
        when no weight changed by more than this.
    max_iter : int or None
        Limit of steps; None: 200 for the interior point, 1000 for Frank–Wolfe.

    Examples
    --------
    >>> import numpy as np
    >>> solution = solve(Problem(np.array([[0.0, 2.0], [0.5, 0.0]]), p=2.0))
    >>> solution.weights.round(4), round(solution.certificate.primal, 5)
    (array([0.866, 0.5  ]), 0.56699)
    >>> solution.certificate.status
    'optimal'
    """
    with one_blas_thread:
        if solver in ("auto", "interior-point"):
            return _certified(problem, tol, max_iter or MAX_ITER)
        if problem.fit_intercept:
            raise ValueError(
                f"solver={solver!r} cannot fit an intercept: its steps stay inside the ball. "
                'Use solver="interior-point" or fit_intercept=False.'
            )
        smoothing = 1.0 if solver == "smoothed-frank-wolfe" else 0.0
        return _frank_wolfe(problem, tol, max_iter or fw.MAX_ITER, smoothing)


def _certified(problem: Problem, tol: float, max_iter: int) -> Solution:
    if problem.loss.name == "least_squares":
        return solve_moments(problem, Moments.of(problem), tol, max_iter)
    reader = Reader(problem)
    found = flawless(reader) or minimise_rows(reader, [problem.ball], tol, max_iter)[0]
    return certified(reader, found, tol)


def flawless(reader: Reader) -> Optimum | None:
    """Weights without any error, nearest to uniform, where a quick look finds them."""
    problem = reader.problem
    if problem.n > MANY:  # a few rows are asked before a pass is spent
        v = np.append(problem.ball.uniform(problem.R), np.zeros(problem.size - problem.R))
        some = problem.some_rows()
        if total(some.c * problem.terms.residuals(some, v) > 0):
            return None
    found = nearest_to_uniform(reader, thorough=False)
    if found is None:
        return None
    return Optimum(found, problem.no_multipliers(), 0.0, 0.0, 0, found)


def certified(reader: Reader, found: Optimum, tol: float) -> Solution:
    """The solution of a certified solve; ties at f* = 0 are broken here."""
    problem, primal = reader.problem, found.primal
    weights, intercept = _split(problem, found.w)
    if found.n_iter > 0 and primal <= tol * problem.scale:
        nearest = nearest_to_uniform(reader, thorough=True)
        if nearest is not None:
            weights, intercept = _split(problem, nearest)
            primal = problem.value(weights, intercept)
    proof = problem.certify(primal, found.dual, reader.passes, tol, "max_iter", alpha=found.alpha)
    return Solution(weights, intercept, proof, max(found.n_iter, 1))


def _split(problem: Problem, v: Host) -> tuple[Host, float]:
    """Weights and intercept of a point of the solver."""
    return v[: problem.R], float(v[problem.R]) if problem.fit_intercept else 0.0


def solve_moments(problem: Problem, moments: Moments, tol: float, max_iter: int) -> Solution:
    """Least squares from its moments; the scores are read again only where digits cancelled."""
    found = minimise_quadratic(moments, problem.ball, tol, problem.scale, max_iter)
    intercept, primal, passes = moments.intercept(found.w), found.primal, 1.0
    passes += problem.passes_so_far
    if moments.rounding(found.w) > 0.01 * tol * max(primal, problem.scale):
        primal, passes = problem.value(found.w, intercept), passes + 1.0
    witness = {"dual_weights": found.dual_weights}
    proof = problem.certify(primal, found.dual, passes, tol, "max_iter", **witness)
    return Solution(found.w, intercept, proof, found.n_iter)


def _frank_wolfe(problem: Problem, tol: float, max_iter: int, smoothing: float) -> Solution:
    """Frank–Wolfe's weights under a bound from the certified solver: its own would prove little."""
    reached = fw.frank_wolfe(problem, precision=tol, max_iter=max_iter, smoothing=smoothing)
    reference = _certified(problem, min(tol, 1e-8), MAX_ITER)
    weights, primal = reached.weights, problem.value(reached.weights)
    if primal <= tol * problem.scale:  # nothing to choose by but the tie-break
        weights, primal = reference.weights, reference.certificate.primal
    status = "stopped" if reached.stopped else "max_iter"
    bound = reference.certificate
    witness = {"alpha": bound.alpha, "dual_weights": bound.dual_weights}
    passes = reached.n_iter + 1.0
    proof = problem.certify(primal, bound.dual, passes, tol, status, **witness)
    return Solution(weights, 0.0, proof, reached.n_iter)
