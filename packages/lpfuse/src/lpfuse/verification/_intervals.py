"""Numbers between two rationals, and ℓp norms of rationals between two bounds.

Sums and products of rationals are never rounded. Powers with a general exponent come from
`decimal`, whose ``ln`` and ``exp`` are rounded correctly to as many digits as asked for: what the
chain of them can be off by is far below `WIDTH`, by which their results are widened.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Context, Decimal
from fractions import Fraction
from typing import NamedTuple

DIGITS = 100
# x^e = exp(e ln x) with 0 < x ≤ 1, to digits of 1e-99: the exponent is off by at most
# (e + 3 |e ln x|) 1e-99, where e ≤ 1e30, and powers below exp(-1e4) are left out. So norms are off
# by less than 1e-68 of themselves, for a million entries too.
WIDTH = Fraction(1, 10**60)
LARGEST_EXPONENT = 10**30  # beyond, the norm is the largest entry, to 1e-30 for each entry
SMALLEST_POWER = -10_000


class Interval(NamedTuple):
    """A number that lies between two rationals, ends included.

    Examples
    --------
    >>> Interval.around(Fraction(3), Fraction(1)).minus(Interval.point(Fraction(1)))
    Interval(low=Fraction(1, 1), high=Fraction(3, 1))
    """

    low: Fraction
    high: Fraction

    @classmethod
    def point(cls, x: Fraction) -> Interval:
        """A number that is known."""
        return cls(x, x)

    @classmethod
    def around(cls, middle: Fraction, radius: Fraction) -> Interval:
        """A number within the radius of the middle."""
        return cls(middle - radius, middle + radius)

    @property
    def middle(self) -> Fraction:
        """Half-way between the ends."""
        return self.low if self.low == self.high else (self.low + self.high) / 2

    @property
    def radius(self) -> Fraction:
        """How far the ends are from the middle."""
        return (self.high - self.low) / 2

    def plus(self, other: Interval) -> Interval:
        """``x + y`` for all x and y in both."""
        return Interval(self.low + other.low, self.high + other.high)

    def minus(self, other: Interval) -> Interval:
        """``x − y`` for all x and y in both."""
        return Interval(self.low - other.high, self.high - other.low)

    def times(self, other: Interval) -> Interval:
        """``x y`` for all x and y in both."""
        if self.low == self.high and other.low == other.high:  # as most are: one product for four
            return Interval.point(self.low * other.low)
        ends = [x * y for x in self for y in other]
        return Interval(min(ends), max(ends))

    def over(self, other: Interval) -> Interval:
        """``x / y`` for all x and y in both; the y are positive."""
        return self.times(Interval(1 / other.high, 1 / other.low))

    def size(self) -> Interval:
        """``|x|`` for all x in it."""
        return Interval(max(self.low, -self.high, Fraction(0)), max(-self.low, self.high))


def total(intervals: Sequence[Interval]) -> Interval:
    """The sum of numbers."""
    return Interval(
        sum((each.low for each in intervals), Fraction(0)),
        sum((each.high for each in intervals), Fraction(0)),
    )


def conjugate(p: Fraction | float) -> Fraction | float:
    """The q with ``1/p + 1/q = 1``, exactly.

    Examples
    --------
    >>> conjugate(Fraction(4, 3)), conjugate(Fraction(1)), conjugate(math.inf)
    (Fraction(4, 1), inf, Fraction(1, 1))
    """
    if p == math.inf:
        return Fraction(1)
    return math.inf if p == 1 else p / (p - 1)


def norm(v: Sequence[Fraction], p: Fraction | float) -> Interval:
    """``‖v‖_p``.

    Examples
    --------
    >>> found = norm([Fraction(3), Fraction(-4)], Fraction(2))
    >>> found.low <= 5 <= found.high, float(found.high - found.low) < 1e-50
    (True, True)
    """
    sizes = [abs(x) for x in v if x]
    if not sizes:
        return Interval.point(Fraction(0))
    top = max(sizes)
    if p == math.inf or len(sizes) == 1:
        return Interval.point(top)
    if p == 1:
        return Interval.point(sum(sizes, Fraction(0)))
    if p > LARGEST_EXPONENT:
        return Interval(top, top * (1 + Fraction(len(sizes), LARGEST_EXPONENT)))
    exact = Fraction(p)
    return Interval(*(top * _root_of_powers(sizes, top, exact) * (1 + k * WIDTH) for k in (-1, 1)))


def _root_of_powers(sizes: Sequence[Fraction], top: Fraction, p: Fraction) -> Fraction:
    """``(Σ (x / top)^p)^{1/p}``, not yet widened."""
    # Exponents of ten have room for every float64 and its products; nothing is trapped.
    context = Context(prec=DIGITS, Emin=-(10**6), Emax=10**6, traps=[])
    exponent, powers = _decimal(p, context), Decimal(0)
    for x in sizes:
        power = context.multiply(exponent, context.ln(_decimal(x / top, context)))
        if power > SMALLEST_POWER:
            powers = context.add(powers, context.exp(power))
    return Fraction(context.exp(context.divide(context.ln(powers), exponent)))


def _decimal(x: Fraction, context: Context) -> Decimal:
    return context.divide(Decimal(x.numerator), Decimal(x.denominator))
