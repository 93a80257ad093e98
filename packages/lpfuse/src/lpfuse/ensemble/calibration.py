"""Held-out scores, and the threshold and p-values that rest on rows that nothing learnt from.

`OutOfFoldScores` are raw scores by fits without the row's fold; the weights are learnt from them.
`HeldOutScores` are fused scores by weights that were not learnt from the row. A normal row
*calibrates* by its score from a fit that was made without it:

* "split": some normal rows are set aside, and scored by the detector itself;
* "forward": of rows in time order, those after the first third are scored by a fit to the first
  third, as rows to come will be;
* "cross": normal rows are dealt out to parts, and those of each part are scored by a fit of its
  own, from the first step to the last, without that part.

The detector has learnt from more rows than the fits of "cross", and its weights differ. So a score
is mapped by the quantiles of out-of-fold scores: a row at the end of the lowest tenth of those of
one fit is put there among the other's (`map_quantiles`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays.operations import Host
from lpfuse._base import Gaps, lower_quantile
from lpfuse._files import saved_as
from lpfuse._validation import params
from lpfuse._validation.tables import unheard_warnings
from lpfuse.ensemble.combination import Combination, without_gaps
from lpfuse.ensemble.pool import Pool
from lpfuse.ensemble.rows import Index, StoredRows
from lpfuse.frames import TablePreparation
from lpfuse.threshold import (
    THRESHOLD_RULES,
    CalibrationPromise,
    calibration_promise,
    conformal_offset,
    contamination_offset,
)
from lpfuse.time.order import UNTOLD, RowOrder
from lpfuse.time.windows import Windows

# Below this share of the out-of-fold scores a tail is taken to be the other's, moved and stretched:
# there are too few of them to tell its shape. Stretched by no more than MOST_STRETCH, by hand.
TAIL, MOST_STRETCH = 0.05, 2.0


class ThresholdParameters(NamedTuple):
    """What sets the threshold: the parameters of these names of a `FusedDetector`.

    Attributes
    ----------
    threshold : str
        A name of ``THRESHOLD_RULES``.
    false_alarm_rate : float
        For conformal calibration.
    contamination, confidence : float or None
        A share of rows below the threshold instead; how surely the rate is kept.
    """

    threshold: str
    false_alarm_rate: float
    contamination: float | None
    confidence: float | None

    @property
    def needs_anomalies(self) -> bool:
        """Whether labelled anomalies set the threshold."""
        return self.contamination is None and THRESHOLD_RULES[self.threshold].needs_anomalies

    def check(self) -> None:
        """Refuse values that are out of range or do not go together."""
        params.check_choice("threshold", self.threshold, tuple(THRESHOLD_RULES))
        params.check_false_alarm_rate(self.false_alarm_rate)
        if self.contamination is not None:
            params.check_share(
                "contamination", self.contamination, of="rows like the training rows"
            )
        if self.confidence is not None:
            params.check_confidence(self.confidence)
            if self.contamination is not None or self.threshold != "false-alarms":
                raise ValueError(
                    "confidence is that of a false-alarm rate: it goes with threshold="
                    f'"false-alarms" and without contamination, got threshold={self.threshold!r} '
                    f"and contamination={self.contamination!r}."
                )

    def check_labels(self, labels: Host) -> None:
        """Refuse labels without anomalies where these set the threshold."""
        if self.needs_anomalies and not (labels < 0).any():
            raise ValueError(
                f'threshold="{self.threshold}" needs labelled anomalies, and y has none. Use '
                'threshold="false-alarms", which needs normal rows only.'
            )

    def promise(self, n: int) -> CalibrationPromise:
        """State what n calibration rows can promise."""
        return calibration_promise(max(n, 1), self.false_alarm_rate, self.confidence)

    def offset(self, held_out: HeldOutScores, missing: Gaps | None = None) -> float:
        """Return the threshold, had some detectors given no score."""
        rule = THRESHOLD_RULES[self.threshold]
        if self.contamination is None and not rule.needs_anomalies:
            normal = held_out.normal_scores(missing)
            if self.confidence is not None:
                return conformal_offset(normal, self.false_alarm_rate, self.confidence)
            return rule.offset(normal, np.ones(len(normal)), self.false_alarm_rate)
        scores, labels, counts = held_out.scores(missing)
        if self.contamination is None:
            return rule.offset(scores[labels != 0], labels[labels != 0], self.false_alarm_rate)
        if (counts == 1).all():
            return contamination_offset(scores, self.contamination)
        return lower_quantile(scores, counts, self.contamination)


@saved_as("OutOfFoldScores")
@dataclass(frozen=True, eq=False)
class OutOfFoldScores:
    """Raw scores of rows by fits without their fold, and what is known of the rows.

    Attributes
    ----------
    scores : ndarray of shape (n, R)
        High = normal; NaN where a detector gives no score.
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
        Labels of the training rows as they were given: 0 for unlabelled.
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
        """Return how much some of the rows count; None: all alike."""
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
        ``w_j s_ij``, NaN where a detector gives no score; (m, 1) where the fused score is no sum.
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
        """Score rows by one combination, given their raw scores."""
        terms = combination.terms(S, features)
        return cls(terms, np.broadcast_to(combination.abs_weights, terms.shape), labels)

    @classmethod
    def out_of_fold(cls, scaler: Any, fusion: Any, scores: OutOfFoldScores) -> HeldOutScores:
        """Score rows by copies of `scaler` and `fusion` that were learnt without their folds.

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
            with unheard_warnings():  # what there is to say is said of the final weights
                combination = Combination.learn(
                    scaler, fusion, S[rest], y[rest], there, scores.weights_of(rest), scores.ask
                )
            found.append(cls.by(combination, S[inside], y[inside], here))
            rows.append(np.flatnonzero(inside))
        return cls.concatenate(found)[np.argsort(np.concatenate(rows))]

    @classmethod
    def concatenate(cls, several: Sequence[HeldOutScores]) -> HeldOutScores:
        """Join several of them, one after the other."""
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
        """Return the same rows with fused scores that differ by these numbers, of shape (m,).

        Each detector takes a part in proportion to its weight, so that a row's score moves as far
        when some of them are missing.
        """
        whole = self.abs_weights.sum(axis=1, keepdims=True)
        shares = np.divide(self.abs_weights, whole, out=np.zeros_like(whole * self.abs_weights),
                           where=whole > 0)  # fmt: skip
        return replace(self, terms=self.terms + by[:, None] * shares)

    def scores(self, missing: Gaps | None = None) -> tuple[Host, Host, Host]:
        """Return fused scores, labels and counts of the rows, had some detectors given no score.

        Of normal rows those that calibrate, each of which counts for as many as there are to one
        of them; the others count 1. Without the rows that no other detector scored; if that leaves
        no normal one, all as they are.
        """
        missing = self._can_be(missing)
        found, calibrating = self._fused(missing), self.is_calibrating
        scored = ~np.isnan(found) & (calibrating | (self.labels <= 0))
        if missing is not None and not calibrating[scored].any():
            return self.scores()
        counts = np.ones(len(found))
        if calibrating.any():
            counts[calibrating] = (self.labels > 0).sum() / calibrating.sum()
        return found[scored], self.labels[scored], counts[scored]

    def normal_scores(self, missing: Gaps | None = None) -> Host:
        """Return sorted scores of the rows that calibrate, had some detectors given no score."""
        missing = self._can_be(missing)
        if missing is None or not missing.any():
            return self._normal_scores
        return self._normal_scores_without(missing)

    @cached_property
    def _normal_scores(self) -> Host:  # p-values of single rows ask for them again and again
        found = self._normal_scores_without(None)
        found.flags.writeable = False
        return found

    def _normal_scores_without(self, missing: Gaps | None) -> Host:
        normal = self[self.is_calibrating]
        found = normal._fused(missing)
        scored = ~np.isnan(found)
        if missing is not None and not scored.any():
            return self.normal_scores()
        return np.sort(found[scored])

    def _can_be(self, missing: Gaps | None) -> Gaps | None:
        """Return None where the fused score is no sum: no detector can make up for another."""
        return None if self.terms.shape[1] == 1 else missing

    def _fused(self, missing: Gaps | None) -> Host:
        scores: Host = without_gaps(self.terms, self.abs_weights, missing).sum(axis=1)
        return scores


@dataclass(frozen=True, eq=False)
class FitResult:
    """All that is learnt from some rows, and what it says of them out of fold.

    Attributes
    ----------
    pool : Pool
        The detectors, fitted to all of the rows.
    combination : Combination
        Scale and weights.
    imputer : SimpleImputer or None
        For a fusion that looks at features.
    out_of_fold : OutOfFoldScores
        Raw scores of the rows, which scale and weights were learnt from.
    held_out : HeldOutScores
        The same rows, fused by weights that were learnt without their folds.
    shrinkage : ndarray or None
        Of the experts' scores: see `lpfuse.ensemble.out_of_fold.ensemble_shrinkage`.
    search : object
        What the strategy has to tell of its choice; None where it searches nothing.
    one_scale : bool
        Whether folds and parts take the scale of all rows: see `Training.one_scale`.
    """

    pool: Pool
    combination: Combination
    imputer: Any
    out_of_fold: OutOfFoldScores
    held_out: HeldOutScores
    shrinkage: Host | None = None
    search: Any = None
    one_scale: bool = False


@saved_as("UnseenPart")
@dataclass(frozen=True, eq=False)
class CalibrationPart:
    """Normal rows that were hidden, and what detectors that never saw them say.

    Attributes
    ----------
    learnt, hidden : ndarrays of positions
        Training rows that were learnt from, and that were hidden.
    out_of_fold : OutOfFoldScores
        Raw scores of the rows that were learnt from, out of fold.
    scores : ndarray of shape (len(hidden), R)
        Raw scores of those that were hidden; by experts as the mean of their fits would have them.
    features : ndarray or None
        Of those that were hidden, for a fusion that looks at them.
    """

    learnt: Index
    hidden: Index
    out_of_fold: OutOfFoldScores
    scores: Host
    features: Host | None = None


@saved_as("UnseenRows", by=("cross", "split", "plain", "forward"))
@dataclass(frozen=True, eq=False)
class CalibrationRows:
    """Raw scores of all rows that calibrate, whatever the scale and the weights.

    Attributes
    ----------
    by : {"cross", "forward", "split", "plain"}
        Which rows these are: those hidden in `parts`, those set aside, or, with "plain", no rows
        but those that were learnt from, out of fold.
    parts : list of CalibrationPart
        For "cross" and "forward".
    copied : ndarray of positions
        For "cross": training rows that have an equal among them.
    scores : ndarray of shape (m, R)
        By the detectors at hand: of the rows set aside, or of the copied ones.
    features : ndarray or None
        Of the same rows, for a fusion that looks at them.
    known : ndarray of shape (m, 2) or None
        For "split": labels of the rows set aside as they were given, +1 or 0, and chances.
    """

    by: str = "plain"
    parts: list[CalibrationPart] = field(default_factory=list)
    copied: Index = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    scores: Host = field(default_factory=lambda: np.empty((0, 0)))
    features: Host | None = None
    known: Host | None = None

    @property
    def n_split(self) -> int:
        """Rows that were set aside."""
        return len(self.scores) if self.by == "split" else 0


@saved_as("CalibratedFit")
@dataclass(frozen=True, eq=False)
class CalibratedFit:
    """All that a fitted `FusedDetector` knows: its documented attributes are views of this.

    Attributes
    ----------
    pool : Pool
        The fitted detectors.
    combination : Combination
        Scale and weights: from raw scores to the fused one.
    imputer : SimpleImputer or None
        Fills in missing cells for a fusion that looks at the features.
    out_of_fold : OutOfFoldScores
        What the weights were learnt from.
    held_out : HeldOutScores
        Fused scores of the training rows, then of those set aside, and which of them calibrate.
    calibration : CalibrationRows
        Raw scores of the rows that calibrate.
    offset : float
        The threshold.
    rows : StoredRows
        The training rows, then those set aside.
    rounds : ndarray of shape (n,)
        The round of questions in which each of these rows was taught; 0: in none.
    search : object
        What the strategy has to tell of its choice.
    preparation : TablePreparation or None
        How the columns of a data frame become features.
    order : RowOrder
        What is known of the order of the rows.
    windows : Windows or None
        How rows in time order become those that the detectors see.
    own : ndarray of shape (n, k) or None
        Raw scores of these rows themselves by one-class detectors, where they are not those behind
        `held_out`: see `lpfuse.ensemble.learning.score_suspects`.
    """

    pool: Pool
    combination: Combination
    imputer: Any
    out_of_fold: OutOfFoldScores
    held_out: HeldOutScores
    calibration: CalibrationRows
    offset: float
    rows: StoredRows
    rounds: NDArray[np.intp]
    search: Any = None
    preparation: TablePreparation | None = None
    order: RowOrder = UNTOLD
    windows: Windows | None = None
    own: Host | None = None

    @property
    def raw(self) -> Host:
        """Raw scores of the training rows, out of fold, then of those set aside."""
        aside = [self.calibration.scores] if self.calibration.n_split else []
        return np.concatenate([self.out_of_fold.scores[: self.n_learnt], *aside])

    @cached_property
    def of_own_rows(self) -> HeldOutScores:
        """What is said of the rows themselves: by `own`, or `held_out` where it is None."""
        if self.own is None:
            return self.held_out
        scores = np.column_stack([self.own, self.raw[:, self.own.shape[1] :]])
        return HeldOutScores.by(self.combination, scores, self.held_out.labels)

    @property
    def own_fused(self) -> Host:
        """Fused scores of the rows themselves; the threshold lets as many through as held-out."""
        own, held_out = self.of_own_rows.fused, self.held_out.fused
        normal = self.held_out.labels > 0
        return own if self.own is None else map_quantiles(own, own[normal], held_out[normal])

    @property
    def n_learnt(self) -> int:
        """Rows that were learnt from: those before the ones set aside."""
        return len(self.held_out.labels) - self.calibration.n_split


def calibrate(
    fit: FitResult,
    others: Sequence[FitResult],
    calibration: CalibrationRows,
    rule: ThresholdParameters,
    rows: StoredRows,
    rounds: NDArray[np.intp] | None = None,
    own: Host | None = None,
) -> CalibratedFit:
    """Set the threshold by rows that nothing learnt from.

    Parameters
    ----------
    fit : FitResult
        From all rows.
    others : sequence of FitResult
        Without each of the parts of `calibration`.
    calibration : CalibrationRows
        Raw scores of the rows that calibrate.
    rule : ThresholdParameters
        How the threshold follows from their fused scores.
    rows, rounds, own : StoredRows, ndarray, ndarray or None
        As in `CalibratedFit`; no round by default.
    """
    held_out = calibrated_scores(fit, others, calibration)
    if rounds is None:
        rounds = np.zeros(len(held_out.labels), np.intp)
    # A fusion that looks at features is not learnt again: they are not kept.
    parts = [replace(part, features=None) for part in calibration.parts]
    calibration = replace(calibration, parts=parts, features=None)
    offset = rule.offset(held_out)
    return CalibratedFit(
        fit.pool, fit.combination, fit.imputer, fit.out_of_fold, held_out, calibration, offset,
        rows, rounds, fit.search, own=own,
    )  # fmt: skip


def calibrated_scores(
    fit: FitResult, others: Sequence[FitResult], calibration: CalibrationRows
) -> HeldOutScores:
    """Return held-out scores of the training rows, then of those set aside; some calibrate."""
    whole = fit.held_out
    if calibration.by == "plain":
        return whole
    if calibration.by == "split":
        learnt = replace(whole, calibrates=np.zeros(len(whole.labels), dtype=bool))
        ones = np.ones(len(calibration.scores))
        aside = HeldOutScores.by(fit.combination, calibration.scores, ones, calibration.features)
        return HeldOutScores.concatenate([learnt, aside])
    # A row that has copies is no stranger than they are: its calibration score is no higher than
    # what a new copy of it will get, so that ties never raise alarms.
    ceiling = np.full(len(whole.labels), np.inf)
    if len(calibration.copied):
        same = fit.combination.score_samples(calibration.scores, calibration.features)
        ceiling[calibration.copied] = np.nan_to_num(same, nan=np.inf)
    reference = whole.fused[whole.labels > 0]
    terms, weights = whole.terms.copy(), np.array(whole.abs_weights)
    calibrates = np.zeros(len(whole.labels), dtype=bool)
    for part, other in zip(calibration.parts, others, strict=True):
        if len(part.hidden) == 0:
            continue
        ones = np.ones(len(part.hidden))
        hidden = HeldOutScores.by(other.combination, part.scores, ones, part.features)
        own, scores = other.held_out, hidden.fused
        mapped = scores  # by a rehearsal: what it gave is what rows to come are held against
        if calibration.by == "cross":
            mapped = map_quantiles(scores, own.fused[own.labels > 0], reference)
        moved = hidden.moved(np.minimum(mapped, ceiling[part.hidden]) - scores)
        terms[part.hidden], weights[part.hidden] = moved.terms, moved.abs_weights
        calibrates[part.hidden] = True
    return replace(whole, terms=terms, abs_weights=weights, calibrates=calibrates)


def map_quantiles(scores: Host, own: Host, reference: Host) -> Host:
    r"""Map scores of one detector to the scale of another, by their scores of normal rows.

    With :math:`Q` and :math:`R` the quantile functions of `own` and `reference`, a score s becomes
    :math:`R(Q^{-1}(s))`, the lowest where scores are tied. Below the twentieth part,
    :math:`q = Q(0.05)`, it becomes :math:`R(0.05) + a (s - q)` with the ratio a of the distances
    from there to the median.

    Parameters
    ----------
    scores : ndarray of shape (m,)
        Of one detector.
    own, reference : ndarrays
        Scores of normal rows by that detector and by the other.

    Examples
    --------
    >>> import numpy as np
    >>> own = np.linspace(0.0, 1.0, 101)
    >>> map_quantiles(np.array([-0.4, 0.5, 7.0]), own, 10 + 2 * own).round(6)
    array([ 9.2, 11. , 12. ])
    """
    own, reference = own[~np.isnan(own)], reference[~np.isnan(reference)]
    if own.size == 0 or reference.size == 0:
        return scores
    levels = np.linspace(TAIL, 1.0, 191)
    here, there = np.quantile(own, levels), np.quantile(reference, levels)
    middle = 90  # the level 0.5
    width, other = here[middle] - here[0], there[middle] - there[0]
    stretch = other / width if width > 0 and other > 0 else 1.0
    stretch = min(max(stretch, 1 / MOST_STRETCH), MOST_STRETCH)
    different, first = np.unique(here, return_index=True)
    inside = np.interp(scores, different, there[first])
    found: Host = np.where(scores < here[0], there[0] + stretch * (scores - here[0]), inside)
    return np.where(np.isnan(scores), np.nan, found)
