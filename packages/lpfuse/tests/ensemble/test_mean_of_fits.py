"""An expert is the mean of its fits; scores of one fit are shrunk where they calibrate."""

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from helpers.pools import Distance, both, normal_rows
from lpfuse import FusedDetector, GMMDetector
from lpfuse.adapters import ClassifierExpert
from lpfuse.ensemble.out_of_fold import _reseeded, ensemble_shrinkage, shrink_to_ensemble_variance
from lpfuse.ensemble.pool import MeanOfFits, Member
from lpfuse.io import load, save

X, Y = both(60, 10)
NEW = normal_rows(9, seed=5)
POOL = [
    ("near", Distance(), [0, 1]),
    ("gmm", GMMDetector(2)),
    ("logistic", LogisticRegression()),
    ("trees", ExtraTreesClassifier(5)),
]


# ------------------------------------------------------------------------------------- the mean


def experts():
    return [ClassifierExpert(made).fit(X, Y) for made in (LogisticRegression(), GaussianNB())]


def test_a_row_gets_the_mean_of_the_scores():
    first, second = experts()
    mean = MeanOfFits([first, second])
    expected = (first.score_samples(NEW) + second.score_samples(NEW)) / 2
    np.testing.assert_allclose(mean.score_samples(NEW), expected, rtol=1e-12)
    assert mean.fit(X, Y) is mean
    np.testing.assert_allclose(mean.score_samples(NEW), expected, rtol=1e-12)


def test_saved_and_loaded_it_says_the_same(tmp_path):
    mean = MeanOfFits(experts())
    save(mean, tmp_path / "mean")
    copy = load(tmp_path / "mean")
    assert len(copy.fits) == 2
    np.testing.assert_array_equal(copy.score_samples(NEW), mean.score_samples(NEW))


def test_a_saved_detector_keeps_all_fits_of_its_experts(tmp_path):
    fused = FusedDetector(POOL[1:], cv=3, random_state=0).fit(X, Y)
    save(fused, tmp_path / "fused")
    copy = load(tmp_path / "fused")
    assert [len(expert.estimator.fits) for expert in copy.pool_.experts] == [3, 3]
    for method in ("detector_scores", "decision_function", "pvalues"):
        np.testing.assert_array_equal(getattr(copy, method)(NEW), getattr(fused, method)(NEW))


@pytest.mark.parametrize("y", [Y, np.where(np.arange(70) % 2, Y, 0)], ids=["all", "half"])
def test_n_jobs_does_not_change_labelled_fits(y):
    one, two = (FusedDetector(POOL, n_jobs=jobs, random_state=0).fit(X, y) for jobs in (1, 2))
    np.testing.assert_array_equal(one.out_of_fold_.scores, two.out_of_fold_.scores)
    np.testing.assert_array_equal(one.weights_, two.weights_)
    np.testing.assert_array_equal(one.held_out_.fused, two.held_out_.fused)
    assert len(one.unseen_.parts) == 5
    for first, second in zip(one.unseen_.parts, two.unseen_.parts, strict=True):
        np.testing.assert_array_equal(first.hidden, second.hidden)
        np.testing.assert_array_equal(first.scores, second.scores)
    assert one.offset_ == two.offset_
    for method in ("detector_scores", "decision_function", "pvalues"):
        np.testing.assert_array_equal(getattr(one, method)(NEW), getattr(two, method)(NEW))


def test_each_fit_draws_by_a_seed_of_its_own():
    fused = FusedDetector(POOL, random_state=0).fit(X, Y)
    trees = {expert.name: expert for expert in fused.pool_.experts}["trees"]
    seeds = [fit.classifier_.random_state for fit in trees.estimator.fits]
    assert seeds == [seeds[0] + number for number in range(5)]
    member = Member("trees", ClassifierExpert(ExtraTreesClassifier(random_state=2**31 - 1)))
    made = _reseeded(member, 1)
    assert made.estimator.get_params()["classifier__random_state"] == 0  # and never too large
    assert member.estimator.classifier.random_state == 2**31 - 1
    unset = _reseeded(Member("trees", ClassifierExpert(ExtraTreesClassifier())), 3)
    assert unset.estimator.classifier.random_state is None


# ------------------------------------------------------------------------------------- calmness


def fits_of(m, n_fits, sigma, tau, seed=0):
    """What fits say of rows that differ by sigma, where fits differ by tau, about 3."""
    rng = np.random.default_rng(seed)
    rows, fold = rng.normal(3.0, sigma, (m, len(sigma))), rng.integers(0, n_fits, m)
    by_fit = rows + rng.normal(size=(n_fits, m, len(sigma))) * tau
    return by_fit[fold, np.arange(m)], by_fit, fold


@pytest.mark.parametrize("n_fits", [3, 5, 10])
def test_shrinkage_is_that_of_the_variances(n_fits):
    sigma, tau = np.array([1.0, 1.0, 2.0, 1.0]), np.array([0.0, 1.0, 0.5, 2.0])
    scores, by_fit, fold = fits_of(40_000, n_fits, sigma, tau)
    found = ensemble_shrinkage(scores, by_fit, fold)
    expected = np.sqrt((sigma**2 + tau**2 / n_fits) / (sigma**2 + tau**2))
    np.testing.assert_allclose(found, expected, rtol=0.03)
    # That is what it is for: new rows, by all fits, scatter as much as shrunk ones.
    single = shrink_to_ensemble_variance(scores, found, scores)
    means = fits_of(40_000, n_fits, sigma, tau, seed=1)[1].mean(axis=0)
    for share in (0.01, 0.05, 0.2):
        np.testing.assert_allclose(
            np.quantile(single, share, axis=0) - 3.0,
            np.quantile(means, share, axis=0) - 3.0,
            rtol=0.06,
        )


@pytest.mark.parametrize("shift", [-1e3, 0.0, 1e3])
def test_calmness_knows_no_place_and_no_unit(shift):
    scores, by_fit, fold = fits_of(300, 5, np.ones(2), np.ones(2))
    found = ensemble_shrinkage(scores, by_fit, fold)
    other = ensemble_shrinkage(7 * scores + shift, 7 * by_fit + shift, fold)
    np.testing.assert_allclose(other, found, rtol=1e-9)
    assert ((found > np.sqrt(0.2)) & (found < 1)).all()


def test_two_fits_or_one_row_tell_nothing():
    for m, n_fits in [(300, 2), (300, 1), (1, 5)]:
        found = ensemble_shrinkage(*fits_of(m, n_fits, np.ones(3), np.ones(3)))
        np.testing.assert_array_equal(found, np.ones(3))


def test_shrinkage_is_bounded_by_that_of_a_mean():
    scores, by_fit, fold = fits_of(300, 5, np.ones(1), np.ones(1))
    np.testing.assert_allclose(ensemble_shrinkage(scores, 100 * by_fit, fold), np.sqrt(1 / 5))
    equal = np.zeros_like(scores)  # there is nothing below the median
    np.testing.assert_array_equal(ensemble_shrinkage(equal, by_fit, fold), [1.0])


def test_silent_experts_are_left_as_they_are():
    scores, by_fit, fold = fits_of(300, 5, np.ones(3), np.ones(3))
    alone = ensemble_shrinkage(scores, by_fit, fold)
    scores[:, 1], by_fit[:, :, 1] = np.nan, np.nan
    found = ensemble_shrinkage(scores, by_fit, fold)
    np.testing.assert_array_equal(found, [alone[0], 1.0, alone[2]])
    some = np.arange(300) % 3 == 0
    scores[some, 0], by_fit[:, some, 0] = np.nan, np.nan
    fewer = ensemble_shrinkage(scores, by_fit, fold)
    kept = ensemble_shrinkage(scores[~some], by_fit[:, ~some], fold[~some])
    np.testing.assert_allclose(fewer[0], kept[0], rtol=1e-12)
    out = shrink_to_ensemble_variance(scores, found, scores)
    np.testing.assert_array_equal(np.isnan(out), np.isnan(scores))


def test_scores_below_the_median_come_nearer_to_it():
    normal = np.array([[1.0], [2.0], [3.0], [4.0], [np.nan]])  # the median is 2.5
    scores = np.array([[-2.5], [2.5], [9.0], [np.nan]])
    found = shrink_to_ensemble_variance(scores, np.array([0.5]), normal)
    np.testing.assert_array_equal(found, [[0.0], [2.5], [9.0], [np.nan]])
    assert shrink_to_ensemble_variance(scores, None, normal) is scores
    np.testing.assert_array_equal(shrink_to_ensemble_variance(scores, np.ones(1), normal), scores)
