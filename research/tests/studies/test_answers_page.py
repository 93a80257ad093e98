"""Answers compared: by hand on a few rows, and the stored page against its rows."""

import re
from pathlib import Path

import pytest

from research.studies.answers.goals import goals_of
from research.studies.answers.page import FEWEST, answers_page, labelled
from research.studies.answers.study import read_answers
from research.studies.figures import SetFigures

ROOT = Path(__file__).parents[3]
STORED = sorted((ROOT / "research/results/studies/answers").glob("*.jsonl"))


def rows(method, values, *, kind="dirty", mode=None, collection="anomaly", at=0.0, **more):
    about = {"kind": kind, "mode": mode or kind, "collection": collection, "at": at, "seed": 0}
    return [
        {**about, "method": method, "set": f"{s:08x}", "auc": value, "seconds": 0.5, **more}
        for s, value in enumerate(values)
    ]


def answers(method, values, at, mode="own", **more):
    return rows(method, values, kind="answers", mode=mode, at=at, **more)


DIRTY = [
    *rows("lpfuse", [90.0, 80.0], false_alarms=5.0, hits=70.0),
    *rows("lpfuse", [89.0, 80.0], at=0.01),
    *rows("lpfuse", [88.0, 74.0], at=0.05, false_alarms=4.0, hits=60.0),
    *rows("isolation forest", [70.0, 71.0], at=0.05),
]
ANSWERED = [
    *answers("lpfuse", [80.0, 70.0], 0, found=0),
    *answers("lpfuse", [84.0, 68.0], 10, found=6),
    *answers("lpfuse", [90.0, 88.0], 40, found=20),
    *answers("lpfuse", [80.0, 70.0], 0, "lowest", found=0),
    *answers("lpfuse", [90.0, 80.0], 40, "lowest", found=15),
]


def test_the_page_tells_means_losses_and_flagged_rows():
    told = answers_page(DIRTY)
    assert "| lpfuse | 85.0 | 84.5 | 81.0 |  |" in told
    assert re.search(r"\| lpfuse \| -0\.5 .*worst -1\.0 \| -4\.0 .*worst -6\.0 \|", told)
    assert "Sets: 2 at 0 %, 2 at 1 %, 2 at 5 %, 0 at 10 %." in told
    assert "| lpfuse | 5.0 / 70.0 |  | 4.0 / 60.0 |  |" in told
    assert re.search(r"\| isolation forest \|  \|  \| -10\.5 \[-18\.0, -3\.0\] \|", told)


def test_the_page_tells_what_answers_give():
    told = answers_page(ANSWERED)
    assert "| lpfuse; own questions | 75.0 |  | 76.0 |  | 89.0 |" in told
    assert "| lpfuse; own questions |  | 6.0 |  | 20.0 |" in told
    assert re.search(r"\| lpfuse; own questions \|  \| \+1\.0 .*worst -2\.0 \|", told)
    assert "| lpfuse; own questions |  | 50 % |  | 0 % |" in told
    assert "Method − lpfuse; own questions, paired:" in told


def test_what_learns_nothing_gains_nothing_that_is_told():
    told = answers_page([
        *ANSWERED,
        *answers("isolation forest", [60.0, 61.0], 0, "lowest", found=0),
        *answers("isolation forest", [60.0, 61.0], 40, "lowest", found=9),
    ])  # fmt: skip
    gained = told.partition("Gained by answers")[2].partition("Method −")[0]
    assert "isolation forest" not in gained
    assert "| isolation forest; lowest scores |  |  |  | 9.0 |" in told


def test_goals_are_met_or_not():
    figures = SetFigures(labelled([*DIRTY, *ANSWERED]), ("collection", "kind", "at"))
    met = {goal.name: goal.met for goal in goals_of(figures, "anomaly", "lpfuse")}
    assert met["mean AUC on clean rows"]
    assert met["points lost to 1 % of hidden anomalies"]
    assert met["points lost to 5 % of hidden anomalies"] is False
    assert met["points lost to 10 % of hidden anomalies"] is None
    assert met["mean AUC after 10 answers"] is False
    assert met["mean AUC after 40 answers"]
    assert met["mean gain over zero answers, the smallest of any number and way to ask"]
    assert met["anomalies found by 40 questions, beside those by the lowest scores"]
    assert goals_of(figures, "tables", "lpfuse") == []
    assert goals_of(figures, "anomaly", "PineForest") == []


def test_answers_that_make_it_worse_break_the_goal():
    worse = [*ANSWERED, *answers("lpfuse", [80.0, 69.0], 5)]
    figures = SetFigures(labelled(worse), ("collection", "kind", "at"))
    (goal,) = (g for g in goals_of(figures, "anomaly", "lpfuse") if g.name.startswith("mean gain"))
    assert (goal.measured, goal.met) == ("-0.50", False)


def test_a_page_shows_no_figure_of_a_few_tables():
    few = rows("lpfuse", [77.7] * (FEWEST["tables"] - 1), collection="tables")
    assert "77.7" not in answers_page(few)
    assert "tables of many fields" not in answers_page(few)
    assert "| lpfuse | 77.7 |" in answers_page([*few, few[0] | {"set": "another"}])


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_stored_rows_name_no_table(path):
    of_tables = [row for row in read_answers([path]) if row["collection"] == "tables"]
    assert all(re.fullmatch("[0-9a-f]{8}", row["set"]) for row in of_tables)
    assert not re.search(r"(odd|ovr)-", path.read_text())


@pytest.mark.skipif(not STORED, reason="nothing is stored yet")
def test_the_page_is_what_the_rows_say():
    assert (ROOT / "docs/benchmarks/answers.md").read_text() == answers_page(read_answers(STORED))
