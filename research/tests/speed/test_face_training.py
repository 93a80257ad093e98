import json
import sys

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")

from research.speed.faces import training


def run(monkeypatch, output, sets="0-1"):
    arguments = ["training", "--device", "cpu", "--quick", "--sets", sets]
    monkeypatch.setattr(sys, "argv", [*arguments, "--output", str(output)])
    training.main()
    return json.loads(output.read_text())


@pytest.mark.slow
def test_experts_are_trained_fused_and_a_run_can_continue(monkeypatch, tmp_path, capsys):
    first = run(monkeypatch, tmp_path / "training.json", sets="0")
    assert first["experts"] == 4
    result = run(monkeypatch, tmp_path / "training.json")
    assert result["experts"] == 8
    assert result["sets"][0] == first["sets"][0]  # not trained again
    for one in result["sets"]:
        stages = {**one["seconds"]}
        assert stages.pop("all") == pytest.approx(sum(stages.values()))
        assert stages.keys() == {"standardise", "kernels", "mixture", "score"}
        assert max(one["auc"]) > 0.6
    assert [one["shape"] for one in result["fusion"]] == [[1600, 8]] * 5 + [[1920, 8]] * 5
    assert max(one["relative_gap"] for one in result["fusion"]) <= 1e-8
    parts = [one["seconds"]["all"] for one in result["sets"]]
    assert result["seconds"] == pytest.approx(
        sum(parts) + sum(one["seconds"] for one in result["fusion"])
    )
    assert "8 experts in" in capsys.readouterr().out


def test_sets_differ_and_are_the_same_each_time():
    first, forged = training.rows_of(0, training.TINY, "cpu")
    again, _ = training.rows_of(0, training.TINY, "cpu")
    other, _ = training.rows_of(1, training.TINY, "cpu")
    assert (first == again).all()
    assert not (first == other).any()
    assert (first.shape, forged.shape) == ((1600, 24), (320, 24))


def test_the_area_counts_pairs():
    rng = np.random.default_rng(0)
    genuine, forged = rng.normal(1, 1, 30), rng.normal(0, 1, 20)
    expected = (genuine[:, None] > forged[None, :]).mean()
    torch = pytest.importorskip("torch")
    found = training.auc(torch.from_numpy(genuine), torch.from_numpy(forged))
    assert found == pytest.approx(expected)
