import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lpfuse._arrays
from lpfuse.optim import LpBall, Problem
from lpfuse.optim._large_n.passes import Cut, Overflow, Reader, admit
from lpfuse.optim.problem import Fold
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
        patch.setattr(lpfuse._arrays.limits, "block", 1)
        patch.setattr(lpfuse._arrays.limits, "parallel", 0)
        yield


def partition_at(reader, v, width, most=10**9):
    return reader.partition([Cut(v, width, 1, most)], [reader.problem.ball])[0]


def verdict_at(reader, v, side, most=10**9):
    return reader.verify([v], [Fold(v, 0.0, side)], [most])[0]


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
def test_a_partition_folds_rows_by_their_side_of_the_kink(problem, seed, width):
    v = random_v(problem, seed)
    partition = partition_at(Reader(problem), v, width)
    sides = [0 if abs(r) <= width else int(np.sign(r)) for _, _, r in rows_of(problem, v)]
    held = [(a, c) for (a, c, r) in rows_of(problem, v) if r > width]
    assert partition.fold.side.tolist() == sides
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
def test_a_verifying_pass_finds_the_value_and_the_rows_that_changed_side(problem, seed):
    side = np.random.default_rng(seed).integers(-1, 2, problem.n).astype(np.int8)
    v = random_v(problem, seed)
    value, n_wrong, crossed = verdict_at(Reader(problem), v, side)
    wrong = [i for i, (_, _, r) in enumerate(rows_of(problem, v)) if r * side[i] < 0]
    assert value == pytest.approx(value_at(problem, v), rel=1e-12)
    assert crossed.positions.tolist() == wrong
    assert n_wrong == len(wrong)
    assert crossed.side.tolist() == side[wrong].tolist()
    rows = list(rows_of(problem, v))
    np.testing.assert_array_equal(crossed.costs, [rows[i][1] for i in wrong])
    expected = np.array([rows[i][0] for i in wrong]).reshape(-1, problem.size)
    np.testing.assert_array_equal(crossed.a, expected)


@settings(max_examples=50)
@given(problem=problems, seed=st.integers(0, 99))
def test_admitted_rows_count_as_if_they_had_never_been_folded(problem, seed):
    reader = Reader(problem)
    there, here = random_v(problem, seed), random_v(problem, seed + 1)
    partition = partition_at(reader, there, 0.1)
    crossed = verdict_at(reader, here, partition.fold.side).rows
    grown = admit(partition, crossed)
    assert grown.model.primal(here) == pytest.approx(value_at(problem, here), rel=1e-10, abs=1e-10)
    side, before = grown.fold.side, partition.fold.side
    assert (side[crossed.positions] == 0).all()
    assert sorted(grown.positions.tolist()) == np.flatnonzero(side == 0).tolist()
    np.testing.assert_array_equal(
        np.delete(side, crossed.positions), np.delete(before, crossed.positions)
    )


def test_rows_that_cost_nothing_are_never_kept():
    problem = Problem(np.ones((5, 1)), costs=[1.0, 0.0, 2.0, 0.0, 0.0])
    reader = Reader(problem)
    assert reader.whole()[1].tolist() == [0, 2]
    assert partition_at(reader, np.array([1.0]), 0.5).positions.tolist() == [0, 2]
    held_at_zero = -np.ones(5, dtype=np.int8)
    assert verdict_at(reader, np.array([0.5]), held_at_zero).rows.positions.tolist() == [0, 2]
    assert reader.violations(np.array([0.5]), 9).rows.positions.tolist() == [0, 2]
    sides = partition_at(reader, np.array([0.0]), 0.5).fold.side  # short of the margin, all of them
    assert sides.tolist() == [1, -1, 1, -1, -1]


@settings(max_examples=50)
@given(problem=problems, seed=st.integers(0, 99), most=st.sampled_from([1, 3, 40]))
def test_the_worst_violations_come_back_and_all_are_counted(problem, seed, most):
    v = random_v(problem, seed)
    value, n_wrong, worst = Reader(problem).violations(v, most)
    wrong = [(-r, i) for i, (_, c, r) in enumerate(rows_of(problem, v)) if r > 0 and c > 0]
    assert value == pytest.approx(value_at(problem, v), rel=1e-12)
    assert n_wrong == len(wrong)
    np.testing.assert_allclose(worst.a @ v, [1.0 + m for m, _ in sorted(wrong)[:most]], atol=1e-12)


@settings(max_examples=50)
@given(problem=problems, seed=st.integers(0, 99))
def test_sides_that_are_not_remembered_are_worked_out_again(problem, seed):
    there, here = random_v(problem, seed), random_v(problem, seed + 1)
    reader = Reader(problem)
    fold = partition_at(reader, there, 0.3).fold
    remembered, anew = (
        reader.verify([here], [kept], [10**9])[0] for kept in (fold, fold._replace(side=None))
    )
    assert remembered.value == anew.value
    for one, other in zip(remembered.rows, anew.rows, strict=True):
        np.testing.assert_array_equal(one, other)


def test_more_rows_than_wanted_are_counted_but_stay_where_they_are():
    problem = random_problem(n=700, anomalies=0.3)
    reader, v = Reader(problem), np.zeros(5)
    near = partition_at(reader, v, 2.0)
    assert near.positions.size == 700
    assert partition_at(reader, v, 2.0, most=700).positions.size == 700
    assert partition_at(reader, v, 2.0, most=699) == Overflow(700)
    side = np.ones(700, dtype=np.int8)
    all_wrong = verdict_at(reader, 9.0 * random_v(problem, 0), side)
    none_back = verdict_at(reader, 9.0 * random_v(problem, 0), side, most=all_wrong.n_wrong - 1)
    assert none_back.rows is None
    assert none_back[:2] == all_wrong[:2]


@settings(max_examples=30)
@given(problem=problems, seed=st.integers(0, 99))
def test_the_whole_problem_as_a_model_has_its_value(problem, seed):
    model, index = Reader(problem).whole()
    v = random_v(problem, seed)
    assert model.primal(v) == pytest.approx(value_at(problem, v), rel=1e-11, abs=1e-12)
    assert index.tolist() == list(range(problem.n))


@pytest.mark.parametrize("costs", [None, "one", "growing"])
def test_a_sample_is_drawn_evenly_over_the_costs_of_sorted_rows(costs):
    n, m = 10_000, 500
    S = np.c_[np.ones(n), np.arange(n) / n]  # the second column tells which rows were drawn
    c = {None: None, "one": np.ones(n), "growing": np.arange(n) / n}[costs]
    sample = Reader(Problem(S, costs=c)).sample(m)
    assert sample.n_rows == m
    expected = 2 / 3 if costs == "growing" else 1 / 2
    assert sample.columns[1].mean() == pytest.approx(expected, abs=2.0 / m)


def test_one_pass_serves_several_guesses_each_as_if_alone():
    problem = random_problem(n=700, costs=True, fit_intercept=True)
    reader = Reader(problem)
    cuts = [Cut(random_v(problem, seed), 0.2 * (1 + seed), 1, 10**9) for seed in range(3)]
    balls = [LpBall(p) for p in (1.0, 2.0, np.inf)]
    together = reader.partition(cuts, balls)
    assert reader.passes == 1.0
    folds = [each.fold for each in together]
    verdicts = reader.verify([cut.w for cut in reversed(cuts)], folds, [10**9] * 3)
    assert reader.passes == 2.0
    for k, cut in enumerate(cuts):
        alone = partition_at(reader, cut.w, cut.band)
        assert together[k].model.ball is balls[k]
        np.testing.assert_array_equal(together[k].fold.side, alone.fold.side)
        np.testing.assert_array_equal(together[k].model.linear, alone.model.linear)
        value, _, crossed = verdict_at(reader, cuts[-1 - k].w, alone.fold.side)
        assert verdicts[k][0] == value
        np.testing.assert_array_equal(verdicts[k].rows.positions, crossed.positions)


def test_passes_are_counted():
    reader = Reader(random_problem(n=100))
    reader.whole()
    partition = partition_at(reader, np.zeros(5), 0.1)
    verdict_at(reader, np.zeros(5), partition.fold.side)
    reader.sample(25)
    assert reader.passes == pytest.approx(3.25)


@settings(max_examples=30)
@given(problem=problems, seed=st.integers(0, 99), stride=st.sampled_from([2, 3, 9]))
def test_a_thinned_partition_stands_for_the_whole_one(problem, seed, stride):
    v = random_v(problem, seed)
    reader = Reader(problem)
    whole = partition_at(reader, v, 0.5)
    [thin] = reader.partition([Cut(v, 0.5, stride, 10**9)], [problem.ball])
    assert thin.n_near == whole.n_near == len(whole.positions)
    assert set(thin.positions) <= set(whole.positions)
    assert len(thin.positions) >= len(whole.positions) / stride
    assert thin.fold.side is None
    np.testing.assert_array_equal(thin.model.linear, whole.model.linear)
    if problem.costs is None:
        assert thin.model.costs.sum() == pytest.approx(whole.n_near)
