"""The prior weights of a fusion, as users state them: one number a column, or by name."""

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
    """The prior weights of R columns with these names, as floats.

    Examples
    --------
    >>> check_prior({"svdd": 0.5, "knn": 1}, 2, ["knn", "gmm"], True)
    array([1., 0.])
    """
    weights = check_values(_in_order(prior, names), "prior")
    if weights.shape != (R,):
        raise ValueError(
            f"prior has {weights.size} weights, but there are {R} columns of scores. Give one "
            "weight a column, or a mapping from names of columns to weights."
        )
    refused = ~(np.abs(weights) <= LARGEST)
    if refused.any():
        raise ValueError(
            f"prior must be finite weights of at most {LARGEST:g}, got {weights[refused][0]:g}. "
            "Scale the scores if weights must be larger."
        )
    if nonnegative and float(weights.min()) < 0.0:
        raise ValueError(
            f"prior holds a negative weight, {weights.min():g}, but nonnegative=True asks for "
            "weights ≥ 0. Use nonnegative=False, or a prior without it."
        )
    return weights


def _in_order(prior: Any, names: Sequence[str] | None) -> Any:
    """Weights by name in the order of the columns; anything else as it is."""
    if hasattr(prior, "to_dict") and all(isinstance(key, str) for key in prior.index):
        prior = prior.to_dict()  # a series of pandas with names
    if not isinstance(prior, Mapping):
        return prior
    if names is None:
        raise ValueError(
            "prior is a mapping, but the columns of S have no names. Pass S as a data frame with "
            "one column a detector, or prior as one weight a column."
        )
    if not any(name in prior for name in names):
        raise ValueError(
            f"prior has a weight for none of the columns: it names {quote(list(prior))}, the "
            f"columns are {quote(list(names))}. Name at least one of them."
        )
    return [prior.get(name, 0.0) for name in names]
