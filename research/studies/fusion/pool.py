"""The detectors and experts of the study, and their scores: out of fold for rows that teach.

Scores are high for normal rows. A labelled anomaly has a fold too, and is scored by the detectors
and experts of that fold; rows of the test are scored by those that learnt from everything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, IsolationForest, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import LocalOutlierFactor

from lpfuse import SVDD, GMMDetector, KernelPCADetector, OneClassGP, TwoSidedMinMax
from lpfuse.adapters import ClassifierExpert

from .parts import FOLDS, Parts

JITTER = 0.5  # standard deviations: how far artificial anomalies are from the rows they come from


def _neighbours(n: int) -> int:
    return min(50, max(1, n // 2))


DETECTORS: dict[str, Callable[[int, int], Any]] = {  # of the number of rows and the seed
    "svdd": lambda n, seed: SVDD(gamma="narrow"),
    "gp": lambda n, seed: OneClassGP(gamma="narrow", score_type="density"),
    "kpca": lambda n, seed: KernelPCADetector(gamma="narrow", n_components=0.95),
    "gmm": lambda n, seed: GMMDetector(score_type="log_likelihood", random_state=seed),
    "forest": lambda n, seed: IsolationForest(random_state=seed),
    "lof": lambda n, seed: LocalOutlierFactor(n_neighbors=_neighbours(n), novelty=True),
    "gp mean": lambda n, seed: OneClassGP("mean", gamma="narrow"),
    "kpca 10": lambda n, seed: KernelPCADetector(gamma="narrow"),
    "gmm distance": lambda n, seed: GMMDetector(3, "mahalanobis", random_state=seed),
}
POOLS = {
    "six": ("svdd", "gp", "kpca", "gmm", "forest", "lof"),
    "four": ("svdd", "gp", "kpca", "gmm"),
    "paper": ("svdd", "gp mean", "kpca 10", "gmm distance"),
}
EXPERTS: dict[str, Callable[[int], Any]] = {
    "trees": lambda seed: ExtraTreesClassifier(
        class_weight="balanced", min_samples_leaf=2, random_state=seed
    ),
    "logistic": lambda seed: LogisticRegression(class_weight="balanced", C=0.1, max_iter=500),
    "random forest": lambda seed: RandomForestClassifier(
        class_weight="balanced_subsample", min_samples_leaf=2, random_state=seed
    ),
}
EXPERT_POOLS = {
    "two experts": ("trees", "logistic"),
    "three experts": ("trees", "logistic", "random forest"),
}


class Scores(NamedTuple):
    """One column a detector: of the training rows, labelled anomalies, and both parts of a test."""

    train: np.ndarray
    known: np.ndarray
    test_normal: np.ndarray
    test_anomaly: np.ndarray

    def columns(self, chosen: Sequence[int]) -> Scores:
        return Scores(*(part[:, chosen] for part in self))

    def beside(self, other: Scores) -> Scores:
        return Scores(*(np.column_stack(pair) for pair in zip(self, other, strict=True)))

    def scaled(self) -> Scores:
        scaler = TwoSidedMinMax().fit(self.train)
        return Scores(*(scaler.transform(part) if len(part) else part for part in self))


class OneClassScores(NamedTuple):
    """Of all rows of `Parts`; those of `jittered` rows are out of fold, too."""

    train: np.ndarray
    jittered: np.ndarray
    anomalies_by_fold: np.ndarray
    anomalies: np.ndarray
    test: np.ndarray

    def situation(self, known: np.ndarray, sought: np.ndarray) -> Scores:
        return Scores(self.train, self.anomalies_by_fold[known], self.test, self.anomalies[sought])


def one_class_scores(parts: Parts) -> OneClassScores:
    rng = np.random.default_rng(parts.seed)
    jittered = parts.train + JITTER * rng.standard_normal(parts.train.shape)
    shape = len(parts.train), len(DETECTORS)
    S, of_jittered = np.empty(shape), np.empty(shape)
    by_fold = np.empty((len(parts.anomalies), len(DETECTORS)))
    for number in range(FOLDS):
        fold, own = parts.fold_of_train == number, parts.fold_of_anomalies == number
        rows = [parts.train[fold], jittered[fold], parts.anomalies[own]]
        S[fold], of_jittered[fold], by_fold[own] = _fit_and_score(
            parts.train[~fold], rows, parts.seed
        )
    whole = _fit_and_score(parts.train, [parts.anomalies, parts.test], parts.seed)
    return OneClassScores(S, of_jittered, by_fold, *whole)


def _fit_and_score(train: np.ndarray, parts: list[np.ndarray], seed: int) -> list[np.ndarray]:
    made = [make(len(train), seed).fit(train) for make in DETECTORS.values()]
    rows = np.vstack(parts)
    S = np.column_stack([detector.score_samples(rows) for detector in made])
    return np.split(S, np.cumsum([len(part) for part in parts])[:-1])


def expert_scores(
    parts: Parts, known: np.ndarray, sought: np.ndarray, scaled: Scores, seed: int
) -> Scores:
    """Log-odds of the experts, which see the features and the scaled scores of the detectors."""
    features = parts.train, parts.anomalies[known], parts.test, parts.anomalies[sought]
    rows = Scores(*map(np.column_stack, zip(features, scaled, strict=True)))
    columns = [_expert(make, parts, rows, seed) for make in EXPERTS.values()]
    return Scores(*map(np.column_stack, zip(*columns, strict=True)))


def _expert(make: Callable[[int], Any], parts: Parts, rows: Scores, seed: int) -> Scores:
    """Stratified folds: normals keep theirs, labelled anomalies are dealt out in turn."""
    teaching = np.r_[rows.train, rows.known]
    y = np.repeat([1, -1], [len(rows.train), len(rows.known)])
    fold = np.r_[parts.fold_of_train, np.arange(len(rows.known)) % FOLDS]
    out_of_fold = np.empty(len(y))
    for number in range(FOLDS):
        rest = fold != number
        expert = ClassifierExpert(make(seed)).fit(teaching[rest], y[rest])
        out_of_fold[~rest] = expert.score_samples(teaching[~rest])
    expert = ClassifierExpert(make(seed)).fit(teaching, y)
    test = expert.score_samples(np.r_[rows.test_normal, rows.test_anomaly])
    cuts = [len(rows.train)], [len(rows.test_normal)]
    return Scores(*np.split(out_of_fold, cuts[0]), *np.split(test, cuts[1]))
