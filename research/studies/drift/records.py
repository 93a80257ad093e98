"""What is kept of a watcher's numbers: enough to tell its delays at any line."""

from __future__ import annotations

from typing import Any

import numpy as np

CHANGE = 5_000  # the row from which on a stream is another
# Its largest number by these rows after the change: a delay between two is told as the later one.
DELAYS = (*range(10, 400, 10), *range(400, 1000, 50), *range(1000, 5001, 250))


def kept(numbers: Any, change: str | None) -> dict[str, Any]:
    """Of numbers after each row: the largest before the change, and by when which was reached."""
    highest = np.maximum.accumulate(numbers)
    if change is None:
        return {"highest": float(highest[-1])}
    after = [round(float(highest[CHANGE + delay - 1]), 4) for delay in DELAYS]
    return {"highest": float(highest[CHANGE - 1]), "after": after}


def delay(record: dict[str, Any], line: float) -> float:
    """Rows from the change until a line is crossed; NaN where it was before, infinite if never.

    Examples
    --------
    >>> delay({"highest": 0.5, "after": [0.6, 0.9, *[2.0] * (len(DELAYS) - 2)]}, 0.8)
    20.0
    """
    if record["highest"] > line:
        return float("nan")
    crossed = [d for d, value in zip(DELAYS, record["after"], strict=True) if value > line]
    return float(crossed[0]) if crossed else float("inf")
