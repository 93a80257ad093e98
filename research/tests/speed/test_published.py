"""The pages under docs/benchmarks are what the stored records say."""

import json
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

from research.speed import file_to_verdict, growth
from research.speed.detectors import results as detector_results
from research.speed.detectors import tables as detector_tables
from research.speed.rows import results as row_results
from research.speed.rows import tables as row_tables
from research.speed.solver import results as solver_results
from research.speed.solver import tables as solver_tables

ROOT = Path(__file__).parents[3]
STORED = ROOT / "research" / "results" / "speed"
PAGES = ROOT / "docs" / "benchmarks"


def test_the_page_of_the_solvers():
    found = solver_results.Results.load([STORED / "solver.jsonl", STORED / "stress.json"])
    assert solver_tables.results_page(found) == (PAGES / "solver.md").read_text()


def test_the_page_of_the_detectors():
    pytest.importorskip("pyod", reason="names of rivals whose packages are missing differ")
    found = detector_results.Results.load([STORED / "detectors.jsonl"])
    assert detector_tables.results_page(found) == (PAGES / "detectors.md").read_text()


def test_the_page_from_rows_to_verdicts():
    stored = STORED / "rows.jsonl"
    if not stored.exists():
        pytest.skip("nothing was measured yet")
    found = row_results.Results.load([stored])
    assert row_tables.results_page(found) == (PAGES / "rows.md").read_text()
    assert (PAGES / "rows.png").exists()


def test_the_page_from_a_file_to_a_verdict():
    records = file_to_verdict.stored(STORED / "file_to_verdict.jsonl")
    assert file_to_verdict.page(records) == (PAGES / "file-to-verdict.md").read_text()
    assert (PAGES / "file-to-verdict.png").exists()


def test_growth_is_measured_step_by_step_and_replaces_an_earlier_run(tmp_path, monkeypatch):
    out = tmp_path / "growth.jsonl"
    for record in ({"kind": "growth", "rows": 7}, {"kind": "file", "rows": 9}):
        growth.append(out, record)
    found = growth.measure(100, 0)
    assert {name for name in found if name.endswith("_seconds")} == {
        f"{step}_seconds" for step in growth.STEPS
    }
    assert all(found[f"{step}_bytes"] > 2**20 for step in growth.STEPS)
    options = Namespace(rows=[], labels=0, out=out)
    monkeypatch.setattr(growth, "watch", lambda rows: iter([{"kind": "watch", "rows": 1}]))
    growth.run(options)
    kinds = [json.loads(line)["kind"] for line in out.read_text().splitlines()]
    assert kinds == ["environment", "file", "watch"]


def test_exponents_are_those_of_a_power_law():
    rows = np.array([1e3, 1e4, 1e5, 1e6])
    assert growth.slope(rows, 7.0 * rows**0.75) == pytest.approx((0.75, 0.0), abs=1e-6)


def test_the_page_of_faces():
    pytest.importorskip("lpfuse_faces")
    for package in ("torch", "av", "cv2"):
        pytest.importorskip(package)
    from research.speed.faces import tables

    stored = {name: tables.stored(name) for name in tables.NAMES}
    assert tables.page(stored) == (PAGES / "faces.md").read_text()
