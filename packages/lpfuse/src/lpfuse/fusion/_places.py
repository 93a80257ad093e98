"""Where rows lie, for fusion objects that look: among their features, or else their scores."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays import Array, Host, to_host
from lpfuse._base import Scorer, signs
from lpfuse._checks.data import check_features, check_scores, remember_columns
from lpfuse.fusion._rows import labels_and_weights


class PlacedRows(NamedTuple):
    """Checked training rows that count, on the host."""

    scores: Host  # n×R
    labels: Host  # ±1
    weights: Host  # above 0
    places: Host  # n×d: where the rows lie


class SpatialFusion(Scorer):
    """A fusion object that looks at where a row lies: among its features, or else its scores."""

    uses_features = True  # `fit` and the scoring methods take the features X beside the scores

    feature_scaler_: Any  # a StandardScaler; None where places are scores

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

    def _located(self, S: Any, X: Any) -> tuple[Array, Host, Host]:
        """The checked scores as they came, the same on the host, and the places of the rows."""
        check_is_fitted(self)
        S = check_scores(S, estimator=self)
        scores = to_host(S)
        return S, scores, _places(scores, X, self.feature_scaler_)


def placed_rows(S: Any, y: Any, sample_weight: Any, X: Any) -> tuple[PlacedRows, Any]:
    """The rows to learn from, and the scaler of their features (None without features)."""
    scores = to_host(check_scores(S))
    n = len(scores)
    labels, weights = labels_and_weights(n, y, sample_weight)
    scaler = None if X is None else _standardised(X, n, np.where(labels > 0, weights, 0.0))
    places = _places(scores, X, scaler)
    counts = weights > 0
    return PlacedRows(scores[counts], labels[counts], weights[counts], places[counts]), scaler


def _standardised(X: Any, n: int, weights: Host) -> StandardScaler:
    features = to_host(check_features(X))
    _refuse_other_length(features, n)
    scaler = StandardScaler().fit(features, sample_weight=weights)
    remember_columns(scaler, X)
    return scaler


def _places(scores: Host, X: Any, scaler: Any) -> Host:
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
    return (features - scaler.mean_) / scaler.scale_


def _refuse_other_length(features: Host, n: int) -> None:
    if len(features) != n:
        raise ValueError(
            f"X must hold the features of the rows of S: expected {n} rows, got {len(features)}."
        )
