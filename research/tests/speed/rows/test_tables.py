"""Made-up records → goals and page: every figure is where it belongs."""

import json

import numpy as np
import pytest

from helpers.cases import cases
from research.speed.rows.figure import draw
from research.speed.rows.goals import SET_BY, goals
from research.speed.rows.results import Results
from research.speed.rows.samples import SIZES, pool
from research.speed.rows.tables import results_page, write_page

ASKED = {"seed": 0, "threads": 1, "status": "finished", "environment": "e"}
ENVIRONMENT = {
    "kind": "environment", "id": "e", "cpu": "a processor", "cores": 2, "system": "Linux",
    "python": "3.12", "blas": ["openblas 1"], "versions": {"lpfuse": "1"}, "commit": "abc",
    "uncommitted_changes": False,
}  # fmt: skip


def budget(labels, seconds, n=1200):
    expert = {"svm": [0.2, 0.2]} if labels else {}
    names = ["lpfuse", "gp", "knn", *expert]
    return {
        **ASKED, "kind": "budget", "n": n, "d": 16, "labels": labels, "predicted": 10_000,
        "fit_seconds": {"lpfuse": [seconds, seconds, 9.0], "gp": [0.25], "knn": [0.05], **expert},
        "predict_seconds": {"lpfuse": [0.6], "gp": [0.2], "knn": [0.1], **expert},
        "row_seconds": {name: {"p50": 0.001, "p95": 0.002} for name in names},
        "experts": list(expert),
    }  # fmt: skip


def before(n, labels, fit=6.0, predict=7.0, **fields):
    times = {"fit_seconds": (1.0, fit), "predict_seconds": (1.0, predict),
             "row_seconds": (1e-3, 3e-3)}  # fmt: skip
    clocks = {clock: {"now": [a, a], "before": [b, b]} for clock, (a, b) in times.items()}
    return {
        **ASKED, "kind": "before", "n": n, "d": 16, "labels": labels, "predicted": 10_000,
        "before_commit": SET_BY, **clocks, **fields,
    }  # fmt: skip


def growth(n, fits, **stopped):
    return {
        **ASKED, "kind": "growth", "n": n, "d": 20, "labels": 0, "predicted": 10_000,
        "fit_seconds": {name: [s] for name, s in fits.items()}, "stopped": stopped,
        "predict_seconds": {name: [s / 10] for name, s in fits.items()}, "time_limit": 300.0,
        "labels_given": 20, "missing": {"SUOD": "No module named suod"},
    }  # fmt: skip


def one_row(milliseconds, onnx_ratio=0.5, labels=0):
    clocks = {"score_samples": milliseconds, "predict": milliseconds, "onnx": 2.5}
    return {
        **ASKED, "kind": "one-row", "n": 300, "d": 16, "labels": labels,
        "row_seconds": {name: {"p50": s / 1e3, "p95": 2 * s / 1e3} for name, s in clocks.items()},
        "onnx_ratio": onnx_ratio, "onnx_difference": 1e-7,
    }  # fmt: skip


def large(labels, seconds=120.0, peak=2**30, **fields):
    return {
        **ASKED, "kind": "large", "n": 200_000, "d": 20, "labels": labels, "predicted": 10_000,
        "fit_seconds": seconds, "wall_seconds": seconds + 5, "predict_seconds": 0.5,
        "peak_bytes": peak, "row_bytes": 32_000_000, **fields,
    }  # fmt: skip


@pytest.fixture
def records():
    return [
        ENVIRONMENT,
        *(budget(labels, 1.2) for labels in (0, 20, 100)),
        *(growth(n, {"lpfuse": n / 1e3, "plain loop": n / 2e3}) for n in (2000, 5000)),
        growth(20_000, {"lpfuse": 20.0}, **{"plain loop": "time"}),
        *(before(1200, labels) for labels in (0, 20, 100)),
        before(20_000, 20),
        one_row(1.25),
        *(large(labels) for labels in (0, 20)),
    ]


def judged(records):
    return {goal.name: goal for goal in goals(Results(records))}


FIT = "fit, 1,200 rows, 20 labels"
FASTER = "fit, 1,200 rows, 20 labels, against f85f484"
FASTER_BEYOND = "fit, 20,000 rows, 20 labels, against f85f484"
PREDICT = "predict, 10,000 rows, against f85f484"
MANY = "fit, 200,000 rows, 20 labels"
ROW = "one row, `score_samples`"
ONNX = "one row, against its ONNX form"


def test_goals_are_judged_from_the_records(records):
    found = judged(records)
    assert {goal.met for goal in found.values()} == {True}
    assert len(found) == 12
    assert found[FIT].measured == "1.20 s"
    assert found[FASTER].measured == "6.0×"
    assert found[MANY].measured == "2.0 minutes, 1.00 GiB"


@cases(
    ("worse", "goal"),
    [
        (budget(20, 1.81), FIT),
        (before(1200, 20, fit=4.9), FASTER),
        (before(20_000, 20, fit=2.9), FASTER_BEYOND),
        (before(20_000, 20, predict=4.9), PREDICT),
        (large(20, seconds=601.0), MANY),
        (large(20, peak=4 * 2**30), MANY),
        (large(20, peak=None), MANY),
        (one_row(2.1, labels=20), ROW),
        (one_row(1.0, 1.01, labels=20), ONNX),
    ],
)
def test_one_bad_cell_fails_its_goal_and_no_other(records, worse, goal):
    kept = [r for r in records if not _same(r, worse)]
    found = judged([*kept, worse])
    assert [name for name, judgement in found.items() if judgement.met is not True] == [goal]
    assert found[goal].met is False


def test_goals_are_judged_by_the_version_that_set_them(records):
    other = before(1200, 20, fit=1.1, before_commit="0ther")
    assert judged([*records, other])[FASTER].measured == "6.0×"
    lines = results_page(Results([*records, other])).splitlines()
    set_by, more = (
        next(i for i, line in enumerate(lines) if line.startswith(f"| {commit} | 1,200 | 20 |"))
        for commit in (SET_BY, "0ther")
    )
    assert set_by < more


def _same(record, other):
    return all(record.get(name) == other[name] for name in ("kind", "n", "labels"))


def test_nothing_measured_is_not_a_result():
    assert {goal.met for goal in goals(Results([]))} == {None}
    assert "Nothing was measured yet." in results_page(Results([]))


def test_many_rows_that_did_not_finish_are_told(records):
    stopped = large(20, status="memory", message="memory: process ended with code -9")
    kept = [r for r in records if not _same(r, stopped)]
    assert judged([*kept, stopped])[MANY].met is False
    text = results_page(Results([*kept, stopped]))
    assert "| large | 200,000 | 20 | memory: process ended with code -9 |" in text
    assert "## Not finished" not in results_page(Results(records))


def test_page_shows_what_was_stored(records, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in records))
    write_page(Results.load([path]), tmp_path / "docs" / "rows.md")
    text = (tmp_path / "docs" / "rows.md").read_text()
    lines = text.splitlines()
    for line in (
        "| 1,200 | 0 | 0.3 s | 1.2 s | 4.0 | 0.3 s | 0.6 s | 2.0 | 2 ms | 1 ms |",
        "| 1,200 | 20 | 0.5 s | 1.2 s | 2.4 | 0.5 s | 0.6 s | 1.2 | 3 ms | 1 ms |",
        "| svm | 0.2 / 0.2 / 1 |",
        "| 2,000 | 2 / 0.2 | 1 / 0.1 |",
        "| 20,000 | 20 / 2 | over 300 s |",
        "SUOD is left out: No module named suod",
        "| lpfuse | 1.00 (1.00 – 1.00) | 1.00 (1.00 – 1.00) |",
        "| plain loop | – | – |",
        "| 300 | 0 | 1.25 / 2.5 | 1.25 / 2.5 | 2.5 / 5 | 0.50 | 1e-07 |",
        "| f85f484 | 20,000 | 20 | 1 / 6 | 6.0× | 1 / 7 | 7.0× | 1 / 3 | 3.0× |",
        "| 200,000 × 20, 0.03 GiB | 0 | 120 s (2.0 minutes) | 125 s | 0.50 s | 1.00 GiB |",
        "- commits: abc",
    ):
        assert line in lines, line
    assert "Experts, which learn from the labels: svm." in " ".join(lines)
    assert (tmp_path / "docs" / "rows.png").stat().st_size > 1000
    for one in text.split("\n\n"):
        if one.startswith("|"):
            assert len({line.count("|") for line in one.splitlines()}) == 1, one


def samples(family, seed, default, more):
    return {
        **ASKED, "kind": "samples", "n": 50_000, "labels": 0, "seed": seed, "family": family,
        "auc": {"default": default, "more": more}, "seconds": {"default": 2.0, "more": 5.0},
    }  # fmt: skip


def test_what_samples_lose_is_paired_by_family_and_seed():
    found = [("t2", 80.0, 80.5), ("t2", 81.0, 80.5), ("mixed", 90.0, 91.0), ("mixed", 90.0, 91.0)]
    records = [samples(name, i % 2, *auc) for i, (name, *auc) in enumerate(found)]
    lines = results_page(Results([ENVIRONMENT, *records])).splitlines()
    assert any(line.endswith("| 80.50 | 80.50 | +0.00 | 2.5× |") for line in lines)
    assert any(line.endswith("| 90.00 | 91.00 | -1.00 | 2.5× |") for line in lines)
    differences = np.array([-0.5, 0.5, -1.0, -1.0])
    error = differences.std(ddof=1) / 2
    assert f"In the mean -0.50 ± {error:.2f} (standard error)." in lines


def test_the_other_pool_keeps_more_of_large_samples():
    usual, more = (dict(pool(50_000, times)) for times in (None, SIZES))
    for name, key, times in (
        ("knn", "max_samples", 4), ("columns", "max_samples", 4), ("gp", "n_components", 2),
        ("knn samples", "max_samples", 1),
    ):  # fmt: skip
        assert getattr(more[name][-1], key) == times * getattr(usual[name][-1], key)


def test_python_alone_is_told_where_onnx_is_missing():
    alone = one_row(1.0)
    del alone["onnx_ratio"], alone["onnx_difference"], alone["row_seconds"]["onnx"]
    results = Results([ENVIRONMENT, {**alone, "missing": "No module named onnx"}])
    text = results_page(results)
    assert "| 300 | 0 | 1 / 2 | 1 / 2 | – | – | – |" in text
    assert "ONNX is left out: No module named onnx" in text
    assert {goal.met for goal in goals(results) if goal.name == ONNX} == {None}


def test_a_missing_form_is_not_a_fast_one(records):
    alone = {**one_row(1.0, labels=20), "missing": "no converter"}
    del alone["onnx_ratio"], alone["onnx_difference"], alone["row_seconds"]["onnx"]
    found = judged([*records, alone])[ONNX]
    assert found.met is False
    assert found.measured.endswith("; 1 without such a form")


def test_a_figure_needs_no_power_law(records, tmp_path):
    for found in ([], [ENVIRONMENT, growth(500, {"lpfuse": 1.0})], records):
        draw(Results(found), tmp_path / "rows.png")
        assert (tmp_path / "rows.png").exists()


def test_the_last_measurement_counts(tmp_path):
    path = tmp_path / "rows.jsonl"
    twice = [ENVIRONMENT, budget(20, 9.0), budget(20, 1.0)]
    path.write_text("".join(json.dumps(r) + "\n" for r in twice))
    assert judged_file(path)[FIT].measured == "1.00 s"


def judged_file(path):
    return {goal.name: goal for goal in goals(Results.load([path]))}
