import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from helpers.cases import cases
from helpers.contract import assert_passes_checks
from helpers.model_files import write_manifest
from helpers.pools import Distance
from lpfuse import FixedRule, FusedDetector, GMMDetector, load
from lpfuse.multiclass import OneClassEnsembleClassifier, log_odds

IDLE = (
    "ignore:Scores have no spread:UserWarning",
    "ignore:Some detectors:UserWarning",
    "ignore:.* normal rows cannot hold false alarms:UserWarning",
)


def distances(**parameters):
    detectors = [("both", Distance()), ("first", Distance(columns=[0]))]
    return FusedDetector(detectors, fusion=FixedRule("sum"), **{"cv": 2, **parameters})


def classifier(**parameters):
    return OneClassEnsembleClassifier(**{"detector": distances(), "random_state": 0, **parameters})


def blobs(n=40, classes=3, seed=0):
    """Rows around the corners of a polygon, and their classes."""
    rng = np.random.default_rng(seed)
    angles = 2 * np.pi * np.arange(classes) / classes
    centres = 6 * np.column_stack([np.cos(angles), np.sin(angles)])
    y = rng.permutation(np.repeat(np.arange(classes), n))
    return centres[y] + rng.normal(size=(n * classes, 2)), y


@pytest.mark.filterwarnings(*IDLE)
def test_scikit_learn_contract():
    assert_passes_checks(classifier())


@pytest.mark.slow
@pytest.mark.filterwarnings(*IDLE)
def test_scikit_learn_contract_of_variants():
    assert_passes_checks(classifier(others="ignore"))


@pytest.mark.parametrize("others", ["anomalies", "ignore"])
def test_classes_are_told_apart(others):
    X, y = blobs()
    fitted = classifier(others=others).fit(X, y)
    new, truth = blobs(seed=1)
    assert (fitted.predict(new) == truth).mean() > 0.97


def test_each_class_has_a_detector_that_knows_its_rows_alone():
    X, y = blobs()
    fitted = classifier(detector=distances(random_state=5), others="ignore").fit(X, y)
    for k, fused in enumerate(fitted.detectors_):
        alone = distances(random_state=5).fit(X[y == k])
        np.testing.assert_array_equal(fused.score_samples(X), alone.score_samples(X))


def test_the_rows_of_others_are_anomalies_where_asked():
    X, y = blobs()
    fitted = classifier().fit(X, y)
    for k, fused in enumerate(fitted.detectors_):
        np.testing.assert_array_equal(fused.held_out_.labels, np.where(y == k, 1, -1))


def test_calibration_is_logistic_regression_on_held_out_scores():
    X, y = blobs()
    fitted = classifier(detector=distances(random_state=5), others="ignore").fit(X, y)
    own = distances(random_state=5, calibration="plain").fit(X[y == 1])
    scores = np.r_[own.held_out_.scores()[0], own.score_samples(X[y != 1])]
    expected = log_odds(scores, np.arange(120) < 40)
    np.testing.assert_allclose(fitted.calibration_[1], expected)
    z = expected[0] * own.score_samples(X) + expected[1]
    np.testing.assert_allclose(np.exp(fitted.decision_function(X)[:, 1]), 1 / (1 + np.exp(-z)))


def test_probabilities_are_normalised_one_against_rest_probabilities():
    X, y = blobs()
    fitted = classifier().fit(X, y)
    each = np.exp(fitted.decision_function(X))
    np.testing.assert_allclose(fitted.predict_proba(X), each / each.sum(axis=1, keepdims=True))
    far = fitted.predict_proba([[1e6, 1e6]])
    assert far.sum() == pytest.approx(1)


@pytest.mark.parametrize("others", ["anomalies", "ignore"])
def test_an_unknown_class_is_called_unknown_and_known_ones_seldom(others):
    X, y = blobs(n=60, classes=4)
    known = y < 3
    names = np.array(["ash", "birch", "cedar", "a weed of no name"])
    fitted = classifier(others=others, unknown_label="none of these")
    fitted.fit(X[known], names[y[known]])
    new, truth = blobs(n=100, classes=4, seed=1)
    found = fitted.predict(new)
    assert (found[truth == 3] == "none of these").mean() > 0.9
    assert (found[truth < 3] == "none of these").mean() < 0.1
    assert "none of these" not in fitted.classes_
    always = clone(fitted).set_params(unknown_label=None).fit(X[known], names[y[known]])
    assert set(always.predict(new)) <= set(fitted.classes_)


def test_rejection_follows_the_pvalues():
    X, y = blobs()
    fitted = classifier(unknown_label=-7, false_alarm_rate=0.2).fit(X, y)
    p = fitted.pvalues(X)
    assert p.shape == (120, 3)
    np.testing.assert_array_equal(p[:, 2], fitted.detectors_[2].pvalues(X))
    found = fitted.predict(X)
    np.testing.assert_array_equal(found == -7, (p <= 0.2).all(axis=1))
    assert 0 < (found == -7).sum() < 40
    owned = found != -7
    np.testing.assert_array_equal(found[owned], fitted.decision_function(X).argmax(axis=1)[owned])


def test_the_binary_decision_is_the_margin_of_the_second_class():
    X, y = blobs(classes=2)
    fitted = classifier().fit(X, np.where(y, "yes", "no"))
    decision = fitted.decision_function(X)
    assert decision.shape == (80,)
    np.testing.assert_array_equal(fitted.predict(X), np.where(decision > 0, "yes", "no"))


def test_one_class_alone_is_owned_or_not():
    X, y = blobs()
    fitted = classifier(unknown_label="other").fit(X[y == 0], np.repeat("mine", 40))
    assert fitted.predict([[6.0, 0.0], [-6.0, 0.0]]).tolist() == ["mine", "other"]
    np.testing.assert_array_equal(fitted.predict_proba(X[:2]), [[1], [1]])


@pytest.mark.filterwarnings("ignore:Some detectors could not score")
def test_a_row_that_nobody_can_score_is_unknown():
    X, y = blobs()
    fitted = classifier(unknown_label=-1).fit(X, y)
    assert fitted.predict([[np.nan, np.nan]]).tolist() == [-1]


def test_a_class_whose_detector_is_silent_is_not_predicted():
    X, y = blobs()
    fitted = classifier().fit(X, y)
    fitted.calibration_[0] = np.nan
    assert set(fitted.predict(X)) == {1, 2}


def test_a_class_between_others_is_no_reason_to_warn():
    rng = np.random.default_rng(0)
    X = np.r_[rng.normal(-8, 1, 40), rng.normal(8, 1, 40), rng.normal(0, 1, 40)][:, None]
    y = np.repeat([0, 1, 2], 40)
    alone = FusedDetector([("distance", Distance())], fusion=FixedRule("sum"), cv=2)
    assert (classifier(detector=alone).fit(X, y).predict(X) == y).mean() > 0.8


def test_a_seed_repeats_the_fit_and_keeps_the_prototype():
    X, y = blobs(classes=4)
    first, second = (classifier().fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(first.decision_function(X), second.decision_function(X))
    assert not hasattr(first.detector, "pool_")
    assert len({fused.random_state for fused in first.detectors_}) == 4


def test_works_in_a_pipeline_under_cross_validation_with_named_columns():
    X, y = load_iris(return_X_y=True, as_frame=True)
    names = pd.Series(["setosa", "versicolor", "virginica"])[y].to_numpy()
    learners = FusedDetector([("distance", Distance()), ("last", Distance(columns=[3]))], cv=2)
    scaler = StandardScaler().set_output(transform="pandas")
    pipeline = make_pipeline(scaler, classifier(detector=learners))
    folds = StratifiedKFold(2, shuffle=True, random_state=0)
    assert cross_val_score(pipeline, X, names, cv=folds).mean() > 0.9
    fitted = pipeline.fit(X, names)[-1]
    assert list(fitted.feature_names_in_) == list(X.columns)


def test_log_odds_find_the_model_behind_the_scores():
    rng = np.random.default_rng(0)
    scores = rng.normal(10, 3, size=4000)
    own = rng.random(4000) < 1 / (1 + np.exp(-(0.8 * scores - 9)))
    assert log_odds(scores, own) == pytest.approx((0.8, -9), rel=0.1)
    with_gaps = np.append(scores, [np.nan] * 5), np.append(own, [True] * 5)
    assert log_odds(*with_gaps) == log_odds(scores, own)


def test_scores_that_mislead_count_for_nothing():
    own = np.arange(90) < 30
    assert log_odds(np.where(own, 0.0, 1.0), own) == (0.0, pytest.approx(np.log(0.5)))
    slope, _ = log_odds(np.ones(90), own)
    assert slope == 0
    assert log_odds(np.arange(4.0), np.ones(4, dtype=bool)) == (1.0, 0.0)


def test_files_with_an_output_code_are_refused(tmp_path):
    described = [{"object": ["OneClassEnsembleClassifier", {"coupling": "ecoc"}]}]
    write_manifest(tmp_path / "former.lpfuse", described, {})
    with pytest.raises(ValueError, match=r'is refused\. coupling="ecoc" is gone: fit and save'):
        load(tmp_path / "former.lpfuse")


@cases(
    ("parameters", "error", "words"),
    [
        ({"others": "both"}, ValueError, "others must be one of 'anomalies', 'ignore'"),
        ({"false_alarm_rate": 0}, ValueError, "false_alarm_rate must be"),
        ({"unknown_label": 2}, ValueError, "not one of them; got 2 for the labels 0, 1, 2"),
        ({"unknown_label": "none"}, ValueError, "of the type of the labels.*got 'none'"),
        ({"detector": GMMDetector()}, TypeError, "must be a FusedDetector.*Wrap it"),
    ],
)
def test_parameters_are_checked_in_fit(parameters, error, words):
    X, y = blobs(n=10)
    refused = classifier(**parameters)
    with pytest.raises(error, match=words):
        refused.fit(X, y)
    assert not hasattr(refused, "n_features_in_")


def test_labels_are_checked():
    X, y = blobs(n=10)
    with pytest.raises(ValueError, match="class 'b' has one"):
        classifier().fit(X[:5], list("aaaab"))
    with pytest.raises(ValueError, match=r"expected shape \(30,\), got \(29,\)"):
        classifier().fit(X, y[1:])
    with pytest.raises(ValueError, match="y contains NaN"):
        classifier().fit(X, np.append(y[1:], np.nan))
    with pytest.raises(ValueError, match="Pass the class of each row"):
        classifier().fit(X, None)
