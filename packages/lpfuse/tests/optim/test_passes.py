import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lpfuse._arrays
from lpfuse.optim import LpBall, Problem
from lpfuse.optim.certificate import Certifier
from lpfuse.optim.distributed import watch_crossings, watch_violations
from lpfuse.optim.newton import Model
from lpfuse.optim.passes import PartitionPlan, ScorePasses, TooManyRows, add_rows, rows_outside
from lpfuse.optim.results import Candidate
from oracles import naive
from oracles.problems import random_problem

problems = st.builds(
    random_problem,
    seed=st.integers(0, 999),
    n=st.sampled_from([1, 7, 40, 700]),
    R=st.integers(1, 4),
    anomalies=st.sampled_from([0.0, 0.3]),
    costs=st.booleans(),
    fit_intercept=st.booleans(),
)


@pytest.fixture(autouse=True, scope="module")
def several_blocks():
    """256 rows a block, spread over threads, so that positions have to be put together again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lpfuse._arrays.operations.limits, "block", 1)
        patch.setattr(lpfuse._arrays.operations.limits, "parallel", 0)
        yield


def partition_at(problem, v, width, most=10**9):
    return ScorePasses(problem).partition([PartitionPlan(v, width, 1, most)], [problem.ball])[0]


def in_a_ball_of_any_size(problem):
    """The problem with a ball that holds every point, so that any may be examined."""
    problem.ball = AnyPoint(2.0)
    return problem


class AnyPoint(LpBall):
    def norm(self, w):
        return 0.0


def crossed_at(problem, v, alpha, most=10**9):
    """The value of v, and the rows on the wrong linear piece of α there."""
    problem = in_a_ball_of_any_size(problem)
    certifier = Certifier(problem, [problem.ball], 1e-8)
    watch = {0: watch_crossings(problem.terms, most)}
    bounds = certifier.examine({0: Candidate(v, alpha)}, watch)[0]
    return bounds.primal, bounds.watched


def violations_at(problem, v, most):
    problem = in_a_ball_of_any_size(problem)
    certifier = Certifier(problem, [problem.ball], 1e-8)
    watch = {0: watch_violations(problem.terms, v, most)}
    bounds = certifier.examine({0: Candidate(v)}, watch)[0]
    return bounds.primal, *bounds.watched


def random_v(problem, seed):
    return np.random.default_rng(seed).normal(0.0, 0.5, problem.size)


def rows_of(problem, v):
    """(a_i, c_i, r_i) of every row, in loops."""
    for i in range(problem.n):
        y = 1.0 if problem.y is None else problem.y[i]
        a = [y * s for s in problem.S[i]] + ([y] if problem.fit_intercept else [])
        c = 1.0 if problem.costs is None else problem.costs[i]
        yield a, c, 1.0 - sum(x * z for x, z in zip(a, v, strict=True))


def value_at(problem, v):
    return naive.value(problem, v[: problem.R], sum(v[problem.R :]))


@settings(max_examples=50)
@given(problem=problems, seed=st.integers(0, 99), width=st.sampled_from([0.0, 0.3, 2.0, 1e9]))
def test_a_partition_replaces_hinges_by_linear_pieces(problem, seed, width):
    v = random_v(problem, seed)
    partition = partition_at(problem, v, width)
    sides = [0 if abs(r) <= width else int(np.sign(r)) for _, _, r in rows_of(problem, v)]
    held = [(a, c) for (a, c, r) in rows_of(problem, v) if r > width]
    assert partition.pieces.side.tolist() == sides
    assert partition.positions.tolist() == [i for i, side in enumerate(sides) if side == 0]
    assert partition.value == pytest.approx(value_at(problem, v), rel=1e-12)
    assert partition.model.constant == pytest.approx(sum(c for _, c in held))
    linear = [-sum(c * a[j] for a, c in held) for j in range(problem.size)]
    np.testing.assert_allclose(partition.model.linear, linear, rtol=1e-11, atol=1e-10)
    kept = [(a, c) for (a, c, r) in rows_of(problem, v) if abs(r) <= width]
    np.testing.assert_array_equal(partition.model.costs, [c for _, c in kept])
    expected = np.array([a for a, _ in kept]).reshape(-1, problem.size).T
    np.testing.assert_array_equal(partition.model.columns, expected)


@settings(max_examples=50)
@given(problem=problems, seed=st.integers(0, 99))
def test_an_examination_finds_rows_on_the_wrong_piece(problem, seed):
    alpha = np.random.default_rng(seed).choice([0.0, 0.5, 1.0], problem.n)
    v = random_v(problem, seed)
    value, crossed = crossed_at(problem, v, alpha)
    rows = list(rows_of(problem, v))
    wrong = [
        i for i, (_, _, r) in enumerate(rows) if (alpha[i] == 1 and r < 0) or (alpha[i] == 0 < r)
    ]
    assert value == pytest.approx(value_at(problem, v), rel=1e-12)
    assert crossed.positions.tolist() == wrong
    assert crossed.slopes.tolist() == alpha[wrong].tolist()
    np.testing.assert_array_equal(crossed.costs, [rows[i][1] for i in wrong])
    expected = np.array([rows[i][0] for i in wrong]).reshape(-1, problem.size)
    np.testing.assert_array_equal(crossed.a, expected)


@settings(max_examples=50)
@given(problem=problems, seed=st.integers(0, 99))
def test_admitted_rows_count_with_their_hinge_again(problem, seed):
    there, here = random_v(problem, seed), random_v(problem, seed + 1)
    partition = partition_at(problem, there, 0.1)
    before = partition.pieces.side
    alpha = problem.multipliers(
        partition.pieces, partition.positions, np.full(len(partition.positions), 0.5)
    )
    crossed = rows_outside(partition, crossed_at(problem, here, alpha)[1])
    grown = add_rows(partition, crossed)
    assert grown.model.primal(here) == pytest.approx(value_at(problem, here), rel=1e-10, abs=1e-10)
    side = grown.pieces.side
    assert (side[crossed.positions] == 0).all()
    assert sorted(grown.positions.tolist()) == np.flatnonzero(side == 0).tolist()
    np.testing.assert_array_equal(
        np.delete(side, crossed.positions), np.delete(before, crossed.positions)
    )


def test_rows_of_the_model_are_no_news():
    problem = random_problem(n=40)
    partition = partition_at(problem, np.zeros(5), 9.0)
    everything = crossed_at(problem, random_v(problem, 0), np.zeros(40))[1]
    assert len(everything.costs) > 0
    assert len(rows_outside(partition, everything).costs) == 0


def test_rows_that_cost_nothing_are_never_kept():
    problem = Problem(np.ones((5, 1)), costs=[1.0, 0.0, 2.0, 0.0, 0.0])
    assert problem.everything()[1].tolist() == [0, 2]
    assert partition_at(problem, np.array([1.0]), 0.5).positions.tolist() == [0, 2]
    assert crossed_at(problem, np.array([0.5]), np.zeros(5))[1].positions.tolist() == [0, 2]
    assert violations_at(problem, np.array([0.5]), 9)[1] == 2
    short = partition_at(problem, np.array([0.0]), 0.5)  # of the margin, all of them
    assert short.pieces.side.tolist() == [1, -1, 1, -1, -1]


@settings(max_examples=50)
@given(problem=problems, seed=st.integers(0, 99), most=st.sampled_from([1, 3, 40]))
def test_the_worst_violations_come_back_and_all_are_counted(problem, seed, most):
    v = random_v(problem, seed)
    value, count, worst = violations_at(problem, v, most)
    wrong = [(-r, i) for i, (_, c, r) in enumerate(rows_of(problem, v)) if r > 0 and c > 0]
    assert value == pytest.approx(value_at(problem, v), rel=1e-12)
    assert count == len(wrong)
    np.testing.assert_allclose(worst @ v, [1.0 + m for m, _ in sorted(wrong)[:most]], atol=1e-12)


def test_rows_beyond_the_wanted_number_are_only_counted():
    problem = random_problem(n=700, anomalies=0.3)
    v = np.zeros(5)
    assert partition_at(problem, v, 2.0).positions.size == 700
    assert partition_at(problem, v, 2.0, most=700).positions.size == 700
    assert partition_at(problem, v, 2.0, most=699) == TooManyRows(700)
    far = 9.0 * random_v(problem, 0)
    value, crossed = crossed_at(problem, far, np.ones(700))
    n_wrong = len(crossed.costs)
    assert crossed_at(problem, far, np.ones(700), most=n_wrong)[1] is not None
    assert crossed_at(problem, far, np.ones(700), most=n_wrong - 1) == (value, None)


@settings(max_examples=30)
@given(problem=problems, seed=st.integers(0, 99))
def test_the_whole_problem_as_a_model_has_its_value(problem, seed):
    block, index = problem.everything()
    model = Model.of_rows(problem, block, problem.ball)
    v = random_v(problem, seed)
    assert model.primal(v) == pytest.approx(value_at(problem, v), rel=1e-11, abs=1e-12)
    assert index.tolist() == list(range(problem.n))


@pytest.mark.parametrize("costs", [None, "one", "growing"])
def test_a_sample_is_drawn_evenly_over_the_costs(costs):
    n, m = 10_000, 500
    S = np.c_[np.ones(n), np.arange(n) / n]  # the second column tells which rows were drawn
    c = {None: None, "one": np.ones(n), "growing": np.arange(n) / n}[costs]
    problem = Problem(S, costs=c)
    sample = Model.of_rows(problem, problem.draw(m), problem.ball)
    assert sample.n_rows == m
    expected = 2 / 3 if costs == "growing" else 1 / 2
    assert sample.columns[1].mean() == pytest.approx(expected, abs=2.0 / m)


def test_one_pass_serves_several_plans_each_as_if_alone():
    problem = random_problem(n=700, costs=True, fit_intercept=True)
    plans = [PartitionPlan(random_v(problem, k), 0.2 * (1 + k), 1, 10**9) for k in range(3)]
    balls = [LpBall(p) for p in (1.0, 2.0, np.inf)]
    together = ScorePasses(problem).partition(plans, balls)
    assert problem.passes == 1.0
    for k, plan in enumerate(plans):
        alone = partition_at(problem, plan.w, plan.band)
        assert together[k].model.ball is balls[k]
        np.testing.assert_array_equal(together[k].pieces.side, alone.pieces.side)
        np.testing.assert_array_equal(together[k].model.linear, alone.model.linear)


def test_passes_are_counted():
    problem = random_problem(n=100)
    problem.everything()
    partition_at(problem, np.zeros(5), 0.1)
    crossed_at(problem, np.zeros(5), np.zeros(100))
    problem.draw(25)
    assert problem.passes == pytest.approx(3.25)


@settings(max_examples=30)
@given(problem=problems, seed=st.integers(0, 99), stride=st.sampled_from([2, 3, 9]))
def test_a_thinned_partition_stands_for_the_whole_one(problem, seed, stride):
    v = random_v(problem, seed)
    whole = partition_at(problem, v, 0.5)
    plan = PartitionPlan(v, 0.5, stride, 10**9)
    [thin] = ScorePasses(problem).partition([plan], [problem.ball])
    assert thin.n_near == whole.n_near == len(whole.positions)
    assert set(thin.positions) <= set(whole.positions)
    assert len(thin.positions) >= len(whole.positions) / stride
    assert thin.pieces.side is None
    np.testing.assert_array_equal(thin.model.linear, whole.model.linear)
    if problem.costs is None:
        assert thin.model.costs.sum() == pytest.approx(whole.n_near)
