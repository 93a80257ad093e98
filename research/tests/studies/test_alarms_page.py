"""The page of false alarms: by hand on a few rows, and the stored page against its rows."""

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import beta

from research.studies.alarms.cells import bound, cells_of, too_small
from research.studies.alarms.figure import draw
from research.studies.alarms.goals import goals_of
from research.studies.alarms.measures import POINTS
from research.studies.alarms.page import alarms_page
from research.studies.alarms.study import read_alarms

ROOT = Path(__file__).parents[3]
STORED = sorted((ROOT / "research/results/studies/alarms").glob("*.jsonl"))
UNIFORM = [100 * point for point in POINTS]


def rows(alarms, *, family="t2", n=200, labels=0, version="now", **more):
    """A row for each per cent of alarms at 5 %; all else as it should be."""
    about = {"kind": "alarms", "version": version, "calibration": None, "family": family, "n": n}
    came_out = {
        "calibration_rows": n, "fresh": 2000, "predicted": 5.0, "excess": 0.01, "silent": 0.0,
        "distribution": UNIFORM, "false_discoveries": [8.0, 9.0], "found": 90.0, "hits": 70.0,
        "auc": 90.0, "hits_at_same": 70.0, "seconds": 0.5, "scoring_seconds": 0.1,
    }  # fmt: skip
    return [
        {**about, **came_out, "labels": labels, "rep": rep, "alarms": [1.0, at_5, 10.0], **more}
        for rep, at_5 in enumerate(alarms)
    ]


def table(told, title):
    """The first table below a title."""
    return told.partition(title)[2].partition("\n\n|")[2].partition("\n\n")[0]


def goals(stored):
    return {goal.name: goal for goal in goals_of(cells_of(stored, "now"), stored)}


def test_the_bound_combines_both_sampling_laws():
    found = bound(0.05, 199, 10**6)
    np.testing.assert_allclose(found, 100 * beta(10, 190).ppf([0.05, 0.95]), atol=0.01)
    noisy, dependent = bound(0.05, 199, 500), bound(0.05, 199, 10**6, copies=5)
    assert noisy[0] < found[0] < found[1] < noisy[1]
    assert dependent[0] < found[0] < found[1] < dependent[1]
    rng = np.random.default_rng(0)
    drawn = rng.binomial(500, rng.beta(10, 190, size=20_000)) / 5
    np.testing.assert_allclose(noisy, np.percentile(drawn, [5, 95]), atol=0.21)
    assert bound(0.01, 60, 500) == (0.0, 0.0)


def test_means_outside_the_margin_are_marked():
    told = alarms_page([
        *rows([5.0, 5.4]), *rows([7.0, 7.2], family="cats"), *rows([2.0, 2.2], family="poisson"),
        *rows([5.0, 7.5], family="clusters"), *rows([0.0, 0.0], n=10),
    ])  # fmt: skip
    at_5 = table(told, "### 5 % asked")
    assert "| t2 | (0.0 ± 0.0) | 5.2 ± 0.2 |" in at_5
    assert "| cats |  | 7.1 ± 0.1 ▲ |" in at_5
    assert "| poisson |  | 2.1 ± 0.1 ▽ |" in at_5
    assert "| clusters |  | 6.2 ± 1.2 ▲? |" in at_5
    assert "5.0–5.4 (2." in table(told, "## Spread")


def test_too_few_alarms_are_a_fault_of_continuous_rows_only():
    name = "mean false alarms, 5 % asked, in every cell that n allows"
    assert goals(rows([5.0, 5.4]))[name].met
    assert goals(rows([2.0, 2.2], family="poisson"))[name].met
    assert goals(rows([7.0, 7.2], family="poisson"))[name].met is False
    assert goals(rows([2.0, 2.2]))[name].met is False
    assert goals(rows([5.0, 7.5]))[name].met  # by less than two standard errors
    assert goals(rows([30.0, 31.0], family="groups-untold"))[name].met is None


def test_p_values_that_are_too_small_are_refuted():
    rng = np.random.default_rng(0)

    def drawn(lift, family):
        noise = rng.normal(0, 0.5, size=(40, len(POINTS)))
        return [
            row | {"distribution": list(np.array(UNIFORM) + lift + shift)}
            for row, shift in zip(rows([5.0] * 40, family=family), noise, strict=True)
        ]

    stored = [*drawn(0, "t2"), *drawn(2, "cats"), *drawn(-2, "binary")]
    assert {cell.family for cell in too_small(cells_of(stored, "now").values())} == {"cats"}
    goal = goals(stored)["p-values of fresh normal rows"]
    assert (goal.measured, goal.met) == ("refuted in 1 of 3 cells", False)


def test_the_share_of_repetitions_that_smirnov_refutes():
    # 200 and 2,000 rows: √(ln(20) / 2 · 2,200 / 400,000) = 0.0908.
    stored = [row | {"excess": e} for row, e in zip(rows([5.0] * 2), (0.09, 0.092), strict=True)]
    (figures,) = cells_of(stored, "now").values()
    assert figures.excess_share == 50


def test_false_discoveries_are_judged_by_the_worse_kind():
    name = "mean false discoveries at 10 %, either kind of anomalies"
    assert goals(rows([5.0] * 3))[name].met
    assert goals(rows([5.0] * 3, false_discoveries=[8.0, 12.0]))[name].met is False


def test_before_and_now_are_paired():
    now = rows([5.0, 6.0, 7.0], auc=91.0, hits_at_same=68.0)
    stored = [*rows([8.0, 9.0], version="before"), *now]
    told = alarms_page(stored)
    assert re.search(r"\| t2:200:0 \| 2 \| 8\.5 → 5\.5 \| \+1\.0 ± 0\.0 \| \+0\.0", told)
    assert goals(stored)["AUC, against before"].met
    lost = goals(stored)["hits at the same false alarms, against before"]
    assert (lost.measured, lost.met) == ("-2.00 ± 0.00 over 2 repetitions", False)
    assert "Before and now" not in alarms_page(now)


def test_a_page_shows_no_figure_of_a_few_tables():
    assert "| tables | 77.7" not in alarms_page(rows([77.7] * 19, family="tables"))
    assert "| tables | 77.7" in alarms_page(rows([77.7] * 20, family="tables"))


def test_nothing_measured_yet():
    assert "no fit yet" in alarms_page([])


def test_the_figure_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    draw([*rows([5.0, 40.0, 41.0]), *rows([5.0] * 20, family="tables", n=1500)], tmp_path / "x.png")
    assert (tmp_path / "x.png").stat().st_size > 1000


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_stored_rows_name_no_table(path):
    of_tables = [row for row in read_alarms([path]) if row["family"] == "tables"]
    assert all(re.fullmatch("[0-9a-f]{8}", row["table"]) for row in of_tables)
    assert not re.search(r"(odd|ovr)-", path.read_text())


@pytest.mark.skipif(not STORED, reason="nothing is stored yet")
def test_the_page_is_what_the_rows_say():
    page = ROOT / "docs/benchmarks/false-alarms.md"
    assert page.read_text() == alarms_page(read_alarms(STORED))
