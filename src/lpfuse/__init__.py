"""Fuse the scores of several anomaly detectors with ℓp-norm constrained weights."""

from lpfuse.detectors import SVDD, GMMDetector, KernelPCADetector, OneClassGP
from lpfuse.ensemble import FusedDetector
from lpfuse.fusion.fixed import FixedRule
from lpfuse.fusion.lp import LpFusion, lp_path
from lpfuse.iterative import IterativeEnsemble
from lpfuse.multiclass import OneClassEnsembleClassifier
from lpfuse.persistence import load
from lpfuse.scaling import TwoSidedMinMax
from lpfuse.selection import FusedDetectorCV

__all__ = [
    "SVDD",
    "FixedRule",
    "FusedDetector",
    "FusedDetectorCV",
    "GMMDetector",
    "IterativeEnsemble",
    "KernelPCADetector",
    "LpFusion",
    "OneClassEnsembleClassifier",
    "OneClassGP",
    "TwoSidedMinMax",
    "load",
    "lp_path",
]
