"""What becomes of rows of every kind of source, good and bad."""

import io
import json
import os
import re
import shutil
import sys
import threading
import time

import polars as pl
import pytest
import typer
from typer.testing import CliRunner

from helpers.streams import rows
from lpfuse_cli.app import app
from lpfuse_cli.fitting import fit_table
from lpfuse_cli.scoring import load_model, score_file
from lpfuse_cli.tables import read_table
from lpfuse_cli.watch import run, sources, watch

ONCE = {"once": True, "jobs": 2}


def follow(model, source, out, **options):
    """A watch up to the end of what is there, and its verdicts."""
    found = watch(model, source, out, **ONCE | options)
    parts = sorted(out.glob("part-*")) if out.is_dir() else []
    table = pl.concat(map(pl.read_parquet, parts)) if parts else pl.read_csv(out)
    return found, table


def scored(model, frame, tmp_path):
    frame.write_csv(tmp_path / "plain.csv")
    score_file(load_model(model), tmp_path / "plain.csv", tmp_path / "scores.csv")
    return pl.read_csv(tmp_path / "scores.csv")


def same(verdicts, scores):
    columns = ["score", "p_value", "decision"]
    one, two = verdicts.select(columns), scores.select(columns)
    assert one["decision"].to_list() == two["decision"].to_list()
    for name in columns[:2]:
        assert (one[name] - two[name]).abs().max() < 1e-9


@pytest.mark.parametrize(
    ("kind", "out"), [("file", "v.csv"), ("folder", "v"), ("parquet", "v.csv"), ("input", "v")]
)
def test_verdicts_equal_those_of_score(model, tmp_path, monkeypatch, kind, out):
    frame = rows(95)
    source = tmp_path / "rows"
    if out == "v":
        (tmp_path / out).mkdir()
    if kind == "file":
        source = tmp_path / "rows.csv"
        frame.write_csv(source)
    elif kind == "input":
        source = "-"
        text = io.BytesIO(frame.write_csv().encode())
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(text))
    else:
        source.mkdir()
        frame[:50].write_csv(source / "1.csv")
        frame[50:50].write_csv(source / "2.csv")
        last = frame[50:]
        last.write_parquet(source / "3.parquet") if kind == "parquet" else last.write_ipc(
            source / "3.arrow"
        )
        (source / ".4.csv").write_text("still being written")
        (source / "readme.md").write_text("no table")
    found, verdicts = follow(
        model, source, tmp_path / out, keep=["serial"], batch_rows=30, page=tmp_path / "s.html"
    )
    assert (found.rows, found.judged, found.notes) == (95, 95, {})
    assert found.alarms == (verdicts["decision"] < 0).sum()
    assert verdicts["row"].to_list() == list(range(1, 96))
    assert verdicts["serial"].to_list() == frame["serial"].to_list()
    same(verdicts, scored(model, frame, tmp_path))
    if kind in ("folder", "parquet"):
        assert verdicts["file"].value_counts().height == 2
    page = (tmp_path / "s.html").read_text()
    assert "95" in page
    assert "the source ended" in page
    assert 'http-equiv="refresh"' not in page


def test_file_may_grow_by_any_pieces(model, tmp_path):
    data = rows(60).write_csv().encode()
    source, out = tmp_path / "rows.csv", tmp_path / "v.csv"
    source.write_bytes(data[:500])
    said, heard = [], threading.Event()

    def hear(told):
        said.append(told)
        heard.set()

    def add():
        heard.wait(60)
        for start in range(500, len(data), 211):
            with source.open("ab") as file:
                file.write(data[start : start + 211])
            time.sleep(0.005)

    writer = threading.Thread(target=add)
    writer.start()
    found = watch(
        model, source, out, rows=60, batch_seconds=0.02, keep=["serial"], on_batch=hear,
        idle_timeout=60,
    )  # fmt: skip
    writer.join()
    verdicts = pl.read_csv(out)
    assert found.ended == "rows"
    assert verdicts["serial"].to_list() == rows(60)["serial"].to_list()
    same(verdicts, scored(model, rows(60), tmp_path))
    assert sum(told.batch.rows for told in said) == 60
    assert len(said) > 1


def test_unfinished_line_waits(model, tmp_path):
    source, out = tmp_path / "rows.csv", tmp_path / "v.csv"
    text = rows(3).write_csv()
    source.write_text(text[:-3])
    found, verdicts = follow(model, source, out)
    assert verdicts.height == 2
    assert "has no line end yet" in found.remarks[-1]
    source.write_text(text)
    found, verdicts = follow(model, source, out)
    assert verdicts.height == 3
    assert found.remarks == []


@pytest.mark.parametrize("while_it_runs", [False, True])
@pytest.mark.parametrize("how", ["replaced", "cut", "without a header"])
def test_replaced_file_is_read_from_its_beginning(model, tmp_path, how, while_it_runs):
    source, out = tmp_path / "rows.csv", tmp_path / "v.csv"
    rows(20).write_csv(source)
    new = rows(10, seed=9)
    has_header = how != "without a header"
    new = new.select("kind", "flow", "bar", "serial") if has_header else new

    def change():
        if how != "cut":
            new.write_csv(tmp_path / "new.csv", include_header=has_header)
            os.replace(tmp_path / "new.csv", source)
        else:
            source.write_text("")
            new.write_csv(source)

    if while_it_runs:
        told = threading.Event()
        thread = threading.Thread(target=lambda: (told.wait(30), change()))
        thread.start()
        found = watch(
            model, source, out, rows=30, batch_seconds=0, keep=["serial"], idle_timeout=30,
            on_batch=lambda _: told.set(),
        )  # fmt: skip
        thread.join()
    else:
        follow(model, source, out, keep=["serial"])
        change()
        found = watch(model, source, out, **ONCE, keep=["serial"])
    assert found.notes == {"source began again": 1}
    verdicts = pl.read_csv(out)
    assert verdicts["row"].to_list() == list(range(1, 31))
    assert verdicts["serial"].to_list() == [*rows(20)["serial"], *new["serial"]]
    same(verdicts[20:], scored(model, new, tmp_path))


def test_unreadable_replacement_is_skipped(model, tmp_path):
    source, out = tmp_path / "rows.csv", tmp_path / "v.csv"
    rows(10).write_csv(source)
    follow(model, source, out)
    for bad in (b"\x1f\x8b packed", b"bar,bar\n1,2\n3,4\n"):
        source.write_bytes(bad)
        found, _ = follow(model, source, out)
        assert (found.rows, found.ended) == (10, "source")
    rows(5).write_csv(source)
    found, verdicts = follow(model, source, out)
    assert (found.rows, verdicts.height) == (15, 15)


BROKEN = {
    "1.0": "broken line",
    "P,1.0,2.0,a,b": "broken line",
    'P,1.0,"2.0,a': "broken line",
    "Q,\udc81,2.0,a": "broken line",
    "P,é\udcff,2.0,a": "broken line",
    "P,\udcff,2.0,a": "cell that is no number or date",
    "P,one,2.0,a": "cell that is no number or date",
    "P,inf,2.0,a": "cell that is no number or date",
    ",,,": "row without any value",
}


@pytest.mark.parametrize(
    ("line", "place"), list(zip(BROKEN, [0, 7, 19, 0, 7, 0, 7, 19, 0], strict=True))
)
def test_bad_row_is_noted_alone(model, tmp_path, line, place):
    frame, source = rows(20), tmp_path / "rows.csv"
    header, *lines = frame.write_csv().splitlines()
    lines.insert(place, line)
    text = "\n".join([header, *lines, ""])
    source.write_bytes(text.encode(errors="surrogateescape"))
    more = frame.write_csv().splitlines()[1:5]  # closes what was left open
    with source.open("a") as file:
        file.write("\n".join([*more, ""]))
    found, verdicts = follow(
        model, source, tmp_path / "v.csv", batch_rows=6, page=tmp_path / "s.html"
    )
    assert found.notes == {BROKEN[line]: 1}
    assert (found.rows, found.judged) == (25, 24)
    assert verdicts["row"].to_list() == [k for k in range(1, 26) if k != place + 1]
    same(verdicts, scored(model, pl.concat([frame, frame[:4]]), tmp_path))
    assert BROKEN[line] in (tmp_path / "s.html").read_text()


@pytest.mark.parametrize("kind", ["file", "folder", "input"])
def test_long_record_is_noted_alone(model, tmp_path, monkeypatch, kind):
    frame, source = rows(20), tmp_path / "rows"
    source.mkdir()
    header, *lines = frame.write_csv().encode().splitlines()
    lines[10:10] = [b"x" * 3000, b'P,"' + b"y" * 3000]
    (source / "rows.csv").write_bytes(b"\n".join([header, *lines, b""]))
    monkeypatch.setattr(sources, "BLOCK", 256)
    if kind == "input":
        data = io.BytesIO((source / "rows.csv").read_bytes())
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(data))
    name = {"file": source / "rows.csv", "folder": source, "input": "-"}[kind]
    settings = {"max_record_bytes": 1000, "keep": ["serial"]}
    if kind == "input":
        found, verdicts = follow(model, name, tmp_path / "v.csv", **settings)
    else:  # and a start behind them
        follow(model, name, tmp_path / "v.csv", rows=12, batch_rows=5, **settings)
        found, verdicts = follow(model, name, tmp_path / "v.csv", **settings)
    assert found.notes == {"broken line": 2}
    assert (found.rows, found.judged) == (22, 20)
    assert verdicts["serial"].to_list() == frame["serial"].to_list()
    assert verdicts["row"].to_list() == [*range(1, 11), *range(13, 23)]


def test_encoding_is_found_as_by_fit(tmp_path):
    frame = rows(60).rename({"bar": "Druck (für 1 µm)"})
    frame.write_csv(tmp_path / "utf-8.csv")
    text = (tmp_path / "utf-8.csv").read_text(encoding="utf-8")
    (tmp_path / "windows.csv").write_bytes(text.encode("cp1252"))
    table = read_table(tmp_path / "windows.csv")
    assert table.columns == frame.columns
    fit_table(table.drop("serial"), detectors=["gmm"]).save(tmp_path / "m")
    for name in ("utf-8.csv", "windows.csv"):
        out = tmp_path / f"verdicts of {name}"
        follow(tmp_path / "m", tmp_path / name, out, rows=20)
        assert follow(tmp_path / "m", tmp_path / name, out)[0].judged == 60


def test_encoding_found_in_a_row_stays_after_a_restart(model, tmp_path):
    source, out = tmp_path / "rows.csv", tmp_path / "v.csv"
    header, *lines = rows(4).write_csv().splitlines()
    # The last two bytes are a sign of UTF-8, too.
    for line, serial in zip(lines, [b"P", b"P\xe4", b"Q", b"\xc3\xa4"], strict=True):
        with source.open("ab") as file:
            file.write(b"" if file.tell() else f"{header}\n".encode())
            file.write(serial + line[6:].encode() + b"\n")
        _, verdicts = follow(model, source, out, keep=["serial"])
    assert verdicts["serial"].to_list() == ["P", "P\xe4", "Q", "\xc3\xa4"]


def test_unusable_files_of_a_folder_are_noted(model, tmp_path):
    source = tmp_path / "rows"
    source.mkdir()
    rows(10).write_csv(source / "1.csv")
    rows(10).with_columns(bar=pl.lit("ERR")).write_csv(source / "2.csv")
    rows(10).drop("bar").write_csv(source / "3.csv")
    rows(10).with_columns(bar=pl.lit([1.0])).write_parquet(source / "4.parquet")
    (source / "5.csv").write_bytes(b"\x1f\x8b packed")
    (source / "6.csv").write_bytes(b"")
    rows(10).write_csv(source / "7.csv")
    found, verdicts = follow(model, source, tmp_path / "v.csv")
    assert found.judged == verdicts.height == 20
    assert found.notes == {
        "cell that is no number or date": 20, "missing column": 10, "file that cannot be read": 1,
    }  # fmt: skip
    again, verdicts = follow(model, source, tmp_path / "v.csv")
    assert (again.rows, verdicts.height) == (50, 20)


@pytest.mark.parametrize("out", ["v.csv", "v"])
def test_kept_columns_may_be_of_any_type(model, tmp_path, out):
    source = tmp_path / "rows"
    source.mkdir()
    if out == "v":
        (tmp_path / out).mkdir()
    kept = [pl.lit(7), pl.lit("seven"), pl.lit([1, 2]), pl.lit(b"7"), pl.lit(None)]
    for place, value in enumerate(kept):
        rows(4).with_columns(serial=value).write_parquet(source / f"{place}.parquet")
    rows(4).drop("serial").write_csv(source / "9.csv")
    _, verdicts = follow(model, source, tmp_path / out, keep=["serial"])
    assert verdicts["serial"].to_list()[:8] == ["7"] * 4 + ["seven"] * 4
    assert verdicts["serial"].to_list()[-8:] == [None] * 8
    assert verdicts.height == 24


def test_rows_with_bytes_are_noted(model, tmp_path):
    source = tmp_path / "rows"
    source.mkdir()
    rows(4).with_columns(kind=pl.lit(b"\xff")).write_parquet(source / "1.parquet")
    rows(4).write_parquet(source / "2.parquet")
    found, verdicts = follow(model, source, tmp_path / "v.csv")
    assert found.notes == {"cell that is no number or date": 4}
    assert verdicts["row"].to_list() == [5, 6, 7, 8]


def test_moved_output_raises(model, tmp_path):
    source, out = tmp_path / "rows.csv", tmp_path / "v.csv"
    rows(30).write_csv(source)
    told = []

    def move(_):
        told.append(1)
        if len(told) == 3:
            out.rename(tmp_path / "moved.csv")

    with pytest.raises(ValueError, match="another process has changed it"):
        watch(model, source, out, **ONCE | {"jobs": 1}, batch_rows=5, on_batch=move)
    out.unlink()  # empty
    (tmp_path / "moved.csv").rename(out)
    _, verdicts = follow(model, source, out)
    assert verdicts["row"].to_list() == list(range(1, 31))


def test_failure_to_write_the_page_is_a_remark(model, tmp_path):
    rows(30).write_csv(tmp_path / "rows.csv")
    folder = tmp_path / "pages"
    folder.mkdir()
    found = watch(
        model, tmp_path / "rows.csv", tmp_path / "v.csv", **ONCE, batch_rows=5, batch_seconds=0,
        page=folder / "s.html", on_batch=lambda _: folder.exists() and shutil.rmtree(folder),
    )  # fmt: skip
    assert found.judged == 30
    assert found.remarks == ["The page could not be written: No such file or directory."]


def test_late_file_is_read(model, tmp_path):
    source = tmp_path / "rows"
    source.mkdir()
    rows(5).write_csv(source / "b.csv")
    follow(model, source, tmp_path / "v.csv")
    rows(4).write_csv(source / "a.csv")
    found, verdicts = follow(model, source, tmp_path / "v.csv")
    assert verdicts["file"].to_list() == ["b.csv"] * 5 + ["a.csv"] * 4
    assert found.rows == 9


def test_file_is_read_when_it_has_settled(model, tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "SETTLED", 0.3)
    source = tmp_path / "rows"
    source.mkdir()
    rows(5).write_csv(source / "a.csv")
    began = time.time()
    os.utime(source / "a.csv", (began, began + 3600))  # a clock that is wrong
    follow(model, source, tmp_path / "v.csv")
    assert time.time() - began >= 0.3


@pytest.mark.parametrize("write", ["%d.%m.%Y %H:%M", None])
def test_row_that_steps_back_in_time_is_noted(model, tmp_path, write):
    minutes = [0, 1, 2, 1, 2, 3, 9000, 4, 5, None, 6]
    frame = rows(len(minutes)).with_columns(minute=pl.Series(minutes, dtype=pl.Int64))
    if write is not None:
        moments = pl.datetime(2026, 1, 1) + pl.duration(minutes=pl.col("minute"))
        frame = frame.with_columns(minute=moments.dt.strftime(write))
    frame.write_csv(tmp_path / "rows.csv")
    for batch_rows in (2, 100):
        found, verdicts = follow(
            model, tmp_path / "rows.csv", tmp_path / f"{batch_rows}.csv", time_column="minute",
            batch_rows=batch_rows,
        )  # fmt: skip
        assert found.notes == {"clock went backwards": 2, "time that cannot be read": 1}
        assert verdicts["row"].to_list() == [1, 2, 3, 5, 6, 7, 9, 11]


def test_a_time_column_that_was_misspelt_can_be_corrected(model, tmp_path):
    frame = rows(6).with_columns(t=pl.int_range(6))
    frame.write_csv(tmp_path / "rows.csv")
    with pytest.raises(ValueError, match="There is no column 'tt'"):
        watch(model, tmp_path / "rows.csv", tmp_path / "v.csv", **ONCE, time_column="tt")
    found, _ = follow(model, tmp_path / "rows.csv", tmp_path / "v.csv", time_column="t")
    assert found.judged == 6


def test_missing_columns_are_named_at_the_end(model, tmp_path):
    """Of files in a folder, which may differ."""
    (tmp_path / "rows").mkdir()
    rows(6).write_csv(tmp_path / "rows" / "1.csv")
    found = watch(model, tmp_path / "rows", tmp_path / "v.csv", **ONCE, time_column="tt")
    assert found.notes == {"missing column": 6}
    assert found.remarks == ["The latest row with a missing column lacks 'tt'."]


def test_time_of_last_row_is_saved(model, tmp_path):
    source, out = tmp_path / "rows.csv", tmp_path / "v.csv"
    frame = rows(6).with_columns(t=pl.Series([1, 2, 3, 2, 3, 4]))
    frame[:3].write_csv(source)
    follow(model, source, out, time_column="t")
    frame.write_csv(source)
    found, verdicts = follow(model, source, out, time_column="t")
    assert found.notes == {"clock went backwards": 1}
    assert verdicts["row"].to_list() == [1, 2, 3, 5, 6]


def test_standard_input_continues_or_is_replayed(model, tmp_path, monkeypatch):
    def pipe(frame):
        text = io.BytesIO(frame.write_csv().encode())
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(text))

    out = tmp_path / "v.csv"
    pipe(rows(10))
    follow(model, "-", out, keep=["serial"])
    pipe(rows(14)[10:])
    found, verdicts = follow(model, "-", out, keep=["serial"])
    assert verdicts["serial"].to_list() == rows(14)["serial"].to_list()
    assert verdicts["row"].to_list() == list(range(1, 15))
    out = tmp_path / "again.csv"
    pipe(rows(10))
    follow(model, "-", out, keep=["serial"])
    pipe(rows(14))
    found, verdicts = follow(model, "-", out, keep=["serial"], replayed=True)
    assert verdicts["serial"].to_list() == rows(14)["serial"].to_list()
    assert found.rows == 14


def test_decimal_commas_stay_after_a_restart(tmp_path):
    """Decimal commas are settled by the first rows, also where the next ones could be either."""
    frame = rows(40).select("bar", "flow")
    fit_table(rows(300, seed=0).select("bar", "flow"), detectors=["gmm"]).save(tmp_path / "m")
    lines = [f"{bar};{flow}".replace(".", ",") for bar, flow in frame.iter_rows()]
    source = tmp_path / "rows.csv"
    source.write_text("\n".join(["bar;flow", *lines[:30], ""]))
    follow(tmp_path / "m", source, tmp_path / "v.csv")
    source.write_text("\n".join(["bar;flow", *lines, ""]))
    _, verdicts = follow(tmp_path / "m", source, tmp_path / "v.csv")
    same(verdicts, scored(tmp_path / "m", frame, tmp_path))


# ---------------------------------------------------------------------------------- what is refused


def test_header_without_needed_columns_raises(model, tmp_path):
    rows(5).drop("flow").write_csv(tmp_path / "rows.csv")
    with pytest.raises(ValueError, match="lack 1 column"):
        watch(model, tmp_path / "rows.csv", tmp_path / "v.csv", **ONCE)
    rows(5).write_csv(tmp_path / "rows.csv")  # and nothing is in the way of the right file
    assert watch(model, tmp_path / "rows.csv", tmp_path / "v.csv", **ONCE).judged == 5


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"keep": ["kind"]}, "another list of kept columns"),
        ({"time_column": "bar"}, "another time column"),
        ({"drift_level": 0.5}, "another level of drift"),
        ({"source": "other.csv"}, "another source"),
    ],
)
def test_state_of_other_settings_raises(model, tmp_path, change, told):
    rows(5).write_csv(tmp_path / "rows.csv")
    rows(5).write_csv(tmp_path / "other.csv")
    watch(model, tmp_path / "rows.csv", tmp_path / "v.csv", **ONCE)
    before = (tmp_path / "v.csv").read_bytes()
    source = tmp_path / change.pop("source", "rows.csv")
    with pytest.raises(ValueError, match=f"{told}.*remove that folder"):
        watch(model, source, tmp_path / "v.csv", **ONCE | change)
    assert (tmp_path / "v.csv").read_bytes() == before


def test_state_of_another_model_raises(model, tmp_path):
    rows(5).write_csv(tmp_path / "rows.csv")
    watch(model, tmp_path / "rows.csv", tmp_path / "v.csv", **ONCE)
    fit_table(rows(100).drop("serial"), detectors=["gmm"]).save(tmp_path / "m")
    with pytest.raises(ValueError, match="another model"):
        watch(tmp_path / "m", tmp_path / "rows.csv", tmp_path / "v.csv", **ONCE)


def test_output_without_state_raises(model, tmp_path):
    rows(5).write_csv(tmp_path / "rows.csv")
    (tmp_path / "v.csv").write_text("mine\n")
    with pytest.raises(ValueError, match="exists but has no matching state file"):
        watch(model, tmp_path / "rows.csv", tmp_path / "v.csv", **ONCE)
    (tmp_path / "v").mkdir()
    (tmp_path / "v" / "mine").write_text("mine")
    with pytest.raises(ValueError, match="holds files but has no matching state file"):
        watch(model, tmp_path / "rows.csv", tmp_path / "v", **ONCE)
    with pytest.raises(ValueError, match="The output is the source"):
        watch(model, tmp_path / "rows.csv", tmp_path / "rows.csv", **ONCE)
    assert (tmp_path / "v.csv").read_text() == "mine\n"
    (tmp_path / "v.csv").unlink()
    watch(model, tmp_path / "rows.csv", tmp_path / "v.csv", **ONCE)
    (tmp_path / "v.csv").write_text("short")
    with pytest.raises(ValueError, match="another process has changed it"):
        watch(model, tmp_path / "rows.csv", tmp_path / "v.csv", **ONCE)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"out": "v.xlsx"}, "must be a .csv or .jsonl file, or a folder"),
        ({"out": "-"}, "must be a .csv or .jsonl file, or a folder"),
        ({"keep": ["row"]}, "'row' cannot be kept"),
        ({"keep": ["nothing"]}, "There is no column 'nothing'"),
        ({"time_column": "whenn"}, "There is no column 'whenn'"),
        ({"batch_rows": 0}, "batch_rows must be a whole number"),
        ({"on_drift": "'open"}, "cannot be split into words"),
        ({"replayed": True}, "replayed is for standard input"),
        ({"source": "rows.parquet"}, "is not a CSV file"),
        ({"source": "none.csv"}, "There is no file"),
        ({"source": "wide.csv"}, "is UTF-16"),
    ],
)
def test_invalid_settings_raise(model, tmp_path, options, told):
    rows(5).write_csv(tmp_path / "rows.csv")
    rows(5).write_parquet(tmp_path / "rows.parquet")
    (tmp_path / "wide.csv").write_bytes(rows(5).write_csv().encode("utf-16"))
    source = tmp_path / options.pop("source", "rows.csv")
    out = options.pop("out", "v.csv")
    out = out if out == "-" else tmp_path / out
    with pytest.raises((ValueError, FileNotFoundError), match=told):
        watch(model, source, out, **ONCE | options)
    assert not (tmp_path / "v.csv").exists()


def test_full_disk_loses_no_row(model, tmp_path):
    resource = pytest.importorskip("resource", reason="limits of file sizes are of POSIX")
    source, out = tmp_path / "rows.csv", tmp_path / "v.csv"
    rows(3000).write_csv(source)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, before[1]))
    try:
        with pytest.raises(OSError, match="Free disk space, then start again"):
            watch(model, source, out, **ONCE, batch_rows=100, batch_seconds=0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    found, verdicts = follow(model, source, out, batch_rows=100)
    assert found.resumed
    assert verdicts["row"].to_list() == list(range(1, 3001))


# -------------------------------------------------------------------------------------- the page


def test_page_escapes_content_of_rows(model, tmp_path):
    hostile = "<script>alert(1)</script>"
    frame = rows(40).with_columns(serial=pl.lit(hostile), bar=pl.col("bar") * 9)
    frame.write_csv(tmp_path / "rows.csv")
    with (tmp_path / "rows.csv").open("a") as file:
        file.write(f"{hostile},<img src=x>,2.0,a\n")
    page = tmp_path / "s.html"
    found, _ = follow(model, tmp_path / "rows.csv", tmp_path / "v.csv", page=page, keep=["serial"])
    assert found.alarms
    text = page.read_text()
    assert hostile not in text
    assert "<img" not in text
    assert "&lt;script&gt;" in text
    assert "default-src &#39;none&#39;" in text or "default-src 'none'" in text
    assert not re.search(r"https?://", text)


def test_page_reloads_until_the_end(model, tmp_path):
    source, page, seen = tmp_path / "rows.csv", tmp_path / "s.html", []
    rows(30).write_csv(source)

    def look(_):
        seen.append(page.read_text() if page.exists() else "")

    options = {"batch_rows": 5, "page": page, "batch_seconds": 0, "jobs": 1, "on_batch": look}
    watch(model, source, tmp_path / "v.csv", rows=30, **options)
    assert any('http-equiv="refresh"' in text for text in seen)
    assert 'http-equiv="refresh"' not in page.read_text()


# ------------------------------------------------------------------------------------------- drift


def drifting(tmp_path):
    """Rows that are all right, and then are not."""
    frame = pl.concat([rows(1500, seed=3), rows(1500, seed=4, shift=0.15)])
    frame.write_csv(tmp_path / "rows.csv")
    return tmp_path / "rows.csv"


def test_drift_is_declared_and_command_runs_once(model, tmp_path):
    source, out, told = drifting(tmp_path), tmp_path / "v.csv", tmp_path / "told"
    said = "sys.stdin.read() + os.environ['LPFUSE_KIND']"
    code = f"import sys, os; open({str(told)!r}, 'a').write({said})"
    options = {
        "on_drift": f'{sys.executable} -c "{code}"',
        "batch_rows": 100,
        "page": tmp_path / "s.html",
    }
    found, _ = follow(model, source, out, **options, until_drift=True)
    assert found.ended == "drift"
    assert found.drift["hook"] == "ended well"
    assert 1300 < found.drift["since"] < 1600 <= found.drift["row"] + 100
    assert found.rows < 3000
    facts, _, kind = told.read_text().partition("}")
    assert json.loads(facts + "}")["kind"] == kind == found.drift["kind"]
    again, _ = follow(model, source, out, **options, until_drift=True)
    assert (again.ended, again.rows) == ("drift", found.rows)
    whole, verdicts = follow(model, source, out, **options)
    assert (whole.rows, verdicts.height) == (3000, 3000)
    assert whole.drift == found.drift
    assert told.read_text().count("}") == 1
    page = (tmp_path / "s.html").read_text()
    assert "Drift: " in page
    assert "column:bar" in page


@pytest.mark.parametrize("command", ["false", "there-is-no-such-command"])
def test_failing_command_is_a_remark(model, tmp_path, command):
    found, verdicts = follow(model, drifting(tmp_path), tmp_path / "v.csv", on_drift=command)
    assert verdicts.height == 3000
    assert "exit code 1" in found.drift["hook"] or "could not be run" in found.drift["hook"]
    assert command == "false" or "could not be run" in found.remarks[0]


def test_reference_replaces_training_rows(model, tmp_path):
    """Rows that have moved are what usually comes, where the reference says so."""
    shifted = rows(1500, seed=4, shift=0.15)
    shifted.write_csv(tmp_path / "rows.csv")
    rows(1500, seed=8, shift=0.15).write_csv(tmp_path / "usual.csv")
    files = model, tmp_path / "rows.csv"
    assert watch(*files, tmp_path / "a.csv", **ONCE).drift is not None
    usual = {"reference": tmp_path / "usual.csv"}
    assert watch(*files, tmp_path / "b.csv", **ONCE, **usual).drift is None
    with pytest.raises(ValueError, match="another reference"):
        watch(*files, tmp_path / "b.csv", **ONCE)
    (tmp_path / "wrong.csv").write_text("bar,flow,kind\n2.5,7.5,a\n2.5,much,a\n")
    with pytest.raises(ValueError, match="row 3 holds 'much'"):  # as a spreadsheet counts
        watch(*files, tmp_path / "c.csv", **ONCE, reference=tmp_path / "wrong.csv")


def test_missing_kafka_client_names_the_extra(model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(ImportError, match=r'pip install "lpfuse\[kafka\]"'):
        watch(model, "kafka://localhost:9092/rows", tmp_path / "v.csv")


def test_large_batches_are_sampled_for_drift(model, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "DRIFT_ROWS", 600)
    source = drifting(tmp_path)
    found, _ = follow(model, source, tmp_path / "v.csv", batch_rows=3000)
    assert 1300 < found.drift["since"] < 1700


def test_command_exits_with_4_on_drift(model, tmp_path):
    source = drifting(tmp_path)
    config = tmp_path / "watch.toml"
    config.write_text("batch-rows = 500")
    words = ["watch", model, source, "-o", tmp_path / "v.csv", "--once", "--config", config]
    answer = CliRunner().invoke(app, [*map(str, words), "--until-drift", "--json"])
    assert answer.exit_code == 4
    lines = [json.loads(line) for line in answer.stdout.splitlines()]
    assert lines[-1]["drift"]["kind"] == "normal has changed"
    assert lines[0]["rows"] == 500
    answer = CliRunner().invoke(app, list(map(str, words)))
    assert (answer.exit_code, answer.stdout) == (0, "")
    last = answer.stderr.splitlines()[-1]
    assert last.startswith("The source has ended. 3,000 rows in all, 3,000 judged")
    missing = CliRunner().invoke(app, ["watch", str(model), "none.csv", "-o", "v.csv"])
    assert missing.exit_code == 2
    assert "There is no file" in missing.stderr


def test_command_reads_csv_as_told(tmp_path):
    """Tabs and commas are found; that apostrophes are no quotes must be said."""
    fit_table(rows(100, seed=0).select("bar", "flow"), detectors=["gmm"]).save(tmp_path / "m")
    (tmp_path / "rows.csv").write_bytes(
        "bar\tflow\tñ\n2,5\t7,1\t'a\n2,6\t7,2\tñ'\n".encode("cp1252")
    )
    words = ["watch", "m", "rows.csv", "-o", "v.csv", "--once", "--json", "--keep", "ñ"]
    settings = 'separator = "tab"\ndecimal = ","\nencoding = "cp1252"\nquote = "none"\n'
    (tmp_path / "w.toml").write_text(settings)
    words = [str(tmp_path / each) if (tmp_path / each).exists() else each for each in words]
    words[words.index("v.csv")] = str(tmp_path / "v.csv")
    words += ["--config", str(tmp_path / "w.toml")]
    answer = CliRunner().invoke(app, words)
    assert answer.exit_code == 0, answer.output
    assert pl.read_csv(tmp_path / "v.csv")["ñ"].to_list() == ["'a", "ñ'"]
    (tmp_path / "w.toml").write_text(f"{settings}header = 3")
    answer = CliRunner().invoke(app, words)
    assert answer.exit_code == 2
    assert "there is no setting 'header'" in answer.stderr


def test_command_has_at_most_18_options():
    command = typer.main.get_command(app).commands["watch"]
    options = [each for each in command.params if each.param_type_name == "option"]
    assert len(options) <= 18


def test_unknown_setting_raises(model, tmp_path):
    with pytest.raises(TypeError, match="unexpected keyword argument 'commit_seconds'"):
        watch(model, tmp_path / "rows.csv", tmp_path / "v.csv", commit_seconds=0)
