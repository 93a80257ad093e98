"""The rows that learners are fitted on, and what several fits on the same rows can share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays import (
    Array,
    Host,
    as_float64,
    is_numpy,
    is_single,
    like,
    namespace,
    take,
    total,
)
from lpfuse._checks.data import check_features, check_labels, check_sample_weight
from lpfuse.detectors._features import FeatureMap
from lpfuse.detectors._kernels import Kernel, squared_distances

Scoring = Callable[[Array], Array]  # from rows to their scores


class TrainingRows:
    """Rows with their weights and, where there are some, labels.

    Parameters
    ----------
    X : array of shape (n, d)
        Checked rows.
    weights : ndarray of shape (n,), optional
        How often each row counts; rows of weight zero are left out.
    labels : ndarray of shape (n,), optional
        +1 normal, −1 anomaly; None: all rows are normal.
    share : bool, default=False
        Keep what was computed for the latest kernel, and on the host the squared distances, for
        other fits.
    """

    is_sample = False  # whether the rows stand for many more

    def __init__(
        self, X: Array, weights: Host | None, labels: Host | None = None, *, share: bool = False
    ) -> None:
        self.kept_index: NDArray[np.int64] | None = (
            None  # positions in X of the rows that count; None: all of them
        )
        if weights is not None and not weights.all():
            kept = self.kept_index = np.flatnonzero(weights)
            X, weights = take(X, kept), weights[kept]
            labels = None if labels is None else labels[kept]
        self.X = X
        self.is_weighted = weights is not None and bool((weights != weights[0]).any())
        self.weights = np.ones(X.shape[0]) if weights is None else weights
        self.labels = None if labels is None or (labels > 0).all() else labels
        self.share = share
        self._anchors: Array | None = None
        self._distances: Array | None = None
        self._kernel: Kernel | None = None
        self._kept: dict[str, Any] = {}

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def gram_bytes(self) -> int:
        """What a kernel matrix of these rows takes."""
        return len(self) ** 2 * 4 * (1 if is_single(self.X) else 2)

    @property
    def anchors(self) -> Array:
        """A copy of the rows for learners to keep, the same for all: the user may change theirs."""
        if self._anchors is None:
            self._anchors = self.X + 0.0
        return self._anchors

    def moments(self, features: FeatureMap, *, mean: bool = False) -> tuple[Array, Array]:
        """``Σ w φ`` and ``Σ w φφᵀ`` of the rows' features; with `mean` the weights sum to one."""
        return features.moments(self.X, self.weights / self.weights.sum() if mean else self.weights)

    def lower_quantile(self, scores: Array, share: float, score: Scoring) -> float:
        """The score that the given share of the rows, by weight, lies strictly below.

        `scores` are those of the rows; `score` gives them of others, for rows that stand for more.
        """
        return lower_quantile(scores, self.weights, share)

    def gram(self, kernel: Kernel, *, to_overwrite: bool = False) -> Array:
        """The kernel matrix, of shape (n, n); it is shared unless it is taken to overwrite."""
        if not self.share:
            return kernel.gram(self.X)
        kept = self.kept(kernel)
        if to_overwrite and not is_numpy(self.X):
            return kernel.gram(self.X)  # a device makes it again nearly as fast as it copies it
        if "gram" not in kept:
            kept["gram"] = self._gram_from_distances(kernel)
        return kept["gram"] + 0.0 if to_overwrite else kept["gram"]

    def kept(self, kernel: Kernel) -> dict[str, Any]:
        """What was computed for this kernel; another kernel's is forgotten."""
        if not self.share or kernel != self._kernel:
            self._kernel, self._kept = kernel, {}
        return self._kept

    def _gram_from_distances(self, kernel: Kernel) -> Array:
        if kernel.name != "rbf" or not is_numpy(self.X):  # a device's memory is short, not its time
            return kernel.gram(self.X)
        if self._distances is None:
            self._distances = squared_distances(self.X)
        return kernel.of_distances(self._distances)


def lower_quantile(scores: Array, weights: Host, share: float) -> float:
    """The score that the given share of the rows, by weight, lies strictly below.

    Halfway between two scores where the share falls between them.

    Examples
    --------
    >>> lower_quantile(np.array([3.0, 1.0, 2.0, 4.0]), np.ones(4), 0.25)
    1.5
    """
    xp, scores = namespace(scores), as_float64(scores)
    order = xp.argsort(scores, stable=True)
    ordered, reached = take(scores, order), xp.cumulative_sum(take(like(weights, scores), order))
    everything = float(reached[-1])
    target, exact = share * everything, 1e-9 * everything
    above = int(total(reached <= target + exact))
    value = float(ordered[above])
    if above > 0 and abs(float(reached[above - 1]) - target) <= exact:
        value = (value + float(ordered[above - 1])) / 2
    return value


def training_rows(
    X: Any, sample_weight: Any = None, y: Any = None, *, share: bool = False
) -> TrainingRows:
    """What a user passed to ``fit``, checked."""
    rows = check_features(X)
    n = int(rows.shape[0])
    weights, labels = check_sample_weight(sample_weight, n), check_labels(y, n)
    if weights is not None and labels is not None and not weights[labels > 0].any():
        raise ValueError(
            "sample_weight is zero for all normal rows (+1); give some of them a weight above zero."
        )
    return TrainingRows(rows, weights, labels, share=share)
