"""The ladder of tolerances, the campaign and its resumption."""

import re
import sys
from argparse import Namespace
from dataclasses import asdict
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from research.common.clock import repeats_for
from research.common.isolation import Stopped
from research.common.judge import Judgement
from research.common.machine import identified
from research.common.store import RecordStore, read_records
from research.rivals import solvers as rivals
from research.rivals.solvers import Answer
from research.speed.solver.__main__ import PARTS
from research.speed.solver.benches import ReadBench, Run, SolveBench
from research.speed.solver.campaign import stages
from research.speed.solver.measure import measure
from research.speed.solver.problems import ALL_P, Case
from research.speed.solver.run import Campaign, cases, run

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
        "repeats": 2, "once_from": 10.0, "threads": 1, "redo": False, "fresh": False,
        "campaign": False, "stage": None, "commit": None, "note": None, "out": path,
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
    assert len(capsys.readouterr().out.splitlines()) == 2  # the cell that was torn, and the time
    assert len(read_records([path])) == len(whole)


def test_cases_come_small_first_and_say_when_banknotes_are_missing(capsys, monkeypatch):
    monkeypatch.delenv("LPFUSE_DATA", raising=False)
    found = list(cases(tiny_options(None, n=[1000, 100], parts=["banknotes"])))
    assert [case.n for case in found] == [100, 1000, 685]
    assert found[-1].source == "banknotes stand-in"
    assert "LPFUSE_DATA" in capsys.readouterr().out


def quietly(options, monkeypatch, ran=None):
    """Run with every case replaced by one record, so that only the store is looked at."""
    monkeypatch.setattr("research.speed.solver.run.set_threads", lambda threads: None)

    def fake(campaign):
        campaign._record({"kind": "read", **campaign.asked}, {"one_thread": 1.0})
        if ran is not None:
            ran(campaign)

    monkeypatch.setattr("research.speed.solver.run.Campaign.run", fake)
    run(options)


def sizes_in(path):
    return sorted(r["n"] for r in read_records([path]) if r["kind"] == "read")


def test_a_fresh_run_replaces_what_was_stored_at_its_end(tmp_path, monkeypatch):
    path = tmp_path / "results.jsonl"
    quietly(tiny_options(path, n=[10, 20]), monkeypatch)
    before = []
    fresh = tiny_options(path, n=[30], fresh=True)
    quietly(fresh, monkeypatch, lambda campaign: before.append(sizes_in(path)))
    assert before == [[10, 20]]  # still there while it ran
    assert sizes_in(path) == [30]
    assert [file.name for file in tmp_path.iterdir()] == ["results.jsonl"]


def test_an_interrupted_fresh_run_keeps_stored_rows_and_continues(tmp_path, monkeypatch, capsys):
    path = tmp_path / "results.jsonl"
    quietly(tiny_options(path, n=[10]), monkeypatch)

    def stop(campaign):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        quietly(tiny_options(path, n=[20], fresh=True), monkeypatch, stop)
    assert sizes_in(path) == [10]
    quietly(tiny_options(path, n=[30], fresh=True), monkeypatch)
    assert sizes_in(path) == [20, 30]
    assert "begun anew" not in capsys.readouterr().out


def test_a_fresh_run_of_another_commit_begins_anew(tmp_path, monkeypatch, capsys):
    path = tmp_path / "results.jsonl"
    (tmp_path / "results.fresh.jsonl").write_text(
        '{"kind": "environment", "id": "old"}\n{"kind": "read", "n": 10, "environment": "old"}\n'
    )
    quietly(tiny_options(path, n=[30], fresh=True), monkeypatch)
    assert sizes_in(path) == [30]
    assert "begun anew" in capsys.readouterr().out


def test_a_rival_without_its_package_is_left_out(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "piqp", None)
    monkeypatch.delitem(sys.modules, "research.rivals.solvers.piqp", raising=False)
    monkeypatch.setattr("research.speed.solver.run.set_threads", lambda threads: None)
    monkeypatch.setattr("research.speed.solver.run.Campaign.references", lambda campaign: None)
    path = tmp_path / "results.jsonl"
    run(tiny_options(path, rivals=["piqp"]))
    assert re.match(r"piqp: left out, .*piqp", capsys.readouterr().out)
    assert [r["kind"] for r in read_records([path])] == ["environment"]
    assert rivals.title("piqp") == "PIQP (p = 1, 2, ∞)"  # the page needs no package


def test_a_spared_rival_keeps_its_limit(tmp_path):
    store = RecordStore(tmp_path / "results.jsonl", {"id": "e"})
    given = tiny_options(None, time_limit=20.0)
    stopped = {**asdict(Case(60, 2, "negatives")), "kind": "solve", "p": "2", "rival": "piqp",
               "gap": 1e-8, "threads": 1}  # fmt: skip
    store.append({**stopped, "status": "time", "time_limit": 15.0})
    larger = Campaign(Case(600, 2, "negatives"), store, given)
    asked = {**stopped, "n": 600}
    larger._record(asked, larger._spared(asked))
    assert store.find(**asked)["time_limit"] == 15.0  # a bound on its time that was seen
    assert not larger._pending(asked)
    store.append({**stopped, "status": "accepted", "time_limit": 60.0})
    assert larger._pending(asked)


def test_the_campaign_covers_every_size_or_says_so():
    asked = {
        (n, R, name): set(stage.p)
        for stage in stages(tiny_options(None))
        for n, R, name in product(stage.n, stage.R, stage.rivals)
    }
    sizes = {(n, R) for n, R, _ in asked}
    assert sizes == {
        *product((1_000, 10_000, 100_000), (4, 36, 200)),
        *product((10**6,), (4, 36, 128)),
    }
    for n, R in sizes:
        assert asked[n, R, rivals.OURS] == set(ALL_P)
        if n <= 10_000:
            assert {name for m, r, name in asked if (m, r) == (n, R)} == set(rivals.names())
    assert asked[10_000, 36, "cvxpy_clarabel"] == set(ALL_P)
    assert asked[10_000, 200, "cvxpy_clarabel"] == {"32/31", "2", "inf"}


def test_the_campaign_measures_paths_memory_and_banknotes():
    found = list(stages(tiny_options(None)))
    assert {part for stage in found for part in stage.parts} == set(PARTS)
    with_path = {n for stage in found if "path" in stage.parts and 36 in stage.R for n in stage.n}
    assert with_path == {1_000, 10_000, 100_000, 1_000_000}
    assert all(stage.seed == 0 and stage.gap == 1e-8 for stage in found)  # as given


def test_stages_of_a_campaign_can_run_apart(tmp_path, monkeypatch):
    monkeypatch.setattr("research.speed.solver.run.set_threads", lambda threads: None)
    ran = []
    monkeypatch.setattr(Campaign, "run", lambda campaign: ran.append(campaign.case.n))
    path = tmp_path / "store.jsonl"
    run(tiny_options(path, campaign=True, fresh=True, stage=[0], commit="abc1234", note="n"))
    assert ran == [1000]
    (told,) = read_records([path])
    assert (told["commit"], told["uncommitted_changes"]) == ("abc1234", False)
    assert told["note"] == "n"
    told.pop("kind")  # which the store adds
    assert told["id"] == identified(told)["id"]
