"""The threshold, and the alarms that it raises: asked for, expected and measured."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays.operations import Host
from lpfuse._files import as_json
from lpfuse.ensemble import FusedDetector
from lpfuse.report._lowest_rows import numeric_columns
from lpfuse.report._measures import calibration
from lpfuse.report._scored_rows import ScoredRows
from lpfuse.tables._alarm_counts import KINDS, Mask, count_alarms, incomplete_rows
from lpfuse.tables._alarm_figures import Figures, alarm_figures, asked_of, share_figures
from lpfuse.threshold import THRESHOLD_RULES

# That people ask for; chosen by hand.
RATES = (0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)


def threshold(fused: FusedDetector, scored: ScoredRows) -> dict[str, Any]:
    """Where it lies, what set it, and what it does to the rows."""
    if fused.contamination is not None:
        rule = f"{fused.contamination:.3g} of unseen rows like the training rows lie below it"
    else:
        words = THRESHOLD_RULES[fused.threshold].words
        rule = words.format(false_alarm_rate=fused.false_alarm_rate)
    flagged = scored.margin < 0
    return {
        "value": as_json(fused.offset_),
        "rule": rule,
        "false_alarm_rate": fused.false_alarm_rate,
        "flagged": {
            name: int(flagged[scored.labels == side].sum()) for name, side in KINDS.items()
        },
    }


def measured_rates(fused: FusedDetector, scored: ScoredRows) -> list[dict[str, float]]:
    """Rates of false alarms that could be asked for, and those measured; none of training rows."""
    pvalues = scored.pvalues[scored.labels > 0]
    pvalues = pvalues[~np.isnan(pvalues)]
    if scored.origin == "learnt" or not len(pvalues):
        return []
    return calibration(pvalues, np.array(sorted({*RATES, float(fused.false_alarm_rate)})))


def rows_without_values(model: Any, rows: Any, X: Any) -> tuple[Mask, Mask]:
    """Which rows lack some value, and which lack all.

    Parameters
    ----------
    model : FusedDetector or TableModel
        Of tables, a text that the training did not hold counts as missing.
    rows, X : data frame, array or data frame
        Rows as they were given, and as the fused detector takes them.
    """
    if hasattr(model, "fused"):
        return (
            incomplete_rows(model.preparation, rows),
            model.preparation.all_missing(rows).to_numpy(),
        )
    cells = numeric_columns(X, [str(j) for j in range(X.shape[1])]).values()
    some = np.zeros(X.shape[0], dtype=bool)
    for column in cells:
        some |= np.isnan(column)
    return some, np.zeros_like(some)


def alarms_of_rows(
    fused: FusedDetector, X: Any, labels: Host, scored: ScoredRows, some: Mask, all_: Mask
) -> tuple[Figures, NDArray[np.intp]]:
    """Of rows that were given: see `alarm_figures`; and which rows are alarms.

    Parameters
    ----------
    fused, X, labels : FusedDetector, array or data frame, ndarray of shape (n,)
        Rows as the detector takes them, and what they are.
    scored : ScoredRows
        Those that could be scored; the others are called anomalies, as `predict` does.
    some, all_ : ndarray of shape (n,) of bool
        What `rows_without_values` found.
    """
    flagged = np.ones(len(labels), dtype=bool)
    flagged[scored.rows] = scored.margin < 0
    flagged |= all_
    counts = count_alarms(fused, X, flagged, labels, some)
    return alarm_figures(fused, counts), np.flatnonzero(flagged)


def alarms_of_training(
    fused: FusedDetector, scored: ScoredRows
) -> tuple[Figures, NDArray[np.intp]]:
    """Of training rows, each scored by what was learnt without its fold: as `alarms_of_rows`.

    Its threshold is that of the other folds, as p-values have it, where a rate of false alarms was
    asked for on average; the verdict is whether the interval of the share holds that rate. Gaps are
    not known any more.
    """
    found = asked_of(fused)
    rate, flagged = found["asked"], scored.margin < 0
    if found["of"] != "normal":
        rate = None
    elif rate is not None and found["confidence"] is None and not found["too_few"]:
        normal = scored.labels > 0
        flagged = np.where(normal, scored.pvalues <= rate + 1e-12, flagged)
    found["rows"] = share_figures(flagged)
    for kind, side in KINDS.items():
        found[kind] = share_figures(flagged[scored.labels == side])
    for kind in ("normal", "unlabelled"):
        if found[kind] is not None:
            found[kind] |= {"expected": None, "verdict": None, "excess": None, "false": None}
    if found["normal"] and rate is not None and not found["too_few"]:
        low, high = found["normal"]["low"], found["normal"]["high"]
        at_most = found["confidence"] is not None
        verdict = "more" if low > rate else "fewer" if high < rate and not at_most else None
        found["normal"]["verdict"] = verdict or "as expected"
    n, flatters = len(scored.rows), scored.origin == "in-sample"
    learnt = {"rows": n, "flatters": flatters, "held_out": None}
    found |= {"complete": None, "incomplete": None, "trained_on": learnt}
    return found, scored.rows[flagged]
