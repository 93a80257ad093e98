"""`FusedDetector` takes data frames as they come, with the preparation of the command line."""

import datetime

import narwhals
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from lpfuse import FixedRule, FusedDetector, GMMDetector, KNNDetector, load
from lpfuse.frames.cells import as_polars
from lpfuse.monitor import DriftMonitor
from lpfuse.views import FilledGaps
from lpfuse_cli.fitting import fit_table
from lpfuse_cli.scoring import score_frame
from lpfuse_cli.tables import read_table

POOL = [("knn", make_pipeline(FilledGaps(), KNNDetector()))]


def pumps(n=200, seed=0):
    """A data frame with numbers, gaps, text, truth values, dates, and names of the rows."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "pump": [f"P{k:05}" for k in range(n)],
            "when": [datetime.datetime(2024, 1, 1) + datetime.timedelta(hours=k) for k in range(n)],
            "bar": rng.normal(2.5, 0.1, n),
            "flow": pd.array(rng.integers(50, 90, n), dtype="Int64"),
            "kind": pd.Categorical(rng.choice(["axial", "radial"], n)),
            "wet": rng.random(n) < 0.5,
        }
    )
    frame.loc[::15, "bar"] = np.nan
    frame.loc[::21, "flow"] = pd.NA
    frame.loc[::33, "kind"] = None
    return frame


def made(**parameters):
    return FusedDetector(POOL, random_state=0, **parameters)


def test_text_dates_gaps_and_names_of_rows():
    detector = made().fit(pumps())
    odd = pumps(3, seed=1)
    odd.loc[1, "bar"] = 9.9
    assert detector.predict(odd)[1] == -1
    assert (detector.predict(pumps(500, seed=2)) < 0).mean() < 0.12
    assert any("'pump'" in note and "names the rows" in note for note in detector.notes_)
    np.testing.assert_array_equal(detector.feature_names_in_, pumps().columns)


def test_the_same_as_the_command_line_makes_of_it():
    frame = pumps()
    ours = FusedDetector(random_state=0).fit(frame)
    model = fit_table(frame, random_state=0)  # what `lpfuse fit` calls
    new = pumps(50, seed=1)
    np.testing.assert_array_equal(
        ours.score_samples(new), score_frame(model, new)["score"].to_numpy()
    )
    np.testing.assert_array_equal(ours.predict(new), score_frame(model, new)["decision"].to_numpy())
    np.testing.assert_array_equal(ours.pvalues(new), score_frame(model, new)["p_value"].to_numpy())
    assert ours.notes_ == model.notes_[1:]  # the first is about labels


@pytest.mark.parametrize(
    "maker",
    [
        pl.from_pandas,
        narwhals.from_native,
        lambda frame: pl.from_pandas(frame).to_arrow(),
        lambda frame: pl.from_pandas(frame).to_arrow().to_batches()[0],
    ],
    ids=["polars", "narwhals", "Arrow", "Arrow batch"],
)
def test_frames_of_any_maker(maker):
    expected = made().fit(pumps()).score_samples(pumps(20, seed=1))
    found = made().fit(maker(pumps())).score_samples(maker(pumps(20, seed=1)))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.filterwarnings("ignore:Some detectors could not score some rows")
def test_scores_thresholds_and_rows_without_any_value():
    detector = made().fit(pumps())
    new = pl.from_pandas(pumps(10, seed=1)).with_row_index("row")
    new = new.select(pl.when(pl.col("row") != 4).then(pl.exclude("row")).name.keep())
    scores, decision = detector.score_samples(new), detector.decision_function(new)
    np.testing.assert_array_equal(np.isnan(scores), np.arange(10) == 4)
    np.testing.assert_allclose(decision, scores - detector.offset_)
    assert detector.predict(new)[4] == -1
    np.testing.assert_array_equal(np.isnan(detector.pvalues(new)), np.arange(10) == 4)


def test_rows_without_any_value_are_warned_of():
    detector, new = made().fit(pumps()), pumps(10, seed=1).astype(object)
    new.loc[4] = None
    with pytest.warns(UserWarning, match="'knn' .1 of 10 rows.* could score 1 of them") as told:
        assert detector.predict(new)[4] == -1
    assert len(told) == 1


def test_texts_that_the_training_did_not_hold_are_warned_of():
    frame = pumps()
    detector, new = made().fit(frame), pumps(20, seed=1)
    new["kind"] = "axial"
    detector.predict(new)  # no warning
    new.loc[:3, "kind"] = "novel"
    detector.predict(new)  # few rows
    new["kind"] = new["kind"] == "axial"  # the same, but as truth values
    told = "'kind' holds texts or units that the training did not in 20 rows .100 % .*other columns"
    with pytest.warns(UserWarning, match=told) as warned:
        detector.predict(new)
    assert warned[0].filename == __file__


def test_numbers_in_another_unit_are_warned_of_where_texts_are_missing():
    rng = np.random.default_rng(0)
    crp = [f"{value:.1f} mg/L" if value > 0.5 else "<0.5" for value in rng.lognormal(size=200)]
    frame = pd.DataFrame({"CRP": crp, "Hb": rng.normal(14, 1, 200)})
    detector = FusedDetector(["gmm"], random_state=0).fit(frame, columns={"CRP": "number"})
    detector.predict(frame.head(9))  # <0.5 is read as 0.5
    new = frame.head(9).assign(CRP=["160 mg/dL", "<0.1", "1 mg/L"] * 3)
    told = "'CRP' holds texts or units that the training did not in 3 rows .* its unit changed"
    with pytest.warns(UserWarning, match=told):
        detector.predict(new)
    new_texts = "New, a text that was not in training, and taken as missing: 'CRP'"
    assert detector.preparation_.new_in(pl.from_pandas(new))[new_texts] == 3


def test_labels_and_arguments_of_fit_arrive():
    frame, y = pumps(), np.ones(200)
    y[:8] = -1
    frame.loc[:7, "bar"] = 4.0
    detector = made().fit(frame, y, groups=np.arange(200) // 2)
    assert (detector.out_of_fold_.known < 0).sum() == 8
    with pytest.raises(ValueError, match="y holds only 0 and 1"):
        made().fit(frame, (y > 0).astype(int))
    made().fit(frame, (y > 0).astype(int), unlabelled=0)


def test_saved_for_the_command_line_and_for_python(tmp_path):
    detector, new = made().fit(pumps()), pumps(20, seed=1)
    detector.save(tmp_path / "pumps.lpfuse")
    again = load(tmp_path / "pumps.lpfuse")
    assert isinstance(again, FusedDetector)
    np.testing.assert_array_equal(again.predict(new), detector.predict(new))
    np.testing.assert_array_equal(again.decision_function(new), detector.decision_function(new))
    np.testing.assert_array_equal(again.score_samples(new), detector.score_samples(new))


def test_an_estimator_like_others():
    detector = made(false_alarm_rate=0.1)
    assert clone(detector).set_params(false_alarm_rate=0.2).false_alarm_rate == 0.2
    with pytest.raises(NotFittedError):
        detector.predict(pumps())
    assert set(detector.fit_predict(pumps())) == {1, -1}
    told = detector.fit(pumps(), columns={"flow": "drop"})
    assert "Dropped: 'flow', as asked." in told.notes_


def test_what_is_refused():
    with pytest.raises(ValueError, match="There is no column 'baar'"):
        made().fit(pumps(), columns={"baar": "drop"})
    with pytest.raises(ValueError, match="need at least one row"):
        made().fit(pumps()[:0])
    twice = pd.DataFrame(np.ones((5, 2)), columns=["a", "a"])
    with pytest.raises(ValueError, match="'a' occurs twice"):
        made().fit(twice)
    with pytest.raises(ValueError, match="nothing varies in a single row: pass more"):
        made().fit(pumps(1))
    detector = made().fit(pumps())
    with pytest.raises(ValueError, match="The data lack 1 column that the model was trained on"):
        detector.predict(pumps().drop(columns="bar"))
    with pytest.raises(ValueError, match="fitted to a data frame with the columns 'pump', 'when'"):
        detector.predict(np.ones((3, 2)))
    with pytest.raises(ValueError, match="columns must be"):
        made().fit(pumps(), columns="raw")


def test_every_method_speaks_of_the_columns_of_the_frame():
    frame = pumps(300)
    fused = FusedDetector(["gmm", "histogram"], random_state=0).fit(frame)
    assert fused.columns_["kind"] == "category"
    odd = pumps(3, seed=1)
    odd.loc[1, "bar"] = 9.9
    found = fused.explain(odd, groups={"site": ["kind", "wet"]})
    assert found.feature_names == ["bar", "flow", "site", "when"]
    assert found.reasons(1)[0] == "bar"
    rows, chances = fused.query(frame, 6, return_chances=True)
    answers = np.where(rows % 2, 1, -1)
    assert fused.teach(frame.iloc[rows], answers, chances=chances).audit_answers().n_answers == 6
    assert fused.score(odd, [1, -1, 1]) >= 0.5
    assert fused.recalibrate(pumps(100, seed=4)) is fused
    assert fused.with_fusion(FixedRule("sum")).predict(odd)[1] == -1


def test_drift_is_of_columns_and_never_of_the_calendar():
    fused = FusedDetector(["gmm"], random_state=0).fit(pumps(300))
    monitor = DriftMonitor().fit(fused)
    assert monitor.column_names_ == ["bar", "flow", "wet", "kind=axial", "kind=radial"]
    later = pumps(400, seed=1)
    later["bar"] += 0.5
    assert any(
        "bar" in drift.stream for drift in monitor.update(later, fused.verdicts(later)).drifts
    )


def test_detectors_select_columns_of_the_frame():
    pool = [("gmm", GMMDetector(), ["bar", "kind"]), ("knn", KNNDetector(), [3])]
    frame = pumps().dropna()
    fused = FusedDetector(pool, random_state=0).fit(frame)
    names = fused.preparation_.feature_names
    seen = [[names[k] for k in columns] for _, _, columns in fused.detectors_]
    assert seen == [["bar", "kind=axial", "kind=radial"], ["flow"]]


def test_numbers_of_frames_and_arrays_score_alike():
    X = np.random.default_rng(0).normal(size=(120, 3))
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    one, two = FusedDetector(random_state=0).fit(X), FusedDetector(random_state=0).fit(frame)
    np.testing.assert_array_equal(one.score_samples(X), two.score_samples(frame))
    with pytest.raises(ValueError, match="same order"):
        two.predict(frame[["b", "a", "c"]])
    with pytest.warns(UserWarning, match="valid feature names") as told:
        two.score_samples(X)
    assert len(told) == 1


def test_decimal_commas_are_read_as_on_the_command_line():
    rng = np.random.default_rng(0)
    values = rng.normal(50, 1, 200)
    texts = [f"{value:.2f}".replace(".", ",") for value in values]
    fused = FusedDetector(["gmm"], random_state=0).fit(pd.DataFrame({"price": texts}))
    assert fused.columns_ == {"price": "number"}
    assert fused.predict(pd.DataFrame({"price": ["50,08", "99,99"]})).tolist() == [1, -1]


def test_cells_of_several_types_are_read_as_in_a_file():
    mixed = pd.DataFrame({"a": [1, "x", None, 2.5], 7: [1, 2, 3, 4]})
    frame = as_polars(mixed)
    assert frame["a"].to_list() == ["1", "x", None, "2.5"]
    assert frame.columns == ["a", "7"]


def test_what_a_column_is_can_be_told():
    told = made().fit(pumps(), columns={"flow": "category", "when": "drop"})
    assert told.columns_["flow"] == "category"
    assert "when" not in told.preparation_.columns
    with pytest.raises(ValueError, match="colour"):
        made().fit(pumps(), columns={"flow": "colour"})


def test_rows_with_a_gap_are_judged_like_others():
    detector = FusedDetector(random_state=0).fit(pumps(300))
    new = pumps(1500, seed=3)
    gaps, flagged = new.isna().any(axis=1).to_numpy(), detector.predict(new) < 0
    assert gaps.sum() > 150
    # 5 % were asked for. With medians and features that tell of gaps, 42 % and 0.4 %.
    assert flagged[gaps].mean() < 0.1
    assert 0.01 < flagged[~gaps].mean() < 0.1


def laboratory(n=60, seed=0):
    """Values with units, commas, limits of detection and words for what was not measured."""
    rng = np.random.default_rng(seed)
    crp = [f"{v:.1f} mg/l".replace(".", ",") for v in rng.lognormal(1, 1, n)]
    cells = [f"{v:.2f} /nl".replace(".", ",") for v in rng.lognormal(2, 0.2, n)]
    crp[:6], cells[3:6] = ["<0,6 mg/l"] * 6, ["n.b.", "k.A.", "n.d."]
    return pd.DataFrame({"CRP": crp, "Leukozyten": cells})


def test_values_of_a_laboratory_are_numbers(tmp_path):
    frame = laboratory()
    detector = FusedDetector(["gmm"], random_state=0).fit(frame)
    assert detector.columns_ == {"CRP": "number in mg/l", "Leukozyten": "number in /nl"}
    assert detector.notes_[:2] == [
        "Taken as missing: 'n.b.' in 'Leukozyten' (1 row), 'k.A.' in 'Leukozyten' (1 row), "
        "'n.d.' in 'Leukozyten' (1 row).",
        "Read as their limit: '<0,6 mg/l' in 'CRP' (6 rows).",
    ]
    path = tmp_path / "laboratory.csv"
    frame.to_csv(path, index=False, sep=";")
    model = fit_table(read_table(path), detectors=["gmm"], random_state=0)
    assert model.notes_[1:] == [note.replace("0,6", "0.6") for note in detector.notes_]
    numbers = detector.preparation_.rows_of(frame)
    np.testing.assert_array_equal(model.preparation_.rows_of(read_table(path)), numbers)
    assert numbers[:6, 0].tolist() == [0.6] * 6
    assert np.isnan(numbers).sum(axis=0).tolist() == [0, 3]


@pytest.mark.parametrize("texts", [["<18", "18-35", ">65"], ["<50K", ">50K"]])
def test_ranges_are_categories(texts):
    frame = pd.DataFrame({"bar": np.random.default_rng(0).normal(size=60), "range": "?"})
    frame["range"] = (texts * 60)[:60]
    assert FusedDetector(["gmm"], random_state=0).fit(frame).columns_["range"] == "category"


def test_blanks_around_texts_do_not_matter():
    frame = pumps()
    blanks = frame.assign(kind=[f" {kind} " for kind in frame["kind"]])
    blanks["bar"] = [f"{bar!r} " for bar in frame["bar"]]
    detector = made().fit(blanks)
    assert detector.columns_ == made().fit(frame).columns_
    np.testing.assert_array_equal(detector.score_samples(blanks), detector.score_samples(frame))


@pytest.mark.parametrize(
    ("maker", "call"),
    [
        (pd.DataFrame, "fit(X.drop(columns='state'), X['state'])"),
        (pl.DataFrame, "fit(X.drop('state'), X['state'])"),
    ],
)
def test_name_of_a_column_as_labels_raises(maker, call):
    X = maker({"bar": np.random.default_rng(0).normal(size=60), "state": [1.0, -1.0, 0.0] * 20})
    with pytest.raises(ValueError, match="is a column of X") as refusal:
        FusedDetector(["gmm"]).fit(X, "state")
    assert str(refusal.value).endswith(f"Call {call}")
    detector = FusedDetector(["gmm"], random_state=0)
    eval(f"detector.{call}")  # noqa: S307 -- the remedy works
    assert detector.columns_ == {"bar": "number"}


def test_a_row_of_a_frame_raises_with_the_remedy():
    frame = pumps()
    detector = made().fit(frame)
    with pytest.raises(ValueError, match=r"take a row of a frame by frame\.iloc\[\[0\]\]"):
        detector.predict(frame.iloc[0])
    assert detector.predict(frame.iloc[[0]]).shape == (1,)


def test_a_single_detector_is_not_proven():
    assert "A single detector has all the weight." in made().fit(pumps()).summary()


def test_mistakes_of_all_columns_are_told_at_once():
    frame = pumps().assign(bar="2.5", when="2024-02-28 12:00").astype({"bar": object})
    frame["bar"] = [f"{bar:.3f}" for bar in np.random.default_rng(0).normal(2.5, 0.1, 200)]
    frame["when"] = [f"2024-02-{1 + k % 28:02} {k % 24:02}:00" for k in range(200)]
    detector = made().fit(frame)
    frame.loc[4, "bar"], frame.loc[9, "when"] = "much", "31.02."
    with pytest.raises(ValueError, match="row 5 holds 'much'") as refusal:
        detector.predict(frame)
    assert "'when' must hold dates as 2024-02-28; row 10 holds '31.02.'" in str(refusal.value)
