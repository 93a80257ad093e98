"""Numbers as people read them."""

from __future__ import annotations

import math
from typing import Any

MINUS = "−"


def number(value: Any, digits: int = 3, sign: str = "-") -> str:
    """A number as one writes it.

    Examples
    --------
    >>> number(-1.23456), number(None), number("inf"), number(2.5, sign="+")
    ('−1.23', '–', '∞', '+2.5')
    """
    if value is None:
        return "–"
    value = float(value)
    if math.isinf(value):
        return "∞" if value > 0 else f"{MINUS}∞"
    return format(value, f"{sign}.{digits}g").replace("-", MINUS)


def fixed(value: float | None, digits: int = 3) -> str:
    """A number with that many decimals; no minus before a zero.

    Examples
    --------
    >>> fixed(-0.0004), fixed(-0.123456, 2), fixed(None)
    ('0.000', '−0.12', '–')
    """
    return "–" if value is None else f"{round(value, digits) + 0.0:.{digits}f}".replace("-", MINUS)


def percent(share: float | None) -> str:
    """A share in per cent.

    Examples
    --------
    >>> percent(0.1234), percent(-0.5), percent(-1e-9)
    ('12.3 %', '−50.0 %', '0.0 %')
    """
    return "–" if share is None else fixed(100 * share, 1) + " %"


def small(gap: float) -> str:
    """A relative gap as one digit and a power of ten, never less than it is.

    Examples
    --------
    >>> small(2.1e-9), small(4e-5), small(0.0)
    ('3e−9', '4e−5', '0')
    """
    if gap <= 0:
        return "0"
    power = math.floor(math.log10(gap))
    return f"{math.ceil(gap / 10.0**power - 1e-9)}e{power}".replace("-", MINUS)
