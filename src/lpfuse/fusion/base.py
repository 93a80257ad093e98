"""What every fusion object shares: from fused scores to decisions, and the weighted sum."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays import Array, Host, like, namespace
from lpfuse._validation import check_scores


class Fusion(OutlierMixin, BaseEstimator):
    """Decisions from ``score_samples`` and ``offset_``; a subclass provides both."""

    offset_: Any  # a float; an attribute here, a property there

    def score_samples(self, S: Any) -> Array:
        """Fused score of each row, high = normal.

        Parameters
        ----------
        S : array-like of shape (n, R)
            Scores, high = normal.

        Returns
        -------
        array of shape (n,)
            Fused scores.
        """
        raise NotImplementedError

    def decision_function(self, S: Any) -> Array:
        """``score_samples(S) − offset_``: negative for anomalies.

        Parameters
        ----------
        S : array-like of shape (n, R)
            Scores, high = normal.

        Returns
        -------
        array of shape (n,)
            Signed distance to the threshold.
        """
        return self.score_samples(S) - self.offset_

    def predict(self, S: Any) -> Array:
        """+1 for normal rows, −1 for anomalies.

        Parameters
        ----------
        S : array-like of shape (n, R)
            Scores, high = normal.

        Returns
        -------
        array of shape (n,)
            Integers +1 and −1.
        """
        decision = self.decision_function(S)
        xp = namespace(decision)
        return 2 * xp.astype(decision >= 0, xp.int64) - 1


class WeightedSum(Fusion):
    """A fused score ``Σ_j w_j s_ij`` from ``weights_``; a subclass learns or sets them."""

    weights_: Host

    def score_samples(self, S: Any) -> Array:
        """Fused score ``Σ_j w_j s_ij`` of each row, high = normal.

        Parameters
        ----------
        S : array-like of shape (n, R)
            Scores, high = normal.

        Returns
        -------
        array of shape (n,)
            Fused scores.
        """
        S, weights = self._checked(S)
        return S @ weights

    def contributions(self, S: Any) -> Array:
        """What each detector adds to the fused score; rows sum to ``score_samples(S)``.

        Parameters
        ----------
        S : array-like of shape (n, R)
            Scores, high = normal.

        Returns
        -------
        array of shape (n, R)
            ``w_j s_ij``.
        """
        S, weights = self._checked(S)
        return S * weights

    def _checked(self, S: Any) -> tuple[Array, Array]:
        check_is_fitted(self)
        S = check_scores(S, estimator=self)
        return S, namespace(S).astype(like(self.weights_, S), S.dtype, copy=False)
