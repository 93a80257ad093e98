import threading
import time

import polars as pl
import pytest

from helpers.pumps import pumps, read, write
from lpfuse.ensemble.scoring import score_columns
from lpfuse_cli.scoring import map_in_order, score_file, score_frame
from lpfuse_cli.tables import read_table

SUFFIXES = ["csv", "parquet", "arrow"]


@pytest.mark.parametrize("source", SUFFIXES)
@pytest.mark.parametrize("target", SUFFIXES)
def test_files_in_chunks_are_scored_as_tables_whole(model, tmp_path, source, target):
    new = pumps(50, seed=3)
    data, out = write(new, tmp_path / f"new.{source}"), tmp_path / f"scores.{target}"
    tally = score_file(model, data, out, keep=["serial"], chunk_rows=7, jobs=2)
    scored, expected = read(out), score_frame(model, read_table(data), keep=["serial"])
    assert scored.drop("why").columns == expected.columns
    assert (scored["serial"] == new["serial"]).all()
    for name in score_columns(model.detector_names_):  # CSV writes numbers to their last digit
        assert (scored[name] - expected[name]).abs().max() < 1e-9
    assert (tally.rows, tally.anomalies) == (50, (scored["decision"] < 0).sum())
    assert tally.notes == []


@pytest.mark.parametrize("source", SUFFIXES)
@pytest.mark.parametrize("target", SUFFIXES)
def test_a_file_without_rows(model, tmp_path, source, target):
    data = write(pumps(9).clear(), tmp_path / f"new.{source}")
    out = tmp_path / f"scores.{target}"
    tally = score_file(model, data, out, keep=["serial"])
    assert tally.rows == tally.anomalies == 0
    assert read(out).drop("why").columns == ["serial", *score_columns(model.detector_names_)]


def test_what_is_strange_in_a_file_is_noted(model, tmp_path):
    new = pumps(50, seed=3).with_columns(
        extra=1,
        other=2,
        flow=pl.when(pl.int_range(pl.len()) % 10 == 0).then(None).otherwise("flow"),
        kind=pl.when(pl.int_range(pl.len()) == 7).then(pl.lit("new")).otherwise("kind"),
    )
    data = write(new, tmp_path / "new.csv")
    tally = score_file(model, data, tmp_path / "s.csv", keep=["other"], chunk_rows=9)
    assert tally.notes == [
        "Ignored, for the model does not know it: 'extra'.",
        "Missing, as it never was in training: 'flow' in 5 rows.",
        "New, a text that was not in training, and taken as missing: 'kind' in 1 row.",
    ]


def test_progress_is_told(model, tmp_path):
    data, told = write(pumps(50), tmp_path / "new.parquet"), []
    out = tmp_path / "s.csv"
    score_file(model, data, out, chunk_rows=20, progress=lambda *step: told.append(step))
    assert told == [(20, 0.4), (40, 0.8), (50, 1.0)]


def test_bad_cell_names_its_row_and_leaves_no_file(model, tmp_path):
    new = pumps(50).with_columns(pl.col("flow").cast(pl.String))
    flow = new["flow"].to_list()
    flow[41] = "oops"
    data = write(new.with_columns(flow=pl.Series(flow)), tmp_path / "new.csv")
    with pytest.raises(ValueError, match="Column 'flow' must hold numbers; row 43 holds 'oops'"):
        score_file(model, data, tmp_path / "s.csv", chunk_rows=10)
    assert [path.name for path in tmp_path.iterdir()] == ["new.csv"]


@pytest.mark.parametrize("workers", [1, 3, 20])
def test_results_come_in_order_whoever_is_first(workers):
    def work(item):
        time.sleep(0.002 * ((item * 7) % 5))
        return item * item

    assert list(map_in_order(work, range(12), workers)) == [item * item for item in range(12)]


def test_few_items_are_taken_ahead():
    taken, gate = [], threading.Event()

    def items():
        for item in range(100):
            taken.append(item)
            yield item

    def work(item):
        gate.wait(5)
        return item

    before = threading.active_count()
    results = map_in_order(work, items(), 3)
    timer = threading.Timer(0.05, gate.set)
    timer.start()
    assert next(results) == 0
    results.close()
    timer.join()
    assert len(taken) <= 5
    assert threading.active_count() == before  # nobody works on


def test_an_error_of_an_item_is_raised_in_its_turn():
    def work(item):
        if item == 3:
            raise ValueError("three")
        return item

    found = []
    with pytest.raises(ValueError, match="three"):
        found.extend(map_in_order(work, range(50), 4))
    results = map_in_order(work, range(50), 4)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="three"):
        next(results)
