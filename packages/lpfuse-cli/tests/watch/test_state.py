"""Counts that do not grow, states that cannot be used, and files that are not ours."""

import copy
import json
import random
import shutil
import subprocess
import sys
import time
from dataclasses import replace

import polars as pl
import pytest

import lpfuse
from helpers.streams import rows
from lpfuse.monitor import Drift, DriftMonitor, DriftStatus
from lpfuse_cli.watch import watch
from lpfuse_cli.watch.judge import BUCKETS, Bucket, History, Places, Tally
from lpfuse_cli.watch.state import StateFolder, WatchState, fits

SMALL = {"batch_rows": 7, "batch_seconds": 0, "once": True, "jobs": 1}


def test_history_of_counts_stays_small():
    tally, history = Tally(), History()
    for second in range(5 * BUCKETS):
        history.add(Bucket(float(second), rows=1, evidence=second / 100, time=2.0 * second))
    assert len(history.buckets) <= BUCKETS
    assert history.width == 8.0
    assert sum(each.rows for each in history.buckets) == 5 * BUCKETS
    assert max(each.evidence for each in history.buckets) == (5 * BUCKETS - 1) / 100
    assert history.buckets[0].time == 14.0
    tally.by_clock = tally.by_row = history
    again = Tally.from_state(json.loads(json.dumps(tally.state())))
    assert again == tally


def test_places_are_thinned_and_interpolated():
    places = Places()
    for batch in range(1, 2000):
        places.add(10 * batch, 100 * batch)
    assert len(places.pairs) <= 2 * BUCKETS
    assert places.row(0) == 0
    assert places.row(19_990) == 199_900
    assert places.row(4_321) == pytest.approx(43_210, abs=1)


def test_drift_is_told_in_rows_that_count_from_1_and_ends_of_batches():
    places = Places()
    for batch in (1, 2, 3):
        places.add(600 * batch, 600 * batch)
    drift = Drift("column:a", "higher", since=0, declared=700)
    status = places.in_rows(DriftStatus(1800, 0.01, [drift], {}, {}, {}))
    assert (status.drifts[0].since, status.drifts[0].declared) == (1, 1200)
    assert "since about row 1 (declared after 1,200 rows)" in status.sentence()
    drift = replace(drift, since=800)  # of rows that came together
    sentence = DriftStatus(1800, 0.01, [drift], {}, {}, {}).sentence()
    assert "Normal has changed (declared after 700 rows, most since row 800): column:a" in sentence


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no state", "cannot be read: it is damaged"),
        (lpfuse.LpFusion(), "is not the state of a watch"),
        ({"version": 99}, "written by another version of lpfuse"),
    ],
)
def test_unusable_state_raises(tmp_path, content, message):
    folder = StateFolder(tmp_path)
    if isinstance(content, bytes):
        folder.file.write_bytes(content)
    elif isinstance(content, dict):
        lpfuse.io.save(WatchState(json.dumps(content)), folder.file)
    else:
        lpfuse.io.save(content, folder.file)
    with pytest.raises(ValueError, match=message):
        folder.read({})


# ------------------------------------------------------------------------------ forged states


@pytest.mark.parametrize(
    ("value", "shape", "fitting"),
    [
        (0, int, True),
        (-1, int, False),
        (True, int, False),
        (2**60, int, False),
        (1.5, float, True),
        (float("nan"), float, False),
        ([1, 2], [int], True),
        ([1, 2], [int, int, int], False),
        ({"a": 1}, {str: int}, True),
        ({"a": 1, "b": 2}, {"a": int}, False),
        ({}, {"a": (None, int)}, True),
        ({}, {"a": int}, False),
        ("1", [int], False),
    ],
)
def test_shape_of_a_value_is_checked(value, shape, fitting):
    assert fits(value, shape) is fitting


def watched(model, folder, kind="file", count=30):
    """Return source and output of a watch that has ended."""
    folder.mkdir()
    source = folder / "rows"
    if kind == "folder":
        source.mkdir()
        rows(count).write_csv(source / "a.csv")
    else:
        source = folder / "rows.csv"
        rows(count).write_csv(source)
    out = f"{folder}/v/" if kind == "parts" else f"{folder}/v.csv"
    watch(model, source, out, rows=20, **SMALL)
    return source, out


def state_of(out):
    return f"{out.rstrip('/')}.watch/state.lpfuse"


def contents(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder): path.read_bytes() for path in files if path.name != "lock"}


def places(value, above=()):
    """Yield the way to each value within a JSON value."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for name, each in pairs:
        yield (*above, name)
        if isinstance(each, dict | list):
            yield from places(each, (*above, name))


def ended_by(action):
    """Return the error of what a user can change; any other is one of ours."""
    try:
        action()
    except ValueError as error:
        return error
    return None


REMEDIES = ("to start again.", "stays unchanged.", "or use another output.")
FORGED = [None, -1, 2**52, 10**40, "", "../x", [], {}, [[]], {"a": 1}, True, 1e308, float("nan")]


@pytest.mark.parametrize("kind", ["file", "folder", "parts"])
def test_forged_state_is_refused_and_nothing_deleted(model, tmp_path, kind):
    source, out = watched(model, tmp_path / "w", kind)
    saved = lpfuse.io.load(state_of(out))
    facts, rng, refused = json.loads(saved.facts), random.Random(0), 0
    for _ in range(12):
        forged = copy.deepcopy(facts)
        top = rng.choice(["output", "files", "position", "keep", "tally", "places", "drift"])
        way = rng.choice([each for each in places(forged) if each[0] == top])
        within = forged
        for name in way[:-1]:
            within = within[name]
        within[way[-1]] = rng.choice(FORGED)
        lpfuse.io.save(WatchState(json.dumps(forged), saved.monitor), state_of(out))
        before = contents(tmp_path / "w")
        shutil.copytree(tmp_path / "w", tmp_path / "kept")
        error = ended_by(lambda: watch(model, source, out, page=tmp_path / "s.html", **SMALL))
        if error is not None:
            refused += 1
            assert str(error).endswith(REMEDIES)
            assert contents(tmp_path / "w") == before
        shutil.rmtree(tmp_path / "w")
        (tmp_path / "kept").rename(tmp_path / "w")
    assert refused > 7


@pytest.mark.parametrize("monitor", ["none", "unfitted", "other", "broken"])
def test_forged_monitor_of_a_state_is_refused(model, tmp_path, monitor):
    source, out = watched(model, tmp_path / "w")
    saved = lpfuse.io.load(state_of(out))
    if monitor == "other":
        saved.monitor.column_names_ = ["bar", "other"]
    elif monitor == "broken":
        streams = saved.monitor.columns_
        streams.history = replace(streams.history, sums=streams.history.sums[:, :1])
    else:
        saved.monitor = None if monitor == "none" else DriftMonitor()
    lpfuse.io.save(saved, state_of(out))
    before = contents(tmp_path / "w")
    with pytest.raises(ValueError, match=r"is not of this model: it is damaged or forged\. Use"):
        watch(model, source, out, **SMALL)
    assert contents(tmp_path / "w") == before


def test_damaged_list_of_files_raises(model, tmp_path):
    source, out = watched(model, tmp_path / "w", "folder")
    watch(model, source, out, **SMALL)
    names = tmp_path / "w" / "v.csv.watch" / "files.jsonl"
    names.write_bytes(b"x" * names.stat().st_size)
    with pytest.raises(ValueError, match=r"files\.jsonl' is damaged\. Use another output"):
        watch(model, source, out, **SMALL)


# ------------------------------------------------------------------------ files of the user


OWN = (
    "part-notes.txt",
    "part-000001.csv.bak",
    "part-000123.parquet",
    "part-000000000000999.parquet",
    "part-000000000000001.parquet.tmp",
    f".{'0' * 32}.tmp",
)


def test_files_of_the_user_survive_among_parts(model, tmp_path):
    source, out = watched(model, tmp_path / "w", "parts")
    for name in OWN:
        (tmp_path / "w" / "v" / name).write_text(f"mine: {name}")
    assert watch(model, source, out, **SMALL).rows == 30
    for name in OWN:
        assert (tmp_path / "w" / "v" / name).read_text() == f"mine: {name}"


def test_part_that_is_there_already_is_refused(model, tmp_path):
    source, out = watched(model, tmp_path / "w", "parts")
    mine = tmp_path / "w" / "v" / "part-000000000000021.parquet"
    mine.write_text("mine")
    for _ in range(2):
        with pytest.raises(ValueError, match="this watch did not write it"):
            watch(model, source, out, **SMALL)
        assert mine.read_text() == "mine"
    mine.rename(tmp_path / "mine")
    watch(model, source, out, **SMALL)
    parts = sorted((tmp_path / "w" / "v").iterdir())
    assert pl.concat(map(pl.read_parquet, parts))["row"].to_list() == list(range(1, 31))


@pytest.mark.parametrize("note", ["checked by Ada\n", "7,checked\n", "a\tb\nc\n", "row\n"])
def test_lines_of_the_user_behind_verdicts_survive(model, tmp_path, note):
    source, out = watched(model, tmp_path / "w")
    with open(out, "a") as file:
        file.write(note)
    before = contents(tmp_path / "w")
    with pytest.raises(ValueError, match="another process has changed it"):
        watch(model, source, out, **SMALL)
    assert contents(tmp_path / "w") == before


def test_verdicts_that_do_not_count_are_written_again(model, tmp_path):
    source, out = watched(model, tmp_path / "w")
    with open(out, "ab") as file:  # what a crash leaves
        file.write(b'21,0.1,0.5,1,0.1,0.2\n22,"two\nlines",0.5\n\0\0\0\n\xff\xfe\n23,0.')
    watch(model, source, out, **SMALL)
    assert pl.read_csv(out)["row"].to_list() == list(range(1, 31))


# -------------------------------------------------------------------- two watches, and clocks


def test_files_of_the_user_survive_in_the_state_folder(model, tmp_path):
    rows(5).write_csv(tmp_path / "rows.csv")
    folder = tmp_path / "v.csv.watch"
    folder.mkdir()
    mine = {"lock": "my keys", "files.jsonl": "my list", "state.lpfuse.old.tmp": "mine"}
    for name, text in mine.items():
        (folder / name).write_text(text)
    with pytest.raises(ValueError, match="another process has changed it"):
        watch(model, tmp_path / "rows.csv", tmp_path / "v.csv", **SMALL)
    assert {name: (folder / name).read_text() for name in mine} == mine


def test_lock_names_its_process_and_ends_with_it(model, tmp_path):
    source, out = watched(model, tmp_path / "w")
    code = (
        "import pathlib, sys, time\nfrom lpfuse_cli.watch.state import StateFolder\n"
        "with StateFolder(pathlib.Path(sys.argv[1])).locked(): print(1, flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", code, f"{out}.watch"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        with pytest.raises(
            ValueError, match=f"running on .* as process {process.pid}. End it first"
        ):
            watch(model, source, out, **SMALL)
        process.kill()
    assert watch(model, source, out, **SMALL).rows == 30


def test_system_clock_that_steps_back_changes_no_verdict(model, tmp_path, monkeypatch):
    rows(60).write_csv(tmp_path / "rows.csv")
    watch(model, tmp_path / "rows.csv", tmp_path / "right.csv", **SMALL)
    begin, calls = time.time(), []

    def clock():
        calls.append(begin - 86_400 * len(calls))
        return calls[-1]

    monkeypatch.setattr("lpfuse_cli.watch.run.time", clock)
    for count in (20, 40):  # and a restart in the past
        found = watch(
            model, tmp_path / "rows.csv", tmp_path / "v.csv", page=tmp_path / "s.html", rows=count,
            **SMALL,
        )  # fmt: skip
    assert len(calls) > 8
    assert (found.rows, found.remarks) == (60, [])
    verdicts, right = pl.read_csv(tmp_path / "v.csv"), pl.read_csv(tmp_path / "right.csv")
    assert verdicts.select("row", "decision").equals(right.select("row", "decision"))
    assert (verdicts["score"] - right["score"]).abs().max() < 1e-9
    saved = json.loads(lpfuse.io.load(state_of(str(tmp_path / "v.csv"))).facts)
    starts = [bucket["start"] for bucket in saved["tally"]["buckets"]]
    assert starts == sorted(starts)
