"""The table of the README is what the stored rows of the tables say, and so is its text."""

import re
from pathlib import Path

import numpy as np
import pytest

from research.common.statistics import bootstrapped
from research.studies.tables.comparison import TableFigures, read_tables
from research.studies.tables.page import README_ROWS, readme_table, with_readme_table
from research.studies.tables.splits import LABELS

ROOT = Path(__file__).parents[3]
ROWS = ROOT / "research" / "results" / "studies" / "tables"
README = (ROOT / "README.md").read_text()
OURS = "lpfuse"


@pytest.fixture(scope="module")
def figures():
    return TableFigures(read_tables(sorted(ROWS.glob("*.jsonl"))))


def gains(figures, labels, method):
    """Interval of FusedDetector() − method over tables, None where it was not measured."""
    place = ("confirm", "seen", labels)
    ours, theirs = figures.of(place, OURS), figures.of(place, method)
    if not {*ours} <= {*theirs}:
        return None
    return bootstrapped(np.array([ours[name] - theirs[name] for name in ours]))


def test_the_table_is_made_of_the_stored_rows(figures):
    assert readme_table(figures) in README
    assert with_readme_table(README, figures) == README


def test_a_changed_figure_is_found(figures):
    first = re.search(r"\*\*(\d\d\.\d)\*\*", README)[1]
    assert with_readme_table(README.replace(first, "99.9"), figures) == README


def test_the_text_says_on_how_many_tables(figures):
    (told,) = re.findall(r"on (\d+) of the", README)
    assert min(len(figures.of(("confirm", "seen", k), OURS)) for k in LABELS) == int(told)


def test_only_what_the_text_names_is_not_beaten(figures):
    """Every other difference of the table is beyond chance."""
    found = [
        (method, labels, interval)
        for method in README_ROWS.values()
        for labels in LABELS
        if method != OURS and (interval := gains(figures, labels, method)) is not None
    ]
    level = [(method, labels) for method, labels, interval in found if interval.low <= 0]
    assert level == [("lpfuse, stacked", 100)]
    assert "100 labels it is level with the stacker" in README
    least = min(interval.low for method, labels, interval in found if (method, labels) not in level)
    assert least > 0


def test_the_gain_of_the_weights_without_labels(figures):
    interval = gains(figures, 0, "lpfuse, sum")
    place = ("confirm", "seen", 0)
    gain = figures.mean(place, OURS) - figures.mean(place, "lpfuse, sum")
    assert f"{gain:.1f} points, 95 % interval {interval.low:.1f} to {interval.high:.1f}" in README
