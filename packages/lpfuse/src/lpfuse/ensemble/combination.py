"""From raw scores to fused ones: scale, weights, and detectors that could not score a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import has_fit_parameter

from lpfuse._arrays.operations import Host
from lpfuse._base import Gaps
from lpfuse._files import saved_as
from lpfuse._validation.params import warn_user

# Share of the largest weight below which a detector counts as having none, so that it never decides
# alone where the others are missing. Chosen by hand, well above the solvers' tolerance of 1e-8.
NEGLIGIBLE = 1e-6


def scale_scores(scaler: Any, S: Host) -> Host:
    """Put raw scores on the common scale; gaps (NaN) stay gaps.

    Parameters
    ----------
    scaler : transformer
        Fitted, such as ``FusedDetector.scaler_``.
    S : ndarray of shape (n, R)
        Raw scores, NaN where a detector gives no score.

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


@saved_as("Combination")
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
        if not isinstance(scaler, FrozenEstimator):
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
        """Return what each detector would add did all give a score, ``w_j s_ij``; else NaN.

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
        """Return what each detector adds: `terms`, scaled up for missing ones.

        NaN where no detector with a weight gives a score.
        """
        return without_gaps(self.terms(S, features), self.abs_weights)

    def score_samples(self, S: Host, features: Host | None = None) -> Host:
        """Return fused scores: the sums of `contributions`."""
        scores: Host = self.contributions(S, features).sum(axis=1)
        return scores


def without_gaps(terms: Host, abs_weights: Host, missing: Gaps | None = None) -> Host:
    """Let terms make up for those that are missing.

    The weights of the detectors with a score grow so that, in absolute value, they sum to what all
    weights did; the others add 0. NaN where no detector with a weight gives a score.

    Parameters
    ----------
    terms : ndarray of shape (n, R)
        NaN where a detector gives no score.
    abs_weights : ndarray of shape (R,) or (n, R)
        Absolute values of the weights.
    missing : ndarray of shape (R,), optional
        Detectors to be taken as giving no score of any row.

    Examples
    --------
    >>> import numpy as np
    >>> without_gaps(np.array([[1.0, np.nan], [1.0, 3.0]]), np.array([1.0, 1.0]))
    array([[2., 0.],
           [1., 3.]])
    """
    gaps = np.isnan(terms) if missing is None else np.isnan(terms) | missing
    if not gaps.any():
        return terms
    some = gaps.any(axis=1, keepdims=True)
    scored = np.where(gaps, 0.0, abs_weights).sum(axis=1, keepdims=True)
    growth = np.where(some, np.nan, 1.0)
    whole = abs_weights.sum(axis=-1, keepdims=True)
    np.divide(whole, scored, out=growth, where=some & (scored > 0))
    return np.where(gaps, 0.0, terms) * growth


def report_gaps(
    raw: Host,
    names: Sequence[str],
    errors: Mapping[str, str] | None = None,
    abs_weights: Host | None = None,
) -> None:
    """Warn of detectors that could not score some rows: which, how many, and why.

    `abs_weights` of shape (R,) tells rows that no detector with a weight could score.
    """
    gaps, errors = np.isnan(raw).sum(axis=0), errors or {}
    if not gaps.any():
        return
    told = [
        f"{name!r} ({count} of {len(raw)} rows{': ' + errors[name] if name in errors else ''})"
        for name, count in zip(names, gaps, strict=True)
        if count
    ]
    counts_for_nothing = False if abs_weights is None else abs_weights == 0
    lost = int((np.isnan(raw) | counts_for_nothing).all(axis=1).sum())
    rest = f" No detector with a weight could score {lost} of them." if lost else ""
    warn_user(
        f"Some detectors could not score some rows: {', '.join(told)}. The others decide on those "
        f"rows.{rest}"
    )
