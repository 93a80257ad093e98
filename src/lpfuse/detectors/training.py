"""The rows that learners are fitted on, and what several fits on the same rows can share."""

from __future__ import annotations

from typing import Any

import numpy as np

from lpfuse._arrays import Array, Host, is_single, take
from lpfuse._validation import check_features, check_labels, check_sample_weight
from lpfuse.detectors.kernels import Kernel, squared_distances


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
        Keep the squared distances, and what was computed for the latest kernel, for other fits.
    """

    def __init__(
        self, X: Array, weights: Host | None, labels: Host | None = None, *, share: bool = False
    ) -> None:
        self.kept_index = None  # positions in X of the rows that count; None: all of them
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

    def gram(self, kernel: Kernel, *, to_overwrite: bool = False) -> Array:
        """The kernel matrix, of shape (n, n); it is shared unless it is taken to overwrite."""
        if not self.share:
            return kernel.gram(self.X)
        kept = self.kept(kernel)
        if "gram" not in kept:
            kept["gram"] = self._gram_from_distances(kernel)
        return kept["gram"] + 0.0 if to_overwrite else kept["gram"]

    def kept(self, kernel: Kernel) -> dict[str, Any]:
        """What was computed for this kernel; another kernel's is forgotten."""
        if not self.share or kernel != self._kernel:
            self._kernel, self._kept = kernel, {}
        return self._kept

    def _gram_from_distances(self, kernel: Kernel) -> Array:
        if kernel.name != "rbf":
            return kernel.gram(self.X)
        if self._distances is None:
            self._distances = squared_distances(self.X)
        return kernel.of_distances(self._distances)


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
