"""The table of speed-ups: honest solvers, true gaps, ratios turn by turn. No time is asserted."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lpfuse.optim import Problem
from oracles.optimum import optimum
from research.common import experiment
from research.common.datasets import Dataset
from research.common.options import Options
from research.common.protocol import QUICK
from research.common.splits import split
from research.paper import speed
from research.paper.speed import algorithm_1, figures, run, solve_with_cvxpy, split_rows, true_gap
from research.paper.speed_page import speed_page
from research.paper.weights import paper_problem

SMALL = {8 / 7: {1e-2: 19.2, 1e-3: 15.9}, 2.0: {1e-2: 36.3}}


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(speed.paper, "SPEED_UP", SMALL)


def rows_and_labels():
    rng = np.random.default_rng(0)
    centres = np.repeat([0.0, 1.0, 4.0], [40, 10, 10])
    return rng.normal(centres[:, None], size=(60, 2)), np.repeat([1, -1], [40, 20])


def scores(seed, n=30, R=3, anomalies=0):
    rng = np.random.default_rng(seed)
    y = np.repeat([1.0, -1.0], [n - anomalies, anomalies])
    return y[:, None] * rng.normal(0.5, 1, (n, R)), y


# ------------------------------------------------------------------------------------ solvers


def written_out(problem, precision):
    """Algorithm 1 as the paper prints it, for 1 < p < ∞: weights, and the number of steps."""
    rows = np.reshape(np.ones(problem.n) if problem.y is None else problem.y, (-1, 1)) * problem.S
    p, w = problem.ball.p, np.full(problem.R, problem.R ** (-1 / problem.ball.p))
    for t in range(1, 10**6):
        downhill = (1.0 * (rows @ w < 1.0)) @ rows  # minus a subgradient
        if not downhill.any():
            return w, t - 1
        size = np.abs(downhill) / np.abs(downhill).max()
        corner = np.sign(downhill) * size ** (1 / (p - 1))
        step = 2.0 / (2.0 + t) * (corner / (np.abs(corner) ** p).sum() ** (1 / p) - w)
        w = w + step
        if np.abs(step).max() <= precision:
            return w, t
    raise AssertionError("it did not stop")


@given(st.integers(0, 99), st.sampled_from([32 / 31, 8 / 7, 2.0, 100.0]), st.sampled_from([0, 7]))
@settings(max_examples=30, deadline=None)
def test_algorithm_1_takes_the_steps_that_the_paper_prints(seed, p, anomalies):
    problem = Problem(*scores(seed, anomalies=anomalies), p=p)
    found = algorithm_1(problem, 1e-2)
    weights, steps = written_out(problem, 1e-2)
    assert found.facts == {"steps": steps}
    np.testing.assert_allclose(found.weights, weights, atol=1e-12)


def test_algorithm_1_stops_where_nothing_descends():
    problem = Problem(np.full((5, 2), 3.0), p=2.0)  # uniform weights make no error
    bare = algorithm_1(problem, 1e-9)
    assert bare.facts == {"steps": 0}
    np.testing.assert_array_equal(bare.weights, problem.ball.uniform(2))


def test_algorithm_1_stops_when_its_patience_ends():
    assert algorithm_1(Problem(*scores(0), p=2.0), 0.0, patience=3).facts == {"steps": 3}


def test_true_gap_is_to_the_bound_and_inside_the_ball():
    problem = Problem(np.array([[0.0, 2.0], [0.5, 0.0]]), p=2.0)
    best = 1 - np.sqrt(3) / 4
    w = np.array([np.sqrt(3), 1.0]) / 2
    assert true_gap(problem, w, best) == pytest.approx(0, abs=1e-12)
    for outside in (1.0, 2.0):  # scaled back
        gap = true_gap(problem, outside * np.array([1.0, 0.0]), best)
        assert gap == pytest.approx((1.5 - best) / 1.5)
    assert true_gap(problem, np.array([0.0, 1.0]), best) == pytest.approx(1 - best)


@pytest.mark.parametrize("p", [32 / 31, 2.0, 100.0])
def test_cvxpy_solves_the_same_problem(p):
    pytest.importorskip("cvxpy")
    pytest.importorskip("clarabel")
    problem = Problem(*scores(1, anomalies=7), p=p)
    answer = solve_with_cvxpy(problem)
    best, _ = optimum(problem)
    assert problem.value(answer.weights) == pytest.approx(problem.value(best), rel=1e-5)
    assert answer.facts["solver_seconds"] > 0


@pytest.mark.slow
def test_every_solver_has_its_times_and_its_gap():
    pytest.importorskip("cvxpy")
    pytest.importorskip("clarabel")
    parts = split(*rows_and_labels(), QUICK, 0)
    rows = split_rows(parts, repeats=2)
    known = {
        tuple(row[key] for key in ("setting", "method", "p", "precision", "metric")): row
        for row in rows
    }
    stops = [(p, precision) for p, of_p in SMALL.items() for precision in of_p]
    wanted = {("Algorithm 1", *stop, m) for stop in stops for m in ("seconds", "steps")}
    wanted |= {("Algorithm 1", *stop, "relative_gap") for stop in stops}
    for p in SMALL:
        wanted |= {("lpfuse", p, None, m) for m in ("seconds", "steps", "relative_gap")}
        wanted |= {("cvxpy", p, None, m) for m in ("seconds", "solver_seconds", "relative_gap")}
    assert set(known) == {
        (s + suffix, *rest)
        for s in ("pure", "non-pure")
        for suffix in ("", ", clipped")
        for rest in wanted
    }
    assert len(rows) == len(known)
    problems = {
        s + suffix: paper_problem(parts.training(s), preset)[0]
        for s in ("pure", "non-pure")
        for suffix, preset in speed.SCALES.items()
    }
    bests = {(s, p): optimum(problems[s].with_ball(p))[0] for s in problems for p in SMALL}
    for (setting, method, p, precision, metric), row in known.items():
        assert row["machine"]["threads"] == 1
        assert row["machine"]["processor"]
        if "seconds" in metric:
            assert row["value"] == np.median(row["repeats"])
            assert len(row["repeats"]) == 2
        if metric == "relative_gap":
            assert 0 <= row["value"] <= {"lpfuse": 1e-8, "cvxpy": 1e-6}.get(method, 1.0)
        if (method, metric) == ("Algorithm 1", "relative_gap"):
            problem = problems[setting].with_ball(p)
            value = problem.value(algorithm_1(problem, precision).weights)
            gap = value - problem.value(bests[setting, p])
            assert row["value"] == pytest.approx(gap / max(value, problem.scale), abs=1e-6)


# -------------------------------------------------------------------------------------- figures


def made(setting, theirs, inside, runs):
    """Rows of one p = 2 for given times of cvxpy and of the others, with their gaps."""
    machine = {"processor": "abacus", "threads": 1, "cvxpy": "1.0", "clarabel": "0.9"}
    row = {"set": "made", "seed": 0, "setting": setting, "p": 2.0, "machine": machine}
    times = [
        ("cvxpy", None, "seconds", theirs),
        ("cvxpy", None, "solver_seconds", inside),
        *((method, precision, "seconds", spent) for method, precision, spent, _ in runs),
    ]
    for method, precision, metric, spent in times:
        yield row | {"method": method, "precision": precision, "metric": metric,
                     "value": float(np.median(spent)), "repeats": spent}  # fmt: skip
    gaps = [("cvxpy", None, 1e-9), *((method, stop, gap) for method, stop, _, gap in runs)]
    for method, precision, gap in gaps:
        told = {"metric": "relative_gap", "value": gap}
        yield row | {"method": method, "precision": precision, **told}


MADE = [
    # Turn by turn 10, 20 and 30 times faster: the median of the ratios, not of the times, is 20.
    *made("pure", [10.0, 2.0, 3.0], [5.0, 1.0, 1.0],
          [("Algorithm 1", 1e-2, [1.0, 0.1, 0.1], 0.02), ("lpfuse", None, [2.0, 1.0, 1.0], 1e-10)]),
    *made("non-pure", [14.0], [7.0],
          [("Algorithm 1", 1e-2, [1.0], 0.001), ("lpfuse", None, [2.0], 2e-10)]),
]  # fmt: skip


def test_figures_of_known_times():
    found = figures(MADE)
    pure, other = found["made", "pure"], found["made", "non-pure"]
    race = pure["races"]["Algorithm 1", 2.0, 1e-2]
    assert (race.whole, race.solver, race.gap) == (20, 10, 0.02)
    assert race.milliseconds == 100
    assert (pure["least"], pure["least_solver"]) == (20, 10)
    assert (pure["cells"], pure["fast"], pure["fast_solver"], pure["loose"]) == (1, 1, 0, 1)
    assert (other["fast"], other["fast_solver"], other["loose"]) == (1, 0, 0)  # 14 is enough
    assert (pure["lpfuse"], pure["lpfuse_solver"]) == ((3, 3), (1, 1))
    assert (pure["worst_gap"], pure["cvxpy_gap"], pure["lpfuse_gap"]) == (0.02, 1e-9, 1e-10)


def test_the_page_shows_the_paper_beside_ours():
    text = speed_page(MADE, "one split")
    assert "| 2, 1e-02 | 36.3× | 20× | 10× | 2.0e-02 | 3× | 1× | 1.0e-10 |" in text
    flat = " ".join(text.split())
    assert "four learners (one split): median over 3 turns" in flat
    assert "abacus, 1 thread, cvxpy 1.0, CLARABEL 0.9" in flat
    assert "in 1 of 1 cells if the whole call counts, in 0 if CLARABEL alone does" in flat


def test_extremes_are_over_all_cells():
    rows = [*MADE, *({**row, "p": 8 / 7} for row in made("pure", [1.0], [0.5], [
        ("Algorithm 1", 1e-2, [10.0], 0.5), ("lpfuse", None, [0.1], 1e-9)]))]  # fmt: skip
    pure = figures(rows)["made", "pure"]
    assert (pure["cells"], pure["fast"], pure["loose"]) == (2, 1, 2)
    assert (pure["least"], pure["least_solver"], pure["worst_gap"]) == (0.1, 0.05, 0.5)
    assert pure["lpfuse"] == (3, 10)


# ------------------------------------------------------------------------------------ the whole


@pytest.fixture
def loaded(monkeypatch):
    asked = []

    def load(source, **_):
        asked.append(source)
        return Dataset(source, *rows_and_labels(), ("a", "b"), "made up")

    monkeypatch.setattr(experiment, "load_dataset", load)
    return asked


@pytest.mark.slow
def test_run_times_the_banknotes_once(loaded, monkeypatch, tmp_path):
    pytest.importorskip("cvxpy")
    pytest.importorskip("clarabel")
    text = run(Options(tmp_path, quick=True, jobs=2))
    assert set(loaded) == {"banknotes"}
    flat = " ".join(text.split())
    assert "(one random split of one data set, a quick run with thin grids)" in flat
    assert "## banknotes, pure" in text
    assert "## banknotes, non-pure" in text
    assert (tmp_path / "speed.md").read_text() == text
    monkeypatch.setattr(speed, "import_module", None)  # cvxpy is not needed to show what is stored
    assert run(Options(tmp_path, quick=True, show=True)) == text


def test_without_cvxpy_the_remedy_is_named(loaded, monkeypatch, tmp_path):
    def absent(name):
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(speed, "import_module", absent)
    with pytest.raises(ImportError, match=r"pip install -r research/requirements\.txt"):
        run(Options(tmp_path))
    assert not loaded
