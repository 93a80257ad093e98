"""A development set as one-class learners see it: normal rows to learn from, rows to be tested."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from research.studies.defaults.data import MOST_TEST, TRAIN_SHARE
from research.studies.defaults.study import auc


@dataclass(frozen=True)
class Parts:
    """Features, standardised on the training rows; no row of the set is in both parts."""

    train: np.ndarray  # normal
    test: np.ndarray
    is_anomaly: np.ndarray  # of the test rows

    def auc(self, scores: np.ndarray) -> float:
        """Test AUC, in per cent."""
        return auc(scores[~self.is_anomaly], scores[self.is_anomaly])


def parts_of(X: np.ndarray, is_anomaly: np.ndarray, seed: int, most_train: int) -> Parts:
    """Normals 70/30 for training and test; anomalies teach nothing here, so all are for the test.

    As in `research.studies.defaults`, a test has up to `MOST_TEST` rows of each class.
    """
    rng = np.random.default_rng(seed)
    normal = rng.permutation(np.flatnonzero(~is_anomaly))
    anomaly = rng.permutation(np.flatnonzero(is_anomaly))[:MOST_TEST]
    cut = int(TRAIN_SHARE * len(normal))
    train, unseen = normal[:cut][:most_train], normal[cut:][:MOST_TEST]
    prepare = make_pipeline(SimpleImputer(strategy="median"), StandardScaler()).fit(X[train])
    test = np.r_[unseen, anomaly]
    return Parts(prepare.transform(X[train]), prepare.transform(X[test]), is_anomaly[test])
