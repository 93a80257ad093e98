"""Does the gap fall as 1/T? Rates of made-up runs, true gaps of real ones."""

import numpy as np
import pytest

from lpfuse.optim import Problem, solve
from lpfuse.optim.frank_wolfe import frank_wolfe
from oracles.optimum import optimum
from research.common import experiment
from research.common.datasets import Dataset
from research.common.options import Options
from research.common.protocol import QUICK
from research.common.splits import split
from research.common.store import read_rows
from research.paper import convergence
from research.paper.convergence import COUNTEREXAMPLE, OPTIMUM, figures, run, split_rows
from research.paper.convergence_page import Case, cases, convergence_page, draw
from research.paper.weights import paper_problem

STEPS = np.array([10, 32, 100, 316, 1000, 3162, 10000])


def rows_and_labels():
    rng = np.random.default_rng(0)
    centres = np.repeat([0.0, 1.0, 4.0], [40, 10, 10])
    return rng.normal(centres[:, None], size=(60, 2)), np.repeat([1, -1], [40, 20])


def case(gaps):
    gaps = np.asarray(gaps, dtype=float)
    return Case("made", "pure", "Algorithm 1", 2.0, STEPS, gaps, 10 * gaps)


# -------------------------------------------------------------------------------------- rates


@pytest.mark.parametrize("rate", [0.0, 0.5, 1.0, 2.0])
def test_rates_of_powers_are_found(rate):
    found = case(0.01 * STEPS**-rate)
    assert found.slope == pytest.approx(-rate)
    assert found.growth == pytest.approx(10 ** (1 - rate))
    assert found.is_solved == (rate == 2.0 and 0.01 * 1e4**-2 <= 1e-10)


def test_only_the_end_counts():
    gaps = np.where(STEPS < 100, 5.0, 1 / STEPS)
    assert case(gaps).slope == pytest.approx(-1)


def test_a_gap_that_is_gone_has_no_slope():
    gone = case(np.zeros(7))
    assert gone.is_solved
    assert np.isnan(gone.slope)
    assert case([1, 1, 0.1, 0.03, 0.01, 0, 0]).slope == pytest.approx(-1, abs=0.05)


def test_the_literal_claim_is_about_every_step_and_gap():
    assert case(0.1 / STEPS).is_as_claimed  # absolute gap: 1/T
    assert not case(0.11 / STEPS).is_as_claimed
    assert not case(np.r_[0.2, 0.01 / STEPS[1:]]).is_as_claimed


# ---------------------------------------------------------------------------------- true gaps


def test_the_counterexample_has_its_exact_optimum():
    problem = Problem(COUNTEREXAMPLE, p=2.0)
    assert problem.value(np.array([np.sqrt(3), 1]) / 2) == pytest.approx(OPTIMUM, abs=1e-15)
    proof = solve(problem, tol=1e-10).certificate
    assert proof.dual <= OPTIMUM <= proof.primal + 1e-15
    assert pytest.approx(0.56699, abs=1e-5) == OPTIMUM


def test_gaps_are_those_after_so_many_steps():
    parts = split(*rows_and_labels(), QUICK, 0)
    rows = split_rows(parts, steps=(10, 100))
    assert len(rows) == 2 * len(QUICK.ps) * 2 * 2
    for row in rows:
        problem = paper_problem(parts.training(row["setting"]))[0].with_ball(row["p"])
        best = problem.value(optimum(problem)[0])
        smoothing = {"Algorithm 1": 0.0, "smoothed": 1.0}[row["method"]]
        w = frank_wolfe(problem, max_iter=row["steps"], smoothing=smoothing).weights
        gap = problem.value(w) - best
        assert row["gap"] == pytest.approx(gap, abs=1e-6)
        assert row["value"] == pytest.approx(gap / max(best, problem.scale), abs=1e-5)
        assert min(row["gap"], row["value"]) >= 0


# ------------------------------------------------------------------------------------ figures


def made(name, setting, method, p, gaps):
    run = {"set": name, "seed": 0, "setting": setting, "method": method, "p": p}
    for T, gap in zip(STEPS, gaps, strict=True):
        yield run | {"metric": "relative_gap", "steps": int(T), "value": gap, "gap": 10 * gap}


def whole(method, gaps_by_setting):
    yield from made("counterexample", "pure", method, 2.0, np.full(7, 0.2))
    for setting, runs in gaps_by_setting.items():
        for k, (p, gaps) in enumerate(runs):
            yield from made(f"set {k}", setting, method, p, gaps)


STALLED, ROOT, INVERSE = 0.01 * STEPS**0.0, 0.01 * STEPS**-0.5, 0.01 / STEPS
RUNS = {
    "pure": [(2.0, STALLED), (2.0, ROOT), (2.0, INVERSE), (8.0, 0 * STEPS), (8.0, STALLED)],
    "non-pure": [(2.0, INVERSE)],
}
MADE = [*whole("Algorithm 1", RUNS), *whole("smoothed", {**RUNS, "pure": [(2.0, INVERSE)]})]


def test_figures_of_known_runs():
    found = figures(MADE)
    pure = found["Algorithm 1"]["pure"]
    counts = [pure[key] for key in ("cases", "solved", "bounded", "growing", "stalled")]
    assert counts == [5, 1, 1, 3, 2]
    np.testing.assert_allclose(pure["slopes"], [-0.625, -0.25, 0], atol=1e-9)
    assert pure["worst"] == 0.01
    assert pure["as_claimed"] == 2
    assert pure["growing_at"] == {2.0: 2 / 3, 8.0: 0.5}
    assert found["Algorithm 1"]["counterexample"] == {
        "steps": 10000, "gap": 0.2, "slope": pytest.approx(0)}  # fmt: skip
    other = found["Algorithm 1"]["non-pure"]
    assert (other["cases"], other["worst"]) == (1, pytest.approx(1e-6))
    assert found["smoothed"]["pure"]["growing"] == 0


def test_the_page_tells_the_figures():
    text = convergence_page(MADE, "PICTURE", "all sets")
    assert "| Algorithm 1, pure | 5 | 1 | 1 | 3 | 2 | -0.25 (-0.62 to 0.00) | 1.0e-02 | 2 |" in text
    assert "| Algorithm 1, pure | 67% | 50% |" in text
    flat = " ".join(text.split())
    assert "After 10,000 steps Algorithm 1 is 20.0% above it" in flat
    assert "T·gap grows in 3 of 6 cases (50%), 2 of which are stalled, at up to 1.0% above" in flat
    assert "in 2 it does not grow, in 1 no gap is left" in flat
    assert "PICTURE" in flat
    assert "four learners: all sets; pure and non-pure" in flat


def test_the_picture_has_every_run(monkeypatch, tmp_path):
    from matplotlib.figure import Figure

    saved = []
    monkeypatch.setattr(Figure, "savefig", lambda self, path, **_: saved.append(self))
    draw(MADE, tmp_path / "convergence.png")
    example, *panels = saved[0].axes
    lines = {line.get_label(): line for line in example.get_lines()}
    assert {"Algorithm 1", "smoothed", "1/T"} == set(lines)
    T, guide = lines["1/T"].get_data()
    np.testing.assert_allclose(guide, 1 / np.asarray(T))
    drawn = [sum(len(line.get_xdata()) == 7 for line in ax.get_lines()) for ax in panels]
    assert drawn == [6 + 1, 2 + 1]  # the runs and the guide


# ------------------------------------------------------------------------------------ the whole


def test_run_stores_one_split_and_the_counterexample(monkeypatch, tmp_path):
    data = Dataset("iris", *rows_and_labels(), ("a", "b"), "made up")
    monkeypatch.setattr(experiment, "load_dataset", lambda *_, **__: data)
    monkeypatch.setattr(convergence, "STEPS", (10, 100, 1000))
    monkeypatch.setattr(convergence, "QUICK_STEPS", (10, 32, 100))
    options = Options(tmp_path, quick=True, sets=("iris",))
    text = run(options)
    assert "up to T = 100\n" in text
    flat = " ".join(text.split())
    assert "After 1,000 steps" in flat
    assert "learners: one random split of one data set, a quick run with thin grids;" in flat
    assert (tmp_path / "convergence.md").read_text() == text
    assert (tmp_path / "convergence.png").read_bytes().startswith(b"\x89PNG")
    stored = read_rows(tmp_path / "convergence.jsonl")
    assert {(row["set"], row["seed"]) for row in stored} == {("counterexample", 0), ("iris", 0)}
    stuck, smoothed = (c.gaps for c in cases(stored) if c.set == "counterexample")
    assert min(stuck) > 0.2
    assert smoothed[-1] < 0.01

    monkeypatch.setattr(convergence, "frank_wolfe", None)  # nothing is measured twice
    monkeypatch.setattr(convergence, "draw", lambda rows, path: None)
    assert run(options) == text
    assert run(Options(tmp_path, quick=True, show=True, sets=("iris",))) == text
    with pytest.raises(FileNotFoundError, match="no results of this protocol"):
        run(Options(tmp_path, show=True))
