"""Seconds of one call."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def timed(action: Callable[[], T]) -> tuple[float, T]:
    """Wall-clock seconds and the result."""
    gc.collect()
    start = time.perf_counter()
    result = action()
    return time.perf_counter() - start, result
