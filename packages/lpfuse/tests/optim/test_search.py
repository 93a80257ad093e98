"""Problems of many rows, by thresholds that are low enough for naive loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.pairwise import each_value, pairwise
from lpfuse.optim import solve
from lpfuse.optim.certificate import Certifier
from lpfuse.optim.large import search_rows
from lpfuse.optim.newton import Guess
from lpfuse.optim.passes import ScorePasses, SearchBudget
from oracles.problems import (
    FEW_P,
    GRID,
    GUESSES,
    LOW_THRESHOLDS,
    OPTIONS,
    PURE_OR_LABELLED,
    VARIANTS,
    assert_certified,
    changed,
    random_problem,
)

every_variant = pytest.mark.parametrize("variant", VARIANTS)


class CountingPasses(ScorePasses):
    """Partition passes that are counted, with the most rows that they brought and left out."""

    def __init__(self, problem):
        super().__init__(problem)
        self.partitions, self.strides = 0, []

    def partition(self, plans, balls):
        self.partitions += 1
        self.strides += [plan.stride for plan in plans]
        return super().partition(plans, balls)


class CountingCertifier(Certifier):
    """Examinations that are counted."""

    examinations = 0

    def examine(self, candidates, watch=None):
        self.examinations += 1
        return super().examine(candidates, watch)


class Searched:
    """A search whose budget or first guess is given, and what it took."""

    def __init__(self, problem, guess=None, budget=None):
        problem = problem.with_reset_passes()
        passes = CountingPasses(problem)
        certifier = CountingCertifier(problem, [problem.ball], 1e-8)
        guesses = None if guess is None else {0: Guess(*guess)}
        steps = search_rows(
            certifier, passes, [0], tuning=LOW_THRESHOLDS, guesses=guesses, budget=budget
        )
        self.partitions, self.strides = passes.partitions, passes.strides
        self.examinations = certifier.examinations
        self.passes = problem.passes
        self.solution = certifier.solution(0, steps[0], problem.passes, "max_iter")


def solve_sampled(problem):
    """By a sample, however few the rows are."""
    return solve(problem, tuning=LOW_THRESHOLDS)


@pairwise(p=FEW_P, anomalies=PURE_OR_LABELLED, **OPTIONS)
def test_sampled_problems_end_with_a_proof(p, anomalies, costs, nonnegative, fit_intercept):
    problem = random_problem(
        n=900,
        R=4,
        anomalies=anomalies,
        costs=costs,
        p=p,
        nonnegative=nonnegative,
        fit_intercept=fit_intercept,
    )
    assert_certified(problem, solve_sampled(problem))


@every_variant
def test_screening_and_the_interior_point_alone_agree(variant):
    problem = random_problem(n=900, R=4, p=4 / 3, **VARIANTS[variant])
    screened = solve_sampled(problem)
    alone = solve(problem)
    assert screened.certificate.passes > alone.certificate.passes
    assert screened.certificate.primal == pytest.approx(alone.certificate.primal, rel=2e-8)
    np.testing.assert_allclose(screened.weights, alone.weights, atol=1e-4)


@pytest.mark.parametrize("variant", ["plain", "costs", "intercept"])
@pytest.mark.parametrize("order", ["by class", "by score"])
def test_sorted_rows_are_no_worse_than_shuffled_ones(order, variant):
    problem = random_problem(n=1200, R=4, p=2.0, **VARIANTS[variant])
    key = problem.y if order == "by class" else problem.S.sum(axis=1)
    rows = np.argsort(key, kind="stable")
    costs = None if problem.costs is None else problem.costs[rows]
    ordered = changed(problem, problem.S[rows], problem.y[rows], costs)
    assert_certified(ordered, solve_sampled(ordered))


@pairwise(
    case=("heavy tails", "ties", "one group of rows", "zero costs", "easy"),
    p=(1.0, 4 / 3, 10.0, np.inf),
)
def test_awkward_data_are_screened_and_proven(case, p):
    rng = np.random.default_rng(0)
    problem = random_problem(n=1000, R=4, p=p, costs=case == "zero costs")
    if case == "heavy tails":
        problem = changed(problem, 0.5 * problem.y[:, None] + rng.standard_cauchy((1000, 4)))
    elif case == "ties":
        problem = changed(problem, np.round(2 * problem.S) / 2)
    elif case == "one group of rows":
        problem = changed(problem, np.tile(problem.S[:5], (200, 1)), np.tile(problem.y[:5], 200))
    elif case == "zero costs":
        problem = changed(problem, costs=problem.costs * (np.arange(1000) % 10 == 0))
    else:
        problem = changed(problem, 9.0 * problem.y[:, None] + problem.S)
    assert_certified(problem, solve_sampled(problem))


@settings(max_examples=25)
@given(
    seed=st.integers(0, 9999),
    n=st.integers(401, 800),
    R=st.integers(1, 6),
    anomalies=st.sampled_from([0.0, 0.02, 0.5]),
    costs=st.booleans(),
    nonnegative=st.booleans(),
    fit_intercept=st.booleans(),
    p=st.sampled_from(GRID),
    scale=st.sampled_from([0.1, 1.0, 30.0]),
)
def test_any_problem_is_screened_to_a_proof(**settings):
    problem = random_problem(**settings)
    assert_certified(problem, solve_sampled(problem))


@pairwise(p=FEW_P, anomalies=PURE_OR_LABELLED, **OPTIONS)
def test_the_small_steps_of_an_accelerator_end_with_a_proof(
    p, anomalies, costs, nonnegative, fit_intercept
):
    problem = random_problem(
        n=3000,
        R=4,
        anomalies=anomalies,
        costs=costs,
        p=p,
        nonnegative=nonnegative,
        fit_intercept=fit_intercept,
    )
    frugal = SearchBudget(sample=200, kept=50, overfull=1, risk=1.5, serial=True)
    searched = Searched(problem, budget=frugal)
    assert_certified(problem, searched.solution)
    if anomalies and not (costs or nonnegative or fit_intercept):
        assert max(searched.strides) > 1  # rows at risk were more than could be kept


# -------------------------------------------------------------------------------- wrong guesses


@each_value(kind=GUESSES, variant=VARIANTS, p=(1.0, 4 / 3, np.inf))
def test_a_wrong_guess_costs_passes_but_not_the_proof(kind, p, variant):
    problem = random_problem(n=1200, R=4, p=p, **VARIANTS[variant])
    right = np.append(solve(problem).weights, [0.0] * problem.fit_intercept)
    assert_certified(problem, Searched(problem, GUESSES[kind](right)).solution)


def test_a_right_guess_needs_one_partition_and_one_examination():
    problem = random_problem(n=1500, R=4)
    searched = Searched(problem, (solve(problem).weights, 0.05))
    assert_certified(problem, searched.solution)
    assert (searched.partitions, searched.examinations) == (1, 1)


def test_rows_that_changed_side_are_admitted():
    problem = random_problem(n=1500, R=4)
    searched = Searched(problem, (0.98 * solve(problem).weights, 0.01))
    assert_certified(problem, searched.solution)
    assert searched.partitions == 1  # so the rows of the first one were not enough, and grew
    assert searched.examinations >= 2


@every_variant
def test_too_many_crossings_lead_to_a_new_partition(variant):
    problem = random_problem(n=6000, R=4, **VARIANTS[variant])
    right = np.append(solve(problem).weights, [0.0] * problem.fit_intercept)
    searched = Searched(problem, (-right, 1e-3))
    assert_certified(problem, searched.solution)
    assert searched.partitions >= 2


def test_passes_in_the_certificate_are_those_that_were_made():
    problem = random_problem(n=1600, R=4)
    searched = Searched(problem)
    made = searched.partitions + searched.examinations + 400 / 1600
    assert searched.passes == pytest.approx(made)
    assert solve_sampled(problem).certificate.passes == pytest.approx(made)
