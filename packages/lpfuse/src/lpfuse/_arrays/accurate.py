"""Sums and products to twice the digits, for numbers too large for plain ones.

The sum and the product of two numbers each equal the rounded result and a remainder that is a
number itself (T. Ogita, S. M. Rump, S. Oishi, Accurate sum and dot product, SIAM J. Sci. Comput.
26, 2005). Any array library can do that.
"""

from __future__ import annotations

import math

import numpy as np

from lpfuse._arrays.operations import Array, Host, filled, largest, like, namespace, total

SPLITTER = 2.0**27 + 1.0  # cuts 53 binary digits into 26 and 26


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """``a + b`` rounded, and what rounding has left out."""
    rounded = a + b
    of_b = rounded - a
    return rounded, (a - (rounded - of_b)) + (b - of_b)


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """``a · b`` rounded, and what rounding has left out."""
    rounded = a * b
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    return rounded, ((a1 * b1 - rounded) + a1 * b2 + a2 * b1) + a2 * b2


def _halves(a: Array) -> tuple[Array, Array]:
    shifted = SPLITTER * a
    high = shifted - (shifted - a)
    return high, a - high


def accurate_total(x: Array) -> float:
    """The sum of a vector, right to the last digit or nearly.

    The digits of all terms above one common place are added up first, which rounds nothing.
    """
    n, top = int(x.shape[0]), largest(abs(x)) if x.shape[0] else 0.0
    if not 0.0 < top < 1e290:  # nothing to add up, or no room for a higher place
        return total(x)
    place = math.ldexp(1.0, math.frexp(top)[1] + n.bit_length() + 1)
    high = (x + place) - place
    return total(high) + total(x - high)


def less(S: Array, origin: Host | None) -> tuple[Array, Array]:
    """``S − origin`` in two parts: rounded, and what rounding has left out."""
    return (S, 0.0 * S) if origin is None else two_sum(S, -like(origin, S))


def accurate_residuals(
    parts: tuple[Array, Array], y: Array | float, w: Host, b: tuple[float, float]
) -> Array:
    """``1 − y (S w + b)``, each within a rounding or two of the truth.

    S and b each come in two parts that add up to them.
    """
    S, low = parts
    fused = filled(S.shape[0], b[0], S)
    rest = low @ like(w, S) + b[1]
    for j, weight in enumerate(w.tolist()):
        product, missed = two_product(S[:, j], weight)
        fused, dropped = two_sum(fused, product)
        rest = rest + (missed + dropped)
    residual, dropped = two_sum(0.0 * fused + 1.0, -y * fused)
    return residual + (dropped - y * rest)


def accurate_pull(
    parts: tuple[Array, Array], y: Array | float, c: Array | float, alpha: Array
) -> Host:
    """``Σ c α y s``, each entry within a rounding or two of the truth; S comes in two parts."""
    S, low = parts
    weight, missed = two_product(alpha, c)
    weight, missed = y * weight, y * missed
    sums = []
    for j in range(int(S.shape[1])):
        product, rest = two_product(S[:, j], weight)
        sums.append(accurate_total(product) + total(rest + S[:, j] * missed + low[:, j] * weight))
    return np.array(sums)


def rows_beyond(S: Array, limit: float) -> Array:
    """A mask of the rows with a score larger than the limit in size."""
    xp = namespace(S)
    return xp.max(abs(S), axis=1) > limit
