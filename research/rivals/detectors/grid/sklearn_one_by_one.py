"""What scikit-learn offers for the same learners, one after the other.

OneClassSVM (libsvm), GaussianProcessRegressor with targets 1 and a fixed kernel, and KernelPCA with
reconstruction errors, each with the solver that scikit-learn chooses. Where the width is so narrow
that K = I, LAPACK finds none of the q eigenvalues it is asked for and KernelPCA fails; then ARPACK
is tried, then all components, and every attempt counts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse.linalg import ArpackError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from research.common.judge import Ball, Matrix
from research.rivals.detectors._tasks import GridTask, KPCATask, Member, SVDDTask
from research.rivals.detectors.kpca import sklearn_arpack, sklearn_full
from research.rivals.detectors.kpca import sklearn_auto as kpca
from research.rivals.detectors.svdd import sklearn_one_class_svm as svdd

name = "scikit-learn one by one"

Model = list[tuple[str, Any]]


def fit(X: Matrix, task: GridTask) -> Model:
    return [(member.learner, _fit(X, task, member)) for member in task.members()]


def score(model: Model, X: Matrix) -> Matrix:
    scoring = {"svdd": svdd.score, "gp": lambda process, X: process.predict(X), "kpca": kpca.score}
    return np.column_stack([scoring[learner](fitted, X) for learner, fitted in model])


def as_ours(model: Model, scores: Matrix) -> Matrix:
    turn = {"svdd": svdd.as_ours, "gp": lambda process, means: means, "kpca": kpca.as_ours}
    columns = zip(model, scores.T, strict=True)
    return np.column_stack([turn[learner](fitted, column) for (learner, fitted), column in columns])


def balls(model: Model) -> list[Ball]:
    return [ball for learner, one in model if learner == "svdd" for ball in svdd.balls(one)]


def _fit(X: Matrix, task: GridTask, member: Member) -> Any:
    if member.learner == "svdd":
        return svdd.fit(X, SVDDTask(task.nu, member.gamma, task.tol))
    if member.learner == "kpca":
        return _fit_components(X, KPCATask(member.q, member.gamma))
    width = RBF((2 * member.gamma) ** -0.5, length_scale_bounds="fixed")
    return GaussianProcessRegressor(width, alpha=task.noise, optimizer=None).fit(X, np.ones(len(X)))


def _fit_components(X: Matrix, task: KPCATask) -> Any:
    for attempt in (kpca.fit, sklearn_arpack.fit):
        try:
            return attempt(X, task)
        except (ValueError, ArpackError):
            continue
    return sklearn_full.fit(X, task)
