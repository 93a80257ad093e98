"""Rows in blocks: learners see a sample of them, and sums over all of them.

Two passes check the rows and draw the sample. A learner whose fit needs no more of the rows than
sums takes a third one over all of them; any other is fitted to the sample. For a threshold by
unseen rows a part of the sample is taken off these sums, which is one more pass; for one by the
training rows the last pass finds it among all scores.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays.blocks import CheckedBlocks, arrays_of
from lpfuse._arrays.operations import Array, Host, concatenate, like, take, to_host
from lpfuse._checks.blocks import check_feature_blocks
from lpfuse.detectors._features import FeatureMap
from lpfuse.detectors._training import Scoring, TrainingRows

Positions = NDArray[np.int64]


class SampleSize:
    """How many rows are brought together of many more in blocks; `sample_size` may be changed.

    Attributes
    ----------
    rows : int
        So many scores cut those of all rows into shares of 0.005 %, fine enough for a threshold,
        and an exact kernel matrix of so many rows still fits.
    per_landmark : int
        More rows where so many landmarks are asked for: as many as k-means draws for each
        (docs/adr/0004).
    """

    def __init__(self) -> None:
        self.rows = 20_000
        self.per_landmark = 20


sample_size = SampleSize()
Sample = tuple[Array, Host | None, Host | None]  # rows, labels, weights
Moments = tuple[Array, Array]


class SampledRows(TrainingRows):
    """A sample of rows in blocks, with sums over all of them.

    Parameters
    ----------
    checked : CheckedBlocks
        All rows.
    sample : tuple of arrays
        The rows of the sample, and their labels and weights, if any.
    positions : ndarray
        Where these rows are in the whole.
    """

    is_sample = True

    def __init__(self, checked: CheckedBlocks, sample: Sample, positions: Positions) -> None:
        X, labels, weights = sample
        counts = np.ones(len(positions)) if weights is None else weights
        if not (counts if labels is None else counts[labels > 0]).any():
            raise ValueError(
                f"None of {len(positions):,} rows drawn evenly from X is normal and has a "
                "sample_weight above zero. Leave rows out of X that do not count."
            )
        super().__init__(X, weights, labels)
        self.positions = positions if self.positions is None else positions[self.positions]
        self._checked, self.stands_for_more = checked, len(positions) < checked.n
        self._summed: tuple[FeatureMap, Moments] | None = None  # the latest

    def without(self, part: Positions, *, share: bool = False) -> TrainingRows:
        """The sample but for the rows at some positions; its sums are over all other rows."""
        rest = super().without(part, share=share)
        return _Rest(self, part, rest) if self.stands_for_more else rest

    def moments(self, features: FeatureMap, *, mean: bool = False) -> Moments:
        """``Σ w φ`` and ``Σ w φφᵀ`` of all rows: each block adds its own."""
        if self._summed is None or self._summed[0] is not features:
            sums = self._checked.blocks.reduce(_moments_of_block, _sum_of_moments, features)
            self._summed = features, sums
        first, second = self._summed[1]
        mass = sum(self._checked.mass) if mean else 1.0
        return first / mass, second / mass

    def lower_quantile(self, scores: Array, share: float, score: Scoring) -> float:
        """Of all rows: the highest score in the sample that no more than the share lies below."""
        if not self.stands_for_more:
            return super().lower_quantile(scores, share, score)
        cuts = np.unique(to_host(scores))
        below = np.cumsum(self._checked.blocks.reduce(_weight_between, _sum, score, cuts))
        within = below <= share * sum(self._checked.mass) * (1 + 1e-9)
        return float(cuts[within][-1] if within.any() else cuts[0])


class _Rest(TrainingRows):
    """A sample without some of its rows; sums are over all rows but these."""

    is_sample = stands_for_more = True

    def __init__(self, whole: SampledRows, part: Positions, rest: TrainingRows) -> None:
        super().__init__(rest.X, rest.weights, rest.labels, share=rest.share)
        self._whole, self._left_out = whole, (take(whole.X, part), whole.weights[part])

    def moments(self, features: FeatureMap, *, mean: bool = False) -> Moments:
        """``Σ w φ`` and ``Σ w φφᵀ`` of all rows but those that are left out."""
        every = self._whole.moments(features)
        first, second = (
            total - own for total, own in zip(every, features.moments(*self._left_out), strict=True)
        )
        mass = sum(self._whole._checked.mass) - self._left_out[1].sum() if mean else 1.0
        return first / mass, second / mass


def sampled_rows(
    X: Any, y: Any, sample_weight: Any, at_least: int, rng: np.random.RandomState
) -> SampledRows:
    """What a user passed to ``fit`` in blocks, checked, and a sample of it."""
    checked = check_feature_blocks(X, y=y, sample_weight=sample_weight)
    blocks = checked.blocks
    assert blocks.sizes is not None
    positions = _spread(checked.n, max(sample_size.rows, at_least), rng)
    starts = np.cumsum([0, *blocks.sizes])
    of_blocks = [
        positions[(positions >= start) & (positions < stop)] - start
        for start, stop in pairwise(starts)
    ]
    sample = blocks.reduce(_rows_at, _joined, of_blocks)
    return SampledRows(checked, sample, positions)


def _spread(n: int, count: int, rng: np.random.RandomState) -> Positions:
    """One position at random in each of `count` equal spans of n; all where there are fewer."""
    edges = np.arange(count + 1) * n // count if n > count else np.arange(n + 1)
    return edges[:-1] + (rng.uniform(size=len(edges) - 1) * np.diff(edges)).astype(np.int64)


def _rows_at(k: int, parts: tuple[Any, ...], positions: list[Positions]) -> Sample:
    chosen = positions[k]
    X, y, c = arrays_of(parts)
    return take(X, chosen), y if y is None else y[chosen], c if c is None else c[chosen]


def _joined(samples: list[Sample]) -> Sample:
    filled = [sample for sample in samples if sample[0].shape[0]] or samples[:1]
    rows, labels, weights = zip(*filled, strict=True)
    return concatenate(list(rows)), _joined_vectors(labels), _joined_vectors(weights)


def _joined_vectors(vectors: tuple[Host | None, ...]) -> Host | None:
    present = [vector for vector in vectors if vector is not None]
    return np.concatenate(present) if present else None


def _moments_of_block(k: int, parts: tuple[Any, ...], features: FeatureMap) -> Moments:
    X, _, weights = arrays_of(parts)
    if X.shape[0] == 0:
        return like(np.zeros(features.width), X), like(np.zeros((features.width,) * 2), X)
    return features.moments(X, np.ones(X.shape[0]) if weights is None else weights)


def _weight_between(k: int, parts: tuple[Any, ...], score: Scoring, cuts: Host) -> Host:
    """What the rows weigh whose scores lie below each cut, and not below the one before it."""
    X, _, weights = arrays_of(parts)
    if X.shape[0] == 0:
        return np.zeros(len(cuts))
    reached = np.searchsorted(cuts, to_host(score(X)), side="right")
    return np.bincount(reached, weights, minlength=len(cuts) + 1)[:-1].astype(np.float64)


def _sum(parts: list[Host]) -> Host:
    return np.sum(parts, axis=0)


def _sum_of_moments(parts: list[Moments]) -> Moments:
    first, second = zip(*parts, strict=True)
    return sum(first[1:], start=first[0]), sum(second[1:], start=second[0])
