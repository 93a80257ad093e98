"""The rows that a fusion object learns from: checked, on the host, without those of weight zero."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lpfuse._arrays import Host, to_host
from lpfuse._checks.data import check_labels, check_sample_weight, check_scores


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


class Rows(NamedTuple):
    """Rows of one class that count, and how much each counts."""

    scores: Host
    counts: Host

    @property
    def mean(self) -> Host:
        """The weighted mean of the rows, of shape (R,)."""
        return np.average(self.scores, axis=0, weights=self.counts)


def by_class(S: Any, y: Any, sample_weight: Any) -> tuple[Rows, Rows | None]:
    """Checked rows as normal ones and anomalies; None where there is no anomaly."""
    scores = np.ascontiguousarray(to_host(check_scores(S)))
    labels, counts = labels_and_weights(len(scores), y, sample_weight)
    normal, anomalous = ((labels == side) & (counts > 0) for side in (1, -1))
    anomalies = Rows(scores[anomalous], counts[anomalous]) if anomalous.any() else None
    return Rows(scores[normal], counts[normal]), anomalies


def lower_quantile(values: Host, counts: Host, share: float) -> Host:
    """The least value of each column such that at least this share of the rows is not above it."""
    return np.quantile(values, share, axis=0, weights=counts, method="inverted_cdf")
