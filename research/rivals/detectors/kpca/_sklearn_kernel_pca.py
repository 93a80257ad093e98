"""Reconstruction errors from the projections of scikit-learn's KernelPCA.

‖φ(x) − φ̄‖² = k(x, x) − 2 mean_j k(x, x_j) + mean_ij k(x_i, x_j), minus the squared projections on
the first q components. The means over training rows are taken from where KernelPCA keeps them,
which spares it a second kernel matrix.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.decomposition import KernelPCA
from sklearn.metrics.pairwise import rbf_kernel

from research.common.judge import Matrix, Vector
from research.rivals.detectors._tasks import KPCATask


class Model(NamedTuple):
    components: KernelPCA
    q: int
    gamma: float
    training_errors: Vector  # for the threshold
    threshold: float


def fit_with(X: Matrix, task: KPCATask, n_components: int | None, eigen_solver: str) -> Model:
    components = KernelPCA(
        n_components, kernel="rbf", gamma=task.gamma, eigen_solver=eigen_solver, random_state=0
    )
    projections = components.fit_transform(X)[:, : task.q]
    means = components._centerer.K_fit_rows_
    errors = _errors(components, means, projections)
    return Model(components, task.q, task.gamma, errors, float(np.quantile(errors, 0.9)))


def score(model: Model, X: Matrix) -> Vector:
    means = rbf_kernel(X, model.components.X_fit_, model.gamma).mean(axis=1)
    return _errors(model.components, means, model.components.transform(X)[:, : model.q])


def as_ours(model: Model, scores: Vector) -> Vector:
    return -scores


def _errors(components: KernelPCA, means: Vector, projections: Matrix) -> Vector:
    return 1 - 2 * means + components._centerer.K_fit_all_ - (projections**2).sum(axis=1)
