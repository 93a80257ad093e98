"""The leaderboard: one protocol, a line a method, pages from stored rows alone."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from research.leaderboard.__main__ import PAGE, held_out_rows, public_rows
from research.leaderboard.methods import METHODS, method_named
from research.leaderboard.page import board, leaderboard_page
from research.leaderboard.protocol import SEEDS, TRACKS, measure

QUICK = ["kNN-5", "kernel density", "logistic regression"]


class Falling:
    """A detector of somebody else: the first column, low = normal."""

    def __init__(self, random_state=None):
        self.random_state = random_state

    def fit(self, X, y=None):
        return self

    def score_samples(self, X):
        return -np.abs(X[:, 0])


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    for k in range(6):
        X = rng.normal(size=(260, 3))
        X[200:, 0] += 3.0
        np.savez(tmp_path / f"made-{k}.npz", X=X, y=np.arange(260) >= 200)
    return tmp_path


def test_every_method_has_its_track_and_there_are_twelve_rivals_of_each_kind():
    tracks = {k: [name for name, each in METHODS.items() if each.answers(k)] for k in TRACKS}
    assert len(METHODS) - 1 >= 12
    assert len(tracks[0]) - 1 >= 12
    assert "lpfuse" in tracks[0]
    assert "lpfuse" in tracks[20]


def test_what_is_missing_is_measured_once_and_ranked(folder, capsys):
    out = folder / "rows.jsonl"
    mine = f"mine={__name__}:Falling"
    measure(folder, [*QUICK, mine], out)
    first = out.read_text()
    measure(folder, [*QUICK, mine], out)
    assert out.read_text() == first
    rows = public_rows(folder)
    assert Counter(row["method"] for row in rows) == {
        "kNN-5": 18, "kernel density": 18, "logistic regression": 18, "mine": 36,
    }  # fmt: skip
    assert {row["seed"] for row in rows} == set(SEEDS)
    table = board(rows, 0)[0]
    assert table.index("| mine |") < table.index("| kNN-5 |")  # the one column that tells
    page = leaderboard_page(rows, [])
    assert "6 tables on which all were measured, 3 splits each" in page
    # A method that was not measured on every table takes the others with it, and is told of.
    few = [row for row in rows if row["method"] != "mine" or row["table"] == "made-0"]
    assert board(few, 0) == []


def test_a_method_that_fails_is_told_and_the_others_go_on(folder, capsys):
    out = folder / "rows.jsonl"
    measure(folder, ["kNN-5", "bad=research.tests.test_leaderboard:fails"], out)
    assert "bad failed on made-0: ValueError: no" in capsys.readouterr().err
    assert {row["method"] for row in public_rows(folder)} == {"kNN-5"}


def fails(random_state):
    raise ValueError("no")


def test_scores_are_of_rows_that_no_method_has_seen(folder):
    """A method that recognises its training rows gains nothing by it."""
    out = folder / "rows.jsonl"
    measure(folder, [f"memory={__name__}:Memory", "kNN-5", "kernel density"], out)
    rows = [row for row in public_rows(folder) if row["method"] == "memory"]
    assert all(row["auc"] == 50 for row in rows)


class Memory(Falling):
    def fit(self, X, y=None):
        self.rows_ = {row.tobytes() for row in X}
        return self

    def score_samples(self, X):
        return np.array([float(row.tobytes() in self.rows_) for row in X])


def test_the_page_is_that_of_the_stored_rows():
    root = Path(__file__).parents[2]
    page = (root / PAGE).read_text(encoding="utf-8")
    assert page == leaderboard_page(public_rows(), held_out_rows())
    shown = {row["method"] for row in [*public_rows(), *held_out_rows()]}
    assert "lpfuse" in shown
    assert all(f"| {name} |" in page for name in shown)


def test_an_unknown_method_is_refused():
    with pytest.raises(ValueError, match="There is no method 'nothing'"):
        method_named("nothing")
