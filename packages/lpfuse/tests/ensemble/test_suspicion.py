"""How much rows count that nobody looked at, and how many of them are anomalies."""

import numpy as np
import pytest

from helpers.pools import Distance, both
from lpfuse import FusedDetector
from lpfuse.answers import Estimate, answer_weights
from lpfuse.ensemble.active import SHARES, STEEPNESSES, estimate_share
from lpfuse.ensemble.out_of_fold import (
    GUESS,
    SHARE,
    SUREST,
    expert_weights,
    hidden_chance,
    row_weights,
    strangeness,
)


def test_strangeness_is_a_share_of_rows_whatever_the_unit():
    scores = np.random.default_rng(0).standard_cauchy(200)
    ranks = strangeness(scores)
    np.testing.assert_array_equal(np.sort(ranks), (np.arange(200) + 0.5) / 200)
    np.testing.assert_array_equal(strangeness(np.exp(scores / 100)), ranks)
    np.testing.assert_array_equal(strangeness(np.zeros(200)), 0.5)
    assert strangeness(np.where(np.arange(200) == 7, np.nan, scores))[7] == 0.5 / 200


def test_hidden_anomalies_are_as_many_as_their_share():
    """The mean chance is the share, but for what `SUREST` cuts off and the steps of the ranks."""
    ranks = (np.arange(100_000) + 0.5) / 100_000
    for share in (0.001, 0.01):
        chances = hidden_chance(ranks, share)
        assert chances.mean() == pytest.approx(share, rel=0.03)
        assert (np.diff(chances) <= 0).all()
        strangest = chances[: len(chances) // 10].sum() / chances.sum()
        assert strangest == pytest.approx(0.1**0.38, abs=0.02)
    assert 0.2 < hidden_chance(ranks, 0.3).mean() < 0.3  # less than the share: it errs to trust
    assert hidden_chance(ranks, 0.3).max() == SUREST


def test_the_share_is_that_of_a_naive_posterior():
    """All shares with all steepnesses, one answer at a time."""
    random = np.random.default_rng(0)
    rank, known = random.uniform(0.001, 1, 30), random.choice([-1.0, 1.0, 1.0], 30)
    rank = np.exp(np.round(100 * np.log(rank)) / 100)
    probable = np.zeros(len(SHARES))
    for k, share in enumerate(SHARES):
        laws = [(np.minimum(0.9, share * a * rank ** (a - 1)), 0.3 / 9) for a in STEEPNESSES]
        for density in (0.15, 0.3, 0.6, 0.9):
            band = 0.9 * share / density  # holds nine in ten; the last lies anywhere else
            beyond = max(1e-6, 0.1 * share / max(1 - band, 0.05))
            laws.append((np.where(rank <= band, density, beyond), 0.7 / 4))
        for q, weight in laws:
            probable[k] += weight * np.prod(np.where(known < 0, q, 1 - q))
    found = estimate_share(rank, known)
    assert found.value == pytest.approx(np.average(SHARES, weights=probable))
    inside = (found.low <= SHARES) & (found.high >= SHARES)
    assert 0.95 <= probable[inside].sum() / probable.sum() < 0.97


def test_before_anyone_answers_the_share_is_five_per_cent():
    assert estimate_share(np.empty(0), np.empty(0)).value == pytest.approx(0.05, rel=0.01)
    assert SHARES.mean() == pytest.approx(SHARE, rel=0.01)


@pytest.mark.parametrize("share", [0.01, 0.05, 0.2])
def test_answers_narrow_the_share_down(share):
    """Tables that follow the law: intervals hold it, and shrink as answers come."""
    rank, held, widths = (np.arange(1_000) + 0.5) / 1_000, [], []
    for seed in range(40):
        random = np.random.default_rng(seed)
        known = np.where(random.random(1_000) < hidden_chance(rank, share, 0.45), -1.0, 1.0)
        estimates = [estimate_share(rank[:m], known[:m]) for m in (10, 40)]
        held.append([one.low <= (known < 0).mean() <= one.high for one in estimates])
        widths.append([one.high - one.low for one in estimates])
    assert (np.mean(held, axis=0) > 0.9).all()
    assert np.mean(widths, axis=0)[1] < np.mean(widths, axis=0)[0]


def test_an_easy_table_is_not_taken_for_a_dirty_one():
    """Of 300 rows the 15 strangest are anomalies, and no others: 20 answers hold 5 %."""
    rank = np.r_[(np.arange(17) + 0.5) / 300, 0.3, 0.6, 0.9]
    found = estimate_share(rank, np.repeat([-1.0, 1.0], [15, 5]))
    assert found.low <= 0.05 <= found.high
    assert found.value < 0.1


def test_what_was_found_is_the_least_that_there_is():
    assert estimate_share(np.array([0.01]), np.array([1.0]), at_least=0.1).low > 0.1
    assert estimate_share(np.array([0.01]), np.array([1.0]), at_least=0.9).low == SHARES[-1]


def test_as_many_answers_as_rows():
    rank = (np.arange(200_000) + 0.5) / 200_000
    known = np.where(np.random.default_rng(0).random(200_000) < 0.03, -1.0, 1.0)
    found = estimate_share(rank, known)
    assert 0 < found.low <= found.value <= found.high < 0.1


@pytest.mark.parametrize("n", [1, 50, 2_000])
def test_weights_are_those_of_answers(n):
    random = np.random.default_rng(0)
    scores, known = random.normal(size=n), random.choice([-1.0, 0.0, 0.0, 1.0], n)
    chances = np.where(known == 0, np.nan, random.uniform(0.1, 1, n))
    weights = row_weights(scores, known, chances)
    q = np.minimum(0.9, 0.05 * 0.38 * strangeness(scores) ** -0.62)
    np.testing.assert_allclose(weights, answer_weights(1 - q, known, chances))
    assert (weights > 0).all()
    assert (weights <= 10).all()


def test_equal_rows_count_alike():
    weights = row_weights(np.zeros(60), np.r_[1.0, np.zeros(59)], np.full(60, np.nan))
    assert len(set(weights[1:])) == 1
    assert weights[0] == 1


def test_experts_trust_what_was_vouched_for_ten_times_as_much():
    weights, known = np.array([1.0, 1.0, 0.8, 0.4, 2.0]), np.array([1.0, 1.0, 0.0, 0.0, -1.0])
    found = expert_weights(weights, known)
    assert found[:4].mean() == pytest.approx(1)
    assert found[4] == 2
    assert found[2] / found[0] == pytest.approx(GUESS * 0.8)
    nobody_vouched = expert_weights(weights, np.where(known > 0, 0.0, known))
    np.testing.assert_allclose(nobody_vouched[:4], weights[:4] / weights[:4].mean())
    np.testing.assert_array_equal(weights, [1, 1, 0.8, 0.4, 2])


# --------------------------------------------------------------------------------- of a detector

X, Y = both(90, 10)
POOL = [("near", Distance(), [0, 1]), ("far", Distance(), [2, 3])]


@pytest.mark.parametrize("y", [None, np.zeros(100), np.ones(100)], ids=["none", "0", "1"])
def test_fully_labelled_or_unlabelled_rows_count_alike(y):
    fused = FusedDetector(POOL, random_state=0).fit(X, y)
    assert fused.out_of_fold_.weights is None
    assert fused.contamination_ == estimate_share(np.empty(0), np.empty(0))
    np.testing.assert_array_equal(fused.out_of_fold_.known, 0 if y is None else y)


def test_fits_without_labels_are_those_without_any():
    one, other = (FusedDetector(POOL, random_state=0).fit(X, y) for y in (None, np.zeros(100)))
    np.testing.assert_array_equal(one.score_samples(X), other.score_samples(X))
    assert one.offset_ == other.offset_


@pytest.mark.parametrize("label", [-1, 1])
def test_one_label_leaves_the_others_to_teach(label):
    """On one set five honest labels made AUC fall from 99.6 to 50.0: nothing else was learnt of."""
    y = np.zeros(100)
    y[np.flatnonzero(Y == label)[0]] = label
    fused = FusedDetector(POOL, random_state=0).fit(X, y, unlabelled=0)
    weights = fused.out_of_fold_.weights
    assert (weights > 0).all()
    assert weights[y != 0] == 1
    assert weights[y == 0].mean() > 0.9
    assert len(fused.calibration_) == (y >= 0).sum()


def test_contamination_is_the_share_by_answers_with_chances():
    """Labels from elsewhere are of rows that someone picked: they tell nothing of the others."""
    asked = np.arange(100) % 2 == 0
    fused = FusedDetector(POOL, random_state=0).fit(
        X, np.where(asked, Y, 0), chances=np.where(asked, 0.5, np.nan)
    )
    assert isinstance(fused.contamination_, Estimate)
    assert fused.contamination_.value == pytest.approx(0.1, abs=0.05)
    assert 0.02 < fused.contamination_.low < 0.1 < fused.contamination_.high < 0.25
    labelled = FusedDetector(POOL, random_state=0).fit(X, np.where(asked, Y, 0))
    assert labelled.contamination_ == estimate_share(np.empty(0), np.empty(0))


def test_chances_that_cannot_be():
    fused = FusedDetector(POOL)
    for chances, words in [
        (np.zeros(100), "chances must lie between"),
        (np.full(100, 1.5), "and 1, got 1.5"),
        (np.full(99, 0.5), r"chances must hold one number for each row"),
    ]:
        with pytest.raises(ValueError, match=words):
            fused.fit(X, Y, chances=chances)
        assert not hasattr(fused, "pool_")
