"""Every rival solves a tiny problem to its tolerance, pure and with anomalies, weighted or not."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest

from research.common.judge import FusionProblem, Judge
from research.rivals import solvers as rivals
from research.speed.solver.problems import parse_p, synthetic_scores

pytestmark = pytest.mark.slow  # asks every rival that is installed

LABELS = ("1", "8/7", "2", "10", "inf")
ONLY = {
    "highs": ("1", "inf"), "liblinear": ("2",), "rehline": ("2",), "skglm": ("2",),
    "piqp": ("1", "2", "inf"),
}  # fmt: skip
SOLVED = [(name, label) for name in rivals.names() for label in ONLY.get(name, LABELS)]

# The gap a rival must reach with the tightest tolerance of its ladder on an easy problem.
REACHED = {"algorithm1": 3e-2, "liblinear": 1e-6}


def load(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on import, other people's deprecations
        try:
            return rivals.load(name)
        except ImportError as error:
            pytest.skip(f"{name} needs a package of the extra 'bench': {error}")


def reference(problem):
    ours = load(rivals.OURS)
    return Judge.from_certificate(problem, ours.solve(problem, 1e-10, 60.0).alpha)


@pytest.mark.parametrize(("setting", "weighted"), [(0.0, False), (0.25, False), (0.25, True)])
@pytest.mark.parametrize(("name", "label"), SOLVED)
def test_rival_reaches_its_gap(name, label, setting, weighted):
    rival = load(name)
    scores, labels = synthetic_scores(80, 3, setting, seed=5)
    costs = np.random.default_rng(0).uniform(0.5, 2.0, 80) if weighted else None
    problem = FusionProblem(scores, labels, parse_p(label), costs)
    if not rival.supports(problem):
        assert weighted, "only sample costs may stand in the way here"
        pytest.skip(f"{name} has no costs of samples")
    judge = reference(problem)
    gaps = []
    for tolerance in rival.tolerances(1e-8):
        answer = rival.solve(problem, tolerance, time_limit=30.0)
        gaps.append(judge.judge(answer.weights, answer.alpha).relative_gap)
        assert answer.alpha is None or answer.alpha.shape == (80,)
    assert min(gaps) <= REACHED.get(name, 1e-8)


def test_names_put_ours_first_and_leave_helpers_out():
    names = rivals.names()
    assert names[0] == rivals.OURS
    assert not [name for name in names if name.startswith("_")]


@pytest.mark.parametrize("name", rivals.names())
def test_rival_says_what_it_supports(name):
    scores, labels = synthetic_scores(10, 2, 0.0, seed=0)
    found = [q for q in LABELS if load(name).supports(FusionProblem(scores, labels, parse_p(q)))]
    assert found == list(ONLY.get(name, LABELS))


PROVEN = [
    *((name, 1.0) for name in (rivals.OURS, "cvxpy_clarabel", "cvxpy_clarabel_dual", "highs")),
    *(("piqp", p) for p in (1.0, 2.0, np.inf)),
    *(("qoco", p) for p in (1.0, 8 / 7, 2.0, np.inf)),
    *((name, 2.0) for name in ("rehline", "skglm")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "p"), PROVEN)
def test_alpha_of_a_rival_proves_its_answer(name, p):
    rival = load(name)
    scores, labels = synthetic_scores(60, 3, 0.2, seed=2)
    problem = FusionProblem(scores, labels, p)
    answer = rival.solve(problem, 1e-8, time_limit=30.0)
    own = reference(problem).judge(answer.weights, answer.alpha).own_gap
    assert own <= 1e-6


def test_the_rival_in_the_readme_works():
    readme = Path(__file__).parents[2] / "README.md"
    code = re.search(r"```python\n(.*?)```", readme.read_text(), re.DOTALL).group(1)
    rival = {}
    exec(code, rival)
    scores, labels = synthetic_scores(20, 3, 0.0, seed=0)
    problem = FusionProblem(scores, labels, 2.0)
    assert rival["supports"](problem)
    assert list(rival["tolerances"](1e-8))
    weights = rival["solve"](problem, 1e-8, 1.0).weights
    assert Judge(problem, 0.0).judge(weights).norm == pytest.approx(1.0)
