"""Kernel learners timed by stages, at tiny sizes on the CPU."""

import json

import pytest

pytest.importorskip("torch", reason="torch is not installed")

import torch

from lpfuse import SVDD, KernelPCADetector, OneClassGP
from research.speed.device_learners import TINY, Task, main, measure

NYSTROEM = {"approximation": "nystroem", "n_components": TINY.landmarks, "random_state": 0}


class OutOfMemory(OneClassGP):
    def fit(self, X, y=None):
        raise RuntimeError("out of memory\nand so on")


def test_stages_add_up():
    task = Task("Nyström", TINY.nystroem, torch.float64, [SVDD(**NYSTROEM)], "10 s each")
    (record,) = measure(task, TINY, "cpu")
    assert sum(record["stages"].values()) == pytest.approx(record["seconds"])
    assert record["stages"].keys() >= {"landmarks", "eigen", "moments", "solve", "threshold"}
    assert record["features"] <= TINY.landmarks


@pytest.mark.slow
def test_every_learner_is_timed_by_stages(tmp_path, capsys):
    main(["--device", "cpu", "--quick", "--output", str(tmp_path)])
    stored = json.loads((tmp_path / "device_learners-cpu.json").read_text())
    assert stored["environment"]["versions"]["torch"] != "not installed"
    assert [record["learner"] for record in stored["records"]] == [
        *["OneClassGP", "KernelPCADetector"] * 2,
        *["OneClassGP", "KernelPCADetector", "SVDD"] * 2,
    ]
    for record in stored["records"]:
        assert sum(record["stages"].values()) == pytest.approx(record["seconds"])
        assert 0 <= record["stages"]["rest"] <= record["seconds"]
        assert 0 < record["outside"] < 0.5
    assert [record["features"] is None for record in stored["records"]] == [True] * 4 + [False] * 6
    by_features = stored["records"][-1]["stages"]
    assert by_features.keys() >= {"landmarks", "eigen", "moments", "solve", "threshold"}
    told = capsys.readouterr().out
    assert "No CUDA device is used" in told
    assert "| Nyström | SVDD | 400 × 32 | float32 |" in told


def test_a_failure_is_recorded_and_the_next_learner_runs():
    learners = [OutOfMemory(), KernelPCADetector(approximation=None)]
    task = Task("exact", TINY.exact, torch.float64, learners, "30 s in all")
    records = measure(task, TINY, "cpu")
    assert [record.get("error") for record in records] == ["out of memory", None]
    assert records[1]["seconds"] > 0
