"""What is taken where users say nothing: chosen by evidence, see ``docs/adr/0006``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sklearn.ensemble import ExtraTreesClassifier, IsolationForest, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lpfuse.detectors import SVDD, GMMDetector, KernelPCADetector, OneClassGP
from lpfuse.fusion.lp import LpFusion

Entries = list[tuple[str, Any]]

EXPERTS_FROM = 2  # labelled anomalies: with fewer, a fold would have none to learn from
MORE_EXPERTS_FROM = 50
EXACT_ROWS = 1_500  # beyond, cubic costs are not worth it: 500 features lose nothing in the ranks


def paper_entries() -> Entries:
    """The four learners of the paper, on standardised features."""
    return _standardised(
        {"svdd": SVDD(), "gp": OneClassGP(), "kpca": KernelPCADetector(), "gmm": GMMDetector()}
    )


def default_entries(n: int, n_anomalies: int) -> Entries:
    """Six one-class detectors; with labelled anomalies, experts that learn from them.

    Parameters
    ----------
    n : int
        Rows that one-class detectors learn from.
    n_anomalies : int
        Labelled anomalies that experts can learn from.
    """
    approximation = None if n <= EXACT_ROWS else "nystroem"
    kernel: dict[str, Any] = {"gamma": "narrow", "approximation": approximation}
    pool: dict[str, Any] = {
        "svdd": SVDD(**kernel),
        "gp": OneClassGP(score_type="density", **kernel),
        "kpca": KernelPCADetector(n_components=0.95, **kernel),
        "gmm": GMMDetector(score_type="log_likelihood"),
        "forest": IsolationForest(),
        "lof": LocalOutlierFactor(n_neighbors=min(50, max(1, n // 2)), novelty=True),
    }
    if n_anomalies >= EXPERTS_FROM:
        pool |= {
            "trees": ExtraTreesClassifier(class_weight="balanced", min_samples_leaf=2),
            "logistic": LogisticRegression(class_weight="balanced", C=0.1, max_iter=500),
        }
    if n_anomalies >= MORE_EXPERTS_FROM:
        pool["random forest"] = RandomForestClassifier(
            class_weight="balanced_subsample", min_samples_leaf=2
        )
    return _standardised(pool)


def _standardised(pool: Mapping[str, Any]) -> Entries:
    return [(name, make_pipeline(StandardScaler(), made)) for name, made in pool.items()]


def default_fusion() -> LpFusion:
    """How the weights are learnt, whatever the labels can tell.

    One imaginary anomaly, which counts for three, keeps the weights near uniform while there are
    few labels, and stands for anomalies while there are none.
    """
    return LpFusion(
        p=4.0,
        class_weight="balanced",
        fit_intercept=True,
        nonnegative=True,
        imaginary_anomalies=3.0,
    )
