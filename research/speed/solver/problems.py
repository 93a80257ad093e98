"""The problems every rival is given: scores, labels, p, and the grid over which they vary.

    minimise  f(w) = Σ_i c_i max(0, 1 − y_i s_iᵀw)   subject to  ‖w‖_p ≤ 1

A problem is named by its :class:`Case` (sizes, setting, seed) and p, so that each process
builds the very same data from a few numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from research.common.judge import Matrix, Vector

from .banknotes import banknote_scores

# The grid of the paper, to which both ends are added, where the problem is a linear program.
PAPER_P = ("32/31", "16/15", "8/7", "4/3", "2", "4", "8", "10", "100")
ALL_P = ("1", *PAPER_P, "inf")
# Sizes by hand; 4 learners and 36 scores of a face are the paper's.
SIZES = (1_000, 10_000, 100_000, 1_000_000)
LEARNERS = (4, 36, 200)
NEGATIVE_FRACTION = {"pure": 0.0, "negatives": 0.2}

OUTLIER_FRACTION = 0.03  # of the normals; by hand, so that some rows sit beyond their margin
BLOCK_ROWS = 1 << 14  # that are drawn at a time: no second copy of the scores


def parse_p(label: str) -> float:
    """The number behind a label such as ``"32/31"`` or ``"inf"``."""
    return math.inf if label == "inf" else float(Fraction(label))


@dataclass(frozen=True)
class Case:
    """What a set of scores is called, and how to build it again."""

    n: int
    R: int
    setting: str
    seed: int = 0
    source: str = "synthetic"

    def data(self) -> tuple[Matrix, Vector]:
        if self.source == "banknotes":
            return banknote_scores(self.setting, self.seed)
        return synthetic_scores(self.n, self.R, NEGATIVE_FRACTION[self.setting], self.seed)

    def small(self) -> Case:
        """A little sibling with as many learners: what a warm-up runs on."""
        return Case(n=64, R=self.R, setting=self.setting, seed=self.seed + 1)


def synthetic_scores(n: int, R: int, negative_fraction: float, seed: int) -> tuple[Matrix, Vector]:
    """Scores as R one-class learners of different skill would give them, min-max scaled.

    Every sample has a quality that all learners see, each with its own noise; anomalies and a
    few outlying normals lie lower, the more so the better the learner. A logistic warp bends
    the marginals; 2 % of the normals fall below 0 and 2 % above 1. Built in blocks of rows: 1e6
    × 36 takes about a second.
    """
    rng = np.random.default_rng(seed)
    labels = np.ones(n)
    labels[rng.permutation(n)[: round(negative_fraction * n)]] = -1.0
    outlying = (labels > 0) & (rng.random(n) < OUTLIER_FRACTION)
    level = -1.6 * (labels < 0) - 2.5 * outlying + rng.standard_normal(n)
    skill = rng.uniform(0.3, 0.9, R)
    shift = 0.5 * np.log(rng.uniform(2.0, 6.0, R) / rng.uniform(1.2, 4.0, R))

    scores = np.empty((n, R))
    for start in range(0, n, BLOCK_ROWS):
        block = scores[start : start + BLOCK_ROWS]
        rng.standard_normal(out=block)
        block *= np.sqrt(1.0 - skill**2)
        block += level[start : start + BLOCK_ROWS, None] * skill
        _logistic(block, shift)
    return _two_sided_min_max(scores, labels), labels


def _logistic(block: Matrix, shift: Vector) -> None:
    """In place: 1 / (1 + exp(−(0.9 x + shift)))."""
    block *= -0.9
    block -= shift
    np.exp(block, out=block)
    block += 1.0
    np.reciprocal(block, out=block)


def _two_sided_min_max(scores: Matrix, labels: Vector) -> Matrix:
    """In place: quantiles 0.02 and 0.98 of the normals become 0 and 1.

    The rows are in random order, so the first few thousand normals give the quantiles well enough.
    """
    normals = scores[np.flatnonzero(labels > 0)[:20_000]]
    low, high = np.quantile(normals, [0.02, 0.98], axis=0)
    for start in range(0, len(scores), BLOCK_ROWS):
        block = scores[start : start + BLOCK_ROWS]
        block -= low
        block /= np.where(high > low, high - low, 1.0)
    return scores
