"""Sums over rows: the exact ones against plain fractions, the compensated ones against those."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lpfuse.verification.intervals import CompensatedRows, ExactRows, OutOfRangeError

numbers = st.floats(-1e100, 1e100, allow_subnormal=True)
weights = st.floats(0, 1e60, allow_subnormal=True)


def naive(S, m, x):
    """``Σ m x`` and ``Σ m x s`` in fractions, for fractions x."""
    shares = [Fraction(a) * b for a, b in zip(m.tolist(), x, strict=True)]
    pull = [
        sum((a * Fraction(s) for a, s in zip(shares, column.tolist(), strict=True)), Fraction(0))
        for column in S.T
    ]
    return [sum(shares, Fraction(0)), *pull]


def naive_residuals(S, label, w, b):
    return [
        1
        - label
        * (sum(Fraction(s) * Fraction(a) for s, a in zip(row, w, strict=True)) + Fraction(b))
        for row in S.tolist()
    ]


def sums(rows, x):
    return [rows.total(x), *rows.pull(x)]


def tables(draw):
    n, R = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    return (
        draw(arrays(float, (n, R), elements=numbers)),
        draw(arrays(float, n, elements=weights)),
        draw(arrays(float, R, elements=st.floats(-1e9, 1e9))),
        draw(st.floats(-1e9, 1e9)),
        draw(st.sampled_from([1, -1])),
    )


@settings(max_examples=200)
@given(st.composite(tables)())
def test_exact_sums_are_those_of_fractions(table):
    S, m, w, b, label = table
    rows, r = ExactRows(S, m), naive_residuals(S, label, w, b)
    found = rows.residuals(label, w, b)
    for x, plain in (
        (found, r),
        (rows.positive(found), [max(a, Fraction(0)) for a in r]),
        (rows.square(found), [a * a for a in r]),
    ):
        assert [each.low for each in sums(rows, x)] == naive(S, m, plain)
        assert [each.high for each in sums(rows, x)] == naive(S, m, plain)


@settings(max_examples=200)
@given(st.composite(tables)())
def test_compensated_sums_hold_the_exact_ones(table):
    """At all scales, zeros and denormals included; where floats overflow it says so."""
    S, m, w, b, label = table
    exact, rows = ExactRows(S, m), CompensatedRows(S, m)
    true = exact.residuals(label, w, b)
    with np.errstate(all="ignore"):
        found = rows.residuals(label, w, b)
        for name in ("numbers", "positive", "square"):
            x = found if name == "numbers" else getattr(rows, name)(found)
            z = true if name == "numbers" else getattr(exact, name)(true)
            try:
                pairs = list(zip(sums(rows, x), sums(exact, z), strict=True))
            except OutOfRangeError:
                continue
            for near, known in pairs:
                assert near.low <= known.low <= near.high


@pytest.mark.parametrize("seed", range(4))
def test_compensated_sums_are_sharp(seed):
    """Cancelling offsets of 1e8: the bounds are within 1e-25 of the sizes that cancel."""
    rng = np.random.default_rng(seed)
    n, R = 500, 5
    S = rng.normal(size=(n, R)) + 1e8 * rng.normal(size=R)
    m, w = rng.random(n), rng.normal(size=R)
    exact, rows = ExactRows(S, m), CompensatedRows(S, m)
    b = -float(S.mean(axis=0) @ w)
    found, true = rows.residuals(1, w, b), exact.residuals(1, w, b)
    for near, known in zip(sums(rows, found), sums(exact, true), strict=True):
        assert near.low <= known.low <= near.high
        assert near.radius <= 1e-25 * n * 1e16


def test_overflow_is_said():
    rows = CompensatedRows(np.array([[1e200]]), np.array([1e100]))
    with np.errstate(all="ignore"), pytest.raises(OutOfRangeError):
        rows.pull(rows.numbers(np.array([1e50])))
