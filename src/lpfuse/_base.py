"""From a score and a threshold to decisions: what detectors and fusion objects share."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator, OutlierMixin

from lpfuse._arrays import Array, namespace


class Scorer(OutlierMixin, BaseEstimator):
    """Decisions from ``score_samples`` and ``offset_``; a subclass provides both."""

    offset_: Any  # a float; an attribute here, a property there

    def score_samples(self, X: Any) -> Array:
        """Score of each row, high = normal.

        Parameters
        ----------
        X : array-like of shape (n, columns)
            Rows with the columns that `fit` saw.

        Returns
        -------
        array of shape (n,)
            Scores.
        """
        raise NotImplementedError

    def decision_function(self, X: Any) -> Array:
        """``score_samples(X) − offset_``: negative for anomalies.

        Parameters
        ----------
        X : array-like of shape (n, columns)
            Rows with the columns that `fit` saw.

        Returns
        -------
        array of shape (n,)
            Signed distance to the threshold.
        """
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> Array:
        """+1 for normal rows, −1 for anomalies.

        Parameters
        ----------
        X : array-like of shape (n, columns)
            Rows with the columns that `fit` saw.

        Returns
        -------
        array of shape (n,)
            Integers +1 and −1.
        """
        return signs(self.decision_function(X))


def signs(decision: Array) -> Array:
    """+1 where the signed distance to a threshold is not negative, −1 elsewhere."""
    xp = namespace(decision)
    return 2 * xp.astype(decision >= 0, xp.int64) - 1
