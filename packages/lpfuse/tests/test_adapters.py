import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.compose import make_column_transformer
from sklearn.covariance import EllipticEnvelope
from sklearn.ensemble import IsolationForest, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, SGDOneClassSVM
from sklearn.metrics import roc_auc_score
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import LocalOutlierFactor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from helpers.cases import cases
from helpers.pools import Journal, Witness, numbered
from lpfuse import SVDD, FixedRule, FusedDetector
from lpfuse.adapters import (
    ClassifierExpert,
    PyODDetector,
    ScoreColumn,
    ScoreFunction,
    as_detector,
    frozen,
)

rng = np.random.default_rng(0)
NORMAL, ANOMALIES = rng.normal(size=(60, 3)), rng.normal(6.0, 1.0, size=(12, 3))
BOTH, Y = np.vstack([NORMAL, ANOMALIES]), np.repeat([1, -1], [60, 12])


def assert_high_is_normal(scores):
    """Rows of `BOTH`: every normal row above every anomaly, on the whole."""
    assert np.median(scores[Y > 0]) > np.median(scores[Y < 0])


@cases(
    "detector",
    [
        SVDD(),
        IsolationForest(random_state=0),
        LocalOutlierFactor(novelty=True),
        EllipticEnvelope(random_state=0),
        GaussianMixture(random_state=0),
        SGDOneClassSVM(random_state=0),
    ],
)
def test_what_speaks_our_language_needs_no_adapter(detector):
    assert as_detector(detector) is detector
    assert_high_is_normal(detector.fit(NORMAL).score_samples(BOTH))


six_of_pyod = pytest.mark.parametrize(
    "name", ["iforest.IForest", "knn.KNN", "ecod.ECOD", "lof.LOF", "copod.COPOD", "hbos.HBOS"]
)


def of_pyod(name, **parameters):
    """A detector of PyOD, always the same one."""
    module, make = name.split(".")
    detector = getattr(pytest.importorskip(f"pyod.models.{module}"), make)(**parameters)
    has_seed = "random_state" in detector.get_params()
    return detector.set_params(random_state=0) if has_seed else detector


@six_of_pyod
def test_detectors_of_pyod_keep_their_scores_with_the_sign_turned(name):
    detector = of_pyod(name)
    adapter = as_detector(detector)
    assert isinstance(adapter, PyODDetector)
    assert not adapter.learns_from_anomalies
    scores = clone(adapter).fit(NORMAL).score_samples(BOTH)
    fitted = clone(detector).fit(NORMAL)
    if name in ("ecod.ECOD", "copod.COPOD"):  # they score the batch: here, one of a single row
        expected = [fitted.decision_function(row[None])[0] for row in BOTH]
        np.testing.assert_allclose(scores, np.negative(expected), rtol=1e-12)
    else:
        np.testing.assert_array_equal(scores, -fitted.decision_function(BOTH))
    assert_high_is_normal(scores)
    assert not hasattr(detector, "decision_scores_")  # the copy was fitted, not the original


def test_a_fitted_detector_of_pyod_stays_as_it_is():
    ecod = pytest.importorskip("pyod.models.ecod", reason="PyOD is an extra")
    fitted = ecod.ECOD().fit(NORMAL)
    adapter = as_detector(FrozenEstimator(fitted)).fit(NORMAL[:5] + 100)
    np.testing.assert_array_equal(adapter.score_samples(BOTH), -fitted.decision_function(BOTH))


@pytest.mark.parametrize("name", ["iforest.IForest", "knn.KNN", "lof.LOF", "hbos.HBOS"])
def test_detectors_of_pyod_keep_their_scores_in_a_fused_detector(name):
    detector = of_pyod(name)
    alone = -clone(detector).fit(NORMAL).decision_function(BOTH)
    scaled = make_pipeline(StandardScaler(), clone(detector))
    ready = clone(detector).fit(NORMAL[:30])
    pool = [
        ("pyod", detector),
        ("scaled", scaled),
        ("ready", FrozenEstimator(ready)),
        ("svdd", SVDD(), [0]),
    ]
    with warnings.catch_warnings():  # ranks of PyOD's HBOS do not depend on the scale
        warnings.filterwarnings("ignore", message="Some detectors rank all rows alike")
        fused = FusedDetector(pool, cv=2, fusion=FixedRule(), random_state=0).fit(BOTH, Y)
    raw = fused.detector_scores(BOTH)
    np.testing.assert_array_equal(raw[:, 0], alone)
    expected = -clone(scaled).fit(NORMAL).decision_function(BOTH)
    np.testing.assert_array_equal(raw[:, 1], expected)
    np.testing.assert_array_equal(raw[:, 2], -ready.decision_function(BOTH))
    assert roc_auc_score(Y, fused.score_samples(BOTH)) > 0.99
    assert not hasattr(detector, "decision_scores_")


def test_a_pipeline_that_ends_in_pyod_has_our_sign():
    detector = of_pyod("knn.KNN")
    pipeline = make_pipeline(StandardScaler(), detector)
    adapter = as_detector(pipeline)
    assert isinstance(adapter, PyODDetector)
    assert not adapter.learns_from_anomalies
    scores = adapter.fit(NORMAL).score_samples(BOTH)
    scaler = StandardScaler().fit(NORMAL)
    alone = clone(detector).fit(scaler.transform(NORMAL))
    np.testing.assert_array_equal(scores, -alone.decision_function(scaler.transform(BOTH)))
    assert_high_is_normal(scores)
    nested = as_detector(Pipeline([("first", StandardScaler()), ("then", clone(pipeline))]))
    assert_high_is_normal(nested.fit(NORMAL).score_samples(BOTH))
    ready = clone(pipeline).fit(NORMAL)
    still = as_detector(FrozenEstimator(ready)).fit(NORMAL[:5] + 100)
    np.testing.assert_array_equal(still.score_samples(BOTH), scores)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_reach_a_pipeline_with_their_names(frame):
    table = frame(dict(zip("abc", BOTH.T, strict=True)) | {"colour": ["red", "blue"] * 36})
    encoder = OneHotEncoder(sparse_output=False)
    prepare = make_column_transformer((encoder, ["colour"]), ("passthrough", ["a", "b"]))
    for last in (of_pyod("knn.KNN"), IsolationForest(random_state=0), LogisticRegression()):
        pipeline = make_pipeline(clone(prepare), last)
        adapter = as_detector(pipeline).fit(table, Y)
        assert_high_is_normal(adapter.score_samples(table))
        labels = [Y] if isinstance(last, LogisticRegression) else []
        still = as_detector(frozen(clone(pipeline).fit(table, *labels))).fit(table[:5])
        np.testing.assert_array_equal(still.score_samples(table), adapter.score_samples(table))


@pytest.mark.filterwarnings(
    "ignore:y should not be presented",  # by XGBOD, which hands it to its own detectors
    r"ignore:\[.{8}\] WARNING",  # of XGBoost, about a parameter that XGBOD sets
)
def test_xgbod_is_an_expert():
    detector = of_pyod("xgbod.XGBOD", estimator_list=[of_pyod("hbos.HBOS")], n_estimators=5)
    adapter = as_detector(detector)
    assert adapter.learns_from_anomalies
    scores = clone(adapter).fit(BOTH, Y).score_samples(BOTH)
    alone = clone(detector).fit(BOTH, (Y < 0).astype(int))
    np.testing.assert_array_equal(scores, -alone.decision_function(BOTH))
    assert_high_is_normal(scores)
    ready = as_detector(frozen(alone))
    assert not ready.learns_from_anomalies
    np.testing.assert_array_equal(ready.fit(NORMAL).score_samples(BOTH), scores)
    cv = StratifiedKFold(2, shuffle=True, random_state=0)  # with these it is fitted to all rows
    fused = FusedDetector([("xgbod", detector)], cv=cv, random_state=0).fit(BOTH, Y)
    np.testing.assert_array_equal(fused.detector_scores(BOTH)[:, 0], scores)


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
    with pytest.raises(ValueError, match="needs anomalies"):
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
    with pytest.raises(ValueError, match=r"needs anomalies|must be \+1"):
        ClassifierExpert(LogisticRegression()).fit(BOTH, y)


def test_log_odds_without_a_decision_function():
    expert = as_detector(GaussianNB()).fit(BOTH, Y)
    share = expert.classifier_.predict_proba(BOTH)[:, 1].clip(0.001, 0.999)
    np.testing.assert_allclose(expert.score_samples(BOTH), np.log(share / (1 - share)))
    shuffled = np.random.default_rng(0).permutation(72)
    again = as_detector(GaussianNB()).fit(BOTH[shuffled], Y[shuffled])
    np.testing.assert_allclose(again.score_samples(BOTH), expert.score_samples(BOTH), atol=1e-6)


def test_a_function_with_its_direction():
    for high, sign in (("normal", 1), ("anomaly", -1)):
        scorer = ScoreFunction(lambda X: X[:, 0], high=high).fit(NORMAL)
        np.testing.assert_array_equal(scorer.score_samples(BOTH.tolist()), sign * BOTH[:, 0])
    with pytest.raises(ValueError, match="high must be one of 'normal', 'anomaly'; got 'up'"):
        ScoreFunction(lambda X: X[:, 0], high="up").fit(NORMAL)


def test_a_function_has_nothing_to_learn():
    np.testing.assert_array_equal(
        ScoreFunction(lambda X: X[:, 0], high="anomaly").score_samples(BOTH), -BOTH[:, 0]
    )
    with pytest.raises(NotFittedError):
        ScoreFunction(GaussianMixture(), high="normal", method="score_samples").score_samples(BOTH)


class Plain:
    """Neither parameters nor tags: nothing of scikit-learn's kind."""

    def fit(self, X):
        assert isinstance(X, np.ndarray)
        self.middle = X.mean(axis=0)

    def score(self, X):
        assert isinstance(X, np.ndarray)
        return np.linalg.norm(X - self.middle, axis=1)


def test_objects_of_no_known_kind():
    class Fluent(Plain):
        def fit(self, X):
            super().fit(X)
            return self

    made = Fluent()
    scorer = ScoreFunction(made, high="anomaly", method="score").fit(pd.DataFrame(NORMAL))
    expected = -np.linalg.norm(BOTH - NORMAL.mean(axis=0), axis=1)
    np.testing.assert_allclose(scorer.score_samples(pd.DataFrame(BOTH)), expected)
    assert not hasattr(made, "middle")


@cases("method", ["fit_predict", "fit", "fit_transform", "__init__", "rate"])
def test_methods_that_might_learn_are_refused(method):
    pipeline = make_pipeline(StandardScaler(), GaussianMixture())
    scorer = ScoreFunction(pipeline, high="normal", method=method)
    with pytest.raises(ValueError, match="method must be one of"):
        scorer.fit(NORMAL)
    scorer.scorer_ = pipeline
    with pytest.raises(ValueError, match="method must be one of"):
        scorer.score_samples(NORMAL)


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


def shifted(X):
    """The first column, of rows that it shifts in place."""
    X += 1.0
    return X[:, 0]


@pytest.mark.parametrize("high", ["normal", "anomaly"])
def test_a_function_may_write_into_its_rows(high):
    rows = np.arange(6.0).reshape(3, 2)
    scores = ScoreFunction(shifted, high).fit(rows).score_samples(rows)
    np.testing.assert_array_equal(np.abs(scores), [1.0, 3.0, 5.0])
    np.testing.assert_array_equal(rows, np.arange(6.0).reshape(3, 2))


class Centres(BaseEstimator):
    """Centres its rows in place, as `copy=False` makes scalers of scikit-learn do."""

    def fit(self, X, y=None):
        self.mean_ = X.mean(axis=0)
        X -= self.mean_
        return self

    def decision_function(self, X):
        X -= self.mean_
        return X[:, 0]


def test_an_object_may_write_into_its_rows():
    rows = np.arange(6.0).reshape(3, 2)
    adapter = ScoreFunction(Centres(), "normal").fit(rows)
    np.testing.assert_array_equal(adapter.score_samples(rows), [-2.0, 0.0, 2.0])
    np.testing.assert_array_equal(rows, np.arange(6.0).reshape(3, 2))


def test_masked_cells_are_missing_and_complex_scores_refused():
    rows = np.ma.array([[1.0], [2.0]], mask=[[True], [False]])
    for adapter in (ScoreColumn("normal"), ScoreFunction(lambda X: X[:, 0], "normal")):
        np.testing.assert_array_equal(adapter.fit(rows).score_samples(rows), [np.nan, 2.0])
    with pytest.raises(ValueError, match="real numbers, got complex128"):
        ScoreFunction(lambda X: X[:, 0] * 1j, "normal").score_samples([[1.0]])


def test_one_score_for_each_row():
    scorer = ScoreFunction(lambda X: X, high="normal").fit(NORMAL)
    with pytest.raises(ValueError, match=r"one score for each row: expected shape \(60,\), got"):
        scorer.score_samples(NORMAL)


def test_a_column_of_scores():
    for high, sign in (("normal", 1), ("anomaly", -1)):
        scorer = ScoreColumn(high=high).fit(BOTH[:, :1])
        np.testing.assert_array_equal(scorer.score_samples(BOTH[:, 1:2]), sign * BOTH[:, 1])
        frame = pl.DataFrame({"score": BOTH[:, 2]})
        np.testing.assert_array_equal(scorer.score_samples(frame), sign * BOTH[:, 2])
    with pytest.raises(
        ValueError, match=r"one column of scores, got shape \(72, 3\).*name the col"
    ):
        ScoreColumn(high="normal").fit(BOTH)
    with pytest.raises(ValueError, match="high must be one of 'normal', 'anomaly'; got None"):
        ScoreColumn(high=None).fit(BOTH[:, :1])
    gaps = np.where(BOTH[:, :1] > 0, np.nan, BOTH[:, :1])
    np.testing.assert_array_equal(ScoreColumn(high="normal").score_samples(gaps), gaps[:, 0])


def test_what_is_frozen_is_not_fitted_again():
    forest = IsolationForest(random_state=0).fit(NORMAL)
    expected = forest.score_samples(BOTH)
    by_method = ScoreFunction(forest, high="normal", method="score_samples")
    fitted_adapter = ClassifierExpert(LogisticRegression()).fit(BOTH, Y)
    function = ScoreFunction(lambda X: X[:, 0], high="normal")
    cases = [
        (forest, expected),
        (FrozenEstimator(forest), expected),
        (by_method, expected),
        (make_pipeline(StandardScaler(), IsolationForest(random_state=0)).fit(NORMAL), None),
        (fitted_adapter, fitted_adapter.score_samples(BOTH)),
        (ClassifierExpert(fitted_adapter.classifier_), fitted_adapter.score_samples(BOTH)),
        (function, BOTH[:, 0]),
        (ScoreColumn(high="anomaly"), None),
    ]
    for entry, scores in cases:
        still = as_detector(frozen(entry))
        rows = BOTH[:, :1] if isinstance(entry, ScoreColumn) else BOTH
        scores = entry.score_samples(rows) if scores is None else scores
        again = clone(still).fit(rows[:5] + 100, Y[:5])
        np.testing.assert_array_equal(again.score_samples(rows), scores)
        assert not getattr(still, "learns_from_anomalies", False)
    with pytest.raises(TypeError, match="the direction of its scores is unknown"):
        as_detector(frozen(lambda X: X[:, 0]))


def test_what_should_be_fitted_and_is_not():
    with pytest.raises(NotFittedError):
        as_detector(frozen(IsolationForest())).fit(NORMAL)


def test_an_unfitted_adapter_says_so():
    for adapter in (ClassifierExpert(LogisticRegression()), PyODDetector(NeedsLabels())):
        with pytest.raises(NotFittedError):
            adapter.score_samples(BOTH)


class Sided(BaseEstimator):
    """An outlier detector without `score_samples`: its tag tells the direction."""

    def fit(self, X, y=None):
        return self

    def decision_function(self, X):
        return -np.abs(np.asarray(X)).sum(axis=1)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.estimator_type = "outlier_detector"
        return tags


def test_outlier_detectors_without_score_samples():
    adapter = as_detector(Sided())
    scores = adapter.fit(NORMAL).score_samples(BOTH)
    np.testing.assert_array_equal(scores, Sided().decision_function(BOTH))


@cases(
    "wrap",
    [
        lambda lof: lof,
        lambda lof: make_pipeline(StandardScaler(), lof),
        lambda lof: ScoreFunction(lof, high="normal"),
        lambda lof: FrozenEstimator(lof.fit([[0.0], [1.0], [3.0]])),
    ],
)
def test_detectors_without_novelty_scores_are_refused_with_their_parameter(wrap):
    """Before anything is fitted: the others must not work for nothing."""
    remedy = r"LocalOutlierFactor\(novelty=False\).*Pass LocalOutlierFactor\(novelty=True\)"
    with pytest.raises(ValueError, match=remedy):
        as_detector(wrap(LocalOutlierFactor(n_neighbors=1)))
    journal = Journal()
    pool = [("witness", Witness(journal)), ("lof", wrap(LocalOutlierFactor(n_neighbors=1)))]
    with pytest.raises(ValueError, match=remedy):
        FusedDetector(pool).fit(numbered(np.random.default_rng(0).normal(size=(40, 1))))
    assert not journal.fits


def test_one_that_knows_new_rows_is_taken():
    lof = LocalOutlierFactor(novelty=True)
    assert as_detector(lof) is lof


@pytest.mark.parametrize("high", ["Normal", "high", "abnormal"])
def test_unknown_directions_of_fitted_scores_are_refused(high):
    columns = [("a", ScoreColumn(high), [0]), ("b", ScoreColumn("normal"), [1])]
    S = np.random.default_rng(0).normal(size=(40, 2))
    with pytest.raises(ValueError, match="high must be one of 'normal', 'anomaly'; got"):
        FusedDetector(columns, cv="prefit", random_state=0).fit(S)
