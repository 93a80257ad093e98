"""Bounds of rationals: each holds what it must, and is as narrow as it says."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.pairwise import each_value
from lpfuse.verification.intervals import Interval, conjugate, norm

fractions = st.fractions(min_value=-100, max_value=100, max_denominator=10**6)
vectors = st.lists(fractions, min_size=1, max_size=8)
EXPONENTS = [Fraction(1), Fraction(1.01), Fraction(4, 3), Fraction(2), Fraction(7), Fraction(100)]


@given(vectors, st.integers(1, 9))
def test_whole_powers_bracket_the_norm(v, p):
    """The p-th powers of both ends are on both sides of Σ |v|^p, in rational numbers."""
    found = norm(v, Fraction(p))
    exact = sum(abs(x) ** p for x in v)
    assert found.low**p <= exact <= found.high**p
    assert found.high - found.low <= found.high * Fraction(1, 10**50)


@given(vectors)
def test_roots_bracket_the_norm(v):
    """p = 3/2 of squares is (Σ |x|³)^{2/3}: its cube is a square of a rational number."""
    squares = [x * x for x in v]
    found = norm(squares, Fraction(3, 2))
    exact = sum(abs(x) ** 3 for x in v)
    assert found.low**3 <= exact**2 <= found.high**3


@pytest.mark.parametrize("p", [*EXPONENTS, math.inf])
def test_norms_agree_with_numpy(p):
    v = np.random.default_rng(0).normal(size=20)
    found = norm([Fraction(x) for x in v], p)
    assert float(found.low) == pytest.approx(np.linalg.norm(v, float(p)), rel=1e-13)


@each_value(p=EXPONENTS, scale=(1e-300, 1e-150, 1.0, 1e150, 1e300))
def test_norms_have_no_scale(p, scale):
    v = [Fraction(3.0), Fraction(-4.0), Fraction(0.1), Fraction(0)]
    big = norm([x * Fraction(scale) for x in v], p)
    assert big.low <= norm(v, p).high * Fraction(scale)
    assert big.high >= norm(v, p).low * Fraction(scale)


@pytest.mark.parametrize("p", [1 + 2.0**-52, 1 + 1e-9, 1e9, 1e15, 1e29, 1e31, 1e300])
def test_extreme_exponents_stay_between_their_neighbours(p):
    """‖v‖_∞ ≤ ‖v‖_p ≤ ‖v‖_1, also of the conjugate, which is as extreme."""
    v = [Fraction(1), Fraction(1) - Fraction(1, 2**52), Fraction(1, 3), Fraction(1, 10**40)]
    for exponent in (Fraction(p), conjugate(Fraction(p))):
        found = norm(v, exponent)
        assert found.low <= found.high
        assert 1 - Fraction(1, 10**50) <= found.low
        assert found.high <= sum(v) * (1 + Fraction(1, 10**25))


def test_equal_entries_have_a_closed_form():
    """R equal entries: R^{1/p}; at p = 1 + 1e-9 the powers of 1 are all there is."""
    for p in (Fraction(1 + 1e-9), Fraction(4, 3), Fraction(1e9)):
        found = norm([Fraction(-1)] * 8, p)
        assert float(found.low) == pytest.approx(8 ** (1 / float(p)), rel=1e-14)


@pytest.mark.parametrize("p", EXPONENTS)
def test_conjugates(p):
    q = conjugate(p)
    assert p == 1 or 1 / p + 1 / q == 1
    assert conjugate(q) == p


@given(*[st.tuples(fractions, fractions, st.fractions(0, 1, max_denominator=99))] * 2)
def test_intervals_hold_what_their_members_do(one, two):
    (a, da, at), (b, db, bt) = one, two
    x, y = Interval(a, a + abs(da)), Interval(b, b + abs(db))
    inside_x, inside_y = a + at * abs(da), b + bt * abs(db)

    def holds(found, exact):
        return found.low <= exact <= found.high

    assert holds(x.plus(y), inside_x + inside_y)
    assert holds(x.minus(y), inside_x - inside_y)
    assert holds(x.times(y), inside_x * inside_y)
    assert holds(x.size(), abs(inside_x))
    assert holds(x.times(x), inside_x * inside_x)
    if y.low > 0:
        assert holds(x.over(y), inside_x / inside_y)
