import json
import sys

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from research.speed.faces import networks
from research.speed.faces.networks import Way


def run(monkeypatch, path):
    arguments = ["networks", "--device", "cpu", "--quick", "--networks", "alexnet"]
    monkeypatch.setattr(sys, "argv", [*arguments, "--output", str(path)])
    networks.main()
    return json.loads(path.read_text())


@pytest.mark.slow
def test_everything_is_measured_and_told(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(networks, "from_torchvision", lambda name, x: 0.0)
    ways = (Way("float32", folded=False), Way("bfloat16"), Way(how="graph"))
    monkeypatch.setattr(networks, "WAYS", ways)
    stored = run(monkeypatch, tmp_path / "networks.json")
    assert stored["environment"]["versions"]["torch"] != "not installed"
    assert stored["agreement"] == [{"network": "alexnet", "device": 0.0, "torchvision": 0.0}]
    (together,) = stored["together"]
    assert together["frames_a_second"] > 0
    exact, rounded = stored["ways"]  # graphs are a GPU's
    assert exact["difference"] < 1e-5
    assert 1e-4 < rounded["difference"] < 3e-2
    assert rounded["pictures_a_second"] > 0
    told = capsys.readouterr().out
    assert "No CUDA device is used" in told
    assert "| alexnet | bfloat16 | eager | folded | 2 |" in told


def test_a_failure_is_recorded_and_the_next_way_runs(monkeypatch, tmp_path, capsys):
    def fails(*_):
        raise RuntimeError("out of memory\nand so on")

    monkeypatch.setattr(networks, "from_torchvision", fails)
    monkeypatch.setattr(networks, "fold_normalisations", fails)
    monkeypatch.setattr(networks, "WAYS", (Way("float32"), Way("float32", folded=False)))
    stored = run(monkeypatch, tmp_path / "networks.json")
    assert stored["agreement"][0]["torchvision"] == "RuntimeError: out of memory"
    failed, fine = stored["ways"]
    assert failed["error"] == "RuntimeError: out of memory"
    assert "error" not in fine
    assert "| RuntimeError: out of memory |" in capsys.readouterr().out
