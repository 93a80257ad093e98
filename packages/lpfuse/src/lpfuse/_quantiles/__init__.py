"""Quantiles of rows that are never all in one place: summaries, and exact ones by a second look."""

from lpfuse._quantiles.exact import VectorInBlocks
from lpfuse._quantiles.sketch import SIZE, QuantileSketch

__all__ = ["SIZE", "QuantileSketch", "VectorInBlocks"]
