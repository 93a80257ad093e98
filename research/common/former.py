"""The default `FusedDetector` of decision 0006, by which the study of 30 sets was measured.

Results of today's default, which decisions 0017 to 0023 describe, are elsewhere: those of the
paper's experiments in ``docs/results``, those of tables in ``docs/benchmarks/tables.md``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sklearn.ensemble import ExtraTreesClassifier, IsolationForest, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lpfuse import SVDD, FusedDetector, GMMDetector, KernelPCADetector, OneClassGP, TwoSidedMinMax


class FormerDetector(FusedDetector):
    """A `FusedDetector` whose experts score new rows by one fit to all rows, as before 0023."""

    def _add_experts(
        self, one_class: Any, experts: Any, training: Any, scheduler: Any, without: Any
    ) -> Any:
        if training.folds is not None:
            training = replace(training, folds=replace(training.folds, dealt=False))
        return super()._add_experts(one_class, experts, training, scheduler, without)


# What `FusedDetector` took where users said nothing.
FORMER_OPTIONS: dict[str, Any] = {
    "prior": None,
    "experts_see_scores": True,
    "scaler": TwoSidedMinMax(),
}


def former_detectors(n: int, n_anomalies: float) -> list[tuple[str, Any]]:
    """Six one-class detectors, two experts from 2 labels on, a third one from 50 on.

    Examples
    --------
    >>> [name for name, _ in former_detectors(300, 20)]
    ['svdd', 'gp', 'kpca', 'gmm', 'forest', 'lof', 'trees', 'logistic']
    """
    approximation = None if n <= 1_500 else "nystroem"
    kernel: dict[str, Any] = {"gamma": "narrow", "approximation": approximation}
    pool: dict[str, Any] = {
        "svdd": SVDD(**kernel),
        "gp": OneClassGP(score_type="density", **kernel),
        "kpca": KernelPCADetector(n_components=0.95, **kernel),
        "gmm": GMMDetector(score_type="log_likelihood"),
        "forest": IsolationForest(),
        "lof": LocalOutlierFactor(n_neighbors=min(50, max(1, n // 2)), novelty=True),
    }
    if n_anomalies >= 2:
        pool["trees"] = ExtraTreesClassifier(class_weight="balanced", min_samples_leaf=2)
        pool["logistic"] = LogisticRegression(class_weight="balanced", C=0.1, max_iter=500)
    if n_anomalies >= 50:
        pool["random forest"] = RandomForestClassifier(
            class_weight="balanced_subsample", min_samples_leaf=2
        )
    return [(name, make_pipeline(StandardScaler(), made)) for name, made in pool.items()]


def former_default(n: int, n_anomalies: int, **options: Any) -> FusedDetector:
    """The former ``FusedDetector(**options)`` for so many normal rows and labelled anomalies."""
    return FormerDetector(former_detectors(n, n_anomalies), **FORMER_OPTIONS, **options)
