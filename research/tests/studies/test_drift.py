"""The study of drift: its streams, its numbers, and the stored page against its rows."""

from pathlib import Path

import numpy as np
import pytest

from research.studies.drift import recalibration
from research.studies.drift.page import (
    BASES,
    CHANGES,
    OURS,
    delays_of,
    draw,
    drift_page,
    line_of,
    read_more,
    read_rows,
    who_is_ahead,
)  # fmt: skip
from research.studies.drift.records import CHANGE, DELAYS, delay, kept
from research.studies.drift.reference_size import found_share
from research.studies.drift.streams import ANOMALIES, ROWS, stream, usual
from research.studies.drift.study import measure

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "research/results/studies/drift"
STORED, MORE = sorted(RESULTS.glob("*.jsonl")), read_more(RESULTS)


@pytest.mark.parametrize("base", BASES)
def test_streams_are_the_same_until_they_change(base):
    calm = stream(base, None, 3)
    assert calm.rows.shape == (ROWS, 10)
    for change in CHANGES:
        other = stream(base, change, 3)
        np.testing.assert_array_equal(other.reference, calm.reference)
        np.testing.assert_array_equal(other.rows[:CHANGE], calm.rows[:CHANGE])
        assert (other.rows[CHANGE:] != calm.rows[CHANGE:]).any()


def test_the_anomaly_share_doubles_after_the_change():
    rng = np.random.default_rng(0)
    far = (np.abs(usual("gauss", rng, 50_000)) > 3.4).sum(axis=1) >= 2
    assert far.mean() == pytest.approx(ANOMALIES, rel=0.2)
    rows = stream("gauss", "doubled", 0).rows
    far = (np.abs(rows) > 3.4).sum(axis=1) >= 2
    assert far[CHANGE:].mean() == pytest.approx(2 * far[:CHANGE].mean(), rel=0.35)


def test_a_delay_is_told_at_any_line():
    numbers = np.zeros(ROWS)
    numbers[CHANGE + 34 :], numbers[CHANGE + 77 :] = 1.0, 2.0
    record = kept(numbers, "shift")
    assert [delay(record, line) for line in (0.5, 1.5, 2.5)] == [40.0, 80.0, np.inf]
    numbers[10] = 3.0
    assert np.isnan(delay(kept(numbers, "shift"), 0.5))
    assert kept(numbers, None) == {"highest": 3.0}
    assert DELAYS[-1] == ROWS - CHANGE


def test_our_monitor_finds_a_dead_sensor_at_once():
    (record,) = measure((OURS, "gauss", "dead", 0))
    assert record["highest"] < 2
    assert delay(record, 2.0) <= 40


def rows_of(watcher, delays, calm=1.0):
    about = {"watcher": watcher, "base": "gauss", "seconds": 1.0}
    found = [{**about, "change": None, "seed": i, "highest": calm * i / 20} for i in range(21)]
    for change in CHANGES:
        for i, rows in enumerate(delays):
            after = [5.0 * (each >= rows) for each in DELAYS]
            found.append({**about, "change": change, "seed": i, "highest": 0.0, "after": after})
    return found


def test_the_page_says_who_is_ahead():
    rows = [*rows_of(OURS, [100, 120, 140]), *rows_of("other", [100, 110, 400])]
    assert line_of(rows, OURS, "gauss") == pytest.approx(0.95)
    assert delays_of(rows, "other", "gauss", "dead", 0.95).tolist() == [100, 110, 400]
    assert [(name, by) for _, name, by in who_is_ahead(rows)] == [("other", 10.0)] * 4
    told = drift_page(rows, MORE)
    assert "other by 10 rows" in told
    assert "| other | 21 | 110 | 110 | 110 | 110 |" in told


def test_the_stored_page_is_that_of_the_stored_rows(tmp_path):
    rows = read_rows(STORED)
    assert (ROOT / "docs/benchmarks/drift.md").read_text("utf-8") == drift_page(rows, MORE)
    draw(rows, tmp_path / "drift.png")
    assert (tmp_path / "drift.png").stat().st_size > 10_000
    for base in BASES:
        calm = [
            r["highest"]
            for r in rows
            if (r["watcher"], r["base"], r["change"]) == (OURS, base, None)
        ]
        assert len(calm) == 500
        for level in (0.1, 0.05, 0.01):
            assert np.mean(np.array(calm) >= -np.log10(level)) <= level


def test_a_larger_reference_leaves_less_open():
    assert found_share(50, 0.4) < found_share(2_000, 0.4)
    assert found_share(2_000, 0.4) > 0.9


def test_both_the_new_and_old_scale_are_measured(monkeypatch):
    monkeypatch.setattr(recalibration, "TRAINING", (100,))
    monkeypatch.setattr(recalibration, "CALIBRATION", (60,))
    monkeypatch.setattr(recalibration, "SEEDS", 1)
    found = recalibration.measure()
    assert [row["move"] for row in found] == list(recalibration.MOVES)
    assert all(row["alarms_old"] < 0.25 for row in found)
    assert found[2]["auc_old"] != found[2]["auc_new"]
