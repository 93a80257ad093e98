"""A watch of a model with time: one stream over batches and starts, episodes, late rows."""

import json
import random
import shlex
import sys
from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from helpers.timed import DETECTORS, pump
from lpfuse.time import alarm_episodes
from lpfuse_cli.app import app
from lpfuse_cli.fitting import fit_table
from lpfuse_cli.scoring import load_model, score_file
from lpfuse_cli.times import TimeReader
from lpfuse_cli.watch import watch
from lpfuse_cli.watch.batches import Batch, Rows
from lpfuse_cli.watch.clock import Clock
from lpfuse_cli.watch.state import STREAM, fits


def test_verdicts_are_those_of_score_whatever_the_batches(timed_model_file, tmp_path, new_rows):
    source = tmp_path / "rows.csv"
    new_rows.write_csv(source)
    score_file(load_model(timed_model_file), source, tmp_path / "scores.csv")
    scores = pl.read_csv(tmp_path / "scores.csv")
    for name, settings in {"a": {}, "b": {"batch_rows": 13}}.items():
        found = watch(timed_model_file, source, tmp_path / f"{name}.csv", once=True, **settings)
        assert found.judged == 320
        assert found.promise.startswith("Of any n consecutive rows")
    rng = random.Random(0)
    while found.ended != "source" or not found.resumed:
        found = watch(
            timed_model_file, source, tmp_path / "c.csv", once=True, batch_rows=11,
            batch_seconds=0, rows=rng.randrange(20, 90),
        )  # fmt: skip
    bytes_ = {(tmp_path / f"{name}.csv").read_bytes() for name in "abc"}
    assert len(bytes_) == 1
    verdicts = pl.read_csv(tmp_path / "a.csv")
    for column in ("score", "p_value", "decision"):
        assert verdicts[column].equals(scores[column])
    assert found.episodes == len(alarm_episodes(verdicts["p_value"], 0.05)) >= 2


def test_one_command_an_episode_also_over_starts(timed_model_file, tmp_path, new_rows):
    source, log = tmp_path / "rows.csv", tmp_path / "log"
    new_rows.write_csv(source)
    code = f"import sys; open({str(log)!r}, 'a').write(sys.stdin.read() + '\\n')"
    command = shlex.join([sys.executable, "-c", code])
    told = []
    settings = {"once": True, "batch_rows": 7, "batch_seconds": 0, "on_alarm": command}
    for rows in (105, 30, 400):  # the second start is within the first fault
        found = watch(
            timed_model_file, source, tmp_path / "v.csv", rows=rows,
            on_episode=lambda facts, line: told.append((facts, line)), **settings,
        )  # fmt: skip
    facts = [json.loads(line) for line in log.read_text().splitlines()]
    assert [each["number"] for each in facts] == list(range(1, found.episodes + 1))
    assert [each["number"] for each, _ in told] == [each["number"] for each in facts]
    verdicts = pl.read_csv(tmp_path / "v.csv")
    expected = alarm_episodes(verdicts["p_value"], 0.05)
    assert [each["row"] for each in facts] == [each.start + 1 for each in expected]
    fault = facts[-1]
    assert fault["row"] in range(60, 104)
    assert fault["why"]
    assert f"from row {fault['row']} (2024-02-28 " in fault["sentence"]


def test_page_metrics_and_summary_tell_of_episodes(timed_model_file, tmp_path, new_rows):
    new_rows.write_csv(tmp_path / "rows.csv")
    config = tmp_path / "watch.toml"
    config.write_text(
        f"model = {json.dumps(str(timed_model_file))}\nsource = {json.dumps(str(tmp_path))}\n"
        "once = true\npage = 'none.html'\n"
    )
    files = {name: tmp_path / name for name in ("v.jsonl", "s.html", "w.prom", "rows.csv")}
    words = ["watch", timed_model_file, files["rows.csv"], "--config", config, "-o"]
    words += [files["v.jsonl"], "--page", files["s.html"], "--metrics", files["w.prom"]]
    answer = CliRunner().invoke(app, list(map(str, words)))
    assert answer.exit_code == 0, answer.output
    verdicts = pl.read_ndjson(files["v.jsonl"])
    n = len(alarm_episodes(verdicts["p_value"], 0.05))
    alarms = int((verdicts["decision"] < 0).sum())
    assert f"{alarms} called anomalies in {n} episodes. Written to" in answer.stderr
    assert answer.stderr.count("Alarm ") == n
    assert "Of any n consecutive rows, at most 5 %" in answer.stderr
    metrics = dict(
        line.split() for line in files["w.prom"].read_text().splitlines() if line[0] != "#"
    )
    assert metrics["lpfuse_watch_judged_total"] == "320"
    assert metrics["lpfuse_watch_episodes_total"] == str(n)
    page = files["s.html"].read_text()
    assert "Episodes of alarms" in page
    assert "Of any n consecutive rows, at most 5" in page
    assert "169 a day are allowed to be false" in page
    bare = CliRunner().invoke(app, ["watch", "--config", str(config)])
    assert bare.exit_code == 2
    assert "watch needs an output" in bare.stderr


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_page_says_that_nothing_is_promised(tmp_path):
    fit_table(pump(300).drop("when"), detectors=DETECTORS).save(tmp_path / "m.lpfuse")
    pump(330).tail(30).write_csv(tmp_path / "rows.csv")
    found = watch(
        tmp_path / "m.lpfuse", tmp_path / "rows.csv", tmp_path / "v.csv", once=True,
        page=tmp_path / "s.html",
    )  # fmt: skip
    assert found.promise.startswith("No rate of false alarms is promised")
    page = (tmp_path / "s.html").read_text()
    assert "No rate of false alarms is promised" in page
    assert "were promised" not in page


def test_late_rows_are_put_in_their_order(timed_model_file, tmp_path, new_rows):
    new_rows.write_csv(tmp_path / "rows.csv")
    watch(timed_model_file, tmp_path / "rows.csv", tmp_path / "whole.csv", once=True)
    order = np.argsort(np.arange(320) + np.random.default_rng(0).uniform(0, 4, 320))
    late = new_rows[order.tolist()]
    late = pl.concat([late, late.head(1)])  # one comes too late
    late.write_csv(tmp_path / "late.csv")
    out, found = tmp_path / "v.csv", None
    while found is None or found.ended != "source":
        found = watch(
            timed_model_file, tmp_path / "late.csv", out, once=True, late=60, batch_rows=9,
            batch_seconds=0, rows=67, keep=["serial"],
        )  # fmt: skip
    assert found.notes == {"clock went backwards": 1}
    verdicts, whole = pl.read_csv(out), pl.read_csv(tmp_path / "whole.csv")
    assert verdicts["serial"].to_list() == new_rows["serial"].to_list()
    assert verdicts["row"].to_list() == (1 + np.argsort(order)).tolist()
    assert verdicts.drop("row", "serial").equals(whole.drop("row"))


def test_an_hour_that_comes_twice_changes_nothing(timed_model_file, tmp_path, new_rows):
    """At 3:00 the clock is set back to 2:00: rows of 2:40 to 3:00, and from 2:00 on."""
    start = datetime(2024, 10, 27, 2, 40)
    even = [start + timedelta(seconds=10 * k) for k in range(320)]
    local = [each - timedelta(hours=1) if k >= 120 else each for k, each in enumerate(even)]
    for name, times in (("even", even), ("local", local)):
        texts = pl.Series([f"{each:%d.%m.%Y %H:%M:%S}" for each in times])
        new_rows.with_columns(when=texts).write_csv(tmp_path / f"{name}.csv")
        found = watch(
            timed_model_file, tmp_path / f"{name}.csv", tmp_path / f"of_{name}.csv", once=True,
            rows=None, batch_rows=50,
        )  # fmt: skip
        assert found.notes == {}
        assert found.judged == 320
    assert (tmp_path / "of_even.csv").read_bytes() == (tmp_path / "of_local.csv").read_bytes()


def test_waiting_rows_survive_the_state():
    clock = Clock("t", TimeReader("number"), late=10.0)

    def columns(batch, numbers):
        return pl.DataFrame({"row": numbers, "file": ["a"] * len(numbers)})

    frame = pl.DataFrame({"t": ["1", "30", "25"], "x": ["a", "b", "c"]})
    batch = Batch(lambda: Rows(frame, np.arange(1, 4), []), {"row": 3}, 3)
    due = clock.in_order(batch, columns)
    assert due.load().numbers.tolist() == [1]
    again = Clock("t", TimeReader("number"), late=10.0)
    again.restore(json.loads(json.dumps(due.position["clock"])))
    assert again.before(3) == 1
    rest = again.last_rows({"row": 3}, 3)
    assert rest.load().frame["x"].to_list() == ["c", "b"]
    assert rest.marks == {"file": {3: "a", 2: "a"}}
    with pytest.raises(ValueError, match="damaged"):
        again.restore(due.position["clock"] | {"waiting": "AAAA"})


def test_what_a_model_without_time_cannot_do_is_refused(model, timed_model_file, tmp_path):
    source = tmp_path / "rows.csv"
    pump(20).write_csv(source)
    for setting in ({"late": 5.0}, {"on_alarm": "true"}):
        with pytest.raises(ValueError, match="for models that judge rows in time"):
            watch(model, source, tmp_path / "v.csv", **setting)
    with pytest.raises(ValueError, match="not the column of times of the model, 'when'"):
        watch(timed_model_file, source, tmp_path / "v.csv", time_column="bar")
    assert not (tmp_path / "v.csv").exists()


def test_the_state_of_a_stream_has_its_shape(timed_model):
    stream = timed_model.follow()
    stream.judge(pump(310).tail(10).drop("when"))
    assert fits({**stream.state(), "judged": 10}, STREAM)
