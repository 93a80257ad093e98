"""What is known of a column: quantiles of rows that are never all in one place, its values."""

from lpfuse._quantiles.exact import VectorInBlocks
from lpfuse._quantiles.running import RunningQuantiles, take_rows_in
from lpfuse._quantiles.sketch import SIZE, QuantileSketch
from lpfuse._quantiles.values import positions_among, tolerance_of

__all__ = [
    "SIZE",
    "QuantileSketch",
    "RunningQuantiles",
    "VectorInBlocks",
    "positions_among",
    "take_rows_in",
    "tolerance_of",
]
