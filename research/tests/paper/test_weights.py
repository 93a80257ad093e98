"""The figure of weights: the problem it solves, what is stored, and what is said of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lpfuse._format import name_of_p
from lpfuse.scaling import TwoSidedMinMax
from oracles.optimum import optimum
from research.common import experiment
from research.common.datasets import Dataset
from research.common.options import Options
from research.common.protocol import QUICK, area
from research.common.splits import split
from research.paper import weights
from research.paper.learners import LEARNERS
from research.paper.methods import lp
from research.paper.weights import PATH, figures, paper_problem, run, split_rows
from research.paper.weights_page import (
    ENDS,
    PANELS,
    deviation,
    draw,
    effective_number,
    fits,
    weights_page,
)


def rows_and_labels(seed=0):
    """40 normal rows around the origin, 20 anomalies of which half are near."""
    rng = np.random.default_rng(seed)
    centres = np.repeat([0.0, 1.0, 4.0], [40, 10, 10])
    return rng.normal(centres[:, None], size=(60, 2)), np.repeat([1, -1], [40, 20])


@pytest.fixture(scope="module")
def parts():
    return split(*rows_and_labels(), QUICK, 0)


@pytest.fixture(scope="module")
def rows(parts):
    return [{"set": "small", "seed": 0, **row} for row in split_rows(parts)]


def values(rows, setting, metric, method=None):
    return [
        row["value"]
        for row in rows
        if (row["setting"], row["metric"]) == (setting, metric) and method in (None, row["method"])
    ]


# ------------------------------------------------------------------------------- the problem


@pytest.mark.parametrize("setting", ["pure", "non-pure"])
def test_the_problem_is_the_papers(parts, setting):
    training = parts.training(setting)
    problem, rho = paper_problem(training)
    assert rho == lp()(training).choices["rho"]
    assert problem.S.shape == (len(training.normals) + len(training.labelled), len(LEARNERS))
    assert (problem.fit_intercept, problem.ball.nonnegative, problem.costs) == (False, False, None)
    y = np.repeat([1, -1], [len(training.normals), len(training.labelled)])
    np.testing.assert_array_equal(problem.y, y)
    # Scaled by the thresholds of the normal rows to [0, 1], and not clipped.
    normals = problem.S[y > 0]
    again = TwoSidedMinMax(rho, (0, 1), clip=False).fit_transform(normals)
    np.testing.assert_allclose(normals, again, atol=1e-12)
    assert normals.min() < 0


def test_weights_are_optimal_for_every_p(parts, rows):
    for setting in ("pure", "non-pure"):
        problem, _ = paper_problem(parts.training(setting))
        (fit,) = (fit for fit in fits(rows) if fit.setting == setting)
        for p in ENDS:
            of_p = problem.with_ball(p)
            best, _ = optimum(of_p)
            assert of_p.ball.norm(fit.weights[p]) <= 1 + 1e-12
            assert of_p.value(fit.weights[p]) <= of_p.value(best) + 1e-6 * of_p.n


def test_gaps_are_certified(rows):
    gaps = [row["value"] for row in rows if row["metric"] == "relative_gap"]
    assert len(gaps) == 2 * len({*ENDS, *PATH})
    assert min(gaps) >= 0
    assert max(gaps) <= 1e-8


def test_areas_are_those_of_the_learners(parts, rows):
    training = parts.training("non-pure")
    tables = weights.PAPER_PRESET.tables_of(training)
    known = 100 * area(training.labels, tables.validation)
    test = np.vstack([parts.test, parts.sought])
    labels = np.repeat([1, -1], [len(parts.test), len(parts.sought)])
    unseen = 100 * area(labels, tables.score(test))
    np.testing.assert_allclose(values(rows, "non-pure", "validation_auc"), known)
    np.testing.assert_allclose(values(rows, "non-pure", "auc"), unseen)


def test_only_the_first_split_has_the_path():
    assert (PATH[0], PATH[-1]) == (1, np.inf)
    np.testing.assert_allclose(np.diff([1 / p for p in PATH]), -1 / 40)
    later = split_rows(split(*rows_and_labels(), QUICK, 1))
    assert {row["p"] for row in later if row["metric"] == "weight"} == set(ENDS)


# ------------------------------------------------------------------------ what is said of them


def some_weights(size):
    return arrays(np.float64, size, elements=st.floats(0.01, 1) | st.floats(-1, -0.01))


@given(st.integers(1, 6).flatmap(some_weights), st.floats(0.1, 10))
def test_effective_number_and_deviation_have_their_ranges_and_no_scale(w, scale):
    R = len(w)
    number = effective_number(w)
    assert 1 - 1e-9 <= number <= R + 1e-9
    assert effective_number(scale * w) == pytest.approx(number)
    assert deviation(scale * w) == pytest.approx(deviation(w), abs=1e-9)
    assert effective_number(np.full(R, scale)) == pytest.approx(R)
    assert deviation(np.full(R, scale)) == pytest.approx(0, abs=1e-12)
    assert 0 <= deviation(w) <= R + 1


def made(seed, setting, by_p, validation, test):
    """Rows of a split with learners A, B, …"""
    row = {"set": "made", "seed": seed, "setting": setting}
    for p in ENDS:
        for name, value in zip("ABC", by_p.get(p, np.ones(len(test))), strict=False):
            yield row | {"method": name, "metric": "weight", "p": str(p), "value": value}
        gap = 1e-9 * (seed + 1)
        yield row | {"method": "ℓp", "metric": "relative_gap", "p": str(p), "value": gap}
    for name, known, unseen in zip("ABC", validation, test, strict=False):
        yield row | {"method": name, "metric": "validation_auc", "value": known}
        yield row | {"method": name, "metric": "auc", "value": unseen}


SPARSE = {1.0: [1.0, 0.0], PANELS[0]: [0.9, 0.1], PANELS[1]: [0.8, 0.4], PANELS[2]: [0.8, 0.6]}
MADE = [
    *made(0, "pure", SPARSE, [90, 80], [70, 75]),  # A: best on validation, not on test
    *made(1, "pure", {1.0: [-0.4, 0.6], np.inf: [1.0, -0.5]}, [90, 90], [60, 60]),  # B: ties
    *made(0, "non-pure", {100.0: [1.0, 0.97], np.inf: [1.0, 0.8]}, [80, 90], [50, 60]),
]


def test_figures_of_known_weights():
    found = figures(MADE)
    pure, other = found["pure"], found["non-pure"]
    assert (pure["splits"], pure["worst_gap"]) == (2, 2e-9)
    assert pure["effective"][1.0] == pytest.approx((1 + 1 / 0.52) / 2)
    assert pure["effective"][100.0] == 2
    assert (pure["rising"], other["rising"]) == (0.5, 0)  # equal weights for all p do not rise
    assert (pure["picked"], other["picked"]) == ({"A": 1, "B": 1}, {"A": 1})
    assert (pure["alone"], other["alone"]) == (0.5, 0)
    assert (pure["best_on_validation"], pure["best_on_test"]) == (1, 0.5)
    assert (other["best_on_validation"], other["best_on_test"]) == (0, 0)
    assert (pure["given_away"], other["given_away"]) == (2.5, 10)
    assert (pure["by_validation"], other["by_validation"]) == (2.5, 0)
    assert (pure["by_chance"], other["by_chance"]) == (1.25, 5)
    assert pure["deviation"] == {100: (0, 0), np.inf: (pytest.approx(5 / 6), pytest.approx(5 / 3))}
    assert other["deviation"][100] == (pytest.approx(3 / 197), pytest.approx(3 / 197))
    assert (pure["even"], other["even"]) == ({100: 1, np.inf: 0.5}, {100: 1, np.inf: 0})
    assert (pure["negative"], other["negative"]) == ({100: 0, np.inf: 0.5}, {100: 0, np.inf: 0})


def test_what_a_pick_gives_away():
    pick = {1.0: [0.0, 0.0, 1.0]}
    rows = [
        *made(0, "pure", pick, [9, 8, 7], [40, 90, 50]),
        *made(0, "non-pure", pick, *[[1, 2, 3]] * 2),
    ]
    pure, other = figures(rows).values()
    assert (pure["given_away"], pure["by_validation"], pure["by_chance"]) == (40, 50, 30)
    assert (other["given_away"], other["by_validation"], other["by_chance"]) == (0, 0, 1)


def test_the_page_tells_the_figures():
    shown = [fit for fit in fits(MADE) if fit.seed == 0]
    text = " ".join(weights_page(MADE, shown, "PICTURE", "some splits").split())
    assert "| A, pure | 1.000 | 0.900 | 0.800 | 0.800 | 1.000 | 1.000 |" in text
    assert "| pure | 1.46 |" in text
    assert "2e-09 at most" in text
    assert "PICTURE ## made, seed 0" in text
    assert "## Some splits" in text
    assert "all the weight in 50% of the splits, and the most of it is on A (1), B (1)." in text
    assert "higher AUC on validation in 100% of them, on test in 50%" in text
    assert "to 5 %, in 50% of the splits (100% at p = 100)" in text
    assert "by 83.3% in the median and by 167% at most" in text


def test_exponents_are_written_as_in_the_paper():
    assert [name_of_p(p) for p in ENDS] == ["1", "32/31", "8/7", "2", "100", "∞"]


# ------------------------------------------------------------------------------------ the whole


def test_the_picture_shows_every_weight_and_the_path(rows, monkeypatch, tmp_path):
    saved = []
    from matplotlib.figure import Figure

    monkeypatch.setattr(Figure, "savefig", lambda self, path, **_: saved.append(self))
    found = fits(rows)
    draw(found, tmp_path / "weights.png")
    panels = np.reshape(saved[0].axes, (2, 5))
    for fit, (*bars, whole) in zip(found, panels, strict=True):
        for p, ax in zip(PANELS, bars, strict=True):
            heights = [patch.get_height() for patch in ax.patches]
            np.testing.assert_allclose(heights, fit.weights[p])
            assert ax.get_title() == f"p = {name_of_p(p)}"
        lines = {line.get_label(): line for line in whole.get_lines()}
        for j, learner in enumerate(LEARNERS):
            x, y = lines[learner].get_data()
            np.testing.assert_allclose(x, [1 / p for p in sorted(fit.weights)])
            np.testing.assert_allclose(y, [fit.weights[p][j] for p in sorted(fit.weights)])
        assert whole.get_xlim() == (1, 0)  # p rises to the right


def test_run_stores_shows_and_measures_once(monkeypatch, tmp_path):
    X, y = rows_and_labels()
    data = Dataset("iris", X, y, ("a", "b"), "made up")
    monkeypatch.setattr(experiment, "load_dataset", lambda *_, **__: data)
    options = Options(tmp_path, quick=True, sets=("iris",))
    text = run(options)
    assert "## iris, seed 0\n" in text
    assert "## 2 random splits of one data set, a quick run with thin grids\n" in text
    assert "](weights.png)" in text
    assert (tmp_path / "weights.md").read_text() == text
    assert (tmp_path / "weights.png").read_bytes().startswith(b"\x89PNG")

    def again(parts):
        raise AssertionError("measured twice")

    monkeypatch.setattr(weights, "split_rows", again)
    monkeypatch.setattr(weights, "draw", lambda shown, path: None)  # once is enough
    assert run(options) == text
    assert run(Options(tmp_path, quick=True, show=True)) == text
    with pytest.raises(FileNotFoundError, match="no results of this protocol"):
        run(Options(tmp_path, show=True))
