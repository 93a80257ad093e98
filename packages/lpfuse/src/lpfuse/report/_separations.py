"""The fusion, its detectors and its path: how well each parts anomalies from normal rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from lpfuse._arrays.operations import Host
from lpfuse._files import as_json
from lpfuse._format import name_of_p
from lpfuse.ensemble import FusedDetector
from lpfuse.optim import Certificate, LpPath
from lpfuse.report._measures import FALSE_ALARM_RATES, RECALLS, auc_difference, rounded, separation
from lpfuse.report._scored_rows import ScoredRows

POINTS_OF_A_P = 120  # of a curve: fewer than of the fusion's, for the page carries one for every p


def separations(fused: FusedDetector, scored: ScoredRows, path: LpPath | None) -> dict[str, Any]:
    """The fusion, its detectors and its path: how well each parts anomalies from normal rows."""
    known = scored[(scored.labels != 0) & ~np.isnan(scored.raw).any(axis=1)]
    known = known[np.isin(known.fold, known.fold[known.labels > 0])]  # rows that compare
    y, detectors = known.labels, []
    can_judge = bool((y > 0).any() and (y < 0).any())

    def judged(scores: Host, **options: Any) -> dict[str, Any]:
        if not can_judge:
            return dict.fromkeys(NOTHING)
        return separation(y, scores, known.fold, **options)

    weights = getattr(fused.fusion_, "weights_", None)
    for j, entry in enumerate(fused.detectors_):
        detectors.append({**_detector(*entry), **_weight(weights, j), **judged(known.raw[:, j])})
    comparisons = []
    if can_judge:
        best = max(range(len(detectors)), key=lambda j: detectors[j]["auc"])
        rivals = {"best detector": known.raw[:, best], "equal weights": known.equal}
        comparisons = [
            {"with": name, **auc_difference(y, known.fused, scores, known.fold)}
            for name, scores in rivals.items()
        ]
        comparisons[0]["name"] = detectors[best]["name"]
    return {
        "fusion": {**_fusion(fused), **judged(known.fused)},
        "equal_weights": judged(known.equal),
        "comparisons": comparisons,
        "detectors": detectors,
        "path": []
        if path is None
        else [
            {
                "p": as_json(p),
                "label": name_of_p(p),
                "chosen": p == fused.fusion_.p,
                "weights": rounded(w),
                "shares": rounded(_shares(w)),
                "certificate": certificate_figures(certificate),
                **judged(known.by_p[:, k], points=POINTS_OF_A_P),
            }
            for k, (p, w, certificate) in enumerate(
                zip(path.ps.tolist(), path.weights, path.certificates, strict=True)
            )
        ],
        "grid": {"false_alarm_rates": list(FALSE_ALARM_RATES), "recalls": list(RECALLS)},
    }


NOTHING = ("auc", "average_precision", "roc", "pr", "found_at", "precision_at")


def _fusion(fused: FusedDetector) -> dict[str, Any]:
    p = getattr(fused.fusion_, "p", None)
    own = (
        {"p": None, "label": None} if p is None else {"p": as_json(float(p)), "label": name_of_p(p)}
    )
    return {"what": type(fused.fusion_).__name__, **own}


def _detector(name: str, estimator: Any, columns: Any) -> dict[str, Any]:
    return {
        "name": name,
        "what": _described(estimator),
        "columns": None if columns is None else len(columns),
    }


def _described(estimator: Any) -> str:
    """The classes that a detector is made of."""
    if isinstance(estimator, Pipeline):
        return " → ".join(_described(step) for _, step in estimator.steps)
    if isinstance(estimator, FrozenEstimator):
        return _described(estimator.estimator)
    adapted = getattr(estimator, getattr(estimator, "_adapts", ""), None)
    if adapted is not None:
        return _described(adapted)
    return getattr(estimator, "__name__", type(estimator).__name__)


def _weight(weights: Host | None, j: int) -> dict[str, float | None]:
    if weights is None:
        return {"weight": None, "share": None}
    return {"weight": float(weights[j]), "share": float(_shares(weights)[j])}


def _shares(weights: Host) -> Host:
    total = np.abs(weights).sum()
    return weights / total if total > 0 else np.zeros_like(weights)


def certificate_figures(certificate: Certificate | None) -> dict[str, Any] | None:
    if certificate is None:
        return None
    figures = ("primal", "dual", "gap", "relative_gap")
    return {
        "status": certificate.status,
        **{figure: as_json(getattr(certificate, figure)) for figure in figures},
    }
