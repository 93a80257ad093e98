"""Stored records of the learners' benchmark → goals and page."""

import json

import pytest

from helpers.cases import cases
from research.speed.detectors.goals import goals
from research.speed.detectors.results import Results
from research.speed.detectors.tables import results_page, write_tables

ASKED = {"seed": 0, "threads": 2, "status": "finished", "environment": "e", "shape": "clusters"}
ENVIRONMENT = {
    "kind": "environment", "id": "e", "cpu": "a processor", "cores": 2, "threads": 2,
    "python": "3.11", "system": "Linux", "blas": ["openblas"], "versions": {"pyod": "3"},
    "commit": "abc", "uncommitted_changes": False,
}  # fmt: skip


def race(kind, n, fits, scores, setting="d=8, shape=clusters", **facts):
    verdicts = {name: {"equal": bool(fits[name]), **facts} for name in fits}
    accepted = {name: times for name, times in fits.items() if times}
    return {
        **ASKED, "kind": kind, "n": n, "d": 8, "setting": setting, "fit_seconds": accepted,
        "score_seconds": scores, "score_rows": 10_000, "verdicts": verdicts, "learners": 75,
    }  # fmt: skip


def svdd(n, ours, theirs, score=(0.01, 0.05), **more):
    names = ("lpfuse_svdd", "sklearn_one_class_svm")
    fits, scores = dict(zip(names, (ours, theirs), strict=True)), {
        name: [seconds] for name, seconds in zip(names, score, strict=True)
    }  # fmt: skip
    facts = {"violation": 9e-4, "excess": 0.0, "support": [50.0], "ball_difference": 1e-6}
    return race("svdd", n, fits, scores, **facts, **more)


def kpca(n, full, pyod, arpack, difference=1e-12):
    fits = {"lpfuse_kpca": [0.1], "sklearn_full": full, "pyod_auto": pyod, "pyod_arpack": arpack}
    scores = {name: [0.1] for name, times in fits.items() if times}
    return race("kpca", n, fits, scores, difference=difference)


def grid(n, one_by_one, sklearn):
    fits = {"lpfuse_together": [1.0], "lpfuse_one_by_one": one_by_one,
            "sklearn_one_by_one": sklearn}  # fmt: skip
    scores = {name: [1.0] for name in fits}
    return race("grid", n, fits, scores, difference=1e-12, compared=49, ball_difference=0.0)


def rows(learner, seconds, unit, extra, count=1_000_000, **more):
    named = {**ASKED, "n": 2000, "d": 16, "setting": f"{learner}, {count}", "learner": learner}
    named["rows"] = count
    times = {"seconds": {"learner": [seconds], "unit": [unit]}, "anchors": 2000, "difference": 0.0}
    return [
        {**named, "kind": "score-rows", **times, **more},
        {**named, "kind": "score-rows-memory", "extra_bytes": extra, "row_bytes": 128_000_000},
    ]


def past(learner, peak, n=500_000, **more):
    return {
        **ASKED, "kind": "past-memory", "n": n, "d": 64, "setting": learner,
        "learner": learner, "n_components": 500, "fit_seconds": 60.0, "score_seconds": 1.0,
        "peak_bytes": peak, "extra_bytes": peak // 2, "approximated": True, "finite": True,
        "converged": True, "missed": 0.01, "auc": 0.9, "exact_auc": 0.91, "exact_rows": 5000,
        "rank_correlation": 0.99, "outside": 0.1, **more,
    }  # fmt: skip


@pytest.fixture
def records():
    return [
        ENVIRONMENT,
        svdd(500, [1.0, 1.0, 1.0], [1.0, 2.0, 0.95]),
        svdd(2000, [1.0], [2.0]),
        kpca(1000, [0.2], [0.2], [0.2]),  # the goal is set for n = 5000
        kpca(5000, [1.0], [0.6], [0.3]),
        grid(250, [6.0], [4.0]),
        *rows("SVDD", 1.5, 1.0, 100 * 2**20 + 8_000_000, block=256),  # the scores are 8 MB
        *rows("GMMDetector", 5.0, 1.0, 30 * 2**20),  # its unit is not a pass of kernel evaluations
        *rows("OneClassGP", 9.0, 1.0, 2**30, count=1000, block=256),  # too few rows to count
        past("SVDD", 5 * 2**30),
    ]


def judged(records):
    return {goal.name: goal for goal in goals(Results(records))}


def test_goals_are_judged_from_the_records(records):
    found = judged(records)
    assert {name: goal.met for name, goal in found.items()} == {
        "SVDD fit against OneClassSVM": True,
        "SVDD scoring against OneClassSVM": True,
        "KPCA, q = 10, n = 5,000, against full scikit-learn KernelPCA + errors": True,
        "KPCA, q = 10, n = 5,000, against PyOD's KPCA, its own solver": True,
        "KPCA, q = 10, n = 5,000, against PyOD's KPCA, ARPACK": False,
        "KPCA scores equal to every rival's": True,
        "the paper's grid against lpfuse's own learners one by one": True,
        "the paper's grid against scikit-learn's learners one by one": False,
        "scoring, in passes of kernel evaluations": True,
        "scoring, extra memory": True,
        "past memory: learn and score": True,
    }
    assert "1× worst (n = 500" in found["SVDD fit against OneClassSVM"].measured
    pyod = found["KPCA, q = 10, n = 5,000, against PyOD's KPCA, its own solver"]
    assert pyod.measured.endswith("fit and scoring 3.5× worst")  # (0.6 + 0.1) / (0.1 + 0.1)
    assert "5.0 GiB worst (SVDD" in found["past memory: learn and score"].measured


@cases(
    ("worse", "goal"),
    [
        ([svdd(1000, [1.2], [1.0])], "SVDD fit against OneClassSVM"),
        ([svdd(1000, [1.0], [1.0], score=(0.06, 0.05))], "SVDD scoring against OneClassSVM"),
        ([kpca(5000, [0.4], [1.0], [1.0])],
         "KPCA, q = 10, n = 5,000, against full scikit-learn KernelPCA + errors"),
        ([kpca(2000, [1.0], [1.0], [], difference=1e-7)], "KPCA scores equal to every rival's"),
        ([kpca(2000, [1.0], [1.0], [], difference=None)], "KPCA scores equal to every rival's"),
        ([grid(500, [4.9], [9.0])], "the paper's grid against lpfuse's own learners one by one"),
        (rows("KernelPCADetector", 2.1, 1.0, 0, block=256),
         "scoring, in passes of kernel evaluations"),
        (rows("KernelPCADetector", 1.0, 1.0, 2**30, block=256), "scoring, extra memory"),
        ([past("OneClassGP", 25 * 2**30)], "past memory: learn and score"),
        ([past("OneClassGP", 2**30, approximated=False)], "past memory: learn and score"),
        ([past("OneClassGP", 2**30, converged=False)], "past memory: learn and score"),
        ([past("OneClassGP", 2**30, finite=False)], "past memory: learn and score"),
        ([past("OneClassGP", 2**30) | {"status": "memory", "message": "memory: gone"}],
         "past memory: learn and score"),
    ],
)  # fmt: skip
def test_one_bad_cell_fails_its_goal(records, worse, goal):
    assert judged([*records, *worse])[goal].met is False


def test_nothing_measured_is_not_a_result():
    assert {goal.met for goal in goals(Results([]))} == {None}
    assert "Nothing was measured yet." in results_page(Results([]))


def test_page_shows_what_was_stored(records, tmp_path):
    stored, out = tmp_path / "run.jsonl", tmp_path / "docs" / "detectors.md"
    unequal = kpca(2000, [1.0], [], [])
    failed = past("KernelPCADetector", 0) | {"status": "memory", "message": "memory: gone"}
    stored.write_text("\n".join(map(json.dumps, [*records, unequal, failed])) + "\n")
    write_tables([stored, tmp_path / "missing.jsonl"], out)
    text = out.read_text()
    assert "| 2,000 | d=8, clusters | 1e+03 | 2× | 50 | 9.0e-04 / 9.0e-04 | 0 / 0 |" in text
    assert "| 5,000 | d=8, clusters | 100 | 3× | 6× | 10× | 1.0e-12 |" in text
    assert "| 2,000 | d=8, clusters | 100 | not equal | not equal | 10× | 1.0e-12 |" in text
    assert "| 250 | d=8, clusters | 1e+03 | 6× | 4× | 1.0e-12 | 49 of 75 |" in text
    assert (
        "| SVDD | 1,000,000 × 16 | 2,000 | 1.50 | 1.00 | 1.50 | 108 MiB (1,000,000) | 100 MiB |"
        in text
    )
    assert "| SVDD | 500,000 × 64 | 500 | 60.0 | 1.00 | 5.00 GiB | 2.50 GiB |" in text
    assert "memory: gone" in text
    assert "commits: abc" in text


def test_records_of_other_thread_counts_are_left_out(records):
    other = svdd(5000, [9.0], [1.0]) | {"threads": 1}
    assert judged([*records, other])["SVDD fit against OneClassSVM"].met is True
