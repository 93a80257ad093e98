"""What a `FusedDetector` is made of where users say nothing: the pool, and how it is weighed.

To add a detector to the default pool, add it to the table in `default_detectors`.
"""

from __future__ import annotations

from typing import Any

from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from lpfuse.detectors import (
    SVDD,
    ColumnForest,
    GMMDetector,
    HistogramDetector,
    KernelPCADetector,
    KNNDetector,
    OneClassGP,
)
from lpfuse.fusion.lp import LpFusion
from lpfuse.views import FilledGaps, NormalQuantiles

Entries = list[tuple[str, Any]]

# Labelled anomalies from which there are experts. With fewer, a fold would have none to learn from.
EXPERTS_FROM = 2
# Rows beyond which kernels are approximated: cubic costs are not worth it, for 500 features lose
# nothing in the ranks.
EXACT_ROWS = 1_500
# Rows beyond which there is no support vector machine, whose cost is quadratic.
SVM_ROWS = 5_000


def paper_detectors() -> Entries:
    """The paper's learners with the paper's scores, on standardised features without gaps.

    Examples
    --------
    >>> [name for name, _ in paper_detectors()]
    ['svdd', 'gp', 'kpca', 'gmm']
    """
    learners = {
        "svdd": SVDD(),
        "gp": OneClassGP(score_type="mean"),
        "kpca": KernelPCADetector(),
        "gmm": GMMDetector(score_type="mahalanobis"),
    }
    return [(name, _filled(StandardScaler(), made)) for name, made in learners.items()]


def default_detectors(n: int, n_anomalies: float) -> Entries:
    """The default pool: one-class detectors and, with labelled anomalies, experts.

    Parameters
    ----------
    n : int
        Rows that one-class detectors learn from.
    n_anomalies : int, or infinity for all experts
        Labelled anomalies that experts can learn from.

    Returns
    -------
    list of (name, detector)
        For ``FusedDetector(detectors=...)``.

    Notes
    -----
    Chosen out of 44 by mean AUC on 151 tables of many fields, and confirmed on 151 others
    (``docs/adr/0017``). All one-class detectors have leave-one-out scores in closed form, or nearly
    so: but the process between 1,500 and 10,000 rows, none has to be fitted to folds.

    Examples
    --------
    >>> for name, _ in default_detectors(300, 20):
    ...     print(name)
    gp
    knn
    knn subspaces
    knn samples
    histogram
    columns
    trees
    boosting
    svm
    """
    approximation = None if n <= EXACT_ROWS else "nystroem"
    process = OneClassGP(score_type="density", gamma="narrow", approximation=approximation)
    subspaces = KNNDetector(n_neighbors=1, n_subspaces=20)
    # Samples of 16 rows: a dense group of hidden anomalies has hardly a member in them.
    samples = KNNDetector(n_neighbors=1, n_subspaces=40, max_samples=16)
    pool = [
        ("gp", _filled(NormalQuantiles(), process)),
        ("knn", _filled(StandardScaler(), KNNDetector(n_neighbors=1))),
        ("knn subspaces", _filled(NormalQuantiles(), subspaces)),
        ("knn samples", _filled(NormalQuantiles(), samples)),
        ("histogram", _filled(HistogramDetector())),
        ("columns", _filled(NormalQuantiles(), ColumnForest(n_trees=40))),
    ]
    if n_anomalies < EXPERTS_FROM:
        return pool
    # There are five fits of each, whose mean counts: with 40 trees instead of 100, and 40 steps of
    # 0.2 instead of 150 of 0.05, the fused scores rank as well (docs/adr/0023).
    trees = ExtraTreesClassifier(n_estimators=40, class_weight="balanced", min_samples_leaf=2)
    # Far from its defaults, which are made for many labels: a leaf may hold a single anomaly.
    boosting = HistGradientBoostingClassifier(
        learning_rate=0.2,
        max_iter=40,
        max_depth=4,
        min_samples_leaf=1,
        l2_regularization=1.0,
        max_features=0.5,
        early_stopping=False,
        max_bins=64,  # as good as 255, and four times as fast with weights of rows
    )
    pool += [("trees", _filled(NormalQuantiles(), trees)), ("boosting", _filled(boosting))]
    if n <= SVM_ROWS:
        machine = SVC(C=0.3, gamma="scale", class_weight="balanced")
        pool.append(("svm", _filled(NormalQuantiles(), machine)))
    return pool


def _filled(*steps: Any) -> Pipeline:
    """The steps behind one that fills missing cells in: no detector is silent about such rows.

    Whether a cell is missing is told to none of them. With a feature that tells it, 56 % of the
    rows with a gap were flagged where 7 % of them had one, and 0.2 % of the others.
    """
    return make_pipeline(FilledGaps(), *steps)


def default_fusion() -> LpFusion:
    """How the weights are learnt without a prior, whatever the labels can tell.

    One imaginary anomaly, which counts for three, keeps the weights near uniform while there are
    few labels, and stands for anomalies while there are none. All settings are those with the best
    mean AUC on 30 development sets, where the optimum is flat (``docs/adr/0006``).

    Examples
    --------
    >>> default_fusion().p
    4.0
    """
    return LpFusion(
        p=4.0,
        class_weight="balanced",
        fit_intercept=True,
        nonnegative=True,
        imaginary_anomalies=3.0,
    )
