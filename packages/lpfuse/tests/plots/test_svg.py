import re
from xml.etree import ElementTree

import numpy as np
import pytest

from lpfuse.plots import ContributionsDisplay, PathDisplay, WeightsDisplay
from lpfuse.plots.drawing import detached_axes, svg

TABLE = np.random.default_rng(0).normal(size=(5, 9))
DRAW = {
    "weights": lambda ax: WeightsDisplay(TABLE[0]).plot(ax),
    "path": lambda ax: PathDisplay([1, 2, 4], TABLE[:3], chosen_p=2).plot(ax),
    "contributions": lambda ax: ContributionsDisplay(TABLE, offset=0.1).plot(ax),
}
every_display = pytest.mark.parametrize("name", DRAW)


def drawn(name):
    ax = detached_axes(6, 4)
    DRAW[name](ax)
    return svg(ax.figure, name=name, label=f"The {name}.")


@every_display
def test_the_same_figure_is_the_same_text(name):
    assert drawn(name) == drawn(name)


@every_display
def test_a_policy_against_inline_styles_has_nothing_to_refuse(name):
    text = drawn(name)
    assert "style" not in text
    assert "http" not in text  # no name space, no document type: HTML needs neither


@every_display
def test_a_display_takes_little_of_a_page(name):
    assert len(drawn(name)) < 30_000


def test_ids_of_two_figures_on_a_page_are_different():
    ids = {name: set(re.findall(r'id="([^"]+)"', drawn(name))) for name in DRAW}
    for name, own in ids.items():
        assert all(one == name or one.startswith(f"{name}-") for one in own)
    assert sum(map(len, ids.values())) == len(set.union(*ids.values()))


@every_display
def test_what_is_referred_to_is_there(name):
    text = drawn(name)
    referred = set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', text))
    assert referred
    assert {a or b for a, b in referred} <= set(re.findall(r'id="([^"]+)"', text))


def test_a_group_id_stays_under_the_name_of_the_figure():
    ax = detached_axes(3, 2)
    (line,) = ax.plot([0, 1], [0, 1])
    line.set_gid("fusion")
    element = ElementTree.fromstring(svg(ax.figure, name="roc", label=""))
    assert element.find(".//*[@id='roc-fusion']/path") is not None


def test_names_are_texts_and_labels_are_attributes():
    ax = detached_axes(4, 2)
    hostile = '<script>alert("1 & 2")</script>'
    WeightsDisplay([1.0], [hostile[:30]]).plot(ax)
    text = svg(ax.figure, name="weights", label=hostile)
    element = ElementTree.fromstring(text)
    assert "<script" not in text
    assert element.get("aria-label") == hostile
    assert hostile[:30] in [each.text for each in element.iter("text")]


def test_colours_are_the_pages_where_it_has_them():
    ax = detached_axes(3, 2)
    ax.plot([0, 1], [0, 1], color="#123456")
    ax.plot([0, 1], [1, 0], color="#ABCDEF")
    text = svg(ax.figure, name="x", label="", colours={"#abcdef": "--mine"})
    assert 'stroke="var(--mine, #abcdef)"' in text
    assert 'stroke="#123456"' in text


def test_the_figure_stays_as_it_was():
    ax = detached_axes(6, 4)
    display = WeightsDisplay(TABLE[0]).plot(ax)
    hatches = [bar.get_hatch() or "" for bar in display.bars_]
    svg(ax.figure, name="weights", label="")
    assert [bar.get_hatch() or "" for bar in display.bars_] == hatches
    assert any(hatches)
