"""What was learnt, as plain values and in words."""

from __future__ import annotations

from math import ceil, log10
from typing import Any

from lpfuse.ensemble import FusedDetector
from lpfuse.metrics import auc_over_folds
from lpfuse.tables._alarm_figures import asked_of


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
        ``alarms`` is the rate asked for, and what the calibration can promise: see `asked_of`.

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
    labels, certificate = fused.out_of_fold_.labels, fused.certificate_
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
        "alarms": asked_of(fused),
        "learnt_from": {"normal": int((labels > 0).sum()), "anomalies": int((labels < 0).sum())},
        "auc": _areas(fused, names) if (labels < 0).any() else None,
    }


def _areas(fused: FusedDetector, names: list[str]) -> dict[str, float | None]:
    """The AUC of each detector and, last, of the fusion; None where no fold has both classes."""
    out_of_fold = fused.out_of_fold_
    # Rows that were kept back come last: no detector has scores of theirs in its folds.
    held_out = fused.held_out_.fused[: len(out_of_fold.labels)]
    columns = dict(zip(names, out_of_fold.scores.T, strict=True)) | {"fusion": held_out}
    return auc_over_folds(out_of_fold.labels, columns, out_of_fold.fold)


def proof(relative_gap: float) -> str:
    """How good the weights are, in words that never promise too much.

    Examples
    --------
    >>> proof(2.1e-9), proof(0.0)
    ('proven within 1e-8 of optimal', 'proven within 1e-16 of optimal')
    """
    return f"proven within 1e{ceil(log10(max(relative_gap, 1e-16)))} of optimal"
