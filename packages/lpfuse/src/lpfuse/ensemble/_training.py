"""What is learnt from: rows, and the folds that they are dealt out to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold
from sklearn.utils import _safe_indexing

from lpfuse._arrays import Host
from lpfuse._checks.arguments import check_row_names, is_count
from lpfuse.ensemble._anomalies import jittered_rows, number_kinds
from lpfuse.ensemble._tables import Index, Table

NO_FOLD = -1  # the fold of a row that is never scored out of fold

# Share of the normal rows that calibration="split" keeps from everything else; chosen by hand.
KEPT_BACK = 0.2


def draw_seed(random: np.random.RandomState) -> int:
    """A seed for what has none of its own."""
    return int(random.randint(np.iinfo(np.int32).max))


def labels_for_weights(labels: Host) -> Host:
    """±1 for the rows that weights are learnt from, 0 for the others.

    Unlabelled rows stand in for normal ones where none is labelled normal.

    Parameters
    ----------
    labels : ndarray of shape (n,)
        +1 normal, −1 anomaly, 0 unlabelled.

    Examples
    --------
    >>> import numpy as np
    >>> labels_for_weights(np.array([0.0, 0.0, -1.0]))
    array([ 1.,  1., -1.])
    >>> labels_for_weights(np.array([0.0, 1.0, -1.0]))
    array([ 0.,  1., -1.])
    """
    return labels if (labels > 0).any() else np.where(labels == 0, 1.0, labels)


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


@dataclass(frozen=True)
class Training:
    """Rows to learn from, and how.

    Attributes
    ----------
    X : table of shape (n, d)
        Rows.
    labels : ndarray of shape (n,)
        +1 normal, −1 anomaly, 0 unlabelled.
    folds : Folds or None
        None: all rows are scored by detectors fitted on all of them.
    groups : ndarray of shape (n,) or None
        Rows of one group belong together.
    kinds : ndarray of shape (n,) or None
        Numbers of the kinds of anomalies.
    jittered : table or None
        Artificial anomalies, one for each row of `source`.
    source : ndarray of positions
        The rows that were jittered; an artificial anomaly is scored in the fold of its source.
    kept_back : table or None
        Normal rows beside `X` that nothing learns from, to set the threshold by.
    """

    X: Table
    labels: Host
    folds: Folds | None
    groups: NDArray[Any] | None = None
    kinds: NDArray[np.intp] | None = None
    jittered: Table | None = None
    source: Index = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    kept_back: Table | None = None

    @property
    def weight_labels(self) -> Host:
        """`labels_for_weights` of the rows."""
        return labels_for_weights(self.labels)

    @property
    def extrapolation(self) -> float:
        """How much further the final fit is than the folds, in steps from two hidden folds to one.

        Scores are taken to depend on the number m of rows learnt from as ``a + b/m``. With m₁ rows
        without a fold and m₂ without two, of m in all: ``(1/m₁ − 1/m) / (1/m₂ − 1/m₁)``.
        """
        assert self.folds is not None
        learners = self.labels >= 0
        one, two = (
            np.mean([learners[learn].sum() for learn, _ in pairs])
            for pairs in (self.folds.pairs, self.folds.in_pairs())
        )
        if not 0 < two < one:  # folds that are no partition: nothing to continue
            return 0.0
        return float((1 / one - 1 / learners.sum()) / (1 / two - 1 / one))

    @property
    def experts_can_learn(self) -> bool:
        """Whether both classes remain to be learnt from, whichever fold is hidden."""
        known, every = self.weight_labels, np.arange(len(self.labels))
        hidden = [] if self.folds is None else [learn for learn, _ in self.folds.pairs]
        parts = [known[rows] for rows in [every, *hidden]]
        return all((part > 0).any() and (part < 0).any() for part in parts)

    def with_artificial_anomalies(self, random: np.random.RandomState) -> Training:
        """The same with a jittered copy of every normal row."""
        source = np.flatnonzero(self.weight_labels > 0)
        return replace(self, jittered=jittered_rows(self.X, source, random), source=source)

    @property
    def truth(self) -> Host:
        """`weight_labels` of the rows and, after them, −1 for each artificial anomaly."""
        return np.concatenate([self.weight_labels, -np.ones(len(self.source))])

    @property
    def fold_of_truth(self) -> NDArray[np.intp]:
        """The fold of each row and, after them, of each artificial anomaly."""
        of_row = np.zeros(len(self.labels), np.intp) if self.folds is None else self.folds.of_row
        return np.concatenate([of_row, of_row[self.source]])


def make_folds(
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

    Examples
    --------
    >>> import numpy as np
    >>> folds = make_folds(2, np.ones(4), None, None, np.random.RandomState(0))
    >>> [score.tolist() for learn, score in folds.pairs]
    [[1, 2], [0, 3]]
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


def assign_folds(
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
    of_row = np.full(len(labels), NO_FOLD, dtype=np.intp)
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
    return Folds(pairs, of_row, independent=False)


def choose_rows_kept_back(
    labels: Host, groups: NDArray[Any] | None, random: np.random.RandomState
) -> NDArray[np.bool_]:
    """Which rows nothing learns from: a share of the normal ones, for the threshold.

    Where there are groups, whole groups are kept back, with all their rows.
    """
    normal = np.flatnonzero(labels_for_weights(labels) > 0)
    names = normal if groups is None else np.unique(groups[normal])
    if len(names) < 2:
        what = "n_samples" if groups is None else "groups"
        raise ValueError(
            'calibration="split" needs normal rows to learn from and others for the '
            f"threshold, got {what}={len(names)}. Bring more rows."
        )
    chosen = random.permutation(names)[: max(1, round(KEPT_BACK * len(names)))]
    return np.isin(np.arange(len(labels)) if groups is None else groups, chosen)


def prepare_training(
    table: Table,
    labels: Host,
    groups: Any,
    kind: Any,
    cv: Any,
    keep_back: bool,
    random: np.random.RandomState,
) -> Training:
    """The rows of users, checked, dealt out into the folds of `cv`; none where `cv` is a name.

    With `keep_back` some normal rows are kept from everything but the threshold.
    """
    n = table.shape[0]
    groups = check_row_names(groups, n, "groups")
    kind = kind if isinstance(kind, str) else check_row_names(kind, n, "kind")
    kept_back = np.zeros(n, dtype=bool)
    if keep_back:
        kept_back = choose_rows_kept_back(labels, groups, random)
    if kind is not None and groups is not None:
        raise ValueError(
            "Pass groups or kind, not both: to hide a kind, its anomalies must share a fold."
        )
    learn = np.flatnonzero(~kept_back)
    X, y = _safe_indexing(table, learn, axis=0), labels[learn]
    groups = None if groups is None else groups[learn]
    kind = kind if kind is None or isinstance(kind, str) else kind[learn]
    kinds = None if kind is None else number_kinds(kind, X, y, random)
    folds, for_threshold = None, None
    if not isinstance(cv, str):
        folds = make_folds(cv, y, groups, kinds, random)
    elif kinds is not None:
        raise ValueError(
            f"kind hides a kind of anomalies at a time, which takes folds; got cv={cv!r}."
        )
    if kept_back.any():
        normal = np.flatnonzero(kept_back & (labels_for_weights(labels) > 0))
        for_threshold = _safe_indexing(table, normal, axis=0)
    return Training(X, y, folds, groups, kinds, kept_back=for_threshold)
