"""Many detectors, one decision: `FusedDetector`; its parts are in `lpfuse.ensemble.components`."""

from lpfuse.ensemble.fused import FusedDetector

__all__ = ["FusedDetector"]
