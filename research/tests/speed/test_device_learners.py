import json
import sys

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from lpfuse.detectors import gaussian_process
from research.speed import device_learners


def run(monkeypatch, folder):
    arguments = ["device_learners", "--device", "cpu", "--quick", "--output", str(folder)]
    monkeypatch.setattr(sys, "argv", arguments)
    device_learners.main()
    return json.loads((folder / "device_learners-cpu.json").read_text())


def test_every_learner_is_timed_by_stages(monkeypatch, tmp_path, capsys):
    stored = run(monkeypatch, tmp_path)
    assert stored["environment"]["versions"]["torch"] != "not installed"
    assert [record["learner"] for record in stored["records"]] == [
        *["OneClassGP", "KernelPCADetector"] * 2,
        *["OneClassGP", "KernelPCADetector", "SVDD"] * 2,
    ]
    for record in stored["records"]:
        assert sum(record["stages"].values()) == pytest.approx(record["seconds"])
        assert 0 <= record["stages"]["rest"] < 0.5 * record["seconds"]
        assert 0 < record["outside"] < 0.5
    assert [record["features"] is None for record in stored["records"]] == [True] * 4 + [False] * 6
    by_features = stored["records"][-1]["stages"]
    assert by_features.keys() >= {"landmarks", "eigen", "moments", "solve", "threshold"}
    told = capsys.readouterr().out
    assert "No CUDA device is used" in told
    assert "| Nyström | SVDD | 1,500 × 32 | float32 |" in told


def test_a_failure_is_recorded_and_the_next_learner_runs(monkeypatch, tmp_path):
    def fails(*_):
        raise RuntimeError("out of memory\nand so on")

    monkeypatch.setattr(gaussian_process, "cholesky", fails)
    records = run(monkeypatch, tmp_path)["records"]
    assert [record.get("error") for record in records[:2]] == ["out of memory", None]
