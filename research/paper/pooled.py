"""What a pool of detectors says: out of fold of the rows that teach, for those who fuse it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse.ensemble import FusedDetector


@dataclass(frozen=True, eq=False)
class Pooled:
    """Raw scores of some detectors, high = normal, before they are put on one scale.

    Attributes
    ----------
    names : tuple of str
        The R detectors: one-class detectors, then experts.
    normals : ndarray of shape (n, R)
        Out-of-fold scores of the normal rows.
    labelled : ndarray of shape (m, R)
        Out-of-fold scores of the labelled anomalies.
    fused : FusedDetector
        Whose detectors these are, fitted on all rows, with its own weights.
    """

    names: tuple[str, ...]
    normals: Host
    labelled: Host
    fused: FusedDetector

    def score(self, X: Host) -> Host:
        """Scores of other rows, of shape (n, R)."""
        return self.fused.detector_scores(X)


def pooled(
    normals: Host, labelled: Host | None = None, *, detectors: Any = None, seed: int
) -> Pooled:
    """Fit a pool once; score its rows by detectors that have not seen them.

    Folds, seeds and scores are those that ``FusedDetector(detectors, random_state=seed)`` itself
    would learn its weights from. One-class detectors learn from normal rows only: the first k rows
    of `labelled` have the scores that they would have if the others were not there.

    Parameters
    ----------
    normals : ndarray of shape (n, d)
        Normal rows.
    labelled : ndarray of shape (m, d), optional
        Labelled anomalies.
    detectors : None, "paper" or list, default=None
        As in `FusedDetector`; None: its default, with experts where anomalies are labelled.
    seed : int
        Deals rows out to folds and seeds the detectors.

    Returns
    -------
    Pooled
        Names and scores.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import GMMDetector, KernelPCADetector
    >>> from research.paper.pooled import pooled
    >>> rng = np.random.default_rng(0)
    >>> detectors = [("kpca", KernelPCADetector()), ("gmm", GMMDetector())]
    >>> pool = pooled(rng.normal(size=(60, 2)), np.full((3, 2), 9.0), detectors=detectors, seed=0)
    >>> pool.names, pool.normals.shape, pool.labelled.shape, pool.score(np.zeros((5, 2))).shape
    (('kpca', 'gmm'), (60, 2), (3, 2), (5, 2))
    """
    rows = normals if labelled is None else np.concatenate([normals, labelled])
    y = np.repeat([1.0, -1.0], [len(normals), len(rows) - len(normals)])
    fused = FusedDetector(detectors, calibration="plain", random_state=seed).fit(rows, y)
    scores = fused.out_of_fold_.scores
    names = tuple(fused.detector_names_)
    return Pooled(names, scores[: len(normals)], scores[len(normals) :], fused)
