"""Seven detectors of different families: fitted on normal rows, each gives a scoring function.

Scores are high for normal rows. The parameters are customary ones and the same for every set:
the study is about fusing the scores, not about tuning their sources.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.metrics import pairwise_distances
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import KFold
from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors
from sklearn.svm import OneClassSVM

Scorer = Callable[[np.ndarray], np.ndarray]
FOLDS = 5


def median_squared_distance(X: np.ndarray) -> float:
    squares = pairwise_distances(X, metric="sqeuclidean")
    return float(np.median(squares[squares > 0]))


def one_class_svm(X: np.ndarray, seed: int) -> Scorer:
    return OneClassSVM(gamma=1 / median_squared_distance(X), nu=0.1).fit(X).score_samples


def gp_deviation(X: np.ndarray, seed: int) -> Scorer:
    kernel = RBF(np.sqrt(median_squared_distance(X) / 2), length_scale_bounds="fixed")
    process = GaussianProcessRegressor(kernel, alpha=0.01, optimizer=None).fit(X, np.ones(len(X)))
    return lambda Z: -process.predict(Z, return_std=True)[1]


def pca_residual(X: np.ndarray, seed: int) -> Scorer:
    pca = PCA(n_components=0.9, svd_solver="full").fit(X)
    return lambda Z: -np.linalg.norm(Z - pca.inverse_transform(pca.transform(Z)), axis=1)


def gaussian_mixture(X: np.ndarray, seed: int) -> Scorer:
    return GaussianMixture(3, reg_covar=0.01, random_state=seed).fit(X).score_samples


def isolation_forest(X: np.ndarray, seed: int) -> Scorer:
    return IsolationForest(random_state=seed).fit(X).score_samples


def local_outlier_factor(X: np.ndarray, seed: int) -> Scorer:
    neighbours = min(20, len(X) - 1)
    return LocalOutlierFactor(n_neighbors=neighbours, novelty=True).fit(X).score_samples


def neighbour_distance(X: np.ndarray, seed: int) -> Scorer:
    index = NearestNeighbors(n_neighbors=5).fit(X)
    return lambda Z: -index.kneighbors(Z)[0][:, -1]


DETECTORS = (
    one_class_svm, gp_deviation, pca_residual, gaussian_mixture, isolation_forest,
    local_outlier_factor, neighbour_distance,
)  # fmt: skip


def score_all(train: np.ndarray, parts: list[np.ndarray], seed: int) -> list[np.ndarray]:
    """Scores of each part, a column for each detector, all fitted on `train`."""
    scorers = [fit(train, seed) for fit in DETECTORS]
    return [np.column_stack([score(part) for score in scorers]) for part in parts]


def out_of_fold(train: np.ndarray, seed: int) -> np.ndarray:
    """Scores of the training rows, each by detectors that were fitted without it."""
    S = np.empty((len(train), len(DETECTORS)))
    for rest, fold in KFold(FOLDS, shuffle=True, random_state=seed).split(train):
        (S[fold],) = score_all(train[rest], [train[fold]], seed)
    return S
