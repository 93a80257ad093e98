import json

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from helpers.model_files import members_of, write_members
from helpers.pools import both
from lpfuse import SVDD, FusedDetector, KernelPCADetector
from lpfuse_cli.app import app
from lpfuse_cli.fitting import fit_table
from lpfuse_cli.report import summarise

NAMES = ["bar", "flow", "heat", "noise"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """An empty folder to work in, and no settings."""
    monkeypatch.chdir(tmp_path)
    for name in ("FORCE_COLOR", "NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


def lpfuse(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def pumps(seed=0):
    X, y = both(n=80, anomalies=20, seed=seed)
    table = pl.DataFrame(X, schema=NAMES)
    return table.with_columns(pl.Series("state", np.where(y > 0, "ok", "broken")))


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A model of tables, one of arrays and one of data frames, and new rows."""
    folder = tmp_path_factory.mktemp("stored")
    table = pumps()
    model = fit_table(table, label="state", normal="ok", detectors=["kpca", "svdd"])
    model.save(folder / "table.lpfuse")
    X, y = table.select(NAMES), np.where(table["state"] == "ok", 1, -1)
    detectors = [("kpca", KernelPCADetector()), ("svdd", SVDD())]
    for name, rows in {"arrays": X.to_numpy(), "frames": X}.items():
        FusedDetector(detectors, random_state=0).fit(rows, y).save(folder / f"{name}.lpfuse")
    new = pumps(seed=9)
    new.write_csv(folder / "new.csv")
    new.write_parquet(folder / "new.parquet")
    return folder


# ------------------------------------------------------------------------------------ what it does


def test_a_page_of_the_training_rows(stored, tmp_path):
    answer = lpfuse("report", stored / "table.lpfuse")
    assert answer.exit_code == 0, answer.output
    assert files(tmp_path) == ["report.html"]
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    first, *_, last = answer.stdout.splitlines()
    assert first in page.replace("&#39;", "'")
    assert last == "Written to report.html. Open it in a browser."


@pytest.mark.parametrize("data", ["new.csv", "new.parquet"])
def test_new_rows_are_judged_by_the_label_of_the_training(stored, data):
    answer = lpfuse("report", stored / "table.lpfuse", stored / data, "--json")
    assert answer.exit_code == 0, answer.output
    found = json.loads(answer.stdout)
    assert found["judged_on"]["origin"] == "given"
    assert found["judged_on"]["anomalies"] == 20
    names = {reason["name"] for row in found["strangest"] for reason in row["reasons"]}
    assert names
    assert names <= {*NAMES}


@pytest.mark.parametrize("model", ["arrays", "frames"])
def test_a_detector_saved_in_python(stored, model, tmp_path):
    path = stored / f"{model}.lpfuse"
    told = ["--label", "state", "--normal", "ok"]
    answer = lpfuse("report", path, stored / "new.csv", *told, "--json")
    assert answer.exit_code == 0, answer.output
    found = json.loads(answer.stdout)
    import lpfuse as library

    new = pumps(seed=9)
    X = new.select(NAMES)
    expected = summarise(
        library.load(path),
        X.to_numpy() if model == "arrays" else X,
        np.where(new["state"] == "ok", 1, -1),
        names=NAMES if model == "arrays" else None,
        numbers=2,  # below the header
    )
    for key in ("fusion", "judged_on", "threshold"):
        assert found[key] == expected[key]
    assert files(tmp_path) == []  # --json alone writes no page


def test_columns_may_come_in_any_order(stored):
    table = pumps(seed=9).select(["noise", "state", "bar", "heat", "flow"])
    table.write_csv("turned.csv")
    answers = [
        lpfuse(
            "report",
            stored / f"{model}.lpfuse",
            data,
            "--label",
            "state",
            "--normal",
            "ok",
            "--json",
        )
        for model in ("table", "frames")
        for data in ("turned.csv", stored / "new.csv")
    ]
    aucs = [json.loads(answer.stdout)["fusion"]["auc"] for answer in answers]
    assert aucs[0] == aucs[1]
    assert aucs[2] == aucs[3]


def test_unlabelled_rows_are_told_apart(stored):
    pumps(seed=9).drop("state").write_csv("bare.csv")
    for model in ("table", "arrays"):
        answer = lpfuse("report", stored / f"{model}.lpfuse", "bare.csv", "-o", "bare.html")
        assert answer.exit_code == 0, answer.output
        assert "None of these rows is labelled an anomaly" in answer.stdout


def test_training_rows_are_known_again(stored, tmp_path):
    pumps().write_csv("old.csv")
    for model in ("table", "arrays"):
        told = ["--label", "state", "--normal", "ok"]
        answer = lpfuse("report", stored / f"{model}.lpfuse", "old.csv", *told, "--check")
        assert answer.exit_code == 3, answer.output
        assert "rows, but the model learnt from them" in answer.stdout.splitlines()[0]
        assert "\n100 of 100 rows are rows that the model learnt from" in answer.stdout
        assert "asked for" not in answer.stdout
        page = (tmp_path / "report.html").read_text(encoding="utf-8")
        assert "training rows: no measure of new ones" in page
        assert 'id="calibration"' not in page
        # Without them they are judged held out, which is honest.
        answer = lpfuse("report", stored / f"{model}.lpfuse", "--check")
        assert answer.exit_code == 0, answer.output
        assert "normal training rows, each held out" in answer.stdout


def test_kept_columns_and_names_are_on_the_page(stored, tmp_path):
    table = pumps(seed=9).with_row_index("serial")
    table.write_csv("ids.csv")
    command = ["report", stored / "table.lpfuse", "ids.csv", "--keep", "serial", "--keep", "state"]
    answer = lpfuse(*command)
    assert answer.exit_code == 0, answer.output
    assert " alarms among 100 rows: " in answer.stdout.splitlines()[0]
    assert answer.stdout.splitlines()[answer.stdout.splitlines().index("Next") + 1][:2] == "  "
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "ids.csv" in page
    assert "table.lpfuse" in page
    found = json.loads(lpfuse(*command, "--json").stdout)
    assert found["files"] == {"model": "table.lpfuse", "data": "ids.csv"}
    assert found["alarm_list"]["kept"] == ["serial", "state"]
    for row in found["alarm_list"]["rows"]:
        assert row[5:] == [str(row[0] - 2), "ok" if row[1] > 0 else "broken"]
    refused(lpfuse(*command[:3], "--keep", "seral"), "Did you mean 'serial'")
    refused(lpfuse(*command[:2], "--keep", "serial"), "--keep shows columns of DATA")


def test_json_says_what_the_command_says(stored):
    arguments = ["report", stored / "table.lpfuse", stored / "new.csv"]
    found = json.loads(lpfuse(*arguments, "--json").stdout)
    told = lpfuse(*arguments).stdout
    normal = found["alarms"]["normal"]
    assert f"({normal['flagged']} of {normal['rows']}; 95 % interval " in told
    assert found["alarms"]["anomalies"]["flagged"] == found["threshold"]["flagged"]["anomalies"]


def test_json_and_a_page(stored, tmp_path):
    answer = lpfuse("report", stored / "table.lpfuse", "--json", "-o", "page.html")
    json.loads(answer.stdout)
    assert files(tmp_path) == ["page.html"]


@pytest.mark.parametrize(
    ("command", "more", "told"),
    [
        ("report", [], "Call it 'page.html'"),
        ("ask", ["new.csv"], "Call it 'page.html'"),
        ("card", [], "Call it 'page.md'"),
    ],
)
def test_a_name_that_promises_another_kind_of_file_is_refused(
    stored, tmp_path, command, more, told
):
    rows = [stored / name for name in more]
    refused(lpfuse(command, stored / "table.lpfuse", *rows, "-o", "page.pdf"), ".pdf", told)
    assert files(tmp_path) == []


@pytest.mark.parametrize("arguments", [["-q", "report"], ["report", "--quiet"]])
def test_quiet_names_the_file(stored, arguments):
    answer = lpfuse(*arguments, stored / "table.lpfuse", "-o", "page.html")
    assert answer.stdout == "page.html\n"
    assert answer.stderr == ""


def test_help_has_an_example():
    answer = lpfuse("report", "--help")
    assert "Example: lpfuse report pumps.lpfuse new.csv -o report.html" in " ".join(
        answer.output.split()
    )


# --------------------------------------------------------------------------------------- bad input


def refused(answer, *told):
    assert answer.exit_code == 2, answer.output
    assert answer.stdout == ""
    assert "Traceback" not in answer.output
    *phases, said = answer.stderr.splitlines()
    assert all(phase.endswith(" …") for phase in phases)
    assert said.startswith("Error: ")
    for text in told:
        assert text in said, said


def test_no_such_model(tmp_path):
    refused(lpfuse("report", "nowhere.lpfuse"), "nowhere.lpfuse")
    assert files(tmp_path) == []


def test_what_is_no_model(stored, tmp_path):
    refused(lpfuse("report", stored / "new.csv", "-o", "page.html"), "new.csv", "MODEL")
    answer = lpfuse("score", stored / "new.csv", stored / "table.lpfuse", "-o", "s.csv")
    refused(answer, "new.csv is a table, not a model", "Name the model first")
    from lpfuse.io import save

    save(SVDD().fit(np.random.default_rng(0).normal(size=(20, 2))), "svdd.lpfuse")
    refused(lpfuse("report", "svdd.lpfuse"), "holds SVDD", "fused detector")
    save(FusedDetector(), "unfitted.lpfuse")
    refused(lpfuse("report", "unfitted.lpfuse"), "not fitted")
    assert files(tmp_path) == ["svdd.lpfuse", "unfitted.lpfuse"]


def test_a_model_that_was_cut_short(stored, tmp_path):
    whole = (stored / "table.lpfuse").read_bytes()
    (tmp_path / "half.lpfuse").write_bytes(whole[: len(whole) // 2])
    refused(lpfuse("report", "half.lpfuse"), "half.lpfuse", "damaged")
    assert files(tmp_path) == ["half.lpfuse"]


def tampered(source, target, old, new):
    """A copy of a model with another text in its manifest."""
    members = members_of(source.read_bytes())
    assert old in members["manifest.json"]
    members["manifest.json"] = members["manifest.json"].replace(old, new)
    write_members(target, members)


@pytest.mark.parametrize(
    ("old", "new"), [(b'"offset_": ', b'"offset_": "x", "was": '), (b'"p": ', b'"p": "x", "q": ')]
)
def test_a_model_that_was_tampered_with(stored, tmp_path, old, new):
    for model in ("table", "arrays"):
        tampered(stored / f"{model}.lpfuse", tmp_path / "forged.lpfuse", old, new)
        refused(lpfuse("report", "forged.lpfuse"), "forged.lpfuse")
    assert files(tmp_path) == ["forged.lpfuse"]


def test_rows_that_are_not_there(stored, tmp_path):
    model = stored / "table.lpfuse"
    refused(lpfuse("report", model, "nowhere.csv"), "nowhere.csv")
    (tmp_path / "empty.csv").write_text("bar,flow,heat,noise\n")
    refused(lpfuse("report", model, "empty.csv"), "no rows")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no")
    refused(lpfuse("report", model, "broken.parquet"), "broken.parquet")
    assert "report.html" not in files(tmp_path)


def test_columns_that_are_missing_are_named(stored, tmp_path):
    pumps().drop("heat").write_csv("three.csv")
    for model in ("table", "frames"):
        refused(lpfuse("report", stored / f"{model}.lpfuse", "three.csv"), "heat")
    refused(
        lpfuse(
            "report", stored / "arrays.lpfuse", "three.csv", "--label", "state", "--normal", "ok"
        ),
        "4 features",
    )
    assert files(tmp_path) == ["three.csv"]


def test_labels_that_tell_nothing(stored):
    model, data = stored / "table.lpfuse", stored / "new.csv"
    refused(lpfuse("report", model, data, "--label", "stat"), "Did you mean 'state'")
    refused(lpfuse("report", model, data, "--label", "state"), "Which is normal?")
    refused(lpfuse("report", model, data, "--label", "state", "--normal", "fine"), "'fine'")
    refused(lpfuse("report", model, data, "--normal", "ok"), "--label")
    refused(lpfuse("report", model, "--label", "state"), "name the file")


def test_text_among_the_numbers(stored, tmp_path):
    table = pumps(seed=9).with_columns(pl.col("bar").cast(pl.String))
    table = table.with_columns(
        bar=pl.when(pl.int_range(pl.len()) == 3).then(pl.lit("x")).otherwise("bar")
    )
    table.write_csv("typo.csv")
    refused(lpfuse("report", stored / "table.lpfuse", "typo.csv"), "bar", "x")


def test_a_folder_that_cannot_be_written(stored, tmp_path, monkeypatch):
    model = stored / "table.lpfuse"
    refused(lpfuse("report", model, "-o", "nowhere/page.html"), "nowhere")
    (tmp_path / "folder").mkdir()
    refused(lpfuse("report", model, "-o", "folder"), "folder")
    data = tmp_path / "rows.csv"
    pumps().write_csv(data)
    refused(lpfuse("report", model, data, "-o", data), "is read")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    answer = lpfuse("report", model, "-o", "page.html")
    assert answer.exit_code == 1
    assert "No space left" in answer.stderr
    assert files(tmp_path) == ["folder", "rows.csv"]


def test_without_jinja_the_extra_is_named(stored, tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "jinja2", None)
    refused_answer = lpfuse("report", stored / "table.lpfuse")
    assert refused_answer.exit_code == 2
    assert 'pip install "lpfuse[cli]"' in refused_answer.stderr
    assert files(tmp_path) == []


def test_rows_have_the_numbers_of_the_file(stored, tmp_path):
    lines = (stored / "new.csv").read_text().splitlines()
    wide = "," * lines[0].count(",")
    (tmp_path / "gaps.csv").write_text("\n".join([lines[0], lines[1], wide, *lines[2:]]) + "\n")
    found = [
        json.loads(lpfuse("report", stored / "table.lpfuse", data, "--json").stdout)
        for data in (stored / "new.csv", tmp_path / "gaps.csv")
    ]
    whole, gaps = ([row[0] for row in each["alarm_list"]["rows"]] for each in found)
    assert whole
    assert gaps == [row + (row > 2) for row in whole]
    assert [row["row"] for row in found[1]["strangest"][: len(gaps)]] == gaps[
        : len(found[1]["strangest"])
    ]


@pytest.mark.parametrize("options", [(), ("--sample", "700")])
def test_training_rows_have_the_numbers_of_their_file(tmp_path, options):
    """Though some are empty, copies, or set aside for the threshold; or drawn by chance."""
    n = 2_600 if not options else 900
    X = np.random.default_rng(0).normal(size=(n, 2))
    X[10:100] = X[100:190]  # copies are learnt from once
    X[500, 0] = 1e6  # is blanked in the training
    lines = [f"{a!r},{b!r}" for a, b in X.tolist()]
    strange = [200, 201, n - 60, n - 3]
    for k, row in enumerate(strange):
        lines[row] = f"{9 + k},-9"
    lines[300:300] = [",", ","]  # hold no value, and count as rows
    (tmp_path / "rows.csv").write_text("\n".join(["a,b", *lines]))
    fit = ("fit", "rows.csv", "--detectors", "knn", "-o", "m.lpfuse", "-q", *options)
    assert lpfuse(*fit).exit_code == 0
    answer = lpfuse("report", "m.lpfuse", "--json")
    assert answer.exit_code == 0, answer.output
    found = json.loads(answer.stdout)
    text = (tmp_path / "rows.csv").read_text().splitlines()
    rows = [row["row"] for row in found["strangest"]]
    told = {text[row - 1] for row in rows[:2]}
    assert told & {f"{9 + k},-9" for k in range(4)}
    for listed in found["alarm_list"]["rows"]:
        if listed[0] is not None and listed[4].startswith("a "):
            cell = float(text[listed[0] - 1].partition(",")[0])
            shown = float(listed[4].split()[1].replace("−", "-").replace(",", ""))
            assert shown == pytest.approx(cell, rel=1e-4, abs=1e-4)
    assert sum(row[0] is None for row in found["alarm_list"]["rows"]) == 0
