"""The judge of balls and scores, and the data that it judges on."""

import numpy as np
import pytest
from sklearn.svm import OneClassSVM

from research.common.judge import Ball, ball_facts, components_without_ties, difference, is_optimal
from research.speed.detectors.data import SHAPES, Data

X = Data(300, 3).training()
NU, GAMMA, TOL = 0.2, 0.5, 1e-3


def ball(tol):
    machine = OneClassSVM(nu=NU, gamma=GAMMA, tol=tol).fit(X)
    coefficients = machine.dual_coef_.ravel()
    return Ball(machine.support_, coefficients / coefficients.sum())


def is_accepted(found, best=None):
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


def test_the_libsvm_ball_is_accepted_and_a_loose_one_refused():
    good = ball(TOL)
    assert is_accepted(good)
    assert not is_accepted(ball(0.3))
    assert not is_accepted(Ball(good.support, good.coefficients * 1.01))  # the sum is not one
    assert not is_accepted(good, best=0.99 * ball_facts(X, good, NU, GAMMA)["objective"])


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
