"""The local outlier factor: scikit-learn's, samples, equal rows, groups smaller than k."""

import numpy as np
import pytest
from sklearn.neighbors import LocalOutlierFactor

from lpfuse import LOFDetector

RNG = np.random.default_rng(0)
X, NEW = RNG.normal(size=(300, 4)), 2 * RNG.normal(size=(80, 4))


@pytest.mark.parametrize("k", [1, 5, 40, 299, 1000])
def test_scores_are_those_of_scikit_learn(k):
    ours = LOFDetector(k).fit(X)
    theirs = LocalOutlierFactor(n_neighbors=min(k, 299), novelty=True).fit(X)
    np.testing.assert_allclose(ours.score_samples(NEW), theirs.score_samples(NEW), rtol=1e-4)
    np.testing.assert_allclose(
        ours.leave_one_out_scores(X), theirs.negative_outlier_factor_, rtol=1e-4
    )


def test_a_sample_is_searched_alone():
    whole = LOFDetector(10, max_samples=100, random_state=0).fit(X)
    kept = LOFDetector(10).fit(X[whole.kept_])
    np.testing.assert_array_equal(whole.score_samples(NEW), kept.score_samples(NEW))
    left_out = whole.leave_one_out_scores(X)
    np.testing.assert_allclose(left_out[whole.kept_], kept.held_out_scores_, rtol=1e-12)
    others = np.setdiff1d(np.arange(300), whole.kept_)
    np.testing.assert_allclose(left_out[others], whole.score_samples(X[others]), rtol=1e-12)


def test_equal_rows_are_usual():
    rows = np.repeat([[0.0, 0.0], [5.0, 5.0]], 50, axis=0)
    fitted = LOFDetector(20).fit(rows)
    np.testing.assert_allclose(fitted.score_samples([[0.0, 0.0], [5.0, 5.0]]), -1.0)
    assert fitted.score_samples([[2.0, 0.0]]) == [
        -3.0
    ]  # no distance to compare with: one stands in
    assert np.isfinite(LOFDetector().fit(np.zeros((9, 2))).score_samples([[1.0, 1.0]])).all()


def test_a_group_smaller_than_k_does_not_hide_its_members():
    group = RNG.normal(6, 0.05, size=(30, 4))
    rows = np.r_[X, group]
    strange = {k: LOFDetector(k).fit(rows).leave_one_out_scores(rows) for k in (5, 60)}
    lowest = {k: np.mean(np.argsort(scores)[:30] >= 300) for k, scores in strange.items()}
    assert lowest[60] == 1.0
    assert lowest[5] < 0.3  # the control: neighbours of its members are members
