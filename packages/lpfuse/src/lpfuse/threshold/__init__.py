"""From scores to decisions: thresholds, p-values, and control of false discoveries.

All work on scores alone, high = normal; a row is an anomaly where its score is below the threshold.
*Calibration* scores are those of normal rows that neither detectors nor weights have learnt from.

Scores may be Dask arrays or series. Order statistics take two reads and are as exact as in memory;
what needs all scores in one place says so.
"""

from lpfuse.threshold._discoveries import control_false_discoveries
from lpfuse.threshold._integrative import integrative_pvalues
from lpfuse.threshold._offsets import (
    THRESHOLD_RULES,
    ThresholdRule,
    conformal_offset,
    contamination_offset,
    g_mean_offset,
)
from lpfuse.threshold._promise import CalibrationPromise, calibration_promise
from lpfuse.threshold._pvalues import conformal_pvalues
from lpfuse.threshold._stream import OnlineDiscoveries

__all__ = [
    "THRESHOLD_RULES", "CalibrationPromise", "OnlineDiscoveries", "ThresholdRule",
    "calibration_promise", "conformal_offset", "conformal_pvalues", "contamination_offset",
    "control_false_discoveries", "g_mean_offset", "integrative_pvalues",
]  # fmt: skip
