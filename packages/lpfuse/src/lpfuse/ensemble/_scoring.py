"""What a fitted `FusedDetector` answers: from raw scores to fused ones, decisions and p-values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from lpfuse._arrays.operations import Host, is_blocked
from lpfuse._base import Scorer, lazily
from lpfuse._validation.tables import check_table
from lpfuse.ensemble._estimator import EnsembleEstimator
from lpfuse.ensemble._lent_cells import judge_lost_rows, warn_of_new_gaps
from lpfuse.ensemble._tables import impute_features
from lpfuse.ensemble._verdicts import Verdicts
from lpfuse.threshold import conformal_pvalues

Gaps = NDArray[np.bool_]

# Share of the largest weight below which a detector counts as having none, so that it never decides
# alone where the others are silent. Chosen by hand, well above the solvers' tolerance of 1e-8.
NEGLIGIBLE = 1e-6


def scale_scores(scaler: Any, S: Host) -> Host:
    """Raw scores on the common scale; gaps (NaN) stay gaps.

    Parameters
    ----------
    scaler : transformer
        Fitted, such as ``FusedDetector.scaler_``.
    S : ndarray of shape (n, R)
        Raw scores, NaN where a detector is silent.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import TwoSidedMinMax
    >>> scaler = TwoSidedMinMax(rho=0).fit([[0.0, 0.0], [2.0, 4.0]])
    >>> scale_scores(scaler, np.array([[1.0, np.nan]]))
    array([[ 0., nan]])
    """
    gaps = np.isnan(S)
    if not gaps.any():
        return np.asarray(scaler.transform(S))
    scaled = np.array(scaler.transform(np.where(gaps, 0.0, S)), dtype=np.float64)
    scaled[gaps] = np.nan
    return scaled


@dataclass(frozen=True)
class Combination:
    """A fitted scaler and a fitted fusion: raw scores in, terms of the fused score out."""

    scaler: Any
    fusion: Any

    @classmethod
    def learn(
        cls,
        scaler: Any,
        fusion: Any,
        S: Host,
        y: Host,
        features: Host | None = None,
        weights: Host | None = None,
        ask: Callable[[Host], Host] | None = None,
    ) -> Combination:
        """Fit copies to raw scores without gaps and labels ±1; normal rows set the scale.

        `features` and `weights` of the rows are for a fusion that takes them, and so is `ask`,
        which tells raw scores of other rows.
        """
        scaler = clone(scaler).fit(S[y > 0])
        labels = None if (y > 0).all() else y
        also: dict[str, Any] = {} if features is None else {"X": features}
        if weights is not None and has_fit_parameter(fusion, "sample_weight"):
            also["sample_weight"] = weights
        if ask is not None:
            also["ask"] = lambda X: scale_scores(scaler, ask(X))
        return cls(scaler, clone(fusion).fit(scale_scores(scaler, S), labels, **also))

    @property
    def is_additive(self) -> bool:
        """Whether the fused score is a sum over detectors."""
        return hasattr(self.fusion, "contributions")

    def terms(self, S: Host, features: Host | None = None) -> Host:
        """What each detector would add were none silent, ``w_j s_ij``; NaN where it is.

        A single column, the fused score itself, where that is not a sum.
        """
        gaps = np.isnan(S)
        scaled = scale_scores(self.scaler, S)
        if self.is_additive:
            terms = np.array(self.fusion.contributions(np.nan_to_num(scaled)), dtype=np.float64)
            terms[gaps] = np.nan
            return terms
        terms = np.full((len(S), 1), np.nan)
        whole = ~gaps.any(axis=1)
        if whole.any():
            here = {} if features is None else {"X": features[whole]}
            terms[whole, 0] = self.fusion.score_samples(scaled[whole], **here)
        return terms

    @property
    def abs_weights(self) -> Host:
        """How much each term of the fused score weighs: ``|w_j|``, 0 where that is negligible."""
        if not self.is_additive:
            return np.ones(1)
        weights = np.abs(self.fusion.weights_)
        return np.where(weights > NEGLIGIBLE * weights.max(), weights, 0.0)

    def contributions(self, S: Host, features: Host | None = None) -> Host:
        """What each detector adds to the fused score: `terms`, made up for the silent ones.

        NaN where no detector with a weight speaks.
        """
        return without_gaps(self.terms(S, features), self.abs_weights)

    def score_samples(self, S: Host, features: Host | None = None) -> Host:
        """Fused scores: the sums of `contributions`."""
        scores: Host = self.contributions(S, features).sum(axis=1)
        return scores


def without_gaps(terms: Host, abs_weights: Host, silent: Gaps | None = None) -> Host:
    """Terms that make up for those that are missing.

    The weights of the detectors that speak grow so that, in absolute value, they sum to what all
    weights did; the silent ones add 0. NaN where no detector with a weight speaks.

    Parameters
    ----------
    terms : ndarray of shape (n, R)
        NaN where a detector is silent.
    abs_weights : ndarray of shape (R,) or (n, R)
        Absolute values of the weights.
    silent : ndarray of shape (R,), optional
        Detectors to be taken as silent of all rows.

    Examples
    --------
    >>> import numpy as np
    >>> without_gaps(np.array([[1.0, np.nan], [1.0, 3.0]]), np.array([1.0, 1.0]))
    array([[2., 0.],
           [1., 3.]])
    """
    gaps = np.isnan(terms) if silent is None else np.isnan(terms) | silent
    if not gaps.any():
        return terms
    some = gaps.any(axis=1, keepdims=True)
    speaking = np.where(gaps, 0.0, abs_weights).sum(axis=1, keepdims=True)
    growth = np.where(some, np.nan, 1.0)
    whole = abs_weights.sum(axis=-1, keepdims=True)
    np.divide(whole, speaking, out=growth, where=some & (speaking > 0))
    return np.where(gaps, 0.0, terms) * growth


def rows_by_gaps(gaps: Gaps) -> list[tuple[NDArray[np.bool_], Gaps]]:
    """Rows by which detectors are silent: (rows, silent detectors)."""
    if len(gaps) and not gaps.any():  # nearly always, and sorting is slow
        return [(np.ones(len(gaps), dtype=bool), gaps[0])]
    patterns, pattern_of = np.unique(gaps, axis=0, return_inverse=True)
    return [(pattern_of.ravel() == i, pattern) for i, pattern in enumerate(patterns)]


def _n_detectors(fused: FusedScorer) -> int:
    return len(fused.pool_.members)


class FusedScorer(EnsembleEstimator, Scorer):
    """The answers of a `FusedDetector`, from the attributes that its ``fit`` leaves."""

    @lazily(width=_n_detectors, dtype="float64")
    def detector_scores(self, X: Any) -> Host:
        """What each detector says of each row, before scaling.

        Parameters
        ----------
        X : array-like, data frame, or Dask array or data frame, of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n, R)
            Raw scores, high = normal; NaN where a detector could not score a row.
        """
        return self._raw_scores(X)[0]

    def _raw_scores(self, X: Any) -> tuple[Host, Host | None]:
        """Raw scores of rows; their features, where the fusion looks at them."""
        check_is_fitted(self)
        table = check_table(X, estimator=self)
        warn_of_new_gaps(self, table)
        raw, errors = self.pool_.scores(table, self.n_jobs)
        if np.isnan(raw).any():
            raw = raw if self.on_missing == "raise" else judge_lost_rows(self, table, raw)
            self._report_gaps(raw, errors)
        imputer = self.feature_imputer_
        return raw, None if imputer is None else impute_features(imputer, table)

    def contributions(self, X: Any) -> Host:
        """What each detector adds to the fused score; rows sum to ``score_samples(X)``.

        Parameters
        ----------
        X : array-like, data frame, or Dask array or data frame, of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n, R)
            ``w_j s_ij``, scaled scores ``s_ij``; 0 where silent, NaN where all with a weight are.
        """
        if not self.combination_.is_additive:
            raise AttributeError(
                f"{self.fusion_!r} does not add up the scores of the detectors, so there is no "
                "telling what each of them contributed."
            )
        return self._contributions(X)

    @lazily(width=_n_detectors, dtype="float64")
    def _contributions(self, X: Any) -> Host:
        return self.combination_.contributions(*self._raw_scores(X))

    @lazily(dtype="float64")
    def score_samples(self, X: Any) -> Host:
        """Fused score of each row, high = normal.

        Parameters
        ----------
        X : array-like, data frame, or Dask array or data frame, of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,)
            Scores; NaN where no detector that has a weight could score the row.
        """
        return self.combination_.score_samples(*self._raw_scores(X))

    @lazily(dtype="float64")
    def decision_function(self, X: Any) -> Host:
        """``score_samples(X) − offset_``: negative for anomalies.

        Parameters
        ----------
        X : array-like, data frame, or Dask array or data frame, of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,)
            Signed distance to the threshold, for a row of which some detectors are silent to that
            for the others; NaN where none speaks: `predict` calls such a row an anomaly.
        """
        raw, features = self._raw_scores(X)
        return self._decide(raw, self.combination_.score_samples(raw, features))

    def _decide(self, raw: Host, scores: Host) -> Host:
        decision = scores.copy()
        for rows, silent in rows_by_gaps(np.isnan(raw)):
            decision[rows] -= self._offset_without(silent) if silent.any() else self.offset_
        return decision

    @lazily(dtype="float64")
    def pvalues(self, X: Any) -> Host:
        """How unusual each row is among normal ones: small for anomalies.

        Parameters
        ----------
        X : array-like, data frame, or Dask array or data frame, of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,)
            Conformal p-values, see :func:`lpfuse.threshold.conformal_pvalues`. Hand those of a
            batch to :func:`lpfuse.threshold.control_false_discoveries`.
        """
        raw, features = self._raw_scores(X)
        return self._compare(raw, self.combination_.score_samples(raw, features))

    def _compare(self, raw: Host, scores: Host) -> Host:
        found = np.empty(len(scores))
        for rows, silent in rows_by_gaps(np.isnan(raw)):
            normal = self.held_out_.normal_scores(silent)
            found[rows] = conformal_pvalues(normal, scores[rows])
        return found

    def verdicts(self, X: Any) -> Verdicts:
        """Everything at once.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            Rows.

        Returns
        -------
        Verdicts
            What `score_samples`, `decision_function`, `pvalues`, `contributions` and
            `detector_scores` give; ``to_frame()`` makes a data frame of it.

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> from lpfuse import FusedDetector
        >>> X = np.random.default_rng(0).normal(size=(100, 2))
        >>> fused = FusedDetector(["gmm", "kpca"], random_state=0).fit(X)
        >>> new = pd.DataFrame([[0.0, 0.0], [9.0, 9.0]], index=["P-1", "P-2"])
        >>> frame = fused.verdicts(new).to_frame()
        >>> frame.columns.tolist()
        ['score', 'p_value', 'decision', 'contribution:gmm', 'contribution:kpca']
        >>> frame["decision"].to_dict()
        {'P-1': 1, 'P-2': -1}
        """
        if is_blocked(X):
            raise TypeError(
                "verdicts are given of rows in memory. Of Dask rows, each of the other methods "
                "gives a lazy array; dask.compute on several of them reads the rows once."
            )
        raw, features = self._raw_scores(X)
        terms = self.combination_.contributions(raw, features)
        scores: Host = terms.sum(axis=1)
        contributions = terms if self.combination_.is_additive else None
        decision, pvalues = self._decide(raw, scores), self._compare(raw, scores)
        found = Verdicts(scores, decision, pvalues, contributions, raw)
        return found.of_rows(X, self.detector_names_)

    @property
    def combination_(self) -> Combination:
        """`scaler_` and `fusion_`: from raw scores to fused ones."""
        check_is_fitted(self)
        return Combination(self.scaler_, self.fusion_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
