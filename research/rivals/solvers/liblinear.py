"""LIBLINEAR for p = 2: the linear SVM without bias, penalised instead of constrained.

LIBLINEAR minimises ½‖w‖² + C Σ c_i hinge_i(w). Its norm grows with C, and the C at which ‖w‖ =
1 solves the constrained problem; a C so large that ‖w‖ stays below 1 means that the ball is not
active. The whole search for C is timed, because a user who wants the ball has to search; the
last solve alone, what a user who knew C would wait for, is kept as ``solver_seconds``.
"""

from __future__ import annotations

import contextlib
import math
import time
import warnings
from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import brentq
from sklearn.svm import LinearSVC

from research.common.judge import FusionProblem, Vector
from research.rivals.solvers._interface import Answer

name = "LIBLINEAR (p = 2)"

LARGEST_FACTOR = 1e6


def tolerances(gap: float) -> Sequence[float]:
    # Its tolerance is on the dual's projected gradient, a scale of its own.
    return (1e-3, 1e-5, 1e-7, 1e-9)


def supports(problem: FusionProblem) -> bool:
    return problem.p == 2.0


def solve(problem: FusionProblem, tolerance: float, time_limit: float) -> Answer:
    deadline = time.perf_counter() + time_limit
    path = _PenalisedPath(problem, tolerance, deadline)
    with contextlib.suppress(TimeoutError):  # the weights so far are judged then
        path.norm_minus_one(_crossing(path.norm_minus_one, _first_guess(problem), tolerance))
    return Answer(path.weights, None, path.last_seconds, {"iterations": float(path.solves)})


class _PenalisedPath:
    """‖w(C)‖ − 1 as a function of log C, remembering the last weights."""

    def __init__(self, problem: FusionProblem, tolerance: float, deadline: float) -> None:
        self.rows, self.labels = _two_classes(problem)
        self.costs = problem.cost_vector
        self.tolerance, self.deadline = tolerance, deadline
        self.weights: Vector = np.zeros(problem.scores.shape[1])
        self.last_seconds, self.solves = 0.0, 0

    def norm_minus_one(self, log_c: float) -> float:
        start = time.perf_counter()
        if start > self.deadline:
            raise TimeoutError
        model = LinearSVC(
            loss="hinge",
            C=math.exp(log_c),
            fit_intercept=False,
            tol=self.tolerance,
            max_iter=1_000_000,
            random_state=0,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(self.rows, self.labels, sample_weight=self.costs)
        self.weights, self.solves = model.coef_[0], self.solves + 1
        self.last_seconds = time.perf_counter() - start
        return float(np.linalg.norm(self.weights)) - 1.0


def _two_classes(problem: FusionProblem) -> tuple[Vector, Vector]:
    """LIBLINEAR wants two classes: where all are normal, one row is turned over with its label."""
    if not problem.is_pure:
        return problem.scores, problem.labels
    rows, labels = problem.scores.copy(), problem.labels.copy()
    rows[0], labels[0] = -rows[0], -labels[0]
    return rows, labels


def _first_guess(problem: FusionProblem) -> float:
    """log C that is exact while no row has reached its margin: there w = C Σ c_i a_i."""
    return -math.log(float(np.linalg.norm(problem.cost_vector @ problem.signed_scores)))


def _crossing(norm_minus_one: Callable[[float], float], log_c: float, tolerance: float) -> float:
    """The log C at which the norm is one: step from the guess until it is passed, then Brent."""
    step = 1.0 if norm_minus_one(log_c) < 0.0 else -1.0
    here = log_c
    while abs(here - log_c) < math.log(LARGEST_FACTOR):
        before, here, step = here, here + step, 1.5 * step
        if norm_minus_one(here) * step > 0.0:
            return float(brentq(norm_minus_one, before, here, xtol=tolerance, rtol=1e-14))
    return here
