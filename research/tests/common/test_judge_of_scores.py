"""The judge of the learners' benchmark, its clock and its data."""

import numpy as np
import pytest
from sklearn.svm import OneClassSVM

from research.common.clock import race, ratio, repeats_for
from research.common.judge import (
    Ball,
    ball_facts,
    components_without_ties,
    difference,
    is_optimal,
)
from research.speed.detectors.data import SHAPES, Data

X = Data(300, 3).training()
NU, GAMMA, TOL = 0.2, 0.5, 1e-3


def ball(tol):
    machine = OneClassSVM(nu=NU, gamma=GAMMA, tol=tol).fit(X)
    coefficients = machine.dual_coef_.ravel()
    return Ball(machine.support_, coefficients / coefficients.sum())


def verdict(found, best=None):
    facts = ball_facts(X, found, NU, GAMMA)
    return is_optimal(facts, facts["objective"] if best is None else best, TOL)


@pytest.mark.parametrize("shape", SHAPES)
def test_data_can_be_drawn_again(shape):
    data = Data(500, 4, seed=3, shape=shape)
    training = data.training()
    np.testing.assert_array_equal(training, Data(500, 4, seed=3, shape=shape).training())
    np.testing.assert_allclose([training.mean(axis=0), training.std(axis=0)], [[0] * 4, [1] * 4],
                               atol=1e-12)  # fmt: skip
    unseen = data.unseen(400)
    assert np.abs(unseen.mean(axis=0)).max() < 0.3
    assert not np.isin(unseen, training).any()
    assert not np.isin(data.anomalies(400), unseen).any()
    assert not np.array_equal(training, Data(500, 4, seed=4, shape=shape).training())


def test_the_ball_of_libsvm_is_accepted_and_a_loose_one_is_not():
    good = ball(TOL)
    assert verdict(good)
    assert not verdict(ball(0.3))
    assert not verdict(Ball(good.support, good.coefficients * 1.01))  # the sum is not one
    assert not verdict(good, best=0.99 * ball_facts(X, good, NU, GAMMA)["objective"])


def test_violation_is_measured_on_all_rows():
    """A ball around half of the rows is optimal for them, not for all."""
    half = X[:150]
    machine = OneClassSVM(nu=2 * NU, gamma=GAMMA, tol=TOL).fit(half)
    found = Ball(machine.support_, machine.dual_coef_.ravel() / machine.dual_coef_.sum())
    assert is_optimal(ball_facts(half, found, 2 * NU, GAMMA), np.inf, TOL)
    assert not is_optimal(ball_facts(X, found, NU, GAMMA), np.inf, TOL)


def test_difference_is_a_share_of_the_largest_score():
    assert difference([2.0, -4.0], np.array([2.0, -4.1])) == pytest.approx(0.1 / 4.1)
    assert difference([np.nan, 1.0], np.array([1.0, 1.0])) == np.inf


def test_components_of_the_identity_tie():
    assert components_without_ties(X, 1e6, most=4).tolist() == [True] + 4 * [False]
    assert components_without_ties(X, 0.1, most=4).all()


@pytest.fixture(autouse=True)
def without_garbage_collections(monkeypatch):
    """The clock asks for one before each run: slow among all that a test session holds."""
    monkeypatch.setattr("gc.collect", lambda: 0)


def test_rivals_take_turns_and_rejected_ones_do_not_run_again():
    order = []
    actions = {name: lambda name=name: order.append(name) for name in "abc"}
    samples = race(actions, lambda results: {"a": True, "b": True, "c": False}, most=3)
    assert order == ["a", "b", "c", "b", "a", "a", "b"]
    assert {name: len(times) for name, times in samples.items()} == {"a": 3, "b": 3}


def test_the_judge_sees_the_first_results():
    seen = {}
    race({"a": lambda: 7}, lambda results: seen.update(results) or {"a": False}, most=1)
    assert seen == {"a": 7}


def test_ratio_pairs_the_rounds_that_both_ran_in():
    samples = {"slow": [2.0, 30.0], "fast": [1.0, 10.0, 99.0], "none": []}
    assert ratio(samples, "slow", "fast") == 2.5
    assert ratio(samples, "slow", "none") is None
    assert ratio(samples, "slow", "missing") is None


def test_slow_runs_are_repeated_less():
    limits = {"budget": 4.0, "slow": 60.0}
    assert [repeats_for(s, 31, **limits) for s in (1e-3, 0.5, 20.0, 100.0)] == [31, 8, 3, 1]
    assert repeats_for(20.0, 2, **limits) == 2
