"""Scores of normal rows that nothing has seen: what every threshold and p-value rests on.

All that a fit learns — detectors with their preparation and landmarks, experts, the scores that
these see, scale and weights — is one `Learnt`. A row calibrates by its score from a `Learnt` that
was made without it:

* "split": some normal rows are kept from everything, and scored by the detector itself;
* "cross": normal rows are dealt out, and those of each part are scored by a `Learnt` of its own,
  made anew, from the first step to the last, without that part.

The detector at hand has learnt from more rows than those of "cross", and its weights are others. So
a score is brought over by what both say of their own rows out of fold: a row that lies at the end
of the lowest tenth of those of one lies there among the other's (`brought_over`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.impute import SimpleImputer
from sklearn.utils import _safe_indexing

from lpfuse._arrays.operations import Host
from lpfuse._saved import saved_as
from lpfuse._validation.params import is_count
from lpfuse.ensemble._calibration import HeldOutScores, OutOfFoldScores
from lpfuse.ensemble._scoring import Combination
from lpfuse.ensemble._tables import Index
from lpfuse.ensemble._training import Training, make_folds

# Parts that normal rows are dealt out to; where there are experts, the parts are their folds. With
# ten parts, 1 / 5 / 10 % asked gave what five do, over eight families of rows: docs/adr/0021.
PARTS = 5
# Normal rows below which there are no parts: 5 % could not be promised with twice as many.
FEWEST_ROWS = 10
# Normal rows from which on calibration="auto" keeps a fifth of them back, and groups from which on
# it keeps a fifth of these: four hundred rows, or a hundred groups, set a threshold well enough,
# and most of the default detectors learn from no more than 2,000 rows.
SPLIT_FROM, SPLIT_GROUPS_FROM = 2_000, 500
# Below this share of the out-of-fold scores a tail is taken to be the other's, moved and stretched:
# there are too few of them to tell its shape. Stretched by no more than MOST_STRETCH, by hand.
TAIL, MOST_STRETCH = 0.05, 2.0


class Part(NamedTuple):
    """Normal rows to hide, and others to learn from.

    Attributes
    ----------
    training : Training
        What is learnt from.
    learn, hidden : ndarrays of positions
        Training rows that this is, and that are hidden.
    rest : ndarray of positions
        All others, such as anomalies of a group that is hidden: they are scored, no more.
    """

    training: Training
    learn: Index
    hidden: Index
    rest: Index

    @classmethod
    def of(cls, training: Training, learn: Index, hidden: Index, n: int) -> Part:
        """With the rest of n rows."""
        taken = np.concatenate([learn, hidden])
        return cls(training, learn, hidden, np.setdiff1d(np.arange(n), taken))


class Learnt(NamedTuple):
    """All that is learnt from some rows, and what it says of them out of fold.

    Attributes
    ----------
    pool : Pool or None
        The detectors, fitted to all of the rows; None once they are no longer needed.
    combination : Combination
        Scale and weights.
    imputer : SimpleImputer or None
        For a fusion that looks at features.
    out_of_fold : OutOfFoldScores
        Raw scores of the rows, which scale and weights were learnt from.
    held_out : HeldOutScores
        The same rows, fused by weights that were learnt without their folds.
    calm : ndarray or None
        Of the experts, as in `lpfuse.ensemble._experts.FittedPool`.
    """

    pool: Any
    combination: Combination
    imputer: SimpleImputer | None
    out_of_fold: OutOfFoldScores
    held_out: HeldOutScores
    calm: Host | None = None


@saved_as("UnseenPart")
@dataclass(frozen=True, eq=False)
class UnseenPart:
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


@saved_as("UnseenRows", by=("cross", "split", "plain"))
@dataclass(frozen=True, eq=False)
class UnseenRows:
    """Raw scores of all rows that calibrate, whatever the scale and the weights.

    Attributes
    ----------
    by : {"cross", "split", "plain"}
        Which rows these are: those hidden in `parts`, those kept back, or, with "plain", no rows
        but those that were learnt from, out of fold.
    parts : list of UnseenPart
        For "cross".
    copied : ndarray of positions
        For "cross": training rows that have an equal among them.
    scores : ndarray of shape (m, R)
        By the detectors at hand: of the rows kept back, or of the copied ones.
    features : ndarray or None
        Of the same rows, for a fusion that looks at them.
    known : ndarray of shape (m, 2) or None
        For "split": labels of the rows kept back as they were given, +1 or 0, and chances.
    """

    by: str = "plain"
    parts: list[UnseenPart] = field(default_factory=list)
    copied: Index = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    scores: Host = field(default_factory=lambda: np.empty((0, 0)))
    features: Host | None = None
    known: Host | None = None

    @property
    def n_kept_back(self) -> int:
        """Rows that were kept back."""
        return len(self.scores) if self.by == "split" else 0

    def without_features(self) -> UnseenRows:
        """What is kept: a fusion that looks at features is not learnt again."""
        parts = [replace(part, features=None) for part in self.parts]
        return replace(self, parts=parts, features=None)

    def calibrate(self, learnt: Learnt, others: Sequence[Learnt]) -> HeldOutScores:
        """Held-out scores of the training rows, then of those kept back; some calibrate.

        `learnt` is the detector at hand, `others` are those without each of the parts.
        """
        whole = learnt.held_out
        if self.by == "plain":
            return whole
        ones = np.ones(len(self.scores))
        if self.by == "split":
            seen = replace(whole, calibrates=np.zeros(len(whole.labels), dtype=bool))
            unseen = HeldOutScores.by(learnt.combination, self.scores, ones, self.features)
            return HeldOutScores.concatenate([seen, unseen])
        # A row that has copies is no stranger than they are: its calibration score is no higher
        # than what a new copy of it will get, so that ties never raise alarms.
        ceiling = np.full(len(whole.labels), np.inf)
        if len(self.copied):
            same = learnt.combination.score_samples(self.scores, self.features)
            ceiling[self.copied] = np.nan_to_num(same, nan=np.inf)
        reference = whole.fused[whole.labels > 0]
        terms, weights = whole.terms.copy(), np.array(whole.abs_weights)
        calibrates = np.zeros(len(whole.labels), dtype=bool)
        for part, other in zip(self.parts, others, strict=True):
            if len(part.hidden) == 0:
                continue
            ones = np.ones(len(part.hidden))
            hidden = HeldOutScores.by(other.combination, part.scores, ones, part.features)
            own, scores = other.held_out, hidden.fused
            over = brought_over(scores, own.fused[own.labels > 0], reference)
            moved = hidden.moved(np.minimum(over, ceiling[part.hidden]) - scores)
            terms[part.hidden], weights[part.hidden] = moved.terms, moved.abs_weights
            calibrates[part.hidden] = True
        return replace(whole, terms=terms, abs_weights=weights, calibrates=calibrates)


def keeps_back(calibration: str, labels: Host, groups: NDArray[Any] | None, cv: Any) -> bool:
    """Whether some normal rows are kept from everything but the threshold.

    With "auto", not where users deal rows out themselves: their parts are the ones to hide.
    """
    if calibration != "auto":
        return calibration == "split"
    dealt_here = isinstance(cv, str) or is_count(cv)
    many = groups is None or len(np.unique(groups[labels >= 0])) >= SPLIT_GROUPS_FROM
    return bool(dealt_here and many and (labels >= 0).sum() >= SPLIT_FROM)


def hidden_parts(
    training: Training, cv: Any, has_experts: bool, random: np.random.RandomState
) -> list[tuple[Index, Index]]:
    """Rows to learn from and rows to hide, part by part; none where there are too few.

    Every normal row is hidden once, and known anomalies never, for these do not calibrate; of
    groups all rows are. The pairs of a splitter are taken as they are. Where there are experts, the
    normal rows of a fold are a part, one for each fold: the experts without it are there already.
    """
    normal = training.weight_labels > 0
    if normal.sum() < FEWEST_ROWS:
        return []
    if training.folds is not None and not is_count(cv):
        pairs = [(learn, score[normal[score]]) for learn, score in training.folds.pairs]
        if not has_experts:
            pairs = [pair for pair in pairs if len(pair[1])]
        can_be = all(len(hidden) and _can_be_dealt_out(training, learn) for learn, hidden in pairs)
        return pairs if can_be else []
    if training.groups is not None:
        if len(np.unique(training.groups[normal])) < 3:
            return []  # without one of them, the others must be dealt out again
        folds = training.folds
        if folds is None or not has_experts:
            folds = make_folds(PARTS, training.labels, training.groups, None, random)
        pairs = [(learn, score[normal[score]]) for learn, score in folds.pairs]
        learnt = [training.groups[learn][normal[learn]] for learn, _ in pairs]
        enough = all(len(np.unique(names)) > 1 for names in learnt)
        if has_experts:
            return pairs if enough and all(len(hidden) for _, hidden in pairs) else []
        return [pair for pair in pairs if len(pair[1])] if enough else []
    dealt = np.full(len(normal), -1)
    folds = training.folds if has_experts else None
    if folds is not None:
        dealt[normal] = folds.of_row[normal]
    else:
        dealt[random.permutation(np.flatnonzero(normal))] = np.arange(normal.sum()) % PARTS
    # A fold of anomalies alone hides nothing, but the experts without it see by a part of theirs.
    numbers = np.unique(dealt[normal] if folds is None else folds.of_row)
    return [(np.flatnonzero(dealt != k), np.flatnonzero(dealt == k)) for k in numbers]


def _can_be_dealt_out(training: Training, rows: Index) -> bool:
    """Whether the folds, among some rows, score normal ones, and all learn from some."""
    assert training.folds is not None
    normal, folds = training.labels[rows] >= 0, training.folds.among(rows)
    scored = normal[folds.of_row >= 0].any()
    return bool(scored and all(normal[learn].any() for learn, _ in folds.pairs))


def among(training: Training, rows: Index, cv: Any, random: np.random.RandomState) -> Training:
    """The training on some of its rows alone, dealt out to folds anew."""
    groups = None if training.groups is None else training.groups[rows]
    kinds = None if training.kinds is None else training.kinds[rows]
    labels, folds = training.labels[rows], training.folds
    if folds is not None:
        anew = is_count(cv)
        folds = make_folds(cv, labels, groups, kinds, random) if anew else folds.among(rows)
    return Training(
        _safe_indexing(training.X, rows, axis=0), labels, folds, groups, kinds,
        chances=None if training.chances is None else training.chances[rows], is_part=True,
    )  # fmt: skip


def scores_of_all_rows(part: Part, one_class: Any, n: int) -> Host:
    """What one-class members that were fitted without a part say of all n training rows."""
    found = np.full((n, one_class.scores.shape[1]), np.nan)
    found[part.learn] = one_class.scores[: len(part.learn)]
    found[np.concatenate([part.hidden, part.rest])] = one_class.hidden
    return found


def brought_over(scores: Host, own: Host, reference: Host) -> Host:
    r"""Scores of one detector on the scale of another, by what both say of normal rows.

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
    >>> brought_over(np.array([-0.4, 0.5, 7.0]), own, 10 + 2 * own).round(6)
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
