"""Other ways to part rows than evenly: by splitters, by groups, and for the threshold alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

from lpfuse._arrays.operations import Host
from lpfuse.ensemble._tables import Index

NO_FOLD = -1  # the fold of a row that is never scored out of fold

# Share of the normal rows that calibration="split" keeps from everything else; chosen by hand.
KEPT_BACK = 0.2


def folds_of_groups(
    most: int, labels: Host, groups: NDArray[Any], random: np.random.RandomState
) -> NDArray[np.intp]:
    """The fold of each row; groups stay together, labels are spread where there are enough."""
    found = len(np.unique(groups))
    if found < 2:
        raise ValueError(f"groups must name at least 2 groups to keep apart, got {found}.")
    most = min(most, found)
    counts = np.unique(labels, return_counts=True)[1]
    splitter = (
        StratifiedGroupKFold(most, shuffle=True, random_state=random)
        if len(counts) > 1 and counts.min() >= most
        else GroupKFold(most)
    )
    of_row = np.full(len(labels), NO_FOLD, dtype=np.intp)
    for k, (_, score) in enumerate(splitter.split(labels, labels, groups)):
        of_row[score] = k
    return of_row


def folds_of_splitter(
    cv: Any, labels: Host, groups: NDArray[Any] | None
) -> tuple[list[tuple[Index, Index]], NDArray[np.intp]]:
    """Pairs of rows to learn from and to score, and the number of the pair that scores each row."""
    if hasattr(cv, "split"):
        splits = cv.split(np.empty((len(labels), 1)), labels, groups)
    elif isinstance(cv, Iterable) and not isinstance(cv, str):
        splits = iter(cv)
    else:
        raise ValueError(
            "cv must be a number of folds (at least 2), a splitter, an iterable of splits, "
            f'"prefit" or "in-sample"; got {cv!r}.'
        )
    of_row = np.full(len(labels), NO_FOLD, dtype=np.intp)
    pairs = []
    for k, (learn, score) in enumerate(splits):
        learn, score = np.asarray(learn), np.asarray(score)
        if (of_row[score] != NO_FOLD).any():
            raise ValueError(
                "cv scores some rows twice, but a row can have one out-of-fold score only. Use a "
                "splitter whose test parts do not overlap, such as KFold."
            )
        of_row[score] = k
        pairs.append((learn, score))
    if not pairs:
        raise ValueError("cv gave no splits: an iterator that was used before? Pass a list.")
    return pairs, of_row


def choose_rows_kept_back(
    weight_labels: Host, groups: NDArray[Any] | None, random: np.random.RandomState
) -> NDArray[np.bool_]:
    """Which rows nothing learns from: a share of the normal ones, for the threshold.

    Where there are groups, whole groups are kept back, with all their rows.
    """
    normal = np.flatnonzero(weight_labels > 0)
    names = normal if groups is None else np.unique(groups[normal])
    if len(names) < 2:
        what = "n_samples" if groups is None else "groups"
        raise ValueError(
            'calibration="split" needs normal rows to learn from and others for the '
            f"threshold, got {what}={len(names)}. Bring more rows."
        )
    chosen = random.permutation(names)[: max(1, round(KEPT_BACK * len(names)))]
    return np.isin(np.arange(len(weight_labels)) if groups is None else groups, chosen)
