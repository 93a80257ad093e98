"""Training scores of each class, for rivals that treat normal rows and anomalies apart."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse.fusion.lp import LabelledScores

__all__ = ["WeightedScores", "by_class", "lower_quantile"]


class WeightedScores(NamedTuple):
    """Scores of the rows of one class.

    Attributes
    ----------
    scores : ndarray of shape (n, R)
        High = normal.
    sample_weight : ndarray of shape (n,)
        How much each row counts; above 0.
    """

    scores: Host
    sample_weight: Host

    @property
    def mean(self) -> Host:
        """The weighted mean of the rows, of shape (R,)."""
        return np.average(self.scores, axis=0, weights=self.sample_weight)

    def lower_quantile(self, share: float) -> Host:
        """Return the quantile of each column at this share of the rows."""
        return lower_quantile(self.scores, self.sample_weight, share)


def by_class(rows: LabelledScores) -> tuple[WeightedScores, WeightedScores | None]:
    """Return the normal rows, and the anomalies; None where there are none."""
    # C order, whatever the input: sums over rows then round in one order.
    sides = [
        WeightedScores(np.ascontiguousarray(rows.scores[side]), rows.sample_weight[side])
        for side in (rows.labels > 0, rows.labels < 0)
    ]
    return sides[0], sides[1] if rows.has_anomalies else None


def lower_quantile(values: Host, sample_weight: Host, share: float) -> Host:
    """Return the smallest value of each column that this share of the rows does not exceed."""
    return np.quantile(values, share, axis=0, weights=sample_weight, method="inverted_cdf")
