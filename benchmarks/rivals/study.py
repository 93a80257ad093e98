"""One set and one seed: test AUC and fit time of every rival, as records to be stored.

All rivals fuse the same out-of-fold scores of the same six one-class detectors, on one scale. Those
that look at the rows themselves are given the features as well. Whole ensembles bring detectors of
their own, and learn from normal rows alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from math import comb
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.ensemble import IsolationForest

from benchmarks.defaults.study import auc
from benchmarks.fusion.parts import Parts, parts_of
from benchmarks.fusion.pool import DETECTORS, POOLS, OneClassScores, Scores, one_class_scores
from lpfuse import (
    SVDD,
    FixedRule,
    FusedDetector,
    GMMDetector,
    IterativeEnsemble,
    KernelPCADetector,
    LpFusion,
)
from lpfuse.ensemble.defaults import default_fusion
from lpfuse.fusion.dynamic import DynamicEnsemble
from lpfuse.fusion.fixed import RULES
from lpfuse.fusion.local import LocalLpFusion
from lpfuse.fusion.search import ExhaustiveWeights, GeneticWeights, SwarmWeights
from lpfuse.fusion.stacking import BestSingle, LinearSVMStacker, LogisticStacker
from lpfuse.fusion.templates import CosineSimilarity, DecisionTemplates
from lpfuse.pools import bagged_one_class_svms, random_subspaces

LABELS = (0, 5, 20, 100)
Record = dict[str, Any]


def balanced(p: float, **options: Any) -> LpFusion:
    return LpFusion(p=p, class_weight="balanced", nonnegative=True, **options)


RIVALS: dict[str, Callable[[int], Any]] = {  # of a seed
    "lp (default)": lambda seed: default_fusion(),
    "lp, paper": lambda seed: LpFusion(p=2.0),
    "lp, p = 4/3": lambda seed: balanced(4 / 3, fit_intercept=True),
    "lp, p = 2": lambda seed: balanced(2.0, fit_intercept=True),
    "lp, p = ∞": lambda seed: balanced(np.inf, fit_intercept=True),
    "least squares": lambda seed: balanced(2.0, loss="least_squares", fit_intercept=True),
    "local lp": lambda seed: LocalLpFusion(default_fusion(), random_state=seed),
    **{rule: lambda seed, rule=rule: FixedRule(rule) for rule in RULES},
    "best single": lambda seed: BestSingle(),
    "linear SVM": lambda seed: LinearSVMStacker(),
    "logistic": lambda seed: LogisticStacker(),
    "genetic": lambda seed: GeneticWeights(random_state=seed),
    "swarm": lambda seed: SwarmWeights(random_state=seed),
    "exhaustive": lambda seed: ExhaustiveWeights(),
    "templates": lambda seed: DecisionTemplates(),
    "cosine": lambda seed: CosineSimilarity(),
    "dynamic": lambda seed: DynamicEnsemble(random_state=seed),
}  # fmt: skip


def cheap() -> list[tuple[str, Any]]:
    """Four learners that are quick to fit many times."""
    return [
        ("svdd", SVDD(gamma="narrow")), ("kpca", KernelPCADetector(gamma="narrow")),
        ("gmm", GMMDetector()), ("forest", IsolationForest(n_estimators=50)),
    ]  # fmt: skip


def summed(detectors: Any, seed: int, rule: str = "sum") -> FusedDetector:
    return FusedDetector(detectors, fusion=FixedRule(rule), random_state=seed)


ENSEMBLES: dict[str, Callable[[int, int], Any]] = {  # of a seed and the number of columns
    "subspaces + max": lambda seed, d: summed(
        random_subspaces(SVDD(gamma="narrow"), d, min(10, comb(d, d // 2)), random_state=seed),
        seed,
        "max",
    ),
    "bagged SVMs": lambda seed, d: summed(bagged_one_class_svms(random_state=seed), seed),
    "iterative": lambda seed, d: IterativeEnsemble(summed(cheap(), seed), random_state=seed),
}


def ensembles_of(name: str, X: np.ndarray, is_anomaly: np.ndarray, seed: int) -> Record:
    """A record of the whole ensembles, for any number of labels."""
    parts = parts_of(X, is_anomaly, seed)
    _, _, sought = next(iter(parts.situations()))
    aucs, seconds = {}, {}
    for ensemble, make in ENSEMBLES.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # few rows: widths, thresholds
            start = perf_counter()
            fitted = make(parts.seed, parts.train.shape[1]).fit(parts.train)
            seconds[ensemble] = round(perf_counter() - start, 4)
            scores = [fitted.score_samples(rows) for rows in (parts.test, parts.anomalies[sought])]
        aucs[ensemble] = round(auc(*scores), 2)
    return {"set": name, "seed": seed, "auc": aucs, "seconds": seconds}


def records_of(name: str, X: np.ndarray, is_anomaly: np.ndarray, seed: int) -> Iterator[Record]:
    """A record for each number of labels that there are anomalies for."""
    parts = parts_of(X, is_anomaly, seed)
    scores = one_class_scores(parts)
    _, may_be_known, sought = next(iter(parts.situations()))
    for labels in LABELS:
        if labels <= len(may_be_known):
            found = _measured(parts, scores, may_be_known[:labels], sought)
            yield {"set": name, "seed": seed, "labels": labels, **found}


def _measured(
    parts: Parts, scores: OneClassScores, known: np.ndarray, sought: np.ndarray
) -> Record:
    columns = [list(DETECTORS).index(member) for member in POOLS["six"]]
    scaled = scores.situation(known, sought).columns(columns).scaled()
    rows = Scores(parts.train, parts.anomalies[known], parts.test, parts.anomalies[sought])
    aucs, seconds = {}, {}
    for name, make in RIVALS.items():
        aucs[name], seconds[name] = _judged(make(parts.seed), scaled, rows)
    return {"auc": aucs, "seconds": seconds}


def _judged(fusion: Any, scaled: Scores, rows: Scores) -> tuple[float, float]:
    """Test AUC in per cent, and seconds to fit."""
    S = np.concatenate([scaled.train, scaled.known])
    y = np.repeat([1, -1], [len(scaled.train), len(scaled.known)]) if len(scaled.known) else None

    def seen(*parts: np.ndarray) -> dict[str, np.ndarray]:
        return {"X": np.concatenate(parts)} if getattr(fusion, "uses_features", False) else {}

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # stackers without labels, zero weights: AUC tells
        start = perf_counter()
        fusion.fit(S, y, **seen(rows.train, rows.known))
        seconds = perf_counter() - start
        normal = fusion.score_samples(scaled.test_normal, **seen(rows.test_normal))
        anomalies = fusion.score_samples(scaled.test_anomaly, **seen(rows.test_anomaly))
    return round(auc(normal, anomalies), 2), round(seconds, 4)
