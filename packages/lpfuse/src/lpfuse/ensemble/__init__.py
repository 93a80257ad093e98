"""Many detectors, one decision: `FusedDetector`; its parts are in `lpfuse.ensemble.components`."""

from lpfuse.ensemble._fused import FusedDetector

__all__ = ["FusedDetector"]
