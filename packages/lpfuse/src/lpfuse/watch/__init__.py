"""Rows that keep coming: verdicts as they arrive, and word when they stop being as they were.

`watch` follows a CSV file that grows, a folder, standard input or a topic of Kafka, and writes what
a model says of each row exactly once, whatever ends it in between. The command is ``lpfuse watch``.
"""

from lpfuse.watch._watching import Watched, watch

__all__ = ["Watched", "watch"]
