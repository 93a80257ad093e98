"""Tables that are read whole, and rows that are drawn from them."""

import numpy as np
import polars as pl
import pytest

from helpers.pumps import write
from lpfuse_cli import tables as _in_memory
from lpfuse_cli.tables import read_sample, read_table

SUFFIXES = ["csv", "parquet", "arrow"]


def numbered(n, worn=0):
    """Rows with their number, the last of them worn."""
    states = ["ok"] * (n - worn) + ["worn"] * worn
    return pl.DataFrame({"row": range(n), "state": states})


def rows_of(frame):
    return frame["row"].cast(pl.Int64).to_list()


@pytest.fixture(autouse=True)
def few_rows_at_a_time(monkeypatch):
    monkeypatch.setattr(_in_memory, "FEWEST_ROWS", 16)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_reading_tells_how_far_it_is(tmp_path, suffix):
    told = []
    frame = read_table(
        write(numbered(100), tmp_path / f"a.{suffix}"), progress=lambda *how: told.append(how)
    )
    assert rows_of(frame) == list(range(100))
    assert [rows for rows, _ in told] == [16, 32, 48, 64, 80, 96, 100]
    assert told[-1][1] == 1.0


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_more_cells_than_are_held_are_refused(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(_in_memory, "MOST_CELLS", 100)
    with pytest.raises(ValueError, match=r"more cells than are read at a time .* --sample 100000"):
        read_table(write(numbered(100), tmp_path / f"a.{suffix}"))
    assert read_table(write(numbered(50), tmp_path / f"a.{suffix}")).height == 50


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_sample_rows_are_distinct_and_in_order(tmp_path, suffix):
    path = write(numbered(1000), tmp_path / f"a.{suffix}")
    frame, rows = read_sample(path, 50, seed=3)
    drawn = rows_of(frame)
    assert (len(drawn), rows) == (50, 1000)
    assert drawn == sorted(set(drawn))
    assert rows_of(read_sample(path, 50, seed=3)[0]) == drawn
    assert rows_of(read_sample(path, 50, seed=4)[0]) != drawn


def test_every_row_has_the_same_chance(tmp_path):
    path, times = write(numbered(100), tmp_path / "a.parquet"), np.zeros(100)
    for seed in range(400):
        times[rows_of(read_sample(path, 20, seed=seed)[0])] += 1
    # Binomial(400, 0.2): mean 80, standard deviation 8; 100 rows stay within five of them.
    assert np.abs(times - 80).max() < 40
    assert abs(times[:50].sum() - times[50:].sum()) < 400


def test_a_table_with_no_more_rows_is_taken_whole(tmp_path):
    path = write(numbered(40, worn=35), tmp_path / "a.csv")
    frame, rows = read_sample(path, 40, label="state", normal="ok")
    assert rows_of(frame) == list(range(40))
    assert rows == 40


@pytest.mark.parametrize(("worn", "taken"), [(3, 3), (25, 25), (26, 25), (400, 25)])
def test_anomalies_are_all_taken_up_to_half(tmp_path, worn, taken):
    path = write(numbered(500, worn=worn), tmp_path / "a.csv")
    frame, _ = read_sample(path, 50, label="state", normal="ok")
    assert frame["state"].to_list().count("worn") == taken
    assert frame.height == 50


def test_rows_without_a_label_are_drawn_as_normal_ones_are(tmp_path):
    states = pl.Series(["ok", None, "worn"] * 300)
    path = write(pl.DataFrame({"row": range(900), "state": states}), tmp_path / "a.parquet")
    frame, _ = read_sample(path, 400, label="state", normal="ok")
    counts = dict(frame["state"].value_counts().rows())
    assert counts["worn"] == 200
    assert 60 <= counts["ok"] <= 140
    assert counts["ok"] + counts[None] == 200


def test_what_fit_would_ask_a_sample_asks(tmp_path):
    path = write(numbered(100, worn=5), tmp_path / "a.csv")
    with pytest.raises(ValueError, match="Which is normal"):
        read_sample(path, 20, label="state")
    with pytest.raises(ValueError, match=r"no column 'stat'\. Did you mean 'state'"):
        read_sample(path, 20, label="stat")


def test_few_rows_are_in_memory_at_a_time(tmp_path, monkeypatch):
    most, concat = 0, pl.concat

    def watched(frames, **how):
        nonlocal most
        joined = concat(frames, **how)
        most = max(most, joined.height)
        return joined

    path = write(numbered(3000, worn=1000), tmp_path / "a.parquet")
    monkeypatch.setattr(_in_memory, "MOST_ROWS", 16)
    monkeypatch.setattr(pl, "concat", watched)
    frame, _ = read_sample(path, 50, label="state", normal="ok")
    assert frame.height == 50
    assert most <= 2 * 2 * 50 + 16  # two labels
