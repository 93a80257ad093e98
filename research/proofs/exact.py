"""Exact numbers out of Python's integers: floats as they are, ℓp norms between two bounds.

A float64 is an integer times a power of two, so sums and products of floats are integers times a
power of two as well, and nothing is ever rounded. Only powers with a general exponent are not
rational: they come as bounds whose distance is stated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache

import numpy as np
from numpy.typing import ArrayLike

BITS = 256  # behind the point of a logarithm or a power
# What truncation may add up to, in units of 2^-BITS: 2^13 for a logarithm (100 terms of a series,
# 2^12 halvings of an argument), times the exponent, at most 2^30. 2^56 is far above it, and 2^-200
# of the result.
ERROR = 1 << 56
LARGEST_EXPONENT = 1 << 30


def dyadic(values: ArrayLike) -> tuple[list[int], int]:
    """Integers and one exponent e with ``values[i] = integers[i] · 2^e``, exactly.

    Examples
    --------
    >>> dyadic([0.5, 3.0, 0.0])
    ([1, 6, 0], -1)
    """
    flat = np.asarray(values, dtype=np.float64).ravel()
    if not np.isfinite(flat).all():
        raise ValueError("Only finite numbers are rational; got an infinity or a NaN.")
    parts, exponents = np.frexp(flat)
    whole = (parts * 2.0**53).astype(np.int64).tolist()
    powers = (exponents - 53).tolist()
    if not any(whole):
        return whole, 0
    # Trailing zeros are left out, so that small integers stay small.
    least = min(e + (m & -m).bit_length() - 1 for m, e in zip(whole, powers, strict=True) if m)
    return [
        m << (e - least) if e >= least else m >> (least - e)
        for m, e in zip(whole, powers, strict=True)
    ], least


def power_of_two(e: int) -> Fraction:
    """``2^e``."""
    return Fraction(1 << e) if e >= 0 else Fraction(1, 1 << -e)


def norm_bounds(v: Sequence[Fraction], p: Fraction | float) -> tuple[Fraction, Fraction]:
    """A lower and an upper bound of ``‖v‖_p``, equal for p = 1 and ∞, else 2^-190 apart or less.

    Examples
    --------
    >>> low, high = norm_bounds([Fraction(3), Fraction(-4)], Fraction(2))
    >>> low <= 5 <= high, float(high - low) < 1e-50
    (True, True)
    """
    common = math.lcm(*(x.denominator for x in v))
    whole = [abs(x.numerator) * (common // x.denominator) for x in v]
    largest = max(whole)
    if p == math.inf or largest == 0:
        return Fraction(largest, common), Fraction(largest, common)
    if p == 1:
        return Fraction(sum(whole), common), Fraction(sum(whole), common)
    if p == 2:
        root = math.isqrt(sum(x * x for x in whole) << (2 * BITS))
        unit = common << BITS
        return Fraction(root, unit), Fraction(root + 1, unit)
    exponent = Fraction(p)
    if exponent > LARGEST_EXPONENT or exponent < 1:
        raise ValueError(f"Exponents are taken from 1 to {LARGEST_EXPONENT}; got {float(p)}.")
    # Relative to the largest entry the powers sum to something in [1, R].
    total = sum(_power((x << BITS) // largest, exponent) for x in whole)
    root = _power(total, 1 / exponent)
    unit = common << BITS
    return Fraction(largest * (root - ERROR), unit), Fraction(largest * (root + ERROR), unit)


def _power(x: int, exponent: Fraction) -> int:
    """``x^exponent`` for x and the result in units of 2^-BITS; x in [0, 2^20]."""
    one = 1 << BITS
    if x == 0 or x == one:
        return x
    return _exponential(_logarithm(x) * exponent.numerator // exponent.denominator)


def _logarithm(x: int) -> int:
    # x = 2^k m with m in [1, 2): log x = k log 2 + 2 atanh((m − 1) / (m + 1)), both in fixed point.
    k = x.bit_length() - 1 - BITS
    m = x >> k if k >= 0 else x << -k
    one = 1 << BITS
    return k * _log_two() + _twice_atanh(((m - one) << BITS) // (m + one))


@cache
def _log_two() -> int:
    return _twice_atanh((1 << BITS) // 3)


def _twice_atanh(z: int) -> int:
    """``2 (z + z³/3 + z⁵/5 + …)`` for 0 ≤ z ≤ 1/3."""
    square, term, total, k = z * z >> BITS, z, 0, 1
    while term:
        total += term // k
        term = term * square >> BITS
        k += 2
    return 2 * total


def _exponential(x: int) -> int:
    # exp x = 2^k exp(r) with 0 ≤ r < log 2, and exp(r) = exp(r / 2^8)^(2^8).
    k, r = divmod(x, _log_two())
    if k < -BITS:
        return 0
    r >>= 8
    term = total = 1 << BITS
    n = 1
    while term:
        term = (term * r >> BITS) // n
        total += term
        n += 1
    for _ in range(8):
        total = total * total >> BITS
    return total << k if k >= 0 else total >> -k
