"""The first table of the README is what the stored rows of the tables say."""

from pathlib import Path

import numpy as np
import pytest

from helpers.cases import cases
from research.common.statistics import bootstrapped
from research.studies.tables.comparison import TableFigures, read_tables
from research.tests.small import tables_in

ROOT = Path(__file__).parents[3]
ROWS = ROOT / "research" / "results" / "studies" / "tables"
OURS = "lpfuse"
METHODS = {
    "**`FusedDetector()`**": OURS,
    "sum of the same pool": "lpfuse, sum",
    "the member picked by the same labels, experts included": "lpfuse, picked",
    "stacker on the same scores": "lpfuse, stacked",
    "its trees alone": "lpfuse, trees alone",
    "its boosted trees alone": "lpfuse, boosting alone",
    "CatBoost, 300 trees": "CatBoost",
    "XGBOD": "XGBOD",
    "PyOD, average of eight detectors": "PyOD, average of eight",
    "kNN-5": "kNN-5",
}


@pytest.fixture(scope="module")
def figures():
    return TableFigures(read_tables(sorted(ROWS.glob("*.jsonl"))))


@pytest.fixture(scope="module")
def table():
    tables = tables_in((ROOT / "README.md").read_text())
    (found,) = (each for each in tables if "sum of the same pool" in each)
    return found


def test_every_row_has_a_source(table):
    assert list(table) == list(METHODS)


@cases("row", METHODS)
def test_means_and_intervals_are_those_of_the_stored_rows(figures, table, row):
    for labels, cell in table[row]:
        place = ("confirm", "seen", int(labels))
        ours, theirs = (figures.of(place, name) for name in (OURS, METHODS[row]))
        assert len(ours) == 51
        if cell == "–":
            continue
        mean, _, interval = cell.replace("*", "").replace("−", "-").partition(" ")
        assert mean == f"{np.mean([theirs[name] for name in ours]):.1f}", labels
        if row == next(iter(METHODS)):
            continue
        gains = bootstrapped(np.array([theirs[name] - ours[name] for name in ours]))
        low, high = (f"{-end:.1f}" for end in (gains.high, gains.low))
        assert interval == f"({low} to {high})", labels
