"""What was learnt, as plain values and in words."""

from __future__ import annotations

from math import ceil, log10
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from lpfuse._arrays import Host
from lpfuse.ensemble import FusedDetector


def outcome(fused: FusedDetector) -> dict[str, Any]:
    """Weights, certificate, threshold and out-of-fold AUC of a fitted detector.

    Parameters
    ----------
    fused : FusedDetector
        Fitted, with weights.

    Returns
    -------
    dict
        Of numbers, texts, and dicts of these. The AUC of each detector and of their fusion is that
        of rows that they have not learnt from; there is none without labelled anomalies.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import FusedDetector, GMMDetector
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> found = outcome(FusedDetector([("gmm", GMMDetector())], random_state=0).fit(X))
    >>> found["learnt_from"], found["auc"]
    ({'normal': 100, 'anomalies': 0}, None)
    """
    names = fused.detector_names_
    labels, certificate = fused.lessons_.labels, fused.certificate_
    return {
        "p": float(fused.fusion_.p),
        "weights": dict(zip(names, map(float, fused.weights_), strict=True)),
        "certificate": {
            "status": certificate.status,
            "value": float(certificate.primal),
            "lower_bound": float(certificate.dual),
            "relative_gap": float(certificate.relative_gap),
        },
        "threshold": float(fused.offset_),
        "false_alarm_rate": float(fused.false_alarm_rate),
        "learnt_from": {"normal": int((labels > 0).sum()), "anomalies": int((labels < 0).sum())},
        "auc": _areas(fused, names) if (labels < 0).any() else None,
    }


def _areas(fused: FusedDetector, names: list[str]) -> dict[str, float | None]:
    """The AUC of each detector and, last, of the fusion."""
    lessons, judged = fused.lessons_, fused.held_out_
    columns = dict(zip(names, lessons.scores.T, strict=True)) | {"fusion": judged.fused}
    return {name: _area(scores, lessons.labels, lessons.fold) for name, scores in columns.items()}


def _area(scores: Host, labels: Host, fold: NDArray[np.intp]) -> float | None:
    """The mean AUC over folds, weighted by their anomalies; None where no fold has both classes.

    Scores of different folds come from different detectors and weights, and do not compare.
    """
    areas, anomalies = [], []
    for number in np.unique(fold[fold >= 0]):
        known = (fold == number) & (labels != 0) & ~np.isnan(scores)
        if len(np.unique(labels[known])) == 2:
            areas.append(roc_auc_score(labels[known] > 0, scores[known]))
            anomalies.append((labels[known] < 0).sum())
    return float(np.average(areas, weights=anomalies)) if areas else None


def proof(relative_gap: float) -> str:
    """How good the weights are, in words that never promise too much.

    Examples
    --------
    >>> proof(2.1e-9), proof(0.0)
    ('proven within 1e-8 of optimal', 'proven within 1e-16 of optimal')
    """
    return f"proven within 1e{ceil(log10(max(relative_gap, 1e-16)))} of optimal"
