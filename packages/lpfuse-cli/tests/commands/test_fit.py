import json

import polars as pl
import pytest
from typer.testing import CliRunner

import lpfuse
from helpers.pumps import DETECTORS, pumps, write
from lpfuse import FusedDetector
from lpfuse_cli import fitting
from lpfuse_cli.app import app

OPTIONS = ["--label", "state", "--normal", "ok", "--detectors", ",".join(DETECTORS)]


@pytest.fixture
def train(tmp_path):
    return write(pumps(100), tmp_path / "pumps.csv")


def fit(*arguments, **options):
    return CliRunner().invoke(app, ["fit", *map(str, arguments)], **options)


def test_a_table_becomes_a_model_and_everything_is_said(train, tmp_path):
    answer = fit(train, *OPTIONS, "-o", tmp_path / "pumps.lpfuse")
    assert answer.exit_code == 0
    model = lpfuse.load(tmp_path / "pumps.lpfuse")
    fused = model
    head, table, end = answer.stdout.split("\n\n")[:3]
    assert head.splitlines() == [
        f"{train}: 100 rows, 8 columns",
        *(f"  {note}" for note in model.notes_),
        "  If a column is something else, say so: --as COLUMN=KIND.",
    ]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    assert rows[0] == ["detector", "weight", "share", "AUC"]
    weights = dict(zip(fused.detector_names_, fused.weights_, strict=True))
    shown = {row[0]: row[1] for row in rows[2:-1]}
    assert shown == {name: f"{weight:.3f}" for name, weight in weights.items()}
    assert list(shown) == sorted(weights, key=weights.get, reverse=True)
    assert rows[-1][0] == "fusion"
    rows, weights, auc, threshold = end.splitlines()
    normal = pumps(100)["state"].to_list().count("ok")
    known = f"{normal} known to be normal and {100 - normal} known anomalies"
    assert rows == f"Learnt from 100 rows: {known}."
    assert weights.startswith("The weights were learnt from these rows, proven within 1e-")
    assert "had seen" in auc
    assert threshold.startswith(
        f"A score below {fused.offset_:.4g} is an anomaly; about 5 % of all normal rows will be "
        "(95 % interval "
    )
    assert threshold.endswith(f" %, by a calibration with {normal} rows).")
    assert f"Next: lpfuse score {tmp_path / 'pumps.lpfuse'} DATA" in answer.stdout
    assert "Fitting …" in answer.stderr.splitlines()


def test_without_a_label(train, tmp_path):
    answer = fit(train, "--detectors", "gmm", "--drop", "state", "-o", tmp_path / "m", "-q")
    assert answer.exit_code == 0
    model = lpfuse.load(tmp_path / "m")
    assert model.notes_[0] == "Label: none; all 100 rows are unlabelled."
    assert model.preparation_.dropped["state"] == "as asked"


def test_json_is_one_object_and_nothing_else(train, tmp_path):
    answer = fit(train, *OPTIONS, "-o", tmp_path / "m", "--json")
    found = json.loads(answer.stdout)
    assert answer.stderr == ""
    model = lpfuse.load(tmp_path / "m")
    assert found["model"] == str(tmp_path / "m")
    assert found["features"] == model.preparation_.feature_names
    assert found["columns"] == model.preparation_.kinds
    assert list(found["weights"].values()) == model.weights_.tolist()
    assert found["certificate"]["relative_gap"] <= 1e-8
    assert set(found["auc"]) == {*DETECTORS, "fusion"}
    assert found["notes"] == model.notes_
    assert found["warnings"] == []


def test_json_knows_no_infinity(tmp_path):
    train = write(pumps(12, worn=0).select("flow"), tmp_path / "few.csv")
    answer = fit(train, "--detectors", "gmm", "-o", tmp_path / "m", "--json")
    found = json.loads(answer.stdout)
    assert found["threshold"] is None
    assert "too few" in " ".join(found["warnings"]) or found["warnings"]
    answer = fit(train, "--detectors", "gmm", "-o", tmp_path / "m")
    assert (
        "Nothing can be called an anomaly: 12 normal rows cannot hold false alarms to 5 %. It "
        "takes 19. Fit to more normal rows, or ask for a rate of 7.7 % or more."
    ) in answer.stdout
    assert found["alarms"]["too_few"]["needed"] == 19
    assert answer.stderr.count("Note: ") == 1


@pytest.mark.parametrize("before", [True, False])
def test_quiet_says_nothing(train, tmp_path, before):
    rest = [str(train), *OPTIONS, "-o", str(tmp_path / "m")]
    arguments = ["--quiet", "fit", *rest] if before else ["fit", *rest, "--quiet"]
    answer = CliRunner().invoke(app, arguments)
    assert (answer.exit_code, answer.output) == (0, "")
    assert isinstance(lpfuse.load(tmp_path / "m"), FusedDetector)


def test_the_format_of_the_table_does_not_matter(train, tmp_path):
    weights = []
    for suffix in ("csv", "parquet", "arrow"):
        path = write(pumps(100), tmp_path / f"p.{suffix}")
        answer = fit(path, *OPTIONS, "-o", tmp_path / "m", "--json")
        weights.append(json.loads(answer.stdout)["weights"])
    answer = fit("-", *OPTIONS, "-o", tmp_path / "m", "--json", input=train.read_text())
    weights.append(json.loads(answer.stdout)["weights"])
    assert all(found == pytest.approx(weights[0]) for found in weights)


def test_every_option_arrives(train, tmp_path, monkeypatch):
    asked = {}

    def stop(frame, **options):
        asked.update(options)
        raise ValueError("stop")

    monkeypatch.setattr(fitting, "fit_table", stop)
    answer = fit(
        train, "--output", tmp_path / "m", "--label", "state", "--normal", "ok", "--detectors",
        "gmm, lof", "--p", "1.5", "--false-alarm-rate", "0.1", "--confidence", "0.9", "--features",
        "bar", "--features", "flow", "--drop", "site", "--categories", "kind", "--seed", "3",
        "--order", "random",
        "--jobs", "2", "-q", "--as", "when=elapsed", "--as", "a=b=drop",
    )  # fmt: skip
    assert (answer.exit_code, answer.stderr) == (2, "Error: stop.\n")
    assert callable(asked.pop("show_notes"))
    assert asked == {
        "label": "state",
        "normal": ["ok"],
        "anomaly": None,
        "detectors": ["gmm", "lof"],
        "p": "1.5",
        "false_alarm_rate": 0.1,
        "confidence": 0.9,
        "features": ["bar", "flow"],
        "drop": ["site"],
        "categories": ["kind"],
        "kinds": {"when": "elapsed", "a=b": "drop"},
        "decimal": None,
        "time": None,
        "order": "random",
        "look_for_time": True,
        "random_state": 3,
        "n_jobs": 2,
        "progress": None,
    }


def test_a_sample_of_the_rows(train, tmp_path):
    options = [*OPTIONS, "-o", tmp_path / "m", "--sample"]
    answer = fit(train, *options, "60")
    assert answer.stdout.splitlines()[0] == f"{train}: 100 rows, 8 columns"
    assert answer.stdout.splitlines()[1] == (
        "  Sample: 60 of 100 rows, drawn by chance; of anomalies all, up to 30."
    )
    model = lpfuse.load(tmp_path / "m")
    assert model.notes_[0] == answer.stdout.splitlines()[1].strip()
    worn = pumps(100)["state"].to_list().count("worn")
    assert (model.out_of_fold_.labels < 0).sum() == worn
    assert len(model.out_of_fold_.labels) == 60
    assert "Sample" not in fit(train, *options, "100").stdout


def test_what_the_library_warns_of_is_a_note(train, tmp_path):
    answer = fit(train, "--detectors", "gmm,trees", "-o", tmp_path / "m")
    (note,) = [line for line in answer.stderr.splitlines() if line.startswith("Note: ")]
    assert note.startswith("Note: 'trees' are left out: they learn from anomalies")


def test_ctrl_c_leaves_what_was_there(train, tmp_path, monkeypatch):
    (tmp_path / "m").write_text("old")

    def interrupted(self, path, **how):
        raise KeyboardInterrupt

    monkeypatch.setattr(FusedDetector, "save", interrupted)
    answer = fit(train, *OPTIONS, "-o", tmp_path / "m")
    assert answer.exit_code == 130
    assert answer.stderr.splitlines()[-1] == "Interrupted."
    assert (tmp_path / "m").read_text() == "old"


def test_help_has_an_example_and_what_is_guessed():
    text = fit("--help").stdout
    assert "Example: lpfuse fit pumps.csv --label state --normal ok -o pumps.lpfuse" in text
    for option in ("label", "normal", "detectors", "p", "false-alarm-rate", "drop", "features"):
        assert f"--{option} " in text
    told = " ".join(text.replace("│", " ").split())
    assert "--sample" in told
    assert "held in memory" in told


def test_names_that_would_break_a_table_or_a_terminal(tmp_path):
    frame = pumps(60).select(
        pl.col("flow").alias("a|b"), pl.col("bar").alias("\x1b[31mred"), "state"
    )
    train = write(frame, tmp_path / "odd.parquet")
    answer = fit(train, *OPTIONS, "-o", tmp_path / "m")
    assert answer.exit_code == 0
    assert "\x1b[31mred" not in answer.stdout
    assert r"'\x1b[31mred'" in answer.stdout
