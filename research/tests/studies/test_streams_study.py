"""Streams: points and rates by hand, controls that fail on made-up streams, the stored page."""

import warnings
from pathlib import Path

import numpy as np
import pytest

from helpers.cases import cases
from lpfuse.ensemble import folds
from lpfuse.time import Windows
from research.common.store import matching, read_document
from research.studies.streams.measures import LEVELS, earned, figures_of
from research.studies.streams.methods import (
    ABLATIONS,
    FIXED,
    NO_WINDOWS,
    OURS,
    RANDOM,
    T2_ADAPTIVE,
    T2_WINDOWS,
    UNSAID,
    Z_SCORE,
    methods_for,
)
from research.studies.streams.page import draw, guide_sentence, streams_page, summary
from research.studies.streams.sources import (
    AS_IT_IS,
    CHANGES,
    METRICS,
    PUMPS,
    StreamRows,
    load_stream,
    moved_faults,
    simulated,
    stream_names,
)
from research.studies.streams.study import (
    Draw,
    Task,
    judged_stream,
    measure_streams,
    read_streams,
    simulate,
)

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "research/results/studies/streams"
HEALTHY = 300


def made_up(seed, n=1000, d=3, memory=0.6, step=1.5):
    """Rows with memory, of which a stretch is higher: means tell it, single rows hardly."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    for t in range(1, n):
        X[t] += memory * X[t - 1]
    fault = np.zeros(n)
    fault[600:760] = 1
    X[600:760] += step
    return {"X": X.astype(np.float32), "time": 60.0 * np.arange(n), "fault": fault}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One stream of each collection."""
    found = tmp_path_factory.mktemp("data")
    for k, collection in enumerate((PUMPS, METRICS)):
        (found / "streams" / collection).mkdir(parents=True)
        held = made_up(k, d=3 if collection == PUMPS else 1)
        held["X"][5] = np.nan
        np.savez(found / "streams" / collection / "made-up.npz", healthy=HEALTHY, **held)
    return found


@pytest.fixture
def data(folder, monkeypatch):
    monkeypatch.setenv("LPFUSE_DATA", str(folder))
    return folder


# ---------------------------------------------------------------------------------------- measures


def fading(position):
    return 2 / (1 + np.exp(5 * position)) - 1


@cases(
    "alarms, points",
    [
        ([], -2.0),
        ([100], fading(-1.0) - 1),
        ([100, 120, 149], fading(-1.0) - 1),  # the first one counts
        ([149, 300], fading(-1 / 50) + fading(-1.0)),
        ([5], -2 - 0.11),  # before the first stretch
        ([155], -2 + 0.11 * fading(5 / 50)),
        ([330], -2 + 0.11 * fading(10 / 20)),  # of two stretches, the nearer in its own lengths
    ],
)
def test_points_are_those_of_the_benchmark(alarms, points):
    fault = np.zeros(400, dtype=bool)
    fault[100:150] = fault[300:320] = True
    assert earned(alarms, fault) == pytest.approx(points)


def stream_with(later, collection=METRICS):
    fault = np.concatenate([np.zeros(50, dtype=bool), later])
    return StreamRows(collection, "some", np.zeros((len(fault), 1)), np.arange(1.0), fault, 50)


def test_figures_of_a_perfect_and_a_silent_method():
    fault = np.zeros(200, dtype=bool)
    fault[100:150] = True
    perfect = figures_of(stream_with(fault), np.where(fault, 1e-6, 1.0), True)
    assert (perfect["auc"], perfect["flagged"], perfect["hit"]) == (1.0, 0.0, 1.0)
    assert perfect["cooldown"] == perfect["episodes"] == [pytest.approx(fading(-1.0))] * len(LEVELS)
    assert perfect["excess"] == pytest.approx(50 * 0.95)
    silent = figures_of(stream_with(fault), np.ones(200), True)
    assert (silent["auc"], silent["hit"], silent["cooldown"][0]) == (0.5, 0.0, -1.0)


def test_rows_after_the_fault_of_a_pump_are_not_calm():
    fault = np.zeros(200, dtype=bool)
    fault[100:150] = True
    assert stream_with(fault, PUMPS).calm.sum() == 100
    assert stream_with(fault, METRICS).calm.sum() == 150


def test_moved_faults_leave_their_rows():
    fault = np.zeros(200, dtype=bool)
    fault[120:150] = True
    moved = moved_faults(stream_with(fault), None).later
    assert moved.sum() == 30
    assert not (moved & fault).any()


def test_simulated_rows_are_what_they_are_called():
    rng = np.random.default_rng(0)
    rows = np.concatenate([simulated(0.9, 0.0, rng) for _ in range(20)])
    assert rows.std() == pytest.approx(1, rel=0.05)
    assert np.corrcoef(rows[1:, 0], rows[:-1, 0])[0, 1] == pytest.approx(0.9, abs=0.02)
    drift = simulated(0.0, 2.0, rng)
    assert drift[-400:].mean() - drift[:400].mean() == pytest.approx(1.8, abs=0.15)


# ---------------------------------------------------------------------------------------- streams


def test_rows_with_a_gap_are_left_out(data):
    assert stream_names() == [(PUMPS, "made-up"), (METRICS, "made-up")]
    stream = load_stream(PUMPS, "made-up")
    assert len(stream.X) == len(stream.fault) == len(stream.time) == 999
    assert stream.healthy == HEALTHY - 1


def test_without_the_folder_it_says_what_to_set(monkeypatch, tmp_path):
    monkeypatch.setenv("LPFUSE_DATA", str(tmp_path))
    with pytest.raises(SystemExit, match="LPFUSE_DATA"):
        stream_names()


@pytest.fixture(scope="module")
def measured(folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LPFUSE_DATA", str(folder))
        parts = [OURS, NO_WINDOWS, "Hotelling's T², columns", Z_SCORE, RANDOM]
        measure_streams(path, repeats=0, parts=parts)
        before = path.read_bytes()
        measure_streams(path, repeats=0, parts=parts)  # all of it is there
        assert path.read_bytes() == before
    return read_streams([path])


def auc(rows, change, method, collection=PUMPS):
    (row,) = matching(rows, collection=collection, change=change, method=method)
    return row["auc"]


def test_windows_gain_and_lose_it_where_rows_are_shuffled(measured):
    gain = {
        change: auc(measured, change, OURS) - auc(measured, change, NO_WINDOWS)
        for change in (AS_IT_IS, "rows shuffled")
    }
    assert gain[AS_IT_IS] > 0.02 > 0 > gain["rows shuffled"]
    assert auc(measured, AS_IT_IS, OURS) > 0.9


@cases("change", ["noise columns", "faults moved"])
def test_controls_fail(measured, change):
    for method in (OURS, NO_WINDOWS, T2_WINDOWS, T2_ADAPTIVE):
        assert np.mean([auc(measured, change, method, c) for c in (PUMPS, METRICS)]) < 0.65
    assert auc(measured, AS_IT_IS, RANDOM) == pytest.approx(0.5, abs=0.06)


def test_the_adaptive_level_keeps_its_bound_and_the_fixed_one_does_not(measured):
    ours = [row["excess"] for row in matching(measured, method=OURS)]
    assert max(ours) <= 101
    assert {row["method"] for row in measured} >= {OURS, FIXED, T2_WINDOWS, Z_SCORE, RANDOM}


def test_an_exchanged_constant_is_put_back(data):
    stream = load_stream(METRICS, "made-up")
    before = folds.Windows, folds.BLOCKS, folds.REHEARSED
    found = ABLATIONS["windows of 6"](stream, 0)
    assert list(found) == ["windows of 6"]
    assert (folds.Windows, folds.BLOCKS, folds.REHEARSED) == before
    assert folds.Windows is Windows
    whole, six = (judged_stream(Task(METRICS, "made-up", AS_IT_IS, part))[0]["auc"]
                  for part in (OURS, "windows of 6"))  # fmt: skip
    assert whole != six


def test_nobody_looks_ahead(data):
    stream = load_stream(PUMPS, "made-up")
    other = stream.X.copy()
    other[800:] += np.random.default_rng(0).normal(size=other[800:].shape)
    changed = StreamRows(PUMPS, "some", other, stream.time, stream.fault, stream.healthy)
    until = 800 - stream.healthy
    for part in (OURS, UNSAID, "Hotelling's T², columns", Z_SCORE):
        method = methods_for(AS_IT_IS)[part]
        with warnings.catch_warnings(action="ignore"):  # the order is not said
            both = method(stream, 0), method(changed, 0)
        for found, moved in zip(*(each.values() for each in both), strict=True):
            np.testing.assert_allclose(found.pvalues[:until], moved.pvalues[:until], rtol=1e-9)


def test_a_simulation_tells_what_was_said():
    said, unsaid = simulate(Draw(0.9, 2.0, 0))
    assert (said["method"], unsaid["method"]) == ("time", "nothing")
    assert said["promise"]
    assert said["excess"] <= 101
    assert not unsaid["promise"]
    assert unsaid["flagged"] > 0.2


# ------------------------------------------------------------------------------------------- pages


def test_the_stored_page_is_that_of_the_stored_rows(tmp_path):
    rows = read_streams([RESULTS / "rows.jsonl"])
    assert (ROOT / "docs/benchmarks/time.md").read_text("utf-8") == streams_page(rows)
    guide = " ".join((ROOT / "docs/time.md").read_text("utf-8").split())
    assert guide_sentence(rows) in guide
    draw(read_document(RESULTS / "pictures.json"), tmp_path / "time.png")
    assert (tmp_path / "time.png").stat().st_size > 10_000


def test_stored_streams_are_all_judged_by_all():
    rows = read_streams([RESULTS / "rows.jsonl"])
    for change in CHANGES:
        for method in {row["method"] for row in rows if row.get("change") == change}:
            counts = [summary(rows, c, change, method)["streams"] for c in (PUMPS, METRICS)]
            assert counts == [17, 23], (change, method)
    assert max(summary(rows, c, AS_IT_IS, OURS)["excess"] for c in (PUMPS, METRICS)) <= 101
