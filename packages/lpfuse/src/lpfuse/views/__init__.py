"""Views of a table: the same rows without gaps, or with columns that distances suit better."""

from lpfuse.views._columns import Indicators, NormalQuantiles
from lpfuse.views._gaps import FilledGaps

__all__ = ["FilledGaps", "Indicators", "NormalQuantiles"]
