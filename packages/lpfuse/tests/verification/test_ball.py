"""The ball of the checker against that of the optimiser: two codes, one maximum."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lpfuse.optim.balls import LpBall
from lpfuse.verification.claims import Ball
from lpfuse.verification.intervals import Interval

EXPONENTS = [1.0, 1 + 1e-8, 1 + 1e-6, 1.01, 4 / 3, 2.0, 7.0, 100.0, 1e6, math.inf]


def both(p, centre, radius, nonnegative):
    exact = Ball(
        math.inf if p == math.inf else Fraction(p),
        [Fraction(float(c)) for c in centre],
        Fraction(radius),
        nonnegative,
    )
    return exact, LpBall(p, nonnegative, np.asarray(centre, dtype=float), radius)


@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 10**6), st.integers(1, 40), st.sampled_from(EXPONENTS), st.booleans(),
    st.sampled_from([0.0, 1e-3, 0.1, 1.0, 30.0]),
)  # fmt: skip
def test_the_support_is_what_the_optimiser_says(seed, R, p, nonnegative, radius):
    rng = np.random.default_rng(seed)
    centre = rng.random(R) * (rng.random(R) < 0.6) * rng.choice([0.0, 0.3, 1.0])
    if seed % 2:  # equal entries: many fall together
        centre = np.full(R, 1.0 / R)
    v = rng.normal(size=R) * (1.0 if seed % 3 else 10.0 ** rng.uniform(-3, 3, size=R))
    exact, floats = both(p, centre, radius, nonnegative)
    found = exact.support([Interval.point(Fraction(x)) for x in v])
    size = floats.support_size(v) + abs(float(v @ centre))
    assert float(found.high) == pytest.approx(floats.support(v), rel=1e-9, abs=1e-9 * size)
    # No point of the ball is beyond it.
    point = floats.scale_into(floats.linear_oracle(-v))
    reached = sum(Fraction(a) * Fraction(b) for a, b in zip(v, point, strict=True))
    assert reached <= found.high + Fraction(1e-14 * size)


@pytest.mark.parametrize("nonnegative", [False, True])
def test_a_direction_that_is_not_known_reaches_farther(nonnegative):
    exact, _ = both(4 / 3, [0.2, 0.0, 0.5], 0.5, nonnegative)
    v = [Fraction(1), Fraction(-2), Fraction(1, 3)]
    wide = exact.support([Interval.around(x, Fraction(1, 100)) for x in v])
    for signs in np.ndindex(2, 2, 2):
        moved = [x + Fraction(2 * k - 1, 100) for x, k in zip(v, signs, strict=True)]
        assert exact.support([Interval.point(x) for x in moved]).high <= wide.high


@pytest.mark.parametrize("p", EXPONENTS)
def test_distances_are_those_of_the_optimiser(p):
    rng = np.random.default_rng(0)
    exact, floats = both(p, rng.random(5), 1.0, False)
    w = rng.normal(size=5)
    assert float(exact.distance(w).high) == pytest.approx(floats.gauge(w), rel=1e-12)
