"""Data frames as people have them, with text, dates and gaps: from their columns to numbers.

`make_table_detector` makes an estimator of scikit-learn's kind for data frames of any maker;
`TableModel` is what ``lpfuse fit`` saves: a fused detector and how columns become features. The
package ``lpfuse-cli`` reads and writes files of such tables.
"""

from lpfuse.frames.preparation import TablePreparation, column_changes, learn_preparation
from lpfuse.frames.table_detector import (
    TableDetector,
    TableFormat,
    TableModel,
    make_table_detector,
    outcome,
    proof,
)

__all__ = [
    "TableDetector",
    "TableFormat",
    "TableModel",
    "TablePreparation",
    "column_changes",
    "learn_preparation",
    "make_table_detector",
    "outcome",
    "proof",
]
