"""What a fitted detector learnt, and the false alarms its threshold allows, in plain values."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, log10
from typing import TYPE_CHECKING, Any

import numpy as np

from lpfuse._format import per_cent, quote
from lpfuse._validation.params import counted, listed
from lpfuse.metrics import auc_over_folds
from lpfuse.threshold import CalibrationPromise, calibration_promise
from lpfuse.threshold.offsets import requested_rate
from lpfuse.time.level import BURST

if TYPE_CHECKING:
    from lpfuse.ensemble.fused import FusedDetector


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
        ``alarms`` is the requested rate, and what the calibration can promise: `requested_rate`.

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
    labels, certificate = fused.out_of_fold_.labels, fused.fusion_.certificate_
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
        "alarms": requested_rate(fused),
        "learnt_from": {"normal": int((labels > 0).sum()), "anomalies": int((labels < 0).sum())},
        "auc": _areas(fused, names) if (labels < 0).any() else None,
        "rows": rows_by_label(fused),
        "origin": weights_origin(fused),
        "sentences": describe_learning(fused),
    }


def promise_of(fused: FusedDetector) -> CalibrationPromise:
    """Return what a fitted `FusedDetector` promises about false alarms."""
    found, result = requested_rate(fused), fused.result_
    n, rate, order = max(found["calibration_rows"], 1), found["asked"], result.order
    promise = calibration_promise(
        n, rate or fused.false_alarm_rate, found["confidence"],
        out_of_fold=result.calibration.by != "split",
    )  # fmt: skip
    if rate is None:
        return replace(promise, because="the threshold was set by labelled rows, not by a rate")
    if order.order == "time" and (result.calibration.by == "plain" or not promise.k):
        few = "there was no rehearsal on rows in time order, or one of too few rows"
        return replace(promise, because=few)
    return replace(promise, because=order.because, burst=BURST if order.order == "time" else None)


def rows_by_label(fused: FusedDetector) -> dict[str, int]:
    """Count the training rows: known to be normal, known anomalies, unlabelled, and set aside.

    Rows that are set aside calibrate the threshold, and nothing learns from them.
    """
    known, n = fused.out_of_fold_.known, fused.result_.n_learnt
    known = np.zeros(n) if known is None else known
    sides = {"normal": known > 0, "anomalies": known < 0, "unlabelled": known == 0}
    counts = {name: int(side.sum()) for name, side in sides.items()}
    return counts | {"set_aside": fused.unseen_.n_split}


def weights_origin(fused: FusedDetector) -> dict[str, Any]:
    """Return where the weights come from.

    Returns
    -------
    dict
        ``from``: "tables" (what did well on other tables), "prior" (given by the user), "equal"
        (all alike) or "rows" (learnt from the rows alone). ``moved``: the share of the weight that
        the rows moved from one detector to others, 0 to 1; None where there is no prior.
        ``experts``: names of the detectors that learnt from labelled anomalies, and ``trust``, the
        share of the weight that they have.
    """
    fusion, weights = fused.fusion_, np.abs(getattr(fused.fusion_, "weights_", np.empty(0)))
    prior, moved, origin = getattr(fusion, "prior", None), None, "rows"
    if prior is not None and weights.sum():
        prior = np.abs(np.asarray(prior, dtype=np.float64))
        moved = float(0.5 * np.abs(weights / weights.sum() - prior / prior.sum()).sum())
        given = fused.prior is not None and not isinstance(fused.prior, str)
        origin = "prior" if given or fused.fusion is not None else "tables"
    experts = [member.name for member in fused.pool_.experts]
    theirs = np.isin(fused.detector_names_, experts)
    trust = float(weights[theirs].sum() / weights.sum()) if weights.sum() else None
    return {"from": origin, "moved": moved, "experts": experts, "trust": trust}


def describe_learning(fused: FusedDetector) -> list[str]:
    """Say which rows were learnt from, where the weights come from, and what is proven of them."""
    rows, origin = rows_by_label(fused), weights_origin(fused)
    words = {"anomalies": "known anomalies", "unlabelled": "unlabelled"}
    words = {"normal": "known to be normal"} | words
    kinds = [f"{rows[key]:,} {word}" for key, word in words.items() if rows[key]]
    aside = f"; {counted(rows['set_aside'], 'row')} set aside" if rows["set_aside"] else ""
    total = rows["normal"] + rows["anomalies"] + rows["unlabelled"]
    told = [f"Learnt from {counted(total, 'row')}: {listed(kinds)}{aside}."]
    certificate = fused.certificate_
    proven = "" if certificate is None else f", {proof(float(certificate.relative_gap))}"
    source = "other tables" if origin["from"] == "tables" else "the prior"
    if len(fused.detector_names_) == 1:
        told.append("A single detector has all the weight.")
    elif origin["moved"] is None:
        told.append(f"The weights were learnt from these rows{proven}.")
    elif origin["moved"] < UNMOVED:
        why = "there are no labelled anomalies to learn them from"
        if rows["anomalies"]:
            few = counted(rows["anomalies"], "known anomaly", "known anomalies")
            why = f"{few} gave no reason to move them"
        told.append(f"The weights are those of {source}: {why}.")
    else:
        told.append(
            f"The weights come from {source}, and the labels moved {per_cent(origin['moved'])} of "
            f"them{proven}."
        )
    if origin["experts"] and origin["trust"] is not None:
        names = listed(map(quote, origin["experts"]))
        told.append(
            f"{names} learnt from the known anomalies and have {per_cent(origin['trust'])} of the "
            "weight."
        )
    return told


UNMOVED = 1e-6  # share of the weights below which they are those of the prior, up to rounding


def _areas(fused: FusedDetector, names: list[str]) -> dict[str, float | None]:
    """Compute the AUC of each detector and of the fusion; None without both classes in a fold."""
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
