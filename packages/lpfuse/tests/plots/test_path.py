from itertools import pairwise
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import same_color
from matplotlib.figure import Figure
from sklearn.exceptions import NotFittedError
from sklearn.mixture import GaussianMixture

from helpers.cases import cases
from lpfuse import FusedDetectorCV, LpFusion, lp_path
from lpfuse._format import name_of_p
from lpfuse.fusion.lp import PAPER_GRID
from lpfuse.plots import PathDisplay
from lpfuse.plots.displays import _separate, position
from lpfuse.plots.drawing import COLOURS

INF = float("inf")


@pytest.fixture(scope="module")
def scores():
    return np.random.default_rng(0).normal([0.9, 0.5, -0.1], 0.6, size=(80, 3))


def drawn(line):
    return np.asarray(line.get_ydata())


def ticks(display):
    return [label.get_text() for label in display.ax_.get_xticklabels()]


def end_names(display):
    """Names beside the ends of the lines, from the top."""
    texts = [text for text in display.ax_.texts if text.get_transform() == display.ax_.transAxes]
    return [text.get_text() for text in sorted(texts, key=lambda text: -text.get_position()[1])]


def test_lines_are_the_path(scores):
    path = lp_path(scores, ps=[1, 2, INF])
    display = PathDisplay.from_path(path, ["a", "b", "c"])
    assert len(display.lines_) == 3
    for line, weights in zip(display.lines_, path.weights.T, strict=True):
        np.testing.assert_array_equal(drawn(line), weights)
        np.testing.assert_array_equal(line.get_xdata(), position([1, 2, INF]))
    assert display.figure_ is display.ax_.figure
    assert plt.gcf() is display.figure_


def test_a_grid_in_any_order_gives_the_same_lines():
    sorted_, mixed = (
        PathDisplay(np.array([1, 2, INF])[order], np.array([[1, 0], [0.8, 0.6], [1, 1.0]])[order])
        for order in ([0, 1, 2], [2, 0, 1])
    )
    for one, other in zip(sorted_.plot().lines_, mixed.plot().lines_, strict=True):
        np.testing.assert_array_equal(one.get_xydata(), other.get_xydata())


def test_from_an_estimator_that_chose_p(scores):
    estimator = SimpleNamespace(
        path_=lp_path(scores, ps=[1, 2, 8]),
        best_params_={"p": 2.0},
        detector_names_=["forest", "svm", "lof"],
    )
    display = PathDisplay.from_estimator(estimator, linewidth=3)
    assert sorted(end_names(display)) == ["forest", "lof", "svm"]
    assert display.chosen_p == 2.0
    assert [line.get_linewidth() for line in display.lines_] == [3, 3, 3]


def test_from_a_fused_detector_that_chose_p():
    X = np.random.default_rng(0).normal(size=(60, 2))
    X[:10] += 3
    pool = [("one", GaussianMixture(1)), ("two", GaussianMixture(2, reg_covar=0.1))]
    y = np.repeat([-1, 1], [10, 50])
    fused = FusedDetectorCV(pool, ps=[1, 4 / 3, INF], cv=3, random_state=0).fit(X, y)
    display = PathDisplay.from_estimator(fused)
    for line, weights in zip(display.lines_, fused.path_.weights.T, strict=True):
        np.testing.assert_array_equal(drawn(line), weights)
    assert display.chosen_p == fused.fusion_.p
    assert sorted(end_names(display)) == ["one", "two"]


def test_estimators_without_a_path_are_refused(scores):
    with pytest.raises(TypeError, match="LpFusion has no path_"):
        PathDisplay.from_estimator(LpFusion().fit(scores))
    with pytest.raises(NotFittedError):
        PathDisplay.from_estimator(LpFusion())


@given(st.floats(1, INF), st.floats(1, INF))
def test_the_axis_rises_from_one_to_infinity(p, other):
    assert np.isfinite(position(p))
    if 1 / p < 1 / other - 1e-9:
        assert position(p) > position(other)
    conjugate = INF if p == 1 else 1 / (1 - 1 / p)
    assert position(conjugate) == pytest.approx(-position(p), abs=1e-9)


def test_ticks_are_written_as_one_writes_p():
    weights = np.ones((11, 1))
    display = PathDisplay([1, *PAPER_GRID, INF], weights).plot()
    assert ticks(display) == ["1", "32/31", "8/7", "4/3", "2", "4", "8", "100", "∞"]
    at = display.ax_.get_xticks()
    np.testing.assert_allclose(at, position([1, 32 / 31, 8 / 7, 4 / 3, 2, 4, 8, 100, INF]))
    all_ticks = [*at, *display.ax_.get_xticks(minor=True)]
    np.testing.assert_allclose(np.sort(all_ticks), position([1, *PAPER_GRID, INF]))


def test_a_long_grid_has_few_ticks_that_do_not_meet():
    ps = 1 / np.linspace(1, 1e-9, 200)
    display = PathDisplay(ps, np.ones((200, 2))).plot()
    display.figure_.canvas.draw()
    extents = [label.get_window_extent() for label in display.ax_.get_xticklabels()]
    assert len(extents) >= 5
    assert all(left.x1 < right.x0 for left, right in pairwise(extents))


@cases(
    ("p", "text"),
    [(1, "1"), (16 / 15, "16/15"), (1.25, "1.25"), (np.pi, "3.14"), (100.0, "100"), (INF, "∞")],
)
def test_exponents_in_words(p, text):
    assert name_of_p(float(p)) == text


@pytest.mark.parametrize("chosen", [1, 1.7, 10.0, INF])
def test_the_chosen_p_is_marked_and_written(chosen, drawn_texts):
    display = PathDisplay(PAPER_GRID, np.ones((9, 1)), chosen_p=chosen).plot()
    assert name_of_p(chosen) in ticks(display)
    texts = [text.get_text() for text in drawn_texts(display)]
    assert f"chosen p = {name_of_p(chosen)}" in texts
    verticals = [set(line.get_xdata()) for line in display.ax_.lines]
    assert {position(chosen)} in verticals
    ax = display.ax_
    words = next(t for t in ax.texts if t.get_text().startswith("chosen")).get_window_extent()
    assert ax.bbox.y1 <= words.y0
    assert words.y1 <= ax._left_title.get_window_extent().y0
    middle = ax.transData.transform((position(chosen), 0))[0]
    assert (words.x0 + words.x1) / 2 == pytest.approx(middle, abs=2)


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [1, 0, 2, 3]])
def test_names_at_the_ends_follow_the_line_order(order):
    weights = np.array([[0.1, 0.9, 0.0, -0.2], [0.7, 0.6, 0.3, -0.3], [1.0, 1.0, 0.4, -1.0]])
    names = np.array(["late", "early", "low", "negative"])
    display = PathDisplay([1, 2, INF], weights[:, order], names[order]).plot()
    # The first two meet at the end; just before it "late" was on top.
    assert end_names(display) == ["late", "early", "low", "negative"]
    assert display.ax_.get_legend() is None


def test_equal_ends_get_names_that_do_not_overlap(drawn_texts):
    display = PathDisplay([1, INF], np.ones((2, 10))).plot()
    drawn_texts(display)
    names = [text for text in display.ax_.texts if text.get_text()]
    assert len(names) == 10
    extents = sorted((name.get_window_extent() for name in names), key=lambda extent: extent.y0)
    assert all(low.y1 <= high.y0 for low, high in pairwise(extents))


heights = st.lists(st.floats(0, 1), min_size=1, max_size=12).map(sorted).map(np.array)


@given(heights, st.floats(0.001, 0.5))
def test_spread_heights_are_apart_in_order_and_inside(heights, room):
    spread = _separate(heights, room)
    assert (np.diff(spread) >= min(room, 1 / len(heights)) - 1e-12).all()
    assert spread[0] >= 0
    assert spread[-1] <= 1 + 1e-12
    far_apart = (np.diff(heights) >= room).all()
    if far_apart and room <= 1 / len(heights):
        np.testing.assert_allclose(spread, heights, atol=1e-12)


def test_more_than_ten_detectors_get_a_legend():
    weights = np.vstack([np.zeros(11), np.arange(11.0)])
    names = [f"d{j}" for j in range(11)]
    display = PathDisplay([1, 2], weights, names).plot()
    told = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert told == names[::-1]
    assert end_names(display) == []
    assert len({(line.get_color(), line.get_linestyle()) for line in display.lines_}) == 11


def test_of_many_detectors_the_smallest_are_grey_and_nameless():
    weights = np.vstack([np.zeros(36), np.arange(36.0)])
    display = PathDisplay([1, 2], weights).plot(max_detectors=5)
    told = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert told == [f"detector {j}" for j in (35, 34, 33, 32, 31)] + ["31 others"]
    assert len(display.lines_) == 36
    grey = [same_color(line.get_color(), "0.6") for line in display.lines_]
    assert grey == [True] * 31 + [False] * 5
    few = PathDisplay([1, 2], weights[:, :4]).plot(max_detectors=2)
    assert few.ax_.get_legend().get_texts()[-1].get_text() == "2 others"


def test_a_detector_looks_as_in_the_other_displays():
    display = PathDisplay([1, 2], np.ones((2, 7))).plot()
    assert [line.get_color() for line in display.lines_] == list(COLOURS)
    assert len({line.get_marker() for line in display.lines_}) == 7


def test_axes_of_the_user_need_no_new_figure():
    before = plt.get_fignums()
    ax = Figure().subplots()
    display = PathDisplay([1, 2], np.ones((2, 2))).plot(ax, lw=4, c="red")
    assert display.ax_ is ax
    assert plt.get_fignums() == before
    assert [line.get_linewidth() for line in display.lines_] == [4, 4]
    assert {line.get_color() for line in display.lines_} == {"red"}


@pytest.mark.parametrize("count", [1, 3, 7, 36])
def test_names_fit(count, drawn_texts, awkward_names):
    weights = np.linspace(1, -0.5, 5 * count).reshape(5, count)
    display = PathDisplay([1, 4 / 3, 2, 10, INF], weights, awkward_names(count), chosen_p=2)
    drawn_texts(display.plot())


def test_a_single_p_is_a_point_with_names():
    display = PathDisplay([2], [[0.8, 0.6]], ["a", "b"]).plot()
    assert ticks(display) == ["2"]
    assert end_names(display) == ["a", "b"]


def test_constructing_only_stores():
    stored = {name: object() for name in ("ps", "weights", "names", "chosen_p")}
    assert vars(PathDisplay(**stored)) == stored


@cases(
    ("ps", "weights", "names", "chosen", "words"),
    [
        ([1, 2], [[1.0]], None, None, "a row for each p: expected 2 rows, got 1"),
        ([0.5], [[1.0]], None, None, r"p must be in \[1, inf\], got"),
        ([1], [1.0], None, None, "weights must have 2 dimensions"),
        ([1], [[np.inf]], None, None, "weights must be finite"),
        ([1], [[1.0]], ["a", "b"], None, "expected 1, got 2"),
        ([1], [[1.0]], None, 0.5, r"p must be in \[1, inf\], got 0.5"),
    ],
)
def test_what_cannot_be_drawn_is_refused(ps, weights, names, chosen, words):
    before = plt.get_fignums()
    with pytest.raises(ValueError, match=words):
        PathDisplay(ps, weights, names, chosen).plot()
    assert plt.get_fignums() == before
