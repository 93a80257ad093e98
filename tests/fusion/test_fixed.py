import array_api_strict
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.utils.estimator_checks import parametrize_with_checks

from lpfuse import FixedRule

score_tables = st.tuples(st.integers(1, 20), st.integers(1, 5)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.floats(-1e3, 1e3))
)


class LabelsDropped(FixedRule):
    """Fit without y: scikit-learn's checks feed labels other than ±1, which we refuse."""

    def fit(self, S, y=None, sample_weight=None):
        return super().fit(S, sample_weight=sample_weight)


@parametrize_with_checks([LabelsDropped()])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@given(score_tables)
def test_sum_adds_the_columns_and_contributions_explain_it(S):
    rule = FixedRule("sum").fit(S)
    by_hand = [sum(row) for row in S.tolist()]
    np.testing.assert_allclose(rule.score_samples(S), by_hand, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(rule.contributions(S).sum(axis=1), rule.score_samples(S))
    assert rule.contributions(S).shape == S.shape


@given(score_tables)
def test_predictions_follow_the_sign_of_the_decision(S):
    rule = FixedRule().fit(S)
    np.testing.assert_array_equal(rule.decision_function(S), rule.score_samples(S) - rule.offset_)
    np.testing.assert_array_equal(
        rule.predict(S), [1 if d >= 0 else -1 for d in rule.decision_function(S)]
    )


def test_a_score_on_the_threshold_is_normal():
    assert FixedRule().fit([[1.0, 1.0]]).predict([[1.0, -1.0]]).tolist() == [1]


def test_every_detector_weighs_one():
    rule = FixedRule().fit(np.eye(3))
    assert rule.weights_.tolist() == [1.0, 1.0, 1.0]
    assert rule.offset_ == 0.0


def test_labels_and_sample_weights_change_nothing():
    S = np.random.default_rng(0).normal(size=(10, 3))
    plain = FixedRule().fit(S)
    labelled = FixedRule().fit(S, [1] * 9 + [-1], sample_weight=np.arange(10))
    np.testing.assert_array_equal(labelled.score_samples(S), plain.score_samples(S))


def test_contributions_are_not_a_view_of_the_scores():
    S = np.ones((2, 2))
    FixedRule().fit(S).contributions(S)[:] = 0.0
    np.testing.assert_array_equal(S, 1.0)


def test_array_api_scores_stay_in_their_library():
    S = array_api_strict.asarray([[1.0, 0.5], [-1.0, 0.25]])
    rule = FixedRule().fit(S)
    for result in (rule.score_samples(S), rule.predict(S), rule.contributions(S)):
        assert result.__array_namespace__() is array_api_strict
    assert np.asarray(rule.predict(S)).tolist() == [1, -1]


def test_torch_scores_stay_in_torch():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    S = torch.tensor([[1.0, 0.5], [-1.0, 0.25]])
    rule = FixedRule().fit(S)
    assert rule.score_samples(S).tolist() == [1.5, -0.75]
    assert rule.predict(S).tolist() == [1, -1]


def test_an_unknown_rule_is_refused_with_those_that_exist():
    with pytest.raises(ValueError, match="one of sum; got 'mean'"):
        FixedRule("mean").fit(np.eye(2))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"y": [0, 1]}, "np.where"),
        ({"sample_weight": [-1, 1]}, "not negative"),
    ],
)
def test_unusable_labels_and_weights_are_refused_though_unused(arguments, words):
    with pytest.raises(ValueError, match=words):
        FixedRule().fit(np.eye(2), **arguments)


def test_missing_scores_are_refused_after_fit_too():
    rule = FixedRule().fit(pd.DataFrame({"svm": [1.0, 2.0], "lof": [0.0, 1.0]}))
    with pytest.raises(ValueError, match="NaN or infinity in column 'lof'"):
        rule.predict(pd.DataFrame({"svm": [1.0], "lof": [np.nan]}))
