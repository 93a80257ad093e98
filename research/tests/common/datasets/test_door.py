from pathlib import Path

import numpy as np
import pytest

from research.common.datasets import UCI, Dataset, load_dataset

CSV = "a,state\n1.5,ok\n2.5,bad\n"


@pytest.fixture
def folder(tmp_path):
    for name in ("letter", "wine"):
        (tmp_path / "anomaly").mkdir(exist_ok=True)
        np.savez(tmp_path / "anomaly" / f"{name}.npz", X=np.eye(2), y=[0, 1])
    return tmp_path


def test_one_door_for_everything(folder):
    (folder / "iris.csv").write_text(CSV)
    assert load_dataset("Iris").source == "scikit-learn"
    assert load_dataset("d5", data_home=folder).source == "scikit-learn"
    with pytest.raises(FileNotFoundError, match="data_home names"):
        load_dataset("d5", data_home=folder / "nowhere")
    assert load_dataset("LETTER", data_home=folder).name == "letter"
    table = load_dataset(str(folder / "iris.csv"), label="state", normal="ok")
    assert (table.name, table.source, table.y.tolist()) == ("iris", "iris.csv", [1, -1])
    assert load_dataset(folder / "iris.csv", label="state", normal="bad").y.tolist() == [-1, 1]


def test_the_papers_sets_come_before_development_sets(folder):
    assert load_dataset("wine", data_home=folder).X.shape == (178, 13)


def test_a_path_is_never_taken_for_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LPFUSE_DATA", "nowhere")  # which a table does not need
    Path("mine.csv").write_text(CSV)
    assert load_dataset("mine.csv", label="state", normal="ok").name == "mine"
    for path in ("iris.csv", "./iris", Path("iris")):
        with pytest.raises(FileNotFoundError, match="There is no file 'iris"):
            load_dataset(path)


def test_a_name_is_never_taken_for_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("iris").mkdir()
    assert load_dataset("iris").X.shape == (150, 4)


def test_an_unknown_name_suggests_the_closest(folder):
    with pytest.raises(ValueError, match=r"no data set 'leter'\. Did you mean 'letter'\?") as error:
        load_dataset("leter", data_home=folder)
    for name in (*UCI, "letter", ".csv", ".parquet"):
        assert name in str(error.value)
    with pytest.raises(ValueError, match="Did you mean 'haberman'"):
        load_dataset("habermann")


def test_the_network_can_be_ruled_out():
    with pytest.raises(FileNotFoundError, match="download=False"):
        load_dataset("vote", download=False)


def test_a_data_set_tells_what_it_is_and_stays_so():
    data = Dataset("tiny", np.zeros((3, 2)), np.array([1, 1, -1]), ("a", "b"), "a notebook")
    assert repr(data) == "Dataset('tiny': 3 rows, 2 of them normal, 2 features, from a notebook)"
    assert data.counts == (3, 2, 2)
    with pytest.raises(AttributeError):
        data.name = "other"
