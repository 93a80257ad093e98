"""Rules for rows with missing cells: an expert a column, and a rule over those that have a score.

In the style of Juszczak and Duin (2004): instead of filling gaps, one-class classifiers of single
features are combined, of which a row needs some only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from lpfuse._arrays.operations import Host

__all__ = ["RULES", "AvailableRule", "ColumnExperts"]

# Scores are log densities, so that their mean is the product rule of densities (its n-th root).
RULES: Mapping[str, Callable[[Host], Host]] = MappingProxyType({
    "product": lambda scores: np.nanmean(scores, axis=1),
    "sum": lambda scores: np.log(np.nanmean(np.exp(np.clip(scores, -300, 300)), axis=1) + 1e-300),
    "max": lambda scores: np.nanmax(scores, axis=1),
    "min": lambda scores: np.nanmin(scores, axis=1),
})  # fmt: skip


class ColumnExperts:
    """A normal density for each column; NaN where the cell is missing."""

    def fit(self, X: Host, y: Any = None) -> Self:
        """Learn mean and deviation of each column from its cells that are there."""
        self.mean_ = np.nanmean(X, axis=0)
        deviation = np.nanstd(X, axis=0)
        self.deviation_ = np.where(deviation > 0, deviation, 1.0)
        return self

    def scores(self, X: Host) -> Host:
        """Log densities, of shape (n, d), up to a constant of each column."""
        return -0.5 * ((X - self.mean_) / self.deviation_) ** 2


class AvailableRule:
    """A fixed rule over the scores that are there; a row without any has the lowest of training.

    Parameters
    ----------
    rule : str
        One of `RULES`.

    Examples
    --------
    >>> import numpy as np
    >>> rule = AvailableRule("max").fit(np.array([[-1.0, -2.0], [-3.0, -1.0]]))
    >>> rule.score_samples(np.array([[np.nan, -2.0], [-1.0, -2.0], [np.nan, np.nan]]))
    array([-2., -1., -1.])
    """

    def __init__(self, rule: str = "product") -> None:
        self.rule = rule

    def fit(self, S: Host, y: Any = None) -> Self:
        """Keep the lowest score of the training rows."""
        known = ~np.isnan(S).all(axis=1)
        self.lowest_ = float(RULES[self.rule](S[known]).min())
        return self

    def score_samples(self, S: Host) -> Host:
        """Fused scores, of shape (n,)."""
        known = ~np.isnan(S).all(axis=1)
        fused = np.full(len(S), self.lowest_)
        if known.any():
            fused[known] = RULES[self.rule](S[known])
        return fused
