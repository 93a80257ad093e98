"""Numbers as JSON has them."""

from __future__ import annotations

import math
from typing import Any

from lpfuse._arrays import Host
from lpfuse._files import as_json

DIGITS = 8


def plain(value: Any) -> float | str | None:
    """A number; infinity by name, None for NaN.

    Examples
    --------
    >>> plain(1), plain(float("-inf")), plain(float("nan"))
    (1.0, '-inf', None)
    """
    number: float | str | None = as_json(float(value))
    return number


def rounded(values: Host) -> list[float | None]:
    """Numbers of eight decimals; None for NaN."""
    return [None if math.isnan(value) else round(value, DIGITS) for value in values.tolist()]
