"""Fuse the scores of several anomaly detectors with ℓp-norm constrained weights."""

from lpfuse.detectors import SVDD, GMMDetector, KernelPCADetector, OneClassGP
from lpfuse.fusion.fixed import FixedRule
from lpfuse.fusion.lp import LpFusion, lp_path
from lpfuse.scaling import TwoSidedMinMax

__all__ = [
    "SVDD",
    "FixedRule",
    "GMMDetector",
    "KernelPCADetector",
    "LpFusion",
    "OneClassGP",
    "TwoSidedMinMax",
    "lp_path",
]
