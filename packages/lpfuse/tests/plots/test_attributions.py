import matplotlib.pyplot as plt
import numpy as np
import pytest

from lpfuse import FusedDetector, GMMDetector
from lpfuse.plots import AttributionsDisplay

VALUES, ERRORS = np.array([0.5, -3.0, -0.25, 1.0]), np.array([0.1, 0.2, 0.0, 0.3])
NAMES = ["bar", "flow", "heat", "$x_1$"]


def row_names(display):
    return [label.get_text() for label in display.ax_.get_yticklabels()]


def widths(display):
    return [bar.get_width() for bar in display.bars_]


def error_ends(display):
    (lines,) = display.ax_.collections
    return [(segment[0, 0], segment[-1, 0]) for segment in lines.get_segments()]


def test_the_largest_come_first_with_two_standard_errors():
    display = AttributionsDisplay(VALUES, NAMES, ERRORS, base_value=2.0).plot()
    assert row_names(display) == ["flow", "$x_1$", "bar", "heat"]
    assert widths(display) == [-3.0, 1.0, 0.5, -0.25]
    assert error_ends(display) == [
        pytest.approx(ends) for ends in [(-3.4, -2.6), (0.4, 1.6), (0.3, 0.7)]
    ]
    told = [text.get_text() for text in display.ax_.texts]
    assert told == ["from 2, the mean of normal rows, to 0.25"]
    display.figure_.canvas.draw()


def test_the_others_are_summed():
    display = AttributionsDisplay(VALUES, NAMES, ERRORS).plot(max_columns=2)
    assert row_names(display) == ["flow", "$x_1$", "2 others, summed"]
    assert widths(display)[-1] == 0.25
    assert list(display.ax_.texts) == []


def test_sides_differ_in_colour():
    bars = AttributionsDisplay(VALUES).plot().bars_
    colours = {bar.get_width() < 0: bar.get_facecolor() for bar in bars}
    assert colours[True] != colours[False]


def test_an_explanation_is_drawn_row_by_row():
    X = np.random.default_rng(0).normal(size=(60, 3))
    fused = FusedDetector([("gmm", GMMDetector())], random_state=0).fit(X)
    rows = np.array([[0.0, 5.0, 0.0], [0.0, 0.0, 6.0]])
    found = fused.explain(rows)
    _, ax = plt.subplots()
    display = AttributionsDisplay.from_explanation(found, 1, ax=ax)
    assert display.ax_ is ax
    assert row_names(display)[0] == "column 2"
    assert sorted(widths(display)) == sorted(found.values[1])
    again = AttributionsDisplay.from_estimator(fused, rows, 1)
    assert widths(again) == pytest.approx(widths(display))


@pytest.mark.parametrize(
    ("values", "errors", "words"),
    [
        ([1.0, np.nan], None, "values must be finite"),
        ([[1.0]], None, "1 dimension"),
        ([1.0, 2.0], [1.0], "one a column: 2, got 1"),
    ],
)
def test_what_cannot_be_drawn_is_refused(values, errors, words):
    with pytest.raises(ValueError, match=words):
        AttributionsDisplay(values, standard_errors=errors).plot()
