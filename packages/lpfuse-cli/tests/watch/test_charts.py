"""What the charts of the status page are drawn along: time of the rows, rows, or the clock."""

import json
import re
from datetime import date, datetime, timedelta
from html import unescape

import numpy as np
import polars as pl
import pytest

import lpfuse
from helpers.streams import rows
from lpfuse_cli.fitting import fit_table
from lpfuse_cli.scoring import load_model
from lpfuse_cli.watch import watch
from lpfuse_cli.watch.judge import BUCKETS, NUMBER, Bucket, History, RowTimes, Tally
from lpfuse_cli.watch.page import FEWEST, axis_of
from lpfuse_cli.watch.state import WatchState

ONCE = {"once": True, "jobs": 1}
DATES = ("when", "%Y-%m-%d")
ROW, CLOCK = "row of the stream", "time at which rows were judged, UTC"


def dated(n, minutes=30, write="%Y-%m-%d %H:%M", **options):
    """Rows of pumps, and when they were."""
    moments = [datetime(2024, 3, 1) + timedelta(minutes=minutes * k) for k in range(n)]
    return rows(n, **options).with_columns(when=pl.Series([f"{each:{write}}" for each in moments]))


@pytest.fixture(scope="module")
def dated_model(tmp_path_factory):
    path = tmp_path_factory.mktemp("dated") / "m.lpfuse"
    table = dated(1200, write="%d/%m/%Y %H:%M", seed=0).drop("serial")
    fit_table(table, detectors=["gmm"]).save(path)
    return path


def label_of(page):
    """What the axis of a page says."""
    (found,) = re.findall(r'<div class="label-x" aria-hidden="true">(?!p-value)(.+)</div>', page)
    return unescape(found)


def tally_of(times, seconds=1):
    """Counts of rows with these times, judged within so many seconds."""
    tally = Tally(rows=len(times))
    for place, moment in enumerate(times):
        tally.by_row.add(Bucket(float(place), rows=1, judged=1, time=moment))
        tally.by_clock.add(Bucket(1.7e9 + place * seconds // len(times), rows=1, judged=1))
    return tally


# ----------------------------------------------------------------------------------- which axis


def test_time_of_the_rows_comes_first():
    axis = axis_of(tally_of([19_783.0, 19_783.25, 19_784.0]), DATES)
    assert axis.label == "time of the rows, column 'when', 01 March 2024 to 02 March 2024"
    assert axis.xs == [0, 25, 100]
    assert [text for _, text in axis.ticks] == ["00:00", "12:00", "00:00"]
    assert (axis.title, axis.point, axis.joined) == ("Over time", "one row", [True] * 3)


def test_times_that_are_numbers_are_shown_as_they_are():
    axis = axis_of(tally_of([1000.0, 1500.0, 3000.0]), ("s", NUMBER))
    assert axis.label == "time of the rows, column 's'"
    assert axis.ticks == [(0, "1,000"), (25, "1,500"), (50, "2,000"), (75, "2,500"), (100, "3,000")]


@pytest.mark.parametrize(("seconds", "label"), [(FEWEST - 1, ROW), (FEWEST + 5, CLOCK)])
def test_without_times_rows_are_the_axis_until_the_clock_has_a_line(seconds, label):
    axis = axis_of(tally_of([None] * 60, seconds), None)
    assert axis.label == label
    assert len(axis.xs) == (30 if label == ROW else seconds)
    assert 0 < axis.xs[0] < axis.xs[-1] <= 100


def test_points_far_apart_are_no_line_by_the_clock():
    assert axis_of(tally_of([None] * 60, 60 * 3600), None).label == ROW


@pytest.mark.parametrize(
    "wrong", [{7: -1e4}, {7: 2e4 + 1e3}, {7: None}, {7: 1e9}, {7: -5.0, 20: 9e5}]
)
def test_a_clock_that_is_wrong_for_a_moment_does_not_matter(wrong):
    right = axis_of(tally_of([2e4 + k for k in range(40)]), DATES)
    axis = axis_of(tally_of([wrong.get(k, 2e4 + k) for k in range(40)]), DATES)
    assert (axis.label, axis.ticks) == (right.label, right.ticks)
    assert np.abs(np.subtract(axis.xs, right.xs)).max() < 3
    assert axis.xs == sorted(axis.xs)


@pytest.mark.parametrize(
    "times",
    [
        np.random.default_rng(0).permutation(40) + 2e4,
        2e4 - np.arange(40),
        np.full(40, 2e4),
        np.r_[2e4:2.002e4, 2e4:2.002e4],
        [None] * 5 + [2e4 + k for k in range(35)],
    ],
    ids=["out of order", "backwards", "one moment", "twice", "some missing"],
)
def test_times_without_an_order_are_no_axis(times):
    assert axis_of(tally_of(list(times)), DATES).label == ROW


def test_a_point_has_enough_rows_for_a_share():
    axis = axis_of(tally_of([None] * 200), None)
    assert axis.point == "8 rows"  # more would leave fewer points than make a line
    assert [bucket.rows for bucket in axis.buckets] == [8] * 25
    whole = History([Bucket(64.0 * k, rows=64) for k in range(200)], 64.0)
    assert axis_of(Tally(rows=12_800, by_row=whole), None).point == "64 rows"


# --------------------------------------------------------------------------- the column of times


def found_in(frame, model, column=None):
    times = RowTimes(load_model(model), column)
    times.read(frame.select(times.columns(frame.columns)), [0])
    return times.found


def test_dates_are_read_as_the_model_reads_them(dated_model):
    """1/2 is the first of February, as in training, whatever the order of the other dates."""
    frame = pl.DataFrame({"when": ["01/02/2024", "03/02/2024", "05/02/2024"]})
    assert found_in(frame, dated_model) == ("when", "%d/%m/%Y")


def test_a_column_in_whose_order_rows_do_not_come_tells_no_time(model):
    random = np.random.default_rng(0)
    born = [date(1950, 1, 1) + timedelta(int(day)) for day in random.integers(0, 2e4, 50)]
    frame = pl.DataFrame({"born": born, "flow": np.arange(50.0), "seen": sorted(born)})
    assert found_in(frame, model) == ("seen", "%Y-%m-%d")
    assert found_in(frame.drop("seen"), model) is None
    assert found_in(frame, model, "flow") == ("flow", NUMBER)


def test_time_of_day_is_an_axis_only_where_it_was_asked_for(model):
    day = pl.DataFrame({"at": ["08:00", "12:30", "23:59"]})
    for frame in (day, day.with_columns(pl.col("at").str.to_time("%H:%M"))):
        assert found_in(frame, model) is None
        assert found_in(frame, model, "at") == ("at", "time")


# ------------------------------------------------------------------------------ counts of a watch


def counts(out):
    """What a watch counted by rows."""
    facts = json.loads(lpfuse.io.load(f"{out}.watch/state.lpfuse").facts)
    return facts["tally"]["by_row"], facts["times"]


@pytest.mark.parametrize("batch_rows", [10_000, 170, 7])
def test_counts_by_rows_are_those_of_the_verdicts(model, tmp_path, batch_rows):
    lines = dated(600).with_columns(bar=pl.col("bar") * 1.1).write_csv().splitlines()
    lines[100:100] = ["broken"] * 3
    (tmp_path / "rows.csv").write_text("\n".join([*lines, ""]))
    out = tmp_path / "v.csv"
    watch(model, tmp_path / "rows.csv", out, keep=["when"], batch_rows=batch_rows, **ONCE)
    history, times = counts(out)
    assert times == list(DATES)
    assert history["width"] == 4
    verdicts = pl.read_csv(out).with_columns(bucket=(pl.col("row") - 1) // 4)
    for bucket in history["buckets"]:
        here = verdicts.filter(pl.col("bucket") == bucket["start"] / 4)
        assert bucket["judged"] == here.height
        assert bucket["alarms"] == (here["decision"] < 0).sum()
        assert bucket["rows"] - bucket["noted"] == here.height
        if here.height:
            moment = datetime.fromisoformat(here["when"][-1]) - datetime(1970, 1, 1)
            assert bucket["time"] == pytest.approx(moment / timedelta(days=1))
    assert sum(bucket["rows"] for bucket in history["buckets"]) == 603
    assert len(history["buckets"]) <= BUCKETS


def test_evidence_within_a_batch_is_that_of_small_batches(model, tmp_path):
    rows(2000, shift=0.05).write_csv(tmp_path / "rows.csv")
    found = []
    for batch_rows in (2000, 100):
        out = tmp_path / f"{batch_rows}.csv"
        watch(model, tmp_path / "rows.csv", out, batch_rows=batch_rows, **ONCE)
        buckets = counts(out)[0]["buckets"]
        found.append({b["start"]: b["evidence"] for b in buckets if b["evidence"] != "-inf"})
    one, many = found
    assert len(one) == 20
    assert one == pytest.approx(many)


@pytest.mark.parametrize("kind", ["column of the model", "kept", "told", "none"])
def test_the_axis_says_what_it_is_and_survives_a_restart(
    model, dated_model, tmp_path, kind
):  # fmt: skip
    write = "%d/%m/%Y %H:%M" if kind == "column of the model" else "%Y-%m-%d %H:%M"
    frame = dated(400, write=write)
    used = dated_model if kind == "column of the model" else model
    settings = {"kept": {"keep": ["when"]}, "told": {"time_column": "when"}}.get(kind, {})
    frame.write_csv(tmp_path / "rows.csv")
    labels, histories = [], []
    settings |= {"page": (page := tmp_path / "s.html"), **ONCE}
    for out, limits in ((tmp_path / "a.csv", [None]), (tmp_path / "b.csv", [90, 160, None])):
        for limit in limits:
            found = watch(used, tmp_path / "rows.csv", out, rows=limit, **settings)
        labels.append(label_of(page.read_text()))
        history, _ = counts(out)
        names = ("start", "rows", "judged", "alarms", "time")
        histories.append([[bucket[name] for name in names] for bucket in history["buckets"]])
        assert (found.rows, found.resumed, found.remarks) == (400, len(limits) > 1, [])
    expected = "time of the rows, column 'when', 01 March 2024 to 09 March 2024"
    assert labels == [ROW if kind == "none" else expected] * 2
    assert histories[0] == histories[1]


def test_a_state_of_a_version_without_counts_by_rows_goes_on(model, tmp_path):
    dated(400).write_csv(tmp_path / "rows.csv")
    files = model, tmp_path / "rows.csv", tmp_path / "v.csv"
    settings = {"keep": ["when"], "page": tmp_path / "s.html", **ONCE}
    watch(*files, rows=150, **settings)
    path = tmp_path / "v.csv.watch" / "state.lpfuse"
    saved = lpfuse.io.load(path)
    facts = json.loads(saved.facts)
    del facts["times"], facts["tally"]["by_row"]
    for bucket in facts["tally"]["buckets"]:
        del bucket["time"]
    lpfuse.io.save(WatchState(json.dumps(facts), saved.monitor), path)
    found = watch(*files, **settings)
    assert (found.rows, found.resumed, found.remarks) == (400, True, [])
    assert pl.read_csv(files[2])["row"].to_list() == list(range(1, 401))
    assert label_of((tmp_path / "s.html").read_text()) == CLOCK  # as it was before
    assert json.loads(lpfuse.io.load(path).facts)["tally"]["by_row"] is None


def test_a_hostile_name_of_the_time_column_stays_text(model, tmp_path):
    name = "<script>alert(1)</script>\u202e"
    dated(50).rename({"when": name}).write_csv(tmp_path / "rows.csv")
    page = tmp_path / "s.html"
    watch(model, tmp_path / "rows.csv", tmp_path / "v.csv", time_column=name, page=page, **ONCE)
    text = page.read_text()
    assert "<script>alert" not in text
    assert "\u202e" not in text
    assert "&lt;script&gt;alert(1)" in text
