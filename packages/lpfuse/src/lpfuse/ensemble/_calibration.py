"""From out-of-fold scores to weights, and the held-out scores that thresholds rest on.

`fuse` learns the weights from `OutOfFoldScores`. `HeldOutScores` are fused scores of rows by
weights that were not learnt from them; those that *calibrate* are of rows that nothing at all has
seen, and set the threshold: see `lpfuse.ensemble._unseen`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays.operations import Host
from lpfuse._base import lower_quantile
from lpfuse._saved import saved_as
from lpfuse._validation.tables import DirectionWarning
from lpfuse.ensemble._audit import audit, warn_of_constants, warn_of_open_weights
from lpfuse.ensemble._scoring import Combination, Gaps, without_gaps
from lpfuse.threshold import THRESHOLD_RULES, conformal_offset, contamination_offset


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
    weights : ndarray of shape (n,) or None
        How much each row counts; None: all alike.
    known : ndarray or None
        Labels of the training rows as they were given: 0 where nobody looked.
    chances : ndarray or None
        With which training rows were asked about; NaN, or None, where they were not.
    ask : callable or None
        Features → raw scores, for a fusion that asks the detectors about rows of its own making.
    """

    scores: Host
    labels: Host
    fold: NDArray[np.intp]
    truth: Host
    kinds: NDArray[np.intp] | None
    features: Host | None = None
    seed: int = 0
    weights: Host | None = None
    known: Host | None = None
    chances: Host | None = None
    ask: Callable[[Host], Host] | None = None

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
    calibrates : ndarray of shape (m,) or None
        Normal rows that thresholds and p-values rest on; None: all of them.
    """

    terms: Host
    abs_weights: Host
    labels: Host
    calibrates: NDArray[np.bool_] | None = None

    @classmethod
    def by(
        cls, combination: Combination, S: Host, labels: Host, features: Host | None = None
    ) -> HeldOutScores:
        """Rows scored by one combination, given their raw scores."""
        terms = combination.terms(S, features)
        return cls(terms, np.broadcast_to(combination.abs_weights, terms.shape), labels)

    @classmethod
    def out_of_fold(cls, scaler: Any, fusion: Any, scores: OutOfFoldScores) -> HeldOutScores:
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
                    scaler, fusion, S[rest], y[rest], there, scores.weights_of(rest), scores.ask
                )
            found.append(cls.by(combination, S[inside], y[inside], here))
            rows.append(np.flatnonzero(inside))
        return cls.concatenate(found)[np.argsort(np.concatenate(rows))]

    @classmethod
    def concatenate(cls, several: Sequence[HeldOutScores]) -> HeldOutScores:
        """Several of them, one after the other."""
        return cls(
            np.concatenate([one.terms for one in several]),
            np.concatenate([one.abs_weights for one in several]),
            np.concatenate([one.labels for one in several]),
            np.concatenate([one.is_calibrating for one in several]),
        )

    def __getitem__(self, rows: Any) -> HeldOutScores:
        calibrates = None if self.calibrates is None else self.calibrates[rows]
        return HeldOutScores(
            self.terms[rows], self.abs_weights[rows], self.labels[rows], calibrates
        )

    @property
    def is_calibrating(self) -> NDArray[np.bool_]:
        """`calibrates`, with all normal rows where it is None."""
        return self.labels > 0 if self.calibrates is None else self.calibrates

    @property
    def fused(self) -> Host:
        """The fused score of each row; NaN where no detector could score it."""
        return self._fused(None)

    def moved(self, by: Host) -> HeldOutScores:
        """The same rows with fused scores that differ by these numbers, of shape (m,).

        Each detector takes a part in proportion to its weight, so that a row's score moves as far
        when some of them are silent.
        """
        whole = self.abs_weights.sum(axis=1, keepdims=True)
        shares = np.divide(self.abs_weights, whole, out=np.zeros_like(whole * self.abs_weights),
                           where=whole > 0)  # fmt: skip
        return replace(self, terms=self.terms + by[:, None] * shares)

    def scores(self, silent: Gaps | None = None) -> tuple[Host, Host, Host]:
        """Fused scores and labels of the rows, had some detectors been silent, and their counts.

        Of normal rows those that calibrate, each of which counts for as many as there are to one
        of them; the others count 1. Without the rows that no other detector scored; if that leaves
        no normal one, all as they are.
        """
        silent = self._can_be(silent)
        found, calibrating = self._fused(silent), self.is_calibrating
        scored = ~np.isnan(found) & (calibrating | (self.labels <= 0))
        if silent is not None and not calibrating[scored].any():
            return self.scores()
        counts = np.ones(len(found))
        if calibrating.any():
            counts[calibrating] = (self.labels > 0).sum() / calibrating.sum()
        return found[scored], self.labels[scored], counts[scored]

    def normal_scores(self, silent: Gaps | None = None) -> Host:
        """Fused scores of the rows that calibrate, ascending, had some detectors been silent."""
        silent = self._can_be(silent)
        if silent is None or not silent.any():
            return self._normal_scores
        return self._normal_scores_without(silent)

    @cached_property
    def _normal_scores(self) -> Host:  # p-values of single rows ask for them again and again
        found = self._normal_scores_without(None)
        found.flags.writeable = False
        return found

    def _normal_scores_without(self, silent: Gaps | None) -> Host:
        normal = self[self.is_calibrating]
        found = normal._fused(silent)
        scored = ~np.isnan(found)
        if silent is not None and not scored.any():
            return self.normal_scores()
        return np.sort(found[scored])

    def offset(
        self,
        threshold: str,
        false_alarm_rate: float,
        contamination: float | None = None,
        silent: Gaps | None = None,
        confidence: float | None = None,
    ) -> float:
        """The threshold by a rule of ``THRESHOLD_RULES``, had some detectors been silent."""
        rule = THRESHOLD_RULES[threshold]
        if contamination is None and not rule.needs_anomalies:
            normal = self.normal_scores(silent)
            if confidence is not None:
                return conformal_offset(normal, false_alarm_rate, confidence)
            return rule.offset(normal, np.ones(len(normal)), false_alarm_rate)
        scores, labels, counts = self.scores(silent)
        if contamination is None:
            return rule.offset(scores[labels != 0], labels[labels != 0], false_alarm_rate)
        if (counts == 1).all():
            return contamination_offset(scores, contamination)
        return lower_quantile(scores, counts, contamination)

    def _can_be(self, silent: Gaps | None) -> Gaps | None:
        """Where the fused score is no sum, no detector can make up for another."""
        return None if self.terms.shape[1] == 1 else silent

    def _fused(self, silent: Gaps | None) -> Host:
        scores: Host = without_gaps(self.terms, self.abs_weights, silent).sum(axis=1)
        return scores


def fuse(
    scaler: Any,
    fusion: Any,
    scores: OutOfFoldScores,
    names: Sequence[str],
    *,
    own_detectors: bool,
    own_fusion: bool,
    known_direction: Gaps | None = None,
) -> Combination:
    """The weights: copies of `scaler` and `fusion`, fitted to the usable rows, and audited.

    `names` are those of the detectors; `own_detectors` and `own_fusion` say whether the user chose
    them. Of the default detectors some say little on any table, which is no news; the default
    weights are near the prior by design where the labels leave them open. `known_direction` are the
    detectors whose makers said what high scores mean.
    """
    S, y = scores.scores[scores.usable], scores.labels[scores.usable]
    features = None if scores.features is None else scores.features[scores.usable]
    with warnings.catch_warnings():  # the audit says the same with the detectors' names
        warnings.filterwarnings("ignore", message="Scores have no spread")
        warnings.filterwarnings("ignore", message="Some detectors give the same")
        warnings.simplefilter("ignore", DirectionWarning)
        weights = scores.weights_of(scores.usable)
        combination = Combination.learn(scaler, fusion, S, y, features, weights, scores.ask)
    open_weights = combination.fusion if own_fusion else None
    if own_detectors:
        audit(S, y, names, open_weights, known_direction)
    else:
        warn_of_open_weights(open_weights, y)
        warn_of_constants(S[y > 0])
    return combination
