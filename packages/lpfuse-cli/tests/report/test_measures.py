import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, spearmanr
from sklearn.metrics import average_precision_score, roc_auc_score

from lpfuse_cli.alarms import calibration_table
from lpfuse_cli.report.measures import (
    FALSE_ALARM_RATES,
    POINTS,
    RECALLS,
    auc_difference,
    places,
    rank_correlation,
    separation,
)


@st.composite
def judged(draw, folds=1, scores=1):
    """Labels, columns of scores with ties, and folds, each with rows of both classes."""
    n = draw(st.integers(4 * folds, 40))
    seed = draw(st.integers(0, 2**32 - 1))
    random = np.random.default_rng(seed)
    fold = np.arange(n) % folds
    y = np.where(np.arange(n) // folds % 2, -1.0, np.where(random.random(n) < 0.6, 1.0, -1.0))
    y[:folds] = 1.0
    columns = random.integers(-6, 7, size=(scores, n)) / draw(st.sampled_from([1, 2, 10]))
    return y, *columns, fold


def one_fold(y):
    return np.zeros(len(y))


# ------------------------------------------------------------------------------------- separation


@settings(max_examples=40)
@given(judged())
def test_figures_of_one_fold_are_those_of_scikit_learn(case):
    y, scores, fold = case
    found = separation(y, scores, fold)
    assert found["auc"] == pytest.approx(roc_auc_score(y, scores))
    assert found["average_precision"] == pytest.approx(average_precision_score(y < 0, -scores))


@settings(max_examples=40)
@given(judged(folds=3))
def test_auc_over_folds_weighs_each_by_its_anomalies(case):
    y, scores, fold = case
    areas = [roc_auc_score(y[fold == k], scores[fold == k]) for k in range(3)]
    anomalies = [(y[fold == k] < 0).sum() for k in range(3)]
    expected = np.average(areas, weights=anomalies)
    assert separation(y, scores, fold)["auc"] == pytest.approx(expected)


@settings(max_examples=40)
@given(judged(folds=3), st.floats(0.1, 10), st.floats(-50, 50))
def test_what_shifts_a_fold_changes_nothing(case, factor, shift):
    y, scores, fold = case
    moved = np.where(fold == 1, np.round(factor * scores * 64) / 64 + np.round(shift), scores)
    same_order = np.array_equal(
        np.unique(moved[fold == 1], return_inverse=True)[1],
        np.unique(scores[fold == 1], return_inverse=True)[1],
    )
    if same_order:
        assert separation(y, moved, fold) == separation(y, scores, fold)


@settings(max_examples=40)
@given(judged(folds=2))
def test_the_area_below_the_curve_is_the_auc(case):
    y, scores, fold = case
    found = separation(y, scores, fold)
    x, height = map(np.array, found["roc"])
    assert np.trapezoid(height, x) == pytest.approx(found["auc"], abs=1e-3)
    for curve in (x, height):
        assert curve[0] == 0
        assert curve[-1] == 1
        assert (np.diff(curve) >= 0).all()


def test_curves_are_thinned_but_not_bent(generator):
    y = np.where(generator.random(20_000) < 0.5, 1.0, -1.0)
    scores = y + generator.normal(size=20_000)
    found = separation(y, scores, one_fold(y))
    for name in ("roc", "pr"):
        assert [len(part) for part in found[name]] == [len(found[name][0])] * 2
        assert POINTS / 2 < len(found[name][0]) <= POINTS
    x, height = found["roc"]
    assert np.trapezoid(height, x) == pytest.approx(found["auc"], abs=2e-3)
    assert x[0] == height[0] == 0
    assert found["pr"][0][-1] == 1
    assert found["pr"][1][-1] == pytest.approx((y < 0).mean(), abs=1e-3)


@settings(max_examples=40)
@given(judged())
def test_tables_of_the_curves_against_every_threshold(case):
    y, scores, fold = case
    scores = scores + 1e-6 * np.arange(len(y))  # a threshold cannot part ties
    flagged = [scores <= at for at in np.append(-np.inf, np.sort(scores))]
    alarms = [np.mean(each[y > 0]) for each in flagged]
    recalls = [np.mean(each[y < 0]) for each in flagged]
    right = [np.mean(y[each] < 0) if each.any() else 0.0 for each in flagged]
    found = separation(y, scores, fold)
    for rate, share in zip(FALSE_ALARM_RATES, found["found_at"], strict=True):
        best = max(r for r, a in zip(recalls, alarms, strict=True) if a <= rate + 1e-9)
        assert share == pytest.approx(best)
    for least, share in zip(RECALLS, found["precision_at"], strict=True):
        best = max(p for p, r in zip(right, recalls, strict=True) if r >= least - 1e-9)
        assert share == pytest.approx(best)


def test_places_count_the_normal_rows_below_in_the_same_fold():
    y = np.array([1, 1, 1, -1, 1, -1])
    scores = np.array([1.0, 2.0, 3.0, 2.0, 9.0, 8.0])
    fold = np.array([0, 0, 0, 0, 1, 2])
    assert places(y, scores, fold)[:4] == pytest.approx([1 / 6, 3 / 6, 5 / 6, 1 / 2])
    assert places(y, scores, fold)[4] == 0.5
    assert np.isnan(places(y, scores, fold)[5])  # nobody to compare with


# ------------------------------------------------------------------------------------- comparison


def naive_difference(y, scores, others):
    """DeLong, DeLong and Clarke-Pearson (1988), pair by pair."""
    parts = []
    for each in (scores, others):
        anomalies, normal = each[y < 0], each[y > 0]
        pairs = (normal[None, :] > anomalies[:, None]) + 0.5 * (
            normal[None, :] == anomalies[:, None]
        )
        parts.append((pairs.mean(axis=1), pairs.mean(axis=0)))
    differences = [one - other for one, other in zip(*parts, strict=True)]
    error = np.sqrt(sum(np.var(d, ddof=1) / len(d) for d in differences))
    return differences[0].mean(), error


@settings(max_examples=40)
@given(judged(scores=2))
def test_difference_against_all_pairs(case):
    y, scores, others, fold = case
    found = auc_difference(y, scores, others, fold)
    if found["interval"] is not None:
        gain, error = naive_difference(y, scores, others)
        assert found["gain"] == pytest.approx(gain)
        ends = [gain - 1.959964 * error, gain + 1.959964 * error]
        assert found["interval"] == pytest.approx(ends, abs=1e-6)


@settings(max_examples=40)
@given(judged(scores=2, folds=2))
def test_difference_turns_around(case):
    y, scores, others, fold = case
    one, other = auc_difference(y, scores, others, fold), auc_difference(y, others, scores, fold)
    areas = [separation(y, each, fold)["auc"] for each in (scores, others)]
    assert one["gain"] == pytest.approx(areas[0] - areas[1])
    assert one["gain"] == pytest.approx(-other["gain"])
    assert auc_difference(y, scores, scores, fold)["gain"] == 0


def test_one_anomaly_has_no_interval():
    y = np.array([1, 1, 1, -1])
    found = auc_difference(y, np.arange(4.0), -np.arange(4.0), one_fold(y))
    assert found == {"gain": -1.0, "interval": None}


def test_the_interval_covers_the_truth_as_often_as_it_says(generator):
    """Two equally good scores: 0 is outside in about 5 % of cases."""
    y = np.repeat([1.0, -1.0], [60, 40])
    outside = 0
    for _ in range(300):
        both = generator.normal(size=100) + y
        scores, others = (both + generator.normal(size=100) for _ in range(2))
        low, high = auc_difference(y, scores, others, one_fold(y))["interval"]
        outside += not low <= 0 <= high
    assert 3 <= outside <= 30


# -------------------------------------------------------------------- correlation and calibration


def test_rank_correlation_is_spearmans(generator):
    S = generator.integers(0, 9, size=(50, 3)).astype(float)
    expected = spearmanr(S).statistic
    assert np.array(rank_correlation(S)) == pytest.approx(expected, abs=1e-4)


def test_correlation_with_what_does_not_vary_is_unknown():
    found = rank_correlation(np.array([[1.0, 5.0], [2.0, 5.0], [3.0, 5.0]]))
    assert found == [[1.0, None], [None, None]]


@pytest.mark.parametrize("hits", [0, 3, 20])
def test_calibration_has_the_exact_interval(hits):
    pvalues = np.repeat([0.04, 0.5], [hits, 20 - hits])
    (found,) = calibration_table(pvalues, np.array([0.05]))
    expected = binomtest(hits, 20).proportion_ci(method="exact")
    assert found["measured"] == hits / 20
    assert (found["low"], found["high"]) == pytest.approx((expected.low, expected.high))


def test_a_p_value_at_the_rate_is_an_alarm():
    (found,) = calibration_table(np.array([0.05, 0.0501]), np.array([0.05]))
    assert found["measured"] == 0.5
