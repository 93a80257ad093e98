"""Certificates of `LpFusion` checked in exact rationals, for p = 1, 2 and ∞: slow and plain."""

import math
from fractions import Fraction

import numpy as np

SLACK = Fraction(1, 10**12)  # of max(f, 1e-3 Σ c): what a claim may be wrong by


def costs(y, weight, balanced):
    """The c_i: Σ c is half each class's where they are balanced."""
    mass = [Fraction(float(x)) for x in (np.ones(len(y)) if weight is None else weight)]
    sums = {k: sum(m for m, label in zip(mass, y, strict=True) if label == k) for k in (1, -1)}
    if not (balanced and all(sums.values())):
        return mass
    return [m * sum(mass) / (2 * sums[label]) for m, label in zip(mass, y, strict=True)]


def residuals(S, y, w, b):
    """``1 − y(sᵀw + b)``."""
    w = [Fraction(float(x)) for x in w]
    return [
        1 - label * (sum(Fraction(float(s)) * x for s, x in zip(row, w, strict=True)) + b)
        for row, label in zip(S, y, strict=True)
    ]


def total(c, x):
    """``Σ c x``."""
    return sum((a * b for a, b in zip(c, x, strict=True)), Fraction(0))


def support(v, p, nonnegative):
    """``max {vᵀz : ‖z‖_p ≤ 1}``, a hair too small for p = 2."""
    v = [max(x, Fraction(0)) if nonnegative else abs(x) for x in v]
    if p == 2:
        square = sum(x * x for x in v)
        return Fraction(math.isqrt((square.numerator << 400) // square.denominator), 1 << 200)
    return max(v) if p == 1 else sum(v)


def bound(S, y, c, fusion):
    """What the witness proves, at least 0: that needs none."""
    certificate = fusion.certificate_
    is_hinge = fusion.loss == "hinge"
    if (certificate.alpha if is_hinge else certificate.dual_weights) is None:
        return Fraction(0)
    if not is_hinge:
        found = [_least_squares_bound(S, y, c, fusion)]
    elif fusion.fit_intercept and -1 in y:
        found = _bounds_with_intercept(S, y, c, fusion)
    else:
        found = [_dual_value(S, y, c, _multipliers(fusion), fusion)]
    return max(*found, Fraction(0))


def _multipliers(fusion):
    alpha = [Fraction(float(a)) for a in fusion.certificate_.alpha]
    assert all(0 <= a <= 1 for a in alpha)
    return alpha


def _least_squares_bound(S, y, c, fusion):
    """α = 2r at the dual weights and the best intercept for them."""
    r, b = residuals(S, y, fusion.certificate_.dual_weights, 0), 0
    if fusion.fit_intercept and -1 in y:
        b = total(c, [label * x for label, x in zip(y, r, strict=True)]) / sum(c)
    alpha = [2 * (x - label * b) for x, label in zip(r, y, strict=True)]
    return _dual_value(S, y, c, alpha, fusion)


def _bounds_with_intercept(S, y, c, fusion):
    """Either α of the heavier class is scaled to balance, or b is bounded.

    Some best b makes a residual zero: |b + mᵀw| ≤ 1 + max ‖s_i − m‖_q for any m.
    """
    alpha = _multipliers(fusion)
    sums = {k: total(c, [a * (x == k) for a, x in zip(alpha, y, strict=True)]) for k in (1, -1)}
    middle = [(Fraction(float(min(x))) + Fraction(float(max(x)))) / 2 for x in np.transpose(S)]
    moved = [[Fraction(float(s)) - m for s, m in zip(row, middle, strict=True)] for row in S]
    reach = 1 + max(support(row, fusion.p, False) for row in moved) * (1 + SLACK)
    yield _dual_value(moved, y, c, alpha, fusion) - abs(sums[1] - sums[-1]) * reach
    if all(sums.values()):
        factors = {label: min(sums.values()) / mass for label, mass in sums.items()}
        alpha = [a * factors[label] for a, label in zip(alpha, y, strict=True)]
        yield _dual_value(S, y, c, alpha, fusion)


def _dual_value(S, y, c, alpha, fusion):
    """``Σ c gain(α) − max {(Σ c α y s)ᵀz : z in the ball}``."""
    is_hinge = fusion.loss == "hinge"
    gain = total(c, alpha if is_hinge else [a - a * a / 4 for a in alpha])
    signed = [a * label for a, label in zip(alpha, y, strict=True)]
    columns = ([Fraction(x) for x in column] for column in zip(*S, strict=True))
    v = [total(c, [a * s for a, s in zip(signed, column, strict=True)]) for column in columns]
    return gain - support(v, fusion.p, fusion.nonnegative)


def assert_true(fusion, S, y, weight=None):
    """No claim of the certificate is better than the truth."""
    S, y = np.asarray(S, dtype=np.float64), [int(label) for label in y]
    weight = None if weight is None else list(weight)
    if fusion.imaginary_anomalies:
        S, y = np.vstack([S, np.full((1, S.shape[1]), -2.0)]), [*y, -1]
        weight = [*(weight or [1.0] * (len(y) - 1)), fusion.imaginary_anomalies]
    c = costs(y, weight, fusion.class_weight == "balanced")
    r = residuals(S, y, fusion.weights_, Fraction(fusion.intercept_))
    value = total(c, [x * x if fusion.loss == "least_squares" else max(x, 0) for x in r])
    scale = max(value, sum(c) / 1000)
    gap, claim = value - bound(S, y, c, fusion), fusion.certificate_
    assert gap <= Fraction(claim.gap) + SLACK * scale
    assert gap / scale <= Fraction(claim.relative_gap) + SLACK
    assert value <= Fraction(claim.primal) + Fraction(claim.gap) + SLACK * scale
    assert claim.status != "optimal" or gap / scale <= Fraction(fusion.tol)
    return float(value)
