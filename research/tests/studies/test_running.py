"""What studies share: cells that are measured once, sets compared in pairs, stored files."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from helpers.cases import cases
from research.common.store import CellFile, read_rows
from research.studies.running import Paired, load_set, measure_study, paired

RESULTS = Path(__file__).parents[2] / "results" / "studies"
ROWS = np.arange(6.0).reshape(3, 2), np.array([False, False, True])


def load(name):
    return ROWS


class Study:
    """Records of every cell, and which cells were asked for."""

    def __init__(self, stops_at=None):
        self.seeds, self.stops_at = [], stops_at

    def __call__(self, X, is_anomaly, seed):
        assert X is ROWS[0]
        assert is_anomaly is ROWS[1]
        if seed == self.stops_at:
            raise KeyboardInterrupt
        self.seeds.append(seed)
        yield {"labels": 0, "ours": 80.0}
        yield {"labels": 5, "ours": 90.0}


def test_a_run_goes_on_where_it_stopped(tmp_path):
    path, study = tmp_path / "new" / "study.jsonl", Study()
    measure_study(study, path, seeds=1, names="ab", load=load, grid=[1, 2])
    before = path.read_text()
    with pytest.raises(KeyboardInterrupt):
        measure_study(Study(stops_at=1), path, seeds=2, names="ab", load=load, grid=[3])
    assert path.read_text() == before
    measure_study(study, path, seeds=2, names="ab", load=load, grid=[3])
    assert study.seeds == [0, 0, 1, 1]
    assert [(row["set"], row["seed"], row["labels"]) for row in read_rows(path)] == [
        (name, seed, labels) for seed in (0, 1) for name in "ab" for labels in (0, 5)
    ]
    first = json.loads(path.read_text().splitlines()[0])
    assert first["grid"] == [1, 2]  # the file opens with what its first rows were measured with
    assert {"lpfuse", "numpy"} <= first["versions"].keys()
    assert "protocol" not in read_rows(path)[0]


@cases("path", sorted(RESULTS.glob("*.jsonl")))
def test_stored_studies_are_read_and_written_unchanged(path, tmp_path):
    stored = CellFile.read(path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    rows = [line for line in lines if "set" in line]
    # Cells of one set may lie apart in a file; their rows are read together.
    assert sorted(map(str, read_rows(path))) == sorted(map(str, rows))
    assert stored.opening == [line for line in lines if "set" not in line]
    stored.write(tmp_path / path.name, first=())
    again = CellFile.read(tmp_path / path.name)
    assert (again.opening, again.cells) == (stored.opening, stored.cells)


def test_a_stored_cell_is_not_measured_again(tmp_path):
    path, study = tmp_path / "fused.jsonl", Study()
    path.write_bytes((RESULTS / "fused.jsonl").read_bytes())
    measure_study(study, path, seeds=1, names=["d05_iris"], load=load)
    assert study.seeds == []
    assert path.read_bytes() == (RESULTS / "fused.jsonl").read_bytes()


def test_pairs_of_sets():
    ours = {"a": 90.0, "b": 80.0, "c": 70.0, "d": 60.0}
    theirs = {"a": 85.0, "b": 80.0, "c": 72.0, "d": 50.0}
    assert paired(ours, theirs) == Paired("75.0", "71.8", "2 : 1", "-2.0, +10.0", "c -2.0", "0.5")
    nearly = {name: value + 1e-12 for name, value in ours.items()}
    assert paired(nearly, ours).won_lost == "4 : 0"
    assert paired(nearly, ours, decimals=6).won_lost == "0 : 0"


@pytest.mark.skipif("LPFUSE_DATA" not in os.environ, reason="LPFUSE_DATA names no folder of sets")
def test_development_sets_are_called_as_their_files():
    X, is_anomaly = load_set("d05_iris")
    assert X.shape == (150, 4)
    assert is_anomaly.sum() == 100
