"""Problems of many rows. Thresholds are lowered (see conftest.py)."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lpfuse.optim import solve
from lpfuse.optim._large_n import search
from lpfuse.optim._large_n.passes import Reader
from lpfuse.optim._solvers.model import Guess
from oracles.problems import (
    GRID,
    GUESSES,
    VARIANTS,
    assert_certified,
    changed,
    random_problem,
)

every_p = pytest.mark.parametrize("p", GRID)
every_variant = pytest.mark.parametrize("variant", VARIANTS)


@pytest.fixture
def counts(monkeypatch):
    """How often the steps of the scheme ran."""
    counts = dict.fromkeys(("partition", "verify", "admit"), 0)

    def count(owner, name):
        original = getattr(owner, name)

        def wrapper(*args, **kwargs):
            counts[name] += 1
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, wrapper)

    count(Reader, "partition")
    count(Reader, "verify")
    count(search, "admit")
    return counts


@pytest.fixture
def guessing(monkeypatch):
    """Replaces the guess that a sample would give."""

    def replace(w, band):
        def settle(self, *_):
            self.guess, self.stride = Guess(w, band), 1

        monkeypatch.setattr(search.Search, "_settle", settle)

    return replace


@every_p
@every_variant
@pytest.mark.parametrize("anomalies", [0.0, 0.2], ids=["pure", "labelled"])
@pytest.mark.usefixtures("low_thresholds")
def test_sampled_problems_end_with_a_proof(p, variant, anomalies):
    problem = random_problem(n=900, R=4, anomalies=anomalies, p=p, **VARIANTS[variant])
    assert_certified(problem, solve(problem))


@every_variant
def test_screening_and_the_interior_point_alone_agree(low_thresholds, variant, monkeypatch):
    problem = random_problem(n=900, R=4, p=4 / 3, **VARIANTS[variant])
    screened = solve(problem)
    monkeypatch.undo()
    alone = solve(problem)
    assert screened.certificate.passes > alone.certificate.passes
    assert screened.certificate.primal == pytest.approx(alone.certificate.primal, rel=2e-8)
    np.testing.assert_allclose(screened.weights, alone.weights, atol=1e-4)


@pytest.mark.usefixtures("low_thresholds")
@pytest.mark.parametrize("variant", ["plain", "costs", "intercept"])
@pytest.mark.parametrize("order", ["by class", "by score"])
def test_sorted_rows_are_no_worse_than_shuffled_ones(order, variant):
    problem = random_problem(n=1200, R=4, p=2.0, **VARIANTS[variant])
    key = problem.y if order == "by class" else problem.S.sum(axis=1)
    rows = np.argsort(key, kind="stable")
    costs = None if problem.costs is None else problem.costs[rows]
    ordered = changed(problem, problem.S[rows], problem.y[rows], costs)
    assert_certified(ordered, solve(ordered))


@pytest.mark.usefixtures("low_thresholds")
@pytest.mark.parametrize("p", [1.0, 4 / 3, 10.0, np.inf])
@pytest.mark.parametrize("case", ["heavy tails", "ties", "one group of rows", "zero costs", "easy"])
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
    assert_certified(problem, solve(problem))


@pytest.mark.usefixtures("low_thresholds")
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
    assert_certified(problem, solve(problem))


@every_p
@every_variant
@pytest.mark.parametrize("anomalies", [0.0, 0.2], ids=["pure", "labelled"])
def test_the_small_steps_of_an_accelerator_end_with_a_proof(
    low_thresholds, monkeypatch, p, variant, anomalies
):
    problem = random_problem(n=3000, R=4, anomalies=anomalies, p=p, **VARIANTS[variant])
    frugal = search.Budget(sample=200, kept=50, patience=1, risk=1.5, alone=True)
    monkeypatch.setattr(search.Budget, "of", lambda problem: frugal)
    thinned = []
    refine = search.Search._refine
    monkeypatch.setattr(search.Search, "_refine", lambda *a: thinned.append(1) or refine(*a))
    assert_certified(problem, solve(problem))
    if anomalies and variant == "plain":
        assert thinned  # rows at risk were more than could be kept


# -------------------------------------------------------------------------------- wrong guesses


@every_variant
@pytest.mark.parametrize("p", [1.0, 4 / 3, np.inf])
@pytest.mark.parametrize("kind", GUESSES)
def test_a_wrong_guess_costs_passes_but_not_the_proof(low_thresholds, guessing, kind, p, variant):
    problem = random_problem(n=1200, R=4, p=p, **VARIANTS[variant])
    right = np.append(solve(problem).weights, [0.0] * problem.fit_intercept)
    guessing(*GUESSES[kind](right))
    assert_certified(problem, solve(problem))


def test_a_right_guess_needs_one_partition_and_one_verdict(low_thresholds, counts, guessing):
    problem = random_problem(n=1500, R=4)
    guessing(solve(problem).weights, 0.05)
    counts.update(partition=0, verify=0, admit=0)
    assert_certified(problem, solve(problem))
    assert counts == {"partition": 1, "verify": 1, "admit": 0}


def test_rows_that_changed_side_are_admitted(low_thresholds, counts, guessing):
    problem = random_problem(n=1500, R=4)
    guessing(0.98 * solve(problem).weights, 0.01)
    counts.update(partition=0, verify=0, admit=0)
    assert_certified(problem, solve(problem))
    assert counts["partition"] == 1
    assert counts["admit"] >= 1


@every_variant
def test_too_many_crossings_lead_to_a_new_partition(low_thresholds, counts, guessing, variant):
    problem = random_problem(n=6000, R=4, **VARIANTS[variant])
    right = np.append(solve(problem).weights, [0.0] * problem.fit_intercept)
    guessing(-right, 1e-3)
    counts.update(partition=0, verify=0, admit=0)
    assert_certified(problem, solve(problem))
    assert counts["partition"] >= 2


def test_passes_in_the_certificate_are_those_that_were_made(low_thresholds, counts):
    problem = random_problem(n=1600, R=4)
    solution = solve(problem)
    made = counts["partition"] + counts["verify"] + 400 / 1600
    assert solution.certificate.passes == pytest.approx(made)
