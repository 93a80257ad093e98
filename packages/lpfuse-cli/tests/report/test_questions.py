import json
import re

import numpy as np
import polars as pl
import pytest

from helpers.pools import normal_rows
from helpers.pumps import DETECTORS, pumps, write
from helpers.reports import NASTY, fitted
from lpfuse import FixedRule, FusedDetector
from lpfuse_cli.fitting import fit_table
from lpfuse_cli.report import ask, read_answers, write_questions
from lpfuse_cli.report.questions import FEW, MOST, html
from lpfuse_cli.scoring import rows_of, score_frame
from lpfuse_cli.tables import read_table


@pytest.fixture(scope="module")
def model():
    return fit_table(pumps(), label="state", normal="ok", detectors=DETECTORS)


@pytest.fixture(scope="module")
def found(model):
    return ask(model, pumps(120, seed=5), 10)


def values(question):
    return {value["name"]: value for value in question["values"]}


def embedded(page):
    (text,) = re.findall(r'<script type="application/json" id="questions">(.*?)</script>', page)
    return json.loads(text)


def answered(found, path, answer="normal"):
    """The file of answers as the page writes it."""
    lines = [q["before"] + answer + q["behind"] for q in found["questions"]]
    path.write_bytes("\n".join([found["header"], *lines, ""]).encode())
    return read_answers(path)


# ------------------------------------------------------------------------------------ what is asked


def test_the_rows_are_those_of_query_with_their_chances(model, found):
    frame = pumps(120, seed=5)
    rows, chances = model.query(
        model.preparation_.rows_of(frame), 10, random_state=0, return_chances=True
    )
    assert [q["row"] for q in found["questions"]] == rows.tolist()
    assert [q["chance"] for q in found["questions"]] == chances.tolist()
    assert found["rows"] == 120


def test_scores_and_contributions_are_those_of_the_model(model, found):
    frame = pumps(120, seed=5)
    scored = score_frame(model, frame)
    for question in found["questions"]:
        row = scored.row(question["row"], named=True)
        assert question["score"] == pytest.approx(row["score"])
        assert question["normal"] == (row["decision"] > 0)
        parts = [row[f"contribution:{name}"] for name in found["detectors"]]
        assert question["contributions"] == pytest.approx(parts, rel=1e-3)


def test_values_come_from_the_file_with_their_ranks(found):
    frame = pumps(120, seed=5)
    for question in found["questions"]:
        told = values(question)
        row = frame.row(question["row"], named=True)
        assert list(told) == [name for name in frame.columns if name != "state"]  # which is asked
        assert told["serial"]["text"] == row["serial"]
        assert told["serial"]["note"] == "not used by the model"
        assert told["wet"]["text"] == str(row["wet"])
        flow = frame["flow"].to_numpy()
        assert told["flow"]["place"] == pytest.approx(((flow < row["flow"]).sum() + 0.5) / 120)
        assert told["kind"]["note"] == f"{(frame['kind'] == row['kind']).sum()} of 120 rows"
        assert (told["bar"]["text"] is None) == (row["bar"] is None)


def test_an_extreme_value_is_called_unusual():
    frame = pl.DataFrame({"a": [*np.linspace(0, 1, 99), 50.0], "b": np.linspace(1, 2, 100) ** 2})
    kinds = {"a": "number", "b": "number"}  # though they grow
    with pytest.warns(UserWarning, match=r"column 'a': 50\.0 \(1×\)"):
        model = fit_table(frame, detectors=["gmm"], kinds=kinds)
    found = ask(model, frame, 100)
    by_row = {q["row"]: values(q) for q in found["questions"]}
    assert by_row[99]["a"]["note"] == "the highest of 100"
    assert by_row[1]["a"]["note"] == "among the 2 lowest of 100"
    assert by_row[99]["a"]["text"] == "50"
    assert by_row[50]["a"]["note"] == ""
    assert [by_row[row]["a"]["odd"] for row in (99, 1, 50)] == [True, True, False]


@pytest.mark.parametrize("source", ["csv", "parquet"])
def test_dates_are_not_unusual_for_being_different(model, source, tmp_path):
    """Nor the same as others: the model looks at their day of the week."""
    frame = pumps(120, seed=5)
    frame = frame.with_columns(when=pl.when(pl.int_range(120) == 7).then(None).otherwise("when"))
    assert frame["when"].n_unique() == 120
    found = ask(model, read_table(write(frame, tmp_path / f"rows.{source}")), 120)
    by_row = {question["row"]: values(question)["when"] for question in found["questions"]}
    assert (by_row[7]["text"], by_row[7]["note"], by_row[7]["odd"]) == (None, "1 of 120 rows", True)
    others = [told for row, told in by_row.items() if row != 7]
    assert not any(told["odd"] or told["note"] for told in others)
    assert {told["text"] for told in others} == {str(day) for day in frame["when"].drop_nulls()}


@pytest.mark.parametrize("source", ["csv", "parquet"])
def test_the_file_of_answers_gives_the_model_the_same_features(model, source, tmp_path):
    frame = pumps(120, seed=5)
    found = ask(model, read_table(write(frame, tmp_path / f"rows.{source}")), 10)
    answers = answered(found, tmp_path / "answers.csv")
    rows = [q["row"] for q in found["questions"]]
    assert np.array_equal(
        model.preparation_.rows_of(answers.rows), model.preparation_.rows_of(frame[rows])
    )
    assert answers.chances.tolist() == [q["chance"] for q in found["questions"]]


@pytest.mark.parametrize("kind", [np.asarray, lambda X: pl.DataFrame(X, schema=list("abcd"))])
def test_a_detector_without_a_table_model(kind, tmp_path):
    X = normal_rows(100)
    fused = fitted(kind(X))
    frame = pl.DataFrame(X, schema=list("abcd"))
    found = ask(fused, frame.cast(pl.String), 5)
    answers = answered(found, tmp_path / "answers.csv")
    rows = [q["row"] for q in found["questions"]]
    assert np.array_equal(np.asarray(rows_of(fused, answers.rows)).astype(float), X[rows])


def test_columns_of_any_name_come_back(tmp_path):
    names = ["row", "answer", "chance", "=x", NASTY]
    frame = pl.DataFrame(normal_rows(60)[:, [0, 1, 2, 3, 0]], schema=names)
    frame = frame.with_columns(pl.col(NASTY) ** 2)
    model = fit_table(frame, detectors=["gmm"])
    found = ask(model, frame, 4)
    answers = answered(found, tmp_path / "answers.csv")
    assert answers.rows.columns == names
    rows = [q["row"] for q in found["questions"]]
    assert np.array_equal(
        model.preparation_.rows_of(answers.rows), model.preparation_.rows_of(frame[rows])
    )


def test_rows_without_a_value_are_not_asked_about(model):
    frame = pumps(30, seed=5)
    used = [name for name in frame.columns if name not in ("serial", "state")]
    nothing = frame.with_columns(pl.lit(None).alias(name) for name in used)[:20]
    found = ask(model, pl.concat([nothing, frame[20:]], how="vertical_relaxed"), 30)
    assert sorted(q["row"] for q in found["questions"]) == list(range(20, 30))
    assert found["rows"] == 10
    assert found["questions"][0]["why"][1] == "Every row of the file is asked about."
    with pytest.raises(ValueError, match="No row has a value in the columns of the model"):
        ask(model, nothing, 3)


def test_the_reasons_tell_of_verdict_and_chance(found):
    for question in found["questions"]:
        verdict, why = question["why"]
        assert verdict.startswith("The model calls this row ")
        assert ("an anomaly" in verdict) == (not question["normal"])
        average = 10 / 120
        if question["chance"] >= 2 * average:
            assert why.startswith("Its answer is informative")
        elif question["chance"] <= average:
            assert why.startswith("It is one of the rows that are rarely asked about")


def test_the_key_is_that_of_the_questions(model, found):
    frame = pumps(120, seed=5)
    assert ask(model, frame, 10)["key"] == found["key"]
    assert ask(model, frame, 9)["key"] != found["key"]


# ----------------------------------------------------------------------------------------- the page


def test_the_page_holds_the_asked_rows_and_no_others(model, found, tmp_path):
    write_questions(found, tmp_path / "q.html")
    page = (tmp_path / "q.html").read_text(encoding="utf-8")
    serials = pumps(120, seed=5)["serial"]
    asked = {serials[q["row"]] for q in found["questions"]}
    assert {serial for serial in serials if serial in page} == asked
    large = html(ask(model, pumps(3000, seed=6), 10))
    assert abs(len(large) - len(page)) < 2000


def test_the_page_carries_what_the_export_needs(found):
    held = embedded(html(found))
    assert held["header"] == found["header"]
    assert [q["behind"] for q in held["questions"]] == [q["behind"] for q in found["questions"]]
    assert held["answers"] == ["normal", "anomaly", "don't know"]


def test_nothing_is_fetched_and_nothing_else_runs(found):
    page = html(found)
    assert not re.search(r"https?:|//[a-z]|@import|url\(", page.replace("</", ""))
    assert "default-src &#39;none&#39;" in page
    assert "unsafe" not in page
    assert not re.search(r"<[^>]* (on\w+|style|src)=", page)


def test_hostile_texts_are_escaped():
    n = 40
    frame = pl.DataFrame({NASTY: normal_rows(n)[:, 0], "t": [NASTY, "x"] * (n // 2)})
    model = fit_table(frame, detectors=["gmm"])
    page = html(ask(model, frame, n))
    assert "<img" not in page
    assert page.count("</script>") == 2
    assert embedded(page)["questions"][0]["behind"]


def test_oddest_of_many_columns_come_first():
    X = np.random.default_rng(0).normal(size=(60, MOST + 20))
    X[7, 150] = 1e3
    frame = pl.DataFrame(X, schema=[f"c{j}" for j in range(MOST + 20)])
    frame = frame.with_columns(serial=pl.Series([f"P{i}" for i in range(60)]))
    found = ask(fit_table(frame, detectors=["gmm"]), frame, 60)
    page = html(found)
    section = page[page.index("row 7</h2>") :]
    section = section[: section.index("</section>")]
    shown = re.findall(r'<th scope="row"><bdi>(c\d+|serial)</bdi>', section)
    assert len(shown) == MOST
    assert shown[0] == "serial"  # which one it is
    assert "c150" in shown[:FEW]
    assert "21 others are in the file alone" in section


@pytest.mark.filterwarnings("ignore:There is no value in column")
def test_detectors_that_are_silent_or_say_nothing_are_told():
    X = normal_rows(80)
    fused = fitted(X)
    frame = pl.DataFrame(np.where(np.arange(4) == 0, np.nan, X[:10]), schema=list("abcd"))
    with pytest.warns(UserWarning, match="first"):
        found = ask(fused, frame, 10)
    first = found["detectors"].index("first")
    assert all(q["contributions"][first] is None for q in found["questions"])
    assert "silent" in html(found)
    plain = FusedDetector(fused.detectors, fusion=FixedRule("median"), random_state=0).fit(X)
    page = html(ask(plain, pl.DataFrame(X, schema=list("abcd")), 3))
    assert "The fusion of this model is not a sum" in page
