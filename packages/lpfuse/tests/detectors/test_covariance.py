"""The robust covariance: leave-one-out scores, hidden groups, dependent and constant columns."""

import numpy as np
import pytest
from sklearn.covariance import MinCovDet

from lpfuse import RobustCovarianceDetector

RNG = np.random.default_rng(0)
MIX = RNG.normal(size=(4, 4))
X, NEW = RNG.normal(size=(200, 4)) @ MIX, 2 * RNG.normal(size=(60, 4)) @ MIX


@pytest.mark.parametrize("share", [0.55, 1.0])
def test_left_out_scores_are_those_of_the_support_without_the_row(share):
    fitted = RobustCovarianceDetector(share).fit(X)
    scores = fitted.leave_one_out_scores(X)
    for i in range(0, 200, 7):
        rest = np.setdiff1d(fitted.support_, i)
        off = X[i] - X[rest].mean(axis=0)
        square = off @ np.linalg.solve(np.cov(X[rest].T), off)
        assert scores[i] == pytest.approx(-np.log1p(square), rel=1e-4)


def test_the_support_is_nearest_by_the_distance_that_it_sets():
    fitted = RobustCovarianceDetector().fit(X)
    nearest = np.argsort(-fitted.score_samples(X))[: len(fitted.support_)]
    np.testing.assert_array_equal(np.sort(nearest), fitted.support_)
    np.testing.assert_allclose(fitted.location_, X[fitted.support_].mean(axis=0))


def test_its_determinant_is_near_that_of_many_starts():
    """FastMCD tries 500 starts; the support of the least determinant is what both look for."""
    found = RobustCovarianceDetector(0.6).fit(X)
    best = MinCovDet(support_fraction=0.6, random_state=0).fit(X)
    ours, theirs = (
        np.linalg.slogdet(np.cov(X[rows].T))[1] for rows in (found.support_, best.raw_support_)
    )
    assert ours < theirs + 0.15
    assert ours < np.linalg.slogdet(np.cov(X[:120].T))[1] - 1.0  # the control: rows at random


@pytest.mark.parametrize("share", [0.05, 0.3])
def test_hidden_groups_do_not_move_it(share):
    n = round(200 * share)
    rows = np.r_[X, np.full((n, 4), 9.0) @ MIX + RNG.normal(size=(n, 4))]
    robust, plain = (RobustCovarianceDetector(s).fit(rows).score_samples(rows) for s in (0.55, 1.0))
    hits = [np.mean(np.argsort(scores)[:n] >= 200) for scores in (robust, plain)]
    assert hits[0] == 1.0
    assert hits[1] < 1.0 or share < 0.1  # the control: a third of the rows drags the mean along


def test_dependent_and_constant_columns():
    rows = np.c_[X, X[:, 0] + X[:, 1], np.full(200, 3.0)]
    fitted = RobustCovarianceDetector().fit(rows)
    assert np.isfinite(fitted.score_samples(rows)).all()
    broken = rows[:1] + np.array([0, 0, 0, 0, 5.0, 0])
    assert fitted.score_samples(broken)[0] < fitted.score_samples(rows).min()
    assert np.isfinite(
        RobustCovarianceDetector().fit(np.ones((5, 2))).score_samples([[2, 1]])
    ).all()


def test_more_columns_than_rows():
    wide = RNG.normal(size=(20, 50))
    assert np.isfinite(RobustCovarianceDetector().fit(wide).leave_one_out_scores(wide)).all()
