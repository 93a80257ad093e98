"""Artificial outliers beside the rows of a dynamic fusion, and how far apart both classes are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.neighbors import NearestNeighbors

from lpfuse._arrays.operations import Host
from lpfuse.fusion._positions import PositionedScores

BELOW = 0.5  # artificial outliers reach so many ranges of the normal scores below these
# Times the median distance to the opposite class: a row that lies on one of the opposite class
# would be infinitely far from all others otherwise.
CLOSEST = 1e-6
TREE_DIMENSIONS = 5  # beyond, products of matrices find neighbours sooner than a tree (measured)


def with_outliers(
    rows: PositionedScores,
    share: float,
    scaler: Any,
    ask: Callable[[Host], Host] | None,
    random: np.random.RandomState,
) -> PositionedScores:
    """The rows, and artificial outliers after them; `scaler` is that of features, if any."""
    normal = rows.labels > 0
    m = int(np.ceil(share * normal.sum()))
    low, high = rows.scores[normal].min(axis=0), rows.scores[normal].max(axis=0)
    bottom = low - BELOW * (high - low)
    if scaler is None:
        positions = scores = random.uniform(bottom, high, (m, len(low)))  # nosec B311 # NumPy, seeded
    else:
        positions = _box(rows.positions[normal], m, random)
        scores = random.uniform(bottom, low, (m, len(low)))  # nosec B311 # NumPy, seeded
    if ask is not None:
        scores = _answers(ask, positions * scaler.scale_ + scaler.mean_, scores)
    weights = np.full(m, rows.sample_weight[normal].mean())
    outliers = PositionedScores(scores, np.full(m, -1.0), weights, positions)
    return PositionedScores(*(np.concatenate(pair) for pair in zip(rows, outliers, strict=True)))


def _answers(ask: Callable[[Host], Host], features: Host, presumed: Host) -> Host:
    """What the detectors say of made-up rows; what is presumed, where one is silent."""
    scores = np.asarray(ask(features), dtype=np.float64)
    if scores.shape != presumed.shape:
        raise ValueError(
            f"ask must give the scores of {presumed.shape[0]} rows by {presumed.shape[1]} "
            f"detectors, one a column; got shape {scores.shape}."
        )
    return np.where(np.isfinite(scores), scores, presumed)


def _box(positions: Host, m: int, random: np.random.RandomState) -> Host:
    low, high = positions.min(axis=0), positions.max(axis=0)
    margin = BELOW * (high - low)
    return random.uniform(low - margin, high + margin, (m, len(low)))  # nosec B311 # NumPy, seeded


def distance_to_the_opposite(positions: Host, labels: Host) -> Host:
    """``δ(z)`` of each row, with a floor for rows that lie on one of the opposite class."""
    reach = np.empty(len(labels))
    for side in (1, -1):
        opposite = _neighbours(positions[labels == -side], 1)
        reach[labels == side] = opposite.kneighbors(positions[labels == side])[0][:, 0]
    return np.maximum(reach, max(CLOSEST * np.median(reach), np.finfo(np.float64).eps))


def _neighbours(positions: Host, k: int) -> NearestNeighbors:
    algorithm = "kd_tree" if positions.shape[1] <= TREE_DIMENSIONS else "brute"
    return NearestNeighbors(n_neighbors=k, algorithm=algorithm).fit(positions)
