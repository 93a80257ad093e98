"""One-class learners: each scores rows by how normal they look, high = normal."""

from lpfuse.detectors.base import fit_together
from lpfuse.detectors.columns import ColumnForest, HistogramDetector
from lpfuse.detectors.covariance import RobustCovarianceDetector
from lpfuse.detectors.gaussian_process import OneClassGP
from lpfuse.detectors.kernel_pca import KernelPCADetector
from lpfuse.detectors.kernels import (
    PAPER_WIDTHS,
    KernelWidthWarning,
    gamma_from_sigma,
    score_together,
)
from lpfuse.detectors.local_density import LOFDetector
from lpfuse.detectors.mixture import GMMDetector
from lpfuse.detectors.neighbours import KNNDetector
from lpfuse.detectors.svdd import SVDD

__all__ = [
    "PAPER_WIDTHS",
    "SVDD",
    "ColumnForest",
    "GMMDetector",
    "HistogramDetector",
    "KNNDetector",
    "KernelPCADetector",
    "KernelWidthWarning",
    "LOFDetector",
    "OneClassGP",
    "RobustCovarianceDetector",
    "fit_together",
    "gamma_from_sigma",
    "score_together",
]
