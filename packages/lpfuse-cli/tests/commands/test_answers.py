"""``lpfuse ask`` and ``lpfuse teach``."""

import json
import re

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from helpers.model_files import members_of, write_members
from helpers.pumps import DETECTORS, pumps, write
from lpfuse import SVDD, FusedDetector, GMMDetector, KernelPCADetector, LpFusion, load
from lpfuse.io import save
from lpfuse_cli.app import app

NAMES = ["bar", "flow"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """An empty folder to work in, and no settings."""
    monkeypatch.chdir(tmp_path)
    for name in ("FORCE_COLOR", "NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


def lpfuse(*arguments, **options):
    return CliRunner().invoke(app, [*map(str, arguments)], **options)


def files(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(scope="module")
def stored(pump_model, tmp_path_factory):
    """A model of tables, one of arrays and one of data frames, and rows."""
    folder = tmp_path_factory.mktemp("stored")
    pump_model.save(folder / "table.lpfuse")
    X = pumps().select(NAMES).drop_nulls()
    detectors = [("gmm", GMMDetector()), ("kpca", KernelPCADetector())]
    for name, rows in {"arrays": X.to_numpy(), "frames": X}.items():
        FusedDetector(detectors, random_state=0).fit(rows).save(folder / f"{name}.lpfuse")
    new = pumps(90, seed=5)
    write(new, folder / "new.csv")
    write(new, folder / "new.parquet")
    write(new.select(NAMES).drop_nulls(), folder / "narrow.csv")
    return folder


def questions(page):
    (text,) = re.findall(r'<script type="application/json" id="questions">(.*?)</script>', page)
    return json.loads(text)


def answer_all(folder, answers=None):
    """The file that the page would export, by default with what is true of pumps."""
    page = (folder / "questions.html").read_text(encoding="utf-8")
    found, first = questions(page), 2 if "where the first line is row 1" in page else 1
    worn = pumps(90, seed=5)["state"] == "worn"
    lines = [
        q["before"]
        + ("anomaly" if worn[q["row"] - first] else "normal" if k % 5 else "don't know")
        + q["behind"]
        if answers is None
        else q["before"] + answers[k % len(answers)] + q["behind"]
        for k, q in enumerate(found["questions"])
    ]
    path = folder / "answers.csv"
    path.write_bytes("\n".join([found["header"], *lines, ""]).encode())
    return path


# ---------------------------------------------------------------------------------------------- ask


@pytest.mark.parametrize("data", ["new.csv", "new.parquet"])
def test_a_page_of_ten_questions(stored, data, tmp_path):
    answer = lpfuse("ask", stored / "table.lpfuse", stored / data)
    assert answer.exit_code == 0, answer.output
    assert files(tmp_path) == ["questions.html"]
    page = (tmp_path / "questions.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert len(questions(page)["questions"]) == 10
    first, labels, last = answer.stdout.splitlines()
    assert labels.startswith("10 of them have a label in")
    assert first == "10 of 90 rows are asked about."
    assert f"Next: lpfuse teach {stored / 'table.lpfuse'} answers.csv" in last


def test_csv_and_parquet_ask_the_same(stored):
    found = [
        json.loads(lpfuse("ask", stored / "table.lpfuse", stored / data, "--json", "-n", 7).stdout)
        for data in ("new.csv", "new.parquet")
    ]
    assert found[0].pop("rows") == [row + 1 for row in found[1]["rows"]]  # below the header
    assert len(found[1].pop("rows")) == 7
    assert found[0] == found[1]
    assert len(found[0]["chances"]) == 7


def test_the_seed_decides_and_quiet_names_the_page(stored):
    call = ["ask", stored / "table.lpfuse", stored / "new.csv", "-o", "q.html", "--json"]
    one, same, other = (json.loads(lpfuse(*call, "--seed", s).stdout)["rows"] for s in (1, 1, 2))
    assert one == same != other
    assert lpfuse(*call[:-1], "-q").stdout == "q.html\n"


def test_fewer_rows_than_questions(stored, tmp_path):
    write(pumps(4, seed=5), tmp_path / "few.csv")
    answer = lpfuse("ask", stored / "table.lpfuse", "few.csv")
    assert answer.stdout.startswith("4 of 4 rows are asked about; there are no more to ask about.")


def test_rows_from_standard_input(stored):
    answer = lpfuse("ask", stored / "table.lpfuse", "-", input=(stored / "new.csv").read_text())
    assert answer.exit_code == 0, answer.output


@pytest.mark.parametrize(
    ("model", "data", "words"),
    [
        ("none.lpfuse", "new.csv", "There is no model"),
        ("table.lpfuse", "none.csv", "There is no file"),
        ("table.lpfuse", "narrow.csv", "The data lack 3 columns that the model was trained on"),
        ("frames.lpfuse", "empty.csv", "The data lack 2 columns"),
        ("arrays.lpfuse", "new.csv", "must hold numbers"),
        ("table.lpfuse", "header.csv", "has no rows to ask about"),
        ("fusion.lpfuse", "new.csv", "holds LpFusion. A question needs a fused detector"),
        ("svdd.lpfuse", "new.csv", "holds SVDD. A question needs a fused detector"),
        ("new.csv", "new.csv", "new.csv"),
    ],
)
def test_what_cannot_be_asked_about_is_refused(stored, model, data, words, tmp_path):
    X = np.random.default_rng(0).normal(size=(40, 2))
    save(LpFusion().fit(X), stored / "fusion.lpfuse")
    save(SVDD().fit(X), stored / "svdd.lpfuse")
    (stored / "empty.csv").write_text("x\n1\n")
    (stored / "header.csv").write_text((stored / "new.csv").read_text().splitlines()[0] + "\n")
    answer = lpfuse("ask", stored / model, stored / data)
    assert answer.exit_code == 2
    assert words in answer.stderr
    assert len(answer.stderr.strip().splitlines()) == 1
    assert files(tmp_path) == []


@pytest.mark.parametrize("command", ["ask", "teach"])
def test_tampered_or_other_version_model_raises(stored, tmp_path, command):
    lpfuse("ask", stored / "table.lpfuse", stored / "new.csv")
    data = {"ask": stored / "new.csv", "teach": answer_all(tmp_path)}[command]
    there = files(tmp_path)
    for model in ("table", "arrays"):
        members = members_of((stored / f"{model}.lpfuse").read_bytes())
        assert b'"offset_": ' in members["manifest.json"]
        changed = members["manifest.json"].replace(b'"offset_": ', b'"offset_": "x", "was": ')
        write_members(tmp_path / "forged.lpfuse", members | {"manifest.json": changed})
        answer = lpfuse(command, "forged.lpfuse", data, "-o", "out")
        assert answer.exit_code == 2, answer.output
        assert "forged.lpfuse" in answer.stderr
    assert files(tmp_path) == sorted([*there, "forged.lpfuse"])


def test_what_is_read_is_not_overwritten(stored):
    model = stored / "table.lpfuse"
    before = model.read_bytes()
    for command in (
        ["ask", model, stored / "new.csv", "-o", model],
        ["teach", model, model, "-o", model],
    ):
        answer = lpfuse(*command)
        assert (answer.exit_code, "cannot be written" in answer.stderr) == (2, True)
    assert model.read_bytes() == before


# -------------------------------------------------------------------------------------------- teach


@pytest.mark.parametrize(
    ("model", "data"), [("table", "new.csv"), ("arrays", "narrow.csv"), ("frames", "narrow.csv")]
)
def test_a_model_learns_from_answers(stored, model, data, tmp_path):
    path = stored / f"{model}.lpfuse"
    assert lpfuse("ask", path, stored / data, "-n", 20).exit_code == 0
    answer = lpfuse("teach", path, answer_all(tmp_path), "-o", "better.lpfuse")
    assert answer.exit_code == 0, answer.output
    assert "left out as unknown:" in answer.stdout.splitlines()[0]
    assert re.search(r"\| detector +\| weight before +\| after +\|", answer.stdout)
    better, before = load(tmp_path / "better.lpfuse"), load(path)
    assert type(better) is type(before)
    assert better.audit_answers().summary() in answer.stdout
    assert answer.stdout.splitlines()[-1] == "Saved better.lpfuse."
    scored = lpfuse("score", "better.lpfuse", stored / "new.csv", "-o", "scores.csv")
    assert (scored.exit_code == 0) == (model != "arrays")


def test_teach_as_json(stored, tmp_path):
    path = stored / "table.lpfuse"
    lpfuse("ask", path, stored / "new.csv")
    answers = answer_all(tmp_path, ["normal", "anomaly", "don't know", "normal"])
    answer = lpfuse("teach", path, answers, "-o", "better.lpfuse", "--json")
    found = json.loads(answer.stdout)
    assert answer.stderr == ""
    assert found["answers"] == {"normal": 5, "anomalies": 3, "left_out": 2}
    assert set(DETECTORS) <= found["weights"]["before"].keys()
    assert set(DETECTORS) <= found["weights"]["after"].keys()
    assert found["audit"]["n_answers"] == 8
    assert found["model"] == "better.lpfuse"


def test_teach_quietly_says_nothing(stored, tmp_path):
    path = stored / "table.lpfuse"
    lpfuse("ask", path, stored / "new.csv")
    answer = lpfuse("teach", path, answer_all(tmp_path), "-o", "better.lpfuse", "-q")
    assert (answer.exit_code, answer.stdout, answer.stderr) == (0, "", "")


def test_a_signed_model_stays_signed(tmp_path, stored):
    (tmp_path / "key").write_bytes(b"0123456789abcdef")
    load(stored / "table.lpfuse").save(tmp_path / "signed.lpfuse", key=b"0123456789abcdef")
    assert lpfuse("ask", "signed.lpfuse", stored / "new.csv", "--key", "key").exit_code == 0
    answers = answer_all(tmp_path)
    answer = lpfuse("teach", "signed.lpfuse", answers, "-o", "better.lpfuse", "--key", "key")
    assert answer.exit_code == 0, answer.output
    load(tmp_path / "better.lpfuse", key=b"0123456789abcdef")
    with pytest.raises(ValueError, match="sign"):
        load(tmp_path / "better.lpfuse", key=b"another secret key")


def rewritten(path, change):
    """The file of answers, changed by a function of its table of texts."""
    table = pl.read_csv(path, infer_schema_length=0)
    change(table).write_csv(path)


def first_to(column, value):
    place = pl.int_range(pl.len()) == 0
    return lambda table: table.with_columns(
        pl.when(place).then(pl.lit(value)).otherwise(column).alias(column)
    )


def twice(table):
    """The first row once more, with the other answer."""
    other = table[:1].with_columns(answer=pl.lit("anomaly"))
    return pl.concat([table.with_columns(answer=pl.lit("normal")), other])


def below_the_undecided(table):
    """Two rows that nobody knows of, then one with a wrong cell."""
    unknown = table[:2].with_columns(answer=pl.lit("don't know"))
    return pl.concat([unknown, first_to("flow", "much")(table[2:])])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda table: table.drop("answer"), "lacks 'answer'"),
        (lambda table: table.drop("chance"), "lacks 'chance'"),
        (lambda table: table.drop("flow"), "lack 1 column that the model was trained on: 'flow'"),
        (lambda table: table.with_columns(answer=pl.lit("don't know")), "nothing to learn"),
        (lambda table: table[:0], "nothing to learn"),
        (first_to("chance", "0"), "a chance must lie between 1e-18 and 1"),
        (first_to("chance", "2"), "a chance must lie between 1e-18 and 1"),
        (first_to("chance", "1e-320"), "a chance must lie between 1e-18 and 1"),
        (first_to("answer", "maybe"), "row 2 holds 'maybe'"),
        (first_to("flow", "much"), "Column 'flow' must hold numbers; row 2 holds 'much'"),
        (below_the_undecided, "Column 'flow' must hold numbers; row 4 holds 'much'"),
        (twice, "rows 2 and 12 are equal, but one is normal and the other an anomaly"),
        (twice, 'Decide, or answer "don\'t know".'),
    ],
)
def test_answers_that_cannot_be_learnt_from_write_nothing(stored, tmp_path, change, words):
    path = stored / "table.lpfuse"
    lpfuse("ask", path, stored / "new.csv")
    answers = answer_all(tmp_path, ["normal"])
    rewritten(answers, change)
    (tmp_path / "better.lpfuse").write_bytes(b"what was there")
    answer = lpfuse("teach", path, answers, "-o", "better.lpfuse")
    assert answer.exit_code == 2, answer.output
    assert words in answer.stderr
    assert len(answer.stderr.strip().splitlines()) == 1
    assert (tmp_path / "better.lpfuse").read_bytes() == b"what was there"
    assert files(tmp_path) == ["answers.csv", "better.lpfuse", "questions.html"]


def test_columns_may_come_in_any_order_and_others_with_them(stored, tmp_path):
    path = stored / "table.lpfuse"
    lpfuse("ask", path, stored / "new.csv")
    answers = answer_all(tmp_path)
    found = []
    for change in (
        lambda table: table,
        lambda table: table[:, ::-1].with_columns(more=pl.lit("x")),
    ):
        rewritten(answers, change)
        answer = lpfuse("teach", path, answers, "-o", "better.lpfuse", "--json")
        assert answer.exit_code == 0, answer.output
        found.append(json.loads(answer.stdout))
    assert found[0] == found[1]


# ------------------------------------------------------------------------- a table of labelled rows

LABEL = ["--label", "state"]


@pytest.fixture
def labelled(tmp_path):
    """Rows with a column of labels, a third of which are empty."""
    state = pl.when(pl.int_range(pl.len()) % 3 > 0).then("state")
    return write(pumps(90, seed=5).with_columns(state=state), tmp_path / "labelled.csv")


@pytest.mark.parametrize("words", [[], ["--normal", "OK "], ["--anomaly", "worn"]])
def test_a_labelled_table_teaches_without_chances(stored, labelled, words):
    path = stored / "table.lpfuse"
    answer = lpfuse("teach", path, labelled, "-o", "better.lpfuse", *LABEL, *words)
    assert answer.exit_code == 0, answer.output
    assert answer.stdout.startswith("Label: 'state'; normal is 'ok' (")
    assert "anomalies are 'worn' (" in answer.stdout
    assert "30 rows without a label." in answer.stdout
    assert "No row was asked about with a known chance: there is no audit." in answer.stdout
    assert load("better.lpfuse").weights_.tolist() != load(path).weights_.tolist()


@pytest.mark.parametrize(("suffix", "row"), [("csv", 7), ("parquet", 6)])
def test_a_wrong_cell_of_a_labelled_table_is_named_by_its_row(stored, tmp_path, suffix, row):
    """Rows without a label and a column of texts stand before it."""
    texts = pumps(9, seed=5).drop_nulls("flow").with_columns(pl.col("flow").cast(pl.String))
    at = pl.int_range(pl.len())
    state = pl.when(at > 2).then("state")
    flow = pl.when(at == 5).then(pl.lit("much")).otherwise("flow")
    path = write(texts.with_columns(state=state, flow=flow), tmp_path / f"texts.{suffix}")
    answer = lpfuse("teach", stored / "table.lpfuse", path, "-o", "b.lpfuse", *LABEL)
    assert answer.exit_code == 2
    assert f"Column 'flow' must hold numbers; row {row} holds 'much'" in answer.stderr


def test_arrays_and_anomalies_alone_teach(stored):
    worn = pumps(90, seed=5).filter(pl.col("state") == "worn").drop_nulls()
    worn.select([*NAMES, "state"]).write_csv("worn.csv")
    call = ["teach", stored / "arrays.lpfuse", "worn.csv", "-o", "better.lpfuse", *LABEL]
    found = json.loads(lpfuse(*call, "--anomaly", "worn", "--json").stdout)
    assert found["answers"] == {"normal": 0, "anomalies": len(worn), "left_out": 0}
    assert found["notes"] == [f"Label: 'state'; anomalies are 'worn' ({len(worn)})."]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([*LABEL, "--normal", "fine"], "holds 'fine' nowhere, but 'ok', 'worn'"),
        (["--label", "stat"], "There is no column 'stat'. Did you mean 'state'?"),
        (["--label", "flow"], "Which is normal?"),
        (["--normal", "ok"], "Name it: --label"),
        ([], "for a table with labels, name their column: --label COLUMN"),
    ],
)
def test_labels_in_doubt_write_nothing(stored, labelled, tmp_path, words, told):
    answer = lpfuse("teach", stored / "arrays.lpfuse", labelled, "-o", "better.lpfuse", *words)
    assert answer.exit_code == 2
    assert told in answer.stderr
    assert files(tmp_path) == ["labelled.csv"]


def test_labels_mean_what_they_meant_to_a_fit_in_python(tmp_path):
    """Of a model that was fitted with 0 and 1, in a table as on a page."""
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(rng.normal(size=(120, 2)), schema=["a", "b"])
    y = np.where(np.arange(120) < 10, 1, 0)
    FusedDetector(DETECTORS, random_state=0).fit(frame, y, normal=0).save("model.lpfuse")
    new = frame[:6] + 0.01
    new.with_columns(state=pl.Series([1, 1, 0, 0, None, 0])).write_csv("new.csv")
    answer = lpfuse("teach", "model.lpfuse", "new.csv", "--label", "state", "-o", "new.lpfuse")
    assert answer.exit_code == 0, answer.output
    assert sorted(load("new.lpfuse").out_of_fold_.known[-5:]) == [-1, -1, 1, 1, 1]
    new.with_columns(state=pl.Series([1, 1, 0, 0, 2, 0])).write_csv("new.csv")
    answer = lpfuse("teach", "model.lpfuse", "new.csv", "--label", "state", "-o", "new.lpfuse")
    assert answer.exit_code == 2
    told = "holds '2' (1 row), which the fit did not see. Known are '0' (normal) and '1' (anomaly)"
    assert told in " ".join(answer.stderr.split())
    rows = new.with_columns(answer=pl.Series(["normal"] * 6), chance=pl.Series([0.5] * 6))
    rows.with_row_index("row").write_csv("answers.csv")
    answer = lpfuse("teach", "model.lpfuse", "answers.csv", "-o", "asked.lpfuse")
    assert answer.exit_code == 0, answer.output
    assert load("asked.lpfuse").out_of_fold_.known[-6:].tolist() == [1] * 6
