"""Stored records → page: ratios, lower bounds, goals."""

import json

import pytest

from research.rivals.solvers import OURS
from research.speed.solver.goals import goals
from research.speed.solver.results import Results
from research.speed.solver.tables import results_page, write_tables

PROBLEM = {"source": "synthetic", "setting": "pure", "seed": 0, "threads": 2, "gap": 1e-8}
ENVIRONMENT = {
    "kind": "environment", "id": "e", "cpu": "a processor", "cores": 2, "threads": 2,
    "python": "3.11", "system": "Linux", "blas": ["openblas"], "versions": {"numpy": "2"},
    "commit": "abc", "uncommitted_changes": False,
}  # fmt: skip


def solve(rival, p, seconds, status="accepted", n=1_000, R=4, **more):
    return {
        **PROBLEM, "kind": "solve", "rival": rival, "p": p, "n": n, "R": R, "status": status,
        "seconds": seconds, "solver_seconds": None, "time_limit": 60.0, "relative_gap": 1e-9,
        "passes": 3.0, "environment": "e", **more,
    }  # fmt: skip


def precision(rival, tolerance, seconds, gap):
    return solve(rival, "2", seconds, "finished", n=533, relative_gap=gap) | {
        "kind": "precision", "source": "banknotes", "tolerance_asked": tolerance,
    }  # fmt: skip


@pytest.fixture
def records():
    big = {"n": 1_000_000, "R": 36}
    return [
        ENVIRONMENT,
        *(solve(OURS, p, 0.001) for p in ("1", "2", "100")),
        *(solve("cvxpy_clarabel", p, s, solver_seconds=s / 2)
          for p, s in (("1", 0.03), ("2", 0.05), ("100", 0.04))),
        *(solve("cvxpy_scs", p, None, "time") for p in ("1", "2", "100")),
        solve("algorithm1", "2", 0.0005, "imprecise", relative_gap=2e-4),
        solve(OURS, "2", 0.2, **big),
        {**PROBLEM, **big, "kind": "read", "one_thread": 0.04, "all_threads": 0.025},
        {**PROBLEM, **big, "kind": "memory", "rival": OURS, "p": "2",
         "extra_bytes": 20, "score_bytes": 100},
        {**PROBLEM, **big, "kind": "path", "path_seconds": 0.9,
         "single_seconds": {"1": 0.2, "2": 0.2, "4": 0.3}},
        {**PROBLEM, **big, "kind": "least_squares", "path_seconds": 0.055, "gram_seconds": 0.05},
        solve(OURS, "2", 0.8, n=1_000_000, R=128),
        {**PROBLEM, "n": 1_000_000, "R": 128, "kind": "read", "one_thread": 0.1,
         "all_threads": 0.1},
        precision("algorithm1", 1e-2, 0.001, 7e-3),
        precision("cvxpy_clarabel", 1e-8, 0.02, 1e-11),
        precision(OURS, 1e-8, 0.002, 1e-10),
    ]  # fmt: skip


def test_ratios_and_their_bounds(records):
    results = Results(records)
    exact = results.ratios(results.select("solve", rival="cvxpy_clarabel"))
    assert [ratio.value for ratio in exact] == pytest.approx([30.0, 50.0, 40.0])
    bounds = results.ratios(results.select("solve", rival="cvxpy_scs"))
    assert all(ratio.is_bound and ratio.value == pytest.approx(60_000) for ratio in bounds)


def test_goals_are_judged_from_the_records(records):
    stress = {"problems": 572, "certified": 571, "uncertified": 1, "infeasible": 0, "nan": 0,
              "error": 0, "worst_gap": 3e-8, "environment": ENVIRONMENT}  # fmt: skip
    found = {goal.name: goal for goal in goals(Results(records, stress))}
    met = {name: goal.met for name, goal in found.items()}
    assert met == {
        "certified relative gap": False,
        "against cvxpy+CLARABEL, same gap, n = 1e3": False,  # the median is 40, not 50
        "against cvxpy+CLARABEL, same gap, n = 1e4": None,
        "against cvxpy+CLARABEL, same gap, n = 1e5": None,
        "against Algorithm 1 at its own stop, paper's speed table": False,
        "passes over S, n ≥ 1e5": True,
        "1e6 × 36, pure": False,
        "1e6 × 36, negatives": None,
        "1e6 × 128, pure": True,
        "1e6 × 128, negatives": None,
        "1e6 × 36, extra memory": True,
        "spread over p": True,
        "nine-p path": False,
        "least squares, nine p": True,
    }
    assert "8.0 median" in found["1e6 × 36, pure"].measured
    assert found["1e6 × 128, pure"].measured == "8.0 median, 8.0 worst; 3.0 passes at most"
    slower = found["against Algorithm 1 at its own stop, paper's speed table"].measured
    assert slower == "median 0.5×, lowest 0.5× (at pure, p = 2, 1e-02); slower in 1 of 1 cells"


def test_page_shows_what_was_stored(records, tmp_path):
    results = tmp_path / "results"
    results.mkdir()
    lines = [json.dumps(record) for record in records]
    (results / "run.jsonl").write_text("\n".join(lines) + "\n")
    out = tmp_path / "docs" / "solver.md"
    write_tables([results], out)
    text = out.read_text()
    assert "| 1,000 | 4 | pure | 1 (1) | 3.0 (3.0) |" in text
    assert "40× (30 – 50)" in text
    assert "≥ 6e+04×" in text
    assert "1 × gap 2e-04 at 0.5×" in text
    assert "| 2 | 1e-02 | 36.3× | 20× | 7.0e-03 | 10× | 1.0e-10 | 20 / 1 / 2 |" in text
    assert "commits: abc" in text


def test_page_of_nothing_says_so():
    assert "Nothing was measured yet." in results_page(Results([]))


def test_last_record_of_a_cell_counts(records, tmp_path):
    path = tmp_path / "run.jsonl"
    again = solve(OURS, "2", 0.002)
    path.write_text("\n".join(json.dumps(r) for r in [*records, again]) + "\n")
    times = [r["seconds"] for r in Results.load([path]).ours(n=1_000, p="2")]
    assert times == [0.002]


def test_a_rival_that_is_ahead_is_bold_and_named(records):
    quick = solve("piqp", "2", 0.0008)
    assert "No rival is ahead" in results_page(Results(records))
    page = results_page(Results([*records, quick]))
    assert "| **0.8×** |" in page
    assert "- PIQP (p = 1, 2, ∞): 1,000 × 4 pure, p = 2: 0.8×\n" in page
    # A run that was stopped early proves no lead, however short its limit.
    stopped = solve("piqp", "2", None, "time", time_limit=0.0008)
    assert "No rival is ahead" in results_page(Results([*records, stopped]))


def test_a_rival_that_was_asked_at_fewer_p_is_told(records):
    elsewhere = [
        solve(name, "2", seconds, R=36)
        for name, seconds in ((OURS, 0.001), ("cvxpy_clarabel", 0.1))
    ]
    page = results_page(Results([*records, *elsewhere]))
    assert "| 100×; 1 of 3 p asked |" in page


def test_rows_of_several_commits_are_told_plainly(records, tmp_path, capsys):
    assert "commits**" not in results_page(Results(records))
    other = {**ENVIRONMENT, "id": "f", "commit": "def", "uncommitted_changes": True}
    mixed = [*records, other, solve(OURS, "8", 0.001, environment="f")]
    page = results_page(Results(mixed))
    assert "**The rows behind this page are of 2 commits**" in page
    assert "def (with uncommitted changes): 1)" in page
    path = tmp_path / "run.jsonl"
    path.write_text("\n".join(json.dumps(r) for r in mixed) + "\n")
    write_tables([path], tmp_path / "page.md")
    assert "its rows are of 2 commits: abc, def" in capsys.readouterr().out


def test_a_stress_suite_of_another_commit_is_told_too(records):
    stress = {"problems": 1, "certified": 1, "uncertified": 0, "infeasible": 0, "nan": 0,
              "error": 0, "worst_gap": 1e-9,
              "environment": {**ENVIRONMENT, "commit": "def"}}  # fmt: skip
    assert Results(records, stress).commits.keys() == {"abc", "def"}
