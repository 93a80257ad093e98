"""Files of people who mean harm, or of tools that broke: bounded, escaped, told, nothing lost."""

import bz2
import gzip
import io
import json
import lzma
import os
import signal
import stat
import subprocess
import sys
import time
import zipfile
import zlib
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from helpers.pumps import pumps, write
from lpfuse_cli.app import app
from lpfuse_cli.scoring import score_file
from lpfuse_cli.tables import read_table, table_writer


@pytest.fixture(scope="module")
def model(small_model_file):
    return small_model_file


@pytest.fixture
def rows(tmp_path):
    return write(pumps(60, seed=5).select("serial", "bar", "flow", "kind"), tmp_path / "new.csv")


def run(*arguments, **options):
    return CliRunner().invoke(app, list(map(str, arguments)), **options)


# ------------------------------------------------------------------------------------ packed files


def zipped(content):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("rows.csv", content)
    return file.getvalue()


ZSTD = bytes.fromhex("28b52ffd2008410000612c620a312c320a")  # "a,b\n1,2\n", not compressed


PACKERS = [gzip.compress, zlib.compress, bz2.compress, lzma.compress, zipped, lambda _: ZSTD]
# One reader serves all commands: each way of packing once, and each command once.
PACKED = [("score", pack) for pack in PACKERS]
PACKED += [(command, gzip.compress) for command in ("fit", "fuse", "ask", "teach")]


@pytest.mark.parametrize(("command", "pack"), PACKED)
def test_packed_tables_are_never_unpacked(tmp_path, model, command, pack):
    path, out = tmp_path / "rows.csv", tmp_path / f"out.{'html' if command == 'ask' else 'csv'}"
    path.write_bytes(pack(b"bar,flow,kind\n" + b"1,2,a\n" * 100_000))
    first = [command, path] if command in ("fit", "fuse") else [command, model, path]
    answer = run(*first, "-o", out)
    assert answer.exit_code == 2
    assert "rows.csv could not be read as CSV: it is packed. Unpack it first" in answer.output
    assert not out.exists()


def test_a_packed_name_is_refused_with_the_way_around(tmp_path):
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n1,2\n"))
    with pytest.raises(ValueError, match=r"not from 'rows\.csv\.gz'.*gunzip -c FILE"):
        read_table(path)


def test_table_larger_than_memory_is_not_read_whole(tmp_path):
    path = tmp_path / "rows.parquet"
    pl.select(a=pl.repeat(False, 2**26)).lazy().select(
        pl.col("a").alias(f"c{i}") for i in range(17)
    ).sink_parquet(path)
    with pytest.raises(ValueError, match="67,108,864 rows of 17 columns, more cells than"):
        read_table(path)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"a," * 100_001 + b"a\n", "more than 100,000 columns"),
        (b"a,b\n1,\x00\n", "NUL bytes"),
    ],
)
def test_what_no_table_looks_like_is_refused(tmp_path, content, told):
    (tmp_path / "rows.csv").write_bytes(content)
    with pytest.raises(ValueError, match=told):
        read_table(tmp_path / "rows.csv")


# ---------------------------------------------------------------------------------------- formulas

CELLS = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "＝1", "\t=1", "-1.5", "+3", "ok", ""]
SAFE = ["'=1+1", "'+cmd|' /C calc'!A0", "'-2+3", "'@SUM(A1)", "'＝1", "'\t=1", "-1.5", "+3", "ok"]


@pytest.fixture
def formulas(tmp_path):
    frame = pumps(len(CELLS), seed=5).select("bar", "flow", "kind")
    names = pl.Series([*CELLS[:-1], None])
    path = tmp_path / "new.parquet"
    frame.with_columns(names.alias("=who"), names.cast(pl.Categorical).alias("who")).write_parquet(
        path
    )
    return path


@pytest.mark.parametrize("name", ["=who", "who"])
def test_formulas_are_neutralised_and_told(model, formulas, tmp_path, name):
    out = tmp_path / "scores.csv"
    answer = run("score", model, formulas, "-o", out, "--keep", name)
    assert answer.exit_code == 0, answer.output
    assert "Note: Texts that a spreadsheet would run as formulas" in answer.output
    kept = pl.read_csv(out, infer_schema=False)
    assert kept.columns[0] == ("'=who" if name == "=who" else "who")
    assert kept.to_series(0).to_list() == [*SAFE, None]


def test_formulas_stay_on_request_or_where_harmless(model, formulas, tmp_path):
    for out, more in (("scores.csv", ["--formulas"]), ("scores.parquet", [])):
        answer = run("score", model, formulas, "-o", tmp_path / out, "--keep", "=who", *more)
        assert "spreadsheet" not in answer.output
        kept = read_table(tmp_path / out)["=who"].to_list()
        assert [text and text.strip() for text in kept] == [*map(str.strip, CELLS[:-1]), None]


def test_numbers_are_no_formulas(tmp_path):
    frame = pl.DataFrame({"a": [-1.5, 2.0], "b": ["-1e-5", "+2"]})
    with table_writer(tmp_path / "out.csv") as add:
        add(frame)
    assert (tmp_path / "out.csv").read_text() == "a,b\n-1.5,-1e-5\n2.0,+2\n"


# ------------------------------------------------------------------------- rows without any value


def test_rows_without_a_value_are_counted_and_not_called_normal(model, rows, tmp_path):
    content = rows.read_text().splitlines()
    content[3:3] = [",,,", "", "S1,,,"]
    rows.write_text("\n".join(content))
    out = tmp_path / "scores.csv"
    answer = run("score", model, rows, "-o", out, "--keep", "serial", "--json")
    assert answer.exit_code == 0, answer.output
    notes = json.loads(answer.stdout)["notes"]
    assert "Left out, for there is no value in it: 2 lines." in notes
    assert any(note.startswith("Not judged") and note.endswith("in 1 row.") for note in notes)
    scored = pl.read_csv(out)
    assert scored.height == 61
    (blank,) = scored.filter(pl.col("serial") == "S1").rows(named=True)
    assert blank.pop("decision") == -1
    assert blank.pop("serial") == "S1"
    assert set(blank.values()) == {None}


@pytest.mark.filterwarnings("ignore:Some detectors could not score some rows")
def test_the_same_rows_of_a_parquet_file(model, tmp_path):
    frame = pumps(20, seed=5).select("bar", "flow", "kind")
    gap = pl.int_range(pl.len()) == 7
    frame = frame.with_columns(pl.when(~gap).then(pl.all()).name.keep())
    frame = frame.with_columns(bar=pl.when(gap).then(np.nan).otherwise("bar"))  # NaN is missing too
    frame.write_parquet(tmp_path / "rows.parquet")
    from lpfuse_cli.scoring import load_model

    done = score_file(load_model(model), tmp_path / "rows.parquet", tmp_path / "out.parquet")
    assert any(note.startswith("Not judged") for note in done.notes)
    scored = pl.read_parquet(tmp_path / "out.parquet")
    assert scored["score"].is_null().to_list() == [i == 7 for i in range(20)]
    assert scored["decision"][7] == -1


def test_fit_reports_empty_lines(rows, tmp_path):
    rows.write_text(rows.read_text() + ",,,\n,,,\n")
    answer = run("fit", rows, "-o", tmp_path / "m.lpfuse", "--detectors", "gmm")
    assert answer.exit_code == 0, answer.output
    assert "new.csv: Left out, for there is no value in it: 2 lines." in answer.output


# ---------------------------------------------------------------------------- names that do harm

HARM = "\x1b]0;owned\x07\x1b[2J\u202e\x9b31m"


def harmless(answer):
    assert all(letter.isprintable() or letter == "\n" for letter in answer.output), answer.output
    assert len(answer.output) < 9000


@pytest.mark.parametrize("text", [HARM, "a" * 10**6, "new\nline"])
def test_no_text_of_a_file_reaches_the_terminal_raw(model, tmp_path, text):
    frame = pumps(60).select("bar", "flow", "kind", "state").rename({"bar": text})
    harm = write(frame, tmp_path / "names.csv")
    cells = write(
        pumps(60)
        .select("bar", "flow", "kind", "state")
        .with_columns(flow=pl.Series([text, *map(str, range(59))])),
        tmp_path / "cells.csv",
    )
    labels = write(pumps(60).with_columns(state=pl.lit(text)), tmp_path / "labels.csv")
    scores = write(
        pl.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), schema=[text, "b"]),
        tmp_path / "scores.csv",
    )
    answers = write(pl.DataFrame({"answer": [text], "chance": [1.0]}), tmp_path / "answers.csv")
    out = tmp_path / "out.lpfuse"
    for command in (
        ["score", model, harm, "-o", tmp_path / "o.csv"],
        ["score", model, cells, "-o", tmp_path / "o.csv"],
        ["score", model, cells, "-o", tmp_path / "o.csv", "--keep", text],
        ["fit", harm, "-o", out, "--label", "state", "--normal", "ok", "--detectors", "gmm"],
        ["fit", cells, "-o", out, "--label", "state", "--normal", "ok"],
        ["fit", cells, "-o", out, "--label", text],
        ["fit", labels, "-o", out, "--label", "state"],
        ["fit", labels, "-o", out, "--drop", text],
        ["fit", labels, "-o", out, "--detectors", text],
        ["fuse", scores],
        ["fuse", scores, "--direction", f"{text}=anomaly"],
        ["fuse", scores, "--json"],
        ["report", model, harm, "-o", tmp_path / "o.html"],
        ["report", model, cells, "-o", tmp_path / "o.html", "--label", "state"],
        ["ask", model, harm, "-o", tmp_path / "o.html"],
        ["ask", model, cells, "-o", tmp_path / "o.html"],
        ["teach", model, harm, "-o", out],
        ["teach", model, answers, "-o", out],
    ):
        answer = run(*command)
        assert answer.exit_code in (0, 2), answer.output
        if "--json" in command:
            assert text in json.loads(answer.stdout)["weights"]
            assert answer.stdout.strip().isprintable()
        else:
            harmless(answer)


def test_names_of_files_are_escaped(model, tmp_path):
    name = "\x1b[2J\u202e\n.csv"
    (tmp_path / name).write_text("bar\n1\n")
    for command in (
        ["score", model, tmp_path / name, "-o", tmp_path / "o.csv"],
        ["score", model, tmp_path / ("no" + name), "-o", tmp_path / "o.csv"],
        ["fit", tmp_path / name, "-o", tmp_path / name],
        ["fit", tmp_path / name, "-o", tmp_path / name / "x"],
        ["report", tmp_path / name],
        ["ask", model, tmp_path / name],
        ["teach", model, tmp_path / name, "-o", tmp_path / "m.lpfuse"],
    ):
        answer = run(*command)
        assert answer.exit_code == 2
        harmless(answer)


# -------------------------------------------------------------------- modes, signals, odd streams


def test_results_keep_the_mode_of_what_they_replace(model, rows, tmp_path):
    for suffix in ("csv", "parquet", "arrow"):
        out = tmp_path / f"scores.{suffix}"
        out.write_text("old")
        out.chmod(0o600)
        assert run("score", model, rows, "-o", out).exit_code == 0
        assert stat.S_IMODE(out.stat().st_mode) == 0o600


def heed_hangups():
    """Tests may run under nohup, which children would inherit."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def command(*arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "lpfuse_cli", *map(str, arguments)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=heed_hangups,
        **options,
    )


@pytest.mark.parametrize(
    ("number", "suffix"), [(signal.SIGTERM, "csv"), (signal.SIGHUP, "parquet")]
)
def test_a_signal_while_scoring_leaves_nothing_behind(model, rows, tmp_path, number, suffix):
    folder = tmp_path / "results"
    folder.mkdir()
    out = folder / f"scores.{suffix}"
    out.write_bytes(b"old")
    with command("score", model, "-", "-o", out, stdin=subprocess.PIPE) as process:
        header, *lines = rows.read_bytes().splitlines(keepends=True)
        process.stdin.write(header + b"".join(lines) * 3000)  # and the rest never comes
        process.stdin.flush()
        for _ in range(600):
            if list(folder.glob("*.tmp")):
                break
            time.sleep(0.1)
        process.send_signal(number)
        process.wait(60)
        process.stdin.close()
    assert process.returncode == 128 + number
    assert [path.name for path in folder.iterdir()] == [out.name]
    assert out.read_bytes() == b"old"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_workers_of_a_fit_end_with_it(tmp_path, number):
    rows = write(pumps(3000), tmp_path / "rows.csv")
    out = tmp_path / "m.lpfuse"
    out.write_bytes(b"old")
    fit = command("fit", rows, "-o", out, "-j", "2", "--drop", "state", start_new_session=True)
    children = Path(f"/proc/{fit.pid}/task/{fit.pid}/children")
    with fit:
        while fit.poll() is None and len(children.read_text().split()) < 3:
            time.sleep(0.05)
        fit.send_signal(number)
        fit.wait(60)
    assert fit.returncode == 128 + number
    assert out.read_bytes() == b"old"
    for _ in range(100):  # the tracker of joblib's resources tidies up, and ends last
        try:
            os.killpg(fit.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    pytest.fail("workers are left")


def test_a_stream_without_lines_is_given_up():
    with open("/dev/zero", "rb") as zeros, command("fuse", "-", stdin=zeros) as process:
        _, told = process.communicate(timeout=120)
    assert process.returncode == 2
    assert b"a row is longer than 64 MiB" in told


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "folder"])
def test_what_is_no_file_is_refused_both_ways(model, rows, tmp_path, make):
    odd = tmp_path / "odd.csv"
    make(odd)
    for arguments in (
        ["score", model, odd, "-o", tmp_path / "o.csv"],
        ["score", odd, rows, "-o", tmp_path / "o.csv"],
        ["score", model, rows, "-o", odd],
        ["fit", odd, "-o", tmp_path / "m.lpfuse"],
        ["fit", rows, "-o", odd],
        ["fuse", odd],
        ["report", model, odd],
        ["report", model, "-o", odd],
        ["card", odd],
        ["card", model, "-o", odd],
        ["ask", model, odd],
        ["ask", model, rows, "-o", odd],
        ["teach", model, odd, "-o", tmp_path / "m.lpfuse"],
        ["teach", model, rows, "-o", odd],
    ):
        answer = run(*arguments)
        assert answer.exit_code == 2, answer.output
    assert {path.name for path in tmp_path.iterdir()} == {"odd.csv", "new.csv"}
