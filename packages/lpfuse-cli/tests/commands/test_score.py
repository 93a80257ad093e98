import json
import os
import re
import subprocess
import sys

import polars as pl
import pytest
from typer.testing import CliRunner

from helpers.pumps import Stranger, pumps, read, write
from lpfuse import FusedDetector
from lpfuse_cli.app import app
from lpfuse_cli.fitting import fuse_table
from lpfuse_cli.scoring import load_model, score_frame
from lpfuse_cli.tables import read_table


@pytest.fixture(scope="module")
def model(pump_model_file):
    return pump_model_file


@pytest.fixture
def data(tmp_path):
    return write(pumps(60, seed=5), tmp_path / "new.csv")


def score(*arguments, **options):
    return CliRunner().invoke(app, ["score", *map(str, arguments)], **options)


def expected(model, frame):
    return score_frame(load_model(model), frame)


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow"])
def test_rows_become_scores(model, data, tmp_path, suffix):
    out = tmp_path / f"scores.{suffix}"
    answer = score(model, data, "-o", out, "--keep", "serial", "--chunk-rows", 25)
    assert (answer.exit_code, answer.stdout) == (0, "")
    scored = read(out)
    assert scored.columns == [
        "serial", "score", "p_value", "decision", "why", "contribution:gmm", "contribution:kpca",
    ]  # fmt: skip
    assert scored["serial"].to_list() == pumps(60, seed=5)["serial"].to_list()
    frame = expected(model, pumps(60, seed=5))
    assert scored["decision"].to_list() == frame["decision"].to_list()
    assert (scored["score"] - frame["score"]).abs().max() < 1e-9
    parts = scored.select(pl.sum_horizontal("contribution:gmm", "contribution:kpca")).to_series()
    assert (parts - scored["score"]).abs().max() < 1e-9
    lines = answer.stderr.splitlines()
    last = lines[-1]
    anomalies = (scored["decision"] < 0).sum()
    assert last.startswith("60 rows scored in ")
    assert f"{anomalies} called anomalies" in last
    assert last.endswith(f"Written to {out}.")
    assert f"Scoring {data.name} …" in lines


def test_from_standard_input_to_standard_output(model, data):
    answer = score(model, "-", "-o", "-", input=data.read_text())
    assert answer.exit_code == 0
    scored = pl.read_csv(answer.stdout.encode())
    assert (scored["score"] - expected(model, pumps(60, seed=5))["score"]).abs().max() < 1e-9
    assert answer.stderr.splitlines()[-1].endswith("Written to standard output.")


def test_quiet_output_is_nothing_but_scores(model, data):
    answer = score(model, data, "-o", "-", "-q")
    assert answer.stderr == ""
    assert answer.stdout.startswith("serial,score,p_value,decision,why,")


def test_json(model, data, tmp_path):
    frame = pumps(60, seed=5).with_columns(extra=1)
    answer = score(model, write(frame, data), "-o", tmp_path / "s.csv", "--json")
    found = json.loads(answer.stdout)
    assert answer.stderr == ""
    assert found["rows"] == 60
    assert found["anomalies"] == (expected(model, frame)["decision"] < 0).sum()
    assert found["notes"] == ["Ignored, for the model does not know it: 'extra'."]
    assert found["warnings"] == []
    assert found["seconds"] >= 0


def test_alarms_asked_for_and_measured(model, data, tmp_path):
    # The file has the column of labels: normal rows are compared, and anomalies counted.
    told = score(model, data, "-o", tmp_path / "s.csv").stderr
    loaded, frame = load_model(model), pumps(60, seed=5)
    normal = frame["state"] == "ok"
    flagged = expected(model, frame)["decision"] < 0
    assert "5 % false alarms were asked for: of " in told
    assert f"({(flagged & normal).sum()} of {normal.sum()}; 95 % interval " in told
    assert f"Of {(~normal).sum()} rows labelled anomalies " in told
    gaps = int(frame["bar"].null_count())
    assert f"{gaps} rows lack a cell or hold a text that the training did not" in told

    answer = score(model, data, "-o", tmp_path / "s.csv", "--json", "--chunk-rows", 7)
    found = json.loads(answer.stdout)["alarms"]
    assert found["asked"] == 0.05
    assert found["calibration_rows"] == len(loaded.calibration_)
    assert found["normal"]["flagged"] == (flagged & normal).sum()
    assert found["anomalies"]["rows"] == (~normal).sum()
    assert found["incomplete"]["rows"] == gaps
    assert all(sentence in told for sentence in found["sentences"])


def test_check_ends_with_a_code_of_its_own(model, tmp_path):
    usual = write(pumps(60, seed=5, worn=0).drop("state"), tmp_path / "usual.csv")
    strange = write(pumps(60, seed=5, worn=1).drop("state"), tmp_path / "strange.csv")
    training = write(pumps(), tmp_path / "training.csv")
    out = ["-o", tmp_path / "s.csv", "--check"]
    answer = score(model, usual, *out)
    assert (answer.exit_code, "Normal rows alone would give as many" in answer.stderr) == (0, True)
    answer = score(model, strange, *out)
    assert answer.exit_code == 3
    assert "Either these rows hold anomalies, about " in answer.stderr
    assert (tmp_path / "s.csv").exists()
    assert score(model, strange, "-o", tmp_path / "s.csv").exit_code == 0
    answer = score(model, training, *out, "--json")
    assert answer.exit_code == 3
    found = json.loads(answer.stdout)["alarms"]
    assert found["trained_on"]["rows"] == 200
    assert found["normal"]["verdict"] is None
    assert found["sentences"][0].startswith("200 of 200 rows are rows that the model learnt from")


def test_no_rows_have_no_alarms(model, data, tmp_path):
    answer = score(model, write(pumps(9).clear(), data), "-o", tmp_path / "s.csv", "--json")
    assert json.loads(answer.stdout)["alarms"] is None


def test_labels_that_are_lists_are_not_read(model, tmp_path):
    frame = pumps(20, seed=5).with_columns(state=pl.Series([["ok"]] * 20))
    answer = score(model, write(frame, tmp_path / "n.parquet"), "-o", tmp_path / "s.csv", "--json")
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.stdout)["alarms"]["unlabelled"]["rows"] == 20


def test_new_labels_count_as_unlabelled(model, tmp_path):
    states = ["ok"] * 10 + ["cracked"] * 6 + ["worn"] * 4
    path = write(pumps(20).with_columns(state=pl.Series(states)), tmp_path / "new.csv")
    answer = score(model, path, "-o", tmp_path / "out.csv", "--json")
    found = json.loads(answer.stdout)
    assert [found["alarms"][kind]["rows"] for kind in ("normal", "unlabelled")] == [10, 6]
    told = "Label 'cracked', which the fit did not see, counts as unlabelled in 6 rows."
    assert told in found["notes"]


def test_notes_go_to_stderr(model, data, tmp_path):
    frame = pumps(60, seed=5).with_columns(extra=1)
    answer = score(model, write(frame, data), "-o", tmp_path / "s.csv")
    assert "Note: Ignored, for the model does not know it: 'extra'.\n" in answer.stderr


def test_columns_in_any_order(model, data, tmp_path):
    frame = pumps(60, seed=5)
    shuffled = frame.select(sorted(frame.columns))
    score(model, data, "-o", tmp_path / "a.csv")
    score(model, write(shuffled, data), "-o", tmp_path / "b.csv")
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text()


@pytest.mark.parametrize(("chunk_rows", "jobs"), [(1, 1), (7, 3), (1000, 2)])
def test_chunks_and_jobs_change_nothing(model, data, tmp_path, chunk_rows, jobs):
    score(model, data, "-o", tmp_path / "a.parquet")
    score(model, data, "-o", tmp_path / "b.parquet", "--chunk-rows", chunk_rows, "-j", jobs)
    a, b = read(tmp_path / "a.parquet"), read(tmp_path / "b.parquet")
    assert a.select("serial", "why").equals(b.select("serial", "why"))
    a, b = a.drop("serial", "why"), b.drop("serial", "why")
    assert (a - b).select(pl.all().abs().max()).max_horizontal().item() < 1e-12


def test_a_remark_of_every_chunk_is_made_once(data, tmp_path):
    frame = pl.DataFrame({"s": [0.1, 0.9, 0.4, 0.6] * 10, "t": [0.5, 0.2, 0.3, 0.8] * 10})
    fuse_table(frame).save(tmp_path / "m")
    holes = frame.with_columns(s=pl.when(pl.int_range(pl.len()) % 7 == 0).then(None).otherwise("s"))
    answer = score(tmp_path / "m", write(holes, data), "-o", tmp_path / "s.csv", "--chunk-rows", 10)
    assert answer.stderr.count("Note: Some detectors could not score some rows") == 1
    assert "Note: Missing, as it never was in training: 's' in 6 rows." in answer.stderr


def test_ctrl_c_leaves_nothing_and_what_was_there(model, data, tmp_path, monkeypatch):
    calls = []

    def interrupted(self, frame):
        calls.append(frame.height)
        if len(calls) > 3:  # the first is the row that a model is tried out on
            raise KeyboardInterrupt
        return original(self, frame)

    original = FusedDetector.verdicts
    monkeypatch.setattr(FusedDetector, "verdicts", interrupted)
    for name, old in (("new_scores.csv", None), ("old.parquet", "old")):
        calls.clear()
        if old:
            (tmp_path / name).write_text(old)
        answer = score(model, data, "-o", tmp_path / name, "--chunk-rows", 10)
        assert answer.exit_code == 130
        assert answer.stderr.splitlines()[-1] == "Interrupted."
        assert (tmp_path / name).exists() == bool(old)
    assert (tmp_path / "old.parquet").read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["new.csv", "old.parquet"]


REAL = """
import os, signal, sys
from lpfuse_cli.app import app
import lpfuse_cli.scoring

def run(*arguments):
    try:
        app(["score", *arguments], prog_name="lpfuse")
    except SystemExit as end:
        print("exit code", end.code, file=sys.stderr, flush=True)

model, data, few, out = sys.argv[1:]
os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
run(model, few, "-o", "-", "-q")  # less than a buffer holds

reader, writer = os.pipe()
os.close(reader)
os.dup2(writer, 1)
run(model, data, "-o", "-", "-q")

def progress(rows, share):
    os.kill(os.getpid(), signal.SIGINT)

original = lpfuse_cli.scoring.score_file
lpfuse_cli.scoring.score_file = lambda *a, **k: original(*a, **{**k, "progress": progress})
run(model, data, "-o", out, "-q", "--chunk-rows", "10")
os._exit(0)
"""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
@pytest.mark.slow
def test_full_disk_closed_pipe_and_interrupt(model, data, tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    out = tmp_path / "scores.csv"
    few = write(pumps(9), tmp_path / "few.csv")
    command = [sys.executable, "-c", REAL, model, data, few, out]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert answer.stderr.splitlines() == [
        "Error: Standard output could not be written: No space left on device. No partial file "
        "is left; free disk space, or choose another folder, and try again.",
        "exit code 1",
        "exit code 1",
        "Interrupted.",
        "exit code 130",
    ]
    assert sorted(os.listdir(tmp_path)) == ["few.csv", "new.csv"]


def test_help_has_an_example():
    text = score("--help").stdout
    assert "Example: lpfuse score pumps.lpfuse new.csv -o scores.csv --keep serial" in text
    for option in ("keep", "chunk-rows", "jobs", "trust", "json", "quiet"):
        assert f"--{option} " in text


def test_untrusted_type_names_the_trust_option(model, data, tmp_path):
    stranger = FusedDetector([("stranger", Stranger())], random_state=0)
    path = tmp_path / "strange.lpfuse"
    stranger.fit(pumps(60).drop_nulls().drop("state")).save(path)
    answer = score(path, data, "-o", tmp_path / "s.csv")
    name = f"{Stranger.__module__}.Stranger"
    assert answer.exit_code == 2
    assert f"pass --trust {name};" in answer.stderr
    assert score(path, data, "-o", tmp_path / "s.csv", "--trust", name).exit_code == 0


def test_a_signed_model_is_what_the_secret_signed(data, tmp_path):
    path, out, secret, other = (tmp_path / name for name in ("m", "out.csv", "secret", "other"))
    secret.write_bytes(bytes(range(32)))
    other.write_bytes(bytes(32))
    train = write(pumps(80), tmp_path / "train.csv")
    run = CliRunner().invoke
    fitted = run(
        app, ["fit", str(train), "-o", str(path), "--detectors", "gmm", "--key", str(secret)]
    )
    assert fitted.exit_code == 0
    assert score(path, data, "-o", out, "--key", secret).exit_code == 0
    assert run(app, ["report", str(path), "--json", "--key", str(secret)]).exit_code == 0
    out.unlink()
    assert "signature does not match" in score(path, data, "-o", out, "--key", other).stderr
    assert "nowhere" in score(path, data, "-o", out, "--key", tmp_path / "nowhere").stderr
    load_model(path).save(path)
    assert "is not signed" in score(path, data, "-o", out, "--key", secret).stderr
    assert not out.exists()


# ---------------------------------------------------------------------------------------- --explain


def test_alarms_say_which_columns_made_them(model, tmp_path):
    frame = pumps(40, seed=5, worn=0.0).with_columns(
        bar=pl.when(pl.int_range(pl.len()) == 7).then(9.9).otherwise("bar"),
        flow=pl.when(pl.int_range(pl.len()) == 31).then(40.0).otherwise("flow"),
    )
    data, out = write(frame, tmp_path / "new.csv"), tmp_path / "scores.csv"
    answer = score(model, data, "-o", out, "--explain", 100, "--chunk-rows", 10, "--keep", "serial")
    assert answer.exit_code == 0
    scored = read(out)
    alarms = scored["decision"].cast(pl.Int64) < 0
    assert (scored["why"].is_not_null() == alarms).all()
    assert re.match(r"bar 9\.9 \(usually 2\.\d+ to 2\.\d+\): −\d", scored["why"][7])
    assert scored["why"][31].startswith("flow 40 (usually ")
    parts = pl.sum_horizontal("contribution:gmm", "contribution:kpca")
    assert (scored.select(parts).to_series() - scored["score"]).abs().max() < 1e-9
    assert "Explained" not in answer.stderr


def test_so_many_alarms_are_explained_and_the_rest_is_told(model, data, tmp_path):
    out = tmp_path / "scores.parquet"
    answer = score(model, data, "-o", out, "--explain", 2, "--chunk-rows", 7)
    scored = read(out)
    alarms = scored.filter(pl.col("decision") < 0)
    assert alarms.height > 2
    pushed = alarms["why"].str.contains(r"\): −")
    assert pushed.to_list() == [True] * 2 + [False] * (alarms.height - 2)
    assert f"Explained: the first 2 of {alarms.height} alarms." in " ".join(answer.stderr.split())


def test_alarms_tell_columns_out_of_their_range(model, tmp_path):
    at = pl.int_range(pl.len())
    frame = pumps(40, seed=5, worn=0.0).with_columns(
        bar=pl.when(at == 7).then(9.9).otherwise("bar"),
        flow=pl.when(at.is_in([7, 31])).then(4000.0).when(at == 9).then(None).otherwise("flow"),
        kind=pl.when(at == 31).then(pl.lit("new")).otherwise("kind"),
    )
    out = tmp_path / "scores.csv"
    assert score(model, write(frame, tmp_path / "n.csv"), "-o", out).exit_code == 0
    scored = read(out)
    assert (scored["why"].is_not_null() == (scored["decision"].cast(pl.Int64) < 0)).all()
    first, second = scored["why"][7].split("; ")
    assert re.fullmatch(r"flow 4,000 \(usually \d+(\.\d+)? to \d+(\.\d+)?\)", first)
    assert re.fullmatch(r"bar 9\.9 \(usually 2\.\d+ to 2\.\d+\)", second)
    assert scored["why"][31].endswith("; kind new (not in the training)")
    if scored["decision"].cast(pl.Int64)[9] < 0:
        assert "flow missing (never in the training)" in scored["why"][9]


def test_the_column_of_names_is_kept(model, data, tmp_path):
    out = tmp_path / "s.csv"
    assert score(model, data, "-o", out).exit_code == 0
    assert read(out).columns[0] == "serial"
    score(model, data, "-o", out, "--keep", "")
    assert read(out).columns[0] == "score"
    score(model, data, "-o", out, "--keep", "kind")
    assert read(out).columns[:2] == ["kind", "score"]


def test_a_name_that_scores_have_is_not_kept(data, tmp_path):
    frame = pumps().rename({"serial": "score"})
    FusedDetector(["gmm"], random_state=0).fit(frame.drop("state")).save(tmp_path / "m")
    answer = score(tmp_path / "m", write(frame, data), "-o", tmp_path / "s.parquet")
    assert answer.exit_code == 0, answer.stderr
    assert read(tmp_path / "s.parquet")["score"].dtype == pl.Float64


def test_scores_are_written_as_the_data_are(model, tmp_path):
    frame = pumps(30, seed=5)
    data, out = tmp_path / "new.csv", tmp_path / "s.csv"
    data.write_text(frame.write_csv(separator=";", decimal_comma=True))
    assert score(model, data, "-o", out, "--keep", "flow").exit_code == 0
    written = pl.read_csv(out, separator=";", decimal_comma=True)
    assert (written["flow"] - frame["flow"]).abs().max() < 1e-9
    assert (written["score"] - expected(model, frame)["score"]).abs().max() < 1e-9
    assert "." not in out.read_text().splitlines()[1]


def test_scores_in_a_spreadsheet(model, tmp_path):
    frame = pumps(30, seed=5).with_columns(note=pl.lit("=1+1\x07"))
    out = tmp_path / "s.xlsx"
    answer = score(
        model, write(frame, tmp_path / "n.parquet"), "-o", out, "--keep", "note", "--chunk-rows", 7
    )
    assert answer.exit_code == 0, answer.stderr
    scored = read_table(out)
    assert scored["note"].unique().to_list() == ["=1+1�"]
    assert (scored["score"] - expected(model, frame)["score"]).abs().max() < 1e-9
    assert scored["decision"].to_list() == expected(model, frame)["decision"].to_list()


def test_a_spreadsheet_needs_openpyxl(model, data, tmp_path, monkeypatch):
    monkeypatch.setattr("lpfuse_cli.tables.find_spec", lambda _: None)
    answer = score(model, data, "-o", tmp_path / "s.xlsx")
    assert answer.exit_code != 0
    assert 'pip install "lpfuse[excel]"' in " ".join(answer.stderr.split())
    assert not (tmp_path / "s.xlsx").exists()


def test_a_row_of_nothing_has_no_reason(model, tmp_path):
    frame = pumps(3, seed=5)
    frame = frame.with_columns(
        pl.lit(None).alias(name) for name in frame.columns if name != "state"
    )
    out = tmp_path / "scores.parquet"
    data = write(frame, tmp_path / "new.csv")
    assert score(model, data, "-o", out, "--explain", 9).exit_code == 0
    assert read(out)["decision"].to_list() == [-1] * 3
    assert read(out)["why"].null_count() == 3


def test_a_column_of_the_same_name_is_not_overwritten(model, data, tmp_path):
    frame = read(data).with_columns(why=pl.lit("x"))
    path, out = write(frame, tmp_path / "why.csv"), tmp_path / "scores.csv"
    answer = score(model, path, "-o", out, "--explain", 5, "--keep", "why")
    assert answer.exit_code == 2
    assert "'why' cannot be kept" in answer.stderr
    assert not out.exists()
