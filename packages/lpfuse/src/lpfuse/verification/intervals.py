"""Interval arithmetic with rationals, ℓp norms, and sums over rows in two kinds of arithmetic.

Sums and products of rationals are exact. Powers with a general exponent come from `decimal`, whose
``ln`` and ``exp`` are rounded correctly to the given digits: the error of their composition is far
below `WIDTH`, by which results are widened.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

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
        """Return a number that is known."""
        return cls(x, x)

    @classmethod
    def around(cls, middle: Fraction, radius: Fraction) -> Interval:
        """Return a number within the radius of the middle."""
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
    """Return the sum of numbers."""
    return Interval(
        sum((each.low for each in intervals), Fraction(0)),
        sum((each.high for each in intervals), Fraction(0)),
    )


def conjugate(p: Fraction | float) -> Fraction | float:
    """Return the q with ``1/p + 1/q = 1``, exactly.

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


# --------------------------------------------------------------------------------------------------
# Sums over rows of one class: in rational numbers, or to twice the digits with a proven bound.
#
# Both return intervals of ``Σ m_i x_i`` and ``Σ m_i x_i s_i`` for numbers x_i, one per row.
# `ExactRows` is exact: a float64 is an integer times a power of two, and so are sums and products.
# `CompensatedRows` represents x as a pair of floats with an error bound (T. Ogita, S. M. Rump,
# S. Oishi, Accurate sum and dot product, SIAM J. Sci. Comput. 26, 2005) and sums digits above a
# common place, which is exact, until the remainder is negligible.


Vector = NDArray[np.float64]

UNIT = 2.0**-53
# More than what all underflows on the way to one number can amount to (some 2^-1074 each).
TINY = 1e-300
SAFE = 1.01  # bounds of errors are sums of float64 themselves, which are off by far less than 1 %


class OutOfRangeError(ArithmeticError):
    """A product left the range of double precision: rational numbers are needed."""


class Rows(Protocol):
    """Rows of one class with their weights m, and numbers x of the kind that it works with."""

    n: int

    def __init__(self, S: Vector, m: Vector) -> None: ...

    def numbers(self, x: Vector) -> Any:
        """Floats, as they are."""

    def residuals(self, label: int, w: Vector, b: float) -> Any:
        """``1 − y (s_iᵀw + b)``."""

    def positive(self, x: Any) -> Any:
        """``max(0, x)``."""

    def square(self, x: Any) -> Any:
        """``x²``."""

    def total(self, x: Any) -> Interval:
        """``Σ m x``."""

    def pull(self, x: Any) -> list[Interval]:
        """``Σ m x s``."""


# -------------------------------------------------------------------------------------------- exact


class _Whole(NamedTuple):
    """Numbers ``integers[i] · 2^e``."""

    integers: Sequence[int]
    e: int


def _whole(values: Vector) -> _Whole:
    """Floats as integers times one power of two."""
    ratios = [x.as_integer_ratio() for x in values.ravel().tolist()]
    # Denominators are powers of two: the largest is common to all.
    e = max((below.bit_length() for _, below in ratios), default=1)
    return _Whole([above << (e - below.bit_length()) for above, below in ratios], 1 - e)


def _power_of_two(e: int) -> Fraction:
    return Fraction(1 << e) if e >= 0 else Fraction(1, 1 << -e)


class ExactRows:
    """Rows in integers times powers of two."""

    def __init__(self, S: Vector, m: Vector) -> None:
        flat, self.e = _whole(S)
        self.columns = [flat[j :: S.shape[1]] for j in range(S.shape[1])]
        self.m, self.n = _whole(m), len(m)

    def numbers(self, x: Vector) -> _Whole:
        """Floats, as they are."""
        return _whole(x)

    def residuals(self, label: int, w: Vector, b: float) -> _Whole:
        """``1 − y (s_iᵀw + b)``."""
        (weights, e), ((shift,), shift_e) = _whole(w), _whole(np.array([b]))
        e += self.e
        least = min(e, shift_e)  # neither is above 0
        shift = (1 << -least) - label * (shift << (shift_e - least))
        up = label << (e - least)
        fused = [0] * self.n
        for column, weight in zip(self.columns, weights, strict=True):
            if weight:
                fused = [a + weight * s for a, s in zip(fused, column, strict=True)]
        return _Whole([shift - up * a for a in fused], least)

    def positive(self, x: _Whole) -> _Whole:
        """``max(0, x)``."""
        return _Whole([max(a, 0) for a in x.integers], x.e)

    def square(self, x: _Whole) -> _Whole:
        """``x²``."""
        return _Whole([a * a for a in x.integers], 2 * x.e)

    def total(self, x: _Whole) -> Interval:
        """``Σ m x``."""
        found = sum(map(int.__mul__, self.m.integers, x.integers))
        return Interval.point(found * _power_of_two(self.m.e + x.e))

    def pull(self, x: _Whole) -> list[Interval]:
        """``Σ m x s``."""
        shares = list(map(int.__mul__, self.m.integers, x.integers))
        unit = _power_of_two(self.m.e + x.e + self.e)
        return [
            Interval.point(sum(map(int.__mul__, shares, column)) * unit) for column in self.columns
        ]


# -------------------------------------------------------------------------------------- compensated


class _Pair(NamedTuple):
    """Numbers within `error` of ``high + low``, where low is what rounding has left of high."""

    high: Vector
    low: Vector
    error: Vector


def _sum(a: Any, b: Any) -> tuple[Any, Any]:
    """Return ``a + b`` rounded, and the rounding error."""
    rounded = a + b
    other = rounded - a
    return rounded, (a - (rounded - other)) + (b - other)


def _product(a: Any, b: Any) -> tuple[Any, Any]:
    """Return ``a b`` rounded, and the rounding error, apart from underflow."""
    rounded = a * b
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    return rounded, a2 * b2 - (((rounded - a1 * b1) - a2 * b1) - a1 * b2)


def _halves(a: Any) -> tuple[Any, Any]:
    shifted = 134217729.0 * a  # 2^27 + 1
    high = shifted - (shifted - a)
    return high, a - high


def _added(*terms: Vector) -> Interval:
    """Return the sum of all entries: digits above a common place twice, exactly, then the rest."""
    found, radius = Fraction(0), Fraction(0)
    for rest in terms:
        for _ in range(2):
            top = float(np.abs(rest).max(initial=0.0))
            if not top < 1e280:  # NaN too
                raise OutOfRangeError
            # n + 2 numbers below 2^e add up to less than `place`, in steps of its last digit.
            place = math.ldexp(1.0, math.frexp(top)[1] + (rest.size + 2).bit_length())
            high = (place + rest) - place
            found += Fraction(float(high.sum()))
            rest = rest - high
        found += Fraction(float(rest.sum()))
        radius += Fraction(SAFE * rest.size * UNIT * float(np.abs(rest).sum()))
    return Interval.around(found, radius)


class CompensatedRows:
    """Rows in float64, whose sums come with what they can be off by at most."""

    def __init__(self, S: Vector, m: Vector) -> None:
        self.S, self.m, self.n = S, m, len(m)

    def numbers(self, x: Vector) -> _Pair:
        """Floats, as they are."""
        return _Pair(x, np.zeros_like(x), np.zeros_like(x))

    def residuals(self, label: int, w: Vector, b: float) -> _Pair:
        """``1 − y (s_iᵀw + b)``.

        The k = R + 3 terms leave remainders of at most (k + 1) u of their sizes, which are added up
        with 2k roundings, and one more for the last sum: 8 k² u² of their sizes is above all that.
        """
        n, R = self.S.shape
        high, low = np.full(n, b), np.zeros(n)
        for column, weight in zip(self.S.T, w.tolist(), strict=True):
            product, missed = _product(column, weight)
            high, dropped = _sum(high, product)
            low = low + (missed + dropped)
        rounded, dropped = _sum(1.0, -label * high)
        sizes = 1.0 + abs(b) + np.abs(self.S) @ np.abs(w)
        error = SAFE * 8.0 * (R + 3.0) ** 2 * UNIT**2 * sizes + (R + 3.0) * TINY
        return _Pair(*_sum(rounded, dropped - label * low), error)

    def positive(self, x: _Pair) -> _Pair:
        """``max(0, x)``, which is no farther from the truth than x: the sign is that of `high`."""
        above = x.high > 0.0
        return _Pair(np.where(above, x.high, 0.0), np.where(above, x.low, 0.0), x.error)

    def square(self, x: _Pair) -> _Pair:
        """``x²``; low² and the roundings of what is below high² are less than 16 u² high²."""
        rounded, missed = _product(x.high, x.high)
        size = np.abs(x.high)
        error = SAFE * ((2.0 * size + x.error) * x.error * SAFE + 16.0 * UNIT**2 * rounded) + TINY
        return _Pair(rounded, missed + 2.0 * x.high * x.low, error)

    def _shares(self, x: _Pair) -> _Pair:
        """``m x``."""
        rounded, missed = _product(self.m, x.high)
        rest = self.m * x.low
        error = self.m * x.error + 4.0 * UNIT * (np.abs(rest) + UNIT * np.abs(rounded))
        return _Pair(rounded, missed + rest, SAFE * error + TINY)

    def total(self, x: _Pair) -> Interval:
        """``Σ m x``."""
        shares = self._shares(x)
        return _widened(_added(shares.high, shares.low), shares.error.sum())

    def pull(self, x: _Pair) -> list[Interval]:
        """``Σ m x s``."""
        shares, found = self._shares(x), []
        for column in self.S.T:
            rounded, missed = _product(shares.high, column)
            rest, size = shares.low * column, np.abs(column)
            # Products below the pair are rounded once more, and may underflow.
            off = shares.error * size + 2.0 * UNIT * np.abs(rest) + TINY
            found.append(_widened(_added(rounded, missed, rest), off.sum()))
        return found


def _widened(x: Interval, error: float) -> Interval:
    if not math.isfinite(error):
        raise OutOfRangeError
    return Interval.around(x.middle, x.radius + Fraction(SAFE * float(error)))
