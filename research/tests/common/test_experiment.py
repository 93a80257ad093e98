"""Splits of data sets: which are measured, by which protocol, and what is read back."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from research.common import experiment
from research.common.datasets import UCI, Dataset
from research.common.experiment import measure_splits
from research.common.options import Options
from research.common.protocol import PAPER, QUICK, Protocol
from research.common.splits import split
from research.common.store import read_rows


@pytest.fixture
def loaded(monkeypatch):
    """What the loader was asked for; it gives 20 normal rows and 10 anomalies."""
    asked = []

    def load(source, **given):
        asked.append((source, given))
        X = np.random.default_rng(len(source)).normal(size=(30, 2))
        return Dataset(source, X, np.repeat([1, -1], [20, 10]), ("a", "b"), "made up")

    monkeypatch.setattr(experiment, "load_dataset", load)
    return asked


def mean_row(parts):
    return [{"metric": "mean", "value": float(parts.held_out.mean()), "seed": parts.seed}]


def cells_of(rows):
    return [(row["set"], row["seed"]) for row in rows]


def test_every_set_and_seed_is_measured_under_the_protocol(loaded, tmp_path):
    rows = measure_splits("some", mean_row, Options(tmp_path, seeds=2), sets=("wine", "iris"))
    assert cells_of(rows) == [("wine", 0), ("iris", 0), ("wine", 1), ("iris", 1)]
    X = np.random.default_rng(4).normal(size=(30, 2))
    known = split(X, np.repeat([1.0, -1.0], [20, 10]), PAPER, 1)
    assert rows[2]["value"] == rows[3]["value"] == known.held_out.mean()
    assert read_rows(tmp_path / "some.jsonl") == rows


def test_the_ten_sets_of_the_paper_are_the_default(loaded, tmp_path):
    rows = measure_splits("some", mean_row, Options(tmp_path, seeds=1))
    assert [row["set"] for row in rows] == list(UCI)


def test_options_name_sets_and_where_they_are(loaded, tmp_path):
    table = tmp_path / "mine.csv"
    table.write_text("anything")
    options = Options(tmp_path, tmp_path, seeds=1, sets=(str(table),), label="kind", normal="ok")
    rows = measure_splits("some", mean_row, options)
    assert cells_of(rows) == [("mine.csv", 0)]
    assert loaded[0] == (str(table), {"data_home": tmp_path, "label": "kind", "normal": "ok"})


def test_a_set_has_one_name(loaded, tmp_path):
    rows = measure_splits("some", mean_row, Options(tmp_path, seeds=1, sets=("D5", "Iris")))
    assert cells_of(rows) == [("iris", 0)]
    twins = tuple(str(tmp_path / folder / "mine.csv") for folder in "ab")
    with pytest.raises(ValueError, match=r"Two data sets are called 'mine.csv'.*Rename"):
        measure_splits("some", mean_row, Options(tmp_path, sets=twins))


def test_a_file_that_changed_is_measured_again(loaded, tmp_path):
    table = tmp_path / "mine.csv"
    options = Options(tmp_path, seeds=1, sets=(str(table),))
    marks = []
    for text in ("old", "new", "old"):
        table.write_text(text)
        marks.append(measure_splits("some", mean_row, options)[0]["protocol"])
    assert marks[0] == marks[2] != marks[1]


@pytest.mark.parametrize("label", ["kind", "status"])
def test_a_file_that_is_read_otherwise_is_measured_again(loaded, label, tmp_path):
    table = tmp_path / "mine.csv"
    table.write_text("anything")
    options = Options(tmp_path, seeds=1, sets=(str(table),))
    (plain,) = measure_splits("some", mean_row, options)
    (other,) = measure_splits("some", mean_row, replace(options, label=label))
    assert plain["protocol"] != other["protocol"]


def early(parts):
    raise AssertionError("no set may be measured while another cannot")


def test_what_cannot_be_loaded_is_told_before_any_work(loaded, monkeypatch, tmp_path):
    load = experiment.load_dataset

    def partly(source, **given):
        if source == "iris":
            raise FileNotFoundError("no iris")
        return load(source, **given)

    monkeypatch.setattr(experiment, "load_dataset", partly)
    with pytest.raises(FileNotFoundError, match="no iris"):
        measure_splits("some", early, Options(tmp_path), sets=("wine", "iris"))


@pytest.mark.parametrize(("normals", "anomalies"), [(20, 2), (4, 10), (20, 0)])
def test_too_few_rows_are_told_before_any_work(monkeypatch, tmp_path, normals, anomalies):
    y = np.repeat([1, -1], [normals, anomalies])
    data = Dataset("iris", np.arange(2.0 * len(y)).reshape(-1, 2), y, ("a", "b"), "made up")
    monkeypatch.setattr(experiment, "load_dataset", lambda *_, **__: data)
    with pytest.raises(ValueError, match=f"iris has {normals} normal rows and {anomalies} anom"):
        measure_splits("some", early, Options(tmp_path), sets=("iris",))


def test_quick_means_fewer_splits_and_another_protocol(loaded, tmp_path):
    protocols = []

    def work(parts):
        protocols.append(parts.protocol)
        return mean_row(parts)

    quick = measure_splits("some", work, Options(tmp_path, quick=True), sets=("iris",))
    few = measure_splits(
        "few", mean_row, Options(tmp_path, quick=True), sets=("iris",), quick_splits=1
    )
    assert len(few) == 1
    whole = measure_splits("some", work, Options(tmp_path, seeds=3), sets=("iris",))
    own = Protocol(training=0.5)
    other = measure_splits("some", work, Options(tmp_path, seeds=1), sets=("iris",), protocol=own)
    assert protocols == [QUICK] * 2 + [PAPER] * 3 + [own]
    assert len({rows[0]["protocol"] for rows in (quick, whole, other)}) == 3


def test_the_description_is_part_of_the_protocol(loaded, tmp_path):
    options = Options(tmp_path, seeds=1)
    one, two = (
        measure_splits("some", mean_row, options, sets=("iris",), depth=d)[0] for d in (1, 2)
    )
    assert one["protocol"] != two["protocol"]


def test_show_reads_what_is_stored_and_measures_nothing(loaded, tmp_path):
    sets = ("iris", "wine")
    rows = measure_splits("some", mean_row, Options(tmp_path, seeds=2), sets=sets)
    loaded.clear()
    shown = Options(tmp_path, show=True)
    assert measure_splits("some", early, shown, sets=sets) == rows
    fewer = measure_splits("some", early, replace(shown, seeds=1, sets=("wine",)))
    assert cells_of(fewer) == [("wine", 0)]
    assert not loaded
    with pytest.raises(FileNotFoundError, match=r"no results of this protocol.*--show"):
        measure_splits("some", early, shown, sets=sets, depth=2)
    with pytest.raises(FileNotFoundError, match="nothing has been measured"):
        measure_splits("other", early, shown)


def test_warnings_of_odd_settings_are_kept_quiet(loaded, tmp_path):
    def work(parts):
        warnings.warn("odd width", UserWarning, stacklevel=1)
        return mean_row(parts)

    assert measure_splits("some", work, Options(tmp_path, seeds=1), sets=("iris",))
