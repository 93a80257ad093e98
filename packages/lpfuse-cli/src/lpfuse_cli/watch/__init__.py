"""Score rows as they arrive, each exactly once, and detect drift.

`watch` follows a CSV file that grows, a folder, standard input or a topic of Kafka, and writes the
verdict on each row exactly once, however it was ended in between. The command is ``lpfuse watch``.
"""

from lpfuse_cli.watch.run import Watched, WatchSettings, watch

__all__ = ["WatchSettings", "Watched", "watch"]
