"""Joints of one-class experts for many classes, against loops; rules for missing cells."""

import numpy as np
import pytest

from helpers.cases import cases
from research.rivals.classes import (
    BestLearner,
    Codes,
    DynamicWeights,
    JointlyCalibrated,
    LpPerClass,
    StackedScores,
    SumOfExperts,
    Templates,
    code_of,
    units_of,
)
from research.rivals.missing import RULES, AvailableRule, ColumnExperts

RNG = np.random.default_rng(0)
LABELS = np.arange(90) % 3
X = np.eye(3)[LABELS] * 4 + RNG.normal(size=(90, 3))
# Two experts a class: one that knows, one that guesses.
KNOWS = np.where(LABELS[:, None] == np.arange(3), 0.8, -0.8) + RNG.normal(0, 0.3, (90, 3))
PROFILE = np.stack([KNOWS, RNG.normal(0, 0.5, (90, 3))], axis=2)


JOINTS = [SumOfExperts(), LpPerClass(), Templates(), DynamicWeights(10), BestLearner()]
JOINTS += [StackedScores(), JointlyCalibrated(LpPerClass())]


@cases("joint", JOINTS)
def test_joints_find_the_class_that_the_experts_know(joint):
    found = joint.fit(PROFILE[:60], LABELS[:60], X[:60]).predict(PROFILE[60:], X[60:])
    assert (found == LABELS[60:]).mean() > 0.8


def test_the_best_learner_is_the_one_that_knows():
    turned = PROFILE[:, :, ::-1]
    assert BestLearner().fit(PROFILE, LABELS, X).best_ == 0
    assert BestLearner().fit(turned, LABELS, X).best_ == 1


def test_templates_of_wrong_labels_are_wrong():
    """The control: with every label one further, every row is."""
    found = Templates().fit(PROFILE[:60], (LABELS[:60] + 1) % 3, X).predict(PROFILE[60:], X)
    assert (found == (LABELS[60:] + 1) % 3).mean() > 0.8


def test_templates_are_the_nearest_mean_profile():
    found = Templates().fit(PROFILE[:60], LABELS[:60], X)
    for row, told in zip(PROFILE[60:], found.predict(PROFILE[60:], X), strict=True):
        apart = [
            np.square(row - PROFILE[:60][LABELS[:60] == k].mean(axis=0)).sum() for k in range(3)
        ]
        assert told == int(np.argmin(apart))


def test_dynamic_weights_by_a_loop_over_rows():
    found = DynamicWeights(7).fit(PROFILE[:60], LABELS[:60], X[:60])
    weights = found.weights(X[60:])
    np.testing.assert_allclose(weights.sum(axis=(1, 2)), 1)
    for row, told in zip(X[60:], weights, strict=True):
        near = np.argsort(np.linalg.norm(X[:60] - row, axis=1))[:7]
        worth = np.zeros((3, 2))
        for i in near:
            for k in range(3):
                side = 1 if LABELS[i] == k else -1
                worth[k] += side * np.clip(PROFILE[i, k], -1, 1) / 7
        worth = np.maximum(worth, 0)
        np.testing.assert_allclose(told, worth / worth.sum(), atol=1e-12)


def test_where_every_expert_errs_all_weigh_alike():
    found = DynamicWeights(5).fit(-10 * PROFILE[:60, :, :1], LABELS[:60], X[:60])
    assert np.isfinite(found.weights(X)).all()
    wrong = np.where(LABELS[:60, None] == np.arange(3), -1.0, 1.0)[:, :, None]
    even = DynamicWeights(5).fit(wrong, LABELS[:60], X[:60]).weights(X[60:])
    np.testing.assert_allclose(even, 1 / 3)


@cases("classes", [2, 3, 5, 10])
def test_codes_tell_classes_apart(classes):
    code = code_of(classes, seed=1)
    assert code.shape == (classes, 2 * classes)
    assert len(np.unique(code, axis=0)) == classes
    assert (np.abs(code.sum(axis=0)) < classes).all()


@pytest.mark.parametrize("select", [False, True])
def test_code_words_that_experts_read_right_give_the_class(select):
    pytest.importorskip("pygad", reason="pygad is not installed")
    code = code_of(3, seed=0)
    bits = code[LABELS]
    profile = np.stack([0.9 * bits, RNG.normal(0, 0.05, bits.shape)], axis=2)
    joint = Codes(code, select=select).fit(profile[:60], LABELS[:60], X[:60])
    np.testing.assert_array_equal(joint.predict(profile[60:], X), LABELS[60:])
    if select:  # the expert that guesses is left out wherever that is better
        assert (joint.weights_[:, 0] >= joint.weights_[:, 1]).all()


def test_units_learn_from_their_class_or_the_classes_of_their_bit():
    code = np.array([[1.0, -1.0], [-1.0, 1.0], [1.0, 1.0]])
    assert [np.unique(LABELS[unit]).tolist() for unit in units_of(LABELS, None, 3)] == [
        [0], [1], [2]
    ]  # fmt: skip
    assert [np.unique(LABELS[unit]).tolist() for unit in units_of(LABELS, code, 3)] == [
        [0, 2], [1, 2]
    ]  # fmt: skip


# ----------------------------------------------------------------------------------- missing cells


def by_loop(rule, row):
    known = [score for score in row if not np.isnan(score)]
    densities = np.exp(known)
    return {
        "product": np.log(np.prod(densities)) / len(known),
        "sum": np.log(np.mean(densities)),
        "max": max(known),
        "min": min(known),
    }[rule]


@cases("rule", list(RULES))
def test_rules_use_the_scores_that_are_there(rule):
    S = RNG.normal(-1, 1, size=(30, 4))
    S[RNG.random(S.shape) < 0.4] = np.nan
    S[0] = np.nan
    fitted = AvailableRule(rule).fit(np.abs(RNG.normal(size=(20, 4))) * -1)
    found = fitted.score_samples(S)
    assert found[0] == fitted.lowest_
    for row, told in zip(S[1:], found[1:], strict=True):
        expected = fitted.lowest_ if np.isnan(row).all() else by_loop(rule, row)
        assert told == pytest.approx(expected)


def test_experts_of_columns_leave_gaps_where_cells_are_missing():
    experts = ColumnExperts().fit(X)
    rows = X.copy()
    rows[3, 1] = np.nan
    scores = experts.scores(rows)
    assert np.isnan(scores).sum() == 1
    np.testing.assert_allclose(
        scores[:, 0], -0.5 * ((X[:, 0] - X[:, 0].mean()) / X[:, 0].std()) ** 2
    )
    assert np.isfinite(ColumnExperts().fit(np.ones((5, 2))).scores(np.ones((5, 2)))).all()
