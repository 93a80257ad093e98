"""Many detectors, one decision: `FusedDetector` and its parts."""

from lpfuse.ensemble._fused import FusedDetector

__all__ = ["FusedDetector"]
