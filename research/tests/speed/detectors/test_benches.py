"""What runs inside the processes of the learners' benchmark, here in one, on tiny sizes."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from research.common.memory import CLEAR_REFS, peak_of
from research.common.store import read_records
from research.rivals import detectors as rivals
from research.rivals.detectors._tasks import GridTask, KPCATask, SVDDTask
from research.speed.detectors.__main__ import run_options
from research.speed.detectors.data import Data
from research.speed.detectors.races import FitRace
from research.speed.detectors.reference import kernel_pass
from research.speed.detectors.run import installed, run
from research.speed.detectors.scoring import RowsBench
from research.speed.detectors.tables import write_tables

pytestmark = pytest.mark.filterwarnings("ignore")  # narrow widths are part of the paper's grid

TASKS = {
    "svdd": SVDDTask(nu=0.1, gamma=0.3),
    "kpca": KPCATask(q=5, gamma=0.3),
    "grid": GridTask(components=(2, 6)),
}


class InThisProcess:
    """Stands for `Isolated`: a fresh process for every cell would take the time of the test."""

    def __init__(self, quiet, threads, bench, *arguments):
        self.bench = bench(*arguments)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

    def call(self, method, *inputs, limit):
        return getattr(self.bench, method)(*inputs)


@pytest.fixture(autouse=True)
def without_garbage_collections(monkeypatch):
    """The clock asks for one before each run: slow among all that a test session holds."""
    monkeypatch.setattr("gc.collect", lambda: 0)


@pytest.fixture
def here(monkeypatch):
    monkeypatch.setattr("research.speed.detectors.run.Isolated", InThisProcess)
    monkeypatch.setattr("research.speed.detectors.run.set_threads", lambda threads: None)


@pytest.mark.parametrize("kind", TASKS)
def test_all_rivals_give_the_same_result(kind):
    names = [name for name in rivals.names(kind) if installed(kind, name)]
    outcome = FitRace(kind, names, Data(80, 3), TASKS[kind], score_rows=50).run(repeats=2)
    assert names[0] == rivals.OURS[kind]
    assert len(names) > 1
    assert all(facts["equal"] for facts in outcome["verdicts"].values())
    for clock in ("fit_seconds", "score_seconds"):
        assert {name: len(times) for name, times in outcome[clock].items()} == dict.fromkeys(
            names, 2
        )


def test_scores_of_a_ball_are_turned_into_ours():
    race = FitRace("svdd", rivals.names("svdd"), Data(80, 3), TASKS["svdd"], score_rows=50)
    facts = race.run(repeats=1)["verdicts"]["sklearn_one_class_svm"]
    assert facts["ball_difference"] < 1e-3


@pytest.mark.parametrize("kind", ["kpca", "grid"])
def test_a_rival_with_other_scores_has_no_time(kind, monkeypatch):
    honest = rivals.load(kind, rivals.OURS[kind])
    liar = SimpleNamespace(**vars(honest))
    liar.as_ours = lambda model, scores: scores + 1e-6
    load = rivals.load
    monkeypatch.setattr(
        rivals, "load", lambda kind, name: liar if name == "liar" else load(kind, name)
    )
    names = [rivals.OURS[kind], "liar"]
    outcome = FitRace(kind, names, Data(60, 3), TASKS[kind], score_rows=50).run(repeats=1)
    assert not outcome["verdicts"]["liar"]["equal"]
    assert list(outcome["fit_seconds"]) == list(outcome["score_seconds"]) == [names[0]]


def test_a_rival_with_another_ball_has_no_time(monkeypatch):
    honest = rivals.load("svdd", "sklearn_one_class_svm")
    loose = SimpleNamespace(**vars(honest))
    loose.fit = lambda X, task: honest.fit(X, SVDDTask(task.nu, task.gamma, tol=0.3))
    load = rivals.load
    monkeypatch.setattr(
        rivals, "load", lambda kind, name: loose if name == "loose" else load(kind, name)
    )
    race = FitRace("svdd", ["lpfuse_svdd", "loose"], Data(300, 3), TASKS["svdd"], score_rows=50)
    assert list(race.run(repeats=1)["fit_seconds"]) == ["lpfuse_svdd"]


@pytest.mark.parametrize(("threads", "block"), [(1, 7), (2, 16), (3, 1000)])
def test_the_reference_evaluates_the_kernel(threads, block):
    rng = np.random.default_rng(0)
    rows, anchors = rng.normal(size=(50, 4)), rng.normal(size=(9, 4))
    found = np.zeros((50, 9))

    def keep(first, values):
        found[first : first + len(values)] = values

    kernel_pass(rows, anchors, 0.7, threads, block, keep)
    np.testing.assert_allclose(found, rbf_kernel(rows, anchors, 0.7), rtol=1e-12)


@pytest.mark.skipif(not CLEAR_REFS.exists(), reason="the high-water mark is Linux's")
def test_peak_sees_what_was_freed_again():
    size = 64 * 2**20
    peak = peak_of(lambda: np.ones(size // 8).sum())
    assert 0.9 * size < peak.extra < 2 * size
    assert peak.total > peak.extra
    assert peak_of(lambda: None).extra < size // 4


@pytest.mark.parametrize("part", ["svdd", "kpca", "grid", "past-memory"])
def test_quick_run_is_stored_and_not_repeated(part, here, tmp_path, capsys):
    path = tmp_path / "run.jsonl"
    arguments = ["--quick", "--threads", "1", "--parts", part, "--out", str(path)]
    run(run_options(arguments))
    records = [r for r in read_records([path]) if r["kind"] != "environment"]
    assert {r["kind"] for r in records} == {part}
    assert {r["status"] for r in records} == {"finished"}
    assert all(r["seed"] == 0 and r["threads"] == 1 for r in records)
    if part == "past-memory":
        assert all(r["approximated"] and r["finite"] for r in records)
    capsys.readouterr()
    run(run_options(arguments))
    assert "finished" not in capsys.readouterr().out


def test_redo_measures_again(here, tmp_path, capsys):
    arguments = ["--quick", "--parts", "svdd", "--out", str(tmp_path / "run.jsonl")]
    run(run_options(arguments))
    run(run_options([*arguments, "--redo"]))
    assert capsys.readouterr().out.count("finished") == 2


@pytest.mark.parametrize("learner", ["SVDD", "KernelPCADetector, Nyström", "GMMDetector"])
def test_quick_scoring_of_rows_reaches_the_page(learner, here, tmp_path):
    path, page = tmp_path / "run.jsonl", tmp_path / "page.md"
    arguments = ["--quick", "--threads", "1", "--parts", "score-rows", "--out", str(path)]
    run(run_options([*arguments, "--learners", learner]))
    records = {(r["kind"], r.get("rows")): r for r in read_records([path])}
    timed = records["score-rows", 2000]
    assert timed["difference"] <= 1e-8
    assert set(timed["seconds"]) == {"learner", "unit"}
    assert {kind for kind, _ in records} == {"environment", "score-rows", "score-rows-memory"}
    write_tables([path], page)
    assert f"| {learner} | 2,000 × 4 |" in page.read_text()


def test_scores_that_depend_on_the_other_rows_have_no_time():
    bench = RowsBench("SVDD", Data(50, 3), rows=2000, threads=1)
    assert set(bench.run(repeats=1)["seconds"]) == {"learner", "unit"}
    honest = bench.model.score_samples
    bench.model.score_samples = lambda X: honest(X) + 1e-6 * len(X)
    assert set(bench.run(repeats=1)["seconds"]) == {"unit"}


def test_a_missing_package_is_said(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "research.rivals.detectors.kpca.pyod_auto", None)
    assert not installed("kpca", "pyod_auto")
    assert "pyod_auto is left out" in capsys.readouterr().out
    assert rivals.label("kpca", "pyod_auto") == "pyod_auto"
