"""LIBLINEAR for p = 2: the linear SVM without bias, penalised instead of constrained.

LIBLINEAR minimises ½‖w‖² + C Σ c_i hinge_i(w); `_penalised` searches for the C of the ball.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from sklearn.svm import LinearSVC

from research.common.judge import FusionProblem, Vector
from research.rivals.solvers._interface import Answer
from research.rivals.solvers._penalised import solve_penalised

name = "LIBLINEAR (p = 2)"


def tolerances(gap: float) -> Sequence[float]:
    # Its tolerance is on the dual's projected gradient, a scale of its own.
    return (1e-3, 1e-5, 1e-7, 1e-9)


def supports(problem: FusionProblem) -> bool:
    return problem.p == 2.0


def solve(problem: FusionProblem, tolerance: float, time_limit: float) -> Answer:
    rows, labels = _two_classes(problem)

    def fit(C: float) -> tuple[Vector, None]:
        model = LinearSVC(
            loss="hinge",
            C=C,
            fit_intercept=False,
            tol=tolerance,
            max_iter=1_000_000,
            random_state=0,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(rows, labels, sample_weight=problem.cost_vector)
        return model.coef_[0], None

    return solve_penalised(problem, fit, tolerance, time_limit, warm=False)


def _two_classes(problem: FusionProblem) -> tuple[Vector, Vector]:
    """LIBLINEAR wants two classes: where all are normal, one row is turned over with its label."""
    if not problem.is_pure:
        return problem.scores, problem.labels
    rows, labels = problem.scores.copy(), problem.labels.copy()
    rows[0], labels[0] = -rows[0], -labels[0]
    return rows, labels
