"""Weights of detectors, as users state them: one number a column, or by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse._checks.arguments import check_values
from lpfuse._format import quote

# Of prior weights and of the radius around them, by hand: scores of 1e90 can still be weighed.
LARGEST = 1e9


def check_prior(prior: Any, R: int, names: Sequence[str] | None, nonnegative: bool) -> Host:
    """The prior weights of R columns with these names, as floats; none negative if so asked for.

    Examples
    --------
    >>> check_prior({"svdd": 0.5, "knn": 1}, 2, ["knn", "gmm"], True)
    array([1., 0.])
    """
    weights = _one_a_column(prior, R, names, "prior")
    if nonnegative and float(weights.min()) < 0.0:
        raise ValueError(
            f"prior holds a negative weight, {weights.min():g}, but nonnegative=True asks for "
            "weights ≥ 0. Use nonnegative=False, or a prior without it."
        )
    return weights


def check_weights(weights: Any, R: int, names: Sequence[str] | None) -> Host:
    """Weights ≥ 0 of R columns with these names, of which one is positive at least, as floats.

    Examples
    --------
    >>> check_weights([1, 3], 2, None)
    array([1., 3.])
    """
    found = _one_a_column(weights, R, names, "weights")
    if float(found.min()) < 0.0 or not found.any():
        raise ValueError(
            f"weights must not be negative, and one of them positive, got {quote(found.tolist())}."
            " A detector whose scores are high for anomalies needs its sign turned: see "
            "lpfuse.adapters."
        )
    return found


def _one_a_column(weights: Any, R: int, names: Sequence[str] | None, called: str) -> Host:
    """Finite weights, one for each of R columns."""
    found = check_values(_in_order(weights, names, called), called)
    if found.shape != (R,):
        raise ValueError(
            f"{called} has {found.size} weights, but there are {R} columns of scores. Give one "
            "weight a column, or a mapping from names of columns to weights."
        )
    refused = ~(np.abs(found) <= LARGEST)
    if refused.any():
        raise ValueError(
            f"{called} must be finite weights of at most {LARGEST:g}, got {found[refused][0]:g}. "
            "Scale the scores if weights must be larger."
        )
    return found


def _in_order(prior: Any, names: Sequence[str] | None, called: str) -> Any:
    """Weights by name in the order of the columns; anything else as it is."""
    if hasattr(prior, "to_dict") and all(isinstance(key, str) for key in prior.index):
        prior = prior.to_dict()  # a series of pandas with names
    if not isinstance(prior, Mapping):
        return prior
    if names is None:
        raise ValueError(
            f"{called} is a mapping, but the columns of S have no names. Pass S as a data frame "
            f"with one column a detector, or {called} as one weight a column."
        )
    if not any(name in prior for name in names):
        raise ValueError(
            f"{called} has a weight for none of the columns: it names {quote(list(prior))}, the "
            f"columns are {quote(list(names))}. Name at least one of them."
        )
    return [prior.get(name, 0.0) for name in names]
