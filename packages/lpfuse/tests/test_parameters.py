"""Parameters of estimators: what passes, and the words for what does not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.cases import cases
from lpfuse._validation.params import check_choice, check_count, check_number, check_p, is_count


def read_message(function, *args, error=ValueError):
    with pytest.raises(error) as caught:
        function(*args)
    return str(caught.value)


@given(st.one_of(st.integers(-(10**9), 10**9), st.floats(allow_nan=False, allow_infinity=False)))
def test_every_finite_number_is_a_number(value):
    for number in (value, np.float64(value)):
        checked = check_number("noise", number)
        assert type(checked) is float
        assert checked == value


@cases("value", [np.nan, np.inf, -np.inf, "1", None, True, np.True_, [1.0], 1j])
def test_what_is_no_finite_number_is_refused(value):
    assert read_message(check_number, "noise", value) == (
        f"noise must be a finite number, got {value!r}."
    )


def test_a_number_too_large_for_a_float_is_refused():
    assert "must be a finite number at least 0" in _refused(10**400, at_least=0)


def _refused(value, **limits):
    with pytest.raises(ValueError, match="nu must be") as caught:
        check_number("nu", value, **limits)
    return str(caught.value)


@given(value=st.floats(-3, 3), low=st.sampled_from([-1, 0.0, 1]), high=st.sampled_from([1, 2.0]))
def test_limits_are_kept(value, low, high):
    for limits, inside in (
        ({"above": low}, value > low),
        ({"at_least": low}, value >= low),
        ({"at_most": high}, value <= high),
        ({"above": low, "at_most": high}, low < value <= high),
        ({"at_least": low, "at_most": high}, low <= value <= high),
    ):
        if inside:
            assert check_number("nu", value, **limits) == value
        else:
            _refused(value, **limits)


def test_limits_include_their_end_but_for_above():
    assert check_number("nu", 1, at_least=1, at_most=1) == 1.0
    _refused(0, above=0)


@cases(
    ("limits", "words"),
    [
        ({"above": 0}, "nu must be a finite number above 0, got -7."),
        ({"at_least": 0.5}, "nu must be a finite number at least 0.5, got -7."),
        ({"above": 0, "at_most": 1}, "nu must be a finite number above 0 and at most 1, got -7."),
        ({"above": 0, "hint": "Try 0.1."}, "nu must be a finite number above 0, got -7. Try 0.1."),
    ],
)
def test_refused_numbers_come_with_their_limits(limits, words):
    assert _refused(-7, **limits) == words


@cases("value", [1, 3, np.int64(7), 10**30])
def test_whole_numbers_from_one_are_counts(value):
    assert is_count(value)
    checked = check_count("n_init", value)
    assert type(checked) is int
    assert checked == value


@cases("value", [0, -1, 1.0, 2.5, np.float64(3), True, np.True_, "3", None, [1]])
def test_nothing_else_is_a_count(value):
    assert not is_count(value)
    message = read_message(check_count, "n_init", value)
    assert message == f"n_init must be a whole number from 1, got {value!r}."


@cases("value", ["mean", np.str_("mean"), None, 2])
def test_choices_are_accepted(value):
    assert check_choice("score", value, ("mean", None, 2)) is None


@cases("value", ["Mean", "", 3, False, ["mean"], np.array(["mean", "mean"])])
def test_other_choices_are_refused_with_all_that_there_are(value):
    message = read_message(check_choice, "score", value, ("mean", None, 2))
    assert message == f"score must be one of 'mean', None, 2; got {value!r}."


# --------------------------------------------------------------------------------------------- p


@given(st.one_of(st.integers(1, 10**6), st.floats(1, allow_nan=False)))
def test_every_p_from_one_to_infinity_passes(p):
    for number in (p, np.float64(p)):
        checked = check_p(number)
        assert type(checked) is float
        assert checked == p


@cases("p", [0.999, 0, -1, -np.inf, np.nan])
def test_p_below_one_is_refused(p):
    message = read_message(check_p, p)
    assert f"got {p!r}" in message
    assert 'float("inf")' in message


@cases("p", ["inf", "2", True, np.True_, None, [2], 2 + 0j])
def test_p_that_is_no_number_is_refused(p):
    message = read_message(check_p, p)
    assert f"got {p!r}" in message
    assert 'float("inf")' in message
