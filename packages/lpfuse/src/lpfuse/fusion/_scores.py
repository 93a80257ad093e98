"""The scores that a fusion learns from: checked, on the host, without rows of weight zero."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lpfuse._arrays.operations import Host, to_host
from lpfuse._checks.arguments import check_labels, check_sample_weight
from lpfuse._checks.tables import check_scores, column_names, warn_about_columns


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
        """Of each column the least score that at least this share of the rows does not exceed."""
        return lower_quantile(self.scores, self.sample_weight, share)


class LabelledScores(NamedTuple):
    """Scores of the rows to learn from, with their labels.

    Attributes
    ----------
    scores : ndarray of shape (n, R)
        High = normal.
    labels : ndarray of shape (n,)
        +1 normal, −1 anomaly; some row is normal.
    sample_weight : ndarray of shape (n,)
        How much each row counts; above 0.
    """

    scores: Host
    labels: Host
    sample_weight: Host

    @property
    def has_anomalies(self) -> bool:
        """Whether there is something to tell normal rows from."""
        return bool((self.labels < 0).any())

    def by_class(self) -> tuple[WeightedScores, WeightedScores | None]:
        """The normal rows, and the anomalies; None where there are none."""
        # Row after row in memory, whatever came: sums over rows then round in one order.
        sides = [
            WeightedScores(np.ascontiguousarray(self.scores[side]), self.sample_weight[side])
            for side in (self.labels > 0, self.labels < 0)
        ]
        return sides[0], sides[1] if self.has_anomalies else None

    def balanced_weight(self) -> Host:
        """Sample weights that give both classes the same total, and keep the total of all rows."""
        totals = [float(self.sample_weight[self.labels == side].sum()) for side in (1.0, -1.0)]
        share = np.where(self.labels > 0, *(0.5 / total for total in totals))
        return self.sample_weight * share * sum(totals)


def labelled_scores(S: Any, y: Any, sample_weight: Any, *, warn: bool = False) -> LabelledScores:
    """What a fit was given, checked; a row of weight 0 is as if it were not there.

    Parameters
    ----------
    S : array-like of shape (n, R)
        Scores, high = normal.
    y : array-like of shape (n,), or None
        +1 normal, −1 anomaly; None: all rows are normal.
    sample_weight : array-like of shape (n,), or None
        How much each row counts; None: all the same.
    warn : bool, default=False
        Whether to warn of columns that carry no information.
    """
    checked = check_scores(S)
    labels, weights = labels_and_weights(int(checked.shape[0]), y, sample_weight)
    if warn:
        warn_about_columns(checked, column_names(S))
    kept = weights > 0
    return LabelledScores(to_host(checked)[kept], labels[kept], weights[kept])


def labels_and_weights(n: int, y: Any, sample_weight: Any) -> tuple[Host, Host]:
    """Labels ±1 and weights of n rows, all normal and alike where none are given.

    Some normal row must have a weight above zero.
    """
    labels, weights = check_labels(y, n), check_sample_weight(sample_weight, n)
    labels = np.ones(n) if labels is None else labels
    weights = np.ones(n) if weights is None else weights
    if not weights[labels > 0].any():
        raise ValueError(
            "sample_weight is zero for every normal row, and of those that count y holds only −1 "
            "(anomaly). Give some normal row a weight above zero."
        )
    return labels, weights


def lower_quantile(values: Host, sample_weight: Host, share: float) -> Host:
    """Of each column the least value that at least this share of the rows does not exceed."""
    return np.quantile(values, share, axis=0, weights=sample_weight, method="inverted_cdf")
