"""Columns of scores that seem to be turned round: high for anomalies, where normal was said.

A direction is never guessed, and never turned in silence: columns are named, and the user asked.
With known anomalies the area under the ROC curve tells; without, the order of the normal rows,
which detectors of the same rows usually share in part.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import mannwhitneyu

from lpfuse._arrays.operations import (
    Array,
    Host,
    concatenate,
    namespace,
    nonzero,
    on_accelerator,
    take,
    to_host,
)
from lpfuse._arrays.ranks import column_ranks
from lpfuse._checks.messages import labels_of_columns, listed

Index = NDArray[np.intp]

# Chance that a column which tells nothing is called turned, by labels.
LEVEL = 1e-4
# Mean rank correlation with the others from which on a column is called turned without labels, and
# how many standard errors it must be. On 71 to 500 normal rows of each of 120 real tables, pools of
# 2, 3, 5 and 10 out of ten honest detectors were called so in 0.2, 0.2, 0.3 and 0.0 % of the draws;
# with one of them turned, in 90, 94, 94 and 95 %.
AGAINST, CERTAIN = -0.3, 4.0
OPPOSITE = "put rows in the opposite order of the others, so one side is turned round"
MOST_ROWS = 2000  # of each class that are compared; more would tell the same


class DirectionWarning(UserWarning):
    """Scores of some columns seem to be high for anomalies, though high = normal was said."""


class Turned(NamedTuple):
    """Columns that seem to be turned, and the sentence that says why, without their names."""

    columns: Index
    why: str


NOTHING = Turned(np.empty(0, dtype=np.intp), "")


def turned_columns(S: Array, y: Host | None, known: NDArray[np.bool_] | None = None) -> Turned:
    """Columns that seem to be turned round.

    Parameters
    ----------
    S : array of shape (n, R)
        Scores without gaps, of any array library.
    y : ndarray of shape (n,) or None
        +1 or −1; None: all rows are normal.
    known : ndarray of shape (R,), optional
        Columns whose direction is beyond doubt, as that of scikit-learn's detectors is. Without
        labels these are not suspected.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> common = rng.normal(size=(200, 1))
    >>> S = (common + rng.normal(size=(200, 3))) * [1, 1, -1]
    >>> turned_columns(S, None).columns
    array([2])
    """
    if y is not None and (y < 0).any():
        normal, anomalies = (np.flatnonzero(side) for side in (y > 0, y < 0))
        return _by_labels(*(take(S, rows[_evenly(len(rows))]) for rows in (normal, anomalies)))
    return _by_agreement(take(S, _evenly(int(S.shape[0]))), known)


def _evenly(n: int) -> Index:
    """Positions among n rows, not too many."""
    return np.linspace(0, n - 1, min(n, MOST_ROWS)).astype(np.intp)


def _by_labels(normal: Array, anomalies: Array) -> Turned:
    """Columns that score anomalies above normal rows, beyond chance (Mann and Whitney's test)."""
    n, m = int(normal.shape[0]), int(anomalies.shape[0])
    ranks = column_ranks(concatenate([normal, anomalies]))[n:, :]
    areas = 1 - (to_host(namespace(ranks).sum(ranks, axis=0)) - m * (m + 1) / 2) / (m * n)
    doubtful = np.flatnonzero(areas < 0.5)
    chances = [
        mannwhitneyu(
            to_host(anomalies[:, int(j)]), to_host(normal[:, int(j)]), alternative="greater"
        ).pvalue
        for j in doubtful
    ]
    found = doubtful[np.array(chances, dtype=float) < LEVEL]
    if len(found) == 0:
        return NOTHING
    told = listed([f"{areas[j]:.2f}" for j in found])
    return Turned(found, f"are higher for known anomalies than for normal rows (AUC {told})")


def _by_agreement(S: Array, known: NDArray[np.bool_] | None) -> Turned:
    """Columns that put rows in the opposite order of the others.

    The first eigenvector of the rank correlations splits the columns into two sides. Those with a
    known direction are on the right side; without any, the larger one is taken to be it, and where
    both are equal, no side is.
    """
    n, R = S.shape
    known = np.zeros(R, dtype=bool) if known is None else known
    ranks = column_ranks(S) - 0.5 * (n + 1)  # less their mean
    together = to_host(ranks.T @ ranks)
    lengths = np.sqrt(np.diag(together))
    moving = lengths > 0
    if n < 3 or moving.sum() < 2 or known.all():
        return NOTHING
    together /= np.outer(*[np.where(moving, lengths, 1.0)] * 2)
    first = np.linalg.eigh(together)[1][:, -1] >= 0
    sides = [moving & first, moving & ~first]
    if not all(side.any() for side in sides):
        return NOTHING
    across = np.where(first, *(together[:, side].mean(axis=1) for side in sides[::-1]))
    enough = min(AGAINST, -CERTAIN / np.sqrt(n - 1))
    suspects = moving & ~known & (across <= enough)
    votes = [int((side & known).sum() if known.any() else side.sum()) for side in sides]
    if votes[0] != votes[1]:
        suspects &= sides[int(np.argmin(votes))]
    found = np.flatnonzero(suspects)
    if len(found) == 0:
        return NOTHING
    how = "contradict each other" if all((side & suspects).any() for side in sides) else OPPOSITE
    told = listed([f"{across[j]:.2f}".replace("-", "−") for j in found])
    return Turned(found, f"{how} (rank correlation {told})")


def warn_of_directions(
    S: Host,
    y: Host | None,
    names: Sequence[str],
    remedy: str,
    known: NDArray[np.bool_] | None = None,
    stacklevel: int = 3,
) -> None:
    """Warn of columns that seem to be turned round, with their names, and what to do."""
    found = turned_columns(S, y, known)
    if len(found.columns):
        _warn(found, [names[j] for j in found.columns], remedy, stacklevel + 1)


def warn_of_turned_scores(S: Array, labels: Array | None, names: Sequence[str] | None) -> None:
    """The same for checked scores of any array library, by names or positions of their columns."""
    y = None
    if labels is None:
        rows = _evenly(int(S.shape[0]))
    else:
        # Labels on a device stay there: only those of the rows that are compared are asked for.
        labels = labels if on_accelerator(labels) else to_host(labels)
        of_classes = [nonzero(side) for side in (labels > 0, labels < 0)]
        some = [_evenly(int(each.shape[0])) for each in of_classes]
        y = np.repeat([1.0, -1.0], [len(each) for each in some])
        rows = concatenate([take(*each) for each in zip(of_classes, some, strict=True)])
    chosen = take(S, rows)
    found = turned_columns(chosen if on_accelerator(chosen) else to_host(chosen), y)
    if len(found.columns):
        told = labels_of_columns(found.columns.tolist(), names)
        _warn(found, told, "turn it: S[:, j] = -S[:, j]", stacklevel=5)


def _warn(found: Turned, names: Sequence[str], remedy: str, stacklevel: int) -> None:
    text = f"Scores of {', '.join(names)} {found.why}. Does a high score mean normal there? If not,"
    warnings.warn(f"{text} {remedy}", DirectionWarning, stacklevel=stacklevel)
