from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from helpers.pairwise import each_value
from lpfuse import SVDD, GMMDetector, KernelPCADetector, OneClassGP
from lpfuse._arrays.operations import limits
from lpfuse._base import Detector, lower_by_rounding, lower_quantile

DETECTORS = {
    "SVDD": SVDD(gamma=0.3, nu=0.1, contamination=0.1),
    "SVDD, features": SVDD(gamma=0.3, approximation="nystroem", n_components=20, random_state=0),
    "GP": OneClassGP(gamma=0.3),
    "GP, density": OneClassGP("density", gamma=0.3),
    "GP, features": OneClassGP(
        gamma=0.3, approximation="nystroem", n_components=20, random_state=0
    ),
    "KPCA": KernelPCADetector(4, gamma=0.3),
    "KPCA, features": KernelPCADetector(
        4, gamma=0.3, approximation="nystroem", n_approximation=20, random_state=0
    ),
    "GMM": GMMDetector(2, random_state=0),
    "GMM, likelihood": GMMDetector(2, "log_likelihood", random_state=0),
}
KERNEL_LEARNERS = {name: made for name, made in DETECTORS.items() if "GMM" not in name}
every_detector = pytest.mark.parametrize("name", DETECTORS)
every_kernel_learner = pytest.mark.parametrize("name", KERNEL_LEARNERS)


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """On rows as few as these, scikit-learn's mixtures spend their time waiting for threads."""
    with threadpool_limits(1):
        yield


def detector(name, **parameters):
    made = DETECTORS[name]
    return type(made)(**{**made.get_params(), **parameters})


def rows(seed=0, n=50, d=3):
    return np.random.default_rng(seed).normal(size=(n, d))


# -------------------------------------------------------------------------------- the threshold


def naive_quantile(scores, weights, share):
    """Row by row in exact fractions: the first score past the share; the middle where it is met."""
    pairs = sorted(zip(scores, weights, strict=True))
    target = share * sum(weights)
    reached = Fraction(0)
    for i, (score, weight) in enumerate(pairs):
        if i and reached == target:
            return (pairs[i - 1][0] + score) / 2
        reached += weight
        if reached > target:
            return score
    raise AssertionError("the share is below one")


eighths = st.integers(-40, 40).map(lambda k: k / 8)


@settings(deadline=None, derandomize=True)
@given(
    pairs=st.lists(st.tuples(eighths, st.integers(1, 4)), min_size=1, max_size=30),
    percent=st.sampled_from([1, 5, 10, 20, 25, 33, 40, 50]),  # often met exactly
)
def test_the_quantile_counts_weights_exactly(pairs, percent):
    scores, weights = zip(*pairs, strict=True)
    expected = naive_quantile(scores, [Fraction(w) for w in weights], Fraction(percent, 100))
    found = lower_quantile(np.array(scores), np.array(weights, dtype=float), percent / 100)
    assert found == pytest.approx(expected, abs=1e-12)


@each_value(name=DETECTORS, contamination=(0.02, 0.33), weighted=(False, True, True, False))
def test_the_share_of_training_rows_lies_below_the_threshold(name, contamination, weighted):
    if weighted and "GMM" in name:
        return  # there the algorithm knows no weights
    X = rows()
    weights = np.random.default_rng(1).integers(1, 5, 50) if weighted else np.ones(50)
    fitted = detector(name, contamination=contamination, offset_from="training")
    fitted.fit(X, sample_weight=weights) if weighted else fitted.fit(X)
    below = weights[fitted.predict(X) == -1].sum()
    allowed = contamination * weights.sum()
    assert below <= allowed + 1e-9
    # One more row would be too many.
    scores = fitted.score_samples(X)
    next_one = weights[
        np.flatnonzero(fitted.predict(X) == 1)[scores[fitted.predict(X) == 1].argmin()]
    ]
    assert below + next_one >= allowed - 1e-9
    if not weighted:
        assert below == int(contamination * 50)


@every_kernel_learner
def test_rows_without_weight_have_no_say_in_the_threshold(name):
    X = np.vstack([rows(), 10 + rows(1, n=10)])
    weights = np.r_[np.ones(50), np.zeros(10)]
    # Landmarks are drawn among the rows that count, so both draw the same ones.
    whole = detector(name, contamination=0.2).fit(X, sample_weight=weights)
    alone = detector(name, contamination=0.2).fit(X[:50])
    assert whole.offset_ == pytest.approx(alone.offset_, rel=1e-9)
    np.testing.assert_allclose(whole.score_samples(X), alone.score_samples(X), rtol=1e-9)


def test_tied_scores_all_lie_above_the_threshold():
    fitted = Fixed(0.3).fitted([1.0, 1.0, 1.0, 1.0, 2.0])
    assert fitted.predict(None).tolist() == [1, 1, 1, 1, 1]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_row_that_set_the_threshold_survives_rounding(dtype):
    scores = np.array([-5.0, -3.0, -1.0, -1e-3], dtype=dtype)
    fitted = Fixed(0.4).fitted(scores)
    fitted.scores = np.nextafter(scores, dtype(-10))
    assert fitted.predict(None).tolist() == [-1, 1, 1, 1]


def test_a_score_on_the_threshold_is_normal():
    fitted = Fixed(0.4).fitted([1.0, 2.0, 3.0])
    fitted.offset_ = 2.0
    assert fitted.predict(None).tolist() == [-1, 1, 1]


class Fixed(Detector):
    """Says what it was told to."""

    def __init__(self, contamination):
        self.contamination = contamination

    def fitted(self, scores):
        self.scores = np.asarray(scores)
        weights = np.ones(len(self.scores))
        quantile = lower_quantile(self.scores, weights, self.contamination)
        self.offset_ = lower_by_rounding(quantile, 0.0, self.scores)
        return self

    def _scores(self, X):
        return X[:, 0]

    def score_samples(self, X):
        return self.scores


@every_detector
def test_scores_decisions_and_predictions_agree(name):
    X, new = rows(), 2 * rows(1, n=40)
    fitted = detector(name).fit(X)
    scores = fitted.score_samples(new)
    assert scores.shape == (40,)
    assert isinstance(fitted.offset_, float)
    np.testing.assert_array_equal(fitted.decision_function(new), scores - fitted.offset_)
    expected = np.where(scores >= fitted.offset_, 1, -1)
    np.testing.assert_array_equal(fitted.predict(new), expected)
    np.testing.assert_array_equal(detector(name).fit_predict(X), fitted.predict(X))
    assert {*expected.tolist()} == {1, -1}


@every_detector
def test_far_rows_are_anomalies(name):
    X = rows()
    fitted = detector(name).fit(X)
    assert fitted.predict(np.full((1, 3), 30.0)).tolist() == [-1]
    assert fitted.score_samples(X).mean() > fitted.score_samples(X + 30.0).max()


# -------------------------------------------------------------------------- exact or approximate


@pytest.mark.parametrize("make", [SVDD, OneClassGP, KernelPCADetector])
def test_features_stand_in_where_a_matrix_would_not_fit(monkeypatch, make):
    X = rows()
    exact = make(gamma=0.3).fit(X)
    assert exact.features_ is None
    monkeypatch.setattr(limits, "matrix", 50 * 50 * 8)
    assert make(gamma=0.3).fit(X).features_ is None
    monkeypatch.setattr(limits, "matrix", 50 * 50 * 8 - 1)
    approximate = make(gamma=0.3, random_state=0).fit(X)
    assert approximate.features_ is not None
    assert make(gamma=0.3, approximation=None).fit(X).features_ is None
    single = make(gamma=0.3).fit(X.astype(np.float32))  # takes half of it
    assert single.features_ is None
    # 50 rows, 500 landmarks at most: nothing is lost.
    scores = exact.score_samples(X)
    np.testing.assert_allclose(
        approximate.score_samples(X), scores, rtol=0, atol=5e-3 * np.ptp(scores)
    )


@every_kernel_learner
def test_the_kernel_that_was_used_can_be_asked(name):
    X = rows()
    fitted = detector(name, gamma="scale").fit(X)
    assert fitted.kernel_.name == "rbf"
    assert fitted.kernel_.gamma == pytest.approx(1 / (3 * X.var()))


@pytest.mark.parametrize("name", ["SVDD, features", "GP, features", "KPCA, features"])
def test_the_seed_decides_the_features(name):
    X = rows(n=120)
    first, again = (detector(name, random_state=5).fit(X).score_samples(X) for _ in range(2))
    other = detector(name, random_state=6).fit(X).score_samples(X)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    generator = np.random.RandomState(5)
    np.testing.assert_array_equal(
        detector(name, random_state=generator).fit(X).score_samples(X), first
    )
    moved_on = detector(name, random_state=generator).fit(X).score_samples(X)
    assert not np.array_equal(first, moved_on)


@every_kernel_learner
def test_rows_are_scored_in_blocks(monkeypatch, name):
    X, new = rows(), rows(1, n=2000)
    fitted = detector(name).fit(X)
    whole = fitted.score_samples(new)
    monkeypatch.setattr(limits, "block", 1)
    monkeypatch.setattr(limits, "parallel", 1)
    np.testing.assert_allclose(fitted.score_samples(new), whole, rtol=1e-10, atol=1e-13)


@every_kernel_learner
def test_a_second_fit_forgets_the_first(name):
    once = detector(name).fit(rows(1, n=30, d=2))
    twice = detector(name).fit(rows()).fit(rows(1, n=30, d=2))
    new = rows(2, d=2)
    np.testing.assert_array_equal(twice.score_samples(new), once.score_samples(new))
    assert twice.n_features_in_ == 2


@pytest.mark.parametrize(
    "fresh",
    [
        SVDD(),
        OneClassGP(),
        OneClassGP("density"),
        KernelPCADetector(),
        OneClassGP(approximation="nystroem", n_components=500),
        KernelPCADetector(approximation="nystroem", n_approximation=20, random_state=0),
        GMMDetector(random_state=0),
    ],
    ids=str,
)
def test_a_fitted_detector_outlives_the_rows_it_was_fitted_on(fresh):
    X = np.random.default_rng(0).normal(size=(50, 3))
    new = np.random.default_rng(1).normal(size=(10, 3))
    fitted = clone(fresh).fit(X)
    before = fitted.score_samples(new)
    X[:] = 0.0
    np.testing.assert_array_equal(fitted.score_samples(new), before)
