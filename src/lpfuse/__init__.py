"""Fuse the scores of several anomaly detectors with ℓp-norm constrained weights."""

from lpfuse.fusion.fixed import FixedRule
from lpfuse.fusion.lp import LpFusion, lp_path
from lpfuse.scaling import TwoSidedMinMax

__all__ = ["FixedRule", "LpFusion", "TwoSidedMinMax", "lp_path"]
