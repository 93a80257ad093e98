"""Files as people have them, from fit to teach."""

import json
import re

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from helpers.pumps import pumps
from lpfuse.frames import TableFormat
from lpfuse_cli.app import app
from lpfuse_cli.scoring import load_model
from lpfuse_cli.tables import read_table

FIT = ["--label", "state", "--normal", "ok", "--detectors", "gmm,kpca"]


def run(*arguments, code=0):
    answer = CliRunner().invoke(app, list(map(str, arguments)))
    assert answer.exit_code == code, answer.output
    return answer


def foreign(path, n=120, seed=0, factor=1.0, kind=None):
    """Semicolons, decimal commas, a unit, ids, notes, times, in cp1252."""
    random = np.random.default_rng(seed)
    lines = ["Nr;Druck;Fluß;Art;Notiz;Zeit;state"]
    for i, (bar, flow, art, when, state) in enumerate(
        pumps(n, seed=seed).select("bar", "flow", "kind", "when", "state").rows()
    ):
        druck = "" if bar is None else f"{bar * factor:.3f}".replace(".", ",")
        fluss = f"{flow:.2f} m3/h".replace(".", ",")
        note = " ".join(random.choice(["leckt", "an", "der", "Dichtung", "geprüft"], 5))
        time = f"{when:%d.%m.%Y} {random.integers(24):02d}:00"
        lines.append(f"{i};{druck};{fluss};{kind or art};{note};{time};{state}")
    path.write_bytes("\r\n".join(lines).encode("cp1252"))
    return path


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "m.lpfuse"
    run("fit", foreign(tmp_path / "train.csv"), *FIT, "-o", path, "-q")
    return path


def test_fit_says_what_it_took_for_what(tmp_path):
    answer = run("fit", foreign(tmp_path / "train.csv"), *FIT, "-o", tmp_path / "m")
    told = answer.stdout
    assert "  File: semicolons between columns, decimal commas and encoding cp1252.\n" in told
    assert "  Numbers: 'Druck', 'Fluß' (m3/h).\n" in told
    assert "  Dates: 'Zeit' (time of day, weekday).\n" in told
    assert "  Dropped: 'Nr', it numbers the rows.\n" in told
    assert "  Dropped: 'Notiz', it is free text" in told
    answer = run("fit", tmp_path / "train.csv", *FIT, "-o", tmp_path / "m", "--json")
    found = json.loads(answer.stdout)
    assert found["columns"] == {
        "Druck": "number",
        "Fluß": "number in m3/h",
        "Zeit": "date",
        "Art": "category",
        "Nr": "id",
        "Notiz": "text",
    }
    assert found["notes"][0].startswith("File: semicolons")


def test_columns_can_be_told(tmp_path):
    more = ["--as", "Nr=number", "--as", "Zeit=elapsed", "--as", "Art=drop", "--json"]
    answer = run("fit", foreign(tmp_path / "train.csv"), *FIT, *more, "-o", tmp_path / "m")
    columns = json.loads(answer.stdout)["columns"]
    assert (columns["Nr"], columns["Zeit"], columns["Art"]) == ("number", "elapsed", "dropped")
    refusals = {
        "Nr": "--as says what a column is: COL=KIND; got 'Nr'",
        "Nr=nothing": "got 'nothing'",
        "x=id": "There is no column 'x'",
    }
    for wrong, told in refusals.items():
        answer = run("fit", tmp_path / "train.csv", "--as", wrong, "-o", tmp_path / "n", code=2)
        assert told in answer.stderr


def test_every_command_reads_such_files(model, tmp_path):
    new = foreign(tmp_path / "new.csv", seed=1)
    answer = run("score", model, new, "-o", tmp_path / "s.csv", "--keep", "Druck")
    assert "Note: Read as a file with semicolons between columns" in answer.stderr
    assert load_model(model).preparation_.number_columns == ["Druck", "Fluß"]
    run("report", model, new, "-o", tmp_path / "r.html")
    run("ask", model, new, "-o", tmp_path / "q.html")
    scores = tmp_path / "scores.csv"
    lines = [f"{a:.3f};{b:.3f};{c}".replace(".", ",") for a, b, c in zip(
        np.random.default_rng(0).normal(size=60), np.random.default_rng(1).normal(size=60),
        ["ok"] * 50 + ["bad"] * 10, strict=True)]  # fmt: skip
    scores.write_text("\n".join(["a;b;state", *lines]))
    answer = run("fuse", scores, "--label", "state", "--normal", "ok")
    assert "File: semicolons between columns and decimal commas." in answer.stdout
    answers = tmp_path / "answers.csv"
    rows = new.read_text("cp1252").splitlines()
    header = f"row;answer;chance;{rows[0]}"
    told = [f"{k};{'anomaly' if k % 4 == 0 else 'normal'};0,5;{rows[k + 1]}" for k in range(12)]
    answers.write_bytes("\n".join([header, *told]).encode("cp1252"))
    run("teach", model, answers, "-o", tmp_path / "better.lpfuse")


def test_what_is_told_overrules_and_is_remembered(tmp_path):
    train = tmp_path / "train.csv"
    frame = pumps(60).select("flow", "wet", "state")
    lines = [f"{flow:.3f};{wet};{state}" for flow, wet, state in frame.rows()]
    train.write_text("\n".join(["flow;wet;state", *lines]).replace(".", ","))
    reading = ["--separator", ";", "--decimal", ",", "--encoding", "utf-8", "--quote", "none"]
    run("fit", train, *FIT, *reading, "-o", tmp_path / "m")
    told = TableFormat(";", ",", "utf-8", "none")
    assert load_model(tmp_path / "m").preparation_.format == told
    # A single row could be read in two ways; it is read as the training was.
    (tmp_path / "one.csv").write_text('flow;wet;note\n7,123;true;5"\n')
    run(
        "score",
        tmp_path / "m",
        tmp_path / "one.csv",
        "-o",
        tmp_path / "s.csv",
        "--keep",
        "note,flow",
    )
    assert (tmp_path / "s.csv").read_text().splitlines()[1].startswith('"5""";7,123;')
    (tmp_path / "two.csv").write_text("flow,wet\n7.123,true\n")
    more = ["--separator", ",", "--decimal", "."]
    run("score", tmp_path / "m", tmp_path / "two.csv", "-o", tmp_path / "s.csv", *more)
    answer = run("fit", train, *FIT, "--separator", "x", "-o", tmp_path / "n", code=2)
    assert "Error: --separator x is none of" in answer.stderr
    assert not (tmp_path / "n").exists()


def amounts(path, seed=0, separator=",", write="{:,}"):
    """Whole amounts, of which a few have four digits, and numbers with decimal points."""
    random = np.random.default_rng(seed)
    whole = random.integers(50, 950, 100)
    whole[:5] = random.integers(5000, 9000, 5)
    written = [write.format(each).replace(",", ".") for each in whole]
    rows = [f"{a}{separator}{b:.2f}" for a, b in zip(written, random.normal(size=100), strict=True)]
    path.write_text("\n".join([f"amount{separator}x", *rows]))
    return float(np.median(whole))


def test_points_between_thousands_are_known_and_told(tmp_path):
    middle = amounts(tmp_path / "train.csv")
    train = ["fit", tmp_path / "train.csv", "--detectors", "gmm", "-o", tmp_path / "m"]
    told = "Points between thousands: 'amount'. If they stand before decimals, say --decimal ."
    assert told in run(*train).stdout
    made = load_model(tmp_path / "m").preparation_
    assert (made.medians["amount"], made.commas) == (middle, ("amount",))
    # Rows of which none is below 1,000 mean what they did among others.
    (tmp_path / "new.csv").write_text("amount,x\n6.278,0.5\n8.120,0.25\n")
    run("score", tmp_path / "m", tmp_path / "new.csv", "-o", tmp_path / "s.csv")
    table = read_table(tmp_path / "new.csv", format=made.format)
    assert made.numbers(table)[:, 0].tolist() == [6278, 8120]
    assert told not in run(*train, "--decimal", ".").stdout
    assert load_model(tmp_path / "m").preparation_.medians["amount"] < 900


def test_decimals_of_a_file_with_commas_are_no_thousands(tmp_path):
    rows = [f"{each};{k % 7}" for k, each in enumerate(["8,863", "117", "6,278", "64"] * 15)]
    (tmp_path / "train.csv").write_text("\n".join(["amount;x", *rows]))
    run("fit", tmp_path / "train.csv", "--detectors", "gmm", "-o", tmp_path / "m")
    made = load_model(tmp_path / "m").preparation_
    assert made.commas == ()
    assert made.medians["amount"] == (8.863 + 64) / 2


def test_what_is_new_is_told_once(tmp_path):
    rows = [f"{k % 9}.5,{'yes' if k % 2 else 'no'}" for k in range(60)]
    (tmp_path / "train.csv").write_text("\n".join(["x,paid", *rows]))
    (tmp_path / "new.csv").write_text("x,paid\n" + "2.5,true\n" * 30)
    run("fit", tmp_path / "train.csv", "--detectors", "gmm", "-o", tmp_path / "m")
    answer = run("score", tmp_path / "m", tmp_path / "new.csv", "-o", tmp_path / "s.csv")
    assert answer.stderr.count("'paid'") == 1
    assert "taken as missing: 'paid' in 30 rows" in answer.stderr


def test_a_column_that_left_its_range_is_said(model, tmp_path):
    new = foreign(tmp_path / "new.csv", seed=1, factor=1000)
    answer = run("score", model, new, "-o", tmp_path / "s.csv")
    assert "'Druck' left the range of the training, " in answer.stderr
    assert "by about 1,000 times what it was. Has its unit changed?" in answer.stderr
    answer = run("score", model, new, "-o", tmp_path / "s.csv", "--json")
    (found,) = json.loads(answer.stdout)["left_range"]
    assert (found["column"], found["factor"]) == ("Druck", 1000.0)


def test_new_text_is_counted_without_flagging_all_rows(model, tmp_path):
    new = foreign(tmp_path / "new.csv", seed=1, kind="neu")
    answer = run("score", model, new, "-o", tmp_path / "s.csv", "--json")
    found = json.loads(answer.stdout)
    assert found["left_range"] == [{"column": "Art", "rows": 120, "share": 1.0, "unknown": 120}]
    assert found["anomalies"] < 60
    assert "and taken as missing: 'Art' in 120 rows." in found["notes"][1]


def test_a_sample_and_a_spreadsheet(tmp_path):
    train = foreign(tmp_path / "train.csv", n=200)
    answer = run("fit", train, *FIT, "--sample", "100", "-o", tmp_path / "m")
    assert "Sample: 100 of 200 rows" in answer.stdout
    assert "File: semicolons" in answer.stdout
    openpyxl = pytest.importorskip("openpyxl")
    pytest.importorskip("fastexcel")
    book = openpyxl.Workbook()
    frame = pumps(60).select("bar", "flow", "kind", "when", "state")
    for row in [frame.columns, *map(list, frame.rows())]:
        book.active.append(row)
    book.save(tmp_path / "pumps.xlsx")
    answer = run("fit", tmp_path / "pumps.xlsx", *FIT, "-o", tmp_path / "m", "--json")
    assert json.loads(answer.stdout)["columns"]["when"] == "date"
    run("score", tmp_path / "m", tmp_path / "pumps.xlsx", "-o", tmp_path / "s.csv")
    answer = run("fit", tmp_path / "pumps.xlsx", *FIT, "--sheet", "x", "-o", tmp_path / "n", code=2)
    assert "has no sheet 'x'. It has 'Sheet'." in answer.stderr


def test_words_for_gaps_and_mistakes_are_told_by_row(tmp_path):
    train, lines = tmp_path / "train.csv", ["bar,flow,state"]
    lines += [f"{k * k % 61}.5,{k * k % 59}.5,{'ok' if k % 9 else 'bad'}" for k in range(60)]
    train.write_text("\n".join([*lines, "n/a,-,ok", "--,3.5,ok"]))
    told = run("fit", train, *FIT, "-o", tmp_path / "m").stdout
    assert "'n/a' in 'bar' (1 row), '--' in 'bar' (1 row), '-' in 'flow' (1 row).\n" in told
    run("score", tmp_path / "m", train, "-o", tmp_path / "s.csv")
    train.write_text("\n".join([*lines, "off,-,ok", "3,much,ok"]))
    answer = run("fit", train, *FIT, "-o", tmp_path / "n", code=2)
    assert "row 62 holds 'off'; column 'flow' holds numbers" in answer.stderr
    assert "row 63 holds 'much'" in answer.stderr
    train.write_text("\n".join([lines[0], ",,", *lines[1:], "off,-,ok"]))  # a line is left out
    assert "row 63 holds 'off'" in run("fit", train, *FIT, "-o", tmp_path / "n", code=2).stderr


def test_titles_above_the_header(tmp_path):
    """Found, said, and remembered for `score`, `report`, `ask` and `watch`."""
    lines = pumps(150).write_csv().splitlines()
    data, model = tmp_path / "rows.csv", tmp_path / "m"
    data.write_text("\n".join(["Pumps of the north", "", *lines, ""]))
    answer = run("fit", data, *FIT, "-o", model, code=2)
    assert "If the header is in row 3" in answer.output
    assert "say --header-row 3" in answer.output
    answer = run("fit", data, *FIT, "--header-row", "3", "-o", model)
    assert "File: header in row 3." in answer.stdout
    run("score", model, data, "-o", tmp_path / "s.csv")
    scores = pl.read_csv(tmp_path / "s.csv")
    assert scores.height == 150
    run("watch", model, data, "-o", tmp_path / "v.csv", "--once")
    watched = pl.read_csv(tmp_path / "v.csv")["score"].to_numpy()
    np.testing.assert_allclose(watched, scores["score"].to_numpy())
    found = json.loads(run("report", model, data, "--json").stdout)
    row = found["alarm_list"]["rows"][0]
    assert data.read_text().splitlines()[row[0] - 1].startswith(row[5])
    trained = json.loads(run("report", model, "--json").stdout)["alarm_list"]["rows"][0]
    assert 4 <= trained[0] <= 153
    data.write_text("\n".join(lines))  # without titles
    answer = run("score", model, data, "-o", tmp_path / "s.csv", code=2)
    assert "say --header-row 1" in answer.output


def test_reasons_have_the_decimal_sign_of_the_file(model, tmp_path):
    data = foreign(tmp_path / "new.csv", seed=5, factor=3.0)
    run("score", model, data, "-o", tmp_path / "s.csv", "--explain", "1")
    scores = read_table(tmp_path / "s.csv")
    first, *others = scores["why"].drop_nulls().to_list()
    assert re.search(r"Druck \d,\d+ \(usually 2,\d+ to 2,\d+\): −\d+,\d+", first)
    assert others
    assert all(
        re.search(r"Druck \d,\d+ \(usually 2,\d+ to 2,\d+\)", why)
        for why in others
        if "Druck" in why
    )
    assert any("Druck" in why for why in others)
    data.write_text(data.read_text("cp1252").replace(",", ".").replace(";", ","), "cp1252")
    plain = ("--decimal", ".", "--separator", ",")
    run("score", model, data, "-o", tmp_path / "s.csv", *plain)
    assert "usually 2." in (tmp_path / "s.csv").read_text()


def test_questions_about_rows_with_a_label_say_so(model, tmp_path):
    data = foreign(tmp_path / "new.csv", n=60, seed=5)
    answer = run("ask", model, data, "-o", tmp_path / "q.html", "-n", "7")
    assert "7 of them have a label in" in answer.stdout
    assert "--label state -o MODEL" in answer.stdout
    text = data.read_text("cp1252").replace(";ok", ";").replace(";worn", ";")
    data.write_text(text, "cp1252")
    answer = run("ask", model, data, "-o", tmp_path / "q.html")
    assert "have a label" not in answer.stdout
