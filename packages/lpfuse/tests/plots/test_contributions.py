import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib.colors import same_color
from matplotlib.figure import Figure
from sklearn.exceptions import NotFittedError
from sklearn.mixture import GaussianMixture

from helpers.cases import cases
from lpfuse import FixedRule, FusedDetector, LpFusion
from lpfuse.plots import ContributionsDisplay
from lpfuse.plots.drawing import COLOURS

NAN = float("nan")
TABLE = np.array([[0.5, 0.25, 0.0], [-0.5, -2.0, 0.25], [1.0, -1.5, -0.25]])  # sums ¾, −2¼, −¾
NAMES = ["forest", "svm", "lof"]


def row_names(display):
    return [label.get_text() for label in display.ax_.get_yticklabels()]


def legend(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


def widths(display):
    """Rows × detectors in the order of the legend."""
    return np.array([[bar.get_width() for bar in bars] for bars in display.bars_]).T


def notes(display):
    return {
        round(text.xy[1]): text.get_text()
        for text in display.ax_.texts
        if text.get_text().startswith("missing")
    }


def thresholds(display):
    return [segment[0][0] for segment in display.threshold_.get_segments() if len(segment)]


def test_bars_are_the_contributions_of_the_strangest_rows_first():
    display = ContributionsDisplay(TABLE, NAMES, offset=-0.5).plot()
    assert row_names(display) == ["row 1", "row 2", "row 0"]
    assert legend(display) == ["svm", "forest", "lof", "fused score", "threshold −0.5"]
    np.testing.assert_array_equal(widths(display), TABLE[[1, 2, 0]][:, [1, 0, 2]])
    np.testing.assert_array_equal(display.scores_.get_xdata(), [-2.25, -0.75, 0.75])
    assert thresholds(display) == [-0.5] * 3
    bottom, top = display.ax_.get_ylim()
    assert bottom > top  # the first row is at the top


def test_bars_of_a_row_are_stacked_away_from_zero():
    display = ContributionsDisplay(TABLE, NAMES).plot()
    for place, row in enumerate(TABLE[[1, 2, 0]]):
        ends = {False: 0.0, True: 0.0}
        for bars in display.bars_:
            start, width = bars[place].get_x(), bars[place].get_width()
            assert start == ends[width >= 0]
            ends[width >= 0] += width
        assert ends == {False: row.clip(max=0).sum(), True: row.clip(min=0).sum()}


def test_a_missing_detector_has_a_note_and_no_bar():
    table = TABLE.copy()
    table[1, 1] = NAN  # row 1 sums to −¼ now
    display = ContributionsDisplay(table, NAMES).plot()
    assert row_names(display) == ["row 2", "row 1", "row 0"]
    np.testing.assert_array_equal(display.scores_.get_xdata(), [-0.75, -0.25, 0.75])
    assert notes(display) == {1: "missing: svm"}
    np.testing.assert_array_equal(widths(display)[1], [-0.5, NAN, 0.25])
    assert [bars[1].get_x() for bars in display.bars_] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("sign", [-1, 1])
def test_bars_after_a_missing_one_start_at_zero(sign):
    display = ContributionsDisplay(sign * np.array([[NAN, 2.0, 1.0], [9.0, 1.0, 1.0]])).plot()
    place = row_names(display).index("row 0")
    assert [bars[place].get_x() for bars in display.bars_] == [0.0, 0.0, 2.0 * sign]


def test_a_zero_is_not_called_missing():
    assert notes(ContributionsDisplay(TABLE * 0.0).plot()) == {}


def test_missing_detectors_are_counted_and_empty_rows_come_last():
    table = np.ones((2, 5))
    table[0] = NAN
    display = ContributionsDisplay(table, list("abcde")).plot()
    assert row_names(display) == ["row 1", "row 0"]
    assert notes(display) == {1: "missing: a, b and 3 more"}
    assert np.isnan(display.scores_.get_xdata()[1])


def test_scores_may_be_given():
    display = ContributionsDisplay(TABLE, scores=[-3.0, -1.0, -2.0]).plot()
    assert row_names(display) == ["row 0", "row 2", "row 1"]
    np.testing.assert_array_equal(display.scores_.get_xdata(), [-3.0, -2.0, -1.0])


@pytest.mark.parametrize("nowhere", [None, -np.inf, NAN])
def test_without_a_threshold_there_is_none_to_see(nowhere):
    display = ContributionsDisplay(TABLE, NAMES, offset=nowhere).plot()
    assert legend(display)[-1] == "fused score"
    assert thresholds(display) == []


def test_rows_may_have_thresholds_and_names_of_their_own():
    display = ContributionsDisplay(TABLE, offset=[1.0, 2.0, 3.0], rows=["Mon", 7, "$1"]).plot()
    assert row_names(display) == ["row 7", "$1", "Mon"]
    assert thresholds(display) == [2.0, 3.0, 1.0]
    assert legend(display)[-1] == "threshold"


def test_at_most_ten_rows_unless_more_are_wanted():
    table = np.arange(30.0)[:, None]
    display = ContributionsDisplay(table).plot()
    assert row_names(display) == [f"row {i}" for i in range(10)]
    assert "the 10 strangest of 30 rows" in [text.get_text() for text in display.ax_.texts]
    assert len(row_names(ContributionsDisplay(table).plot(max_rows=30))) == 30
    with pytest.raises(ValueError, match="max_rows must be a whole number from 1, got 0"):
        ContributionsDisplay(table).plot(max_rows=0)


def test_detectors_that_contribute_least_are_summed():
    table = np.array([[-1.0, 0.1, -3.0, 0.2, NAN], [0.5, -0.1, -2.0, 0.3, 0.2]])
    display = ContributionsDisplay(table).plot(max_detectors=2)
    assert legend(display)[:3] == ["detector 2", "detector 0", "3 others, summed"]
    np.testing.assert_allclose(widths(display), [[-3.0, -1.0, 0.3], [-2.0, 0.5, 0.4]])
    assert notes(display) == {0: "missing: detector 4"}
    np.testing.assert_allclose(display.scores_.get_xdata(), [-3.7, -1.1])


def test_detectors_of_one_name_stay_two():
    display = ContributionsDisplay(TABLE, ["same", "same", "other"]).plot()
    assert len(display.bars_) == 3
    assert legend(display)[:3] == ["same", "same", "other"]


def test_a_detector_looks_as_in_the_other_displays():
    display = ContributionsDisplay(-np.arange(1.0, 8.0)[None]).plot()
    assert [bars[0].get_facecolor() for bars in display.bars_] == [
        bars[0].get_facecolor()
        for bars in ContributionsDisplay(np.arange(1.0, 8.0)[None]).plot().bars_
    ]
    for bars, colour in zip(display.bars_, COLOURS[::-1], strict=True):
        assert same_color(bars[0].get_facecolor(), colour)
    assert len({(bars[0].get_hatch(), bars[0].get_facecolor()) for bars in display.bars_}) == 7


@pytest.fixture(scope="module")
def scores():
    S = np.random.default_rng(0).normal([0.9, 0.5, 0.1], 0.5, size=(60, 3))
    S[17] -= 5
    S[4] -= 3
    return S


@pytest.mark.parametrize("table", [np.asarray, pd.DataFrame, pl.DataFrame, "torch"])
def test_from_a_fusion(scores, table):
    if table == "torch":
        table = pytest.importorskip("torch", reason="torch is not installed").tensor
    S = table(scores)
    fusion = LpFusion(fit_intercept=True).fit(S, np.where(np.arange(60) % 13 == 4, -1, 1))
    display = ContributionsDisplay.from_estimator(fusion, S, max_rows=4)
    expected = np.asarray(fusion.score_samples(S))
    assert row_names(display)[:2] == ["row 17", "row 4"]
    np.testing.assert_allclose(display.scores_.get_xdata(), np.sort(expected)[:4])
    np.testing.assert_allclose(thresholds(display), [fusion.offset_] * 4)
    few = ContributionsDisplay.from_estimator(fusion, S, rows=[3, 4, 30])
    assert row_names(few)[0] == "row 4"
    assert sorted(row_names(few)) == ["row 3", "row 30", "row 4"]
    np.testing.assert_allclose(few.scores_.get_xdata(), np.sort(expected[[3, 4, 30]]))


def test_rows_may_be_a_mask_or_counted_from_the_end(scores):
    rule = FixedRule().fit(scores)
    mask = np.arange(60) >= 58
    for rows in (mask, [-1, -2], (58, 59)):
        display = ContributionsDisplay.from_estimator(rule, scores, rows=rows)
        assert sorted(row_names(display)) == ["row 58", "row 59"]


@pytest.fixture(scope="module")
def fused():
    X = np.random.default_rng(1).normal(size=(80, 3))
    pool = [
        ("left", GaussianMixture(1), [0, 1]),
        ("right", GaussianMixture(1), [2]),
        ("all", GaussianMixture(1)),
    ]
    return FusedDetector(pool, fusion=FixedRule(), random_state=0).fit(X)


def test_from_a_fused_detector(fused):
    X = np.random.default_rng(2).normal(size=(20, 3))
    X[5] = 9.0
    display = ContributionsDisplay.from_estimator(fused, X)
    assert row_names(display)[0] == "row 5"
    assert sorted(legend(display)[:3]) == ["all", "left", "right"]
    order = np.argsort(fused.score_samples(X))[:10]
    np.testing.assert_allclose(display.scores_.get_xdata(), fused.score_samples(X)[order])
    np.testing.assert_allclose(np.sort(widths(display)), np.sort(fused.contributions(X)[order]))
    assert thresholds(display) == [fused.offset_] * 10
    assert notes(display) == {}


def test_a_silent_detector_is_missing_and_moves_the_threshold(fused):
    X = np.random.default_rng(2).normal(size=(20, 3))
    X[5] = [9.0, 9.0, np.nan]  # "right" and "all" cannot score this row
    with pytest.warns(UserWarning, match="could not score some rows") as caught:
        display = ContributionsDisplay.from_estimator(fused, X)
    assert len(caught) == 1
    assert row_names(display)[0] == "row 5"
    assert notes(display) == {0: "missing: right, all"}
    assert np.isnan(widths(display)).sum() == 2
    with pytest.warns(UserWarning, match="could not score"):
        score, decision = fused.score_samples(X)[5], fused.decision_function(X)[5]
    assert display.scores_.get_xdata()[0] == pytest.approx(score)
    assert thresholds(display)[0] == pytest.approx(score - decision)
    assert thresholds(display)[0] != pytest.approx(fused.offset_)
    assert thresholds(display)[1:] == [fused.offset_] * 9


def test_axes_of_the_user_need_no_new_figure(scores):
    before = plt.get_fignums()
    figure = Figure(figsize=(9, 3))
    ax = figure.subplots()
    rule = FixedRule().fit(scores)
    display = ContributionsDisplay.from_estimator(rule, scores, ax=ax, fc="red", height=0.2)
    assert display.ax_ is ax
    assert display.figure_ is figure
    assert plt.get_fignums() == before
    assert tuple(figure.get_size_inches()) == (9, 3)
    assert display.bars_[0][0].get_height() == pytest.approx(0.2)
    assert same_color(display.bars_[0][0].get_facecolor(), "red")


@pytest.mark.parametrize("count", [1, 3, 7, 36])
def test_names_fit_and_do_not_meet(count, drawn_texts, awkward_names):
    table = np.random.default_rng(0).normal(-0.5, size=(12, count))
    table[:, 0] = NAN
    if count > 1:
        table[::2, : count - 1] = NAN
    display = ContributionsDisplay(table, awkward_names(count), offset=0.0).plot()
    drawn_texts(display)
    ax = display.ax_
    for text in ax.texts:
        if text.get_text().startswith("missing"):
            next_bar = ax.transData.transform((0, round(text.xy[1]) + 1 - 0.3))[1]
            assert text.get_window_extent().y0 >= next_bar - 1
    label = ax.xaxis.label.get_window_extent()
    assert ax.get_legend().get_window_extent().y1 <= label.y0 + 1


def test_the_diamonds_are_not_cut_at_the_edge():
    display = ContributionsDisplay([[-2.0, -1.0, 0.0]]).plot()
    left, right = display.ax_.get_xlim()
    assert left == pytest.approx(-3.15)
    assert right == pytest.approx(0.15)


def test_an_extreme_row_is_cut_and_its_score_written():
    table = np.array([[-900.0, -100.0], [-2.0, 1.0], [-2.0, 0.5], [-1.0, 0.0]])
    display = ContributionsDisplay(table).plot()
    low, high = display.ax_.get_xlim()
    assert low == -16  # eight times the median bar
    assert 1 < high < 2
    cut = {round(text.xy[1]): text.get_text() for text in display.ax_.texts}
    assert cut[0] == "← −1e+03"
    whole = ContributionsDisplay(table[1:]).plot()
    assert whole.ax_.get_xlim()[0] < -2
    assert not any(text.get_text().startswith("←") for text in whole.ax_.texts)


def test_constructing_only_stores():
    stored = {k: object() for k in ("contributions", "names", "scores", "offset", "rows")}
    assert vars(ContributionsDisplay(**stored)) == stored


@cases(
    ("parameters", "words"),
    [
        ({"contributions": [1.0]}, "contributions must have 2 dimensions"),
        ({"contributions": np.empty((0, 2))}, r"at least one entry, got shape \(0, 2\)"),
        ({"contributions": [[np.inf]]}, "contributions must be finite, or NaN where missing"),
        ({"contributions": TABLE, "names": ["a"]}, "expected 3, got 1"),
        (
            {"contributions": TABLE, "scores": [1.0]},
            r"scores must have one entry a row: expected 3",
        ),
        ({"contributions": TABLE, "offset": [1.0] * 4}, "offset must have one entry a row"),
        (
            {"contributions": TABLE, "rows": ["a"]},
            "rows must name each row: expected 3 names, got 1",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused(parameters, words):
    before = plt.get_fignums()
    with pytest.raises(ValueError, match=words):
        ContributionsDisplay(**parameters).plot()
    assert plt.get_fignums() == before


def test_estimators_without_contributions_are_refused(scores):
    with pytest.raises(NotFittedError):
        ContributionsDisplay.from_estimator(LpFusion(), scores)
    with pytest.raises(NotFittedError):
        ContributionsDisplay.from_estimator(FusedDetector(), scores)
    with pytest.raises(TypeError, match="GaussianMixture has no contributions"):
        ContributionsDisplay.from_estimator(GaussianMixture().fit(scores), scores)
