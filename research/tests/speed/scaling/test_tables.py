"""Stored records → goals, page and guide; the committed pages are those of the stored records."""

import json
import re
from pathlib import Path

import pytest

from helpers.cases import cases
from research.speed.scaling.figure import draw
from research.speed.scaling.goals import goals
from research.speed.scaling.results import Results
from research.speed.scaling.tables import PARTS, filled, results_page, write_tables

ROOT = Path(__file__).parents[4]
ENVIRONMENT = {
    "kind": "environment", "id": "e", "cpu": "a processor", "cores": 2, "threads": 1,
    "python": "3.11", "system": "Linux", "blas": ["openblas"], "versions": {"numpy": "2"},
    "commit": "abc", "uncommitted_changes": False,
}  # fmt: skip
ASKED = {"seed": 0, "status": "finished", "environment": "e", "gap": 1e-8}
PAPER = {"n": 2_339_189, "R": 36, "dtype": "float64"}
H200 = "NVIDIA H200"


def on_device(kind, device=H200, **fields):
    return {**ASKED, "kind": kind, "device": device, **PAPER, "setting": "pure", **fields}


def device_solve(p, seconds, judged=1e-9, **fields):
    found = {"p": p, "seconds": seconds, "passes": 2.0, "relative_gap": 1e-9, "judged_gap": judged}
    return on_device("device-solve", **found, **fields)


def split(p, seconds, form="plain", gap=1e-9, **fields):
    """A fit, or a path, whose further run took 10 ms: 2 at the entrance, 3 in passes, 5 else."""
    parts = {"entrance": 0.002, "sample": 0.0005, "partition": 0.0015, "examine": 0.001}
    calls = {"entrance": 1, "sample": 1, "partition": 2, "examine": 1}
    found = {"parts": parts, "calls": calls, "split": 0.010, "host_seconds": 0.005}
    return on_device("device-split", p=p, seconds=seconds, form=form, passes=3.0,
                     relative_gap=gap, **found, **fields)  # fmt: skip


def learner(name, seconds, n=100_000, R=128, how="exact", **fields):
    form = {"form": f"{name}, {how}", "seconds": seconds, "rows_a_second": 1e6, "peak_bytes": None}
    return on_device("device-learner", n=n, R=R, **form, **fields)


def cpu_solve(n, R, threads=1, setting="negatives", **fields):
    seconds = 1e-8 * n * R / threads
    return {
        **ASKED, "kind": "cpu-solve", "device": "a processor", "n": n, "R": R, "threads": threads,
        "setting": setting, "p": "2", "seconds": seconds, "read_seconds": seconds / 8,
        "passes": 2.3, "relative_gap": 1e-9, **fields,
    }  # fmt: skip


def dask_fit(n, workers, form="parquet", setting="pure", **fields):
    size = 8 * n * 36
    return {
        **ASKED, "kind": "dask-fit", "device": "a processor", "threads": 1, "n": n, "R": 36,
        "workers": workers, "form": form, "setting": setting, "p": "4/3", "passes": 3.0,
        "seconds": 0.5 + 3.0 * size / (workers * 5e8), "relative_gap": 1e-9, "score_bytes": size,
        "bytes_back": 2**20, "reductions": 4.0, "worker_bytes": [2**28, 2**29], **fields,
    }  # fmt: skip


def mapped(peak, setting="pure", **fields):
    return {
        **ASKED, "kind": "cpu-memmap", "device": "a processor", "threads": 2, "n": 10_000_000,
        "R": 36, "setting": setting, "p": "4/3", "dtype": "float32", "seconds": 2.0, "passes": 2.0,
        "relative_gap": 1e-9, "peak_bytes": peak, "own_bytes": peak // 4,
        "mapped_bytes": 3 * peak // 4, "score_bytes": 1_440_000_000, **fields,
    }  # fmt: skip


def clarabel(seconds, status="accepted", **fields):
    return {
        **ASKED, "kind": "solve", "rival": "cvxpy_clarabel", "n": 100_000, "R": 36, "p": "2",
        "setting": "pure", "status": status, "seconds": seconds, "time_limit": 60.0, **fields,
    }  # fmt: skip


@pytest.fixture
def records():
    return [
        ENVIRONMENT,
        device_solve("2", 0.005),
        device_solve("100", 0.024),
        device_solve("1", 0.5),
        split("2", 0.005),
        split("100", 0.024),
        split("1", 0.5),  # not one of the paper's p
        split("8", 0.5, form="fused"),  # of kernels that the library has no longer
        split("path", 0.07),
        device_solve("2", 0.010, n=100_000),
        on_device("device-units", read_seconds=0.0002, gram_seconds=0.001),
        on_device("device-path", seconds=0.07, passes=2.0, relative_gap=1e-9),
        on_device("device-scoring", form="LpFusion.score_samples", seconds=0.001,
                  rows_a_second=2e9),
        learner("OneClassGP", 11.0),
        learner("KernelPCADetector", 12.0),
        learner("OneClassGP", 4.0, 366_000, 2_048, "Nyström 5,000", dtype="float32"),
        learner("KernelPCADetector", 5.0, 366_000, 2_048, "Nyström 5,000", dtype="float32"),
        *(cpu_solve(n, R) for n in (100_000, 1_000_000) for R in (4, 36)),
        cpu_solve(10_000, 4, seconds=5.0),  # too few rows for the power law
        dask_fit(500_000, 1, gap_in_memory=1e-9, weights_apart=1e-12),
        dask_fit(2_000_000, 1),
        dask_fit(2_000_000, 2),
        dask_fit(1_000_000, 2),
        dask_fit(10_000_000, 4, seconds=900.0),  # more workers than cores: not for the model
        {**ASKED, "kind": "dask-task", "n": 2000, "workers": 2, "seconds": 1e-4,
         "device": "a processor"},
        mapped(2**30),
    ]  # fmt: skip


def judged(records, rivals=()):
    return {goal.name: goal for goal in goals(Results(records, rivals))}


SOLVE = "H200, 2,339,189 × 36 float64, pure, certified 1e-8"
PATH = "H200, the nine-p path on the same, pure"
EXACT = "H200, GP + KPCA, 100,000 × 128, exact"
NYSTROEM = "H200, Nyström (5,000), 366,000 × 2,048"
RIVAL = "H200 against cvxpy+CLARABEL on a CPU, 1e5 × 36, same gap"
DASK = "Dask, 4 processes, 1e7 × 36 from Parquet, pure"
WEIGHTS = "Dask, weights as in memory"
MAPPED = "CPU, 1e7 × 36 float32 from np.memmap, pure"


def test_goals_are_judged_from_the_records(records):
    found = judged(records, [clarabel(30.0)])
    met = {name: goal.met for name, goal in found.items() if "negatives" not in name}
    names = (SOLVE, PATH, EXACT, NYSTROEM, RIVAL, DASK, WEIGHTS, MAPPED)
    assert met == dict.fromkeys(names, True)
    assert {goal.met for name, goal in found.items() if "negatives" in name} == {None}
    told = "14.5 ms median, 24.0 ms worst (all 3 p: 24.0, 500.0)"
    assert found[SOLVE].measured == told
    assert found[EXACT].measured == "23.0 s in float64"
    assert found[RIVAL].measured.startswith("3,000× median")


@cases(
    ("worse", "goal"),
    [
        (split("8", 0.026), SOLVE),
        (split("8", 0.016), SOLVE),  # no solve too slow, but the median
        (split("8", 0.01, gap=2e-8), SOLVE),
        (split("8", 0.01, gap=None), SOLVE),
        (split("path", 0.081), PATH),
        (split("path", 0.01, gap=1e-7), PATH),
        (learner("SVDD", 12.0, 366_000, 2_048, "Nyström 5,000", dtype="float32"), NYSTROEM),
        (device_solve("2", 0.031, n=100_000), RIVAL),
        (dask_fit(10_000_000, 4, passes=6.1), DASK),
        (dask_fit(10_000_000, 4, worker_bytes=[2**28, 2**31]), DASK),
        (dask_fit(10_000_000, 4, relative_gap=1e-7), DASK),
        (dask_fit(10_000_000, 4, gap_in_memory=2e-8, weights_apart=1e-3), WEIGHTS),
        (mapped(2**31 + 1), MAPPED),
    ],
)
def test_one_bad_cell_fails_its_goal(records, worse, goal):
    assert judged([*records, worse], [clarabel(30.0)])[goal].met is False


def test_other_devices_do_not_stand_for_the_reference(records):
    slow = split("8", 9.0, device="torch on a processor")
    assert judged([*records, slow])[SOLVE].met is True
    alone = [record | {"device": "a toy"} for record in records if "device" in record]
    assert judged(alone)[SOLVE].met is None


def test_learners_that_failed_are_told(records):
    failed = learner("OneClassGP", None) | {"status": "error", "message": "OutOfMemoryError: gone"}
    kept = [r for r in records if r.get("n") != 100_000 or r["kind"] != "device-learner"]
    found = judged([*kept, failed])[EXACT]
    assert (found.met, found.measured) == (False, "OutOfMemoryError: gone")


def test_what_the_learners_benchmark_stored_is_understood(tmp_path):
    asked = {"task": "exact", "n": 100_000, "d": 128, "dtype": "float32", "landmarks": None}
    done = {"seconds": 9.0, "scored_a_second": 5e5, "peak_bytes": 2**36}
    rows = [
        {**asked, "learner": "OneClassGP", **done},
        {**asked, "learner": "KernelPCADetector", **done},
        {**asked, "learner": "SVDD", "task": "Nyström", "landmarks": 5000, "error": "too large"},
    ]
    stored = {"environment": ENVIRONMENT | {"device": H200}, "records": rows}
    (tmp_path / "device_learners-cuda.json").write_text(json.dumps(stored))
    results = Results.load(tmp_path)
    found = {goal.name: goal for goal in goals(results)}
    assert found[EXACT].measured == "18.0 s in float32"
    assert results.failed[0]["form"] == "SVDD, Nyström 5,000"
    assert results.failed[0]["message"] == "too large"


def test_a_stopped_rival_gives_a_lower_bound(records):
    results = Results(records, [clarabel(None, "time")])
    assert "| ≥ 60.0 | ≥ 6,000× |" in results_page(results)
    assert judged(records, [clarabel(None, "error")])[RIVAL].met is None


def test_nothing_measured_is_not_a_result():
    assert {goal.met for goal in goals(Results([]))} == {None}
    assert "Nothing was measured yet." in results_page(Results([]))


def test_page_shows_what_was_stored(records, tmp_path):
    (tmp_path / "scaling").mkdir()
    (tmp_path / "scaling" / "device.jsonl").write_text("\n".join(map(json.dumps, records)) + "\n")
    (tmp_path / "solver.jsonl").write_text(json.dumps(clarabel(30.0)) + "\n")
    out, guide = tmp_path / "docs" / "scaling.md", tmp_path / "guide.md"
    guide.write_text("before\n<!-- measured: growth -->\nold\n<!-- end -->\nafter\n")
    write_tables(Results.load(tmp_path), out, guide)
    text = out.read_text()
    assert "| 1,000,000 | 36 | negatives | 360 | 8.0 | 2.3 |" in text
    assert "| 100,000 | negatives | 1 thread | 1.00 (1.00 – 1.00) | 1.00 (1.00 – 1.00) |" in text
    assert "| 10,000,000 × 36 float32, 1.34 GiB | pure | 2.0 | 2.0 | 1.0e-09 | 1.00 GiB |" in text
    assert "| 2,339,189 × 36 | pure | 0.2 | 1 | 120 (2500 worst) | 70 | 1.0e-09 |" in text
    assert "| 100,000 × 36 | pure | 2 | 10 | 30.0 | 3,000× |" in text
    assert "| LpFusion.score_samples | 2,339,189 × 36 | pure | 1 | 2e+09 |" in text
    assert "| OneClassGP, exact | 100,000 × 128 float64 | 11.00 | 1e+06 | – |" in text
    assert (
        "| parquet | pure | 500,000 × 36 | 1 | 1.36 | 3.0 | 1.0e-09 | 4, 1.0 MiB | 512 MiB |"
        in text
    )
    assert [line for line in text.splitlines() if "(ideal" in line] == [
        "| strong | parquet | pure | 2,000,000 | 2 | 1.78 (ideal 2) |",
        "| weak | parquet | pure | 500,000 | 2 | 1.00 (ideal 1) |",
    ]
    assert "500 MB of Parquet a second" in text
    assert "commits: abc" in text
    assert out.with_suffix(".png").stat().st_size > 1000
    law = "| 100,000 | negatives | 1 thread | 1.00 (1.00 – 1.00) | 1.00 (1.00 – 1.00) |"
    parts = guide.read_text().split("\n")
    assert parts[0] == "before"
    assert law in parts
    assert "old" not in parts
    assert parts[-2:] == ["after", ""]


def test_filling_a_guide_twice_changes_nothing(records):
    results = Results(records)
    once = filled("<!-- measured: plan -->\n<!-- end -->\n", results)
    assert filled(once, results) == once
    assert once.count("|") > 20


def test_a_figure_needs_no_power_law(tmp_path):
    draw(Results([ENVIRONMENT, cpu_solve(100_000, 4)]), tmp_path / "scaling.png")
    assert (tmp_path / "scaling.png").exists()


@pytest.fixture(scope="module")
def stored():
    return Results.load(ROOT / "research" / "results" / "speed")


def test_the_committed_page_is_that_of_the_stored_records(stored):
    assert (ROOT / "docs" / "benchmarks" / "scaling.md").read_text() == results_page(stored)


def test_figures_of_the_guide_are_those_of_the_stored_records(stored):
    guide = (ROOT / "docs" / "scaling.md").read_text()
    assert "<!-- measured: paths -->" in guide
    assert filled(guide, stored) == guide
    minutes = re.findall(r"(\d+) minutes", guide)
    assert minutes
    assert all(f"| {each} min |" in PARTS["plan"](stored) for each in minutes)


def test_memory_is_within_what_the_guide_says(stored):
    mib = 2**20
    for r in stored.select("cpu-memmap", n=10_000_000):
        a_row = 40 if r["setting"] == "negatives" else 20
        assert r["own_bytes"] <= 150 * mib + a_row * r["n"]  # the process itself takes 100 MiB
    for r in stored.select("device-solve", n=2_339_189):
        assert r["extra_bytes"] <= 50 * r["n"] + (r["dtype"] == "float32") * 256 * mib
    for r in stored.select("dask-fit"):
        assert max(r["worker_bytes"]) <= 300 * mib + 10 * r["score_bytes"] / r["blocks"]
