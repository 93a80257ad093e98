from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lpfuse.optim import LpBall
from lpfuse.optim.newton import Model, linearise_rows
from lpfuse.optim.screening import subsample
from oracles import naive
from oracles.problems import GRID


def random_model(seed, m=12, R=3, p=2.0, nonnegative=False, quadratic=False, free=False):
    rng = np.random.default_rng(seed)
    columns = rng.normal(0.5, 1.0, (R + free, m))
    if free:
        columns[-1] = np.where(rng.random(m) < 0.4, -1.0, 1.0)
    root = rng.normal(size=(R + free, R + free))
    linear = rng.normal(size=R + free)
    if free:
        root[:, -1], linear[-1] = 0.0, 0.0
    return Model(
        columns=columns,
        costs=rng.uniform(0.1, 2.0, m),
        ball=LpBall(p, nonnegative),
        linear=linear,
        constant=float(rng.normal()),
        quadratic=root.T @ root if quadratic else None,
        free=int(free),
    )


models = st.builds(
    random_model,
    seed=st.integers(0, 999),
    m=st.integers(0, 12),
    R=st.integers(1, 4),
    p=st.sampled_from(GRID),
    nonnegative=st.booleans(),
    quadratic=st.booleans(),
    free=st.booleans(),
)


def objective(model, w):
    """k + gᵀw + ½wᵀQw + Σ c_i max(0, 1 − a_iᵀw), in loops."""
    n, m = model.columns.shape
    value = model.constant + sum(model.linear[j] * w[j] for j in range(n))
    if model.quadratic is not None:
        value += sum(w[i] * model.quadratic[i, j] * w[j] for i in range(n) for j in range(n)) / 2
    for i in range(m):
        value += model.costs[i] * max(0.0, 1 - sum(model.columns[j, i] * w[j] for j in range(n)))
    return value


def random_points(model, seed, count=3):
    rng = np.random.default_rng(seed)
    return [model.feasible(rng.normal(size=model.size)) for _ in range(count)]


@given(model=models, seed=st.integers(0, 99))
def test_the_objective_agrees_with_naive_loops(model, seed):
    for w in random_points(model, seed):
        assert model.primal(w) == pytest.approx(objective(model, w), rel=1e-12, abs=1e-12)


@given(model=models, seed=st.integers(0, 99))
def test_feasible_points_lie_in_the_ball_and_free_coordinates_stay(model, seed):
    w = 5.0 * np.random.default_rng(seed).normal(size=model.size)
    moved = model.feasible(w)
    assert naive.norm(moved[: model.n_weights], model.ball.p) <= 1 + 1e-15
    np.testing.assert_array_equal(moved[model.n_weights :], w[model.n_weights :])


@given(model=models, seed=st.integers(0, 99))
def test_every_dual_value_is_a_lower_bound(model, seed):
    rng = np.random.default_rng(seed)
    bound, alpha = model.dual(
        3 * rng.normal(size=model.size), rng.random(model.n_rows) * model.costs
    )
    assert (alpha >= 0).all()
    assert (alpha <= model.costs).all()
    for w in random_points(model, seed):
        assert bound <= objective(model, w) + 1e-10


@given(model=models, seed=st.integers(0, 99))
def test_the_slope_is_the_gradient_away_from_the_kinks(model, seed):
    w = random_points(model, seed, 1)[0]
    if model.n_rows and float(abs(model.residuals(w)).min()) < 1e-4:
        return
    alpha = np.where(model.residuals(w) > 0, model.costs, 0.0)
    steps = 1e-6 * np.eye(model.size)
    slope = [(objective(model, w + e) - objective(model, w - e)) / 2e-6 for e in steps]
    np.testing.assert_allclose(model.slope(w, alpha), slope, atol=1e-6)


@given(model=models, seed=st.integers(0, 99))
def test_linear_pieces_never_raise_the_objective(model, seed):
    side = np.random.default_rng(seed).integers(-1, 2, model.n_rows).astype(float)
    reduced, kept = linearise_rows(model, side)
    assert kept.tolist() == [i for i in range(model.n_rows) if side[i] == 0]
    assert reduced.n_rows == len(kept)
    for w in random_points(model, seed):
        assert objective(reduced, w) <= objective(model, w) + 1e-10


@given(model=models, seed=st.integers(0, 99))
def test_linear_pieces_on_their_own_side_change_nothing_there(model, seed):
    w = random_points(model, seed, 1)[0]
    r = model.residuals(w)
    reduced, _ = linearise_rows(model, np.sign(r) * (abs(r) > 0.3))
    assert objective(reduced, w) == pytest.approx(objective(model, w), rel=1e-12, abs=1e-12)


def test_a_dual_point_is_balanced_when_a_coordinate_is_free():
    model = random_model(0, free=True)
    _, alpha = model.dual(np.zeros(4), model.costs)
    assert abs(model.columns[-1] @ alpha) <= 1e-14 * model.costs.sum()


def test_an_imbalance_that_rows_cannot_mend_proves_nothing():
    """The free coordinate then has a slope, and the objective falls without end."""
    model = replace(random_model(0, m=2, free=True), linear=np.array([0.0, 0.0, 0.0, 50.0]))
    bound, _ = model.dual(np.zeros(4), model.costs)
    assert bound <= model.primal(np.array([0.0, 0.0, 0.0, -1e6]))


@given(m=st.integers(2, 40), seed=st.integers(0, 20))
def test_a_subsample_keeps_the_total_cost_on_average(m, seed):
    model = replace(random_model(seed, m=40), costs=np.ones(40))
    few = subsample(model, m)
    assert few.costs.sum() == pytest.approx(40.0)
    rows = {tuple(column) for column in model.columns.T}
    assert all(tuple(column) in rows for column in few.columns.T)
