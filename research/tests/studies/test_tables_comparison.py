"""Tables compared: by hand on a few rows, and the stored page against its rows."""

import re
from pathlib import Path

import numpy as np

from helpers.cases import cases
from research.common.statistics import bootstrapped
from research.studies.running import listed
from research.studies.tables.comparison import TableFigures, read_tables
from research.studies.tables.page import FEWEST, tables_page

ROOT = Path(__file__).parents[3]
STORED = sorted((ROOT / "research/results/studies/tables").glob("*.jsonl"))
PLACE = ("confirm", "seen", 5)


def rows(method, values, *, half="confirm", mode="seen", labels=5, family="odd"):
    about = {"half": half, "mode": mode, "labels": labels, "method": method, "family": family}
    return [
        {**about, "table": f"{t:08x}", "seed": 0, "auc": value, "seconds": 0.5}
        for t, value in enumerate(values)
        if value is not None
    ]


FIGURES = TableFigures(
    [
        *rows("ours", [80.0, 90.0, 70.0, 60.0]),
        *rows("theirs", [82.0, 80.0, None, 66.0]),
        *rows("others", [86.0, 70.0, 90.0, 60.0]),
    ]
)


def test_pairs_are_tables_that_both_were_measured_on():
    np.testing.assert_allclose(FIGURES.gains(PLACE, "ours", "theirs"), [-2, 10, -6])
    assert FIGURES.mean(PLACE, "ours") == 75
    assert FIGURES.mean(("choose", "seen", 5), "ours") is None


def test_losses_are_to_the_best_control():
    np.testing.assert_allclose(FIGURES.losses(PLACE, "ours", ["theirs", "others"]), [6, 0, 20, 6])
    np.testing.assert_allclose(FIGURES.losses(PLACE, "ours", ["others", "ours"]), [6, 0, 20, 0])
    assert len(FIGURES.losses(PLACE, "ours", ["nobody"])) == 0


def test_hindsight_takes_methods_that_were_measured_everywhere():
    assert FIGURES.hindsight(PLACE, ["ours", "theirs", "others"]) == (86 + 90 + 90 + 60) / 4
    assert FIGURES.hindsight(PLACE, ["ours", "theirs"]) is None


def test_seeds_of_a_table_are_averaged_first():
    twice = [*rows("ours", [80.0, 90.0]), *rows("ours", [70.0])]
    assert TableFigures(twice).mean(PLACE, "ours") == (75 + 90) / 2


def test_families_can_be_told_apart():
    both = [*rows("ours", [80.0]), *rows("ours", [None, 60.0], family="ovr")]
    assert TableFigures(both, ["ovr"]).mean(PLACE, "ours") == 60


def test_the_bootstrap_covers_and_is_seeded():
    gains = np.random.default_rng(1).normal(0.5, 2.0, 400)
    found = bootstrapped(gains)
    error = gains.std() / 20
    assert found == bootstrapped(gains)
    np.testing.assert_allclose(
        [found.low, found.high], found.mean + 1.96 * error * np.array([-1, 1]), atol=0.1 * error
    )


def test_a_page_shows_no_figure_of_a_few_tables():
    many = [*rows("lpfuse", [80.0] * FEWEST), *rows("CatBoost", [77.7] * (FEWEST - 1))]
    told = tables_page(many)
    assert "| lpfuse | 80.0 |" in told
    assert "77.7" not in told
    assert "-2.3" not in told


def test_a_page_tells_gains_and_losses():
    rivals = rows("CatBoost", [70.0, 86.0] * FEWEST)
    controls = rows("lpfuse, sum", [80.0] * 2 * FEWEST) + rows(
        "lpfuse, picked", [70.0, 86.0] * FEWEST
    )
    told = tables_page([*rows("lpfuse", [80.0] * 2 * FEWEST), *controls, *rivals])
    assert re.search(r"\| CatBoost \| -2\.0 \[-4\.\d, \+0\.\d\] \|", told)
    assert "| lpfuse | 50.0 %, 3.00 |" in told
    assert "| *the best of them in hindsight* | 83.0 |" in told


def test_a_page_has_no_empty_rows_and_today_first():
    every, few = [80.0] * FEWEST, [80.0]
    elsewhere = rows("lpfuse before", few) + rows("lpfuse before", few, half="choose")
    others = [*rows("lpfuse, wide", every), *rows("lpfuse, wide, sum", every), *elsewhere]
    today = [*rows("lpfuse", every), *rows("lpfuse, sum", every)]
    told = tables_page([*others, *today, *rows("CatBoost", every)])
    names = re.findall(r"^\| (\S.*?) \| 80\.0 \|$", told, re.M)
    hindsight = "*the best of them in hindsight*"
    assert names == [
        *("lpfuse", "lpfuse, sum", "CatBoost", "lpfuse, wide", "lpfuse, wide, sum", hindsight)
    ]
    assert "The half that chooses" not in told


def test_names_with_commas_are_told_apart_by_semicolons():
    assert listed("a, b") == ["a", "b"]
    assert listed("lpfuse, sum;") == ["lpfuse, sum"]
    assert listed("lpfuse, sum; b") == ["lpfuse, sum", "b"]


@cases("path", STORED)
def test_stored_rows_name_no_table(path):
    assert all(re.fullmatch("[0-9a-f]{8}", row["table"]) for row in read_tables([path]))
    assert not re.search(r"(odd|ovr)-", path.read_text())


def test_the_page_is_what_the_rows_say():
    assert (ROOT / "docs/benchmarks/tables.md").read_text() == tables_page(read_tables(STORED))
