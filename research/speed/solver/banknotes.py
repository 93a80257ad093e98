"""Scores of four quick one-class learners on the banknotes, as in the paper's speed table.

``LPFUSE_DATA`` names the folder that holds ``uci/d01_banknotes.csv``. The learners stand for
the paper's four (SVDD, Gaussian process, kernel PCA, Gaussian mixture) in their shortest form:
this is a timing of the fusion, not of the learners. As in the paper, 70 % of the normals train
the learners and teach the weights; in the setting with negatives a quarter of the anomalies
teach too.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from research.common.datasets import load_uci, uci_file

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

TRAINING_NORMALS = 533  # 70 % of 762, as in the paper
TEACHING_ANOMALIES = 152  # a quarter of 610
WIDTH = 1.0  # of the kernel, from the paper's grid


def banknote_file() -> Path | None:
    """Where the data set lies, or None when ``LPFUSE_DATA`` names no folder that holds it."""
    return uci_file("banknotes")


def banknote_rows(setting: str) -> int:
    """Number of rows that teach the weights."""
    return TRAINING_NORMALS + (TEACHING_ANOMALIES if setting == "negatives" else 0)


def banknote_scores(setting: str, seed: int) -> tuple[Matrix, Vector]:
    """Scores n×4 (high = normal) and labels."""
    data = load_uci("banknotes", download=False)
    rng = np.random.default_rng(seed)
    features, labels = data.X, data.y
    normals = rng.permutation(features[labels > 0])[:TRAINING_NORMALS]
    anomalies = rng.permutation(features[labels < 0])[: banknote_rows(setting) - TRAINING_NORMALS]
    rows = np.vstack([normals, anomalies])
    rows = (rows - normals.mean(axis=0)) / normals.std(axis=0)
    scores = _learner_scores(rows[:TRAINING_NORMALS], rows, seed)
    low, high = np.quantile(scores[:TRAINING_NORMALS], [0.025, 0.975], axis=0)
    y = np.r_[np.ones(len(normals)), -np.ones(len(anomalies))]
    return np.ascontiguousarray((scores - low) / (high - low)), y


def _learner_scores(train: Matrix, rows: Matrix, seed: int) -> Matrix:
    from sklearn.decomposition import KernelPCA
    from sklearn.metrics.pairwise import rbf_kernel
    from sklearn.mixture import GaussianMixture
    from sklearn.svm import OneClassSVM

    gamma = 1.0 / (2.0 * WIDTH**2)
    support = OneClassSVM(gamma=gamma, nu=0.05).fit(train)
    gram = rbf_kernel(train, train, gamma) + 0.01 * np.eye(len(train))
    process_mean = rbf_kernel(rows, train, gamma) @ np.linalg.solve(gram, np.ones(len(train)))
    components = KernelPCA(6, kernel="rbf", gamma=gamma, random_state=seed).fit(train)
    mixture = GaussianMixture(3, reg_covar=0.01, random_state=seed).fit(train)
    return np.column_stack(
        [
            support.score_samples(rows),
            process_mean,
            _kernel_pca_score(components, train, rows, gamma),
            mixture.score_samples(rows),
        ]
    )


def _kernel_pca_score(components: object, train: Matrix, rows: Matrix, gamma: float) -> Vector:
    """Minus the squared distance, in feature space, to the span of the first components."""
    from sklearn.metrics.pairwise import rbf_kernel

    to_mean = 1.0 - 2.0 * rbf_kernel(rows, train, gamma).mean(axis=1)
    to_mean += rbf_kernel(train, train, gamma).mean()
    projected = components.transform(rows)  # type: ignore[attr-defined]
    return np.asarray((projected**2).sum(axis=1) - to_mean)
