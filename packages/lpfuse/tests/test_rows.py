"""Compiled reading of rows, against exact sums and against the array operations it stands for."""

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.pairwise import each_value
from lpfuse._arrays import operations as chosen_form
from lpfuse._arrays.operations import row_kernels
from lpfuse._compiled import compiled
from lpfuse.optim import Problem, solve
from lpfuse.optim.bounds import (
    CHUNK,
    Reading,
    additions_per_term,
    certify_block,
    certify_rows,
    gamma,
)
from lpfuse.optim.certificate import Certifier
from lpfuse.optim.distributed import watch_crossings
from lpfuse.optim.passes import PartitionPlan, ScorePasses
from lpfuse.optim.results import Candidate
from oracles.problems import random_problem

kernels = compiled("lpfuse._arrays._rows")
needs_kernels = pytest.mark.skipif(kernels is None, reason="lpfuse was not compiled here")
UNIT = 2.0**-53


def rows_of(seed, m, R, single, labelled, weighted):
    """Scores of very different sizes, labels and costs, some of them zero."""
    rng = np.random.default_rng(seed)
    S = rng.standard_normal((m, R)) * 10.0 ** rng.integers(-6, 7, (m, R))
    y = np.where(rng.random(m) < 0.3, -1.0, 1.0) if labelled else 1.0
    c = rng.random(m) * (rng.random(m) < 0.8) if weighted else 1.0
    return S.astype(np.float32) if single else S, y, c


cases = {
    "seed": st.integers(0, 10**6),
    "m": st.sampled_from([1, 3, 4, 5, 63, 64, 65, 1023, 1025, 2100]),
    "R": st.sampled_from([1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 36, 61]),
    "single": st.booleans(),
    "labelled": st.booleans(),
    "weighted": st.booleans(),
}


def column(value, m):
    return np.full(m, value) if isinstance(value, float) else value


@needs_kernels
@settings(deadline=None, max_examples=40)
@given(**cases)
def test_residuals_and_sums_are_within_their_bounds_of_the_truth(
    seed, m, R, single, labelled, weighted
):
    S, y, c = rows_of(seed, m, R, single, labelled, weighted)
    rng = np.random.default_rng(seed + 1)
    w, b, alpha = rng.standard_normal(R), float(rng.standard_normal()), rng.random(m)
    for wide in (False, True):  # both forms, where this processor has wide vectors
        kernels.use_wide_vectors(wide)
        r, pull, size = kernels.residuals_and_pull(S, y, c, w, b, alpha, True)
        assert size == np.abs(S).max()
        np.testing.assert_array_equal(kernels.row_sizes(S), np.abs(S).max(axis=1))
        assert_residuals(r, S, column(y, m), w, b, size)
        assert_pull(pull, S, column(y, m) * column(c, m), alpha)


def assert_residuals(r, S, y, w, b, size):
    """A few rows in exact arithmetic: within γ(R + 8) of the size of their terms."""
    exact_w = [Fraction(float(v)) for v in w]
    bound = gamma(len(w) + 8) * (1.0 + abs(b) + float(size) * np.abs(w).sum())
    for i in range(0, len(S), max(1, len(S) // 7)):
        fused = sum(
            (Fraction(float(s)) * v for s, v in zip(S[i], exact_w, strict=True)), Fraction(b)
        )
        true = 1 - Fraction(float(y[i])) * fused
        assert abs(Fraction(float(r[i])) - true) <= bound


def assert_pull(pull, S, signed, alpha):
    """Some columns in exact arithmetic: within γ of the additions in a row."""
    for j in range(0, S.shape[1], max(1, S.shape[1] // 4)):
        terms = [
            Fraction(float(v)) * Fraction(float(a)) * Fraction(float(s))
            for v, a, s in zip(signed, alpha, S[:, j], strict=True)
        ]
        bound = gamma(additions_per_term(len(S), on_host=True)) * float(sum(map(abs, terms)))
        assert abs(Fraction(float(pull[j])) - sum(terms)) <= bound


@needs_kernels
@settings(deadline=None, max_examples=40)
@given(**cases, band=st.sampled_from([0.0, 0.3, 1e3]), thin=st.booleans())
def test_sides_and_sums_are_those_of_a_loop(seed, m, R, single, labelled, weighted, band, thin):
    S, y, c = rows_of(seed, m, R, single, labelled, weighted)
    w = np.random.default_rng(seed + 1).standard_normal(R) * 1e-3
    beyond = 0.0 if thin else band
    side, r, near, pull, value, constant, signed = kernels.part(S, y, c, w, 0.1, band, beyond, True)
    cost, label = column(c, m), column(y, m)
    for i in range(m):
        expected = -1 if cost[i] == 0 else int(r[i] > band) - int(r[i] < -band)
        assert side[i] == expected
    np.testing.assert_array_equal(near, np.flatnonzero(side == 0))
    up = np.where(r > beyond, cost, 0.0)
    np.testing.assert_allclose(value, (cost * np.maximum(r, 0.0)).sum(), rtol=1e-12)
    np.testing.assert_allclose([constant, signed], [up.sum(), (label * up).sum()], atol=1e-9 * m)
    assert_pull(pull, S, label * up, np.ones(m))


@needs_kernels
@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10**6), m=st.integers(1, 2500), weighted=st.booleans())
def test_vectors_of_a_block_add_up(seed, m, weighted):
    rng = np.random.default_rng(seed)
    r, c = rng.standard_normal(m), rng.random(m) if weighted else 1.0
    alpha = np.where(rng.random(m) < 0.8, rng.integers(0, 2, m), rng.random(m))
    cost = column(c, m)
    value, highest = kernels.hinges(r, c, 0.01, 2 * UNIT)
    np.testing.assert_allclose(value, (cost * np.maximum(r, 0)).sum(), rtol=1e-13)
    raised = np.maximum(r + (0.01 + 2 * UNIT * np.abs(r)), 0)
    np.testing.assert_allclose(highest, (cost * raised).sum(), rtol=1e-13)
    net, mass, low, high = kernels.multiplier_totals(alpha - 0.5, c)
    shares = cost * (alpha - 0.5)
    np.testing.assert_allclose([net, mass], [shares.sum(), np.abs(shares).sum()], atol=1e-12 * m)
    assert (low, high) == (alpha.min() - 0.5, alpha.max() - 0.5)
    wrong = ((alpha == 1) & (r < 0) | (alpha == 0) & (r > 0)) & (cost > 0)
    np.testing.assert_array_equal(kernels.crossed(r, alpha, c), np.flatnonzero(wrong))


@needs_kernels
@pytest.mark.parametrize("at", [0, 1500, 2999])
def test_a_multiplier_that_is_no_number_is_not_lost(at):
    alpha = np.full(3000, 0.5)
    alpha[at] = np.nan
    assert np.isnan(kernels.multiplier_totals(alpha, 1.0)[2:]).all()
    value, highest = kernels.hinges(alpha, 1.0, 0.0, 0.0)
    assert np.isnan(value)
    assert np.isnan(highest)


@needs_kernels
def test_every_kth_row_of_each_layer_is_taken():
    r = np.array([0.1, -0.2, 3.0, 0.3, -3.0, 9.0, 2.0, 0.15, -2.5, 0.0])
    c = np.ones(10)
    c[7] = 0.0
    chosen, layer, counts = kernels.layered(r, c, np.array([0.5, 4.0]), np.array([1, 3]))
    assert list(chosen) == [0, 1, 2, 3, 8, 9]
    assert list(layer) == [0, 0, 1, 0, 1, 0]
    assert counts == [4, 4]


@needs_kernels
def test_rows_that_do_not_match_their_labels_are_refused():
    with pytest.raises(ValueError, match="2 numbers for 3 rows"):
        kernels.part(np.ones((3, 2)), np.ones(2), 1.0, np.ones(2), 0.0, 0.1, 0.1, True)


@needs_kernels
def test_what_lies_otherwise_in_memory_is_left_to_array_operations():
    S = np.ones((6, 4))
    assert row_kernels(S) is kernels
    assert row_kernels(S[::-2, 1:3]) is kernels  # rows apart, each of them whole
    for other in (np.asfortranarray(S), S[:, ::2], S.astype(int), S.astype(">f8"), S.tolist()):
        assert row_kernels(other) is None


@needs_kernels
def test_chunks_are_as_long_as_the_bounds_count_on():
    assert kernels.CHUNK == CHUNK


# ------------------------------------------------------------------ both forms through their users


def without_kernels(patch):
    patch.setattr(chosen_form, "_kernels", None)


variants = {
    "plain": {},
    "costs": {"costs": True},
    "intercept": {"fit_intercept": True},
    "both": {"costs": True, "fit_intercept": True},
}


def a_problem(variant, single=False, seed=0):
    problem = random_problem(seed, n=3000, R=5, **variants[variant])
    if single:
        problem.S = problem.S.astype(np.float32)
    return problem


@needs_kernels
@each_value(variant=variants, single=[False, True])
def test_a_partition_is_the_same_in_both_forms(variant, single, monkeypatch):
    problem = a_problem(variant, single)
    v = np.random.default_rng(1).random(problem.size)
    plans = [
        PartitionPlan(v, 0.2, 1, 10**6),
        PartitionPlan(v, 0.9, 3, 10**6),
        PartitionPlan(v, 1.5, 1, 10**6, ((0.1, 1), (0.5, 2), (1.5, 5))),
    ]
    balls = [problem.ball] * 3
    ours = ScorePasses(problem).partition(plans, balls)
    without_kernels(monkeypatch)
    theirs = ScorePasses(problem).partition(plans, balls)
    for a, b in zip(ours, theirs, strict=True):
        order = [np.argsort(part.positions) for part in (a, b)]
        np.testing.assert_array_equal(a.positions[order[0]], b.positions[order[1]])
        np.testing.assert_allclose(a.model.costs[order[0]], b.model.costs[order[1]])
        np.testing.assert_allclose(a.model.linear, b.model.linear, atol=1e-9)
        np.testing.assert_allclose([a.value, a.model.constant], [b.value, b.model.constant])
        assert a.n_near == b.n_near
        assert (a.pieces.side is None) == (b.pieces.side is None)
        if a.pieces.side is not None:
            np.testing.assert_array_equal(a.pieces.side, b.pieces.side)


@needs_kernels
@each_value(variant=variants, single=[True, False])
def test_both_forms_bound_the_same_truth(variant, single):
    problem = a_problem(variant, single)
    v, alpha = np.full(problem.size, 0.3), np.random.default_rng(1).random(problem.n)
    block = problem.block(slice(0, problem.n), stored=True)
    point = {0: (v, None)}
    quick = certify_rows(Reading.of(problem), point, {}, block, alpha)[0]
    careful = certify_block(Reading.of(problem), point, {}, block.in_double(), alpha)[0]
    assert abs(quick.value - careful.value) <= quick.error + careful.error
    np.testing.assert_allclose(quick.error, careful.error, rtol=1e-2)  # a small difference
    for name in ("gain", "net", "mass", "reach", "balance", "low", "high"):
        np.testing.assert_allclose(
            getattr(quick.dual, name), getattr(careful.dual, name), rtol=1e-12
        )
    bound = quick.dual.pull_error + careful.dual.pull_error
    assert np.abs(quick.dual.pull - careful.dual.pull).max() <= bound
    np.testing.assert_allclose(quick.dual.pull_error, careful.dual.pull_error, rtol=1e-12)


@needs_kernels
def test_huge_scores_are_left_to_the_careful_form():
    problem = a_problem("plain")
    problem.S = problem.S.copy()
    problem.S[7] = [1e12, -1e12, 3.0, 1.0, 1.0]
    block = problem.block(slice(0, problem.n), stored=True)
    v, alpha = np.array([0.3, 0.3, 0.2, 0.1, 0.1]), np.full(problem.n, 0.5)
    ours = certify_rows(Reading.of(problem), {0: (v, None)}, {}, block, alpha)[0]
    theirs = certify_block(Reading.of(problem), {0: (v, None)}, {}, block, alpha)[0]
    assert (ours.value, ours.error) == (theirs.value, theirs.error)
    assert ours.error <= 1e-9 * ours.value


@needs_kernels
def test_one_large_score_does_not_speak_for_its_block():
    problem = a_problem("costs")
    problem.S = problem.S.copy()
    problem.S[7] *= 1e5
    block = problem.block(slice(0, problem.n), stored=True)
    v, alpha = np.full(5, 0.2), np.random.default_rng(3).random(problem.n)
    ours = certify_rows(Reading.of(problem), {0: (v, None)}, {}, block, alpha)[0]
    signed = problem.y * problem.costs * alpha
    for j in range(5):
        true = sum(
            Fraction(float(g)) * Fraction(float(s))
            for g, s in zip(signed, problem.S[:, j], strict=True)
        )
        assert abs(Fraction(float(ours.dual.pull[j])) - true) <= ours.dual.pull_error
    assert np.abs(signed) @ np.abs(problem.S).max(axis=1) <= ours.dual.reach * (1 + 1e-12)
    assert ours.dual.reach < 0.01 * ours.dual.mass * np.abs(problem.S).max()


@needs_kernels
@pytest.mark.parametrize("single", [False, True], ids=["double", "single"])
def test_crossed_rows_are_the_same_in_both_forms(single, monkeypatch):
    problem = a_problem("costs", single)
    rng = np.random.default_rng(2)
    candidate = Candidate(np.full(5, 0.2), rng.integers(0, 2, problem.n).astype(float))

    def crossed():
        certifier = Certifier(problem, [problem.ball], 1e-8)
        return certifier.examine({0: candidate}, {0: watch_crossings(problem.terms, 10**6)})[
            0
        ].watched

    ours = crossed()
    without_kernels(monkeypatch)
    for a, b in zip(ours, crossed(), strict=True):
        np.testing.assert_array_equal(a, b)


@each_value(p=[1.0, 4 / 3, 10.0, np.inf], setting=["pure", "labelled"])
def test_many_single_precision_rows_are_certified_without_conversion(p, setting):
    S, y = many_rows(setting)
    single = Problem(S, y, p=p)
    double = Problem(S.astype(np.float64), y, p=p)
    ours, theirs = solve(single), solve(double)
    assert ours.certificate.status == "optimal"
    np.testing.assert_allclose(ours.certificate.primal, theirs.certificate.primal, rtol=2e-8)
    assert ours.certificate.primal == pytest.approx(double.value(ours.weights), rel=1e-12)


@cache
def many_rows(setting):
    rng = np.random.default_rng(0)
    n = 60_000
    y = np.where(rng.random(n) < (0.0 if setting == "pure" else 0.2), -1.0, 1.0)
    S = 0.6 * y[:, None] + rng.standard_normal((n, 6)) * rng.uniform(0.3, 1.0, 6)
    return S.astype(np.float32), None if setting == "pure" else y


@each_value(p=[1.0, 2.0, np.inf], setting=["labelled", "pure"])
def test_many_rows_have_the_same_optimum_without_kernels(p, setting, monkeypatch):
    problem = Problem(*many_rows(setting), p=p)
    ours = solve(problem)
    without_kernels(monkeypatch)
    theirs = solve(problem)
    assert ours.certificate.status == theirs.certificate.status == "optimal"
    gap = ours.certificate.gap + theirs.certificate.gap
    assert abs(ours.certificate.primal - theirs.certificate.primal) <= gap
