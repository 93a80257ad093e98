"""What is learnt from: rows, the folds that they are dealt out to, and their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.impute import SimpleImputer
from sklearn.utils import _safe_indexing

from lpfuse._arrays.operations import Host
from lpfuse._validation.params import check_row_names, is_count
from lpfuse.ensemble._anomalies import jittered_rows, number_kinds
from lpfuse.ensemble._calibration import OutOfFoldScores
from lpfuse.ensemble._splits import (
    NO_FOLD,
    choose_rows_kept_back,
    folds_of_groups,
    folds_of_splitter,
)
from lpfuse.ensemble._tables import Index, Table, impute_features

FOLDS_OF_WEIGHTS = 5  # where the detectors have no folds, the weights still need some; as cv=5


def draw_seed(random: np.random.RandomState) -> int:
    """A seed for what has none of its own."""
    return int(random.randint(np.iinfo(np.int32).max))  # nosec B311 # NumPy, seeded


def labels_for_weights(labels: Host) -> Host:
    """±1 for all rows: those that nobody looked at stand in for normal ones, by weights of theirs.

    Parameters
    ----------
    labels : ndarray of shape (n,)
        +1 normal, −1 anomaly, 0 unlabelled.

    Examples
    --------
    >>> import numpy as np
    >>> labels_for_weights(np.array([0.0, 1.0, -1.0]))
    array([ 1.,  1., -1.])
    """
    return np.where(labels == 0, 1.0, labels)


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
    dealt : bool
        Whether rows were dealt out to folds here: few folds, each learning from all the others.
    """

    pairs: list[tuple[Index, Index]]
    of_row: NDArray[np.intp]
    independent: bool
    dealt: bool = False

    @classmethod
    def by_number(cls, of_row: NDArray[np.intp], *, independent: bool = False) -> Folds:
        """Each fold scores the rows of its number and learns from all others."""
        numbers = np.unique(of_row)
        pairs = [(np.flatnonzero(of_row != k), np.flatnonzero(of_row == k)) for k in numbers]
        return cls(pairs, of_row, independent, dealt=True)

    def among(self, rows: Index) -> Folds:
        """The same pairs, as far as they are among some of the rows, which are numbered anew."""
        place = np.full(len(self.of_row), -1)
        place[rows] = np.arange(len(rows))
        pairs = [tuple(place[part][place[part] >= 0] for part in pair) for pair in self.pairs]
        kept = [(learn, score) for learn, score in pairs if len(learn) and len(score)]
        of_row = np.full(len(rows), NO_FOLD, dtype=np.intp)
        for k, (_, score) in enumerate(kept):
            of_row[score] = k
        return Folds(kept, of_row, self.independent, self.dealt)


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
    kept_back_known : ndarray or None
        Their labels as they were given, +1 or 0, and the chances, in two columns.
    chances : ndarray of shape (n,) or None
        With which labelled rows were asked about; NaN, or None, for labels from elsewhere.
    is_part : bool
        Whether these are some of the rows: what was checked with all of them is not checked again.
    """

    X: Table
    labels: Host
    folds: Folds | None
    groups: NDArray[Any] | None = None
    kinds: NDArray[np.intp] | None = None
    jittered: Table | None = None
    source: Index = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    kept_back: Table | None = None
    kept_back_known: Host | None = None
    chances: Host | None = None
    is_part: bool = False

    @property
    def weight_labels(self) -> Host:
        """`labels_for_weights` of the rows."""
        return labels_for_weights(self.labels)

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
        Anomalies of one kind stay in one fold: it is scored by experts that never saw that kind.
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
        return Folds(*folds_of_splitter(cv, labels, groups), independent=False)
    most = int(min(cv, (labels >= 0).sum()))
    if most < 2:
        raise ValueError(
            f"Out-of-fold scores need cv >= 2 and at least 2 rows that are not anomalies, got "
            f"cv={cv} and n_samples={int((labels >= 0).sum())}. Bring more rows."
        )
    if groups is not None:
        return Folds.by_number(folds_of_groups(most, labels, groups, random))
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


def prepare_training(
    table: Table,
    labels: Host,
    groups: Any,
    kind: Any,
    cv: Any,
    keep_back: bool,
    random: np.random.RandomState,
    chances: Host | None = None,
) -> Training:
    """The rows of users, checked, dealt out into the folds of `cv`; none where `cv` is a name.

    With `keep_back` some normal rows are kept from everything but the threshold.
    """
    n = table.shape[0]
    groups = check_row_names(groups, n, "groups")
    kind = kind if isinstance(kind, str) else check_row_names(kind, n, "kind")
    kept_back = np.zeros(n, dtype=bool)
    if keep_back:
        kept_back = choose_rows_kept_back(labels_for_weights(labels), groups, random)
    if kind is not None and groups is not None:
        raise ValueError(
            "Pass groups or kind, not both: to hide a kind, its anomalies must share a fold."
        )
    learn = np.flatnonzero(~kept_back)
    X, y = _safe_indexing(table, learn, axis=0), labels[learn]
    groups = None if groups is None else groups[learn]
    kind = kind if kind is None or isinstance(kind, str) else kind[learn]
    kinds = None if kind is None else number_kinds(kind, X, y, random)
    folds, for_threshold, known = None, None, None
    if not isinstance(cv, str):
        folds = make_folds(cv, y, groups, kinds, random)
    elif kinds is not None:
        raise ValueError(
            f"kind hides a kind of anomalies at a time, which takes folds; got cv={cv!r}."
        )
    if kept_back.any():
        normal = np.flatnonzero(kept_back & (labels_for_weights(labels) > 0))
        for_threshold = _safe_indexing(table, normal, axis=0)
        asked = np.full(n, np.nan) if chances is None else chances
        known = np.column_stack([labels, asked])[normal]
    chances = None if chances is None else chances[learn]
    return Training(
        X, y, folds, groups, kinds, kept_back=for_threshold, kept_back_known=known, chances=chances
    )


def collect_scores(
    training: Training,
    scores: Host,
    names: Sequence[str],
    artificial_anomalies: bool,
    imputer: SimpleImputer | None,
    weights: Host | None,
    random: np.random.RandomState,
) -> OutOfFoldScores:
    """The scores with what is known of their rows: all that the weights are learnt from.

    `names` are those of the detectors; `artificial_anomalies` says whether the weights are learnt
    from these, too; with `imputer` features are kept for a fusion that looks at them; `weights` say
    how much each row counts.
    """
    n, fold, truth = len(training.labels), training.fold_of_truth, training.truth
    if training.folds is None:
        dealt = assign_folds(n, training.groups, FOLDS_OF_WEIGHTS, random)
        fold = np.concatenate([dealt, dealt[training.source]])
    labels = truth.copy()
    if not artificial_anomalies:
        labels[n:] = 0
    features = None
    if imputer is not None:
        tables = [training.X, *([] if training.jittered is None else [training.jittered])]
        features = np.concatenate([impute_features(imputer, table) for table in tables])
    seed = draw_seed(random)
    if weights is not None:
        weights = np.concatenate([weights, np.ones(len(training.source))])
    found = OutOfFoldScores(
        scores, labels, fold, truth, training.kinds, features, seed, weights,
        training.labels, training.chances,
    )  # fmt: skip
    gaps = np.isnan(scores[labels > 0])
    silent = [repr(name) for name, column in zip(names, gaps.T, strict=True) if column.all()]
    if silent:
        raise ValueError(f"{', '.join(silent)} scored none of the normal rows.")
    if not (labels[found.usable] > 0).any():
        raise ValueError(
            "No normal row has a score by every detector: all have missing cells in some "
            "detector's columns. Fill them in, or leave columns out."
        )
    return found
