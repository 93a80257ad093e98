"""Where rows lie, for fusions whose weights depend on it: among their features, or their scores."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays.operations import Array, Host, to_host
from lpfuse._base import Scorer, signs
from lpfuse._checks.tables import check_features, check_scores, remember_columns
from lpfuse.fusion._scores import labels_and_weights


class PositionedScores(NamedTuple):
    """Scores of the rows to learn from, with the position of each row.

    Attributes
    ----------
    scores : ndarray of shape (n, R)
        High = normal.
    labels : ndarray of shape (n,)
        +1 normal, −1 anomaly; some row is normal.
    sample_weight : ndarray of shape (n,)
        How much each row counts; above 0.
    positions : ndarray of shape (n, d)
        Standardised features, or else the scores.
    """

    scores: Host
    labels: Host
    sample_weight: Host
    positions: Host


class PositionedFusion(Scorer):
    """A fusion whose weights depend on where a row lies: among its features, or else its scores."""

    uses_features = True  # `fit` and the scoring methods take the features X beside the scores

    feature_scaler_: Any  # a StandardScaler; None where positions are scores

    def score_samples(self, S: Any, X: Any = None) -> Array:  # type: ignore[override]
        """Fused score of each row, high = normal.

        Parameters
        ----------
        S : array-like of shape (n, R)
            Scores, high = normal.
        X : array-like of shape (n, d), optional
            Features of the same rows, if `fit` had them.

        Returns
        -------
        array of shape (n,)
            Fused scores.
        """
        raise NotImplementedError

    def decision_function(self, S: Any, X: Any = None) -> Array:  # type: ignore[override]
        """``score_samples(S, X) − offset_``: negative for anomalies.

        Parameters
        ----------
        S : array-like of shape (n, R)
            Scores, high = normal.
        X : array-like of shape (n, d), optional
            Features of the same rows, if `fit` had them.

        Returns
        -------
        array of shape (n,)
            Signed distance to the threshold.
        """
        return self.score_samples(S, X) - self.offset_

    def predict(self, S: Any, X: Any = None) -> Array:  # type: ignore[override]
        """+1 for normal rows, −1 for anomalies.

        Parameters
        ----------
        S : array-like of shape (n, R)
            Scores, high = normal.
        X : array-like of shape (n, d), optional
            Features of the same rows, if `fit` had them.

        Returns
        -------
        array of shape (n,)
            Integers +1 and −1.
        """
        return signs(self.decision_function(S, X))

    def _positioned(self, S: Any, X: Any) -> tuple[Array, Host, Host]:
        """The checked scores as they came, the same on the host, and the positions of the rows."""
        check_is_fitted(self)
        S = check_scores(S, estimator=self)
        scores = to_host(S)
        return S, scores, _positions(scores, X, self.feature_scaler_)


def positioned_scores(
    S: Any, y: Any, sample_weight: Any, X: Any
) -> tuple[PositionedScores, StandardScaler | None]:
    """What a fit was given, checked, and the scaler of the features (None without features).

    Parameters
    ----------
    S : array-like of shape (n, R)
        Scores, high = normal.
    y, sample_weight : array-like of shape (n,), or None
        Labels ±1, and how much each row counts; rows of weight 0 are left out.
    X : array-like of shape (n, d), or None
        Features of the rows; the normal ones set their scale.
    """
    scores = to_host(check_scores(S))
    n = len(scores)
    labels, weights = labels_and_weights(n, y, sample_weight)
    scaler = None if X is None else _fitted_scaler(X, n, np.where(labels > 0, weights, 0.0))
    positions = _positions(scores, X, scaler)
    kept = weights > 0
    return PositionedScores(scores[kept], labels[kept], weights[kept], positions[kept]), scaler


def _fitted_scaler(X: Any, n: int, sample_weight: Host) -> StandardScaler:
    features = to_host(check_features(X))
    _refuse_other_length(features, n)
    scaler = StandardScaler().fit(features, sample_weight=sample_weight)
    remember_columns(scaler, X)
    return scaler


def _positions(scores: Host, X: Any, scaler: StandardScaler | None) -> Host:
    """Where rows lie: their standardised features, or their scores, which are on one scale."""
    if scaler is None:
        if X is not None:
            raise ValueError(
                "X was given, but fit had no features: rows are placed by their scores. Leave X "
                "out, or fit with X too."
            )
        return scores
    if X is None:
        raise ValueError(
            f"X is missing: fit placed rows by their {scaler.n_features_in_} features, so the "
            "features of the rows of S are needed here too."
        )
    features = to_host(check_features(X, estimator=scaler))
    _refuse_other_length(features, len(scores))
    # By hand: the scaler would check the features once more, and warn of their names.
    standardised: Host = (features - scaler.mean_) / scaler.scale_
    return standardised


def _refuse_other_length(features: Host, n: int) -> None:
    if len(features) != n:
        raise ValueError(
            f"X must hold the features of the rows of S: expected {n} rows, got {len(features)}."
        )
