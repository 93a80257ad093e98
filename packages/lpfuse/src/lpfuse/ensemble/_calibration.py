"""From out-of-fold scores to weights and a threshold: and what both rest on.

`fuse` learns the weights from `OutOfFoldScores`; `HeldOutScores` are fused by weights that were
learnt without the row's fold, and set the threshold.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays.operations import Host
from lpfuse._saved import saved_as
from lpfuse.ensemble._audit import audit, warn_of_constants, warn_of_open_weights
from lpfuse.ensemble._scoring import Combination, Gaps, without_gaps
from lpfuse.threshold import THRESHOLD_RULES, contamination_offset


@saved_as("OutOfFoldScores")
@dataclass(frozen=True, eq=False)
class OutOfFoldScores:
    """Raw scores of rows by detectors that have not seen them, and what is known of the rows.

    Attributes
    ----------
    scores : ndarray of shape (n, R)
        High = normal; NaN where a detector is silent.
    labels : ndarray of shape (n,)
        ±1, or 0 for a row that the weights are not learnt from.
    fold : ndarray of shape (n,)
        The fold of each row; negative where it is in none.
    truth : ndarray of shape (n,)
        As `labels`, but artificial anomalies are −1 even where the weights are not learnt from
        them.
    kinds : ndarray or None
        Kinds of the anomalies.
    features : ndarray of shape (n, d) or None
        Features, for a fusion that looks at them.
    seed : int
        For a fusion that draws at random.
    two_folds_out : ndarray of shape (n, R) or None
        As `scores`, by detectors that learnt from fewer rows: without a second fold.
    weights : ndarray of shape (n,) or None
        How much each row counts; None: all alike.
    known : ndarray or None
        Labels of the training rows as they were given: 0 where nobody looked.
    chances : ndarray or None
        With which training rows were asked about; NaN, or None, where they were not.
    """

    scores: Host
    labels: Host
    fold: NDArray[np.intp]
    truth: Host
    kinds: NDArray[np.intp] | None
    features: Host | None = None
    seed: int = 0
    two_folds_out: Host | None = None
    weights: Host | None = None
    known: Host | None = None
    chances: Host | None = None

    def weights_of(self, rows: Any) -> Host | None:
        """How much some of the rows count; None: all alike."""
        return None if self.weights is None else self.weights[rows]

    @property
    def usable(self) -> NDArray[np.bool_]:
        """Rows that the weights are learnt from: labelled, and scored by every detector."""
        return (self.labels != 0) & ~np.isnan(self.scores).any(axis=1)


@saved_as("HeldOutScores")
@dataclass(frozen=True)
class HeldOutScores:
    """Terms of the fused scores of m rows that the weights were not learnt from.

    Attributes
    ----------
    terms : ndarray of shape (m, R)
        ``w_j s_ij``, NaN where a detector is silent; (m, 1) where the fused score is no sum.
    abs_weights : ndarray of shape (m, R)
        Absolute values of the weights behind each row's terms, which differ between folds.
    labels : ndarray of shape (m,)
        ±1, or 0 for unlabelled.
    two_folds_out : ndarray of shape (m, R)
        As `terms`, by detectors that learnt without a second fold; `terms` where none did.
    extrapolation : float
        How far the step from `two_folds_out` to `terms` is continued, to detectors that learn from
        all rows: see `normal_scores`.
    """

    terms: Host
    abs_weights: Host
    labels: Host
    two_folds_out: Host
    extrapolation: float = 0.0

    @classmethod
    def by(
        cls,
        combination: Combination,
        S: Host,
        labels: Host,
        features: Host | None = None,
        two_folds_out: Host | None = None,
    ) -> HeldOutScores:
        """Rows scored by one combination, given their raw scores."""
        terms = combination.terms(S, features)
        weights = np.broadcast_to(combination.abs_weights, terms.shape)
        two_out = terms if two_folds_out is None else combination.terms(two_folds_out, features)
        return cls(terms, weights, labels, two_out)

    @classmethod
    def out_of_fold(
        cls, scaler: Any, fusion: Any, scores: OutOfFoldScores, extrapolation: float = 0.0
    ) -> HeldOutScores:
        """Rows scored by combinations, copies of `scaler` and `fusion`, learnt without their folds.

        A row with gaps is scored, but no weights are learnt from it.
        """
        S, y, fold, features = scores.scores, scores.labels, scores.fold, scores.features
        found, rows = [], []
        for number in np.unique(fold):
            inside = fold == number
            rest = scores.usable & ~inside
            for side in (y > 0, y < 0):  # a class that is all in one fold must not be lost
                if not (rest & side).any():
                    rest |= scores.usable & side
            here, there = (None if features is None else features[some] for some in (inside, rest))
            with warnings.catch_warnings():  # what there is to say is said of the final weights
                warnings.simplefilter("ignore")
                combination = Combination.learn(
                    scaler, fusion, S[rest], y[rest], there, scores.weights_of(rest)
                )
            two_out = None if scores.two_folds_out is None else scores.two_folds_out[inside]
            found.append(cls.by(combination, S[inside], y[inside], here, two_out))
            rows.append(np.flatnonzero(inside))
        whole = cls.concatenate(found)[np.argsort(np.concatenate(rows))]
        return replace(whole, extrapolation=extrapolation)

    @classmethod
    def concatenate(cls, several: Sequence[HeldOutScores]) -> HeldOutScores:
        """Several of them, one after the other, with the extrapolation of the first."""
        return cls(
            np.concatenate([one.terms for one in several]),
            np.concatenate([one.abs_weights for one in several]),
            np.concatenate([one.labels for one in several]),
            np.concatenate([one.two_folds_out for one in several]),
            several[0].extrapolation,
        )

    def __getitem__(self, rows: Any) -> HeldOutScores:
        return HeldOutScores(
            self.terms[rows],
            self.abs_weights[rows],
            self.labels[rows],
            self.two_folds_out[rows],
            self.extrapolation,
        )

    @property
    def fused(self) -> Host:
        """The fused score of each row; NaN where no detector could score it."""
        return self._fused(self.terms, None)

    def scores(self, silent: Gaps | None = None) -> tuple[Host, Host]:
        """Fused scores and labels of the rows, had some detectors been silent.

        Without the rows that no other detector scored; if that leaves no normal one, all as they
        are.
        """
        if self.terms.shape[1] == 1:  # not a sum: no detector can make up for another
            silent = None
        found = self._fused(self.terms, silent)
        scored = ~np.isnan(found)
        if silent is not None and not (self.labels[scored] > 0).any():
            return self.scores()
        return found[scored], self.labels[scored]

    def normal_scores(self, silent: Gaps | None = None) -> Host:
        """Fused scores of the normal rows, as detectors fitted to all rows would give unseen ones.

        Scores move with the number m of rows learnt from, about as ``a + b/m``. What a fold less
        changes, from `two_folds_out` to `terms`, is continued `extrapolation` as far; in order of
        size, for the distribution is wanted, and single rows are noisy, and on a scale that is
        logarithmic far from the median: there small shares of a score are large numbers.
        """
        if self.terms.shape[1] == 1:
            silent = None
        normal = self[self.labels > 0]
        found = normal._fused(normal.terms, silent)
        two_out = normal._fused(normal.two_folds_out, silent)
        scored = ~np.isnan(found) & ~np.isnan(two_out)
        if silent is not None and not scored.any():
            return self.normal_scores()
        found, two_out = np.sort(found[scored]), np.sort(two_out[scored])
        if self.extrapolation == 0.0 or found.size == 0:
            return found
        low, middle, high = np.quantile(found, [0.25, 0.5, 0.75])
        if low == high:
            return found
        near, far = (np.arcsinh((part - middle) / (high - low)) for part in (found, two_out))
        scores: Host = middle + (high - low) * np.sinh(near + self.extrapolation * (near - far))
        return np.sort(scores)

    def offset(
        self,
        threshold: str,
        false_alarm_rate: float,
        contamination: float | None = None,
        silent: Gaps | None = None,
    ) -> float:
        """The threshold by a rule of ``THRESHOLD_RULES``, had some detectors been silent."""
        rule = THRESHOLD_RULES[threshold]
        if contamination is None and not rule.needs_anomalies:
            normal = self.normal_scores(silent)
            return rule.offset(normal, np.ones(len(normal)), false_alarm_rate)
        scores, labels = self.scores(silent)
        if contamination is not None:
            return contamination_offset(scores, contamination)
        return rule.offset(scores[labels != 0], labels[labels != 0], false_alarm_rate)

    def _fused(self, terms: Host, silent: Gaps | None) -> Host:
        scores: Host = without_gaps(terms, self.abs_weights, silent).sum(axis=1)
        return scores


def fuse(
    scaler: Any,
    fusion: Any,
    scores: OutOfFoldScores,
    names: Sequence[str],
    *,
    own_detectors: bool,
    own_fusion: bool,
) -> Combination:
    """The weights: copies of `scaler` and `fusion`, fitted to the usable rows, and audited.

    `names` are those of the detectors; `own_detectors` and `own_fusion` say whether the user chose
    them. Of the default detectors some say little on any table, which is no news; the default
    weights are near the prior by design where the labels leave them open.
    """
    S, y = scores.scores[scores.usable], scores.labels[scores.usable]
    features = None if scores.features is None else scores.features[scores.usable]
    with warnings.catch_warnings():  # the audit says the same with the detectors' names
        warnings.filterwarnings("ignore", message="Scores have no spread")
        warnings.filterwarnings("ignore", message="Some detectors give the same")
        weights = scores.weights_of(scores.usable)
        combination = Combination.learn(scaler, fusion, S, y, features, weights)
    open_weights = combination.fusion if own_fusion else None
    if own_detectors:
        audit(S, y, names, open_weights)
    else:
        warn_of_open_weights(open_weights, y)
        warn_of_constants(S[y > 0])
    return combination
