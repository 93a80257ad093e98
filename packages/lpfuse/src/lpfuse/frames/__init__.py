"""Data frames as people have them, with text, dates and gaps: from their columns to numbers.

`lpfuse.FusedDetector` takes such frames and keeps a `TablePreparation`: what each column was taken
for, and how it becomes features. The package ``lpfuse-cli`` reads and writes files of tables.
"""

from lpfuse.frames.cells import TableFormat
from lpfuse.frames.preparation import TablePreparation, column_changes, learn_preparation

__all__ = ["TableFormat", "TablePreparation", "column_changes", "learn_preparation"]
