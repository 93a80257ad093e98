"""The search for the penalty that stands for the ball, on paths that are known in closed form."""

import math

import numpy as np
import pytest

from research.common.judge import FusionProblem
from research.rivals.solvers._penalised import ON_THE_SPHERE, first_guess, solve_penalised

PROBLEM = FusionProblem(np.array([[0.3, 0.1], [0.2, 0.4]]), np.ones(2), 2.0)
DIRECTION = np.array([0.6, 0.8])


class Path:
    """‖w(C)‖ = C / (C + half): it reaches `ceiling` times that."""

    def __init__(self, half, ceiling):
        self.half, self.ceiling, self.asked = half, ceiling, []

    def __call__(self, C):
        self.asked.append(C)
        return self.ceiling * C / (C + self.half) * DIRECTION, np.full(2, C)


@pytest.mark.parametrize("half", [0.01, 1.0, 300.0])
def test_the_search_ends_on_the_sphere(half):
    path = Path(half, ceiling=2.0)  # norm one at C = half
    found = solve_penalised(PROBLEM, path, 1e-12, 10.0, warm=False)
    assert found.weights == pytest.approx(DIRECTION, abs=ON_THE_SPHERE)
    assert found.alpha == pytest.approx(np.full(2, half))
    assert found.facts["solves"] == len(path.asked) == len(set(path.asked)) < 25
    assert found.solver_seconds is not None


def test_a_ball_that_is_not_active_gives_the_largest_penalty():
    path = Path(1.0, ceiling=0.5)
    found = solve_penalised(PROBLEM, path, 1e-12, 10.0, warm=True)
    assert found.alpha == pytest.approx(np.full(2, max(path.asked)))
    assert math.log(max(path.asked)) > first_guess(PROBLEM) + 10
    assert found.solver_seconds is None


def test_weights_that_no_longer_move_end_the_search():
    def settled(C):
        return 0.5 * DIRECTION, None

    assert solve_penalised(PROBLEM, settled, 1e-12, 10.0, warm=False).facts["solves"] == 2


def test_without_time_the_weights_so_far_are_kept():
    found = solve_penalised(PROBLEM, Path(1.0, 2.0), 1e-12, -1.0, warm=False)
    assert found.weights == pytest.approx(np.zeros(2))
    assert found.facts["solves"] == 0


def test_the_first_guess_is_exact_below_every_margin():
    C = math.exp(first_guess(PROBLEM))
    assert np.linalg.norm(C * PROBLEM.scores.sum(axis=0)) == pytest.approx(1.0)
