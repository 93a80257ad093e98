"""scikit-learn's OneClassSVM: the same dual, with coefficients that sum to νn.

Its score is Σ α_i k(x_i, x). With β = α / Σα, lpfuse's is 2 Σ β_i k(x_i, x) − 1 − βᵀKβ.
"""

from __future__ import annotations

from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import OneClassSVM

from research.common.judge import Ball, Matrix, Vector
from research.rivals.detectors._tasks import SVDDTask

name = "scikit-learn OneClassSVM"


def fit(X: Matrix, task: SVDDTask) -> OneClassSVM:
    return OneClassSVM(nu=task.nu, gamma=task.gamma, tol=task.tol).fit(X)


def score(model: OneClassSVM, X: Matrix) -> Vector:
    return model.score_samples(X)


def as_ours(model: OneClassSVM, scores: Vector) -> Vector:
    (ball,) = balls(model)
    vectors = model.support_vectors_
    similarities = rbf_kernel(vectors, vectors, model.gamma) @ ball.coefficients
    return 2 * scores / model.dual_coef_.sum() - 1 - float(ball.coefficients @ similarities)


def balls(model: OneClassSVM) -> list[Ball]:
    coefficients = model.dual_coef_.ravel()
    return [Ball(model.support_, coefficients / coefficients.sum())]
