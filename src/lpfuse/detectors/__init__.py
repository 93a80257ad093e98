"""One-class learners: each scores rows by how normal they look, high = normal."""

from lpfuse.detectors.diagnostics import KernelWidthWarning
from lpfuse.detectors.gaussian_process import OneClassGP
from lpfuse.detectors.kernel_pca import KernelPCADetector
from lpfuse.detectors.kernels import PAPER_WIDTHS, gamma_from_sigma, sigma_from_gamma
from lpfuse.detectors.mixture import GMMDetector
from lpfuse.detectors.svdd import SVDD
from lpfuse.detectors.together import fit_together, score_together

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
