"""The entrance for what comes beside a table: labels, weights, other values a row, and parameters.

All are checked once, in ``fit``, and trusted below. What does not pass is refused with a message
that says what was expected, what came, and what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from numbers import Integral, Real
from typing import Any

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays.operations import (
    Array,
    Host,
    is_blocked,
    is_numpy,
    like,
    namespace,
    to_host,
    total,
    without_mask,
)
from lpfuse._checks.messages import (
    LARGEST_WEIGHT,
    LEAST_WEIGHT,
    ONLY_ANOMALIES,
    ZERO_AND_ONE,
    bad_weights,
    how_to_label,
    not_one_a_row,
    not_one_dimensional,
    refuse_cut_off,
    refuse_sum_of_weights,
)
from lpfuse._format import quote


def check_labels(
    y: Any, n: int, *, unlabelled: bool = False, zero: int | None = None
) -> Host | None:
    """The labels as +1.0 (normal) and −1.0 (anomaly), or None where all rows are normal.

    Parameters
    ----------
    y : array-like of shape (n,), or None
        +1 normal, −1 anomaly. Any other labels are refused with the line that maps them.
    n : int
        Number of rows of the scores.
    unlabelled : bool, default=False
        Whether 0 is allowed, for rows of which nothing is known.
    zero : 0, optional
        What a user passed as ``unlabelled=``. Without it 0 and 1 alone, normal and anomaly in PyOD,
        are refused.

    Examples
    --------
    >>> check_labels([1, -1, 1], 3)
    array([ 1., -1.,  1.])
    """
    if y is None:
        return None
    labels = one_a_row(y, n, "y", "label")
    known = (-1, 0, 1) if unlabelled else (-1, 1)
    if labels.dtype.kind not in "iuf" or not np.isin(labels, known).all():
        raise ValueError(how_to_label(labels.tolist(), unlabelled))
    check_choice("unlabelled", zero, (None, 0))
    if unlabelled and zero is None and set(np.unique(labels)) == {0, 1}:
        raise ValueError(ZERO_AND_ONE)
    if not (labels >= 0 if unlabelled else labels > 0).any():
        raise ValueError(ONLY_ANOMALIES)
    return labels.astype(np.float64)


def labels_beside(y: Any, S: Array) -> Array | None:
    """The labels of rows S as `check_labels` wants them, in the library and place of S.

    Labels that are on the same device are looked at there.
    """
    n = int(S.shape[0])
    if _is_beside(y, S, "y") and tuple(y.shape) == (n,):
        xp = namespace(y)
        labels = xp.astype(y, xp.float64)
        if bool(xp.all(xp.abs(labels) == 1.0)) and bool(xp.any(labels > 0.0)):
            return labels
    labels = check_labels(y, n)
    return None if labels is None else like(labels, S)


def weights_beside(sample_weight: Any, S: Array) -> Array | None:
    """The weights of rows S as `check_sample_weight` wants them, in the library and place of S."""
    n = int(S.shape[0])
    if _is_beside(sample_weight, S, "sample_weight") and tuple(sample_weight.shape) == (n,):
        xp = namespace(sample_weight)
        weights = xp.astype(sample_weight, xp.float64)
        usable = xp.isfinite(weights) & (weights >= 0.0)
        if bool(xp.all(usable)) and LEAST_WEIGHT < total(weights) < LARGEST_WEIGHT:
            return weights
    weights = check_sample_weight(sample_weight, n)
    return None if weights is None else like(weights, S)


def _is_beside(vector: Any, S: Array, name: str) -> bool:
    """Whether a vector is of the library and device of S; another device is refused.

    What NumPy knows, lists and data frames included, may go with rows on any device.
    """
    if is_numpy(vector) or is_blocked(vector) or not array_api_compat.is_array_api_obj(vector):
        return False
    here, there = array_api_compat.device(S), array_api_compat.device(vector)
    library, other = namespace(S).__name__, namespace(vector).__name__
    if library != other or here != there:
        raise ValueError(
            f"S and {name} must be on one device, got S on {here!s} and {name} on {there!s}"
            f"{'' if library == other else ' of another array library'}. Move {name} to where S "
            "is, or pass it as a NumPy array."
        )
    return not is_numpy(S)


def check_sample_weight(sample_weight: Any, n: int) -> Host | None:
    """The weight of each row, not negative, with a sum to compute with; None where all are alike.

    Parameters
    ----------
    sample_weight : array-like of shape (n,), or None
        The factors ``c_i`` of the rows' losses.
    n : int
        Number of rows of the scores.

    Examples
    --------
    >>> check_sample_weight([1, 0, 2], 3)
    array([1., 0., 2.])
    """
    if sample_weight is None:
        return None
    weights = one_a_row(sample_weight, n, "sample_weight", "number")
    if weights.dtype.kind not in "biuf":
        raise ValueError(f"sample_weight must be numbers, got {weights.dtype} values.")
    with np.errstate(over="ignore"):  # of long doubles
        weights = weights.astype(np.float64)
    refused = ~(np.isfinite(weights) & (weights >= 0))
    if refused.any():
        row = int(np.flatnonzero(refused)[0])
        raise ValueError(bad_weights(weights[row], int(refused.sum()), row))
    with np.errstate(over="ignore"):
        refuse_sum_of_weights(float(weights.sum()))
    return weights


def check_values(values: Any, name: str, *, may_miss: bool = False) -> Host:
    """One number a row, as a one-dimensional float64 array.

    Parameters
    ----------
    values, name : array-like of shape (n,), str
        What came, and what it is called.
    may_miss : bool, default=False
        Whether NaN may stand for a number that is missing.

    Examples
    --------
    >>> check_values([1, 2], "scores")
    array([1., 2.])
    """
    from sklearn.utils.validation import check_array  # late: commands check their options at once

    array: Host = check_array(
        _plain(values),
        dtype=np.float64,
        ensure_2d=False,
        allow_nd=True,
        ensure_all_finite=False,
        ensure_min_samples=0,
        input_name=name,
    )
    if array.ndim != 1:
        raise ValueError(not_one_dimensional(name, f"shape {array.shape}"))
    missing = np.isnan(array)
    if missing.any() and not may_miss:
        raise ValueError(
            f"{name} must be numbers, but {missing.sum()} of {array.size} are NaN. "
            "Leave those rows out."
        )
    return array


def check_row_names(names: Any, n: int, argument: str) -> NDArray[Any] | None:
    """One name a row, such as the group that it belongs to; None where there are none.

    Examples
    --------
    >>> check_row_names(["a", "b", "a"], 3, "groups")
    array(['a', 'b', 'a'], dtype='<U1')
    """
    return None if names is None else one_a_row(names, n, argument, "name")


def one_a_row(values: Any, n: int, argument: str, noun: str) -> NDArray[Any]:
    """`values` as a NumPy array with one entry a row of the scores."""
    if is_blocked(values):
        raise TypeError(
            f"{argument} is a Dask collection, but the rows are in memory: pass "
            f"{argument}.compute()."
        )
    try:
        array = np.asarray(_plain(values))
        if array.dtype == object:
            array = np.array(array.tolist())  # Python numbers in an object array are numbers
    except ValueError as error:  # lists of unequal lengths
        raise ValueError(f"{argument} must hold one {noun} for each row: {error}") from error
    if array.shape != (n,):
        raise ValueError(not_one_a_row(argument, noun, n, array.shape))
    return array


def _plain(values: Any) -> Any:
    """Arrays of torch and the like, and those with a mask, as NumPy's; anything else as it is."""
    if getattr(values, "base", None) is not None:
        refuse_cut_off(values)
    foreign = array_api_compat.is_array_api_obj(values) and not is_numpy(values)
    return to_host(values) if foreign else without_mask(values)


def check_p(p: Any) -> float:
    """The exponent of the norm as a float in [1, ∞].

    Parameters
    ----------
    p : float
        1 favours few detectors, ``float("inf")`` all of them.

    Examples
    --------
    >>> check_p(2), check_p(float("inf"))
    (2.0, inf)
    """
    if not isinstance(p, Real) or isinstance(p, bool | np.bool_):
        raise ValueError(
            f"p must be a number in [1, inf], got {quote(p)} of type {type(p).__name__}. "
            'Write float("inf") for the largest one.'
        )
    if not float(p) >= 1:  # NaN included
        raise ValueError(
            f"p must be in [1, inf], got {quote(p)}. Use p=1 for the sparsest weights and "
            'p=float("inf") for the most even ones.'
        )
    return float(p)


def check_number(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float = np.inf,
    hint: str = "",
) -> float:
    """A parameter that must be a finite number within limits.

    Parameters
    ----------
    name, value : str, object
        What the parameter is called, and what came.
    above, at_least, at_most : float, optional
        Its limits; `above` itself is not allowed.
    hint : str, optional
        What to do, for the message.

    Examples
    --------
    >>> check_number("nu", 0.5, above=0, at_most=1)
    0.5
    >>> check_number("nu", 2, above=0, at_most=1)
    Traceback (most recent call last):
    ValueError: nu must be a finite number above 0 and at most 1, got 2.
    """
    if isinstance(value, Real) and not isinstance(value, bool | np.bool_):
        with suppress(OverflowError):
            number = float(value)
            low = (above is None or number > above) and (at_least is None or number >= at_least)
            if low and number <= at_most and np.isfinite(number):
                return number
    limits = [
        f"{word} {limit:g}"
        for word, limit in (("above", above), ("at least", at_least), ("at most", at_most))
        if limit is not None and np.isfinite(limit)
    ]
    expected = " ".join(["a finite number", " and ".join(limits)]).strip()
    raise ValueError(f"{name} must be {expected}, got {quote(value)}. {hint}".strip())


def check_share(name: str, value: Any, of: str, *, at_most: float = 0.5) -> float:
    """A parameter that must be a share of some rows, above 0 and no percentage.

    Examples
    --------
    >>> check_share("rate", 5, of="the rows", at_most=1)
    Traceback (most recent call last):
    ValueError: rate must be a finite number above 0 and at most 1, got 5. It is a share of the \
rows: write 0.05 for 5 %.
    """
    hint = f"It is a share of {of}: write 0.05 for 5 %."
    return check_number(name, value, above=0, at_most=at_most, hint=hint)


def is_count(value: Any) -> bool:
    """Whether a parameter is a whole number from 1: neither 3.0 nor True is."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1


def check_count(name: str, value: Any) -> int:
    """A parameter, called so, that must be a whole number from 1.

    Examples
    --------
    >>> check_count("n_init", 3)
    3
    """
    if not is_count(value):
        raise ValueError(f"{name} must be a whole number from 1, got {quote(value)}.")
    return int(value)


def check_choice(name: str, value: Any, choices: Sequence[Any]) -> None:
    """A parameter that must be one of a few values.

    Parameters
    ----------
    name, value : str, object
        What the parameter is called, and what came.
    choices : sequence
        What may come.

    Examples
    --------
    >>> check_choice("score", "mode", ["mean", "median"])
    Traceback (most recent call last):
    ValueError: score must be one of 'mean', 'median'; got 'mode'.
    """
    if not any(isinstance(value, type(choice)) and value == choice for choice in choices):
        told = ", ".join(map(repr, choices))
        raise ValueError(f"{name} must be one of {told}; got {quote(value)}.")
