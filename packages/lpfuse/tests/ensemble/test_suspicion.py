"""Unlabelled rows may hide anomalies: the pool, its weights, and scores of the rows themselves."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from lpfuse import FixedRule, FusedDetector, load
from lpfuse.ensemble.defaults import ROBUST, SUSPECTED, Strategy

N, HIDDEN = 300, 24


def dirty(seed, n=N, hidden=HIDDEN):
    """Rows of which the last ones are a hidden group, and fresh rows of both kinds."""
    rng = np.random.default_rng(seed)
    mix = rng.normal(size=(5, 5))
    centre = 3.5 * rng.normal(size=5)
    draw = lambda m: rng.normal(size=(m, 5)) @ mix  # noqa: E731
    group = lambda m: draw(m) * 0.3 + centre  # noqa: E731
    return np.r_[draw(n), group(hidden)], draw(200), group(100)


@pytest.fixture(scope="module")
def heap():
    X, normal, anomalous = dirty(3)
    return X, normal, anomalous, FusedDetector(random_state=0).fit(X)


def auc(fused, normal, anomalous):
    scores = -np.r_[fused.score_samples(normal), fused.score_samples(anomalous)]
    return roc_auc_score(np.repeat([0, 1], [len(normal), len(anomalous)]), scores)


@pytest.mark.parametrize(
    ("labels", "contamination", "share"),
    [
        ([0, 0, 0, 0], None, SUSPECTED),
        ([1, 1, 1, 1], None, 0.0),
        ([0, 0, 1, 1], None, SUSPECTED / 2),
        ([0, 0, -1, -1], None, SUSPECTED),
        ([0, 0, 0, 0], 0.1, 0.1),
        ([1, 1, 1, -1], 0.1, 0.0),
        ([-1, -1], None, 0.0),
    ],
)
def test_the_assumed_share_is_of_unlabelled_rows(labels, contamination, share):
    assert Strategy(contamination=contamination).suspected_share(np.array(labels)) == share


def test_robust_detectors_join_where_rows_are_unlabelled(heap):
    X, *_, fused = heap
    assert fused.detector_names_[-4:] == list(ROBUST)
    known = FusedDetector(random_state=0).fit(X, np.ones(len(X)))
    assert not set(ROBUST) & set(known.detector_names_)
    alone = FusedDetector(random_state=0).fit(X, 1)  # one label for all rows
    np.testing.assert_array_equal(alone.score_samples(X), known.score_samples(X))
    word = FusedDetector(random_state=0).fit(X, "fine", normal="fine")
    np.testing.assert_array_equal(word.score_samples(X), known.score_samples(X))


def test_a_larger_share_gives_them_more_weight(heap):
    X, *_, fused = heap
    told = FusedDetector(contamination=0.1, random_state=0).fit(X)
    assert told.weights_[-4:].sum() > 1.5 * fused.weights_[-4:].sum() > 0
    assert told.certificate_.status == fused.certificate_.status == "optimal"


def test_a_hidden_group_is_found_among_new_rows(heap):
    """Over five worlds; the control takes all rows for normal ones."""
    gains, told = [], []
    for seed in range(5):
        X, normal, anomalous = dirty(seed)
        trusting = auc(FusedDetector(random_state=0).fit(X, 1), normal, anomalous)
        gains.append(auc(FusedDetector(random_state=0).fit(X), normal, anomalous) - trusting)
        known = FusedDetector(contamination=0.08, random_state=0).fit(X)
        told.append(auc(known, normal, anomalous) - trusting)
    assert np.mean(gains) > 0.01
    assert np.mean(told) > np.mean(gains)


def test_hidden_groups_are_found_among_the_fitted_rows(heap):
    X, *_, fused = heap
    truth = np.arange(len(X)) >= N
    own = roc_auc_score(truth, -fused.fitted_scores_)
    held_out = roc_auc_score(truth, -fused.held_out_.fused)
    assert own > held_out + 0.01
    assert np.mean(fused.fitted_labels_ < 0) == pytest.approx(0.05, abs=0.02)


def asked(X, truth, seed):
    """A detector that was taught by 20 answers, the rows asked about, and their chances."""
    fused = FusedDetector(random_state=seed).fit(X)
    rows, chances = fused.query(X, 20, explore=0.3, random_state=seed, return_chances=True)
    return fused.teach(X[rows], truth[rows], chances=chances), rows, chances


def test_answers_tell_the_share_of_a_hidden_group():
    """By the ranks that the rows had when they were asked about, after `teach` and in a refit.

    By held-out scores, among which a group hides, they were taken for anomalies of lower ranks: the
    interval then held the share in one of twelve worlds.
    """
    held = np.zeros((3, 2))
    for seed in range(len(held)):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(500, 4))
        X[:25, :2] += 3.0
        truth = np.repeat([-1, 1], [25, 475])
        fused, rows, chances = asked(X, truth, seed)
        y, known = np.zeros(500), np.full(500, np.nan)
        y[rows], known[rows] = truth[rows], chances
        again = FusedDetector(random_state=seed).fit(X, y, chances=known)
        for k, each in enumerate((fused.contamination_, again.contamination_)):
            held[seed, k] = each.low <= 0.05 <= each.high
    assert (held.sum(axis=0) >= 2).all()


def test_teaching_and_other_weights_keep_the_scores_of_fitted_rows(heap):
    X, normal, *_ = heap
    truth = np.where(np.arange(len(X)) < N, 1, -1)
    fused, *_ = asked(X, truth, 0)
    before = FusedDetector(random_state=0).fit(X).result_.own
    np.testing.assert_array_equal(fused.result_.own, before)
    for found in (fused, fused.with_fusion(FixedRule("sum"))):
        held_out = roc_auc_score(truth, found.held_out_.fused)
        assert roc_auc_score(truth, found.fitted_scores_) > held_out
    fused.teach(normal[:3], [1, 1, 1])  # rows that come later are as new ones
    new = fused.detector_scores(fused.rows_.values[-3:])[:, : before.shape[1]]
    np.testing.assert_allclose(fused.result_.own, np.r_[before, new])


def test_rows_set_aside_keep_their_scores_when_they_are_taught():
    X, *_ = dirty(0, n=2_100, hidden=150)
    fused = FusedDetector(random_state=0).fit(X)
    before = dict(zip(map(bytes, fused.rows_.values), fused.result_.own, strict=True))
    aside = fused.rows_.values[-4:]  # anomalies among them teach: they move up
    fused.teach(aside, [1, -1, 1, -1])
    after = zip(map(bytes, fused.rows_.values), fused.result_.own, strict=True)
    assert all((before[row] == own).all() for row, own in after)


def test_scores_of_fitted_rows_are_saved(heap, tmp_path):
    *_, fused = heap
    fused.save(tmp_path / "model.lpfuse")
    np.testing.assert_array_equal(
        load(tmp_path / "model.lpfuse").fitted_scores_, fused.fitted_scores_
    )


def test_rows_set_aside_are_scored_among_the_fitted_rows():
    X, *_ = dirty(0, n=2_100, hidden=150)
    fused = FusedDetector(random_state=0).fit(X)
    assert fused.result_.calibration.by == "split"
    assert np.isfinite(fused.fitted_scores_).all()
    truth = np.arange(len(X)) >= 2_100
    held_out = FusedDetector(random_state=0).fit(X, 1)
    assert roc_auc_score(truth, -fused.fitted_scores_) > roc_auc_score(
        truth, -held_out.fitted_scores_
    )


def test_clean_rows_keep_the_false_alarm_rate():
    rates = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        fused = FusedDetector(random_state=0).fit(rng.normal(size=(250, 4)))
        rates.append(np.mean(fused.predict(rng.normal(size=(1000, 4))) < 0))
    assert np.mean(rates) == pytest.approx(0.05, abs=0.02)


def test_rows_that_recur_are_no_hidden_group():
    X, *_ = dirty(1)
    X[::10] = 5.0  # a machine at rest, now and then
    with pytest.warns(UserWarning, match="recur"):
        fused = FusedDetector(random_state=0).fit(X)
    assert not set(ROBUST) & set(fused.detector_names_)


def test_a_detector_of_the_user_may_have_the_name_of_a_robust_one():
    X, *_ = dirty(0)
    fused = FusedDetector(["lof", "gmm"], random_state=0).fit(X)
    np.testing.assert_array_equal(fused.fitted_scores_, fused.held_out_.fused)
