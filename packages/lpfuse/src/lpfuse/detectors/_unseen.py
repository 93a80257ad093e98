"""Thresholds by rows that a fit has not seen: parts of the rows are left out of refits in turn.

Scores of training rows flatter, for a learner knows these rows. So a threshold comes from scores
that rows get from refits without them. A refit learns everything anew, the kernel's width,
landmarks and components included. The threshold then serves the fit to all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays.operations import Array, Host, as_float64, like, namespace, take, to_host
from lpfuse._base import Detector, below_rounding, unseen_quantile
from lpfuse._checks.arguments import check_choice
from lpfuse.detectors._training import TrainingRows

Positions = NDArray[np.int64]

OFFSET_FROM = ("unseen", "training")  # rows whose scores may set a threshold
# Parts by number of different rows. Refits with a tenth less of 2,000 rows still score fresh rows
# lower than the fit to all does: of 10 % asked for, 9.5 % lie below (Gaussian process, the most
# sensitive of the learners; a fifth less: 8.7 %). Of 60 rows each one counts: a tenth less 8.0 %,
# one row less 8.6 %. See docs/false-alarms.md.
ALONE = 100  # up to so many rows, each is left out by itself
MANY_PARTS, FEW_PARTS = 20, 10  # beyond; the first up to 1,000 rows, where refits are cheap
MANY_PARTS_UP_TO = 1000
# From here on one part of ten is scored, 500 rows or more: one refit, not ten that take minutes.
ONE_PART_FROM = 5000
FEWEST = 3  # different rows: without one of them there must still be two that differ


class RefittedDetector(Detector):
    """A detector that is fitted again without parts of its rows to set its threshold.

    A subclass writes `_rows`, `_fit_rows` and `_refitted`.
    """

    offset_from: Any

    def _check_parameters(self) -> None:
        self._check_contamination()
        check_choice("offset_from", self.offset_from, OFFSET_FROM)

    def _is_by_unseen(self) -> bool:
        """Whether rows that were left out set the threshold."""
        return bool(self.offset_from == "unseen")

    def _share(self) -> float:
        """The share of the rows below the threshold."""
        return float(self.contamination)

    def _fewest_parts(self) -> int:
        """How many parts to leave out in turn, at least, where there are more rows than `ALONE`."""
        return 0

    def _rows(self, X: Any, y: Any, sample_weight: Any) -> TrainingRows:
        """What a user passed to ``fit``, checked."""
        raise NotImplementedError

    def _turn(self, rows: TrainingRows) -> tuple[str, float]:
        """What to sort detectors on the same rows by."""
        return "", 0.0

    def _fit_rows(self, rows: TrainingRows, *, thresholds: bool = True) -> None:
        """Fit to checked rows; `set_offsets` sets a threshold by unseen rows, if one is wanted."""
        raise NotImplementedError

    def _refitted(self, rows: TrainingRows, kept: float) -> Self:
        """A copy that has learnt, in the same way, from that share of the normal rows."""
        raise NotImplementedError

    def _settle_offset(self, rows: TrainingRows, scores: Array | None) -> None:
        """Set the threshold from the scores of the training rows."""
        if scores is None:
            scores = self._scores(rows.X)
        quantile = rows.lower_quantile(scores, self._share(), self._scores)
        self.offset_ = below_rounding(quantile, self._size_of_terms(rows), scores)

    def _size_of_terms(self, rows: TrainingRows) -> float:
        """How large the terms are that a score is the difference of."""
        return 0.0


def set_offsets(detectors: Sequence[RefittedDetector], rows: TrainingRows) -> None:
    """Set the thresholds of fitted detectors by scores that rows get from refits without them.

    Detectors on the same rows share the work of each refit. Those whose threshold is set by other
    means are left as they are; where too few rows differ, the training rows' scores decide.
    """
    waiting: dict[int, list[RefittedDetector]] = {}
    for detector in detectors:
        if detector._is_by_unseen():
            waiting.setdefault(detector._fewest_parts(), []).append(detector)
    if waiting:
        number_of_row = numbers_of(rows)
        rows.forget()  # matrices of all rows: each refit has its own
        for at_least, alike in waiting.items():
            _set_together(alike, rows, number_of_row, at_least)


def _set_together(
    detectors: list[RefittedDetector], rows: TrainingRows, number_of_row: Positions, at_least: int
) -> None:
    """Set the thresholds of detectors that are fitted again without the same parts."""
    parts = left_out_parts(rows, number_of_row, at_least)
    if not parts:
        for detector in detectors:
            detector._settle_offset(rows, None)
        return
    scores: list[list[Host]] = [[] for _ in detectors]
    mass = rows.weights[number_of_row >= 0].sum()
    for part in parts:
        others, left_out = rows.without(part, share=len(detectors) > 1), take(rows.X, part)
        kept = 1 - float(rows.weights[part].sum() / mass)
        for found, detector in zip(scores, detectors, strict=True):
            found.append(to_host(detector._refitted(others, kept)._scores(left_out)))
    every = np.concatenate(parts)
    weights, different = rows.weights[every], len(np.unique(number_of_row[every]))
    for found, detector in zip(scores, detectors, strict=True):
        quantile = unseen_quantile(np.concatenate(found), weights, different, detector._share())
        detector.offset_ = below_rounding(quantile, detector._size_of_terms(rows), rows.X)


def left_out_parts(
    rows: TrainingRows, number_of_row: Positions, at_least: int = 0
) -> list[Positions]:
    """Positions of the rows that each refit leaves out; none where too few rows differ.

    Equal rows are left out together: a copy that stays would tell of the row. Known anomalies stay.
    Which rows go together depends on their order and on nothing else, so that no row decides by
    its values what others are scored by.
    """
    normal = np.flatnonzero(number_of_row >= 0)
    appeared, place = np.unique(number_of_row[normal], return_inverse=True)
    different = len(appeared)
    if different < FEWEST:
        return []
    only_one = different > ONE_PART_FROM or rows.stands_for_more
    if different <= ALONE and not only_one:
        wanted = different
    elif different <= MANY_PARTS_UP_TO and not only_one:
        wanted = max(MANY_PARTS, at_least)
    else:
        wanted = min(different, FEW_PARTS if only_one else max(FEW_PARTS, at_least))
    # Rows may come sorted, so parts are drawn; always alike, so that fits can be repeated.
    part_of = np.random.default_rng(0).permutation(np.arange(different) % wanted)[place]
    return [normal[part_of == k] for k in range(1 if only_one else wanted)]


def numbers_of(rows: TrainingRows) -> Positions:
    """For each normal row the position of the first row that equals it; −1 for anomalies."""
    X = as_float64(rows.X)
    direction = np.random.default_rng(0).normal(size=X.shape[1])  # in which different rows differ
    # Not a matrix product, which rounds equal rows differently by where they are.
    along = to_host(namespace(X).sum(X * like(direction, X), axis=1))
    _, first, inverse = np.unique(along, return_index=True, return_inverse=True)
    same = first[inverse]
    return same if rows.labels is None else np.where(rows.labels > 0, same, -1)
