import json
import sys
from itertools import product

import pytest

pytest.importorskip("av")
pytest.importorskip("cv2")

from research.speed.faces import stand_in
from research.speed.faces.stand_in import KINDS, MODES, PHOTOGRAPHS, measured


def records(auc):
    cells = product((0, 1), PHOTOGRAPHS, KINDS, MODES)
    names = ("seed", "face", "kind", "mode")
    return [
        {**dict(zip(names, cell, strict=True)), "quality": "c23", "auc": auc(cell[1], cell[0])}
        for cell in cells
    ]


def test_the_worst_photograph_is_judged(monkeypatch, tmp_path, capsys):
    stored = tmp_path / "results.json"
    found = records(lambda face, seed: 0.75 + 0.02 * seed if face == "camera" else 0.9)
    stored.write_text(json.dumps({"records": found}))
    monkeypatch.setattr(sys, "argv", ["stand_in", "--show", "--output", str(stored)])
    stand_in.main()
    page = capsys.readouterr().out
    assert page.count("| ≥ 0.8 | 0.76 (camera) | **no** |") == 4
    assert "| untouched | 0.90 (0.90) | 0.76 (0.75) | 0.90 (0.90) | 0.85 |" in page


@pytest.mark.slow
def test_every_kind_is_left_out_in_both_modes():
    found = list(measured(0, qualities=[30], clips_per_face=2, frames=2, sampled=2, n_jobs=2))
    places = {(record["face"], record["kind"], record["mode"]) for record in found}
    assert places == {
        (face, kind, mode) for face in PHOTOGRAPHS for kind in KINDS for mode in MODES
    }
    assert len(found) == len(places)
    assert all(0 <= record["auc"] <= 1 for record in found)
    assert {record["quality"] for record in found} == {"c30"}
