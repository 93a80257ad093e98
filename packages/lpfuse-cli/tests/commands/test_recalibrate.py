import json
import shutil

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import lpfuse as library
from lpfuse import FusedDetector
from lpfuse_cli.app import app
from lpfuse_cli.fitting import fit_table


def pumps(n, seed, shift=0.0):
    rng = np.random.default_rng(seed)
    bar, flow = rng.normal(2.5, 0.1, n) + 0.1 * shift, rng.normal(7.0, 1.0, n) + shift
    return pl.DataFrame({"bar": bar, "flow": flow, "state": np.repeat("ok", n)})


def wrong_cell(place):
    rows = pumps(50, 3).with_columns(pl.col("flow").cast(pl.String))
    rows[place, "flow"] = "much"
    return rows


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A model, normal rows that came later, and rows to score."""
    folder = tmp_path_factory.mktemp("stored")
    broken = pumps(3, 4, 9.0).with_columns(state=pl.lit("broken"))
    train = pl.concat([broken[:1], pumps(300, 0)])
    model = fit_table(train, label="state", normal="ok", detectors=["gmm", "kpca"])
    model.save(folder / "pumps.lpfuse")
    pl.concat([broken, pumps(997, 1, 1.0)]).write_csv(folder / "later.csv")
    pumps(1000, 2, 1.0).write_csv(folder / "new.csv")
    return folder


@pytest.fixture(autouse=True)
def elsewhere(stored, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(stored, tmp_path, dirs_exist_ok=True)


def lpfuse(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


def share_of_alarms(model):
    assert lpfuse("score", model, "new.csv", "-o", "scores.csv", "--quiet").exit_code == 0
    return float((pl.read_csv("scores.csv")["decision"] < 0).mean())


def test_alarms_come_back_to_the_rate():
    assert share_of_alarms("pumps.lpfuse") > 0.15
    answer = lpfuse("recalibrate", "pumps.lpfuse", "later.csv", "-o", "later.lpfuse")
    assert answer.exit_code == 0, answer.output
    assert answer.stdout.startswith(
        "Of these 997 rows, 21 % were called anomalies before, and 5 % are"
    )
    assert "665 rows promise false alarms of at most 5 % on average" in answer.stdout
    assert answer.stdout.endswith("Saved later.lpfuse.\n")
    assert abs(share_of_alarms("later.lpfuse") - 0.05) < 0.03
    assert library.load("later.lpfuse").preparation_.told[-1].startswith("Recalibrated: ")
    assert "997 later rows" in library.load("later.lpfuse").preparation_.told[-1]


def test_json_tells_what_moved():
    answer = lpfuse("recalibrate", "pumps.lpfuse", "later.csv", "-o", "later.lpfuse", "--json")
    found = json.loads(answer.stdout)
    assert found["rows"] == 1000
    assert found["calibration_rows"] == 665
    assert found["flagged"]["before"] > 0.15
    assert abs(found["flagged"]["after"] - 0.05) < 0.02
    assert found["warnings"] == []


def test_a_bare_detector():
    X = np.random.default_rng(0).normal(size=(200, 2))
    FusedDetector(["gmm"], random_state=0).fit(X).save("bare.lpfuse")
    pl.DataFrame(X[:150] + 9, schema=["a", "b"]).write_csv("rows.csv")
    answer = lpfuse("recalibrate", "bare.lpfuse", "rows.csv", "-o", "other.lpfuse", "--quiet")
    assert (answer.exit_code, answer.stdout) == (0, "")
    assert len(library.load("other.lpfuse").calibration_) == 150


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (pumps(10, 3), "10 rows cannot promise 5 %"),
        (pumps(50, 3).with_columns(state=pl.lit("broken")), "needs normal rows, got none among 50"),
        (pumps(50, 3).drop("flow"), "flow"),
        (wrong_cell(40), "Column 'flow' must hold numbers; row 42 holds 'much'"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_written(rows, told, tmp_path):
    rows.write_csv("rows.csv")
    answer = lpfuse("recalibrate", "pumps.lpfuse", "rows.csv", "-o", "later.lpfuse")
    assert answer.exit_code == 2
    assert told in answer.stderr
    assert not (tmp_path / "later.lpfuse").exists()
