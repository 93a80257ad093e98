from dataclasses import replace
from fractions import Fraction
from math import floor, inf, nan

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import beta, kstest

from helpers.cases import cases
from lpfuse import FusedDetector, GMMDetector, KernelPCADetector
from lpfuse.metrics import best_g_mean
from lpfuse.threshold import (
    THRESHOLD_RULES,
    ThresholdRule,
    conformal_offset,
    conformal_pvalues,
    contamination_offset,
    control_false_discoveries,
    g_mean_offset,
)

TOO_FEW = "ignore:.*cannot hold false alarms:UserWarning"

# Few values, so that ties are common; and some that only the last digit tells apart.
few = st.integers(-4, 4).map(float)
close = st.sampled_from([-inf, -1.0, 1 - 2**-53, 1.0, 1 + 2**-52, inf])
some_scores = st.lists(few, min_size=1, max_size=45) | st.lists(close, min_size=1, max_size=45)
rates = st.floats(0.0, 0.5, exclude_min=True) | st.integers(1, 50).map(lambda k: k / 100)


def naive_pvalue(calibration, score):
    return Fraction(1 + sum(c <= score for c in calibration), len(calibration) + 1)


@given(calibration=some_scores, scores=some_scores)
def test_pvalues_count_the_calibration_rows_that_are_no_higher(calibration, scores):
    expected = [float(naive_pvalue(calibration, score)) for score in scores]
    np.testing.assert_array_equal(conformal_pvalues(calibration, scores), expected)
    np.testing.assert_array_equal(conformal_pvalues(sorted(calibration), scores), expected)


@given(calibration=some_scores, scores=st.lists(few | st.just(nan), max_size=9))
def test_a_missing_score_has_a_missing_pvalue_only(calibration, scores):
    pvalues = conformal_pvalues(calibration, scores)
    np.testing.assert_array_equal(np.isnan(pvalues), np.isnan(scores))
    known = [score for score in scores if score == score]
    np.testing.assert_array_equal(
        pvalues[~np.isnan(pvalues)], conformal_pvalues(calibration, known)
    )


def test_calibration_scores_are_not_sorted_in_place():
    calibration = np.array([2.0, 1.0, 3.0])
    conformal_pvalues(calibration, [1.5])
    conformal_offset(calibration, 0.5)
    assert calibration.tolist() == [2.0, 1.0, 3.0]


@pytest.mark.filterwarnings(TOO_FEW)
@given(calibration=some_scores, rate=rates)
@example(calibration=[float(i) for i in range(19)], rate=0.05)
@example(calibration=[float(i) for i in range(99)], rate=0.29)  # 0.29 · 100 rounds to below 29
@example(calibration=[float(i) for i in range(9)], rate=np.nextafter(0.1, 0))
def test_offset_and_pvalues_agree_on_every_score(calibration, rate):
    offset = conformal_offset(calibration, rate)
    around = np.array(sorted(set(calibration)))
    scores = np.concatenate([around, np.nextafter(around, -inf), np.nextafter(around, inf)])
    declared = conformal_pvalues(calibration, scores) <= rate
    np.testing.assert_array_equal(scores < offset, declared)
    assert offset == -inf or offset in calibration


@given(n=st.integers(1, 400), percent=st.integers(1, 50))
@pytest.mark.filterwarnings(TOO_FEW)
def test_a_rate_means_the_decimal_that_was_written(n, percent):
    k = floor(Fraction(percent, 100) * (n + 1))
    assert conformal_offset(np.arange(1, n + 1), percent / 100) == (k if k else -inf)


@cases(("rate", "needed"), [(0.5, 1), (0.1, 9), (0.07, 14), (0.05, 19), (1 / 49, 48), (1e-3, 999)])
def test_too_few_rows_warn_how_many_are_needed(rate, needed):
    assert conformal_offset(np.arange(needed), rate) == 0.0
    if needed > 1:
        with pytest.warns(
            UserWarning, match=f"{needed - 1} normal rows .* it takes {needed} held-out"
        ):
            assert conformal_offset(np.arange(needed - 1), rate) == -inf


def test_the_rate_that_the_warning_offers_is_enough():
    with pytest.warns(UserWarning, match="a rate from 0.25 upwards"):
        conformal_offset([1.0, 2.0, 3.0], 0.2)
    assert conformal_offset([1.0, 2.0, 3.0], 0.25) == 1.0


@pytest.mark.parametrize("rate", [0.05, 0.1])
@pytest.mark.parametrize("n", [60, 199])
def test_false_alarms_on_average_over_calibration_sets(n, rate):
    rng = np.random.default_rng(n)
    alarms = []
    for _ in range(100):
        calibration, fresh = rng.gumbel(size=n), rng.gumbel(size=2000)
        alarms.append(np.mean(fresh < conformal_offset(calibration, rate)))
    assert np.mean(alarms) == pytest.approx(floor(rate * (n + 1)) / (n + 1), abs=0.01)


def test_ties_make_false_alarms_rarer_never_more_frequent():
    rng = np.random.default_rng(0)
    alarms = [
        np.mean(rng.poisson(3.0, 2000) < conformal_offset(rng.poisson(3.0, 199), 0.1))
        for _ in range(100)
    ]
    assert 0 < np.mean(alarms) <= 0.1


@pytest.mark.parametrize(("n", "rate", "k"), [(60, 0.1, 6), (199, 0.05, 10)])
def test_given_the_calibration_rows_the_rate_follows_a_beta_law(n, rate, k):
    # Of uniform scores the rate below a threshold is the threshold.
    rng = np.random.default_rng(1)
    reached = [conformal_offset(rng.random(n), rate) for _ in range(2000)]
    assert kstest(reached, beta(k, n + 1 - k).cdf).pvalue > 0.05
    assert kstest(reached, beta(k + 1, n - k).cdf).pvalue < 1e-6


def test_the_spread_that_the_docstring_quotes():
    low, high = beta(10, 190).ppf([0.025, 0.975])
    assert f"{low:.3f} and {high:.3f}" in " ".join(conformal_offset.__doc__.split())


@given(scores=some_scores, share=st.floats(0.0, 0.5, exclude_min=True))
def test_at_most_the_share_lies_below_the_contamination_offset(scores, share):
    offset = contamination_offset(scores, share)
    below = sum(score < offset for score in scores)
    assert below / len(scores) <= share
    others = [sum(score < cut for score in scores) for cut in scores]
    assert below == max(count for count in others if count / len(scores) <= share)
    assert min(scores) <= offset <= max(scores)


@given(n=st.integers(2, 300), percent=st.integers(1, 50))
@example(n=100, percent=29)
def test_the_contamination_offset_parts_distinct_scores_halfway(n, percent):
    k = percent * n // 100
    expected = k - 0.5 if k else 0.0
    rows = np.random.default_rng(n).permutation(n)
    assert contamination_offset(rows, percent / 100) == expected


def test_g_mean_offset_is_that_of_the_best_g_mean():
    rng = np.random.default_rng(0)
    labels = np.repeat([1, -1], [60, 15])
    scores = rng.normal(labels)
    assert g_mean_offset(scores, labels) == best_g_mean(labels, scores)[1]


def benjamini_hochberg(pvalues, rate):
    """The definition, in exact numbers."""
    ordered, m = sorted(pvalues), len(pvalues)
    last = max((j for j in range(1, m + 1) if ordered[j - 1] <= rate * Fraction(j, m)), default=0)
    return [last > 0 and p <= ordered[last - 1] for p in pvalues]


@given(
    counts=st.lists(st.integers(1, 40), max_size=40),
    n=st.sampled_from([39, 59, 98, 99]),
    percent=st.integers(1, 100),
)
@example(counts=[4, 40, 40], n=39, percent=30)  # 0.1 · 3 rounds to above 0.3
def test_false_discoveries_as_defined(counts, n, percent):
    pvalues = [Fraction(count, n + 1) for count in counts]
    expected = benjamini_hochberg(pvalues, Fraction(percent, 100))
    declared = control_false_discoveries([float(p) for p in pvalues], percent / 100)
    assert declared.tolist() == expected


@given(
    pvalues=st.lists(st.integers(0, 20).map(lambda k: k / 20), max_size=20),
    where=st.integers(0, 20),
)
def test_a_missing_pvalue_is_never_declared_and_does_not_count(pvalues, where):
    declared = control_false_discoveries([*pvalues[:where], nan, *pvalues[where:]], 0.2)
    where = min(where, len(pvalues))
    assert not declared[where]
    np.testing.assert_array_equal(
        np.delete(declared, where), control_false_discoveries(pvalues, 0.2)
    )


def test_nothing_is_declared_where_nothing_is_known():
    assert control_false_discoveries([nan, nan], 0.5).tolist() == [False, False]
    assert control_false_discoveries([], 0.5).tolist() == []


@pytest.mark.parametrize("share_of_anomalies", [0.0, 0.1])
def test_false_discoveries_stay_within_the_rate(share_of_anomalies):
    rng = np.random.default_rng(2)
    rate, m = 0.2, 200
    anomalies = int(share_of_anomalies * m)
    proportions, found = [], []
    for _ in range(400):
        scores = rng.normal(size=m)
        scores[:anomalies] -= 3.5
        pvalues = conformal_pvalues(rng.normal(size=999), scores)
        declared = control_false_discoveries(pvalues, rate)
        proportions.append(declared[anomalies:].sum() / max(declared.sum(), 1))
        found.append(declared[:anomalies].sum())
    # Where rate · (n + 1) / m is whole, the rate times the share of normal rows is reached.
    noise = 2.5 * np.std(proportions) / 400**0.5
    assert np.mean(proportions) == pytest.approx(rate * (1 - share_of_anomalies), abs=noise)
    assert np.mean(found) > 0.7 * anomalies or anomalies == 0


@cases("rate", [0, -0.1, 0.6, 5, nan, "0.05", None, True])
def test_rates_that_are_no_share_are_refused(rate):
    with pytest.raises(ValueError, match=r"false_alarm_rate must be .*write 0\.05 for 5 %"):
        conformal_offset([1.0, 2.0], rate)
    with pytest.raises(ValueError, match=r"contamination must be .*write 0\.05 for 5 %"):
        contamination_offset([1.0, 2.0], rate)


@cases("rate", [0, 1.5, nan, None])
def test_rates_of_false_discoveries_that_are_no_share_are_refused(rate):
    with pytest.raises(ValueError, match=r"rate must be .*write 0\.05 for 5 %"):
        control_false_discoveries([0.5], rate)


@pytest.mark.parametrize(
    ("pvalues", "told"),
    [([-0.1, 0.5], "-0.1 to 0.5"), ([0.5, 1.5], "0.5 to 1.5"), ([3, nan], "3 to 3")],
)
def test_scores_are_no_pvalues(pvalues, told):
    with pytest.raises(ValueError, match=rf"pvalues must lie in \[0, 1\], got values from {told}"):
        control_false_discoveries(pvalues, 0.1)


def test_scores_that_cannot_be_used_are_refused():
    for of in (lambda c: conformal_offset(c, 0.1), lambda c: conformal_pvalues(c, [1.0])):
        with pytest.raises(
            ValueError, match="calibration must hold the score of at least one row, but it is"
        ):
            of([])
        with pytest.raises(ValueError, match="calibration must be numbers, but 1 of 2 are NaN"):
            of([1.0, nan])
        with pytest.raises(ValueError, match=r"calibration must hold one number .* \(1, 2\)"):
            of([[1.0, 2.0]])
    with pytest.raises(
        ValueError, match="scores must hold the score of at least one row, but it is"
    ):
        contamination_offset([], 0.1)
    with pytest.raises(ValueError, match="scores must be numbers, but 1 of 1 are NaN"):
        contamination_offset([nan], 0.1)
    with pytest.raises(ValueError, match="y has no anomaly"):
        g_mean_offset([1.0, 2.0], [1, 1])


@pytest.mark.parametrize("name", THRESHOLD_RULES)
def test_every_rule_gives_a_threshold_between_well_parted_classes(name):
    rule = THRESHOLD_RULES[name]
    labels = np.repeat([1.0, -1.0], [99, 9])
    scores = np.where(labels > 0, 10.0, -10.0) + np.linspace(0, 1, 108)
    kept = np.ones(108, dtype=bool) if rule.needs_anomalies else labels > 0
    offset = rule.offset(scores[kept], labels[kept], 0.05)
    assert scores[labels < 0].max() < offset <= np.quantile(scores[labels > 0], 0.06)


@pytest.mark.parametrize("name", THRESHOLD_RULES)
def test_the_words_of_a_rule_can_be_filled_in(name):
    words = THRESHOLD_RULES[name].words.format(false_alarm_rate=0.05)
    assert words
    assert "{" not in words


def test_the_rule_of_false_alarms_follows_its_rate():
    scores, ones = np.arange(99.0), np.ones(99)
    rule = THRESHOLD_RULES["false-alarms"]
    assert rule.offset(scores, ones, 0.05) == conformal_offset(scores, 0.05)
    assert rule.offset(scores, ones, 0.2) == conformal_offset(scores, 0.2)
    assert "0.2 of the normal rows" in rule.words.format(false_alarm_rate=0.2)


def test_every_registered_rule_is_accepted_by_a_detector(monkeypatch):
    """Adding a line to the table is all that it takes: parameter, labels and report follow."""
    X = np.random.default_rng(0).normal(size=(80, 2))
    pool = [("gmm", GMMDetector()), ("kpca", KernelPCADetector())]
    median = ThresholdRule(lambda scores, labels, rate: float(np.median(scores)), "the median")
    monkeypatch.setitem(THRESHOLD_RULES, "median", median)
    fused = FusedDetector(pool, threshold="median", random_state=0).fit(X)
    assert fused.offset_ == np.median(fused.calibration_)
    monkeypatch.setitem(THRESHOLD_RULES, "median", replace(median, needs_anomalies=True))
    with pytest.raises(ValueError, match='threshold="median" needs labelled anomalies'):
        FusedDetector(pool, threshold="median", random_state=0).fit(X)
