"""Whoever lpfuse is compared with on tables: a function each, from training rows to a score.

A rival takes `Training` and a seed and returns a function of rows; high = normal. Unless its line
says otherwise it is as its package ships it, for that is what people pick: no weights of classes,
no tuning. Forests have 300 trees, as many as the boosting of CatBoost. To add one, add a line to
`RIVALS`; one whose package is missing is left out with a word.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors
from sklearn.svm import OneClassSVM

from lpfuse._arrays.operations import Host
from research.studies.tables.splits import Training

# Scores of rows; by suffix of the method's name where one fit answers for several methods.
Score = Callable[[Host], Host | dict[str, Host]]
Learn = Callable[[Training, int], Score]

TREES = 300


class Method(NamedTuple):
    """How a method learns, what it does with labels, and which package it needs."""

    learn: Learn
    labels: Literal["needs", "ignores", "takes"]
    package: str = "sklearn"

    def answers(self, labels: int) -> bool:
        """Whether it has something of its own to say with so many labelled anomalies."""
        return self.labels == "takes" or (self.labels == "needs") == (labels > 0)


# ----------------------------------------------------------------------------- learn from anomalies


def _classifier(make: Callable[[int], Any]) -> Learn:
    """A classifier of anomalies; its score is the probability of a normal row."""

    def learn(training: Training, seed: int) -> Score:
        is_anomaly = np.repeat([0, 1], [len(training.rows), len(training.anomalies)])
        fitted = make(seed).fit(training.X, is_anomaly)
        return lambda rows: fitted.predict_proba(rows)[:, 0]

    return learn


def _catboost(seed: int, **options: Any) -> Any:
    from catboost import CatBoostClassifier

    return CatBoostClassifier(
        iterations=TREES,
        random_seed=seed,
        thread_count=1,
        verbose=False,
        allow_writing_files=False,
        **options,
    )


def _lightgbm(seed: int) -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(random_state=seed, n_jobs=1, verbosity=-1)


def _xgbod(training: Training, seed: int) -> Score:
    """Boosting over features and the scores of the detectors that PyOD lists for it."""
    from pyod.models.xgbod import XGBOD

    is_anomaly = np.repeat([0, 1], [len(training.rows), len(training.anomalies)])
    fitted = XGBOD(random_state=seed, n_jobs=1, silent=True).fit(training.X, is_anomaly)
    return lambda rows: -fitted.decision_function(rows)


# ------------------------------------------------------------------------ learn from normal rows


def _outlier_detector(make: Callable[[int], Any]) -> Learn:
    """A detector of scikit-learn."""

    def learn(training: Training, seed: int) -> Score:
        return make(seed).fit(training.rows).score_samples

    return learn


def _nearest(training: Training, seed: int) -> Score:
    """Distance to the fifth neighbour."""
    neighbours = NearestNeighbors(n_neighbors=min(5, len(training.rows))).fit(training.rows)
    return lambda rows: -neighbours.kneighbors(rows)[0][:, -1]


def _ecod(training: Training, seed: int) -> Score:
    from pyod.models.ecod import ECOD

    fitted = ECOD().fit(training.rows)
    return lambda rows: -fitted.decision_function(rows)


def _average(training: Training, seed: int) -> Score:
    """Mean of standardised scores, the usual fixed rule of PyOD.

    Eight of its detectors as shipped; z-scores by the training rows.
    """
    from pyod.models.copod import COPOD
    from pyod.models.ecod import ECOD
    from pyod.models.hbos import HBOS
    from pyod.models.iforest import IForest
    from pyod.models.knn import KNN
    from pyod.models.lof import LOF
    from pyod.models.ocsvm import OCSVM
    from pyod.models.pca import PCA

    pool = [KNN(), LOF(), OCSVM(), PCA(random_state=seed), HBOS(), ECOD(), COPOD()]
    pool.append(IForest(random_state=seed))
    fitted = [clone(detector, safe=False).fit(training.rows) for detector in pool]
    # PCA divides by variances, which can be 0 (constant or dependent columns): it is left out.
    fitted = [f for f in fitted if np.isfinite(f.decision_scores_).all()]
    means = [f.decision_scores_.mean() for f in fitted]
    spreads = [f.decision_scores_.std() or 1.0 for f in fitted]

    def score(rows: Host) -> Host:
        scores = np.array([f.decision_function(rows) for f in fitted])
        return -((scores.T - means) / spreads).mean(axis=1)

    return score


RIVALS: dict[str, Method] = {
    "CatBoost": Method(_classifier(_catboost), "needs", "catboost"),
    "CatBoost, balanced": Method(
        _classifier(lambda seed: _catboost(seed, auto_class_weights="Balanced")),
        "needs",
        "catboost",
    ),
    "LightGBM": Method(_classifier(_lightgbm), "needs", "lightgbm"),
    "XGBOD": Method(_xgbod, "needs", "xgboost"),
    "ExtraTrees": Method(
        _classifier(lambda seed: ExtraTreesClassifier(TREES, random_state=seed)), "needs"
    ),
    "RandomForest": Method(
        _classifier(lambda seed: RandomForestClassifier(TREES, random_state=seed)), "needs"
    ),
    "HistGradientBoosting": Method(
        _classifier(lambda seed: HistGradientBoostingClassifier(random_state=seed)), "needs"
    ),
    "logistic regression": Method(
        _classifier(lambda seed: LogisticRegression(max_iter=1000)), "needs"
    ),
    "kNN-5": Method(_nearest, "ignores"),
    "PyOD, average of eight": Method(_average, "ignores", "pyod"),
    "isolation forest": Method(
        _outlier_detector(lambda seed: IsolationForest(random_state=seed)), "ignores"
    ),
    "ECOD": Method(_ecod, "ignores", "pyod"),
    "LOF": Method(_outlier_detector(lambda seed: LocalOutlierFactor(novelty=True)), "ignores"),
    "one-class SVM": Method(_outlier_detector(lambda seed: OneClassSVM()), "ignores"),
}
