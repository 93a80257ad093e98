import numpy as np
import pytest
from sklearn.base import clone
from sklearn.covariance import EllipticEnvelope
from sklearn.ensemble import IsolationForest, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, SGDOneClassSVM
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import LocalOutlierFactor

from lpfuse import SVDD
from lpfuse.adapters import ClassifierExpert, PyODDetector, ScoreFunction, as_detector

rng = np.random.default_rng(0)
NORMAL, ANOMALIES = rng.normal(size=(60, 3)), rng.normal(6.0, 1.0, size=(12, 3))
BOTH, Y = np.vstack([NORMAL, ANOMALIES]), np.repeat([1, -1], [60, 12])


def assert_high_is_normal(scores):
    """Rows of `BOTH`: every normal row above every anomaly, on the whole."""
    assert np.median(scores[Y > 0]) > np.median(scores[Y < 0])


@pytest.mark.parametrize(
    "detector",
    [
        SVDD(),
        IsolationForest(random_state=0),
        LocalOutlierFactor(novelty=True),
        EllipticEnvelope(random_state=0),
        GaussianMixture(random_state=0),
        SGDOneClassSVM(random_state=0),
    ],
    ids=lambda detector: type(detector).__name__,
)
def test_what_speaks_our_language_needs_no_adapter(detector):
    assert as_detector(detector) is detector
    assert_high_is_normal(detector.fit(NORMAL).score_samples(BOTH))


@pytest.mark.parametrize("name", ["iforest.IForest", "knn.KNN", "ecod.ECOD", "lof.LOF",
                                  "copod.COPOD", "hbos.HBOS"])  # fmt: skip
def test_detectors_of_pyod_keep_their_scores_with_the_sign_turned(name):
    pytest.importorskip("pyod", reason="PyOD is an extra")
    module, make = name.split(".")
    detector = getattr(pytest.importorskip(f"pyod.models.{module}"), make)()
    if "random_state" in detector.get_params():
        detector.set_params(random_state=0)
    adapter = as_detector(detector)
    assert isinstance(adapter, PyODDetector)
    assert not adapter.learns_from_anomalies
    scores = clone(adapter).fit(NORMAL).score_samples(BOTH)
    np.testing.assert_array_equal(scores, -clone(detector).fit(NORMAL).decision_function(BOTH))
    assert_high_is_normal(scores)
    assert not hasattr(detector, "decision_scores_")  # the copy was fitted, not the original


def test_a_fitted_detector_of_pyod_stays_as_it_is():
    ecod = pytest.importorskip("pyod.models.ecod", reason="PyOD is an extra")
    fitted = ecod.ECOD().fit(NORMAL)
    adapter = as_detector(FrozenEstimator(fitted)).fit(NORMAL[:5] + 100)
    np.testing.assert_array_equal(adapter.score_samples(BOTH), -fitted.decision_function(BOTH))


class NeedsLabels:
    """What PyOD's XGBOD looks like from outside: `y` is not optional, 1 means anomaly."""

    __module__ = "pyod.models.needs_labels"

    def get_params(self, deep=True):
        return {}

    def fit(self, X, y):
        self.labels = y
        return self

    def decision_function(self, X):
        return np.asarray(X)[:, 0]


def test_a_detector_of_pyod_that_needs_labels_gets_its_own():
    adapter = as_detector(NeedsLabels())
    assert adapter.learns_from_anomalies
    adapter.fit(BOTH, Y)
    np.testing.assert_array_equal(adapter.detector_.labels, (Y < 0).astype(int))
    np.testing.assert_array_equal(adapter.score_samples(BOTH), -BOTH[:, 0])
    with pytest.raises(ValueError, match="learns from anomalies"):
        adapter.fit(NORMAL)


def test_the_log_odds_of_a_classifier():
    expert = as_detector(LogisticRegression()).fit(BOTH, Y)
    assert isinstance(expert, ClassifierExpert)
    assert expert.learns_from_anomalies
    share = expert.classifier_.predict_proba(BOTH)[:, list(expert.classifier_.classes_).index(1)]
    np.testing.assert_allclose(expert.score_samples(BOTH), np.log(share / (1 - share)), rtol=1e-6)
    assert_high_is_normal(expert.score_samples(BOTH))


def test_a_fitted_classifier_must_know_our_labels():
    fitted = LogisticRegression().fit(BOTH, Y)
    expert = as_detector(FrozenEstimator(fitted)).fit(BOTH[::2], Y[::2])
    np.testing.assert_array_equal(expert.score_samples(BOTH), fitted.decision_function(BOTH))
    other = LogisticRegression().fit(BOTH, Y < 0)  # True means anomaly: the other way round
    with pytest.raises(ValueError, match=r"expected \+1 \(normal\) and -1 \(anomaly\)"):
        as_detector(FrozenEstimator(other)).fit(BOTH, Y)


def test_no_classifier_is_surer_than_sure():
    expert = ClassifierExpert(RandomForestClassifier(20, random_state=0)).fit(BOTH, Y)
    scores = expert.score_samples(BOTH)
    assert np.isfinite(scores).all()
    assert np.abs(scores).max() <= np.log(999) + 1e-12
    assert_high_is_normal(scores)


@pytest.mark.parametrize("y", [None, np.ones(72), np.repeat([0, 1], [60, 12])])
def test_a_classifier_needs_both_classes(y):
    with pytest.raises(ValueError, match=r"learns from anomalies|must be \+1"):
        ClassifierExpert(LogisticRegression()).fit(BOTH, y)


def test_a_function_with_its_direction():
    for high, sign in (("normal", 1), ("anomaly", -1)):
        scorer = ScoreFunction(lambda X: X[:, 0], high=high).fit(NORMAL)
        np.testing.assert_array_equal(scorer.score_samples(BOTH.tolist()), sign * BOTH[:, 0])
    with pytest.raises(ValueError, match="high must be one of 'normal', 'anomaly'; got 'up'"):
        ScoreFunction(lambda X: X[:, 0], high="up").fit(NORMAL)


def test_a_method_of_an_object_that_learns():
    mixture = GaussianMixture(random_state=0)
    scorer = ScoreFunction(mixture, high="normal", method="score_samples").fit(NORMAL)
    np.testing.assert_array_equal(
        scorer.score_samples(BOTH), clone(mixture).fit(NORMAL).score_samples(BOTH)
    )
    assert not hasattr(mixture, "means_")


def test_a_fitted_detector_stays_as_it_is():
    forest = IsolationForest(random_state=0).fit(NORMAL)
    frozen = as_detector(FrozenEstimator(forest)).fit(NORMAL[:5] + 100)
    np.testing.assert_array_equal(frozen.score_samples(BOTH), forest.score_samples(BOTH))


def test_a_direction_is_never_guessed():
    class Mystery:
        def decision_function(self, X):
            return X[:, 0]

    for entry in (Mystery(), np.linalg.norm):
        with pytest.raises(TypeError, match="ScoreFunction"):
            as_detector(entry)


def test_one_score_for_each_row():
    scorer = ScoreFunction(lambda X: X, high="normal").fit(NORMAL)
    with pytest.raises(ValueError, match=r"one score for each row: expected shape \(60,\), got"):
        scorer.score_samples(NORMAL)
