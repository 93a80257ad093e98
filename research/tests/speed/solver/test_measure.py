"""The ladder of tolerances, the campaign and its resumption."""

from argparse import Namespace
from types import SimpleNamespace

import numpy as np
import pytest

from research.common.clock import repeats_for
from research.common.isolation import Stopped
from research.common.judge import Judgement
from research.common.store import read_records
from research.rivals import solvers as rivals
from research.rivals.solvers import Answer
from research.speed.solver.benches import ReadBench, Run, SolveBench
from research.speed.solver.measure import measure
from research.speed.solver.problems import Case
from research.speed.solver.run import cases, run

JUDGE = SimpleNamespace(judge=lambda w, alpha=None: Judgement(1.0, float(w[0]), 1.0))


class FakeBench:
    """A solver whose gap is a hundredth of its tolerance and whose time grows as it tightens."""

    def __init__(self, seconds=lambda tolerance: 0.01):
        self.seconds, self.asked = seconds, []

    def call(self, method, p, tolerance, time_limit, limit):
        self.asked.append(tolerance)
        seconds = self.seconds(tolerance)
        if seconds > limit:
            raise Stopped("time")
        return Run(seconds, Answer(np.array([tolerance / 100])))


def test_first_accepted_tolerance_counts():
    bench = FakeBench()
    record = measure(bench, JUDGE, "2", [1e-5, 1e-6, 1e-7], 1e-8, 60.0, most_repeats=4)
    assert record["status"] == "accepted"
    assert record["tolerance"] == 1e-6
    assert bench.asked == [1e-5] + 4 * [1e-6]
    assert record["seconds"] == 0.01


def test_best_gap_is_kept_when_none_is_accepted():
    record = measure(FakeBench(), JUDGE, "2", [1e-2, 1e-3], 1e-8, 60.0, most_repeats=4)
    assert record["status"] == "imprecise"
    assert record["relative_gap"] == pytest.approx(1e-5)


@pytest.mark.parametrize("slow", [70.0, 1e3])  # back late, or not at all
def test_overshooting_run_is_recorded_as_time(slow):
    bench = FakeBench(lambda tolerance: slow if tolerance < 1e-5 else 1.0)
    record = measure(bench, JUDGE, "2", [1e-5, 1e-6, 1e-7], 1e-8, 60.0, most_repeats=4)
    assert record["status"] == "time"
    assert bench.asked == [1e-5, 1e-6]


def test_an_error_moves_on_to_the_next_tolerance():
    class Failing(FakeBench):
        def call(self, method, p, tolerance, *rest, limit):
            if tolerance == 1e-5:
                raise Stopped("error", "no")
            return super().call(method, p, tolerance, *rest, limit=limit)

    assert measure(Failing(), JUDGE, "2", [1e-5, 1e-6], 1e-8, 60.0, 1)["status"] == "accepted"


def test_fast_runs_are_repeated_more_often():
    assert [repeats_for(s, 15) for s in (1e-4, 0.3, 5.0, 30.0)] == [15, 7, 3, 1]


@pytest.mark.slow
def test_benches_time_and_weigh_a_solve():
    bench = SolveBench(rivals.OURS, Case(200, 3, "pure"))
    assert 0.0 < bench.solve("2", 1e-8, 10.0).seconds < 10.0
    extra = bench.extra_memory("2", 1e-8, 10.0)
    assert extra is None or 0 <= extra < 1 << 30
    assert ReadBench(Case(200, 3, "pure")).seconds(1, repeats=1) > 0.0


def tiny_options(path, **changes):
    options = {
        "n": [60], "R": [2], "p": ["2", "inf"], "setting": ["negatives"], "seed": 0,
        "rivals": [rivals.OURS, "algorithm1"], "parts": ["grid"], "gap": 1e-8, "time_limit": 20.0,
        "repeats": 2, "threads": 1, "redo": False, "out": path,
    }  # fmt: skip
    return Namespace(**options | changes)


@pytest.mark.slow  # starts a process for each solver
def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("research.speed.solver.run.set_threads", lambda threads: None)
    path = tmp_path / "results.jsonl"
    run(tiny_options(path))
    whole = path.read_text().splitlines()
    solves = [r for r in read_records([path]) if r["kind"] == "solve"]
    assert {(r["rival"], r["p"]) for r in solves} == {
        (name, p) for name in (rivals.OURS, "algorithm1") for p in ("2", "inf")
    }
    assert all(r["status"] == "accepted" for r in solves if r["rival"] == rivals.OURS)

    path.write_text("\n".join(whole[:-1]) + "\n" + whole[-1][:25])  # torn in the middle of a line
    capsys.readouterr()
    run(tiny_options(path))
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert len(read_records([path])) == len(whole)


def test_cases_come_small_first_and_say_when_banknotes_are_missing(capsys, monkeypatch):
    monkeypatch.delenv("LPFUSE_DATA", raising=False)
    found = list(cases(tiny_options(None, n=[1000, 100], parts=["banknotes"])))
    assert [case.n for case in found] == [100, 1000, 685]
    assert found[-1].source == "banknotes stand-in"
    assert "LPFUSE_DATA" in capsys.readouterr().out
