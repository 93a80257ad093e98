"""One set and one seed: every option's test AUC, as records to be stored.

A record holds one cell (set, seed, number of labelled anomalies, clip) with the AUC, in per cent,
of the sum, of the best single detector picked with the same labels, of the best one in hindsight,
and of ℓp fusion: under ``lp``, for each `Weighting`, one AUC for each p of `GRID`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np

from lpfuse import FixedRule, TwoSidedMinMax, lp_path
from research.common.protocol import auc
from research.common.splits import StudySplit, study_split
from research.common.store import Record

from .detectors import out_of_fold, score_all

GRID = {
    "1": 1.0, "32/31": 32 / 31, "8/7": 8 / 7, "4/3": 4 / 3, "2": 2.0, "4": 4.0, "10": 10.0,
    "100": 100.0, "inf": np.inf,
}  # fmt: skip
LABELS = (0, 5, 20, 100)
# Rows of training normals, and of each class in the test: chosen by hand, so that exact kernel
# learners take seconds.
MOST_TRAIN, MOST_TEST = 600, 750
CLIPS = (False, True, "soft")


class Weighting(NamedTuple):
    """What of `LpFusion` is varied beside p; `key` names it in a record."""

    fit_intercept: bool
    class_weight: str | None
    nonnegative: bool

    @property
    def key(self) -> str:
        chosen = {"intercept": self.fit_intercept, "balanced": self.class_weight is not None,
                  "nonnegative": self.nonnegative}  # fmt: skip
        return "+".join(name for name, on in chosen.items() if on) or "plain"


WEIGHTINGS = tuple(
    Weighting(*options) for options in product((False, True), (None, "balanced"), (False, True))
)


@dataclass(frozen=True)
class Scores:
    """Detector scores of a split; those of the training rows are out of fold."""

    train: np.ndarray
    known: np.ndarray
    test_normal: np.ndarray
    test_anomaly: np.ndarray

    @classmethod
    def of(cls, rows: StudySplit, seed: int) -> Scores:
        """Half of the anomalies may be labelled, the first ones first; the others are sought."""
        half = len(rows.anomalies) // 2
        known = rows.anomalies[:half][: max(LABELS)]
        sought = rows.anomalies[half:][:MOST_TEST]
        parts = score_all(rows.train, [known, rows.test, sought], seed)
        return cls(out_of_fold(rows.train, seed), *parts)

    def scaled(self, clip: bool | str) -> Scores:
        scaler = TwoSidedMinMax(rho=5, feature_range=(-1, 1), clip=clip).fit(self.train)
        parts = self.train, self.known, self.test_normal, self.test_anomaly
        return Scores(*(scaler.transform(part) for part in parts))

    def test_auc(self, weights: np.ndarray) -> float:
        return auc(self.test_normal @ weights, self.test_anomaly @ weights)


def records_of(X: np.ndarray, is_anomaly: np.ndarray, seed: int) -> Iterator[Record]:
    """A record for each clip and each number of labels for which there are enough anomalies."""
    rows = study_split(X, is_anomaly, seed, most_train=MOST_TRAIN, most_test=MOST_TEST)
    raw = Scores.of(rows, seed)
    single = [raw.test_auc(column) for column in np.eye(raw.train.shape[1])]
    for clip in CLIPS:
        scores = raw.scaled(clip)
        for labels in LABELS:
            if labels > len(raw.known):
                continue
            yield {
                "labels": labels, "clip": clip,
                "sum": _rounded(scores.test_auc(FixedRule("sum").fit(scores.train).weights_)),
                "picked": _rounded(single[_pick(raw, labels)]) if labels else None,
                "hindsight": _rounded(max(single)),
                **_learnt(scores, labels),
            }  # fmt: skip


def _pick(raw: Scores, labels: int) -> int:
    """The detector that best separates the training normals from the labelled anomalies."""
    known = raw.known[:labels]
    return int(np.argmax([auc(raw.train[:, j], known[:, j]) for j in range(known.shape[1])]))


def _learnt(scores: Scores, labels: int) -> Record:
    S = np.r_[scores.train, scores.known[:labels]]
    y = np.r_[np.ones(len(scores.train)), -np.ones(labels)]
    paths = {
        option.key: lp_path(S, y, ps=list(GRID.values()), **option._asdict())
        for option in WEIGHTINGS
        # Without labels there is neither a balance nor an intercept to learn.
        if labels or not (option.fit_intercept or option.class_weight)
    }
    return {
        "lp": {
            key: [_rounded(scores.test_auc(w)) for w in path.weights] for key, path in paths.items()
        },
        "relative_gap": max(c.relative_gap for path in paths.values() for c in path.certificates),
    }


def _rounded(value: float) -> float:
    return round(value, 2)
