"""Integers instead of floats: nothing is lost, and powers lie between their bounds."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.cases import cases
from research.proofs.exact import dyadic, norm_bounds, power_of_two

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
RATIONALS = st.fractions(min_value=-(10**6), max_value=10**6, max_denominator=10**9)


@given(st.lists(FLOATS, min_size=1, max_size=6))
def test_floats_become_integers_and_come_back(values):
    whole, e = dyadic(values)
    assert [x * power_of_two(e) for x in whole] == [Fraction(v) for v in values]


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_what_is_no_number_is_refused(value):
    with pytest.raises(ValueError, match="finite"):
        dyadic([1.0, value])


@given(st.lists(RATIONALS, min_size=1, max_size=8), st.sampled_from([2, 3, 4, 16, 32, 100]))
def test_norms_with_whole_exponents_lie_between_their_bounds(v, p):
    low, high = norm_bounds(v, Fraction(p))
    true = sum(abs(x) ** p for x in v)
    assert max(low, 0) ** p <= true <= high**p
    assert high - low <= high * Fraction(1, 2**190)


@given(st.lists(RATIONALS, min_size=1, max_size=5), st.sampled_from([(4, 3), (8, 7), (3, 2)]))
def test_norms_with_broken_exponents_agree_with_those_of_their_powers(v, exponent):
    # ‖x‖_{a/b} for x = v^b needs whole powers only: (Σ |v|^a)^{b/a}.
    a, b = exponent
    low, high = norm_bounds([x**b for x in v], Fraction(a, b))
    true = sum(abs(x) ** a for x in v)
    assert max(low, 0) ** a <= true**b <= high**a


@given(st.lists(RATIONALS, min_size=1, max_size=8))
def test_the_outer_norms_are_exact(v):
    assert norm_bounds(v, Fraction(1)) == (sum(map(abs, v)),) * 2
    assert norm_bounds(v, math.inf) == (max(map(abs, v)),) * 2


@cases("p", [1.0, 32 / 31, 4 / 3, 2.0, 10.0, 100.0])
def test_norms_are_those_of_numpy(p):
    v = np.random.default_rng(0).normal(size=8) * 10.0 ** np.arange(-4, 4)
    low, high = norm_bounds([Fraction(x) for x in v], Fraction(p))
    assert float(low) == pytest.approx(np.linalg.norm(v, p), rel=1e-12)
    assert float(high) == pytest.approx(float(low), rel=1e-15)


def test_norms_with_extreme_exponents_are_those_of_their_expansions():
    # (1 + x^p)^(1/p) = 1 + log(1 + 1/e) / p for x = 1 − 1/p, nearly, as p grows.
    p = 1 << 30
    _, high = norm_bounds([Fraction(1), Fraction(1, 3), 1 - Fraction(1, p)], Fraction(p))
    assert float((high - 1) * p) == pytest.approx(math.log(1 + math.exp(-1)), rel=1e-6)
    # ‖v‖_p = s − (p − 1)(s log s − Σ v log v) for s = Σ v, nearly, as p falls to 1.
    low, _ = norm_bounds([Fraction(1), Fraction(1, 3)], 1 + Fraction(1, p))
    slope = 4 / 3 * math.log(4 / 3) - 1 / 3 * math.log(1 / 3)
    assert float((Fraction(4, 3) - low) * p) == pytest.approx(slope, rel=1e-6)


def test_exponents_without_a_proven_error_are_refused():
    with pytest.raises(ValueError, match="Exponents"):
        norm_bounds([Fraction(1), Fraction(2)], Fraction(10**10))
