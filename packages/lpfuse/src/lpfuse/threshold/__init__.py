"""From scores to decisions: thresholds, p-values, and control of false discoveries.

All work on scores alone, high = normal; a row is an anomaly where its score is below the threshold.
*Calibration* scores are those of normal rows that neither detectors nor weights have learnt from.

Scores may be Dask arrays or series. Order statistics take two reads and are as exact as in memory;
what needs all scores in one place says so.
"""

from lpfuse.threshold.discoveries import (
    OnlineDiscoveries,
    control_false_discoveries,
    integrative_pvalues,
)
from lpfuse.threshold.offsets import (
    THRESHOLD_RULES,
    CalibrationPromise,
    ThresholdRule,
    calibration_promise,
    conformal_offset,
    conformal_pvalues,
    contamination_offset,
    g_mean_offset,
)

__all__ = [
    "THRESHOLD_RULES", "CalibrationPromise", "OnlineDiscoveries", "ThresholdRule",
    "calibration_promise", "conformal_offset", "conformal_pvalues", "contamination_offset",
    "control_false_discoveries", "g_mean_offset", "integrative_pvalues",
]  # fmt: skip
