"""What lpfuse does under the paper's protocol: its defaults, and settings chosen on validation."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, IsolationForest
from sklearn.neighbors import LocalOutlierFactor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from lpfuse._arrays.operations import Host
from lpfuse.adapters import as_detector
from lpfuse.detectors import (
    SVDD,
    GMMDetector,
    KernelPCADetector,
    OneClassGP,
    fit_together,
    score_together,
)
from lpfuse.ensemble import FusedDetector
from lpfuse.ensemble.components import default_detectors, default_fusion
from lpfuse.ensemble.defaults import seeded_copy
from lpfuse.fusion import FixedRule
from lpfuse.scaling import TwoSidedMinMax
from research.common.protocol import FittedMethod, Method, TrainingData, area, threshold
from research.paper.learners import Tables
from research.paper.methods import Preset
from research.paper.pooled import Pooled, pooled

WIDTHS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)  # multiples of gamma="scale"
SHARES = (0.7, 0.9, 0.95, 0.99)  # of the variance, for kernel PCA
NEIGHBOURS = (5, 10, 20, 50, 100)
COMPONENTS = (1, 3, 5)
KERNELS = ("svdd", "gp", "kpca")  # these share their work
OWN = (*KERNELS, "gmm")  # those of lpfuse


def defaults(training: TrainingData) -> FittedMethod:
    """`FusedDetector()` as it comes: nothing is chosen, but for the threshold."""
    return _decided(_default_pool(training).fused, training)


SUPERVISED: dict[str, Any] = {
    "trees alone": ExtraTreesClassifier(300, class_weight="balanced", min_samples_leaf=2),
    "boosting alone": HistGradientBoostingClassifier(
        learning_rate=0.05, max_iter=150, max_depth=4, min_samples_leaf=1, l2_regularization=1.0,
        early_stopping=False,
    ),
    "SVM alone": SVC(C=0.3, class_weight="balanced"),
}  # fmt: skip


def supervised(classifier: Any) -> Method:
    """A classifier of the same rows with the same labels, by itself: the control of all who fuse.

    Examples
    --------
    >>> method = supervised(SUPERVISED["trees alone"])
    """

    def method(training: TrainingData) -> FittedMethod:
        X = np.concatenate([training.normals, training.labelled])
        y = np.repeat([1, -1], [len(training.normals), len(training.labelled)])
        expert = as_detector(seeded_copy(classifier, np.random.RandomState(training.seed)))
        expert.fit(X, y)
        return FittedMethod(
            expert.score_samples, threshold(training, expert.score_samples(training.validation))
        )

    return method


def all_known(training: TrainingData) -> FittedMethod:
    """`FusedDetector()` taught by every known anomaly: none is kept back, for it needs no choice.

    Its threshold has the best G-mean on scores out of fold.
    """
    kept = training.validation[training.labels < 0]
    known = np.concatenate([training.labelled, kept])
    options: dict[str, Any] = {
        "threshold": "g-mean",
        "calibration": "plain",
        "random_state": training.seed,
    }
    fused = _fitted(FusedDetector(**options), training.normals, known)
    return FittedMethod(fused.score_samples, fused.offset_)


def validated(training: TrainingData) -> FittedMethod:
    """A `FusedDetector` of six kinds of detectors, each with its best setting; the best m of them.

    Settings and m are chosen by the AUC on validation, m by that of the plain sum. The weights of
    the m learn from the training normals alone or, in the non-pure setting, from the labelled
    anomalies too, which experts then learn from as well.
    """
    fused, names = _validated(training)
    return _decided(fused, training)._replace(choices={"members": names})


def validated_sum(training: TrainingData) -> FittedMethod:
    """The plain sum of the very detectors of `validated`: what is left when weights are not."""
    fused, _ = _validated(training)
    return _decided(fused.with_fusion(FixedRule("sum")), training)


def _validated(training: TrainingData) -> tuple[FusedDetector, list[str]]:
    """Fitted once for whoever fuses it, with the names of its one-class detectors."""
    key = f"validated, {len(training.labelled)} labelled"
    if key not in training.cache:
        fused, names = _chosen_pool(training)
        training.cache[key] = _fitted(fused, training.normals, training.labelled), names
    found: tuple[FusedDetector, list[str]] = training.cache[key]
    return found


def _chosen_pool(training: TrainingData) -> tuple[FusedDetector, list[str]]:
    with warnings.catch_warnings():  # widths far from the data are part of the grid
        warnings.simplefilter("ignore", UserWarning)
        grid = _fitted_grid(training)
        scores = _scores(grid, training.validation)
    areas = area(training.labels, scores)
    best = {
        kind: max((i for i, (name, _) in enumerate(grid) if name == kind), key=lambda i: areas[i])
        for kind in dict.fromkeys(name for name, _ in grid)
    }
    ranked = sorted(best.values(), key=lambda i: -areas[i])
    normal = training.labels > 0
    scaled = TwoSidedMinMax().fit(scores[normal][:, ranked]).transform(scores[:, ranked])
    sums = area(training.labels, np.cumsum(scaled, axis=1))
    m = len(ranked) - int(np.argmax(sums[::-1]))  # of equals the most members
    chosen = [(grid[i][0], _standardised(grid[i][1])) for i in ranked[:m]]
    experts = [
        entry
        for entry in default_detectors(len(training.normals), len(training.labelled))
        if is_classifier(entry[1])
    ]
    options: dict[str, Any] = {"calibration": "plain", "random_state": training.seed}
    return FusedDetector([*chosen, *experts], **options), [name for name, _ in chosen]


def out_of_fold_tables(training: TrainingData) -> Tables:
    """Out-of-fold scores of the default pool, experts among them where anomalies teach."""
    pool = _default_pool(training)
    validation = pool.score(training.validation)
    return Tables(pool.names, pool.normals, pool.labelled, validation, pool.score, {})


def _default_pool(training: TrainingData) -> Pooled:
    """The default pool, fitted once for all who use it."""
    key = f"default pool, {len(training.labelled)} labelled"
    if key not in training.cache:
        with warnings.catch_warnings():  # of small and easy sets: weights that are open, and such
            warnings.simplefilter("ignore", UserWarning)
            training.cache[key] = pooled(training.normals, training.labelled, seed=training.seed)
    pool: Pooled = training.cache[key]
    return pool


OUR_PRESET = Preset(
    "ours",
    out_of_fold_tables,
    fusion={
        name: value
        for name, value in default_fusion().get_params().items()
        if name not in ("p", "loss", "solver")
    },
)


def grid_of(training: TrainingData) -> list[tuple[str, Any]]:
    """Kinds of detectors, each in several settings; of equals the first is taken."""
    n, d = training.normals.shape
    scale = 1.0 / (d * (float(training.normals.var()) or 1.0))
    grid: list[tuple[str, Any]] = []
    for width in WIDTHS:
        kernel: dict[str, Any] = {"gamma": width * scale, "approximation": None}
        grid.append(("svdd", SVDD(**kernel)))
        grid += [("gp", OneClassGP(score_type=kind, **kernel)) for kind in ("density", "mean")]
        grid += [("kpca", KernelPCADetector(share, **kernel)) for share in SHARES]
    grid += [
        ("gmm", GMMDetector(k, score_type=kind, random_state=training.seed))
        for k in COMPONENTS
        for kind in ("log_likelihood", "mahalanobis")
        if k < n
    ]
    grid.append(("forest", IsolationForest(random_state=training.seed)))
    grid += [
        ("lof", LocalOutlierFactor(n_neighbors=k, novelty=True))
        for k in NEIGHBOURS
        if k == NEIGHBOURS[0] or k <= n // 2
    ]
    return grid


def _fitted_grid(training: TrainingData) -> list[tuple[str, Any]]:
    """Every candidate, fitted on the training normals once for both settings."""
    if "our grid" not in training.cache:
        grid = grid_of(training)
        own = [detector for kind, detector in grid if kind in OWN]
        fit_together(own, training.normals, thresholds=False)  # scores are all that is asked for
        for kind, detector in grid:
            if kind not in OWN:
                detector.fit(training.normals)
        training.cache["our grid"] = grid
    found: list[tuple[str, Any]] = training.cache["our grid"]
    return found


def _scores(grid: list[tuple[str, Any]], X: Host) -> Host:
    """Scores of rows by every candidate."""
    shared = [detector for kind, detector in grid if kind in KERNELS]
    columns = iter(score_together(shared, X).T)
    return np.column_stack(
        [next(columns) if kind in KERNELS else each.score_samples(X) for kind, each in grid]
    )


def _standardised(detector: Any) -> Any:
    return make_pipeline(StandardScaler(), clone(detector))


def _decided(fused: FusedDetector, training: TrainingData) -> FittedMethod:
    """With the threshold that validation prefers."""
    return FittedMethod(
        fused.score_samples, threshold(training, fused.score_samples(training.validation))
    )


def _fitted(fused: FusedDetector, normals: Host, anomalies: Host) -> FusedDetector:
    X = np.concatenate([normals, anomalies])
    y = np.repeat([1, -1], [len(normals), len(anomalies)])
    with warnings.catch_warnings():  # of small and easy sets: weights that are open, and the like
        warnings.simplefilter("ignore", UserWarning)
        return fused.fit(X, y)
