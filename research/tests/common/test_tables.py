"""The words and tables that pages are made of."""

import sys

import pytest

from research.common import drawing
from research.common.drawing import figure_line, new_figure
from research.common.statistics import Comparison, Interval, compare
from research.common.store import write_whole
from research.common.tables import gain, markdown, page, prose
from research.tests.small import tables_in


def test_a_table_has_a_head_a_rule_and_rows():
    text = markdown([["", "AUC", "rank"], ["sum", "88.6", "1.0"], ["max", "", "2.0"]])
    assert text.splitlines() == [
        "|  | AUC | rank |",
        "|---|--:|--:|",
        "| sum | 88.6 | 1.0 |",
        "| max |  | 2.0 |",
    ]


def test_tables_can_be_read_back():
    text = markdown([["", "AUC", "rank"], ["sum", "88.6", "1.0"]])
    assert tables_in(page("# Title", text, "End.")) == [{"sum": [("AUC", "88.6"), ("rank", "1.0")]}]


def test_prose_breaks_its_lines_anew_and_keeps_its_words():
    text = """Several    words,
        a very-long-name-that-must-not-be-broken """
    many = " ".join([text] * 9)
    assert prose(text) == "Several words, a very-long-name-that-must-not-be-broken"
    assert prose(many).split() == many.split()
    assert max(map(len, prose(many).splitlines())) <= 118
    assert len(prose(many).splitlines()) > 2
    assert prose("in-sample " * 40).split() == ["in-sample"] * 40


def test_parts_of_a_page_stand_apart():
    assert page("# Title\n", "\nOne.", "Two.") == "# Title\n\nOne.\n\nTwo.\n"


def test_a_gain_tells_difference_interval_score_and_p_value():
    found = Comparison(Interval(-1.25, -2.04, 0.44), wins=3, ties=1, losses=6, p_value=0.0123)
    assert gain(found) == "-1.2 [-2.0, +0.4], 3:1:6, p = 0.012"
    assert gain(found, 0.5).endswith(", p = 0.5")
    assert gain(found, 0.0).endswith(", p = 0"), "zero is a p-value too"


def test_a_gain_is_ours_minus_theirs():
    assert gain(compare([90, 80, 70], [80, 70, 60])).startswith("+10.0 [+10.0, +10.0], 3:0:0")


# -------------------------------------------------------------------------------------------- files


def test_a_page_is_written_whole(tmp_path):
    path = tmp_path / "some" / "where" / "page.md"
    for text in ("ℓp: 89.98 ± 0.1\n", "shorter\n"):
        write_whole(path, text)
        assert path.read_text(encoding="utf-8") == text
    assert [file.name for file in path.parent.iterdir()] == ["page.md"]


def test_others_may_read_it(tmp_path):
    (tmp_path / "plain").touch()
    write_whole(tmp_path / "page.md", "text")
    assert (tmp_path / "page.md").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_page_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    path = tmp_path / "page.md"
    write_whole(path, "old")

    def full(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["page.md"]


# ------------------------------------------------------------------------------------------ figures


def test_a_figure_is_drawn_and_shown(tmp_path):
    path = tmp_path / "new" / "curve.png"
    line = figure_line(path, lambda path: path.write_text("drawn"), "It rises")
    assert line == "![It rises](curve.png)"
    assert path.read_text() == "drawn"


def test_without_matplotlib_the_page_says_so(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    line = figure_line(tmp_path / "curve.png", lambda path: path.touch(), "It rises")
    assert 'pip install "lpfuse[plots]"' in line
    assert not list(tmp_path.iterdir())
    with pytest.raises(ImportError, match=r"lpfuse\[plots\]"):
        new_figure(3, 2)


def test_a_drawing_error_is_not_a_missing_matplotlib(tmp_path):
    def draw(path):
        raise ImportError("something else")

    with pytest.raises(ImportError, match="something else"):
        figure_line(tmp_path / "curve.png", draw, "It rises")


def test_figures_need_no_display(tmp_path, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    figure = new_figure(3, 2)
    assert tuple(figure.get_size_inches()) == (3, 2)
    figure.subplots().plot([1, 2])
    figure.savefig(tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_importing_the_module_loads_no_matplotlib():
    assert not hasattr(drawing, "matplotlib")
