"""Fuse the scores of several anomaly detectors with ℓp-norm constrained weights."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from os import PathLike

    from lpfuse import adapters as adapters
    from lpfuse import answers as answers
    from lpfuse import detectors as detectors
    from lpfuse import frames as frames
    from lpfuse import fusion as fusion
    from lpfuse import io as io
    from lpfuse import metrics as metrics
    from lpfuse import monitor as monitor
    from lpfuse import onnx_export as onnx_export
    from lpfuse import paper as paper
    from lpfuse import plots as plots
    from lpfuse import scaling as scaling
    from lpfuse import selection as selection
    from lpfuse import threshold as threshold
    from lpfuse import verification as verification
    from lpfuse import views as views
    from lpfuse.adapters import DirectionWarning
    from lpfuse.detectors import (
        SVDD,
        ColumnForest,
        GMMDetector,
        HistogramDetector,
        KernelPCADetector,
        KNNDetector,
        LOFDetector,
        OneClassGP,
        RobustCovarianceDetector,
    )
    from lpfuse.ensemble import FusedDetector
    from lpfuse.fusion.fixed import FixedRule
    from lpfuse.fusion.lp import LpFusion, lp_path
    from lpfuse.multiclass import OneClassEnsembleClassifier
    from lpfuse.scaling import TailScaler, TwoSidedMinMax
    from lpfuse.selection import FusedDetectorCV
    from lpfuse.verification import verify

    __version__: str

    def load(
        path: str | PathLike[str], trusted: Iterable[str | type] = (), *, key: bytes | None = None
    ) -> FusedDetector | Any:
        """Declare `lpfuse.io.load`, which stands below the detectors, with the type it gives."""


__all__ = [
    "SVDD",
    "ColumnForest",
    "DirectionWarning",
    "FixedRule",
    "FusedDetector",
    "FusedDetectorCV",
    "GMMDetector",
    "HistogramDetector",
    "KNNDetector",
    "KernelPCADetector",
    "LOFDetector",
    "LpFusion",
    "OneClassEnsembleClassifier",
    "OneClassGP",
    "RobustCovarianceDetector",
    "TailScaler",
    "TwoSidedMinMax",
    "load",
    "lp_path",
    "verify",
]

# Loaded when they are first asked for: the command line answers `--help` without scikit-learn.
_MODULE_OF = {
    "SVDD": "detectors",
    "ColumnForest": "detectors",
    "DirectionWarning": "adapters",
    "FixedRule": "fusion.fixed",
    "FusedDetector": "ensemble",
    "FusedDetectorCV": "selection",
    "GMMDetector": "detectors",
    "HistogramDetector": "detectors",
    "KNNDetector": "detectors",
    "KernelPCADetector": "detectors",
    "LOFDetector": "detectors",
    "LpFusion": "fusion.lp",
    "OneClassEnsembleClassifier": "multiclass",
    "OneClassGP": "detectors",
    "RobustCovarianceDetector": "detectors",
    "TailScaler": "scaling",
    "TwoSidedMinMax": "scaling",
    "load": "io",
    "lp_path": "fusion.lp",
    "verify": "verification",
}


if not TYPE_CHECKING:  # a checker that saw it would take every name for one that there is

    def __getattr__(name: str) -> Any:
        if name in _MODULE_OF:
            value = globals()[name] = getattr(import_module(f"lpfuse.{_MODULE_OF[name]}"), name)
            return value
        if name == "__version__":
            return version("lpfuse")
        if name in _SUBMODULES:
            return import_module(f"lpfuse.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# Modules that users reach as `lpfuse.metrics` without importing them.
_SUBMODULES = (
    "adapters",
    "answers",
    "detectors",
    "frames",
    "fusion",
    "io",
    "metrics",
    "monitor",
    "onnx_export",
    "paper",
    "plots",
    "scaling",
    "selection",
    "threshold",
    "verification",
    "views",
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBMODULES})
