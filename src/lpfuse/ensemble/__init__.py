"""Many detectors, one decision: `FusedDetector` and its parts."""

from lpfuse.ensemble.fused import FusedDetector

__all__ = ["FusedDetector"]
