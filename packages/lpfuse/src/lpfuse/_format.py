"""Formatting of numbers and names in tables, pages, figures and messages.

Numbers have a true minus sign (−), which is as wide as a plus, so that columns line up. JSON and
CSV files keep ASCII numbers and do not use this module.
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import Any
from unicodedata import east_asian_width

MINUS = "−"
MISSING = "–"
# Widest name beside the bars of a figure of 640 pixels; chosen by eye.
NAME_WIDTH = 32
# Longest user text in a message, and longest message on a terminal; chosen by hand.
LONGEST_QUOTE, LONGEST_MESSAGE = 200, 4000


def number(value: Any, digits: int = 3, sign: str = "-") -> str:
    """Format a number with the given significant digits.

    Parameters
    ----------
    value : float, str that `float` reads, or None
        The number; None is missing.
    digits : int, default=3
        Significant digits.
    sign : {"-", "+"}, default="-"
        "+": also write the sign of positive numbers.

    Examples
    --------
    >>> number(-1.23456), number(None), number("inf"), number(2.5, sign="+")
    ('−1.23', '–', '∞', '+2.5')
    """
    if value is None:
        return MISSING
    value = float(value)
    if math.isinf(value):
        return "∞" if value > 0 else f"{MINUS}∞"
    return format(value, f"{sign}.{digits}g").replace("-", MINUS)


def readable(value: Any, digits: int = 3) -> str:
    """Format a number without an exponent, with at least `digits` digits and at most six decimals.

    Numbers of the same magnitude have equally many decimals, so that columns line up.

    Parameters
    ----------
    value : float, str that `float` reads, or None
        The number; None is missing.
    digits : int, default=3
        Significant digits; all digits before the point are written.

    Examples
    --------
    >>> readable(-34512.3), readable(0.01234), readable(4e-10), readable(2.5), readable("inf")
    ('−34,512', '0.0123', '0', '2.50', '∞')
    """
    if value is None or not abs(float(value)) < 1e15:  # beyond, doubles are not exact
        return number(value, digits)
    value = float(value)
    if value == 0:
        return "0"
    decimals = min(max(digits - 1 - math.floor(math.log10(abs(value))), 0), 6)
    # Round half up, as the page's script does; `format` would round half to even.
    size = Decimal(abs(value)).quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP)
    return f"{MINUS if value < 0 else ''}{size:,}" if size else "0"


def fixed(value: float | None, digits: int = 3) -> str:
    """Format a number with the given decimals, without a minus before zero.

    Examples
    --------
    >>> fixed(-0.0004), fixed(-0.123456, 2), fixed(None)
    ('0.000', '−0.12', '–')
    """
    if value is None:
        return MISSING
    return f"{round(value, digits) + 0.0:.{digits}f}".replace("-", MINUS)  # −0.0 + 0.0 is 0.0


def percent(share: float | None, digits: int = 1) -> str:
    """Format a share in per cent.

    Examples
    --------
    >>> percent(0.1234), percent(-0.5), percent(-1e-9), percent(0.05, 0)
    ('12.3 %', '−50.0 %', '0.0 %', '5 %')
    """
    return MISSING if share is None else fixed(100 * share, digits) + " %"


def rounded_up(bound: float) -> str:
    """Format an upper bound as one digit and a power of ten, rounded up.

    Examples
    --------
    >>> rounded_up(2.1e-9), rounded_up(4e-5), rounded_up(0.0)
    ('3e−9', '4e−5', '0')
    """
    if bound <= 0:
        return "0"
    power = math.floor(math.log10(bound))
    # Without the 1e-9, 4e-5 / 1e-5 = 4.000000000000001 would become 5.
    return f"{math.ceil(bound / 10.0**power - 1e-9)}e{power}".replace("-", MINUS)


def name_of_p(p: float) -> str:
    """Format the exponent p of a norm as a decimal or a fraction.

    Examples
    --------
    >>> [name_of_p(p) for p in (32 / 31, 1.5, 10.0, 2.34567, float("inf"))]
    ['32/31', '1.5', '10', '2.35', '∞']
    """
    if p == float("inf"):
        return "∞"
    decimal, ratio = f"{p:.3g}", Fraction(p).limit_denominator(99)
    return decimal if float(decimal) == p or abs(ratio - Fraction(p)) > 1e-9 else str(ratio)


def shortened(name: str, width: int = NAME_WIDTH) -> str:
    """Return a name on one line, with its middle cut where it is wider than `width` columns.

    East Asian wide characters take two columns.

    Examples
    --------
    >>> shortened("isolation forest of 500 trees", 16)
    'isolation …trees'
    """
    text = " ".join(name.split())
    columns = sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)
    if columns <= width:
        return text
    kept = width * len(text) // columns - 1
    # Two thirds from the beginning, one from the end: names of one family differ at the end.
    return f"{text[: kept - kept // 3]}…{text[len(text) - kept // 3 :]}"


def quote(value: object) -> str:
    r"""Return the representation of a user's value for a message: short and safe to print.

    Control characters, terminal escapes and direction marks are escaped.

    Examples
    --------
    >>> print(quote("bar"), quote(1), quote("\x1b[2J"), len(quote(10**6 * "a")))
    'bar' 1 '\x1b[2J' 202
    """
    return repr(_cut(value)) if isinstance(value, str) else printable(_cut(repr(value)))


def plain(name: object) -> str:
    """Return a name without quotes where it is short and printable."""
    text = str(name)
    return text if text.isprintable() and len(text) <= LONGEST_QUOTE else quote(text)


def printable(text: str) -> str:
    r"""Escape everything but printable characters and line breaks.

    Examples
    --------
    >>> print(printable("two\nlines, \x1b[31mred\u202e"))
    two
    lines, \x1b[31mred\u202e
    """
    return "".join(
        letter if letter.isprintable() or letter == "\n" else ascii(letter)[1:-1] for letter in text
    )


def brief(message: str) -> str:
    """Return a printable message of bounded length."""
    return printable(_cut(message, LONGEST_MESSAGE))


def _cut(text: str, length: int = LONGEST_QUOTE) -> str:
    """Cut the middle of a long text; two thirds of the rest are its beginning."""
    kept = length - 1
    return text if len(text) <= length else f"{text[: kept - kept // 3]}…{text[-(kept // 3) :]}"


def per_cent(share: float) -> str:
    """Format a share of rows in per cent, with few digits.

    Examples
    --------
    >>> per_cent(0.05), per_cent(0.1449), per_cent(0.0123), per_cent(0.0)
    ('5 %', '14 %', '1.2 %', '0 %')
    """
    return f"{_digits(share)} %"


def per_cent_range(low: float, high: float) -> str:
    """Two shares.

    Examples
    --------
    >>> per_cent_range(0.0213, 0.0881)
    '2.1 to 8.8 %'
    """
    return f"{_digits(low)} to {_digits(high)} %"


def _digits(share: float) -> str:
    value = 100 * share
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}" if value >= 0.95 else f"{value:.1g}"
