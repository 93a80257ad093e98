"""For p = 2 the weights are those of a support vector machine without bias."""

import numpy as np
import pytest
from sklearn.svm import SVC

from lpfuse.optim import solve
from research.common.protocol import Protocol
from research.common.splits import split
from research.paper import svm
from research.paper.weights import paper_problem


@pytest.fixture(scope="module")
def parts():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(70, 2)), rng.normal(1.5, 1.0, size=(30, 2))])
    thin = Protocol(widths=(1.0, 10.0), component_step=20, rhos=(5.0,), ps=(8 / 7, 2.0))
    return split(X, np.repeat([1, -1], [70, 30]), thin, seed=0)


def test_the_direction_is_that_of_the_machine_without_bias(parts):
    found = {row["metric"]: row["value"] for row in svm.split_rows(parts)}
    assert found["deviation"] < 1e-4
    assert -1 <= found["cosine"] <= 1


def test_the_cosine_is_to_a_conventional_machine(parts):
    problem, _ = paper_problem(parts.training("non-pure"))
    S, y, _, _ = problem.block(slice(None))
    theirs = SVC(kernel="linear").fit(S, y).coef_[0]
    ours = solve(problem.with_ball(2.0)).weights
    cosine = ours @ theirs / np.linalg.norm(ours) / np.linalg.norm(theirs)
    found = {row["metric"]: row["value"] for row in svm.split_rows(parts)}
    assert found["cosine"] == pytest.approx(cosine)


def test_another_penalty_points_elsewhere(parts, monkeypatch):
    """Were C not that of the multiplier, the deviation would show it."""
    real = svm.LinearSVC
    monkeypatch.setattr(svm, "LinearSVC", lambda C, **options: real(C=100 * C, **options))
    found = {row["metric"]: row["value"] for row in svm.split_rows(parts)}
    assert found["deviation"] > 1e-3


def test_figures_summarise_the_rows():
    rows = [{"metric": "cosine", "value": value} for value in (0.0, 0.5, 1.0)]
    rows += [{"metric": "deviation", "value": value} for value in (1e-6, 3e-6)]
    found = svm.figures(rows)
    assert (found["splits"], found["active"], found["worst"]) == (3, 2, 3e-6)
    assert found["median"] == pytest.approx(2e-6)
    assert found["cosine"] == [0.25, 0.5, 0.75]
