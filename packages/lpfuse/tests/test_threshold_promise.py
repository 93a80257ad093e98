"""Thresholds that keep a rate with confidence, what rows can promise, and ties."""

from itertools import pairwise
from math import inf, nan

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import beta, binom, binomtest, chisquare

from helpers.cases import cases
from helpers.pairwise import each_value
from lpfuse.threshold import (
    calibration_promise,
    conformal_offset,
    conformal_pvalues,
    control_false_discoveries,
)

TOO_FEW = "ignore:.*cannot hold false alarms:UserWarning"
rates = st.floats(0.001, 0.5)
confidences = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99])


@pytest.mark.filterwarnings(TOO_FEW)
@given(n=st.integers(1, 300), rate=rates, confidence=confidences)
@example(n=45, rate=0.05, confidence=0.9)
@example(n=1, rate=0.5, confidence=0.5)
def test_the_rank_is_the_largest_that_keeps_the_promise(n, rate, confidence):
    # k or more of n rows among the strangest: another way to say that a Beta variable is small.
    kept = binom.sf(np.arange(n), n, rate) >= confidence
    expected = kept.sum() if kept.any() else -inf
    assert conformal_offset(np.arange(1, n + 1), rate, confidence) == expected


@cases(
    ("rate", "confidence", "needed"),
    [(0.05, 0.9, 45), (0.01, 0.9, 230), (0.1, 0.95, 29), (0.5, 0.5, 1), (0.05, 0.5, 14)],
)
def test_too_few_rows_for_a_confidence_say_how_many(rate, confidence, needed):
    assert conformal_offset(np.arange(needed), rate, confidence) == 0.0
    assert (1 - rate) ** needed <= 1 - confidence < (1 - rate) ** (needed - 1)
    if needed > 1:
        told = rf"to {rate:g} with confidence {confidence:g}: it takes {needed} held-out"
        with pytest.warns(UserWarning, match=told):
            assert conformal_offset(np.arange(needed - 1), rate, confidence) == -inf


@each_value(n=[2, 7, 8, 13, 60, 61, 113], confidence=[None, 0.9])
def test_the_rate_that_is_offered_is_enough(n, confidence):
    lowest = calibration_promise(n, 0.001, confidence).lowest_rate
    with pytest.warns(UserWarning, match="cannot hold false alarms") as told:
        conformal_offset(np.arange(n), 0.001, confidence)
    words = str(told[0].message)
    if lowest > 0.5:
        assert "or a rate" not in words
        return
    offered = float(words.split("a rate from ")[1].split(" ")[0])
    assert lowest <= offered < 1.02 * lowest
    assert conformal_offset(np.arange(n), offered, confidence) == 0.0


@pytest.mark.parametrize("draw", ["gumbel", "poisson"])
def test_at_most_the_rate_with_the_confidence(draw):
    # Of 1,000 calibration sets, long-run rates by 20,000 fresh rows: rows without ties keep the
    # confidence nearly exactly, with ties it is kept.
    rng = np.random.default_rng(3)
    make = {"gumbel": rng.gumbel, "poisson": lambda size: rng.poisson(30.0, size)}[draw]
    fresh = np.sort(make(size=20_000))
    offsets = [conformal_offset(make(size=150), 0.1, 0.9) for _ in range(1000)]
    reached = np.searchsorted(fresh, offsets, side="left") / fresh.size
    kept = int((reached <= 0.1).sum())
    assert binomtest(kept, 1000, 0.9, alternative="less").pvalue > 0.001
    if draw == "gumbel":
        exact = beta(10, 141).cdf(0.1)  # k = 10 of 150 rows
        assert binomtest(kept, 1000, exact).pvalue > 0.001


@given(n=st.integers(1, 500), rate=rates, confidence=confidences | st.none())
def test_a_promise_and_a_threshold_agree(n, rate, confidence):
    promise = calibration_promise(n, rate, confidence)
    assert (promise.k == 0) == (n < promise.needed)
    assert promise.mean == promise.k / (n + 1)
    assert promise.mean <= rate or confidence == 0.5  # whose median is the rate
    if promise.k:
        assert conformal_offset(np.arange(1, n + 1), rate, confidence) == promise.k
        ends = beta.cdf([promise.low, promise.high], promise.k, n + 1 - promise.k)
        assert ends == pytest.approx([0.05, 0.95])
    if promise.lowest_rate <= 0.5:
        above = min(promise.lowest_rate * (1 + 1e-9), 0.5)
        assert calibration_promise(n, above, confidence).k >= 1


def test_more_confidence_takes_more_rows_and_gives_fewer_alarms():
    ranks = [calibration_promise(500, 0.05, sure).k for sure in (None, 0.5, 0.8, 0.9, 0.99)]
    assert ranks == [25, 25, 21, 19, 14]
    needed = [calibration_promise(500, 0.05, sure).needed for sure in (None, 0.8, 0.9, 0.99)]
    assert all(a < b for a, b in pairwise(needed))


def test_promises_in_words():
    assert calibration_promise(60, 0.01).sentence() == (
        "60 rows cannot promise 1 %: nothing would be called an anomaly. It takes 99 rows, or ask "
        "for 1.7 % or more."
    )
    assert calibration_promise(1, 0.01, 0.9).sentence() == (
        "1 rows cannot promise 1 % with probability 0.9: nothing would be called an anomaly. It "
        "takes 230 rows."
    )
    assert calibration_promise(199, 0.05).sentence() == (
        "199 rows promise false alarms of at most 5 % on average: 5 % on average over calibration "
        "sets, and with one set, in the long run, between 2.8 % and 7.8 % in nine sets of ten."
    )
    assert calibration_promise(199, 0.05, 0.9).sentence() == (
        "199 rows promise false alarms of at most 5 % with probability 0.9 over calibration sets: "
        "3 % on average over calibration sets, between 1.3 % and 5.2 % in nine sets of ten."
    )
    folds = calibration_promise(199, 0.05, out_of_fold=True).sentence()
    assert folds.startswith("199 rows scored out of folds aim at 5 %: about 5 % on average")
    assert "promise" not in folds
    assert folds.endswith("it is no theorem.")


@cases("confidence", [0, 0.4, 1, 90, nan, "0.9", True])
def test_a_confidence_is_a_probability(confidence):
    for use in (
        lambda: conformal_offset([1.0, 2.0], 0.5, confidence),
        lambda: calibration_promise(2, 0.5, confidence),
    ):
        with pytest.raises(ValueError, match=r"confidence must be .* write 0\.9 for nine"):
            use()


def test_rows_are_counted_in_whole_numbers():
    for n in (0, 2.5, "60"):
        with pytest.raises(ValueError, match="n must be a whole number from 1"):
            calibration_promise(n, 0.05)


# --- ties ---


def ranks_of_normal_rows(random_state, repetitions=2_500, n=9):
    """How often each p-value k / (n + 1) came, for a normal row whose scores have many ties."""
    rng = np.random.default_rng(5)
    scores = rng.poisson(1.0, (repetitions, n + 1))
    found = [
        conformal_pvalues(
            row[1:], row[:1], random_state=None if random_state is None else random_state + i
        )[0]
        for i, row in enumerate(scores)
    ]
    return np.bincount(np.rint(np.array(found) * (n + 1)).astype(int), minlength=n + 2)[1:]


def test_ties_make_pvalues_conservative_and_random_ones_exact():
    plain, broken = ranks_of_normal_rows(None), ranks_of_normal_rows(0)
    at_most = np.cumsum(plain) / plain.sum()
    assert (at_most <= np.arange(1, 11) / 10 + 0.02).all()
    assert at_most[0] < 0.02  # where 0.1 was allowed
    assert chisquare(broken).pvalue > 0.001
    assert chisquare(plain).pvalue < 1e-9


@given(
    calibration=st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=20),
    scores=st.lists(st.integers(-3, 3).map(float) | st.sampled_from([nan, inf, -inf]), max_size=9),
    seed=st.integers(0, 99),
)
def test_random_pvalues_lie_between_counting_no_tie_and_all(calibration, scores, seed):
    found = conformal_pvalues(calibration, scores, random_state=seed)
    least = [(1 + sum(c < s for c in calibration)) / (len(calibration) + 1) for s in scores]
    most = conformal_pvalues(calibration, scores)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(scores))
    known = ~np.isnan(found)
    assert (np.array(least)[known] <= found[known]).all()
    assert (found[known] <= most[known]).all()
    again = conformal_pvalues(calibration, scores, random_state=seed)
    np.testing.assert_array_equal(found, again)


def test_without_ties_nothing_is_random():
    rng = np.random.default_rng(0)
    calibration, scores = rng.normal(size=99), rng.normal(size=20)
    np.testing.assert_array_equal(
        conformal_pvalues(calibration, scores, random_state=1),
        conformal_pvalues(calibration, scores),
    )


@pytest.mark.parametrize("random_state", [None, 0])
def test_false_discoveries_with_ties_stay_within_the_rate(random_state):
    rng = np.random.default_rng(4)
    proportions, found = [], []
    for i in range(400):
        scores = np.round(rng.normal(size=200) * 2)  # 15 different scores or so
        scores[:20] -= 8
        seed = None if random_state is None else i
        pvalues = conformal_pvalues(np.round(rng.normal(size=999) * 2), scores, random_state=seed)
        declared = control_false_discoveries(pvalues, 0.2)
        proportions.append(declared[20:].sum() / max(declared.sum(), 1))
        found.append(declared[:20].mean())
    assert np.mean(proportions) <= 0.18 + 2.5 * np.std(proportions) / 20
    assert np.mean(found) > 0.5


def test_ties_are_broken_in_memory():
    da = pytest.importorskip("dask.array")
    lazy = da.from_array(np.arange(4.0), chunks=2)
    for calibration, scores in ((lazy, [1.0]), ([1.0], lazy)):
        with pytest.raises(
            ValueError, match=r"some are Dask collections. Pass their \.compute\(\)"
        ):
            conformal_pvalues(calibration, scores, random_state=0)
