from itertools import product
from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import make_scorer, recall_score, roc_auc_score, roc_curve

from lpfuse import GMMDetector
from lpfuse._validation.params import check_values
from lpfuse.metrics import auc_over_folds, best_g_mean, g_mean, halfway, mean_over_folds

# Few values, so that ties are common.
few = st.integers(-4, 4).map(float)
labelled_scores = st.lists(
    st.tuples(st.sampled_from([1, -1]), few), min_size=2, max_size=12
).filter(lambda rows: len({label for label, _ in rows}) == 2)


def naive_g_mean(y, predictions):
    rows = list(zip(y, predictions, strict=True))
    rates = [
        sum(said == label for label, said in rows if label == side)
        / sum(label == side for label, _ in rows)
        for side in (1, -1)
    ]
    return sqrt(rates[0] * rates[1])


def called(scores, offset):
    return [1 if score >= offset else -1 for score in scores]


@pytest.mark.parametrize("y_pred", list(product([1, -1], repeat=4)))
def test_g_mean_of_all_predictions(y_pred):
    y = [1, -1, 1, 1]
    assert g_mean(y, y_pred) == pytest.approx(naive_g_mean(y, y_pred))
    assert g_mean(y, y_pred) == pytest.approx(sqrt(np.prod(recall_score(y, y_pred, average=None))))


@given(labelled_scores)
def test_best_g_mean_tries_every_threshold(rows):
    y, scores = zip(*rows, strict=True)
    value, offset = best_g_mean(y, scores)
    # Between the values of `few`, below all and above all.
    everywhere = {cut: naive_g_mean(y, called(scores, cut)) for cut in np.arange(-4.5, 5)}
    assert value == pytest.approx(max(everywhere.values()))
    assert value == pytest.approx(g_mean(y, called(scores, offset)))
    equally_good = [cut for cut, reached in everywhere.items() if reached >= value - 1e-12]
    assert called(scores, offset) == called(scores, min(equally_good))


@given(labelled_scores, st.randoms(use_true_random=False))
def test_best_g_mean_does_not_depend_on_the_order_of_rows_nor_on_the_unit(rows, random):
    value, offset = best_g_mean(*zip(*rows, strict=True))
    shuffled = random.sample(rows, len(rows))
    y, scores = zip(*shuffled, strict=True)
    assert best_g_mean(y, scores) == (value, offset)
    assert best_g_mean(y, 8 * np.array(scores) + 16) == (value, 8 * offset + 16)


def test_best_g_mean_agrees_with_the_roc_curve():
    rng = np.random.default_rng(0)
    y = np.repeat([1, -1], [300, 40])
    scores = rng.normal(y, 1.0)
    false_rate, true_rate, _ = roc_curve(y, scores)
    expected = np.sqrt(true_rate * (1 - false_rate)).max()
    assert best_g_mean(y, scores)[0] == pytest.approx(expected, rel=1e-12)


def test_the_best_threshold_lies_halfway_between_the_classes():
    assert best_g_mean([-1, 1], [0.0, 1.0]) == (1.0, 0.5)
    assert best_g_mean([-1, 1, -1], [-np.inf, 4.0, 2.0]) == (1.0, 3.0)


def test_where_no_threshold_helps_everything_is_normal():
    assert best_g_mean([1, -1], [0.0, 1.0]) == (0.0, 0.0)
    assert best_g_mean([1, -1, 1], [7.0, 7.0, 7.0]) == (0.0, 7.0)
    assert best_g_mean([1, -1, 1], [np.inf, np.inf, np.inf]) == (0.0, np.inf)


def test_g_mean_is_a_scorer_of_scikit_learn():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(50, 2)), rng.normal(9.0, 1.0, size=(5, 2))])
    y = np.repeat([1, -1], [50, 5])
    detector = GMMDetector(random_state=0).fit(X[:50])
    expected = g_mean(y, detector.predict(X))
    assert make_scorer(g_mean)(detector, X, y) == expected > 0.9


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_halfway_parts_two_scores(one, other):
    low, high = sorted([one, other])
    offset = halfway(low, high)
    assert low < offset <= high or low == offset == high


def test_halfway_is_the_middle_where_there_is_one():
    assert halfway(-1.0, 4.0) == 1.5
    assert halfway(1.5e308, 1.7e308) == pytest.approx(1.6e308)
    assert halfway(1.0, np.nextafter(1.0, 2.0)) == np.nextafter(1.0, 2.0)


@pytest.mark.parametrize("score", [g_mean, best_g_mean])
def test_the_geometric_mean_needs_both_classes(score):
    with pytest.raises(ValueError, match="there is no anomaly"):
        score([1, 1], [1, 1])
    with pytest.raises(ValueError, match="normal rows are needed"):
        score([-1, -1], [1, 1])
    with pytest.raises(ValueError, match="Pass y with"):
        score(None, [1, 1])


@pytest.mark.parametrize("score", [g_mean, best_g_mean])
def test_unusable_input_is_refused(score):
    with pytest.raises(ValueError, match=r"must be \+1 \(normal\) or -1 \(anomaly\), got 0 and 1"):
        score([0, 1], [1, -1])
    with pytest.raises(ValueError, match=r"expected shape \(3,\), got \(2,\)"):
        score([1, -1], [1, -1, 1])
    with pytest.raises(ValueError, match=r"expected one dimension, got shape \(2, 1\)"):
        score([1, -1], [[1], [-1]])
    with pytest.raises(ValueError, match=r"1 of 2 are NaN\. Leave those rows out"):
        score([1, -1], [1, np.nan])


def test_scores_are_no_predictions():
    with pytest.raises(ValueError, match=r"in every row\. For scores, see best_g_mean"):
        g_mean([1, -1], [0.3, -1.0])


def test_values_are_one_number_a_row():
    assert check_values([1, 2], "scores").dtype == np.float64
    np.testing.assert_array_equal(check_values([1, None], "s", allow_nan=True), [1.0, np.nan])
    assert check_values([], "scores").shape == (0,)
    with pytest.raises(ValueError, match="could not convert"):
        check_values(["a"], "scores")
    with pytest.raises(ValueError, match=r"scores .* got shape \(\)"):
        check_values(3.0, "scores")


def naive_mean_over_folds(y, scores, fold):
    total = weight = 0.0
    for number in set(fold[fold >= 0]):
        rows = [
            i for i in range(len(y)) if fold[i] == number and y[i] != 0 and scores[i] == scores[i]
        ]
        pairs = [(scores[i], scores[j]) for i in rows for j in rows if y[i] > 0 > y[j]]
        m = sum(y[i] < 0 for i in rows)
        if pairs:
            total += m * np.mean([(a > b) + (a == b) / 2 for a, b in pairs])
            weight += m
    return total / weight


@pytest.mark.parametrize("seed", range(5))
def test_mean_over_folds_against_pairs(seed):
    rng = np.random.default_rng(seed)
    y, fold = rng.choice([1, 1, -1, 0], 60), rng.integers(-1, 4, 60)
    scores = rng.integers(0, 6, (60, 3)).astype(float)
    scores[rng.random(60) < 0.1] = np.nan
    found = mean_over_folds(roc_auc_score, y, scores, fold)
    wanted = [naive_mean_over_folds(y, column, fold) for column in scores.T]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    one = mean_over_folds(roc_auc_score, y, scores[:, 0], fold)
    assert one.shape == ()
    assert one == found[0]


def test_areas_over_folds_leave_out_the_rows_that_a_score_lacks():
    rng = np.random.default_rng(0)
    y, fold = rng.choice([1, 1, -1, 0], 60), rng.integers(-1, 4, 60)
    columns = {name: rng.integers(0, 6, 60).astype(float) for name in "ab"}
    columns["b"][rng.random(60) < 0.2] = np.nan
    areas = auc_over_folds(y, columns, fold)
    assert areas == pytest.approx(
        {name: naive_mean_over_folds(y, column, fold) for name, column in columns.items()}
    )
    assert auc_over_folds(np.ones(60), columns, fold) == {"a": None, "b": None}


def test_mean_over_folds_without_both_classes_in_a_fold():
    y, fold = np.array([1, 1, -1, -1]), np.array([0, 0, 1, 1])
    assert mean_over_folds(roc_auc_score, y, np.arange(4.0), fold) is None
