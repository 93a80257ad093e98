"""From a penalty to the ball at p = 2: what rivals share that minimise ½‖w‖² + C Σ c_i hinge_i(w).

‖w‖ grows with C, and the C at which ‖w‖ = 1 solves the constrained problem; a C so large that ‖w‖
stays below 1 means that the ball is not active. The whole search for C is timed, because a user who
wants the ball has to search; the solve that was kept, what a user who knew C would wait for, is
told apart as ``solver_seconds``. Who starts each C from the answer of the one before has no such
time: the solves lean on each other.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq

from research.common.judge import FusionProblem, Vector
from research.rivals.solvers._interface import Answer

STEP = 2.0  # in log C until the sphere is passed; small, because a large C is slow for most
MOST_STEPS = 8  # from the first guess: C changes by a factor of nine million at most
SETTLED = 1e-10  # between two C, while the norm is below one: the ball is not active
ON_THE_SPHERE = 1e-10  # a norm this close to one moves f by less than the gap that is asked for

Fit = Callable[[float], tuple[Vector, Vector | None]]


def solve_penalised(
    problem: FusionProblem, fit: Fit, tolerance: float, time_limit: float, *, warm: bool
) -> Answer:
    """Search for C with `fit`, which takes C and returns w and, if it has it, α in [0, 1]ⁿ.

    `warm` says that it starts from the answer of the C before.
    """
    search = _Search(fit, problem.scores.shape[1], time.perf_counter() + time_limit)
    with contextlib.suppress(TimeoutError):  # the weights so far are judged then
        search.run(first_guess(problem), tolerance)
    seconds = None if warm else search.seconds
    return Answer(search.weights, search.alpha, seconds, {"solves": float(len(search.known))})


def first_guess(problem: FusionProblem) -> float:
    """log C that is exact while no row has reached its margin: there w = C Σ c_i a_i."""
    return -math.log(float(np.linalg.norm(problem.cost_vector @ problem.signed_scores)))


class _Search:
    """‖w(C)‖ − 1 as a function of log C; what came closest to the sphere is kept."""

    def __init__(self, fit: Fit, R: int, deadline: float) -> None:
        self.fit, self.deadline = fit, deadline
        self.weights: Vector = np.zeros(R)
        self.alpha: Vector | None = None
        self.distance, self.seconds = math.inf, 0.0
        self.known: dict[float, float] = {}  # Brent's method asks for both ends again

    def run(self, log_c: float, tolerance: float) -> None:
        """Step from the guess until the sphere is passed, then Brent's method."""
        step = STEP if self.norm_minus_one(log_c) < 0.0 else -STEP
        for _ in range(MOST_STEPS):
            former, before, log_c = self.weights, log_c, log_c + step
            if self.norm_minus_one(log_c) * step >= 0.0:
                brentq(self.norm_minus_one, before, log_c, xtol=tolerance, rtol=1e-14)
                return
            if np.linalg.norm(self.weights - former) <= SETTLED:
                return

    def norm_minus_one(self, log_c: float) -> float:
        if log_c not in self.known:
            self.known[log_c] = self._measure(log_c)
        return self.known[log_c]

    def _measure(self, log_c: float) -> float:
        start = time.perf_counter()
        if start > self.deadline:
            raise TimeoutError
        weights, alpha = self.fit(math.exp(log_c))
        found = float(np.linalg.norm(weights)) - 1.0
        if abs(found) < self.distance:
            self.weights, self.alpha, self.distance = weights, alpha, abs(found)
            self.seconds = time.perf_counter() - start
        return found if abs(found) > ON_THE_SPHERE else 0.0
