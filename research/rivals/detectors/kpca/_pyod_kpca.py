"""PyOD's KPCA, on top of scikit-learn's: its score is the same reconstruction error.

``decision_function`` is exactly minus lpfuse's score, in the same units.
"""

from __future__ import annotations

from pyod.models.kpca import KPCA

from research.common.judge import Matrix, Vector
from research.rivals.detectors._tasks import KPCATask


def fit_with(X: Matrix, task: KPCATask, eigen_solver: str) -> KPCA:
    return KPCA(
        n_components=task.q, gamma=task.gamma, eigen_solver=eigen_solver, random_state=0
    ).fit(X)


def score(model: KPCA, X: Matrix) -> Vector:
    return model.decision_function(X)


def as_ours(model: KPCA, scores: Vector) -> Vector:
    return -scores
