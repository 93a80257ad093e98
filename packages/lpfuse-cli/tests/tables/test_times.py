"""Times of rows: how they are written, clocks that are set back, and models that look back."""

import numpy as np
import polars as pl
import pytest

from helpers.timed import DETECTORS, pump
from lpfuse_cli.alarms import describe_promise
from lpfuse_cli.fitting import fit_table
from lpfuse_cli.reasons import unusual_columns
from lpfuse_cli.scoring import features_of, load_model, score_file
from lpfuse_cli.tables import how_prepared
from lpfuse_cli.times import TimeReader, times_of_training


def test_a_column_of_dates_in_order_is_the_time_of_rows_that_depend(timed_model):
    assert timed_model.time_column_ == "when"
    assert how_prepared(timed_model).times == ("when", "%d.%m.%Y")
    assert timed_model.columns_["when"] == "time"
    told = [note for note in timed_model.notes_ if note.startswith("Time:")]
    assert "in the order of 'when' (10 s apart)" in told[0]
    assert "order='random'" in told[0]
    assert describe_promise(timed_model).startswith("Of any n consecutive rows, at most 5 %")


def test_time_is_not_taken_from_rows_that_do_not_depend():
    rng = np.random.default_rng(0)
    frame = pump(300).with_columns(bar=rng.normal(size=300), flow=rng.normal(size=300))
    fitted = fit_table(frame, detectors=DETECTORS)
    assert fitted.windows_ is None
    assert describe_promise(fitted) == ""


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_nothing_is_promised_of_dependent_rows_whose_order_was_not_told():
    fitted = fit_table(pump(300).drop("when"), detectors=DETECTORS)
    assert describe_promise(fitted).startswith("No rate of false alarms is promised: consecutive")


def test_what_contradicts_itself_is_refused():
    with pytest.raises(ValueError, match="Pass time or order='random', not both"):
        fit_table(pump(60), time="when", order="random")
    with pytest.raises(ValueError, match="order must be"):
        fit_table(pump(60), order="sorted")
    with pytest.raises(ValueError, match="There is no column 'wenn'"):
        fit_table(pump(60), time="wenn")


def test_times_that_step_back_or_are_none_are_refused():
    back = pl.Series("when", ["2024-01-01 10:00", "2024-01-01 10:02", "2024-01-01 10:01"])
    with pytest.raises(ValueError, match=r"row 3 holds an earlier one .* Sort the file by it"):
        times_of_training(back)
    with pytest.raises(ValueError, match=r"row 2 holds 'later', which is none"):
        times_of_training(pl.Series("when", ["1", "later", "3"]))
    with pytest.raises(ValueError, match="time='when' holds 'x', which is no time"):
        times_of_training(pl.Series("when", ["x", "y"]))


def test_hour_that_comes_twice_goes_on():
    """In October at 3:00 clocks are set back to 2:00, in March at 2:00 forward to 3:00."""
    local = [f"27.10.2024 02:{m:02}" for m in (30, 40, 50)]
    local += [f"27.10.2024 02:{m:02}" for m in (0, 10, 20, 30, 40, 50)]
    local += ["27.10.2024 03:00", "31.03.2025 01:50", "31.03.2025 03:00"]
    reader = TimeReader(step=600.0)
    found = np.concatenate([reader.seconds(pl.Series(local[k : k + 2])) for k in range(0, 12, 2)])
    steps = np.diff(found)
    assert (steps[:9] == 600).all()
    assert steps[-1] == 600
    assert reader.shift == 0


def test_scores_are_the_same_bytes_whatever_the_chunks(timed_model_file, tmp_path):
    pump(500).tail(200).write_csv(tmp_path / "rows.csv")
    model = load_model(timed_model_file)
    for rows in (1000, 7):
        score_file(model, tmp_path / "rows.csv", tmp_path / f"{rows}.csv", chunk_rows=rows)
    assert (tmp_path / "7.csv").read_bytes() == (tmp_path / "1000.csv").read_bytes()


def test_rows_out_of_order_write_nothing(timed_model_file, tmp_path):
    rows = pump(340).tail(40)
    pl.concat([rows.tail(10), rows.head(30)]).write_csv(tmp_path / "rows.csv")
    model = load_model(timed_model_file)
    with pytest.raises(ValueError, match=r"row 12 holds an earlier one .* Sort the file by it"):
        score_file(model, tmp_path / "rows.csv", tmp_path / "out.csv", chunk_rows=4)
    rows.drop("when").write_csv(tmp_path / "rows.csv")
    with pytest.raises(ValueError, match="lack 'when', the column of times of the model"):
        score_file(model, tmp_path / "rows.csv", tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


def test_reasons_are_columns_of_the_user_though_windows_are_seen(timed_model):
    rows = pump(340).tail(40).with_columns(flow=pl.Series([7.0] * 30 + [1.0, 13.0] * 5))
    told = unusual_columns(timed_model, rows, features_of(timed_model, rows))
    assert told[-1].startswith("flow spread of 12 rows ")
    assert told[-1].count("flow") == 1


def test_explained_alarms_are_of_the_row_and_those_before(timed_model_file, tmp_path):
    rows = pump(400).tail(100).with_columns(flow=pl.Series([7.0] * 90 + [30.0] * 10))
    rows.write_csv(tmp_path / "rows.csv")
    model = load_model(timed_model_file)
    score_file(model, tmp_path / "rows.csv", tmp_path / "out.csv", explain=99)
    scores = pl.read_csv(tmp_path / "out.csv")
    assert (scores["decision"][90:] < 0).all()
    assert scores["why"][95].startswith("flow 30 (usually ")
