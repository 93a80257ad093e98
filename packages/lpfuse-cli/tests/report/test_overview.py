"""What a manager asks first, in every situation, against counts made by hand."""

import re

import numpy as np
import polars as pl
import pytest

from helpers.pools import both, normal_rows
from helpers.reports import fitted
from lpfuse_cli.fitting import fit_table
from lpfuse_cli.report import summarise
from lpfuse_cli.scoring import score_frame


def told(model, *rows, **options):
    found = summarise(model, *rows, **options)
    return found["overview"], found


def test_labelled_rows_are_counted(labelled, fresh):
    X, y = fresh[0], np.where(fresh[1] == 0, 1, fresh[1])
    first, _ = told(labelled, X, y)
    flagged = labelled.predict(X) < 0
    right, wrong = (flagged & (y < 0)).sum(), (flagged & (y > 0)).sum()
    assert (first["alarms"], first["rows"]) == (flagged.sum(), len(y))
    assert (first["right"], first["wrong"]) == (right, wrong)
    assert first["precision"]["value"] == pytest.approx(right / (right + wrong))
    assert first["precision"]["low"] <= right / (right + wrong) <= first["precision"]["high"]
    assert first["recall"]["value"] == pytest.approx(right / (y < 0).sum())
    assert (
        f"{flagged.sum()} alarms among {len(y)} rows: {right} are labelled"
        in (first["sentences"][0])
    )
    assert not any("Ask for labels" in step for step in first["next"])


def test_without_labels_the_calibration_tells_what_is_likely_false(labelled):
    X, _ = both(n=300, anomalies=60, seed=11)
    first, found = told(labelled, X)
    false = first["likely_false"]
    assert false == found["alarms"]["unlabelled"]["false"]
    assert first["right"] is first["wrong"] is None
    assert 0 <= false["low"] <= false["value"] <= false["high"] < first["alarms"]
    assert f"about {false['value']} of them are likely false" in first["sentences"][0]
    assert first["precision"]["measured"] is False
    assert first["precision"]["value"] == pytest.approx(1 - false["value"] / first["alarms"])
    assert "if what is normal has not changed" in first["sentences"][1]
    # Recall is that of the training, and says so.
    assert "of the training were found, each held out" in first["sentences"][2]
    assert any("Ask for labels" in step for step in first["next"])


def test_normal_rows_alone_promise_nothing(labelled):
    first, _ = told(labelled, normal_rows(200, seed=5))
    assert "may be false" in first["sentences"][0]
    assert first["precision"]["low"] == 0


def test_alarms_with_and_without_a_label(labelled, fresh):
    first, found = told(labelled, *fresh)
    open_alarms = found["alarms"]["unlabelled"]["flagged"]
    assert first["right"] + first["wrong"] + open_alarms == first["alarms"]
    assert f"the {open_alarms} without a label" in first["sentences"][0]


def test_one_alarm_and_none(pure):
    X = np.zeros((20, 4))
    first, found = told(pure, X)
    assert first["sentences"][0] == "No alarms among 20 rows."
    assert first["next"][0] == "There are no alarms to inspect."
    assert found["alarm_list"] == {"total": 0, "kept": [], "rows": [], "command": None}
    X[7] = 50.0
    first, _ = told(pure, X)
    assert first["sentences"][0].startswith("1 alarm among 20 rows: ")
    assert first["next"][0] == "Look at the alarm below."
    assert "not known: none is labelled" in first["sentences"][-1]


def test_alarms_on_most_rows_advise_to_check_data(pure):
    first, _ = told(pure, normal_rows(100, seed=3) + 20.0)
    assert first["next"][0].startswith("Check the data first")
    assert "if what is normal has not changed" in first["sentences"][0]


def test_normal_rows_that_changed_ask_for_a_new_calibration(pure):
    X = normal_rows(200, seed=3) * 2
    first, _ = told(pure, X, np.ones(200))
    assert first["next"][0].startswith("Recalibrate")
    assert first["right"] is None
    assert first["precision"] is None


def test_training_rows_that_nobody_looked_at_are_no_false_alarms(pure):
    first, found = told(pure)
    assert first["guessed"]
    assert first["wrong"] is first["precision"] is None
    assert "training rows: how many of them are false is not known" in first["sentences"][0]
    assert first["sentences"][1].endswith("is not known: none of these rows has a label.")
    assert found["judged_on"]["unlabelled"] == found["judged_on"]["taken_as_normal"] == 100
    assert found["alarm_list"]["total"] == first["alarms"] == found["alarms"]["rows"]["flagged"]


def test_labelled_training_rows_are_counted(labelled, summary):
    first = summary["overview"]
    assert not first["guessed"]
    assert first["right"] == summary["alarms"]["anomalies"]["flagged"]
    assert first["wrong"] == summary["alarms"]["normal"]["flagged"]
    assert "training rows" in first["sentences"][0]


def test_training_rows_are_known_as_they_were_labelled(rows):
    X, y = rows[0], rows[1].copy()
    y[::3] = 0
    first, found = told(fitted(X, y))
    counts = {"normal": (y > 0).sum(), "anomalies": (y < 0).sum(), "unlabelled": (y == 0).sum()}
    for kind, n in counts.items():
        assert found["judged_on"][kind] == found["alarms"][kind]["rows"] == n
    listed = {row[0]: row[1] for row in found["alarm_list"]["rows"]}
    assert {0, 1} <= {*listed.values()}
    assert all(label == y[row] for row, label in listed.items())
    right, wrong = first["right"], first["wrong"]
    assert right == found["alarms"]["anomalies"]["flagged"]
    assert wrong == found["alarms"]["normal"]["flagged"]
    assert first["precision"]["value"] == right / (right + wrong)
    many = found["alarms"]["unlabelled"]["flagged"]
    assert f"how many of the {many} without a label are false is not known" in first["sentences"][0]
    told_of = f"{(y >= 0).sum()} training rows that are no known anomalies"
    assert told_of in found["words"]["alarms"][0]


def test_rows_that_the_model_learnt_from_tell_nothing(labelled, rows):
    first, _ = told(labelled, *rows)
    assert "but the model learnt from them" in first["sentences"][0]
    assert first["precision"] is first["recall"] is None
    assert first["next"][0].startswith("Report on new rows")


@pytest.mark.filterwarnings("ignore:.*cannot hold false alarms")
def test_a_model_without_a_threshold_says_what_it_lacks(rows, fresh):
    first, _ = told(fitted(*rows, false_alarm_rate=0.001), *fresh)
    assert "there can be none" in first["sentences"][0]
    assert "Fit to more normal rows" in first["next"][0]


@pytest.mark.parametrize("options", [{"contamination": 0.1}, {"threshold": "g-mean"}])
def test_without_a_rate_of_false_alarms_nothing_is_promised(rows, fresh, options):
    first, _ = told(fitted(*rows, **options), fresh[0])
    assert first["likely_false"] is first["precision"] is None
    assert "is not known" in first["sentences"][0]


def test_missed_anomalies_and_false_alarms_ask_for_something_else(labelled):
    X = normal_rows(100, seed=8)
    first, _ = told(labelled, X, np.repeat([-1, 1], 50))  # labels that no detector could know
    assert any(step.startswith("Most known anomalies are missed") for step in first["next"])


# ------------------------------------------------------------------------------------- the alarms


def test_all_alarms_are_listed_the_strongest_first(labelled, fresh):
    X, y = fresh
    found = summarise(labelled, X, y)["alarm_list"]
    normal = labelled.rows_.values[labelled.held_out_.labels > 0]
    margin = labelled.decision_function(X)
    expected = [int(i) for i in np.argsort(margin) if margin[i] < 0]
    assert [row[0] for row in found["rows"]] == expected
    assert found["total"] == len(expected) == (labelled.predict(X) < 0).sum()
    for row, label, score, p_value, why in found["rows"]:
        assert label == y[row]
        assert score == pytest.approx(labelled.score_samples(X)[row], rel=1e-5)
        assert p_value == pytest.approx(labelled.pvalues(X)[row], rel=1e-5)
        names = re.findall(r"column (\d) [−\d.]+ \(usually ", why)
        low, high = np.quantile(normal, [0.01, 0.99], axis=0)
        far = np.maximum(low - X[row], X[row] - high) / (high - low)
        assert list(map(int, names)) == [j for j in np.argsort(-far)[:3] if far[j] > 0]


@pytest.mark.parametrize("rows", [1, 100, 20_000])
def test_however_many_alarms_there_are(pure, rows):
    first, found = told(pure, np.full((rows, 4), 30.0) + np.arange(rows)[:, None])
    listed = found["alarm_list"]
    assert listed["total"] == first["alarms"] == rows
    assert len(listed["rows"]) == min(rows, 5_000)


def test_kept_columns_stand_with_their_rows(labelled, fresh):
    X, _ = fresh
    ids = [f"P-{i}" for i in range(len(X))]
    times = np.datetime64("2024-01-01") + np.arange(len(X))
    kinds = [
        {"id": ids, "when": times},
        pl.DataFrame({"id": ids, "when": times}),
    ]
    for keep in kinds:
        found = summarise(labelled, X, keep=keep)
        assert found["alarm_list"]["kept"] == ["id", "when"]
        for row in found["alarm_list"]["rows"]:
            assert row[5] == f"P-{row[0]}"
            assert row[6].startswith(str(times[row[0]]))
        assert all(row["kept"][0] == f"P-{row['row']}" for row in found["strangest"])


def test_what_is_missing_or_long_in_a_kept_column(labelled, fresh):
    X, _ = fresh
    values = [None, float("nan"), "a" * 10_000] * 25
    for row in summarise(labelled, X, keep={"note": values})["alarm_list"]["rows"]:
        expected = (None, None, 120)[row[0] % 3]
        assert row[5] is expected or len(row[5]) == expected


def test_kept_columns_must_fit(labelled, fresh):
    with pytest.raises(ValueError, match="a value for each row: 75, got 2 values of 'id'"):
        summarise(labelled, fresh[0], keep={"id": [1, 2]})
    with pytest.raises(TypeError, match="got list"):
        summarise(labelled, fresh[0], keep=["id"])
    with pytest.raises(ValueError, match="pass the rows"):
        summarise(labelled, keep={"id": [1, 2]})


@pytest.mark.filterwarnings("ignore:Some detectors could not score some rows")
def test_rows_without_a_score_are_alarms_too():
    X, _ = both(n=80, anomalies=20)
    names = [f"c{j}" for j in range(4)]
    model = fit_table(pl.DataFrame(X, schema=names), detectors=["gmm", "kpca"])
    new = normal_rows(30, seed=2).copy()
    new[4] = np.nan
    found = summarise(model, pl.DataFrame(new, schema=names))
    decisions = score_frame(model, pl.DataFrame(new, schema=names))["decision"].to_numpy()
    assert (
        sorted(row[0] for row in found["alarm_list"]["rows"])
        == np.flatnonzero(decisions < 0).tolist()
    )
    assert 4 in [row[0] for row in found["alarm_list"]["rows"]]


def test_commands_quote_what_a_shell_would_obey(fresh):
    X, _ = both(n=80, anomalies=20)
    names = [f"c{j}" for j in range(4)]
    table = pl.DataFrame(X, schema=names)
    model = fit_table(table, detectors=["gmm", "kpca"])
    new = pl.DataFrame(fresh[0], schema=names)
    files = {"model": "a b.lpfuse", "data": "$(rm x).csv"}
    found = summarise(model, new, keep={"it's": range(75)}, files=files)
    assert found["alarm_list"]["command"] == (
        "lpfuse score 'a b.lpfuse' '$(rm x).csv' -o scores.csv --keep 'it'\"'\"'s'"
    )
    assert (
        "lpfuse ask 'a b.lpfuse' '$(rm x).csv' -o questions.html" in found["overview"]["next"][-1]
    )
    assert summarise(model, new)["alarm_list"]["command"] is None


def test_a_column_that_left_its_range_is_the_first_remark():
    rng = np.random.default_rng(0)
    table = pl.DataFrame({"bar": rng.normal(2.5, 0.1, 200), "flow": rng.normal(7.0, 1.0, 200)})
    model = fit_table(table, detectors=["gmm", "kpca"])
    assert summarise(model, table)["left_range"] == []
    found = summarise(model, table.with_columns(pl.col("bar") * 1000))
    assert [column["column"] for column in found["left_range"]] == ["bar"]
    assert found["remarks"][0].startswith("'bar' left the range of the training")
