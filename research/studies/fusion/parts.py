"""A development set as the study sees it: rows to learn from, rows to be tested, two situations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from sklearn.cluster import KMeans
from sklearn.model_selection import KFold

from research.common.splits import study_split

# Chosen by hand, so that a cell takes minutes.
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
    rows = study_split(
        X,
        is_anomaly,
        seed,
        most_train=MOST_TRAIN,
        most_test=MOST_TEST,
        most_anomalies=MOST_ANOMALIES,
    )
    folds = KFold(FOLDS, shuffle=True, random_state=seed).split(rows.train)
    fold_of_train = np.empty(len(rows.train), dtype=int)
    for number, (_, fold) in enumerate(folds):
        fold_of_train[fold] = number
    return Parts(*rows, fold_of_train, np.arange(len(rows.anomalies)) % FOLDS, seed)
