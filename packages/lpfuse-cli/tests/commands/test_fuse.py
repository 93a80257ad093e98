import json

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from helpers.pumps import read, score_table, write
from lpfuse_cli import fitting
from lpfuse_cli.app import app
from lpfuse_cli.commands import reversed_columns

OPTIONS = ["--label", "fake", "--normal", "no", "--direction", "knn=anomaly"]


@pytest.fixture
def scores(tmp_path):
    return write(score_table(), tmp_path / "scores.csv")


def fuse(*arguments, **options):
    return CliRunner().invoke(app, ["fuse", *map(str, arguments)], **options)


def test_weights_with_their_proof(scores):
    answer = fuse(scores, *OPTIONS)
    assert (answer.exit_code, answer.stderr) == (0, "")
    assert f"{scores}: 300 rows, 5 columns\n  Label: 'fake'; normal is 'no' (" in answer.stdout
    assert "  Scores: 'svm', 'knn', 'junk'.\n" in answer.stdout
    assert "  Dropped: 'file', it holds text, not scores.\n" in answer.stdout
    assert "  High scores mean anomaly: 'knn'.\n" in answer.stdout
    assert "\nThe weights were learnt from these rows, proven within 1e-" in answer.stdout
    rows = [line.split("|")[1].strip() for line in answer.stdout.splitlines() if line[:1] == "|"]
    assert set(rows[2:4]) == {"svm", "knn"}
    assert rows[4:] == ["junk", "fusion"]
    assert "\nAUC: of rows that the weights had not seen; whether the tools" in answer.stdout
    assert "neither the detectors" not in answer.stdout


def test_json(scores):
    found = json.loads(fuse(scores, *OPTIONS, "--json").stdout)
    assert set(found["weights"]) == {"svm", "knn", "junk"}
    assert found["auc"]["fusion"] > max(found["auc"]["svm"], found["auc"]["knn"]) > 0.85
    assert found["certificate"]["status"] == "optimal"
    assert found["p"] == 4


def test_two_things_cannot_go_to_standard_output(scores):
    answer = fuse(scores, *OPTIONS, "--json", "-o", "-")
    assert answer.exit_code != 0
    assert answer.stdout == ""
    assert "--json and -o - both want standard output" in answer.stderr


@pytest.mark.parametrize(("p", "expected"), [("1", 1.0), ("inf", None), ("auto", 4.0)])
def test_the_norm(scores, p, expected):
    found = json.loads(fuse(scores, *OPTIONS, "--p", p, "--json").stdout)
    assert found["p"] == expected  # JSON has no infinity
    weights = np.array(list(found["weights"].values()))
    assert np.linalg.norm(weights, float(p) if p != "auto" else 4) <= 1 + 1e-9


def test_quiet_is_the_table_alone(scores):
    answer = fuse(scores, *OPTIONS, "-q")
    assert answer.stderr == ""
    assert answer.stdout.startswith("| detector | weight |")
    assert answer.stdout.splitlines()[-1].startswith("| fusion")


def test_without_labels(scores):
    answer = fuse(scores, "--drop", "fake", "--direction", "knn=anomaly")
    assert "Label: none; all 300 rows are unlabelled." in answer.stdout
    assert "AUC" not in answer.stdout


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow"])
def test_fused_scores_and_weights_can_be_kept(scores, tmp_path, suffix):
    out, model = tmp_path / f"fused.{suffix}", tmp_path / "weights.lpfuse"
    answer = fuse(scores, *OPTIONS, "-o", out, "--keep", "file", "--model", model)
    assert answer.stdout.endswith(f"Written to {out}.\nWritten to {model}.\n")
    fused = read(out)
    assert fused.columns[:4] == ["file", "score", "p_value", "decision"]
    again = CliRunner().invoke(
        app, ["score", str(model), str(scores), "-o", str(tmp_path / "again.csv"), "-q"]
    )
    assert again.exit_code == 0
    assert (read(tmp_path / "again.csv")["score"] - fused["score"]).abs().max() < 1e-9


def test_on_standard_output_there_is_nothing_but_scores(scores):
    answer = fuse("-", *OPTIONS, "-o", "-", input=scores.read_text())
    assert (answer.exit_code, answer.stderr) == (0, "")
    assert pl.read_csv(answer.stdout.encode()).height == 300


def test_every_option_arrives(scores, monkeypatch):
    asked = {}

    def stop(frame, **options):
        asked.update(options)
        raise ValueError("stop")

    monkeypatch.setattr(fitting, "fuse_table", stop)
    answer = fuse(
        scores, *OPTIONS, "--direction", "svm=normal", "--p", "2", "--false-alarm-rate", "0.2",
        "--features", "svm,knn", "--drop", "junk", "--seed", "4", "-q",
    )  # fmt: skip
    assert answer.exit_code == 2
    assert callable(asked.pop("show_notes"))
    assert asked == {
        "label": "fake",
        "normal": ["no"],
        "anomaly": None,
        "high": {"knn": "anomaly", "svm": "normal"},
        "p": "2",
        "false_alarm_rate": 0.2,
        "features": ["svm,knn"],
        "drop": ["junk"],
        "decimal": None,
        "random_state": 4,
    }


def test_one_direction_for_all(scores):
    one = json.loads(fuse(scores, *OPTIONS[:4], "--direction", "anomaly", "--json").stdout)
    assert one["notes"][1] == "High scores mean anomaly: 'svm', 'knn', 'junk'."


def test_a_column_that_seems_upside_down_is_pointed_out(scores):
    answer = fuse(scores, *OPTIONS[:4])
    assert (
        "If high scores of 'knn' mean anomaly, say so: --direction knn=anomaly\n" in answer.stdout
    )
    assert "say so" not in fuse(scores, *OPTIONS).stdout
    assert "If not, say --direction COLUMN=anomaly." in answer.stderr
    assert "ScoreColumn" not in answer.output


def test_a_report_does_not_repeat_doubts_about_directions(scores, tmp_path):
    assert fuse(scores, *OPTIONS[:4], "--model", tmp_path / "m").exit_code == 0
    answer = CliRunner().invoke(app, ["report", str(tmp_path / "m"), str(scores), "--json"])
    assert answer.exit_code == 0, answer.output
    assert "Does a high score mean normal there" not in answer.output
    assert "S[:, j]" not in answer.output


def test_chance_turns_nothing_upside_down():
    found = {"weights": {"a": 0.1, "b": 0.2, "c": 0.3}}
    warned = [
        "Scores of 'b', 'c' are (AUC 0.1). Does a high score mean normal there?",
        "'a' (1) is",
    ]
    assert reversed_columns(found, []) == []
    assert reversed_columns(found, warned) == ["b", "c"]


def test_names_that_would_break_a_table_or_a_terminal(scores):
    write(score_table().rename({"svm": "a|b", "junk": "\x1b[31mred"}), scores)
    answer = fuse(scores, *OPTIONS)
    assert "| a\\|b " in answer.stdout
    assert "| '\\x1b[31mred' " in answer.stdout
    assert "\x1b" not in answer.stdout


def test_missing_scores_are_left_to_the_others(scores, tmp_path):
    gap = pl.int_range(pl.len()) % 50 == 0
    write(score_table().with_columns(svm=pl.when(gap).then(None).otherwise("svm")), scores)
    answer = fuse(scores, *OPTIONS, "-o", tmp_path / "fused.csv")
    assert answer.exit_code == 0
    assert "  Missing: 'svm' in 6 rows; the others decide on these.\n" in answer.stdout
    fused = read(tmp_path / "fused.csv")
    assert fused["score"].null_count() == 0
    assert (fused["contribution:svm"] == 0).sum() == 6


def test_help_has_an_example():
    text = fuse("--help").stdout
    assert "Example: lpfuse fuse scores.csv --label fake --normal no" in text
    assert "--direction " in text
