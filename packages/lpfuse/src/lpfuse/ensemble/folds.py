"""Which rows learn and which are scored: training rows, folds, and parts for calibration."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from lpfuse._arrays.operations import Host, is_blocked
from lpfuse._format import quote
from lpfuse._validation.params import (
    Labels,
    check_chances,
    check_row_names,
    is_count,
    read_labels,
    warn_user,
)
from lpfuse._validation.tables import check_table, column_names, is_frame, to_known_frame
from lpfuse.ensemble.copies import warn_of_repeats, without_copies
from lpfuse.ensemble.rows import (
    REMEDY,
    Index,
    Table,
    as_numbers,
    blank_implausible,
    duplicated_rows,
    find_contradictions,
    hash_rows,
    look_at_order,
    numeric_columns,
    replace_numbers,
    warn_of_growing_columns,
    warn_of_label_columns,
)
from lpfuse.ensemble.sampling import draw_from_blocks
from lpfuse.frames import TablePreparation
from lpfuse.frames.preparation import prepare_frame, take_time
from lpfuse.time.order import UNTOLD, RowOrder, read_times, refuse_steps_back
from lpfuse.time.windows import Windows

NO_FOLD = -1  # the fold of a row that is never scored out of fold
MOST_CLUSTERS = 5  # kinds that clustering tells apart at most; chosen by hand
# Share of the normal rows that calibration="split" sets aside; chosen by hand.
CALIBRATION_SHARE = 0.2
# Parts that normal rows are dealt out to; where there are experts, the parts are their folds. With
# ten parts, 1 / 5 / 10 % asked gave what five do, over eight families of rows: docs/adr/0021.
PARTS = 5
# Normal rows below which there are no parts: 5 % could not be promised with twice as many.
FEWEST_ROWS = 10
# Normal rows from which on calibration="auto" sets a fifth of them aside, and groups from which on
# it sets a fifth of these aside: four hundred rows, or a hundred groups, set a threshold well
# enough, and most of the default detectors learn from no more than 2,000 rows.
SPLIT_FROM, SPLIT_GROUPS_FROM = 2_000, 500
# Of rows in time order, the share that the rehearsal learns from: of 1/3, 1/2 and 2/3 that which
# kept the rate on most of 40 streams (docs/adr/0050).
REHEARSED = 1 / 3
# Of rows in time order, blocks of consecutive rows in a fold: of 1, 2 and 4 that which kept the
# rate on most of 40 streams, where gaps between blocks lost AUC (docs/adr/0050).
BLOCKS = 4


def labels_for_weights(labels: Host) -> Host:
    """Return ±1 for all rows: unlabelled ones stand in for normal ones, by weights of theirs.

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


class Rows(NamedTuple):
    """The rows of a user, checked.

    Attributes
    ----------
    X : table of shape (n, d)
        Rows in memory.
    labels : ndarray of shape (n,)
        +1 normal, −1 anomaly, 0 unlabelled.
    groups : ndarray of shape (n,) or None
        Rows of one group belong together.
    kind : None, "clusters" or array-like of shape (n,)
        Kinds of anomalies.
    chances : ndarray of shape (n,) or None
        With which labelled rows were asked about; NaN for labels from elsewhere.
    label_words : dict or None
        The user's labels that are ``normal``, and those that are ``anomaly``; empty: ±1 and 0.
    given : array-like or data frame
        Rows as the user has them, in memory.
    preparation : TablePreparation or None
        How the columns of a data frame became those of `X`.
    hashes : ndarray or None
        A number for each row that was given, equal for equal ones; None of words.
    order : RowOrder
        What is known of the order of the rows.
    windows : Windows or None
        How rows in time order became those of `X`.
    """

    X: Table
    labels: Host
    groups: NDArray[Any] | None
    kind: Any
    chances: Host | None
    label_words: dict[str, list[Any]] | None = None
    given: Any = None
    preparation: TablePreparation | None = None
    hashes: Host | None = None
    order: RowOrder = UNTOLD
    windows: Windows | None = None


def prepare_rows(
    X: Any,
    y: Any,
    *,
    groups: Any,
    kind: Any,
    chances: Any,
    unlabelled: int | None,
    normal: Any,
    anomaly: Any,
    columns: Any,
    time: Any,
    order: str | None,
    subsample: int,
    keep_copies: bool,
    random: np.random.RandomState,
) -> Rows:
    """Check what a user brings to a fit: the one entrance.

    Parameters
    ----------
    X, y, groups, kind, chances, unlabelled, normal, anomaly, columns, time, order, subsample
        As in :meth:`lpfuse.FusedDetector.fit`.
    keep_copies : bool
        Whether rows that are copies of others are learnt from as well.
    random : RandomState
        Draws from rows of Dask.
    """
    how: dict[str, Any] = {"normal": normal, "anomaly": anomaly, "zero": unlabelled}
    single, y = (y, None) if np.isscalar(y) else (None, y)  # one label for all rows
    order = "time" if time is not None else order
    if order == "time":
        _check_for_time(X, groups, kind, chances)
    if isinstance(time, str):
        X, time = take_time(X, time)
    drawn = None
    if is_blocked(X):
        X, y, how, drawn = _draw_rows(X, y, groups, kind, chances, how, subsample, random)
    table, preparation = _as_table(X, single, columns, groups)
    names = column_names(table) if preparation is None else preparation.feature_names
    lasting = None if preparation is None else preparation.lasting  # no calendars
    windows, known = None, UNTOLD
    if order == "time":
        known = look_at_order(order, as_numbers(table), names, lasting)
        windows, table = _in_windows(table, time)
    n, numbers = table.shape[0], as_numbers(table)
    hashes = None if numbers is None else hash_rows(numbers)

    if single is not None:
        y = np.full(n, single, dtype=object if isinstance(single, str) else None)
    found = read_labels(y, n, **how)
    labels = np.zeros(n) if found is None else found.values
    words = drawn if drawn is not None else found
    torn = [] if hashes is None else find_contradictions(labels, hashes)
    for note in torn if words is None else words.notes + torn:
        warn_user(note)
    if y is not None:
        given = table if preparation is None else to_known_frame(X)
        warn_of_label_columns(given, labels if isinstance(y, Labels) else y, preparation)

    asked = None if chances is None else check_chances(chances, n)
    groups = check_row_names(groups, n, "groups")
    drops_copies = groups is None and kind is None and windows is None and not keep_copies
    if drops_copies:
        given_labels = labels
        table, labels, asked = without_copies(table, labels, asked)
    if windows is None:
        seen = as_numbers(table) if groups is None else None
        # Known anomalies, which often stand below all others, have no part in what is promised.
        known = look_at_order(order, seen if seen is None else seen[labels >= 0], names, lasting)
        if known.because:
            because = known.because[0].upper() + known.because[1:]
            warn_user(f"{because}: no rate of false alarms is promised. {REMEDY}")
        elif drops_copies and labels is given_labels:  # no row was copied, or recurs
            warn_of_repeats(table, labels)

    if windows is not None and names is not None:
        names = windows.names_of(names)
    elif preparation is None:
        names = None
    table = blank_implausible(table, labels, names)
    return Rows(
        table, labels, groups, kind, asked, None if words is None else words.words,
        X, preparation, hashes, known, windows,
    )  # fmt: skip


def _draw_rows(
    X: Any,
    y: Any,
    groups: Any,
    kind: Any,
    chances: Any,
    how: dict[str, Any],
    subsample: int,
    random: np.random.RandomState,
) -> tuple[Any, Any, dict[str, Any], Labels | None]:
    """Draw rows of Dask into memory, with their labels, how to read these, and what was read."""
    if chances is not None:
        raise ValueError(
            "chances go with rows in memory, got rows of Dask. Fit first, then hand the "
            "answers to teach(X, y, chances=...)."
        )
    is_named = how["normal"] is not None or how["anomaly"] is not None
    if is_blocked(y) and (is_named or y.dtype.kind not in "iuf"):
        y = y.compute()  # words have a meaning only together
    found = None
    if y is not None and not is_blocked(y):
        found = read_labels(y, len(y), **how)
        y, how = None if found is None else found.values, {"zero": 0}
    return *draw_from_blocks(X, y, groups, kind, subsample, random), how, found


def _as_table(
    X: Any, single: Any, columns: Any, groups: Any
) -> tuple[Table, TablePreparation | None]:
    """Return the checked table of features; of a data frame, with how its columns became them."""
    features, preparation = X, None
    if is_frame(to_known_frame(X)):
        if isinstance(single, str) and single in to_known_frame(X).columns:
            name, of = quote(single), "columns=" if hasattr(X, "assign") else ""
            raise ValueError(f"y={name} is a column of X. Call fit(X.drop({of}{name}), X[{name}])")
        features, preparation = prepare_frame(X, columns)
    table = check_table(features)
    if isinstance(table, np.ndarray) and preparation is None and groups is None:
        warn_of_growing_columns(table)
    return table, preparation


def _in_windows(table: Table, time: Any) -> tuple[Windows, Table]:
    """Return windows of rows in time order, and their features."""
    if time is not None:
        time = read_times(time, len(table))
        refuse_steps_back(time)
    windows = Windows()
    return windows, windows.learn(np.asarray(table, dtype=np.float64), time)


def _check_for_time(X: Any, groups: Any, kind: Any, chances: Any) -> None:
    """Refuse what does not go with rows in time order."""
    others = {"groups": groups, "kind": kind, "chances": chances}
    for name, value in others.items():
        if value is not None:
            raise ValueError(f"Pass time (or order) or {name}, not both: time deals the rows out.")
    if is_blocked(X):
        raise TypeError(
            "Rows in time order are fitted in memory, got rows of Dask. Pass X.compute()."
        )


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
        """Make folds that score the rows of a number and learn from all others."""
        numbers = np.unique(of_row)
        pairs = [(np.flatnonzero(of_row != k), np.flatnonzero(of_row == k)) for k in numbers]
        return cls(pairs, of_row, independent, dealt=True)

    def among(self, rows: Index) -> Folds:
        """Restrict the pairs to some of the rows, which are numbered anew."""
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
    calibration_X : table or None
        Normal rows beside `X` that nothing learns from, to set the threshold by.
    calibration_known : ndarray or None
        Their labels as they were given, +1 or 0, and the chances, in two columns.
    chances : ndarray of shape (n,) or None
        With which labelled rows were asked about; NaN, or None, for labels from elsewhere.
    is_part : bool
        Whether these are some of the rows: what was checked with all of them is not checked again.
    gap : int or None
        Of rows in time order, how many share cells of their windows with the row before; None: rows
        have no order.
    """

    X: Table
    labels: Host
    folds: Folds | None
    groups: NDArray[Any] | None = None
    kinds: NDArray[np.intp] | None = None
    jittered: Table | None = None
    source: Index = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    calibration_X: Table | None = None
    calibration_known: Host | None = None
    chances: Host | None = None
    is_part: bool = False
    gap: int | None = None

    @cached_property
    def one_scale(self) -> bool:
        """Whether folds and parts take the scale of all rows: some of the rows are equal.

        Scores of equal rows have few values. Where a quartile lies between two of these, a fifth of
        the rows less moves it from one to the other, and the scale with it.
        """
        if self.gap is not None or self.calibration_X is not None:
            return False
        return len(duplicated_rows(self.X)) > 0

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
        """Add a jittered copy of every normal row."""
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
    in_time: bool = False,
) -> Folds:
    """Return the folds that `cv` stands for.

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
    in_time : bool, default=False
        Whether rows are in time order: folds are blocks of consecutive rows.

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
    if in_time:  # consecutive rows are alike: blocks of them are dealt out in turn
        block = np.arange(len(labels)) * BLOCKS * most // len(labels)
        return Folds.by_number(block % most)
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
    """Draw a fold number for each of n rows; rows of a group have the same."""
    names = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
    dealt: NDArray[np.intp] = random.permutation(names.max() + 1)[names] % n_folds
    return dealt


def plan_folds(rows: Rows, cv: Any, calibration: str, random: np.random.RandomState) -> Training:
    """Deal rows out to the folds of `cv`; none where `cv` is a name.

    Where `calibration` is, or comes to, "split", some normal rows are set aside before.

    Parameters
    ----------
    rows : Rows
        Checked.
    cv, calibration : object, str
        The parameters of these names of a `FusedDetector`.
    random : RandomState
        Deals the rows out.
    """
    table, labels, groups, kind, chances, *_ = rows
    n, gap = len(labels), None if rows.windows is None else rows.windows.length - 1
    kind = kind if isinstance(kind, str) else check_row_names(kind, n, "kind")
    aside = np.zeros(n, dtype=bool)
    if gap is None and uses_split_calibration(calibration, labels, groups, cv):
        aside = choose_calibration_rows(labels_for_weights(labels), groups, random)
    if kind is not None and groups is not None:
        raise ValueError(
            "Pass groups or kind, not both: to hide a kind, its anomalies must share a fold."
        )
    learn = np.flatnonzero(~aside)
    X, y = _safe_indexing(table, learn, axis=0), labels[learn]
    groups = None if groups is None else groups[learn]
    kind = kind if kind is None or isinstance(kind, str) else kind[learn]
    kinds = None if kind is None else number_kinds(kind, X, y, random)
    folds, for_threshold, known = None, None, None
    if not isinstance(cv, str):
        folds = make_folds(cv, y, groups, kinds, random, gap is not None)
    elif kinds is not None:
        raise ValueError(
            f"kind hides a kind of anomalies at a time, which takes folds; got cv={cv!r}."
        )
    if aside.any():
        normal = np.flatnonzero(aside & (labels_for_weights(labels) > 0))
        for_threshold = _safe_indexing(table, normal, axis=0)
        asked = np.full(n, np.nan) if chances is None else chances
        known = np.column_stack([labels, asked])[normal]
    return Training(
        X, y, folds, groups, kinds, calibration_X=for_threshold, calibration_known=known,
        chances=None if chances is None else chances[learn], gap=gap,
    )  # fmt: skip


def folds_of_groups(
    most: int, labels: Host, groups: NDArray[Any], random: np.random.RandomState
) -> NDArray[np.intp]:
    """Assign folds so that groups stay together, and labels are spread where there are enough."""
    from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

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
    """Return pairs of rows to learn from and to score, and the fold of each row."""
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


def choose_calibration_rows(
    weight_labels: Host, groups: NDArray[Any] | None, random: np.random.RandomState
) -> NDArray[np.bool_]:
    """Choose rows that nothing learns from: a share of the normal ones, for the threshold.

    Where there are groups, whole groups are set aside, with all their rows.
    """
    normal = np.flatnonzero(weight_labels > 0)
    names = normal if groups is None else np.unique(groups[normal])
    if len(names) < 2:
        what = "n_samples" if groups is None else "groups"
        raise ValueError(
            'calibration="split" needs normal rows to learn from and others for the '
            f"threshold, got {what}={len(names)}. Bring more rows."
        )
    chosen = random.permutation(names)[: max(1, round(CALIBRATION_SHARE * len(names)))]
    return np.isin(np.arange(len(weight_labels)) if groups is None else groups, chosen)


def number_kinds(
    kind: Any, X: Table, labels: Host, random: np.random.RandomState
) -> NDArray[np.intp] | None:
    """Return numbers of the kinds of anomalies, as named by the user or found as clusters.

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
        numbers[anomalies] = _clusters(numeric_columns(X), labels, random)
        return numbers
    names = np.asarray(kind)
    numbers[anomalies] = np.unique(names[anomalies].astype(str), return_inverse=True)[1]
    return numbers


def _clusters(X: Host, labels: Host, random: np.random.RandomState) -> NDArray[np.intp]:
    """Cluster the anomalies, in units of the normal rows' spread."""
    from sklearn.cluster import KMeans
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(X[labels >= 0])
    anomalies = np.nan_to_num(scaler.transform(X[labels < 0]))  # what is missing: the mean
    most = int(np.clip(len(np.unique(anomalies, axis=0)) // 2, 1, MOST_CLUSTERS))
    found: NDArray[np.intp] = KMeans(most, n_init=5, random_state=random).fit_predict(anomalies)
    return found


def jittered_rows(X: Table, rows: Index, random: np.random.RandomState) -> Table:
    """Copy rows with Gaussian noise, as large as the spread, in every column of numbers.

    Parameters
    ----------
    X : table
        All rows; their spread sets the size of the noise.
    rows : ndarray of positions
        The rows to copy.
    random : RandomState
        Draws the noise.
    """
    numbers = numeric_columns(X)
    spread = np.nanstd(numbers, axis=0)
    noise = spread * random.standard_normal((len(rows), numbers.shape[1]))
    return replace_numbers(_safe_indexing(X, rows, axis=0), numbers[rows] + noise)


class Part(NamedTuple):
    """Normal rows to hide, and others to learn from.

    Attributes
    ----------
    training : Training
        What is learnt from.
    learn, hidden : ndarrays of positions
        Training rows that this is, and that are hidden.
    rest : ndarray of positions
        All others, such as anomalies of a group that is hidden: they are scored, no more.
    """

    training: Training
    learn: Index
    hidden: Index
    rest: Index

    @property
    def scored(self) -> Index:
        """Rows that are not learnt from."""
        return np.concatenate([self.hidden, self.rest])


def plan_parts(
    training: Training,
    cv: Any,
    calibration: str,
    random: np.random.RandomState,
    *,
    has_experts: bool,
    is_jittered: Callable[[Training], bool],
) -> list[Part]:
    """Plan the parts of calibration="cross": what to learn from, and the rows to hide.

    Parameters
    ----------
    training : Training
        All rows.
    cv, calibration : object, str
        The parameters of these names of a `FusedDetector`.
    random : RandomState
        Deals the rows out.
    has_experts : bool
        Whether some members learn from anomalies: then their folds are the parts.
    is_jittered : callable
        Whether some training needs artificial anomalies.
    """
    if training.calibration_X is not None or calibration == "plain":
        return []
    every, found = np.arange(len(training.labels)), []
    for learn, hidden in calibration_parts(training, cv, has_experts, random):
        part = among(training, learn, cv, random)
        if is_jittered(part):
            part = part.with_artificial_anomalies(random)
        rest = np.setdiff1d(every, np.concatenate([learn, hidden]))
        found.append(Part(part, learn, hidden, rest))
    return found


def uses_split_calibration(
    calibration: str, labels: Host, groups: NDArray[Any] | None, cv: Any
) -> bool:
    """Tell whether some normal rows are set aside for the threshold.

    With "auto", not where users deal rows out themselves: their parts are the ones to hide.
    """
    if calibration != "auto":
        return calibration == "split"
    dealt_here = isinstance(cv, str) or is_count(cv)
    many = groups is None or len(np.unique(groups[labels >= 0])) >= SPLIT_GROUPS_FROM
    return bool(dealt_here and many and (labels >= 0).sum() >= SPLIT_FROM)


def calibration_parts(
    training: Training, cv: Any, has_experts: bool, random: np.random.RandomState
) -> list[tuple[Index, Index]]:
    """Return rows to learn from and rows to hide, part by part; none where there are too few.

    Every normal row is hidden once, and known anomalies never, for these do not calibrate; of
    groups all rows are. The pairs of a splitter are taken as they are. Where there are experts, the
    normal rows of a fold are a part, one for each fold: the experts without it are there already.
    """
    normal = training.weight_labels > 0
    if normal.sum() < FEWEST_ROWS:
        return []
    if training.gap is not None:  # a rehearsal: learn from the first rows, judge those after them
        end, every = int(REHEARSED * len(normal)), np.arange(len(normal))
        hidden = every[(every >= end + training.gap) & normal]
        return [(every[:end], hidden)] if normal[:end].sum() >= FEWEST_ROWS and len(hidden) else []
    if training.folds is not None and not is_count(cv):
        pairs = [(learn, score[normal[score]]) for learn, score in training.folds.pairs]
        if not has_experts:
            pairs = [pair for pair in pairs if len(pair[1])]
        can_be = all(len(hidden) and _can_be_dealt_out(training, learn) for learn, hidden in pairs)
        return pairs if can_be else []
    if training.groups is not None:
        if len(np.unique(training.groups[normal])) < 3:
            return []  # without one of them, the others must be dealt out again
        folds = training.folds
        if folds is None or not has_experts:
            folds = make_folds(PARTS, training.labels, training.groups, None, random)
        pairs = [(learn, score[normal[score]]) for learn, score in folds.pairs]
        learnt = [training.groups[learn][normal[learn]] for learn, _ in pairs]
        enough = all(len(np.unique(names)) > 1 for names in learnt)
        if has_experts:
            return pairs if enough and all(len(hidden) for _, hidden in pairs) else []
        return [pair for pair in pairs if len(pair[1])] if enough else []
    dealt = np.full(len(normal), -1)
    folds = training.folds if has_experts else None
    if folds is not None:
        dealt[normal] = folds.of_row[normal]
    else:
        dealt[random.permutation(np.flatnonzero(normal))] = np.arange(normal.sum()) % PARTS
    # A fold of anomalies alone hides nothing, but the experts without it see by a part of theirs.
    numbers = np.unique(dealt[normal] if folds is None else folds.of_row)
    return [(np.flatnonzero(dealt != k), np.flatnonzero(dealt == k)) for k in numbers]


def _can_be_dealt_out(training: Training, rows: Index) -> bool:
    """Tell whether the folds, among some rows, score normal ones, and all learn from some."""
    assert training.folds is not None
    normal, folds = training.labels[rows] >= 0, training.folds.among(rows)
    scored = normal[folds.of_row >= 0].any()
    return bool(scored and all(normal[learn].any() for learn, _ in folds.pairs))


def among(training: Training, rows: Index, cv: Any, random: np.random.RandomState) -> Training:
    """Restrict the training to some of its rows, dealt out to folds anew."""
    groups = None if training.groups is None else training.groups[rows]
    kinds = None if training.kinds is None else training.kinds[rows]
    labels, folds = training.labels[rows], training.folds
    if folds is not None:
        anew = is_count(cv)
        in_time = training.gap is not None
        folds = (
            make_folds(cv, labels, groups, kinds, random, in_time) if anew else folds.among(rows)
        )
    return Training(
        _safe_indexing(training.X, rows, axis=0), labels, folds, groups, kinds,
        chances=None if training.chances is None else training.chances[rows], is_part=True,
        gap=training.gap,
    )  # fmt: skip
