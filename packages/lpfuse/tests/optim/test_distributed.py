"""A problem over Dask blocks against the same problem in memory."""

from functools import partial

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.pairwise import each_value, pairwise
from lpfuse import LpFusion
from lpfuse._validation.dask_blocks import check_score_blocks
from lpfuse.optim import Problem, solve, solve_path
from lpfuse.optim.distributed import BlockedProblem, Costs, stratified_sample
from lpfuse.optim.passes import PartitionPlan, ScorePasses
from oracles.problems import (
    BOTH,
    GRID,
    LOSSES,
    LOW_THRESHOLDS,
    PURE_OR_LABELLED,
    VARIANTS,
    assert_certified,
    random_problem,
)

every_variant = pytest.mark.parametrize("variant", VARIANTS)
both_kinds = pytest.mark.parametrize("anomalies", PURE_OR_LABELLED, ids=["pure", "labelled"])


@pytest.fixture(autouse=True, scope="module")
def in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


# Of some hundred rows a part is drawn, and the search must make up for the rest.
SMALL_SAMPLE = {"sample_rows": 300}
LOW = {"tuning": LOW_THRESHOLDS}


def chunks_of(n):
    """Blocks of uneven sizes, the first and another one empty."""
    sizes = [0, n // 3, 1, 0, n // 2]
    return (*sizes, n - sum(sizes))


def blocked(problem, chunks=None, costs=None, sample_rows=40_000):
    """The problem over blocks."""
    chunks = chunks or chunks_of(problem.n)
    rows = da.from_array(problem.S, chunks=(chunks, -1))
    y, c = (
        None if vector is None else da.from_array(vector, chunks=(chunks,))
        for vector in (problem.y, problem.costs)
    )
    return BlockedProblem(
        check_score_blocks(rows, y, c, partial(stratified_sample, n_rows=sample_rows)),
        costs or Costs(),
        p=problem.ball.p,
        loss=problem.loss.name,
        nonnegative=problem.ball.nonnegative,
        fit_intercept=problem.fit_intercept,
    )


def in_memory(solution):
    """The solution with α at hand."""
    if solution.certificate.alpha is not None:
        alpha = solution.certificate.alpha.compute()
        object.__setattr__(solution.certificate, "alpha", alpha)
    return solution


# ---------------------------------------------------------------------------- the problem


@each_value(variant=VARIANTS, anomalies=PURE_OR_LABELLED)
def test_it_has_the_numbers_of_the_rows_in_memory(variant, anomalies):
    problem = random_problem(n=50, anomalies=anomalies, **VARIANTS[variant])
    ours = blocked(problem)
    w, alpha = problem.ball.uniform(problem.R), np.random.default_rng(0).uniform(size=problem.n)
    assert (ours.n, ours.R, ours.size) == (problem.n, problem.R, problem.size)
    assert ours.total_cost == pytest.approx(problem.total_cost, rel=1e-14)
    assert ours.scale == pytest.approx(problem.scale, rel=1e-14)
    assert ours.value(w, 0.3) == pytest.approx(problem.value(w, 0.3), rel=1e-13)
    lazy = da.from_array(alpha, chunks=(chunks_of(problem.n),))
    for point in (alpha, lazy):
        assert ours.dual_value(point) == pytest.approx(problem.dual_value(alpha), rel=1e-12)


@every_variant
def test_dual_points_are_lazy_and_the_same(variant):
    problem = random_problem(n=50, loss="least_squares", **VARIANTS[variant])
    w = problem.ball.uniform(problem.R)
    found = blocked(problem).dual_point(w)
    assert isinstance(found, da.Array)
    np.testing.assert_allclose(found.compute(), problem.dual_point(w), rtol=1e-12, atol=1e-12)
    assert blocked(problem).dual_value(found) == pytest.approx(
        problem.dual_value(problem.dual_point(w)), rel=1e-12
    )


@pytest.mark.parametrize("weighted", [False, True])
@both_kinds
def test_everything_is_every_row_with_a_cost_and_its_position(weighted, anomalies):
    problem = random_problem(n=40, anomalies=anomalies, costs=weighted)
    if weighted:
        problem.costs[[3, 20, 39]] = 0.0
    ours, where = blocked(problem).everything()
    theirs, positions = problem.everything()
    np.testing.assert_array_equal(where, positions)
    np.testing.assert_array_equal(ours.S, theirs.S)
    np.testing.assert_array_equal(ours.c + 0.0 * where, theirs.c + 0.0 * positions)
    np.testing.assert_array_equal(ours.y + 0.0 * where, theirs.y + 0.0 * positions)


def test_factors_of_the_classes_multiply_the_costs():
    problem = random_problem(n=50, costs=True)
    factors = np.where(problem.y > 0, 0.4, 3.0)
    heavier = Problem(problem.S, problem.y, costs=problem.costs * factors)
    ours = blocked(problem, costs=Costs(0.4, 3.0))
    w = problem.ball.uniform(problem.R)
    assert ours.total_cost == pytest.approx(heavier.total_cost, rel=1e-14)
    assert ours.value(w) == pytest.approx(heavier.value(w), rel=1e-13)
    np.testing.assert_allclose(ours.everything()[0].c, heavier.costs, rtol=1e-14)
    assert_certified(heavier, in_memory(solve(ours)))


@pytest.mark.parametrize("width", [0.0, 0.3, 1e9])
def test_a_partition_keeps_the_same_rows(width):
    problem = random_problem(n=300, costs=True, fit_intercept=True)
    v = np.r_[problem.ball.uniform(problem.R), 0.1]
    ours, theirs = (
        ScorePasses(q).partition([PartitionPlan(v, width, 1, 300)], [q.ball])[0]
        for q in (blocked(problem), problem)
    )
    np.testing.assert_array_equal(ours.positions, theirs.positions)
    np.testing.assert_allclose(ours.model.columns, theirs.model.columns, rtol=1e-14)
    np.testing.assert_allclose(ours.model.linear, theirs.model.linear, rtol=1e-11, atol=1e-12)
    assert ours.value == pytest.approx(theirs.value, rel=1e-13)
    assert ours.pieces.side is None  # nothing with one entry a row is kept


# ------------------------------------------------------------------------------ the sample


def drawn_from(problem, chunks, **options):
    return blocked(problem, chunks, **options).checked.also


def test_where_all_rows_fit_the_sample_is_all_of_them():
    problem = random_problem(n=200)
    drawn = drawn_from(problem, chunks_of(200))
    np.testing.assert_array_equal(
        drawn.S[np.lexsort(drawn.S.T)], problem.S[np.lexsort(problem.S.T)]
    )
    np.testing.assert_array_equal(drawn.weight, 1.0)


def test_the_sample_stands_for_the_weight_of_all_rows():
    problem = random_problem(n=5000, costs=True, anomalies=0.1)
    drawn = drawn_from(problem, chunks_of(5000), sample_rows=60)
    assert len(drawn.S) <= 2 * (60 + 6)
    for side in (1.0, -1.0):
        assert drawn.weight[drawn.y == side].sum() == pytest.approx(
            problem.costs[problem.y == side].sum(), rel=1e-12
        )


def test_rows_without_weight_are_not_drawn():
    problem = random_problem(n=200, costs=True)
    problem.costs[::2] = 0.0
    drawn = drawn_from(problem, chunks_of(200))
    assert not np.isin(drawn.S[:, 0], problem.S[::2, 0]).any()


def test_drawing_is_no_further_pass():
    problem = blocked(random_problem(n=100))
    assert problem.validation_passes == 1.0
    before = problem.passes
    assert problem.draw(50).S.shape == (50, problem.R)
    assert problem.passes == before


# --------------------------------------------------------------------------------- solving


@each_value(
    variant=VARIANTS, p=(1.0, 4 / 3, np.inf), anomalies=PURE_OR_LABELLED, loss=(*LOSSES, "hinge")
)
def test_few_rows_are_solved_and_proven(variant, anomalies, loss, p):
    problem = random_problem(n=80, anomalies=anomalies, loss=loss, p=p, **VARIANTS[variant])
    solution = solve(blocked(problem))
    assert solution.certificate.passes <= 6
    assert_certified(problem, in_memory(solution))


@each_value(variant=VARIANTS, p=(1.0, 4 / 3, np.inf), anomalies=PURE_OR_LABELLED)
def test_many_rows_are_solved_and_proven(variant, anomalies, p):
    problem = random_problem(n=1500, R=4, anomalies=anomalies, p=p, **VARIANTS[variant])
    assert_certified(problem, in_memory(solve(blocked(problem, **SMALL_SAMPLE), **LOW)))


@pytest.mark.parametrize("seed", range(5))
def test_many_rows_take_few_passes(seed):
    problem = random_problem(seed, n=6000, R=4, p=4 / 3)
    assert solve(blocked(problem, **SMALL_SAMPLE), **LOW).certificate.passes <= 6


@every_variant
def test_a_path_over_many_rows_is_proven(variant):
    problem = random_problem(n=1500, R=4, **VARIANTS[variant])
    solutions = solve_path(blocked(problem, **SMALL_SAMPLE), GRID, **LOW)
    for p, solution in zip(GRID, solutions, strict=True):
        assert_certified(problem.with_ball(p), in_memory(solution))


@pairwise(p=(1.0, 2.0, np.inf), fit_intercept=BOTH, n=(60, 1500))
def test_ties_are_broken_as_in_memory(p, fit_intercept, n):
    problem = random_problem(n=n, p=p, fit_intercept=fit_intercept)
    problem.S = problem.S + 4.0 * problem.y[:, None] * np.array([1.0, 0.2, 1.0, 0.5, 1.0])
    ours, theirs = solve(blocked(problem, **SMALL_SAMPLE), **LOW), solve(problem, **LOW)
    assert theirs.certificate.primal == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(ours.weights, theirs.weights, rtol=0, atol=1e-6)
    assert_certified(problem, in_memory(ours))


def test_rows_sorted_by_class_take_few_passes_too():
    problem = random_problem(n=3000, R=4)
    order = np.argsort(problem.y, kind="stable")
    ordered = Problem(problem.S[order], problem.y[order])
    solution = solve(blocked(ordered, **SMALL_SAMPLE), **LOW)
    assert solution.certificate.passes <= 6
    assert_certified(ordered, in_memory(solution))


@settings(max_examples=25)
@given(cuts=st.lists(st.integers(0, 900), max_size=6), costs=st.booleans())
def test_any_cut_is_solved_and_proven(cuts, costs):
    problem = random_problem(n=900, R=3, costs=costs, fit_intercept=True)
    chunks = tuple(np.diff([0, *sorted(cuts), 900]).tolist())
    assert_certified(problem, in_memory(solve(blocked(problem, chunks))))


# ------------------------------------------------------------------------------ reductions


def test_a_pass_reads_each_block_once():
    problem, reads = random_problem(n=1500, R=4), []

    def read(rows):
        reads.append(1)
        return rows

    first = da.from_delayed(dask.delayed(read, pure=False)(problem.S[:700]), (700, 4), float)
    rows = da.concatenate([first, da.from_array(problem.S[700:], chunks=(400, -1))])
    labels = da.from_array(problem.y, chunks=(rows.chunks[0],))
    checked = check_score_blocks(rows, labels, None, partial(stratified_sample, n_rows=300))
    solution = solve(BlockedProblem(checked, Costs(), p=problem.ball.p), **LOW)
    assert len(reads) == solution.certificate.passes


def test_workers_may_hold_arrays_of_another_library():
    strict = pytest.importorskip("array_api_strict", reason="array-api-strict is not installed")
    problem = random_problem(n=1200, R=4, costs=True, fit_intercept=True, p=4 / 3)
    ours = blocked(problem, **SMALL_SAMPLE)
    parts = [
        (dask.delayed(strict.asarray)(S), dask.delayed(strict.asarray)(y), c)
        for S, y, c in ours.blocks.parts
    ]
    ours.blocks.parts = parts
    solution = solve(ours, **LOW)
    assert isinstance(solution.weights, np.ndarray)
    assert_certified(problem, in_memory(solution))


@pytest.mark.parametrize("what", ["scores", "order", "weights"])
def test_blocks_that_change_between_passes_are_refused(what):
    rng = np.random.default_rng(0)
    S, c, calls = rng.normal(0.3, 1.0, size=(600, 3)), np.ones(600), []

    def otherwise(block):
        calls.append(1)
        noise = np.random.default_rng(len(calls))
        if what == "order":
            return noise.permutation(block)
        return block + 1e-6 * noise.random(block.shape)

    scores, weights = da.from_array(S, chunks=(200, 3)), da.from_array(c, chunks=200)
    meta = {"dtype": float, "meta": np.empty(0)}
    if what == "weights":
        weights = weights.map_blocks(otherwise, **meta)
    else:
        scores = scores.map_blocks(otherwise, dtype=float, meta=np.empty((0, 0)))
    with pytest.raises(ValueError, match=r"block \d has changed between two passes.*persist"):
        LpFusion(p=2).fit(scores, sample_weight=weights)
    assert calls  # the blocks were made more than once
