"""Ways to fuse scores: one interface, one file a family."""

from lpfuse.fusion.fixed import FixedRule
from lpfuse.fusion.lp import PAPER_GRID, LpFusion, lp_path
from lpfuse.fusion.stacking import BestSingle, LinearSVMStacker, LogisticStacker

__all__ = [
    "PAPER_GRID",
    "BestSingle",
    "FixedRule",
    "LinearSVMStacker",
    "LogisticStacker",
    "LpFusion",
    "lp_path",
]
