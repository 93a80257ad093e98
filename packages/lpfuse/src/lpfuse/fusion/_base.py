"""The weighted sum: what fusion objects with one weight a detector share."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays import Array, Host, like, namespace
from lpfuse._base import Scorer, lazily
from lpfuse._checks.tables import check_scores


class WeightedSum(Scorer):
    """A fused score ``Σ_j w_j s_ij`` from ``weights_``; a subclass learns or sets them."""

    weights_: Host

    @lazily()
    def score_samples(self, S: Any) -> Array:
        """Fused score ``Σ_j w_j s_ij`` of each row, high = normal.

        Parameters
        ----------
        S : array-like, or Dask array or data frame, of shape (n, R)
            Scores, high = normal.

        Returns
        -------
        array of shape (n,)
            Fused scores.
        """
        S, weights = self._checked(S)
        return S @ weights

    @lazily(width=lambda fusion: fusion.n_features_in_)
    def contributions(self, S: Any) -> Array:
        """What each detector adds to the fused score; rows sum to ``score_samples(S)``.

        Parameters
        ----------
        S : array-like, or Dask array or data frame, of shape (n, R)
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
