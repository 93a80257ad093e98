"""Which rows are scored by detectors that were fitted without them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold
from sklearn.preprocessing import StandardScaler

from lpfuse._arrays import Host
from lpfuse._checks.parameters import is_count
from lpfuse.ensemble._tables import Index, Table, numbers_of

NOWHERE = -1  # the fold of a row that is never scored out of fold


@dataclass(frozen=True)
class Folds:
    """Pairs of rows to learn from and rows to score; no row is scored twice.

    Attributes
    ----------
    pairs : list of (learn, score)
        Positions of rows.
    of_row : ndarray of shape (n,)
        The fold that scores each row; −1: none does.
    independent : bool
        Whether each row stands for itself, so that leaving one out is as honest as a fold.
    """

    pairs: list[tuple[Index, Index]]
    of_row: NDArray[np.intp]
    independent: bool

    @classmethod
    def by_number(cls, of_row: NDArray[np.intp], *, independent: bool = False) -> Folds:
        """Each fold scores the rows of its number and learns from all others."""
        numbers = np.unique(of_row)
        pairs = [(np.flatnonzero(of_row != k), np.flatnonzero(of_row == k)) for k in numbers]
        return cls(pairs, of_row, independent)

    def in_pairs(self) -> list[tuple[Index, Index]]:
        """Two folds hidden at a time, each of them at least once: (learn, score)."""
        if len(self.pairs) < 3:
            return []  # nothing would be left to learn from
        count, half = len(self.pairs), -(-len(self.pairs) // 2)
        # Neighbours are kept apart: few anomalies are dealt out to the first folds.
        couples = [(i, (i + half) % count) for i in range(half)]
        return [
            (
                np.intersect1d(self.pairs[i][0], self.pairs[j][0]),
                np.concatenate([self.pairs[i][1], self.pairs[j][1]]),
            )
            for i, j in couples
        ]


def settle_folds(
    cv: Any,
    labels: Host,
    groups: NDArray[Any] | None,
    kinds: NDArray[np.intp] | None,
    random: np.random.RandomState,
) -> Folds:
    """The folds that `cv` stands for.

    Parameters
    ----------
    cv : int, splitter or iterable of splits
        A number of folds keeps the share of each label equal in all of them.
    labels : ndarray of shape (n,)
        +1, −1, or 0 for unlabelled.
    groups : ndarray of shape (n,) or None
        Rows of one group stay in one fold.
    kinds : ndarray of shape (n,) or None
        Anomalies of one kind stay in one fold: it is scored by those who never saw that kind.
    random : RandomState
        Deals the rows out.
    """
    if not is_count(cv):
        if kinds is not None:
            raise ValueError(
                "kind hides a kind of anomalies at a time, so the folds cannot come from "
                f"cv={cv!r}. Pass a number of folds, such as cv=5."
            )
        return _from_splitter(cv, labels, groups)
    most = int(min(cv, (labels >= 0).sum()))
    if most < 2:
        raise ValueError(
            f"Out-of-fold scores need cv >= 2 and at least 2 rows that are not anomalies, got "
            f"cv={cv} and n_samples={int((labels >= 0).sum())}. Bring more rows."
        )
    if groups is not None:
        return _by_groups(most, labels, groups, random)
    dealt = np.empty(len(labels), dtype=np.intp)
    for label in np.unique(labels):
        rows = random.permutation(np.flatnonzero(labels == label))
        dealt[rows] = np.arange(len(rows)) % most
    if kinds is not None:
        anomalies = labels < 0
        numbers = np.unique(kinds[anomalies], return_inverse=True)[1]
        dealt[anomalies] = numbers % most
    return Folds.by_number(dealt, independent=True)


def deal_out(
    n: int, groups: NDArray[Any] | None, n_folds: int, random: np.random.RandomState
) -> NDArray[np.intp]:
    """A fold number for each of n rows; rows of a group have the same."""
    names = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
    dealt: NDArray[np.intp] = random.permutation(names.max() + 1)[names] % n_folds
    return dealt


def _by_groups(
    most: int, labels: Host, groups: NDArray[Any], random: np.random.RandomState
) -> Folds:
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
    of_row = np.full(len(labels), NOWHERE, dtype=np.intp)
    for k, (_, score) in enumerate(splitter.split(labels, labels, groups)):
        of_row[score] = k
    return Folds.by_number(of_row)


def _from_splitter(cv: Any, labels: Host, groups: NDArray[Any] | None) -> Folds:
    if hasattr(cv, "split"):
        splits = cv.split(np.empty((len(labels), 1)), labels, groups)
    elif isinstance(cv, Iterable) and not isinstance(cv, str):
        splits = iter(cv)
    else:
        raise ValueError(
            "cv must be a number of folds (at least 2), a splitter, an iterable of splits, "
            f'"prefit" or "in-sample"; got {cv!r}.'
        )
    of_row = np.full(len(labels), NOWHERE, dtype=np.intp)
    pairs = []
    for k, (learn, score) in enumerate(splits):
        learn, score = np.asarray(learn), np.asarray(score)
        if (of_row[score] != NOWHERE).any():
            raise ValueError(
                "cv scores some rows twice, but a row can have one out-of-fold score only. Use a "
                "splitter whose test parts do not overlap, such as KFold."
            )
        of_row[score] = k
        pairs.append((learn, score))
    if not pairs:
        raise ValueError("cv gave no splits: an iterator that was used before? Pass a list.")
    return Folds(pairs, of_row, independent=False)


def settle_kinds(
    kind: Any, X: Table, labels: Host, random: np.random.RandomState
) -> NDArray[np.intp] | None:
    """Numbers of the kinds of anomalies, as named by the user or found as clusters.

    Parameters
    ----------
    kind : None, "clusters" or array-like of shape (n,)
        Only what it says of anomalies counts.
    X : table
        The rows; clusters need columns of numbers.
    labels : ndarray of shape (n,)
        −1 marks anomalies.
    random : RandomState
        Starts the clusters.
    """
    if isinstance(kind, str) and kind != "clusters":
        raise ValueError(f'kind must be one name a row, or "clusters"; got {kind!r}.')
    anomalies = np.flatnonzero(labels < 0)
    if kind is None or len(anomalies) == 0:
        return None
    numbers = np.zeros(len(labels), dtype=np.intp)
    if isinstance(kind, str):
        numbers[anomalies] = _clusters(numbers_of(X), labels, random)
        return numbers
    names = np.asarray(kind)
    numbers[anomalies] = np.unique(names[anomalies].astype(str), return_inverse=True)[1]
    return numbers


def _clusters(X: Host, labels: Host, random: np.random.RandomState) -> NDArray[np.intp]:
    """Clusters of the anomalies, in units of the normal rows' spread."""
    scaler = StandardScaler().fit(X[labels >= 0])
    anomalies = np.nan_to_num(scaler.transform(X[labels < 0]))  # what is missing: the mean
    most = int(np.clip(len(np.unique(anomalies, axis=0)) // 2, 1, MOST_CLUSTERS))
    found: NDArray[np.intp] = KMeans(most, n_init=5, random_state=random).fit_predict(anomalies)
    return found


MOST_CLUSTERS = 5
