"""Fusion rules that learn nothing: the yardstick for those that do."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from lpfuse._validation import check_labels, check_sample_weight, check_scores, remember_columns
from lpfuse.fusion.base import WeightedSum

RULES = ("sum",)


class FixedRule(WeightedSum):
    """Fuse detectors by a rule without parameters.

    With ``s_ij`` the score that detector j gives to row i:

    ===== =======================
    rule  fused score of row i
    ===== =======================
    sum   ``Σ_j s_ij``
    ===== =======================

    Parameters
    ----------
    rule : {"sum"}, default="sum"
        Which rule.

    Attributes
    ----------
    weights_ : ndarray of shape (R,)
        The weight of each detector: ones.
    offset_ : float
        Scores from here on count as normal: 0, the middle of signed scores.
    n_features_in_ : int
        Number of detectors R.
    feature_names_in_ : ndarray of shape (R,)
        Names of the detectors, when `S` had them.

    Examples
    --------
    >>> from lpfuse import FixedRule
    >>> S = [[1.0, 0.5], [-1.0, 0.25]]
    >>> rule = FixedRule("sum").fit(S)
    >>> rule.score_samples(S)
    array([ 1.5 , -0.75])
    >>> rule.predict(S)
    array([ 1, -1])
    """

    def __init__(self, rule: str = "sum") -> None:
        self.rule = rule

    def fit(self, S: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Check the data; there is nothing to learn from it but its shape.

        Parameters
        ----------
        S : array-like of shape (n, R)
            Scores, high = normal.
        y : array-like of shape (n,), optional
            +1 normal, −1 anomaly. Checked, otherwise unused.
        sample_weight : array-like of shape (n,), optional
            Checked, otherwise unused.

        Returns
        -------
        FixedRule
            The rule, ready to score.
        """
        if self.rule not in RULES:
            raise ValueError(f"rule must be one of {', '.join(RULES)}; got {self.rule!r}.")
        scores = check_scores(S)
        check_labels(y, scores.shape[0])
        check_sample_weight(sample_weight, scores.shape[0])
        self.weights_ = np.ones(scores.shape[1])
        self.offset_ = 0.0
        remember_columns(self, S)
        return self
