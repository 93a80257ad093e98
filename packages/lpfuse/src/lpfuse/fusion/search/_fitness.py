"""What searched weights maximise: the area under the ROC curve, or a separation without labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays.operations import Host
from lpfuse._checks.tables import no_spread
from lpfuse.fusion._scores import WeightedScores

# The separation is at most 1, and one pair of rows that changes sides moves the AUC of m pairs by
# 1/m, a tie by half that: up to half a million pairs the separation decides among equals only.
TIE_BREAK = 1e-6
# Chosen by hand, as the default rate of false alarms: there is no study behind it.
REFERENCE_SHARE = 0.05
BATCH_NUMBERS = 2**20  # fused scores in memory at a time: 8 MB, whatever the number of candidates


class Fitness:
    r"""How good weights are; high is good, and multiples of the weights are equally good.

    With anomalies it is the area under the ROC curve of the fused score, and among weights with the
    same area the separation decides:

    .. math::

        \mathrm{AUC}(w) + 10^{-6} \, \mathrm{sep}(w), \qquad
        \mathrm{sep}(w) = \frac{\Delta}{\sqrt{\Delta^2 + 2 (v_+ + v_-)}}

    where ``Δ`` is the difference between the mean fused scores of the two classes and ``v±`` are
    their variances: the correlation of score and label if both classes were equally large. Without
    anomalies it is the separation of the normal rows from one reference outlier, to which every
    detector gives the 5 % quantile of its own normal scores. So detectors are measured by their own
    spread: a constant one has the separation 0, wherever its constant lies, and detectors that do
    not err together gain by being mixed.

    Parameters
    ----------
    normal : WeightedScores
        Scores and sample weights of the normal rows.
    anomalies : WeightedScores, or None
        Those of the anomalies.

    Attributes
    ----------
    members : ndarray of int
        Detectors with any spread: the others cannot change the order of the rows.
    """

    def __init__(self, normal: WeightedScores, anomalies: WeightedScores | None) -> None:
        tables = [rows.scores for rows in (normal, anomalies) if rows is not None]
        low, high = (
            pick([pick(table, axis=0) for table in tables], axis=0) for pick in (np.min, np.max)
        )
        self.members = np.flatnonzero(~no_spread(low, high))
        scale = max(np.abs(low).max(), np.abs(high).max()) or 1.0

        def standard(rows: WeightedScores) -> WeightedScores:
            """Squares neither overflow nor vanish, and a constant column is exactly 0."""
            return rows._replace(scores=rows.scores / scale - low / scale)

        self.normal = standard(normal)
        self.anomalies = None if anomalies is None else standard(anomalies)
        if self.anomalies is None:
            reference = self.normal.lower_quantile(REFERENCE_SHARE)
            self.difference = self.normal.mean - reference
            self.covariance = _covariance(self.normal)
        else:
            self.difference = self.normal.mean - self.anomalies.mean
            self.covariance = _covariance(self.normal) + _covariance(self.anomalies)

    def __call__(self, weights: Host) -> Host:
        """Fitness of each candidate.

        Parameters
        ----------
        weights : ndarray of shape (k, R)
            Candidates.

        Returns
        -------
        ndarray of shape (k,)
            Their fitness.
        """
        separation = self._separation(weights)
        return separation if self.anomalies is None else self._auc(weights) + TIE_BREAK * separation

    @property
    def size(self) -> int:
        """Number of detectors R."""
        return len(self.difference)

    def among(self, members: NDArray[Any]) -> Fitness:
        """The fitness of weights of these detectors, the others having none."""

        def narrowed(rows: WeightedScores) -> WeightedScores:
            return rows._replace(scores=rows.scores[:, members])

        anomalies = None if self.anomalies is None else narrowed(self.anomalies)
        return Fitness(narrowed(self.normal), anomalies)

    def _separation(self, weights: Host) -> Host:
        difference = weights @ self.difference
        variance = np.einsum("kr,kr->k", weights @ self.covariance, weights)
        spread = np.sqrt(difference**2 + 2 * variance.clip(min=0.0))
        return np.divide(difference, spread, out=np.zeros_like(spread), where=spread > 0)

    def _auc(self, weights: Host) -> Host:
        normal, anomalies = self.normal, self.anomalies
        assert anomalies is not None
        size = max(1, BATCH_NUMBERS // (len(normal.scores) + len(anomalies.scores)))
        batches = (weights[start : start + size] for start in range(0, len(weights), size))
        return np.array(
            [
                _auc(high, normal.sample_weight, low, anomalies.sample_weight)
                for batch in batches
                for high, low in zip(
                    batch @ normal.scores.T, batch @ anomalies.scores.T, strict=True
                )
            ]
        )


def _covariance(rows: WeightedScores) -> Host:
    centred = rows.scores - rows.mean
    return (centred.T * (rows.sample_weight / rows.sample_weight.sum())) @ centred


def _auc(high: Host, high_weight: Host, low: Host, low_weight: Host) -> float:
    """The share of pairs in which `high` is above `low`; a tie is half a pair."""
    order = np.argsort(high)
    passed = np.append(0.0, np.cumsum(high_weight[order]))
    high = high[order]
    below, not_above = (passed[np.searchsorted(high, low, side)] for side in ("left", "right"))
    won = 2 * passed[-1] - below - not_above
    return float(low_weight @ won / (2 * passed[-1] * low_weight.sum()))
