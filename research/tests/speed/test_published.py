"""The pages under docs/benchmarks are what the stored records say."""

from pathlib import Path

import pytest

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


def test_the_page_of_faces():
    pytest.importorskip("lpfuse_faces")
    for package in ("torch", "av", "cv2"):
        pytest.importorskip(package)
    from research.speed.faces import tables

    stored = {name: tables.stored(name) for name in tables.NAMES}
    assert tables.page(stored) == (PAGES / "faces.md").read_text()
