"""The k-nearest-neighbour detector against loops over all rows."""

import numpy as np
import pytest

from helpers.pairwise import each_value
from lpfuse import KNNDetector


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(60, 4))


@pytest.fixture
def new():
    return 3 * np.random.default_rng(1).normal(size=(20, 4))


def kth_distance(x, rows, k):
    """By sorting all distances."""
    return np.sort(np.linalg.norm(rows - x, axis=1))[min(k, len(rows)) - 1]


def held_out(X, k):
    return np.array([kth_distance(x, np.delete(X, i, axis=0), k) for i, x in enumerate(X)])


def softened(z):
    return z if z <= 10 else 10 + np.log(z / 10)


@each_value(k=(1, 5, 59, 100), d=(1, 4, 20))  # by a search tree, and by products
def test_scores_are_distances_to_the_kth_row(k, d):
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(60, d)), rng.normal(size=(20, d))
    fitted = KNNDetector(k).fit(X)
    expected = [-kth_distance(x, X, k) for x in new]
    np.testing.assert_allclose(fitted.score_samples(new), expected, rtol=1e-12)
    np.testing.assert_allclose(fitted.leave_one_out_scores(X), -held_out(X, k), rtol=1e-12)


@pytest.mark.parametrize("k", [1, 3])
def test_subspaces_are_averaged_in_units_of_their_mean_distance(X, new, k):
    fitted = KNNDetector(k, n_subspaces=6, random_state=0).fit(X)
    total, of_training = np.zeros(len(new)), np.zeros(len(X))
    for columns in fitted.columns_:
        left_out = held_out(X[:, columns], k)
        usual = left_out.mean()
        distances = [kth_distance(x, X[:, columns], k) for x in new[:, columns]]
        total -= [softened(distance / usual) for distance in distances]
        of_training -= [softened(distance / usual) for distance in left_out]
    np.testing.assert_allclose(fitted.score_samples(new), total / 6, rtol=1e-4)
    np.testing.assert_allclose(fitted.leave_one_out_scores(X), of_training / 6, rtol=1e-4)


def test_subsets_have_all_sizes():
    X = np.random.default_rng(0).normal(size=(10, 5))
    fitted = KNNDetector(1, n_subspaces=200, random_state=0).fit(X)
    sizes = np.bincount([len(columns) for columns in fitted.columns_], minlength=6)
    assert sizes[0] == 0
    assert (sizes[1:] > 15).all()
    assert all(len(set(columns)) == len(columns) for columns in fitted.columns_)


def test_of_many_rows_each_subset_searches_its_own_sample(new):
    X = np.random.default_rng(0).normal(size=(500, 4))
    fitted = KNNDetector(2, n_subspaces=5, max_samples=30, random_state=0).fit(X)
    samples = [fitted.kept_[sample] for sample in fitted.samples_]
    assert [len(set(sample)) for sample in samples] == [30] * 5
    assert len(set(map(tuple, samples))) == 5
    assert len(fitted.rows_) == 150
    expected = np.zeros(500)
    for columns, sample, scale in zip(fitted.columns_, samples, fitted.scale_, strict=True):
        for i, x in enumerate(X):
            others = X[np.setdiff1d(sample, [i])][:, columns]  # a row not in the sample: all of it
            expected[i] -= softened(kth_distance(x[columns], others, 2) / scale) / 5
    np.testing.assert_allclose(fitted.leave_one_out_scores(X), expected, rtol=1e-9)
    held_out = np.sort(fitted.leave_one_out_scores(X))
    assert fitted.offset_ == pytest.approx(held_out[49], rel=1e-6)  # the 50th: ⌊501 / 10⌋


@pytest.mark.parametrize("n_subspaces", [None, 4])
def test_the_threshold_is_a_held_out_score_of_known_rank(X, n_subspaces):
    fitted = KNNDetector(1, n_subspaces, contamination=0.2, random_state=0).fit(X)
    held_out = np.sort(fitted.leave_one_out_scores(X))
    assert fitted.offset_ == pytest.approx(held_out[11], rel=1e-6)  # the 12th: ⌊61 / 5⌋


@pytest.mark.parametrize("n_subspaces", [None, 5])
@pytest.mark.parametrize("n", [2, 3])
def test_few_rows_will_do(n, n_subspaces):
    X = np.arange(2.0 * n).reshape(n, 2)
    fitted = KNNDetector(5, n_subspaces, random_state=0).fit(X)
    assert np.isfinite(fitted.leave_one_out_scores(X)).all()
    assert fitted.score_samples(X + 100)[0] < fitted.score_samples(X)[0] <= 0
    assert np.isfinite(KNNDetector(max_samples=1).fit(X).leave_one_out_scores(X)).all()


@pytest.mark.parametrize("n_subspaces", [None, 5])
@pytest.mark.parametrize("d", [2, 20])
def test_equal_rows_are_at_no_distance(d, n_subspaces):
    X = np.tile(np.random.default_rng(0).normal(1e3, 1, size=d), (30, 1))
    fitted = KNNDetector(2, n_subspaces, random_state=0).fit(X)
    np.testing.assert_array_equal(fitted.score_samples(X), 0)
    np.testing.assert_array_equal(fitted.leave_one_out_scores(X), 0)
    assert (fitted.predict(X) == 1).all()
    assert (fitted.predict(X + 1) == -1).all()


def test_a_new_value_of_a_discrete_column_is_bounded():
    """In a column of zeros and ones every row has an equal one: its mean distance is zero."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 2, 100), rng.normal(size=(100, 6))])
    fitted = KNNDetector(1, n_subspaces=20, random_state=0).fit(X)
    row = X[:1].copy()
    row[0, 0] = 0.5
    assert -25 < fitted.score_samples(row)[0] < 0
    far = np.vstack([X[:1] + 10.0**power for power in range(1, 6)])
    assert (np.diff(fitted.score_samples(far)) < 0).all()  # farther stays farther


def test_other_rows_have_no_leave_one_out_scores(X):
    fitted = KNNDetector().fit(X)
    with pytest.raises(ValueError, match=r"must be the 60 rows .* got 59.*use score_samples"):
        fitted.leave_one_out_scores(X[1:])
    with pytest.raises(ValueError, match=r"at least 2 rows, got n_samples = 1"):
        KNNDetector().fit(X[:1])


@pytest.mark.filterwarnings("error")
def test_numbers_beyond_their_squares_are_far():
    X = np.random.default_rng(0).normal(size=(20, 2))
    assert (KNNDetector().fit(X).predict([[1e200, 0.0]]) == -1).all()
