"""Whatever goes wrong: one sentence with a remedy, an exit code, nothing lost or half-written."""

import os
import re
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from helpers.pumps import pumps, write
from lpfuse_cli.app import app


@pytest.fixture(scope="module")
def model(small_model_file):
    return small_model_file


@pytest.fixture
def folder(tmp_path, model, monkeypatch):
    """Files good and bad, in the current folder."""
    monkeypatch.chdir(tmp_path)
    frame = pumps(60)
    shutil.copy(model, "m.lpfuse")
    write(frame, tmp_path / "good.csv")
    write(frame, tmp_path / "good.parquet")
    write(frame, tmp_path / "good.arrow")
    write(frame.clear(), tmp_path / "no_rows.csv")
    write(frame.drop("bar", "kind"), tmp_path / "lacking.csv")
    write(frame.rename({"bar": "baar"}), tmp_path / "misspelt.csv")
    write(frame.with_columns(state=pl.lit("ok")), tmp_path / "one_label.csv")
    write(frame.with_columns(state=pl.lit(None)), tmp_path / "no_labels.csv")
    write(frame.with_columns(state=pl.int_range(pl.len()) % 2), tmp_path / "zero_one.csv")
    cells = pl.Series([*map(str, frame["flow"][:-1]), "broken"])
    write(frame.with_columns(flow=cells), tmp_path / "text.csv")
    write(frame.with_columns(flow=pl.lit(np.inf)), tmp_path / "infinite.csv")
    files = {
        "empty.csv": b"",
        "blank.csv": b"\n\n \n",
        "strange.csv": b"bar,flow,kind\n1,2,\x81\n",
        "ragged.csv": b"bar,flow,kind\n1,2,a\n1,2,3,4\n",
        "quote.csv": b'bar,flow,kind\n1,2,"a\n3,4,b\n',
        "twice.csv": b"bar,bar,kind\n1,2,a\n",
        "text.parquet": b"bar,flow\n1,2\n",
        "text.arrow": b"bar,flow\n1,2\n",
        "torn.parquet": (tmp_path / "good.parquet").read_bytes()[:-20],
        "torn.arrow": (tmp_path / "good.arrow").read_bytes()[:-20],
        "table.xlsx": b"PK",
        "text.lpfuse": b"a model, believe me",
        "torn.lpfuse": model.read_bytes()[:-100],
        "empty.lpfuse": b"",
    }
    flipped = bytearray(model.read_bytes())
    flipped[len(flipped) // 2] ^= 1
    files["flipped.lpfuse"] = bytes(flipped)
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder.csv").mkdir()
    return tmp_path


def contents(folder):
    return {path.name: path.read_bytes() if path.is_file() else None for path in folder.iterdir()}


def complaint(*arguments, code=2):
    """The one sentence that a command ends with."""
    before = contents(Path())
    answer = CliRunner().invoke(app, [*arguments, "-q"])
    assert answer.exit_code == code
    assert isinstance(answer.exception, SystemExit)  # no traceback
    assert answer.stdout == ""
    assert answer.stderr.startswith("Error: ")
    assert answer.stderr.count("\n") == 1
    assert contents(Path()) == before
    return answer.stderr


FIT = ["-o", "new.lpfuse", "--detectors", "gmm"]
SCORE = ["-o", "new.csv"]

TABLES = [
    ("nowhere.csv", "There is no file 'nowhere.csv'. Check its path."),
    ("folder.csv", "'folder.csv' is not a file. Name one table"),
    ("table.xlsx", "table.xlsx could not be read as a spreadsheet: File is not a zip file. Open"),
    ("empty.csv", "empty.csv could not be read as CSV: empty CSV. Check that it is complete"),
    ("ragged.csv", "ragged.csv could not be read as CSV: row 3 has 4 cells, and the header 3. Put"),
    (
        "quote.csv",
        "quote.csv could not be read as CSV: quotes stand within cells, or are never closed",
    ),
    ("strange.csv", "strange.csv could not be read as CSV: the byte 0x81 is not CP1252. Save it"),
    ("twice.csv", "two columns are called 'bar'"),
    ("text.parquet", "text.parquet could not be read as PARQUET"),
    ("torn.parquet", "torn.parquet could not be read as PARQUET"),
    ("text.arrow", "text.arrow could not be read as ARROW"),
    ("torn.arrow", "torn.arrow could not be read as ARROW"),
]


@pytest.mark.parametrize(("name", "told"), TABLES)
def test_tables_that_are_none(folder, name, told):
    assert told in complaint("fit", name, *FIT)
    assert told in complaint("fuse", name, "-o", "new.csv")
    assert told in complaint("score", "m.lpfuse", name, *SCORE)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["no_rows.csv"], "The table has no rows."),
        (["blank.csv"], "The table has no rows."),
        (["good.csv", "--label", "status"], "no column 'status'. Did you mean 'state'? There are"),
        (["good.csv", "--label", "state"], "Which is normal? Say --normal "),
        (["good.csv", "--label", "state", "--anomaly", "wrn"], "Did you mean 'worn'? Say --normal"),
        (["zero_one.csv", "--label", "state"], "Which is normal? Say --normal 0"),
        (["good.csv", "--label", "state", "--normal", "okay"], "'okay'. Did you mean 'ok'?"),
        (["good.csv", "--normal", "ok"], "but not in which column. Name it: --label"),
        (["one_label.csv", "--label", "state"], "Say --normal ok (60 normal rows, 0 anomalies)."),
        (["no_labels.csv", "--label", "state"], "is empty. Name another column, or none"),
        (["text.csv"], "numbers, but for 1 of 60 rows: row 61 holds 'broken'. Correct"),
        (["infinite.csv", "--features", "flow"], "it holds inf in every row"),
        (["good.csv", "--detectors", "svmm"], "There is no detector 'svmm'"),
        (["good.csv", "--detectors", "pyod:ECODE"], "PyOD has no detector 'ECODE'"),
        (["good.csv", "--detectors", "gmm,gmm"], "'gmm' occurs twice"),
        (["good.csv", "--p", "0.5"], "p must be in [1, inf], got 0.5. Use --p 1 for"),
        (["good.csv", "--p", "-1"], "for the sparsest weights and --p inf for the most even"),
        (["good.csv", "--confidence", "1"], "ten, or leave the option out."),
        (["good.csv", "--jobs", "0"], "--jobs must be at least 1, or -1 for all cores; got 0."),
        (["good.csv", "--p", "high"], "--p must be \"auto\" or a number in [1, inf], got 'high'"),
        (["good.csv", "--false-alarm-rate", "5"], "write 0.05 for 5 %"),
        (["good.csv", "--drop", "bars"], "There is no column 'bars'. Did you mean 'bar'?"),
        (["good.csv", "--features", "sate"], "There is no column 'sate'. Did you mean 'state'?"),
    ],
)  # fmt: skip
def test_what_cannot_be_fitted(folder, arguments, told):
    assert told in complaint("fit", *FIT, *arguments)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nowhere.lpfuse", "There is no model 'nowhere.lpfuse'. `lpfuse fit` makes one."),
        ("folder.csv", "There is no model 'folder.csv'."),
        ("text.lpfuse", "text.lpfuse is damaged, or was not written by lpfuse"),
        ("empty.lpfuse", "empty.lpfuse is damaged, or was not written by lpfuse"),
        ("torn.lpfuse", "torn.lpfuse is damaged, or was not written by lpfuse"),
        ("flipped.lpfuse", "flipped.lpfuse is damaged"),
        ("good.csv", "good.csv is a table, not a model. Name the model first"),
    ],
)
def test_models_that_are_none(folder, name, told):
    assert told in complaint("score", name, "good.csv", *SCORE)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["lacking.csv"], "The data lack 2 columns that the model was trained on: 'bar', 'kind'."),
        (["misspelt.csv"], "trained on: 'bar'. Did you mean 'baar'? Then rename it."),
        (["text.csv"], "Column 'flow' must hold numbers; row 61 holds 'broken'. Correct the cell"),
        (["infinite.csv"], "Column 'flow' must hold numbers; row 2 holds 'inf'"),
        (["blank.csv"], "The data lack 3 columns"),
        (["good.csv", "--keep", "serials"], "no column 'serials'. Did you mean 'serial'?"),
        (["good.csv", "-o", "-", "--json"], "--json and -o - both want standard output."),
    ],
)
def test_what_cannot_be_scored(folder, arguments, told):
    assert told in complaint("score", "m.lpfuse", *arguments, *([] if "-o" in arguments else SCORE))


@pytest.mark.parametrize(
    ("out", "told", "code"),
    [
        ("nowhere/new.csv", "There is no folder ", 2),
        ("good.csv/new.csv", "There is no folder ", 2),
        ("folder.csv", "'folder.csv' is there, and is no file.", 2),
        ("new.ods", "not as 'new.ods'. Give it one of these suffixes.", 2),
        ("good.csv", "'good.csv' is read, so it cannot be written. Name another.", 2),
        ("./good.csv", "is read, so it cannot be written.", 2),
    ],
)
def test_where_nothing_can_be_written(folder, out, told, code):
    assert told in complaint("score", "m.lpfuse", "good.csv", "-o", out, code=code)
    assert told in complaint("fuse", "good.csv", "-o", out, code=code)
    if out != "new.ods":
        assert told in complaint("fit", "good.csv", "-o", out, code=code)


def test_the_model_is_not_written_over(folder):
    shutil.copy("m.lpfuse", "m.csv")
    told = complaint("score", "m.csv", "good.csv", "-o", "m.csv")
    assert "'m.csv' is read, so it cannot be written." in told


@pytest.mark.parametrize("command", ["fit", "score", "fuse"])
def test_an_unwritable_folder(folder, monkeypatch, command):
    def denied(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("lpfuse._files.TemporaryFile", denied)
    first = ["m.lpfuse"] if command == "score" else []
    told = complaint(command, *first, "good.csv", "-o", "new.csv")
    assert re.search(r"Nothing can be written to '.*': Permission denied\. Name another", told)


def test_a_full_disk_when_the_model_is_saved(folder, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lpfuse._files.os.fsync", full)
    told = complaint("fit", "good.csv", "--drop", "state", *FIT, code=1)
    assert (
        "new.lpfuse could not be written: No space left on device. No partial file is left" in told
    )


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow"])
@pytest.mark.parametrize("command", ["score", "fuse"])
def test_a_full_disk_when_scores_are_written(folder, monkeypatch, command, suffix):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lpfuse._files.os.fsync", full)
    (folder / f"old.{suffix}").write_text("old")
    rest = ["m.lpfuse", "good.csv"] if command == "score" else ["good.csv", "--features", "flow"]
    told = complaint(command, *rest, "-o", f"old.{suffix}", code=1)
    assert f"old.{suffix} could not be written: No space left on device." in told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["good.csv", "--direction", "bar=high"], "COL=anomaly or COL=normal; got 'bar=high'."),
        (["good.csv", "--direction", "baar=anomaly"], "no column 'baar'. Did you mean 'bar'?"),
        (["good.csv", "--features", "serial"], "No column is left to learn from ("),
        (["no_rows.csv"], "The table has no rows."),
    ],
)
def test_what_cannot_be_fused(folder, arguments, told):
    assert told in complaint("fuse", *arguments)


IN_OPTIONS = [
    (["fit", "zero_one.csv", "--label", "state", *FIT], "Say --normal 0 (30 normal rows"),
    (["fit", "good.csv", "--normal", "the one", *FIT], "--normal 'the one' says what labels mean"),
    (["fit", "good.csv", "--normal", "ok", *FIT], "Name it: --label COLUMN"),
    (
        ["fit", "good.csv", "--label", "state", "--normal", "x", *FIT],
        "nowhere 'x'. Say --normal ok",
    ),
    (["fit", "text.csv", *FIT], "what the column is: --as flow=number takes them as missing"),
    (["fit", "good.csv", "--p", "0.5", *FIT], "Error: --p must be in [1, inf]"),
    (["fit", "good.csv", "--false-alarm-rate", "5", *FIT], "Error: --false-alarm-rate must be"),
    (["fuse", "good.csv", "--label", "state"], "Say --normal "),
    (["fuse", "good.csv", "--p", "0"], "Error: --p must be"),
    (["score", "nowhere.lpfuse", "good.csv", *SCORE], "`lpfuse fit` makes one."),
    (["report", "nowhere.lpfuse"], "`lpfuse fit` makes one."),
    (["report", "m.lpfuse", "good.csv", "--label", "kind"], "Say --normal "),
]


@pytest.mark.parametrize(("arguments", "told"), IN_OPTIONS)
def test_what_the_library_calls_by_parameters_is_told_by_options(folder, arguments, told):
    message = complaint(*arguments)
    assert told in message
    assert not re.search(r"\b[a-z_]+=", message.replace("--as flow=number", ""))


@pytest.mark.slow
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(content=st.one_of(st.binary(max_size=80), st.text(max_size=80).map(str.encode)))
def test_no_file_whatever_it_holds_ends_in_a_traceback(folder, content):
    (folder / "any.csv").write_bytes(content)
    assert (
        "lack" in (told := complaint("score", "m.lpfuse", "any.csv", *SCORE)) or "any.csv" in told
    )


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nowhere.key", "There is no file 'nowhere.key'. Check its path."),
        (
            "empty.csv",
            "--key must name a file of 16 to 1,048,576 random bytes, but 'empty.csv' has",
        ),
        ("blank.csv", "'blank.csv' has 4. Make one: head -c 32 /dev/urandom > FILE"),
        ("large.key", "'large.key' has more than 1,048,576."),
        ("folder.csv", "--key must name a file, but 'folder.csv' is none."),
        ("pipe", "--key must name a file, but 'pipe' is none."),
        ("/dev/zero", "--key must name a file, but '/dev/zero' is none."),
    ],
)
def test_keys_that_are_none_are_refused_before_any_work(folder, name, told):
    (folder / "large.key").write_bytes(bytes(2**20 + 1))
    os.mkfifo(folder / "pipe")
    for command in (
        ["fit", "good.csv", *FIT],
        ["score", "m.lpfuse", "good.csv", *SCORE],
        ["card", "m.lpfuse"],
        ["teach", "m.lpfuse", "good.csv", "-o", "new.lpfuse"],
        ["recalibrate", "m.lpfuse", "good.csv", "-o", "new.lpfuse"],
    ):
        assert told in complaint(*command, "--key", name)


class PowerCut(BaseException):
    """Nothing may catch it and go on."""


@pytest.mark.parametrize("call", ["open", "fsync", "chmod", "replace"])
@pytest.mark.parametrize("command", ["teach", "recalibrate"])
def test_model_stays_whole_wherever_a_command_ends(folder, monkeypatch, command, call):
    frame = pumps(40).select("bar", "flow", "kind")
    answers = pl.Series("answer", ["normal"] * 30 + ["anomaly"] * 10)
    asked = frame.select(answers, pl.lit(0.5).alias("chance"), pl.all())
    write(asked, folder / "rows.csv")
    Path("new.lpfuse").write_bytes(b"old")
    before, made = contents(folder), []
    original = getattr(os, call)

    def cut(path, *arguments, **options):
        if call == "open" and not str(path).endswith(".tmp"):
            return original(path, *arguments, **options)
        made.extend(path.name for path in folder.glob("*.tmp"))
        raise PowerCut

    arguments = [command, "m.lpfuse", "rows.csv", "-o", "new.lpfuse"]
    with monkeypatch.context() as patch:
        patch.setattr(os, call, cut)
        with pytest.raises(PowerCut):
            CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert contents(folder) == before
    assert len(made) == (call != "open")
    assert CliRunner().invoke(app, arguments).exit_code == 0
