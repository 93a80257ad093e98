"""From raw scores to the fused one: scaling and weights, also where a detector is silent."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from lpfuse._arrays import Host
from lpfuse._saved import saved_as

Gaps = NDArray[np.bool_]
NO_VOICE = 1e-6  # share of the largest weight below which a detector has none


def scale(scaler: Any, S: Host) -> Host:
    """Raw scores on the common scale; gaps (NaN) stay gaps."""
    gaps = np.isnan(S)
    if not gaps.any():
        return np.asarray(scaler.transform(S))
    scaled = np.array(scaler.transform(np.where(gaps, 0.0, S)), dtype=np.float64)
    scaled[gaps] = np.nan
    return scaled


@dataclass(frozen=True)
class Combination:
    """A fitted scaler and a fitted fusion: raw scores in, parts of the fused score out."""

    scaler: Any
    fusion: Any

    @classmethod
    def learn(
        cls, scaler: Any, fusion: Any, S: Host, y: Host, space: Host | None = None
    ) -> Combination:
        """Fit copies to raw scores without gaps and labels ±1; normal rows set the scale.

        `space` holds the features of the rows, for a fusion that looks at them.
        """
        scaler = clone(scaler).fit(S[y > 0])
        labels = None if (y > 0).all() else y
        return cls(scaler, clone(fusion).fit(scale(scaler, S), labels, **_where(space)))

    @property
    def is_additive(self) -> bool:
        """Whether the fused score is a sum over detectors."""
        return hasattr(self.fusion, "contributions")

    def terms(self, S: Host, space: Host | None = None) -> Host:
        """What each detector would add were none silent, ``w_j s_ij``; NaN where it is.

        A single column, the fused score itself, where that is not a sum.
        """
        gaps = np.isnan(S)
        scaled = scale(self.scaler, S)
        if self.is_additive:
            terms = np.array(self.fusion.contributions(np.nan_to_num(scaled)), dtype=np.float64)
            terms[gaps] = np.nan
            return terms
        terms = np.full((len(S), 1), np.nan)
        whole = ~gaps.any(axis=1)
        if whole.any():
            here = _where(None if space is None else space[whole])
            terms[whole, 0] = self.fusion.score_samples(scaled[whole], **here)
        return terms

    @property
    def trust(self) -> Host:
        """How much each term of the fused score weighs: ``|w_j|``, 0 for all but nothing."""
        if not self.is_additive:
            return np.ones(1)
        weights = np.abs(self.fusion.weights_)
        return np.where(weights > NO_VOICE * weights.max(), weights, 0.0)

    def parts(self, S: Host, space: Host | None = None) -> Host:
        """What each detector adds to the fused score: `terms`, with others in place of the silent.

        NaN where nobody with a weight speaks.
        """
        return without_gaps(self.terms(S, space), self.trust)

    def fused(self, S: Host, space: Host | None = None) -> Host:
        """Fused scores: the sums of `parts`."""
        scores: Host = self.parts(S, space).sum(axis=1)
        return scores


def without_gaps(terms: Host, trust: Host, silent: Gaps | None = None) -> Host:
    """Terms that make up for those that are missing.

    The weights of the detectors that speak grow so that, in absolute value, they sum to what all
    weights did; the silent ones add 0. NaN where nobody with a weight speaks.

    Parameters
    ----------
    terms : ndarray of shape (n, R)
        NaN where a detector is silent.
    trust : ndarray of shape (R,) or (n, R)
        Absolute values of the weights.
    silent : ndarray of shape (R,), optional
        Detectors to be taken as silent of all rows.
    """
    gaps = np.isnan(terms) if silent is None else np.isnan(terms) | silent
    if not gaps.any():
        return terms
    some = gaps.any(axis=1, keepdims=True)
    speaking = np.where(gaps, 0.0, trust).sum(axis=1, keepdims=True)
    growth = np.where(some, np.nan, 1.0)
    whole = trust.sum(axis=-1, keepdims=True)
    np.divide(whole, speaking, out=growth, where=some & (speaking > 0))
    return np.where(gaps, 0.0, terms) * growth


@saved_as("Judged")
@dataclass(frozen=True)
class Judged:
    """Terms of the fused scores of some rows, and what is known of these rows."""

    terms: Host  # m×R, NaN where a detector is silent
    trust: Host  # m×R: absolute values of the weights behind each row's terms
    labels: Host  # ±1, or 0 for unlabelled
    coarser: Host  # as terms, by detectors that learnt from fewer rows; terms where none did

    @classmethod
    def by(
        cls,
        combination: Combination,
        S: Host,
        labels: Host,
        space: Host | None = None,
        coarser: Host | None = None,
    ) -> Judged:
        """Rows judged by one combination, given their raw scores."""
        terms = combination.terms(S, space)
        trust = np.broadcast_to(combination.trust, terms.shape)
        by_fewer = terms if coarser is None else combination.terms(coarser, space)
        return cls(terms, trust, labels, by_fewer)

    @classmethod
    def out_of_fold(
        cls,
        scaler: Any,
        fusion: Any,
        S: Host,
        y: Host,
        fold: NDArray[np.intp],
        space: Host | None = None,
        coarser: Host | None = None,
    ) -> Judged:
        """Rows judged by combinations that were learnt without their folds.

        Parameters
        ----------
        scaler, fusion : estimators
            Copies are fitted.
        S : ndarray of shape (n, R)
            Raw scores; a row with gaps teaches nothing.
        y : ndarray of shape (n,)
            ±1 for rows that teach, 0 for the others.
        fold : ndarray of shape (n,)
            Numbers of folds.
        space : ndarray of shape (n, d), optional
            Features of the rows, for a fusion that looks at them.
        coarser : ndarray of shape (n, R), optional
            Raw scores by detectors that learnt from fewer rows.
        """
        teaches = (y != 0) & ~np.isnan(S).any(axis=1)
        found, rows = [], []
        for number in np.unique(fold):
            inside = fold == number
            rest = teaches & ~inside
            for side in (y > 0, y < 0):  # a class that is all in one fold must not be lost
                if not (rest & side).any():
                    rest |= teaches & side
            with warnings.catch_warnings():  # what there is to say is said of the final weights
                warnings.simplefilter("ignore")
                here, there = (None if space is None else space[these] for these in (inside, rest))
                combination = Combination.learn(scaler, fusion, S[rest], y[rest], there)
            by_fewer = None if coarser is None else coarser[inside]
            found.append(cls.by(combination, S[inside], y[inside], here, by_fewer))
            rows.append(np.flatnonzero(inside))
        return cls.joined(found)[np.argsort(np.concatenate(rows))]

    @classmethod
    def joined(cls, several: Sequence[Judged]) -> Judged:
        """Several of them, one after the other."""
        names = [field.name for field in fields(cls)]
        return cls(*(np.concatenate([getattr(one, name) for one in several]) for name in names))

    def __getitem__(self, rows: Any) -> Judged:
        return Judged(*(getattr(self, field.name)[rows] for field in fields(self)))

    @property
    def fused(self) -> Host:
        """The fused score of each row; NaN where nobody could score it."""
        return self._fused(self.terms, None)

    def scores(self, silent: Gaps | None = None) -> tuple[Host, Host]:
        """Fused scores and labels of the rows, had some detectors been silent.

        Without the rows that nobody else scored; if that leaves no normal one, all as they are.
        """
        if self.terms.shape[1] == 1:  # not a sum: nobody can make up for anybody
            silent = None
        found = self._fused(self.terms, silent)
        scored = ~np.isnan(found)
        if silent is not None and not (self.labels[scored] > 0).any():
            return self.scores()
        return found[scored], self.labels[scored]

    def normal_scores(self, ahead: float, silent: Gaps | None = None) -> Host:
        """Fused scores of the normal rows, as detectors fitted to all rows would give unseen ones.

        Scores move with the number m of rows learnt from, about as ``a + b/m``. What a fold less
        changes, from `coarser` to `terms`, is continued `ahead` as far; in order of size, for the
        distribution is wanted, and single rows are noisy.
        """
        if self.terms.shape[1] == 1:
            silent = None
        normal = self[self.labels > 0]
        found = normal._fused(normal.terms, silent)
        by_fewer = normal._fused(normal.coarser, silent)
        scored = ~np.isnan(found) & ~np.isnan(by_fewer)
        if silent is not None and not scored.any():
            return self.normal_scores(ahead)
        found, by_fewer = np.sort(found[scored]), np.sort(by_fewer[scored])
        scores: Host = np.sort(found + ahead * (found - by_fewer))
        return scores

    def _fused(self, terms: Host, silent: Gaps | None) -> Host:
        scores: Host = without_gaps(terms, self.trust, silent).sum(axis=1)
        return scores


def _where(space: Host | None) -> dict[str, Host]:
    """The argument of a fusion that looks at the rows themselves."""
    return {} if space is None else {"X": space}


def by_gaps(gaps: Gaps) -> list[tuple[NDArray[np.bool_], Gaps]]:
    """Rows by which detectors are silent: (rows, silent detectors)."""
    if len(gaps) and not gaps.any():  # nearly always, and sorting is slow
        return [(np.ones(len(gaps), dtype=bool), gaps[0])]
    patterns, pattern_of = np.unique(gaps, axis=0, return_inverse=True)
    return [(pattern_of.ravel() == i, pattern) for i, pattern in enumerate(patterns)]
