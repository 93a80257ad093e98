"""The one entrance for the parameters of estimators: numbers, counts, choices and p.

Like user data, they are checked once, in ``fit``, and trusted below.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from numbers import Integral, Real
from typing import Any

import numpy as np


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
            f"p must be a number in [1, inf], got {p!r} of type {type(p).__name__}. "
            'Write float("inf") for the largest one.'
        )
    if not float(p) >= 1:  # NaN included
        raise ValueError(
            f"p must be in [1, inf], got {p!r}. Use p=1 for the sparsest weights and "
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
    name : str
        What the parameter is called.
    value : object
        What came.
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
            if np.isfinite(number) and _within(number, above, at_least, at_most):
                return number
    limits = [
        f"{word} {limit:g}"
        for word, limit in (("above", above), ("at least", at_least), ("at most", at_most))
        if limit is not None and np.isfinite(limit)
    ]
    expected = " ".join(["a finite number", " and ".join(limits)]).strip()
    raise ValueError(f"{name} must be {expected}, got {value!r}. {hint}".strip())


def _within(value: float, above: float | None, at_least: float | None, at_most: float) -> bool:
    return (
        (above is None or value > above)
        and (at_least is None or value >= at_least)
        and (value <= at_most)
    )


def is_count(value: Any) -> bool:
    """Whether a parameter is a whole number from 1.

    Examples
    --------
    >>> is_count(3), is_count(0), is_count(3.0), is_count(True)
    (True, False, False, False)
    """
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1


def check_count(name: str, value: Any) -> int:
    """A parameter that must be a whole number from 1.

    Parameters
    ----------
    name : str
        What the parameter is called.
    value : object
        What came.

    Examples
    --------
    >>> check_count("n_init", 3)
    3
    """
    if not is_count(value):
        raise ValueError(f"{name} must be a whole number from 1, got {value!r}.")
    return int(value)


def check_choice(name: str, value: Any, choices: Sequence[Any]) -> None:
    """A parameter that must be one of a few values.

    Parameters
    ----------
    name : str
        What the parameter is called.
    value : object
        What came.
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
        raise ValueError(f"{name} must be one of {told}; got {value!r}.")
