import math

import array_api_strict
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone
from sklearn.ensemble import IsolationForest
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import LocalOutlierFactor

from helpers.cases import cases
from helpers.contract import assert_passes_checks, refused_labels
from helpers.pairwise import each_value
from lpfuse import FusedDetector
from research.rivals.templates import CosineSimilarity, DecisionTemplates

RULES = [DecisionTemplates, CosineSimilarity]


@pytest.fixture
def labelled():
    rng = np.random.default_rng(0)
    y = np.where(np.arange(90) % 6 == 0, -1, 1)
    return y[:, None] * [0.8, 0.4, 0.2] + rng.normal(0.0, 0.3, (90, 3)), y


class DistanceLabelsDropped(DecisionTemplates):
    """Fit without y: scikit-learn's checks feed labels other than ±1, which we refuse."""

    def fit(self, S, y=None, sample_weight=None):
        return super().fit(S, sample_weight=sample_weight)


class CosineLabelsDropped(CosineSimilarity):
    """Fit without y, as above."""

    def fit(self, S, y=None, sample_weight=None):
        return super().fit(S, sample_weight=sample_weight)


@pytest.mark.parametrize("estimator", [DistanceLabelsDropped(), CosineLabelsDropped()], ids=str)
def test_scikit_learn_contract(estimator):
    assert_passes_checks(estimator, refused_labels())


# ------------------------------------------------------------------------------ against plain loops


def mean_row(rows):
    return [sum(column) / len(rows) for column in zip(*rows, strict=True)]


def distance(row, template):
    return -math.dist(row, template)


def cosine(row, template):
    lengths = math.hypot(*row) * math.hypot(*template)
    return sum(a * b for a, b in zip(row, template, strict=True)) / lengths if lengths else 0.0


@pytest.mark.parametrize(
    ("rule", "likeness"), [(DecisionTemplates, distance), (CosineSimilarity, cosine)]
)
def test_scores_are_those_of_plain_loops(labelled, rule, likeness):
    S, y = labelled
    normal, anomalies = mean_row(S[y > 0].tolist()), mean_row(S[y < 0].tolist())
    pure = rule().fit(S[y > 0])
    np.testing.assert_allclose(pure.template_, normal)
    assert pure.anomaly_template_ is None
    np.testing.assert_allclose(pure.score_samples(S), [likeness(row, normal) for row in S.tolist()])
    both = rule().fit(S, y)
    np.testing.assert_allclose(both.anomaly_template_, anomalies)
    np.testing.assert_allclose(
        both.score_samples(S),
        [likeness(row, normal) - likeness(row, anomalies) for row in S.tolist()],
    )


def test_distance_by_hand():
    fusion = DecisionTemplates().fit([[0.0, 0.0], [2.0, 0.0], [1.0, 4.0]], [1, 1, -1])
    scores = fusion.score_samples([[1.0, 0.0], [1.0, 4.0], [4.0, 4.0], [1.0, 2.0]])
    np.testing.assert_allclose(scores, [4.0, -4.0, 3.0 - 5.0, 0.0])
    assert fusion.offset_ == 0.0
    assert fusion.predict([[1.0, 1.9], [1.0, 2.1]]).tolist() == [1, -1]


def test_cosine_ignores_lengths_and_distance_does_not(labelled):
    S, y = labelled
    cosine_fusion, distance_fusion = CosineSimilarity().fit(S, y), DecisionTemplates().fit(S, y)
    np.testing.assert_allclose(cosine_fusion.score_samples(3 * S), cosine_fusion.score_samples(S))
    assert not np.allclose(distance_fusion.score_samples(3 * S), distance_fusion.score_samples(S))


@given(arrays(np.float64, (6, 3), elements=st.floats(-9e99, 9e99)))
def test_cosines_are_cosines_for_scores_of_any_size(S):
    scores = CosineSimilarity().fit(S).score_samples(S)
    assert (np.abs(scores) <= 1 + 1e-12).all()


@pytest.mark.parametrize("rule", RULES)
def test_anomalies_help(labelled, rule):
    S, y = labelled
    assert roc_auc_score(y, rule().fit(S, y).score_samples(S)) > 0.97
    assert (rule().fit(S, y).predict(S) == y).mean() > 0.9


# ---------------------------------------------------------------------------------------- threshold


@each_value(rate=(0.0, 0.05, 0.3, 1.0), rule=RULES)
def test_without_anomalies_the_threshold_keeps_the_false_alarm_rate(labelled, rule, rate):
    S, y = labelled
    S = S[y > 0]
    fusion = rule(false_alarm_rate=rate).fit(S)
    alarms = (fusion.predict(S) < 0).sum()
    assert rate * len(S) - 1 <= alarms <= rate * len(S)
    assert fusion.offset_ in fusion.score_samples(S)


# ------------------------------------------------------------------------------------ sample weight


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("pure", [False, True])
def test_a_sample_weight_is_a_repetition(labelled, rule, pure):
    S, y = labelled
    times = np.arange(90) % 4 + 5 * (np.arange(90) % 7 == 0)
    labels, repeated_labels = (None, None) if pure else (y, np.repeat(y, times))
    fusion = rule(false_alarm_rate=0.3)
    weighted = clone(fusion).fit(S, labels, sample_weight=times)
    repeated = clone(fusion).fit(np.repeat(S, times, axis=0), repeated_labels)
    np.testing.assert_allclose(weighted.score_samples(S), repeated.score_samples(S))
    assert weighted.offset_ == pytest.approx(repeated.offset_)
    assert not np.allclose(weighted.template_, clone(fusion).fit(S, labels).template_)


@pytest.mark.parametrize("rule", RULES)
def test_anomalies_of_weight_zero_are_not_there(labelled, rule):
    S, y = labelled
    without = rule().fit(S, y, sample_weight=y > 0)
    assert without.anomaly_template_ is None
    assert without.offset_ == rule().fit(S[y > 0]).offset_
    with pytest.raises(ValueError, match="zero for every normal row"):
        rule().fit(S, y, sample_weight=y < 0)


# --------------------------------------------------------------------------------------- degenerate


def test_zero_vectors_point_nowhere():
    fusion = CosineSimilarity().fit([[1.0, 2.0], [3.0, 4.0]])
    assert fusion.score_samples([[0.0, 0.0]]).tolist() == [0.0]
    nowhere = CosineSimilarity().fit([[1.0, -1.0], [-1.0, 1.0]])
    assert nowhere.score_samples([[5.0, 1.0], [0.0, 0.0]]).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("rule", RULES)
def test_one_detector_one_anomaly(rule):
    fusion = rule().fit([[0.9], [0.7], [-0.5]], [1, 1, -1])
    assert fusion.predict([[0.8], [-0.6]]).tolist() == [1, -1]


@pytest.mark.parametrize("rule", RULES)
def test_one_row(rule):
    fusion = rule().fit([[0.5, 0.25]])
    assert fusion.predict([[0.5, 0.25], [-0.5, 0.0]]).tolist() == [1, -1]


def test_a_constant_column_changes_no_distance(labelled):
    S, y = labelled
    wider = np.column_stack([S, np.full(len(S), 0.7)])
    for labels in (None, y):
        np.testing.assert_allclose(
            DecisionTemplates().fit(wider, labels).score_samples(wider),
            DecisionTemplates().fit(S, labels).score_samples(S),
        )


# ----------------------------------------------------------------------------------------- contract


@pytest.mark.parametrize("rule", RULES)
def test_it_adds_nothing_up(labelled, rule):
    fusion = rule().fit(*labelled)
    assert not hasattr(fusion, "contributions")
    assert not hasattr(fusion, "weights_")


@pytest.mark.parametrize("rule", RULES)
def test_names_are_remembered_and_arrays_stay_in_their_library(labelled, rule):
    S, y = labelled
    frame = pd.DataFrame(S, columns=["forest", "svm", "lof"])
    fusion = rule().fit(frame, y)
    assert fusion.feature_names_in_.tolist() == ["forest", "svm", "lof"]
    with pytest.raises(ValueError, match="feature names"):
        fusion.predict(frame[["svm", "forest", "lof"]])
    strict = array_api_strict.asarray(S)
    scores = rule().fit(strict, y).score_samples(strict)
    assert scores.__array_namespace__() is array_api_strict
    np.testing.assert_allclose(np.asarray(scores), fusion.score_samples(frame))


@cases("rule", RULES)
@cases(
    "settings, arguments, words",
    [
        ({"false_alarm_rate": 1.5}, {}, "false_alarm_rate must be a finite number at least 0"),
        ({}, {"y": [0, 1]}, "Choose one of"),
        ({}, {"y": [-1, -1]}, "only −1"),
        ({}, {"sample_weight": [-1, 1]}, "not negative"),
    ],
)
def test_a_refused_fit_leaves_no_trace(rule, settings, arguments, words):
    fusion = rule(**settings)
    with pytest.raises(ValueError, match=words):
        fusion.fit(np.eye(2), **arguments)
    with pytest.raises(NotFittedError):
        fusion.score_samples(np.eye(2))
    assert not [name for name in vars(fusion) if name.endswith("_")]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("pure", [False, True])
def test_in_a_fused_detector(rule, pure):
    rng = np.random.default_rng(0)
    y = np.repeat([1, -1], [80, 12])
    X = rng.normal(size=(92, 2)) + np.outer(y < 0, [6.0, 0.0])
    pool = [
        ("forest", IsolationForest(n_estimators=10, random_state=0)),
        ("lof", LocalOutlierFactor(novelty=True, n_neighbors=10)),
    ]
    fused = FusedDetector(pool, fusion=clone(rule()), cv=3, random_state=0)
    fused = fused.fit(X[:80]) if pure else fused.fit(X, y)
    assert roc_auc_score(y, fused.score_samples(X)) > 0.95
    assert isinstance(fused.fusion_, rule)
