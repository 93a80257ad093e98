import sys
from importlib import import_module

import numpy as np
import pytest

import lpfuse.plots
from lpfuse import LpFusion
from lpfuse._format import NAME_WIDTH, shortened
from lpfuse.plots import ContributionsDisplay, PathDisplay, WeightsDisplay
from lpfuse.plots.drawing import labels_of

DRAW = {
    "weights": lambda names: WeightsDisplay([1.0, -0.5], names).plot(),
    "path": lambda names: PathDisplay([1, 2], np.eye(2), names).plot(),
    "legend": lambda names: PathDisplay([1, 2], np.eye(2, 12), names * 6).plot(),
    "contributions": lambda names: ContributionsDisplay([[1.0, np.nan]], names).plot(),
}


@pytest.mark.parametrize("draw", DRAW.values(), ids=DRAW.keys())
@pytest.mark.parametrize("usetex", [False, True])
def test_a_name_is_never_a_formula(draw, usetex, drawn_texts):
    import matplotlib.pyplot as plt

    names = ["$x_1$", r"$\frac{$ & 50% #_^{}"]
    if usetex:  # our texts stay plain; the numbers at the axes are left to TeX, and not drawn here
        with plt.rc_context({"text.usetex": True}):
            display = draw(names)
        texts = [*display.ax_.texts, *display.ax_.get_yticklabels()]
    else:
        texts = drawn_texts(draw(names))
    named = [text for text in texts if any(name in text.get_text() for name in names)]
    assert named or usetex
    assert not any(text.get_parse_math() or text.get_usetex() for text in named)


def test_without_matplotlib_the_error_names_the_extra(monkeypatch):
    fusion = LpFusion().fit([[1.0, 0.5], [0.5, 1.0]])
    displays = [
        WeightsDisplay([1.0]),
        PathDisplay([1.0], [[1.0]]),
        ContributionsDisplay([[1.0]]),
    ]
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    attempts = [
        *(display.plot for display in displays),
        lambda: WeightsDisplay.from_estimator(fusion),
        lambda: ContributionsDisplay.from_estimator(fusion, "nor scored"),
    ]
    for attempt in attempts:
        with pytest.raises(ImportError, match=r'Display needs matplotlib.*"lpfuse\[plots\]"'):
            attempt()


def test_importing_the_displays_does_not_import_matplotlib(monkeypatch):
    monkeypatch.setattr(lpfuse, "plots", lpfuse.plots)  # what an import changes is put back
    for name in [name for name in sys.modules if name.startswith("lpfuse.plots")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert import_module("lpfuse.plots").WeightsDisplay is not WeightsDisplay


def test_short_names_stay_and_long_ones_lose_their_middle():
    assert shortened("kernel PCA") == "kernel PCA"
    assert shortened("two\nlines,\ttabs") == "two lines, tabs"
    assert shortened("x" * NAME_WIDTH) == "x" * NAME_WIDTH
    cut = shortened("first" + "x" * 100 + "last")
    assert len(cut) == NAME_WIDTH
    assert cut.startswith("first")
    assert cut.endswith("last")
    assert shortened("検知器" * 20).count("…") == 1
    assert len(shortened("検知器" * 20)) == NAME_WIDTH // 2  # such letters are twice as wide


def test_long_names_that_differ_in_the_middle_stay_apart():
    names = ["x" * 30 + middle + "y" * 30 for middle in "ab"]
    assert labels_of([*names, "z"], 3) == [f"{j}: {shortened(names[j])}" for j in (0, 1)] + ["z"]
    assert labels_of(["same", "same"], 2) == ["same", "same"]
    assert labels_of([3, None], 2) == ["3", "None"]
    assert labels_of(None, 2) == ["detector 0", "detector 1"]
