"""A development set as the study sees it: rows to learn from, rows to be tested, two situations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from sklearn.cluster import KMeans
from sklearn.impute import SimpleImputer
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from research.studies.defaults.data import TRAIN_SHARE

MOST_TRAIN, MOST_TEST, MOST_ANOMALIES = 800, 600, 800  # rows
FOLDS = 5


@dataclass(frozen=True)
class Parts:
    """Features, standardised on the training rows; no row of the set is in two parts."""

    train: np.ndarray  # normal
    test: np.ndarray  # normal
    anomalies: np.ndarray
    fold_of_train: np.ndarray
    fold_of_anomalies: np.ndarray
    seed: int

    def situations(self) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
        """Name, positions of the anomalies that may be labelled, positions of those to be found.

        "seen": both are drawn from the same mix. "unseen": the anomalies are parted into two
        clusters; the smaller one may be labelled, the larger one is to be found.
        """
        positions = np.arange(len(self.anomalies))
        half = len(positions) // 2
        yield "seen", positions[:half], positions[half:]
        cluster = KMeans(2, n_init=5, random_state=0).fit_predict(self.anomalies)
        smaller = cluster == int(np.sum(cluster == 1) < np.sum(cluster == 0))
        yield "unseen", positions[smaller], positions[~smaller]


def parts_of(X: np.ndarray, is_anomaly: np.ndarray, seed: int) -> Parts:
    """Normals 70/30 for training and test; which anomalies teach, the situation decides."""
    rng = np.random.default_rng(seed)
    normal = rng.permutation(np.flatnonzero(~is_anomaly))
    anomalies = rng.permutation(np.flatnonzero(is_anomaly))[:MOST_ANOMALIES]
    cut = int(TRAIN_SHARE * len(normal))
    train, test = normal[:cut][:MOST_TRAIN], normal[cut:][:MOST_TEST]
    prepare = make_pipeline(SimpleImputer(strategy="median"), StandardScaler()).fit(X[train])
    fold_of_train = np.empty(len(train), dtype=int)
    for number, (_, fold) in enumerate(KFold(FOLDS, shuffle=True, random_state=seed).split(train)):
        fold_of_train[fold] = number
    Z, test_rows, anomaly_rows = (prepare.transform(X[rows]) for rows in (train, test, anomalies))
    fold_of_anomalies = np.arange(len(anomalies)) % FOLDS
    return Parts(Z, test_rows, anomaly_rows, fold_of_train, fold_of_anomalies, seed)
