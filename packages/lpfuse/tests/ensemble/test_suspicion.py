"""Unlabelled rows may hide anomalies: the pool, its weights, and scores of the rows themselves."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from lpfuse import FusedDetector, load
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
    X[:30] = 5.0  # a machine at rest
    with pytest.warns(UserWarning, match="recur"):
        fused = FusedDetector(random_state=0).fit(X)
    assert not set(ROBUST) & set(fused.detector_names_)


def test_a_detector_of_the_user_may_have_the_name_of_a_robust_one():
    X, *_ = dirty(0)
    fused = FusedDetector(["lof", "gmm"], random_state=0).fit(X)
    np.testing.assert_array_equal(fused.fitted_scores_, fused.held_out_.fused)
