"""Entry points of the solvers: `solve` for one problem, `solve_path` for a grid of p.

A `Solver` declares the problems that it handles and proposes candidates;
`certificate.Certifier` evaluates them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from lpfuse._arrays.operations import Host, one_blas_thread
from lpfuse._files import saved_as
from lpfuse.optim.balls import LpBall
from lpfuse.optim.certificate import Certifier
from lpfuse.optim.frank_wolfe import MAX_ITER, frank_wolfe
from lpfuse.optim.interior_point import Optimum, WarmStart, interior_point, minimise_quadratic
from lpfuse.optim.large import search_many_rows
from lpfuse.optim.newton import Model
from lpfuse.optim.paths import PathState, follow
from lpfuse.optim.problem import Problem
from lpfuse.optim.results import Candidate, Certificate, Outcome, Solution
from lpfuse.optim.screening import minimise, neighbour_guess
from lpfuse.optim.tie_break import ModelRows, nearest_to_uniform
from lpfuse.optim.tuning import DEFAULT, Tuning


class Request(NamedTuple):
    """Arguments of a solver, which proposes to the certifier for each of its balls."""

    certifier: Certifier
    max_iter: int | None
    tuning: Tuning


@dataclass(frozen=True)
class Solver:
    """A solver and the problems that it handles.

    Attributes
    ----------
    name : str
        Value of the parameter `solver`.
    losses : tuple of str
        Names of the losses that it minimises.
    run : callable
        From a `Request` to one `Outcome` for each ball.
    handles : frozenset of str
        Of "intercept" (b is free), "nonnegative" (w ≥ 0), "dask" (scores in blocks elsewhere) and
        "path" (several balls at once).
    proves : bool
        Whether it proposes dual points. Where it does not, the bound is that of the certified
        solver, whose passes over the scores are not counted.
    """

    name: str
    losses: tuple[str, ...]
    run: Callable[[Request], Sequence[Outcome]]
    handles: frozenset[str]
    proves: bool = True


# Requirements of a problem, with the words and the alternative of the error message.
REQUIREMENTS: dict[str, tuple[Callable[[Problem], bool], str, str]] = {
    "intercept": (lambda q: q.fit_intercept, "fit an intercept", "fit_intercept=False"),
    "nonnegative": (lambda q: q.ball.nonnegative, "keep weights ≥ 0", "nonnegative=False"),
    "dask": (lambda q: not q.in_memory, "read scores in blocks of Dask", "scores in memory"),
}


def solve(
    problem: Problem,
    *,
    solver: str | Solver = "auto",
    tol: float = 1e-8,
    max_iter: int | None = None,
    tuning: Tuning = DEFAULT,
) -> Solution:
    """Minimise the problem and certify the result.

    Parameters
    ----------
    problem : Problem
        What to minimise.
    solver : {"auto", "interior-point", "frank-wolfe", "smoothed-frank-wolfe"} or Solver
        "auto" is the certified solver: the interior point, with screening when rows are many and
        on the Gram matrix for least squares.
    tol : float
        Relative gap to reach. For the Frank–Wolfe solvers also the paper's precision: they stop
        when no weight changed by more than this.
    max_iter : int or None
        Limit of steps; None: 200 for the interior point, 1000 for Frank–Wolfe.
    tuning : Tuning
        The numbers that were chosen by measurement or by hand.

    Examples
    --------
    >>> import numpy as np
    >>> solution = solve(Problem(np.array([[0.0, 2.0], [0.5, 0.0]]), p=2.0))
    >>> solution.weights.round(4), round(solution.certificate.primal, 5)
    (array([0.866, 0.5  ]), 0.56699)
    >>> solution.certificate.status
    'optimal'
    """
    chosen = compatible(problem, solver)
    return solve_balls(chosen, problem, [problem.ball], tol, max_iter, tuning)[0]


def compatible(problem: Problem, solver: str | Solver) -> Solver:
    """Return the solver of that name; raise where it does not handle the problem."""
    name = "interior-point" if solver == "auto" else solver
    chosen = SOLVERS[name] if isinstance(name, str) else name
    loss = problem.loss.name
    if loss not in chosen.losses:
        handled = "; ".join(
            f"{each.name!r} handles {', '.join(map(repr, each.losses))}"
            for each in (SOLVERS | {chosen.name: chosen}).values()
        )
        able = [each.name for each in SOLVERS.values() if loss in each.losses]
        what = f"not compatible with solver={chosen.name!r}" if able else "handled by no solver"
        raise ValueError(f"loss={loss!r} is {what}; {handled}.")
    for need, (asked, what, remedy) in REQUIREMENTS.items():
        if asked(problem) and need not in chosen.handles:
            raise ValueError(
                f'solver={chosen.name!r} cannot {what}. Use solver="interior-point" or {remedy}.'
            )
    return chosen


def solve_balls(
    solver: Solver,
    problem: Problem,
    balls: Sequence[LpBall],
    tol: float,
    max_iter: int | None,
    tuning: Tuning,
) -> list[Solution]:
    """Solve over each ball: the solver proposes, the certifier evaluates."""
    # BLAS does not use threads for such small products: no limit is needed.
    few = problem.in_memory and problem.n * problem.size <= tuning.search.one_thread
    with nullcontext() if few else one_blas_thread:
        problem = problem.with_reset_passes()
        certifier = Certifier(problem, balls, tol, solver.name)
        outcomes = solver.run(Request(certifier, max_iter, tuning))
        proposed = {k: o.candidate for k, o in enumerate(outcomes) if o.candidate is not None}
        if solver.proves:
            certifier.settle(proposed)
        else:
            _settle_with_certified_bounds(certifier, proposed, tuning)
        # Passes for a single ball are not counted for the others.
        shared = problem.passes - sum(outcome.own_passes for outcome in outcomes)
        return [
            certifier.solution(
                k,
                outcome.n_iter,
                shared + outcome.own_passes,
                "stopped" if outcome.stopped else "max_iter",
            )
            for k, outcome in enumerate(outcomes)
        ]


def _settle_with_certified_bounds(
    certifier: Certifier, proposed: dict[int, Candidate], tuning: Tuning
) -> None:
    """Evaluate points with the dual bound of the certified solver."""
    problem, tol = certifier.problem, certifier.tol
    for k, candidate in proposed.items():
        best = solve(problem.with_ball(certifier.balls[k].p), tol=min(tol, 1e-8), tuning=tuning)
        proof = best.certificate
        known = candidate._replace(alpha=proof.alpha, dual_weights=proof.dual_weights)
        bounds = certifier.examine({k: known})
        if bounds[k].primal <= tol * problem.scale:  # optimal: use the tie-break
            certifier.prefer(k, np.append(best.weights, [best.intercept] * problem.fit_intercept))


# ---------------------------------------------------------------------------- the certified solver


def _run_interior_point(request: Request) -> Sequence[Outcome]:
    certifier, max_iter, tuning = request
    if certifier.problem.loss.name == "least_squares":
        return [_least_squares(certifier, ball, max_iter, tuning) for ball in certifier.balls]
    if certifier.problem.n <= tuning.search.in_memory:
        return _few_rows(certifier, max_iter, tuning)
    return search_many_rows(certifier, max_iter, tuning)


def _least_squares(
    certifier: Certifier, ball: LpBall, max_iter: int | None, tuning: Tuning
) -> Outcome:
    problem, moments = certifier.problem, certifier.moments
    tol = tuning.screening.margin * certifier.tol
    found = minimise_quadratic(moments, ball, tol, problem.scale, max_iter, tuning.interior_point)
    point = np.append(found.w, [moments.intercept(found.w)] * problem.fit_intercept)
    return Outcome(found.n_iter, Candidate(point, dual_weights=found.dual_weights))


def _few_rows(certifier: Certifier, max_iter: int | None, tuning: Tuning) -> list[Outcome]:
    """Copy all rows once, and solve in ascending p, each from its neighbour."""
    problem, balls = certifier.problem, certifier.balls
    block, index = problem.everything()
    model = Model.of_rows(problem, block, balls[0])
    outcomes: dict[int, Outcome] = {}
    before: PathState | None = None
    for k in sorted(range(len(balls)), key=lambda k: balls[k].p):
        model = model if balls[k] is model.ball else replace(model, ball=balls[k])
        found, point = _best(model, certifier.tol, problem.scale, max_iter, before, tuning)
        if before is None or found.alpha is not before.found.alpha:
            # Rounding may have moved them out of [0, 1].
            shares = np.minimum(np.maximum(found.alpha / model.costs, 0.0), 1.0)
            alpha = problem.multipliers(None, index, shares)
            before = PathState.of(model, found) if len(balls) > 1 else None
        candidate = Candidate(found.w if point is None else point, alpha)
        outcomes[k] = Outcome(max(found.n_iter, 1), candidate)
    return [outcomes[k] for k in range(len(balls))]


def _best(
    model: Model,
    tol: float,
    scale: float,
    max_iter: int | None,
    before: PathState | None,
    tuning: Tuning,
) -> tuple[Optimum, Host | None]:
    """Return the optimum and, among several without violations, the preferred one."""
    # Few rows of few weights are solved as fast as the check.
    few = model.n_weights < tuning.tie_break.look_from and _solves_directly(model, tuning)
    if before is None and not few:
        point = _separating_point(model, tuning)
        if point is not None and not model.residuals(point).max() > 0.0:
            return _without_violations(model, point, 1), point
    found = _minimise(model, tol, scale, max_iter, before, tuning)
    if found.primal > tol * scale:
        return found, None
    rows = ModelRows(model)  # f* = 0 is reached by many points
    point = nearest_to_uniform(rows, model.ball, thorough=True, tuning=tuning)
    if point is not None and not model.residuals(point).max() > 0.0:
        found = _without_violations(model, point, found.n_iter)
    return found, point


def _without_violations(model: Model, w: Host, n_iter: int) -> Optimum:
    """Return an optimum of value 0, proven by α = 0: it is one over every larger ball, too."""
    return Optimum(w, 0.0 * model.costs, 0.0, 0.0, n_iter, w)


def _separating_point(model: Model, tuning: Tuning) -> Host | None:
    """Return weights without violations, nearest to uniform, where a quick check finds them."""
    uniform = np.zeros(model.size)
    uniform[: model.n_weights] = model.ball.preferred(model.n_weights)
    r, rules = model.residuals(uniform), tuning.tie_break
    many = np.count_nonzero(r > 0.0) > rules.violated_per_weight * model.n_weights
    if many and model.costs @ np.maximum(r, 0.0) > rules.clean * model.costs.sum():
        return None
    return nearest_to_uniform(ModelRows(model), model.ball, thorough=False, tuning=tuning)


def _minimise(
    model: Model,
    tol: float,
    scale: float,
    max_iter: int | None,
    before: PathState | None,
    tuning: Tuning,
) -> Optimum:
    guess = None
    if before is not None:
        found = before.reuse_if_optimal(model, tol, scale)
        if found is None and max_iter is None:
            found = follow(model, before, tol, scale, tuning)
        if found is not None:
            return found
        guess = neighbour_guess(model, before.found.w, before.ball)
    if not _solves_directly(model, tuning):
        return minimise(model, tol, scale, max_iter, guess, tuning)
    start = None if guess is None else WarmStart.near(model, guess.w)
    return interior_point(model, tol, scale, max_iter, start, tuning.interior_point)


def _solves_directly(model: Model, tuning: Tuning) -> bool:
    """Return whether the model is small enough for the interior point without screening."""
    rules = tuning.screening
    return model.n_rows <= rules.alone + rules.alone_per_weight * model.size


# ------------------------------------------------------------------------------------ Frank–Wolfe


def _run_frank_wolfe(request: Request, smoothing: float) -> list[Outcome]:
    certifier, max_iter, _ = request
    problem = certifier.problem
    reached = frank_wolfe(
        problem, precision=certifier.tol, max_iter=max_iter or MAX_ITER, smoothing=smoothing
    )
    # Rounding may have moved w out of a small ball far from zero.
    w, ball = reached.weights, problem.ball
    w = w if ball.centre is None else ball.scale_into(w)
    return [Outcome(reached.n_iter, Candidate(w), stopped=reached.stopped)]


_BOTH = ("hinge", "least_squares")
SOLVERS: dict[str, Solver] = {
    solver.name: solver
    for solver in (
        Solver(
            "interior-point",
            _BOTH,
            _run_interior_point,
            frozenset({"intercept", "nonnegative", "dask", "path"}),
        ),
        Solver(
            "frank-wolfe",
            _BOTH,
            partial(_run_frank_wolfe, smoothing=0.0),
            frozenset({"nonnegative", "dask"}),
            proves=False,
        ),
        Solver(
            "smoothed-frank-wolfe",
            _BOTH,
            partial(_run_frank_wolfe, smoothing=1.0),
            frozenset({"nonnegative", "dask"}),
            proves=False,
        ),
    )
}


# --------------------------------------------------------------------------------------------------
# A grid of p.


@saved_as("LpPath")
@dataclass(frozen=True)
class LpPath:
    """Weights for a grid of p.

    Attributes
    ----------
    ps : array of shape (k,)
        The grid.
    weights : array of shape (k, R)
        One row per p.
    intercepts : array of shape (k,)
        One b per p.
    certificates : list of k Certificate
        One certificate per p.
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

    Least squares reads the scores once. The hinge copies few rows once and solves in ascending p,
    each from its neighbour's optimum; for many rows it draws one sample, whose optima follow each
    other, and partitions and verifies for all p together.

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
