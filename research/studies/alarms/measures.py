"""What is measured in one repetition: alarms, p-values, discoveries, hits, seconds."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from lpfuse import FusedDetector
from lpfuse._arrays.operations import Host
from lpfuse.threshold import control_false_discoveries
from research.common.store import Record
from research.studies.alarms.sources import FAR_ONES, Rows

RATES = (0.01, 0.05, 0.1)  # asked for
DISCOVERY_RATE = 0.1
BATCH_NORMALS = 180  # beside FAR_ONES anomalies in a batch of which discoveries are made
# Where the distribution of p-values is kept: the test of the page looks at these points.
POINTS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
ROUNDING = 1e-12  # a p-value of 50/1000 counts as at most 5 %

Make = Callable[..., Any]


def measured(rows: Rows, seed: int, make: Make = FusedDetector) -> Record:
    """One fit and all that is told of it, shares in per cent.

    Parameters
    ----------
    rows : Rows
        What to learn from and to measure on.
    seed : int
        Of the detector.
    make : callable
        ``make(random_state=seed)`` gives a detector with `fit`, `pvalues`, `predict`,
        `score_samples` and ``calibration_``.

    Returns
    -------
    dict
        Plain numbers.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few rows, gaps, what n cannot promise
        start = time.process_time()
        passed = {} if rows.groups is None else {"groups": rows.groups}
        detector = make(random_state=seed).fit(rows.X, rows.y, **passed)
        fitted = time.process_time()
        asked = np.concatenate([rows.fresh, rows.sought, rows.far])
        cuts = np.cumsum([len(rows.fresh), len(rows.sought)])
        normal, sought, far = np.split(np.asarray(detector.pvalues(asked)), cuts)
        scores = np.asarray(detector.score_samples(asked[: cuts[1]]))
        alarms = np.asarray(detector.predict(rows.fresh)) < 0
        done = time.process_time()
    known = len(detector.calibration_)
    return {
        "calibration_rows": known,
        "fresh": len(rows.fresh),
        "alarms": [_per_cent(_at_most(normal, rate).mean()) for rate in RATES],
        "predicted": _per_cent(alarms.mean()),
        **_alarms_of_gaps(rows.fresh, normal),
        "silent": _per_cent(np.isnan(normal).mean()),
        "distribution": [_per_cent(_at_most(normal, point).mean()) for point in POINTS],
        "excess": round(excess(normal), 5),
        **_discoveries(normal[:BATCH_NORMALS], far, known),
        "hits": _per_cent(_at_most(sought, 0.05).mean()),
        **_detection(scores, len(rows.fresh)),
        "seconds": round(fitted - start, 3),
        "scoring_seconds": round(done - fitted, 3),
        **rows.about,
    }


def excess(pvalues: Host) -> float:
    r"""How far the distribution of p-values lies above the uniform one, at its worst.

    .. math:: D^+ = \max_t \left( \frac{\#\{i : p_i \le t\}}{m} - t \right)

    0 for p-values that are larger everywhere. NaN is no alarm, and counts as 1.

    Examples
    --------
    >>> excess(np.array([0.5, 0.1, 0.9, 1.0]))  # half of them are at most 0.5: 0 over; at 0.1: 0.15
    0.15
    """
    ordered = np.sort(np.where(np.isnan(pvalues), 1.0, pvalues))
    above = np.arange(1, len(ordered) + 1) / len(ordered) - ordered
    return max(0.0, float(above.max()))


def _at_most(pvalues: Host, rate: float) -> Any:
    return pvalues <= rate + ROUNDING


def _alarms_of_gaps(fresh: Host, pvalues: Host) -> Record:
    """Alarms at 5 % among rows that lack a cell, where there are any."""
    holed = np.isnan(fresh).any(axis=1)
    return {"gap_alarms": _per_cent(_at_most(pvalues[holed], 0.05).mean())} if holed.any() else {}


def _discoveries(normal: Host, far: Host, known: int) -> Record:
    """False ones among all, and anomalies that are found, by Benjamini and Hochberg at 10 %.

    Once with anomalies as they are, once with ones that look stranger than every calibration row:
    the worst case, for each of them lets the procedure go on.
    """
    strangest = np.full(FAR_ONES, 1 / (known + 1))
    normal, far = (np.where(np.isnan(p), 1.0, p) for p in (normal, far))
    shares = []
    for anomalies in (far, strangest):
        made = np.asarray(
            control_false_discoveries(np.concatenate([normal, anomalies]), DISCOVERY_RATE)
        )
        false = made[: len(normal)].sum()
        shares.append(_per_cent(false / max(1, made.sum())))
        if anomalies is far:
            found = _per_cent(made[len(normal) :].mean())
    return {"false_discoveries": shares, "found": found}


def _detection(scores: Host, fresh: int) -> Record:
    """AUC, and hits where exactly 5 % of the fresh rows are below: whatever the threshold is."""
    usable = np.where(np.isnan(scores), np.nanmax(scores), scores)  # no alarm where no score
    is_normal = np.arange(len(scores)) < fresh
    level = np.quantile(usable[is_normal], 0.05)
    return {
        "auc": _per_cent(roc_auc_score(is_normal, usable)),
        "hits_at_same": _per_cent((usable[~is_normal] < level).mean()),
    }


def _per_cent(share: Any) -> float:
    return round(100 * float(share), 3)
