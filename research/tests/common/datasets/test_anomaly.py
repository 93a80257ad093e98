import os
import pickle

import numpy as np
import pytest

from helpers.cases import cases
from research.common.datasets import anomaly_names, load_anomaly

REAL_DATA = os.environ.get("LPFUSE_DATA")


def write(folder, name, **arrays):
    (folder / "anomaly").mkdir(exist_ok=True)
    path = folder / "anomaly" / f"{name}.npz"
    np.savez_compressed(path, **arrays)
    return path


@pytest.fixture
def folder(tmp_path):
    write(tmp_path, "letter", X=np.array([[1, 2], [3, 4], [250, 9]], np.uint8), y=[0, 0, 1])
    write(tmp_path, "Page_Blocks", X=np.asfortranarray(np.eye(4)), y=[1, 0, 0, 0])
    return tmp_path


def test_ones_are_anomalies_and_become_minus_one(folder):
    data = load_anomaly("letter", data_home=folder)
    assert data.y.tolist() == [1, 1, -1]
    assert data.X.tolist() == [[1.0, 2.0], [3.0, 4.0], [250.0, 9.0]]
    assert (data.X.dtype, data.y.dtype.kind) == (float, "i")
    assert (data.name, data.source, data.feature_names) == ("letter", "local folder", ("x0", "x1"))


def test_names_are_sorted_and_forgiving(folder, monkeypatch):
    assert anomaly_names(data_home=folder) == ["Page_Blocks", "letter"]
    data = load_anomaly("page blocks", data_home=folder)
    assert (data.name, data.X.flags.c_contiguous) == ("Page_Blocks", True)
    monkeypatch.setenv("LPFUSE_DATA", str(folder))
    assert anomaly_names() == ["Page_Blocks", "letter"]
    assert load_anomaly("LETTER").name == "letter"


def test_without_a_folder_there_are_none(tmp_path):
    assert anomaly_names() == []
    assert anomaly_names(data_home=tmp_path) == []
    with pytest.raises(FileNotFoundError, match=r"LPFUSE_DATA, to a folder.*anomaly/letter\.npz"):
        load_anomaly("letter")
    with pytest.raises(FileNotFoundError, match=r"Found there: no \.npz file"):
        load_anomaly("letter", data_home=tmp_path)


def test_an_unknown_name_suggests_the_closest(folder):
    with pytest.raises(FileNotFoundError, match=r"Did you mean 'letter'\? Found there: Page_Bl"):
        load_anomaly("leter", data_home=folder)


@cases(
    "arrays",
    [
        {"X": np.eye(2)},
        {"X": np.eye(2), "y": [0, 1, 0]},
        {"X": np.eye(2), "y": [1, -1]},
        {"X": np.eye(2), "y": [0.0, np.nan]},
        {"X": np.ones(2), "y": [0, 1]},
        {"X": np.array([["a"], ["b"]]), "y": [0, 1]},
        {"X": np.array([[1.0], [2.0]], dtype=object), "y": [0, 1]},  # would need pickle
    ],
)
def test_other_arrays_are_refused(tmp_path, arrays):
    write(tmp_path, "odd", **arrays)
    with pytest.raises(ValueError, match=r"odd\.npz is not an archive of NumPy with X"):
        load_anomaly("odd", data_home=tmp_path)


@cases("content", [b"", b"PK\x03\x04", pickle.dumps([1]), b"some text"])
def test_what_is_no_archive_is_refused(folder, content):
    (folder / "anomaly" / "letter.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"letter\.npz is not an archive"):
        load_anomaly("letter", data_home=folder)


def test_a_damaged_archive_is_refused_or_unharmed(folder):
    path = folder / "anomaly" / "letter.npz"
    whole, intact = path.read_bytes(), load_anomaly("letter", data_home=folder)
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(150):
        damaged = bytearray(whole)
        for at in rng.integers(len(whole), size=3):
            damaged[at] ^= int(rng.integers(1, 256))
        path.write_bytes(damaged)
        try:
            data = load_anomaly("letter", data_home=folder)
        except ValueError as error:
            refused += "is not an archive" in str(error)
        else:
            np.testing.assert_array_equal(data.X, intact.X)
            np.testing.assert_array_equal(data.y, intact.y)
            refused += 1
    assert refused == 150


def test_infinity_is_refused(tmp_path):
    write(tmp_path, "far", X=[[0.0, 1.0], [1.0, -np.inf]], y=[0, 1])
    with pytest.raises(ValueError, match=r"far \(local folder\) holds infinity.* in 'x1'"):
        load_anomaly("far", data_home=tmp_path)


@pytest.mark.skipif(not REAL_DATA, reason="LPFUSE_DATA names no folder of sets")
def test_the_real_sets_can_be_loaded():
    names = anomaly_names(data_home=REAL_DATA)
    assert len(names) == 20
    for name in names:
        data = load_anomaly(name, data_home=REAL_DATA)
        assert 0 < (data.y == -1).sum() < len(data.y) / 2
