from itertools import pairwise
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import same_color
from matplotlib.figure import Figure
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import make_pipeline

from helpers.cases import cases
from lpfuse import FixedRule, FusedDetector, LpFusion, TwoSidedMinMax
from lpfuse.optim import Certificate
from lpfuse.plots import WeightsDisplay
from lpfuse.plots.drawing import COLOURS

WEIGHTS = [0.25, -0.5, 0.0, 0.75]
NAMES = ["forest", "svm", "lof", "mixture"]


def widths(display):
    return [bar.get_width() for bar in display.bars_]


def y_labels(display):
    return [label.get_text() for label in display.ax_.get_yticklabels()]


def numbers_at(display):
    """The numbers beside the bars."""
    return [text.get_text() for text in display.ax_.texts[: len(display.bars_)]]


def certificate(status="optimal", relative_gap=2e-9):
    return Certificate(1.0, 1.0, 0.0, relative_gap, 2.0, status)


def test_bars_are_the_weights_from_the_largest_down():
    display = WeightsDisplay(WEIGHTS, NAMES).plot()
    assert widths(display) == [0.75, -0.5, 0.25, 0.0]
    assert y_labels(display) == ["mixture", "svm", "forest", "lof"]
    assert numbers_at(display) == ["0.75", "−0.5", "0.25", "0"]
    assert [bar.get_x() for bar in display.bars_] == [0.0] * 4
    bottom, top = display.ax_.get_ylim()
    assert bottom > top  # the first bar is at the top
    assert display.figure_ is display.ax_.figure


def test_equal_weights_keep_the_order_of_the_detectors():
    display = WeightsDisplay([1.0, -2.0, -1.0, 2.0] * 9).plot(max_detectors=36)
    in_order = [*range(1, 36, 2), *range(0, 36, 2)]
    assert y_labels(display) == [f"detector {j}" for j in in_order]


def test_a_solvers_leftover_is_not_called_a_weight():
    assert numbers_at(WeightsDisplay([0.9, -3e-10, 0.0]).plot()) == ["0.9", "≈ 0", "0"]


def test_a_detector_keeps_its_colour_wherever_it_ranks():
    display = WeightsDisplay(WEIGHTS, NAMES).plot()
    for bar, j in zip(display.bars_, [3, 1, 0, 2], strict=True):
        assert same_color(bar.get_facecolor(), COLOURS[j])
    looks = {
        (bar.get_facecolor(), bar.get_hatch())
        for bar in WeightsDisplay(np.ones(35)).plot(max_detectors=35).bars_
    }
    assert len(looks) == 35


def test_few_of_many_detectors_are_shown():
    weights = np.linspace(-1, 0.9, 36)
    display = WeightsDisplay(weights).plot()
    assert len(display.bars_) == 20
    assert widths(display) == sorted(weights, key=abs)[:-21:-1]
    left_out = sorted(np.abs(weights))[15]
    assert f"(16 more, none beyond ±{left_out:.2g})" in display.ax_.get_xlabel()
    assert len(WeightsDisplay(weights).plot(max_detectors=36).bars_) == 36
    with pytest.raises(ValueError, match="max_detectors must be a whole number from 1, got 0"):
        WeightsDisplay(weights).plot(max_detectors=0)


@pytest.mark.parametrize(
    ("proof", "words"),
    [
        (certificate(), "proven: within 2e-09 of the least loss (relative)"),
        (certificate(relative_gap=0.0), "proven: no other weights have a lower loss"),
        (
            certificate("stopped", 0.184),
            "not optimal: up to 0.18 above the least loss (relative)",
        ),
        (
            certificate("max_iter", 0.5),
            "not optimal: up to 0.5 above the least loss (relative)",
        ),
    ],
)
def test_the_certificate_is_put_into_words(proof, words):
    display = WeightsDisplay(WEIGHTS, certificate=proof).plot()
    assert display.ax_.texts[-1].get_text() == words


def test_the_certificate_stands_between_title_and_axes():
    display = WeightsDisplay(WEIGHTS, certificate=certificate()).plot()
    display.figure_.canvas.draw()
    words = display.ax_.texts[-1].get_window_extent()
    assert display.ax_.bbox.y1 <= words.y0
    assert words.y1 <= display.ax_._left_title.get_window_extent().y0


def test_from_a_fusion_with_named_columns():
    S = np.random.default_rng(0).normal([0.2, 1.0], 0.5, size=(50, 2))
    fusion = LpFusion(p=2).fit(pd.DataFrame(S, columns=["forest", "svm"]))
    display = WeightsDisplay.from_estimator(fusion)
    assert widths(display) == sorted(fusion.weights_)[::-1]
    assert y_labels(display) == ["svm", "forest"]
    assert display.certificate is fusion.certificate_


def test_from_a_rule_there_is_no_certificate():
    display = WeightsDisplay.from_estimator(FixedRule().fit(np.eye(3)))
    assert widths(display) == [1.0, 1.0, 1.0]
    assert y_labels(display) == ["detector 0", "detector 1", "detector 2"]
    assert len(display.ax_.texts) == 3  # the numbers


def test_a_fused_detector_gives_the_detector_names():
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), columns=["height", "weight"])
    pool = [("one", GaussianMixture(1)), ("two", GaussianMixture(2, reg_covar=0.1))]
    fused = FusedDetector(pool, random_state=0).fit(X)
    display = WeightsDisplay.from_estimator(fused)
    assert sorted(y_labels(display)) == ["one", "two"]
    assert widths(display) == sorted(fused.weights_, key=abs)[::-1]


def test_names_of_other_columns_are_not_detector_names():
    estimator = SimpleNamespace(weights_=np.ones(2), feature_names_in_=["a", "b", "c"])
    assert y_labels(WeightsDisplay.from_estimator(estimator)) == ["detector 0", "detector 1"]


def test_a_fit_that_stopped_early_is_not_called_proven():
    S = np.array([[0.0, 2.0], [0.5, 0.0]])
    with pytest.warns(ConvergenceWarning):
        fusion = LpFusion(p=2, solver="frank-wolfe").fit(S)
    assert WeightsDisplay.from_estimator(fusion).ax_.texts[-1].get_text().startswith("not optimal")


def test_axes_of_the_user_need_no_new_figure():
    before = plt.get_fignums()
    figure, parameters = Figure(), {"max_detectors": 2, "color": "red", "ec": "blue"}
    ax = figure.subplots()
    display = WeightsDisplay.from_estimator(FixedRule().fit(np.eye(3)), ax=ax, **parameters)
    assert display.ax_ is ax
    assert display.figure_ is figure
    assert plt.get_fignums() == before
    assert [same_color(bar.get_facecolor(), "red") for bar in display.bars_] == [True, True]
    assert same_color(display.bars_[0].get_edgecolor(), "blue")


def test_a_new_figure_is_pyplots_and_stays_open():
    display = WeightsDisplay(WEIGHTS).plot()
    assert plt.gcf() is display.figure_


@pytest.mark.parametrize("count", [1, 3, 7, 36])
def test_names_fit_and_do_not_meet(count, drawn_texts, awkward_names):
    weights = np.linspace(1, -0.5, count)
    display = WeightsDisplay(weights, awkward_names(count), certificate()).plot()
    drawn_texts(display)
    heights = [label.get_window_extent() for label in display.ax_.get_yticklabels()]
    assert all(above.y0 >= below.y1 for above, below in pairwise(heights))
    inside = display.ax_.bbox
    for number in display.ax_.texts[: len(display.bars_)]:
        extent = number.get_window_extent()
        assert inside.x0 <= extent.x0 < extent.x1 <= inside.x1


def test_constructing_only_stores():
    weights, names, proof = object(), object(), object()
    display = WeightsDisplay(weights, names, proof)
    assert vars(display) == {"weights": weights, "names": names, "certificate": proof}


@cases(
    ("weights", "names", "words"),
    [
        (
            [[1.0]],
            None,
            r"weights must have 1 dimension and at least one entry, got shape \(1, 1\)",
        ),
        ([], None, r"got shape \(0,\)"),
        ([1.0, np.nan], None, "weights must be finite"),
        ([1.0, 2.0], ["a"], "names must name each detector: expected 2, got 1"),
    ],
)
def test_what_cannot_be_drawn_is_refused(weights, names, words):
    before = plt.get_fignums()
    with pytest.raises(ValueError, match=words):
        WeightsDisplay(weights, names).plot()
    assert plt.get_fignums() == before


def test_estimators_without_weights_are_refused():
    with pytest.raises(NotFittedError):
        WeightsDisplay.from_estimator(LpFusion())
    with pytest.raises(NotFittedError):
        WeightsDisplay.from_estimator(FusedDetector())
    with pytest.raises(TypeError, match="LogisticRegression has no weights_"):
        WeightsDisplay.from_estimator(LogisticRegression().fit([[0.0], [1.0]], [0, 1]))
    pipeline = make_pipeline(TwoSidedMinMax(), FixedRule()).fit(np.eye(3))
    with pytest.raises(TypeError, match="of a Pipeline, its last step"):
        WeightsDisplay.from_estimator(pipeline)
    WeightsDisplay.from_estimator(pipeline[-1])
