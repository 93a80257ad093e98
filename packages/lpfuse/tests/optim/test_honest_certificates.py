"""Certificates that were false once, judged in exact arithmetic.

Wide offsets, weights and scales at which float64 cannot prove may say so; no claim may be untrue.
"""

import math
from itertools import product

import numpy as np
import pytest

from helpers.cases import cases
from helpers.pairwise import each_value, pairwise
from lpfuse import LpFusion, verify
from oracles.exact import assert_true

pytestmark = pytest.mark.filterwarnings("ignore")  # "short of tol" is an answer here


def certified(S, y, weight=None, **parameters):
    """The fit, whose certificate holds, and the true value of its weights."""
    fusion = LpFusion(**parameters).fit(S, y, sample_weight=weight)
    return fusion, assert_true(fusion, S, y, weight)


def rows(seed, n, R, offsets=0.0):
    """A tenth of anomalies; whole numbers up to `offsets` are added to the columns."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.1, -1, 1)
    S = rng.normal(size=(n, R)) + 0.5 * y[:, None]
    return S + np.round(offsets * rng.uniform(-1, 1, size=R)), y


def test_rows_of_hardly_any_weight_do_not_set_the_intercept():
    S = [[3, 3], [4, 3], [-3, -3], [-4, -3], [50, 50]]
    weight = [1, 1, 1, 1, 1e-16]
    fusion, value = certified(S, [1, 1, -1, -1, -1], weight, p=2, fit_intercept=True)
    assert value < 1e-13  # all but the last row are told apart, which costs 73e-16 at most
    assert fusion.certificate_.status == "optimal"


@pytest.mark.parametrize("seed", range(3, 6))
def test_weights_that_decay_over_long_ages(seed):
    rng, n = np.random.default_rng(seed), 500
    y = np.where(rng.random(n) < 0.1, -1, 1)
    S = rng.normal(size=(n, 3)) * 0.5 + 3 * y[:, None]
    S[:50] = rng.normal(size=(50, 3)) * 5  # the oldest rows: sensors were broken
    weight = np.exp(-np.arange(n)[::-1] / 12.0)
    parameters = {"p": 2, "fit_intercept": True, "class_weight": "balanced"}
    fusion, value = certified(S, y, weight, **parameters)
    assert fusion.certificate_.status == "optimal"
    assert value < 1e-3 * weight.sum()


def test_least_squares_far_from_zero():
    S = [[80000009, 60000003], [80000001, 59999999], [79999996, 59999997], [79999997, 59999996]]
    y = [1, 1, -1, -1]
    fusion, _ = certified(S, y, p=2, loss="least_squares")
    claim = fusion.certificate_
    assert claim.primal - claim.gap <= 2.005  # the optimum is 2.004


@each_value(offsets=(1e3, 1e4, 1e5, 1e6, 1e7, 1e8), seed=range(5))
def test_least_squares_with_offsets(seed, offsets):
    S, y = rows(seed, 100, 5, offsets)
    fusion, _ = certified(
        S, y, p=(1, 2, math.inf)[seed % 3], loss="least_squares", nonnegative=bool(seed % 2),
        imaginary_anomalies=3.0,
    )  # fmt: skip
    claim = fusion.certificate_
    assert claim.dual - claim.primal <= claim.gap


@pytest.mark.parametrize("p", [1, 2, math.inf])
@cases("offsets, intercept", product((1e3, 1e5, 1e7, 1e8), (False, True)))
def test_the_hinge_with_offsets(p, intercept, offsets):
    for seed in range(3):
        S, y = rows(seed, 60, 4, offsets)
        certified(S, y, p=p, fit_intercept=intercept, class_weight="balanced")


@pairwise(light=(1e-15, 1e-16, 1e-17, 1e-20, 1e-40), loss=("hinge", "least_squares"))
def test_balancing_a_class_of_next_to_no_weight(light, loss):
    S, y = rows(0, 40, 3)
    for label in (1, -1):
        weight = np.where(y == label, light, 1.0)
        parameters = {"p": 2, "loss": loss, "class_weight": "balanced"}
        fusion, value = certified(S, y, weight, **parameters)
        # The scale of a class does not matter: both have half of the cost.
        same = LpFusion(**parameters).fit(S, y)
        share = value / weight.sum()
        assert fusion.certificate_.status == "optimal"
        assert share == pytest.approx(same.certificate_.primal / len(y), rel=1e-6)


@pairwise(
    weight=([1e308] * 3, [1e308, 1.0, 1.0], [1e300, 1e308, 1e-300]),
    loss=("hinge", "least_squares"),
    class_weight=(None, "balanced"),
)
def test_weights_whose_sum_is_infinite_are_refused_or_proven(weight, loss, class_weight):
    S, y = [[1.0, 2.0], [2.0, 1.0], [-1.0, 0.5]], [1, 1, -1]
    fusion = LpFusion(p=2, loss=loss, class_weight=class_weight)
    refusal = ""
    try:
        fusion.fit(S, y, sample_weight=weight)
    except ValueError as error:
        refusal = str(error)
    if refusal:
        assert "weight" in refusal
    else:
        assert_true(fusion, S, y, weight)


@pytest.mark.parametrize("p", [1, 2, math.inf])
@pytest.mark.parametrize("loss", ["hinge", "least_squares"])
def test_the_witness_alone_proves_what_is_said(p, loss):
    for seed in range(8):
        rng = np.random.default_rng(seed)
        S, y = rows(seed, 25, 3)
        weight = 10.0 ** rng.uniform(-16, 16, size=25)
        S = S * 10.0 ** rng.uniform(-6, 6, size=3)
        certified(S, y, weight, p=p, loss=loss, fit_intercept=True)


@pairwise(p=(1, 7, 100, math.inf), intercept=(False, True))
def test_least_squares_that_fits_all_but_perfectly_is_proven(p, intercept):
    """Residuals near 0 hide in r² what they are off by; their multipliers, 2r, need the digits."""
    rng = np.random.default_rng(5)
    y = np.where(rng.random(80) < 0.3, -1, 1)
    S = 0.1 * rng.normal(size=(80, 30)) + 50.0 * y[:, None]
    weight = rng.random(80)
    parameters = {"class_weight": "balanced", "fit_intercept": intercept}
    fusion = LpFusion(p=p, loss="least_squares", **parameters).fit(S, y, weight)
    found = verify(fusion, S, y, weight)  # the oracle knows no p between
    assert found.holds, found.sentence()
    assert found.value[1] < 1e-5 * weight.sum()
    assert found.status == "optimal"
