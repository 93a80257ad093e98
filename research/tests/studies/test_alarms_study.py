"""False alarms: rows are drawn as told, measured once, and in an order that covers all cells."""

import json
import time
from collections import Counter

import numpy as np
import pytest
from scipy.stats import kstest

from helpers.cases import cases
from lpfuse.threshold import conformal_pvalues
from research.studies.alarms.families import COPIES, FAMILIES, GROUP_SIZE
from research.studies.alarms.measures import excess, measured
from research.studies.alarms.sources import FRESH, SOUGHT, Cell, rows_of, tables_for
from research.studies.alarms.study import (
    LABELS,
    SIZES,
    Plan,
    Stopwatch,
    Task,
    all_cells,
    chosen,
    measure_alarms,
    read_alarms,
)
from research.studies.tables.splits import table_key


class Distance:
    """Calibrated by half of its normal rows, which nothing else learns from: exact by theory."""

    def __init__(self, random_state):
        self.random_state = random_state

    def fit(self, X, y=None, groups=None):
        normal = X if y is None else X[y > 0]
        learnt, held = np.array_split(normal, 2)
        self.centre_ = np.nan_to_num(np.nanmean(learnt, axis=0))
        self.calibration_ = np.sort(self.score_samples(held))
        return self

    def score_samples(self, X):
        return -np.nansum((X - self.centre_) ** 2, axis=1)

    def pvalues(self, X):
        return conformal_pvalues(self.calibration_, self.score_samples(X))

    def predict(self, X):
        return np.where(self.pvalues(X) <= 0.05, -1, 1)


# ------------------------------------------------------------------------------------------- rows


@cases("name", FAMILIES)
def test_training_rows_have_the_distribution_of_fresh_ones(name):
    rows = rows_of(Cell(name, 2000, 30), 0, 0)
    assert rows.X.shape == (2030, rows.fresh.shape[1])
    assert (len(rows.fresh), len(rows.sought), (rows.y < 0).sum()) == (FRESH, SOUGHT, 30)
    copies = int(np.ceil(FAMILIES[name].copies))
    for learnt, fresh in zip(rows.train.rows.T, rows.fresh.T, strict=True):
        ks = kstest(learnt[~np.isnan(learnt)], fresh[~np.isnan(fresh)]).statistic
        assert ks < 1.95 * np.sqrt((1 + copies) / 2000) + 0.01  # level 0.001, for fewer rows
    again = rows_of(Cell(name, 2000, 30), 0, 0)
    np.testing.assert_array_equal(rows.X, again.X)
    assert not np.array_equal(rows.X, rows_of(Cell(name, 2000, 30), 1, 0).X, equal_nan=True)


def test_rows_that_are_not_independent():
    repeated = rows_of(Cell("duplicates", 200, 0), 0, 0)
    counts = np.unique(repeated.X, axis=0, return_counts=True)[1]
    assert counts.max() <= COPIES[1]
    assert (counts >= COPIES[0]).sum() >= len(counts) - 1  # the last row may have been cut
    told, untold = (rows_of(Cell(f, 60, 30), 0, 0) for f in ("groups", "groups-untold"))
    assert untold.groups is None
    assert list(np.bincount(told.groups)) == [GROUP_SIZE] * 12 + [1] * 30
    between = told.train.rows.reshape(12, GROUP_SIZE, -1).mean(axis=1).var()
    assert between > 2 * told.train.rows.reshape(12, GROUP_SIZE, -1).var(axis=1).mean()


def test_gaps_are_in_a_few_rows_one_each():
    holes = np.isnan(rows_of(Cell("gaps", 1000, 0), 0, 0).fresh).sum(axis=1)
    assert holes.max() == 1
    assert 0.04 < holes.mean() < 0.1


@pytest.fixture
def folder(tmp_path, monkeypatch):
    from research.studies.alarms import sources

    (tmp_path / "tables").mkdir()
    for number, (name, normals) in enumerate({"odd-A": 600, "odd-B": 900, "ovr-c": 540}.items()):
        X = np.random.default_rng(number).normal(size=(normals + 80, 2))
        y = np.arange(len(X)) >= normals
        X[y] += 4
        np.savez(tmp_path / "tables" / f"{name}.npz", X=X.astype(np.float32), y=y.astype(int))
    monkeypatch.setenv("LPFUSE_DATA", str(tmp_path))
    sources._normal_rows.cache_clear()
    yield tmp_path
    sources._normal_rows.cache_clear()


def test_tables_need_enough_fresh_rows_and_keep_their_place(folder):
    assert set(tables_for(60, 100)) == {"odd-A", "odd-B"}
    assert tables_for(60, 1) == tables_for(60, 2)[:1]
    assert tables_for(200, 100) == ["odd-B"]
    rows = rows_of(Cell("tables", 200, 30), 0, 100)
    assert (len(rows.train.rows), len(rows.labelled), len(rows.fresh)) == (200, 30, 700)
    assert len(rows.sought) == 50
    assert rows.about == {"table": table_key("odd-B")}
    seen = np.concatenate([rows.X, rows.fresh, rows.sought])
    assert len(np.unique(seen, axis=0)) == len(seen)


# --------------------------------------------------------------------------------------- measures


def test_p_values_that_are_too_small_and_that_are_not():
    uniform = np.arange(1, 1001) / 1000
    assert excess(uniform) == pytest.approx(0)
    assert excess(uniform / 2) == pytest.approx(0.5)
    assert excess(np.sqrt(uniform)) == pytest.approx(0, abs=1e-3)
    assert excess(np.full(4, np.nan)) == 0


def test_what_is_measured_is_what_the_detector_says():
    rows = rows_of(Cell("gaps", 200, 30), 0, 0)
    found, detector = measured(rows, 0, Distance), Distance(0).fit(rows.X, rows.y)
    p = detector.pvalues(rows.fresh)
    assert found["alarms"] == [round(100 * (p <= rate).mean(), 3) for rate in (0.01, 0.05, 0.1)]
    assert found["predicted"] == found["alarms"][1]
    assert found["calibration_rows"] == 100
    holed = np.isnan(rows.fresh).any(axis=1)
    assert found["gap_alarms"] == pytest.approx(100 * (p[holed] <= 0.05).mean(), abs=1e-3)
    assert found["hits"] == pytest.approx(100 * (detector.pvalues(rows.sought) <= 0.05).mean())
    assert found["silent"] == 0
    assert found["excess"] == pytest.approx(excess(p), abs=1e-5)
    assert found["auc"] > 95
    assert json.dumps(found)  # plain numbers


def test_an_exact_detector_keeps_its_word():
    found = [measured(rows_of(Cell("t2", 200, 0), rep, 0), rep, Distance) for rep in range(40)]
    means = np.mean([row["alarms"] for row in found], axis=0)
    # 100 calibration rows: ⌊101 α⌋ / 101, with standard errors of at most 0.5.
    np.testing.assert_allclose(means, 100 * np.array([1, 5, 10]) / 101, atol=1.5)
    assert np.mean([row["false_discoveries"] for row in found]) < 12


# ---------------------------------------------------------------------------------------- running


def test_the_grid_is_that_of_the_goal():
    cells = all_cells()
    assert {(c.n, c.labels) for c in cells if c.family == "t2"} == {
        (n, k) for n in SIZES for k in LABELS
    }
    assert {c.family for c in cells} == {*FAMILIES, "tables"}
    with pytest.raises(SystemExit, match=r"No cell is called t3:60\. .*families: t2, cauchy"):
        chosen(["t3:60"])


def test_any_part_of_the_tasks_covers_all_cells_evenly():
    plan = Plan(("t2", "cats"), {0: 12, 5000: 4, 20_000: 2})
    tasks = plan.tasks()
    assert len(set(tasks)) == len(tasks) == 2 * 2 * (4 * 12 + 4 + 2)
    done = Counter(task.cell for task in tasks[: len(tasks) // 2])
    assert {done[cell] / plan.count(cell) for cell in chosen(plan.cells)} <= {5 / 12, 0.5, 7 / 12}


def test_rows_are_measured_once_and_name_no_table(folder):
    path = folder / "rows.jsonl"
    plan = Plan(("t2:60:0", "groups:60:30", "tables:60"), {0: 2})
    measure_alarms(plan, path, make=Distance)
    written, rows = path.read_text(), read_alarms([path])
    asked = Counter((row["family"], row["labels"]) for row in rows)
    assert asked == dict.fromkeys([("t2", 0), ("groups", 30), ("tables", 0), ("tables", 30)], 2)
    assert "odd-A" not in written
    measure_alarms(plan, path, make=Distance)
    assert path.read_text() == written
    measure_alarms(Plan(("t2:60:0",), {0: 1}, version="before"), path, make=Distance)
    assert [r["version"] for r in read_alarms([path])] == ["now"] * 8 + ["before"]


def test_a_run_stops_in_time_and_goes_on(tmp_path):
    path = tmp_path / "rows.jsonl"
    plan = Plan(("t2:60:0",), {0: 3})
    measure_alarms(plan, path, limit=0, make=Distance)
    assert read_alarms([path]) == []
    measure_alarms(plan, path, limit=1000, make=Distance)
    assert len(read_alarms([path])) == 3


def test_what_would_end_too_late_does_not_begin():
    small, large = Task(Cell("t2", 60, 0), 0), Task(Cell("t2", 20_000, 0), 0)
    stopwatch = Stopwatch(time.monotonic(), 1000)
    assert list(stopwatch.in_time([large, small])) == [large, small]
    stopwatch.saw(20_000, 2000.0)
    assert list(stopwatch.in_time([large, small])) == [small]


def test_a_failure_is_told_and_tried_again(tmp_path, capsys):
    class Broken(Distance):
        def fit(self, X, y=None, groups=None):
            raise MemoryError("too many rows")

    path, plan = tmp_path / "rows.jsonl", Plan(("t2:60:0",), {0: 2})
    measure_alarms(plan, path, make=Broken)
    assert "failed 2 times: t2:60:0 MemoryError: too many rows" in capsys.readouterr().err
    measure_alarms(plan, path, make=Distance)
    assert len(read_alarms([path])) == 2


def test_the_default_detector_is_measured(tmp_path):
    measure_alarms(Plan(("mixture:60:0",), {0: 1}), tmp_path / "rows.jsonl")
    (row,) = read_alarms([tmp_path / "rows.jsonl"])
    assert row["seconds"] > 0
    assert row["auc"] > 50
    assert 0 < row["calibration_rows"] <= 60
