"""The three commands at tiny sizes, and the memory they look at."""

import json
from time import sleep

import numpy as np
import pytest

from research.common.memory import CLEAR_REFS, highest_since, restart_peak, sampled_peaks
from research.speed.scaling.__main__ import main
from research.speed.scaling.cpu import GridBench, MappedBench, write_scores
from research.speed.solver.problems import Case

MIB = 2**20


def records(folder, kind):
    (path,) = folder.glob("*.jsonl")
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return [record for record in found if record["kind"] == kind]


@pytest.fixture
def at_once(monkeypatch):
    """Clocks do not tidy up: that takes longer than all that they time here."""
    monkeypatch.setattr("gc.collect", lambda: 0)


def test_a_fit_is_timed_beside_reads_of_the_scores(at_once):
    bench = GridBench(Case(600, 4, "negatives"), threads=1)
    for found in (bench.solve("4/3", 2), bench.path(2)):
        assert found["relative_gap"] <= 1e-8
        assert len(found["samples"]) == 2
        assert found["seconds"] > 0
        assert found["read_seconds"] > 0


def test_a_fit_from_a_file(tmp_path, at_once):
    y = write_scores(tmp_path / "scores.bin", 3000, 4, 0.2, seed=0)
    found = MappedBench(tmp_path / "scores.bin", (3000, 4), y).fit("4/3")
    assert found["relative_gap"] <= 1e-8
    assert found["score_bytes"] == 3000 * 4 * 4
    assert found.get("peak_bytes", np.inf) > 30 * MIB


def test_the_gap_is_judged_by_plain_torch():
    torch = pytest.importorskip("torch")
    from lpfuse import LpFusion
    from research.speed.scaling.device import judged_gap

    scores, labels = Case(300, 4, "negatives").data()
    for S, y in ((scores, labels), (scores, None)):
        fusion = LpFusion(2.0, tol=1e-8).fit(S, y)
        rows, marks = torch.as_tensor(S), None if y is None else torch.as_tensor(y)
        assert judged_gap(rows, marks, fusion) <= 1.1e-8
        fusion.weights_ = 0.9 * fusion.weights_
        assert judged_gap(rows, marks, fusion) > 1e-4


@pytest.mark.slow  # starts processes
def test_cpu_command(tmp_path, capsys):
    sizes = ["--n", "600", "--R", "4", "--mapped", "3000", "--repeats", "2", "--threads", "1"]
    sizes += ["--setting", "negatives"]
    main(["cpu", *sizes, "--out", str(tmp_path), "--folder", str(tmp_path)])
    solves = records(tmp_path, "cpu-solve")
    assert [r["p"] for r in solves] == ["32/31", "4/3", "2", "100"]
    for record in solves:
        assert record["relative_gap"] <= 1e-8
        assert record["seconds"] > 0
        assert record["read_seconds"] > 0
    (mapped,) = records(tmp_path, "cpu-memmap")
    assert mapped["score_bytes"] == 3000 * 36 * 4
    assert mapped.get("peak_bytes", np.inf) > 30 * MIB
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".jsonl"] == []

    before = len(solves)
    main(["cpu", *sizes, "--parts", "grid", "--out", str(tmp_path)])
    assert len(records(tmp_path, "cpu-solve")) == before  # what is stored is not measured again
    assert "stored in" in capsys.readouterr().out


@pytest.mark.slow
def test_device_command_says_where_it_runs(tmp_path, capsys):
    torch = pytest.importorskip("torch")
    parts = ["--parts", "units", "solve", "path", "float32", "scoring"]
    sizes = ["--n", "1500", "--p", "32/31", "--setting", "negatives"]
    main(["device", *sizes, *parts, "--repeats", "1", "--out", str(tmp_path), "--commit", "abc"])
    if not torch.cuda.is_available():
        assert "There is no CUDA device here" in capsys.readouterr().out
    solves = records(tmp_path, "device-solve")
    assert len(solves) == 1 + 2  # one p in float64, two in float32
    assert all(r["relative_gap"] <= 1e-8 and r["judged_gap"] <= 1.1e-8 for r in solves)
    assert {r["dtype"] for r in solves} == {"float64", "float32"}
    assert len(records(tmp_path, "device-path")) == 1
    assert len(records(tmp_path, "device-scoring")) == 3
    assert records(tmp_path, "environment")[0]["commit"] == "abc"


@pytest.mark.slow  # starts a cluster
def test_dask_command(tmp_path):
    pytest.importorskip("distributed")
    sizes = ["--rows", "1200", "--rows-each", "400", "--block-rows", "300", "--goal-rows", "1500"]
    sizes += ["--tasks", "20"]
    where = ["--out", str(tmp_path), "--folder", str(tmp_path), "--setting", "negatives"]
    main(["dask", *sizes, *where, "--workers", "2", "--repeats", "1"])
    fits = records(tmp_path, "dask-fit")
    assert {(r["n"], r["form"]) for r in fits} == {
        (1200, "parquet"), (800, "parquet"), (1500, "parquet"), (1200, "array"), (800, "array"),
    }  # fmt: skip
    for record in fits:
        assert record["relative_gap"] <= 1e-8
        assert record["gap_in_memory"] <= 1e-8
        assert len(record["worker_bytes"]) == record["workers"] == 2
        assert 0 < record["reductions"] < 20
    both = [r["weights"] for r in fits if r["n"] == 1200]
    np.testing.assert_allclose(both, both[:1] * len(both), atol=1e-4)  # whatever holds the rows
    assert len(records(tmp_path, "dask-task")) == 1
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".jsonl"] == []


linux_only = pytest.mark.skipif(not CLEAR_REFS.exists(), reason="the kernel does not tell")


@linux_only
def test_own_memory_and_pages_of_a_file_are_told_apart(tmp_path):
    path = tmp_path / "scores.bin"
    np.ones(40 * MIB, dtype=np.uint8).tofile(path)

    # Held until a sample was taken: on a busy machine the sampling thread may start late.
    def allocate():
        held = np.ones(60 * MIB, dtype=np.uint8)
        sleep(0.2)
        return held

    def read():
        mapped = np.memmap(path, dtype=np.uint8, mode="r")
        int(mapped.sum())
        sleep(0.2)
        return mapped

    sampled_peaks(allocate)  # the allocator gives back first what tests before this one left
    idle, own = sampled_peaks(lambda: None), sampled_peaks(allocate, every=1e-3)
    assert own["RssAnon"] - idle["RssAnon"] > 20 * MIB
    assert own["RssFile"] - idle["RssFile"] < 5 * MIB
    # Idle once more: what tests before this one left may be given back at any time.
    idle, file = sampled_peaks(lambda: None), sampled_peaks(read, every=1e-3)
    assert file["RssFile"] - idle["RssFile"] > 10 * MIB
    assert file["VmHWM"] - idle["VmHWM"] > 30 * MIB


@linux_only
def test_the_mark_starts_again():
    np.ones(50 * MIB, dtype=np.uint8)
    now = restart_peak()
    assert highest_since() - now < 5 * MIB
    np.ones(50 * MIB, dtype=np.uint8)
    assert highest_since() - now > 40 * MIB


def test_scores_on_disk_are_drawn_block_by_block(tmp_path):
    y = write_scores(tmp_path / "long", 1000, 3, 0.2, seed=1, block=400)
    write_scores(tmp_path / "short", 400, 3, 0.2, seed=1, block=400)
    long, short = (np.fromfile(tmp_path / name, np.float32) for name in ("long", "short"))
    assert long.shape == (3000,)
    assert y.shape == (1000,)
    np.testing.assert_array_equal(long[:1200], short)
    assert not np.array_equal(long[1200:2400], short)
