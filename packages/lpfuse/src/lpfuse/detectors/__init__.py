"""One-class learners: each scores rows by how normal they look, high = normal."""

from lpfuse.detectors._diagnostics import KernelWidthWarning
from lpfuse.detectors._kernels import PAPER_WIDTHS, gamma_from_sigma, sigma_from_gamma
from lpfuse.detectors._together import fit_together, score_together
from lpfuse.detectors.gaussian_process import OneClassGP
from lpfuse.detectors.kernel_pca import KernelPCADetector
from lpfuse.detectors.mixture import GMMDetector
from lpfuse.detectors.svdd import SVDD

__all__ = [
    "PAPER_WIDTHS",
    "SVDD",
    "GMMDetector",
    "KernelPCADetector",
    "KernelWidthWarning",
    "OneClassGP",
    "fit_together",
    "gamma_from_sigma",
    "score_together",
    "sigma_from_gamma",
]
