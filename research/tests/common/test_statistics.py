"""Paired tests and intervals: against SciPy, naive loops, permutations and published examples."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from helpers.cases import cases
from research.common.statistics import compare, holm, interval

pytest.importorskip("statsmodels", reason="corrections need statsmodels")

NAN = np.nan

# Quarters: differences are exact, and ties are common.
quarters = st.integers(-40, 40).map(lambda value: value / 4)
distinct = st.lists(st.integers(-999, 999).filter(bool), min_size=1, max_size=60, unique_by=abs)


def test_the_interval_is_scipy_s_for_independent_values():
    values = [0.3, 0.9, 0.4, 0.7, 0.8]
    theirs = stats.ttest_1samp(values, 0).confidence_interval(0.9)
    found = interval(values, level=0.9)
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high))
    assert found.mean == pytest.approx(0.62)


def test_overlapping_splits_widen_the_interval():
    """Nadeau and Bengio's variance by hand: s² (1/10 + 1/7) with s = 2."""
    values = 90 + 2 * np.array([-1.0, 1.0] * 5) * np.sqrt(0.9)
    found = interval(values, overlap=1 / 7)
    assert found.high - found.mean == pytest.approx(2.262157 * 2 * np.sqrt(17 / 70))
    assert found.mean - found.low == pytest.approx(found.high - found.mean)


def test_the_interval_covers_overlapping_splits_at_its_level():
    """Correlation 1/8 between splits is what a tenth for the test and 70 % to train amount to:
    Nadeau and Bengio's correction is exact for the correlation r/(1 + r).
    """
    rng = np.random.default_rng(0)
    shared, own = rng.normal(size=(4000, 1)), rng.normal(size=(4000, 10))
    values = np.sqrt(1 / 8) * shared + np.sqrt(7 / 8) * own
    corrected, plain = (
        np.mean([abs(found.mean) <= found.high - found.mean for found in intervals])
        for intervals in (
            [interval(row, overlap=overlap) for row in values] for overlap in (1 / 7, 0)
        )
    )
    assert corrected == pytest.approx(0.95, abs=0.012)
    assert plain < 0.85


def test_one_value_says_nothing_of_its_spread():
    found = interval([91.0])
    assert (found.mean, found.low, found.high) == (91.0, -np.inf, np.inf)


@cases("values", [[], [[1.0, 2.0]], [1.0, NAN], [np.inf]])
def test_what_is_not_a_row_of_numbers_is_refused(values):
    with pytest.raises(ValueError, match="values must be a row of one or more finite numbers"):
        interval(values)


def test_a_comparison_by_hand():
    found = compare([5, 5, 7, 1], [4, 5, 5, 4])
    assert (found.wins, found.ties, found.losses) == (2, 1, 1)
    assert found.difference == interval([1, 0, 2, -3])
    # Ranks 1, 2 for us and 3 for them: the middle of the distribution.
    assert found.p_value == 1.0


def test_equal_methods_are_not_told_apart():
    found = compare([80, 90, 70], [80, 90, 70])
    assert (found.wins, found.ties, found.losses, found.p_value) == (0, 3, 0, 1.0)
    assert (found.difference.low, found.difference.high) == (0, 0)


@given(distinct, st.integers(0, 3))
def test_the_p_value_of_a_comparison_is_scipy_s(gains, ties):
    ties *= len(gains) > 13  # SciPy takes its time for fewer with ties
    ours = np.array(gains + [0] * ties, dtype=float)
    expected = stats.wilcoxon(ours).pvalue
    assert compare(ours, np.zeros_like(ours)).p_value == pytest.approx(expected)


@settings(max_examples=40)
@given(st.lists(quarters, min_size=1, max_size=8), st.sampled_from([0.95, 0.5]))
def test_the_p_value_is_the_share_of_sign_flips(gains, level):
    """With ties, and with zeros left out."""
    gains = np.array(gains)
    found = compare(gains + 50, np.full(gains.shape, 50), level=level)
    ranks = stats.rankdata(np.abs(gains[gains != 0]))
    signs = np.array(list(product([-1, 1], repeat=ranks.size)))
    seen = abs(np.sign(gains[gains != 0]) @ ranks)
    assert found.p_value == pytest.approx(np.mean(np.abs(signs @ ranks) >= seen - 1e-9))
    assert found.wins + found.ties + found.losses == gains.size
    assert found.difference == interval(gains, level=level)


@given(st.lists(st.tuples(quarters, quarters), min_size=1, max_size=12))
def test_changing_sides_changes_the_sign_and_nothing_else(pairs):
    ours, theirs = np.array(pairs).T
    there, back = compare(ours, theirs), compare(theirs, ours)
    assert there.difference.mean == -back.difference.mean
    assert there.difference.low == -back.difference.high
    assert (there.wins, there.ties, there.losses) == (back.losses, back.ties, back.wins)
    assert there.p_value == pytest.approx(back.p_value)


def test_p_values_of_comparisons_are_as_rare_as_they_say():
    rng = np.random.default_rng(1)
    p_values = [compare(*rng.normal(size=(2, 10))).p_value for _ in range(1000)]
    assert np.mean(np.array(p_values) <= 0.05) == pytest.approx(0.05, abs=0.02)


def test_figures_must_be_paired():
    with pytest.raises(ValueError, match="in the same order; got 2 and 3 figures"):
        compare([1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match=r"theirs must be a row .* 1 that are not finite"):
        compare([1, 2], [1, NAN])


def test_holm_by_hand():
    # Sorted: .01·4, .02·3 = .06, .03·2 = .06, .3·1; and a larger one never falls below.
    np.testing.assert_allclose(holm([0.3, 0.01, 0.03, 0.02]), [0.3, 0.04, 0.06, 0.06])
    np.testing.assert_allclose(holm([0.02, 0.021]), [0.04, 0.04])
    np.testing.assert_allclose(holm([0.6, 0.7]), [1, 1])
    assert holm([0.2]) == [0.2]


@pytest.mark.parametrize("m", [1, 2, 5, 12])
def test_holm_is_that_of_statsmodels(m):
    multitest = pytest.importorskip("statsmodels.stats.multitest", reason="needs statsmodels")
    p_values = np.random.default_rng(m).uniform(0, 0.2, m)
    expected = multitest.multipletests(p_values, method="holm")[1]
    np.testing.assert_allclose(holm(p_values), expected, rtol=1e-14)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.floats(0.001, 0.5))
def test_holm_rejects_what_stepping_down_rejects(p_values, level):
    rejected = set()
    for step, i in enumerate(np.argsort(p_values, kind="stable")):
        if p_values[i] * (len(p_values) - step) > level:
            break
        rejected.add(int(i))
    assert set(np.flatnonzero(holm(p_values) <= level)) == rejected
