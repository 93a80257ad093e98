import array_api_strict
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lpfuse.optim.problem import LOSSES, Hinge, LeastSquares

residuals = st.floats(-1e3, 1e3)
multipliers = {"hinge": st.floats(0.0, 1.0), "least_squares": st.floats(-1e3, 1e3)}


@pytest.mark.parametrize("name", LOSSES)
@given(data=st.data(), r=residuals)
def test_no_multiplier_gains_more_than_the_loss(name, data, r):
    """Fenchel–Young: gain(α) − α·margin ≤ loss(1 − margin), which makes the dual a lower bound."""
    loss, alpha = LOSSES[name], data.draw(multipliers[name])
    bound = loss.gain(np.array([alpha])) - alpha * (1.0 - r)
    value = loss.value(np.array([r]))
    assert bound <= value + 1e-9 * (1.0 + abs(value) + abs(alpha * r) + alpha**2)


@pytest.mark.parametrize("name", LOSSES)
@given(r=residuals)
def test_the_slope_as_multiplier_attains_the_loss(name, r):
    loss, r = LOSSES[name], np.array([r])
    alpha = loss.slope(r)
    bound = loss.gain(alpha) - alpha * (1.0 - r)
    np.testing.assert_allclose(bound, loss.value(r), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", LOSSES)
@given(r=residuals.filter(lambda r: abs(r) > 1e-2))
def test_the_slope_is_the_derivative(name, r):
    loss, step = LOSSES[name], 1e-3
    ahead, behind = loss.value(np.array([r + step, r - step]))
    np.testing.assert_allclose((ahead - behind) / (2 * step), loss.slope(np.array(r)), atol=1e-6)


def test_values_by_hand():
    r = np.array([-2.0, 0.0, 3.0])
    assert Hinge().value(r).tolist() == [0.0, 0.0, 3.0]
    assert LeastSquares().value(r).tolist() == [4.0, 0.0, 9.0]


def test_a_row_on_its_margin_has_no_slope():
    assert Hinge().slope(np.array([-1.0, 0.0, 1e-300])).tolist() == [0.0, 0.0, 1.0]


@pytest.mark.parametrize("name", LOSSES)
def test_losses_stay_in_the_array_library(name):
    loss, r = LOSSES[name], np.array([-2.0, 0.0, 3.0])
    for method in (loss.value, loss.slope, loss.gain):
        theirs = method(array_api_strict.asarray(r))
        assert theirs.__array_namespace__() is array_api_strict
        np.testing.assert_array_equal(np.asarray(theirs), method(r))
