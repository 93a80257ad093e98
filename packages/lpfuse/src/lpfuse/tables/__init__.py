"""Data frames and files: from the columns of a table to a fused detector, from a file to scores.

`TableModel` fits a `FusedDetector` to a table of numbers, texts and gaps, and keeps how its columns
became features; `make_table_detector` makes an estimator of scikit-learn's kind that does the same
for data frames of any maker; `score_file` scores files that are larger than the memory. The
commands of ``lpfuse`` are thin shells around these.
"""

from lpfuse.ensemble.scoring import CONTRIBUTION
from lpfuse.tables._answers import Answers, read_answers
from lpfuse.tables._columns import learn_preparation
from lpfuse.tables._csv_format import TableFormat
from lpfuse.tables._in_memory import read_sample, read_table
from lpfuse.tables._loading import load_model
from lpfuse.tables._model import TableModel
from lpfuse.tables._outcome import outcome, proof
from lpfuse.tables._preparation import TablePreparation
from lpfuse.tables._ranges import column_changes
from lpfuse.tables._table_detector import TableDetector, make_table_detector
from lpfuse.tables._writing import ScoredFile, check_table_target, score_file, table_writer

__all__ = [
    "CONTRIBUTION",
    "Answers",
    "ScoredFile",
    "TableDetector",
    "TableFormat",
    "TableModel",
    "TablePreparation",
    "check_table_target",
    "column_changes",
    "learn_preparation",
    "load_model",
    "make_table_detector",
    "outcome",
    "proof",
    "read_answers",
    "read_sample",
    "read_table",
    "score_file",
    "table_writer",
]
