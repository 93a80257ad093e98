"""q components by ARPACK, on the centred matrix."""

from __future__ import annotations

from benchmarks.detectors.data import Matrix
from benchmarks.detectors.rivals.kpca._sklearn_kernel_pca import Model, as_ours, fit_with, score
from benchmarks.detectors.tasks import KPCATask

__all__ = ["as_ours", "fit", "name", "score"]

name = "scikit-learn KernelPCA, ARPACK"


def fit(X: Matrix, task: KPCATask) -> Model:
    return fit_with(X, task, task.q, "arpack")
