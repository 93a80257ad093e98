"""What long work tells: the logger "lpfuse", silent unless a program turns it on."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

LOGGER = logging.getLogger("lpfuse")


@contextmanager
def timed(what: str, *values: object, level: int = logging.INFO) -> Iterator[None]:
    """Log that a step ended, and after how many seconds.

    Examples
    --------
    >>> with timed("calibrated on %d rows", 100):
    ...     pass
    """
    begun = monotonic()
    yield
    LOGGER.log(level, f"{what}: %.1f s", *values, monotonic() - begun)
