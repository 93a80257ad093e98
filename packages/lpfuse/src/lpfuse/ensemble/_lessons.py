"""What the weights are learnt from: scores of rows by detectors that have not seen them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from lpfuse._arrays import Host
from lpfuse._saved import saved_as
from lpfuse.ensemble._folds import Folds
from lpfuse.ensemble._members import Member, groups_of
from lpfuse.ensemble._tables import Index, Table, columns_of, complete_rows, rows_of
from lpfuse.ensemble._work import fit_members, leave_one_out_scores, score_members

Progress = Callable[[int, int], None]


def teaching(labels: Host) -> Host:
    """Labels, with unlabelled rows standing in for normal ones where none is labelled."""
    return labels if (labels > 0).any() else np.where(labels == 0, 1.0, labels)


@dataclass(frozen=True)
class Training:
    """Rows to learn from, and how.

    Attributes
    ----------
    X : table
        Rows.
    labels : ndarray of shape (n,)
        +1 normal, −1 anomaly, 0 unlabelled.
    folds : Folds or None
        None: all rows are scored by detectors fitted on all of them.
    groups : ndarray of shape (n,) or None
        Rows of one group belong together.
    kinds : ndarray of shape (n,) or None
        Numbers of the kinds of anomalies.
    shaken : table or None
        Artificial anomalies, one for each row of `source`.
    source : ndarray of positions
        The rows that were shaken; an artificial anomaly is scored in the fold of its source.
    """

    X: Table
    labels: Host
    folds: Folds | None
    groups: NDArray[Any] | None = None
    kinds: NDArray[np.intp] | None = None
    shaken: Table | None = None
    source: Index = field(default_factory=lambda: np.empty(0, dtype=np.intp))

    @property
    def teaching(self) -> Host:
        """±1 for rows that teach the weights, 0 for those that do not.

        Unlabelled rows stand in for normal ones where none is labelled.
        """
        return teaching(self.labels)

    @property
    def folds_ahead(self) -> float:
        """How far the final fit is ahead of the folds, in steps from two hidden folds to one.

        In units of ``1/m`` for m rows learnt from: ``(1/m₁ − 1/m) / (1/m₂ − 1/m₁)``.
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
        known, every = self.teaching, np.arange(len(self.labels))
        hidden = [] if self.folds is None else [learn for learn, _ in self.folds.pairs]
        parts = [known[rows] for rows in [every, *hidden]]
        return all((part > 0).any() and (part < 0).any() for part in parts)

    @property
    def everything(self) -> Host:
        """`teaching` of the rows and, after them, of the artificial anomalies."""
        return np.concatenate([self.teaching, -np.ones(len(self.source))])

    @property
    def fold_of_everything(self) -> NDArray[np.intp]:
        """The fold of each row and, after them, of each artificial anomaly."""
        of_row = np.zeros(len(self.labels), np.intp) if self.folds is None else self.folds.of_row
        return np.concatenate([of_row, of_row[self.source]])


@saved_as("Lessons")
@dataclass(frozen=True, eq=False)
class Lessons:
    """Raw scores of rows by detectors that have not seen them, and what is known of the rows.

    Attributes
    ----------
    scores : ndarray of shape (n, R)
        High = normal; NaN where a detector is silent.
    labels : ndarray of shape (n,)
        ±1, or 0 for a row that teaches nothing.
    fold : ndarray of shape (n,)
        The fold of each row; negative where it is in none.
    truth : ndarray of shape (n,)
        As `labels`, but artificial anomalies are −1 even where they do not teach.
    kinds : ndarray of shape (n,) or None
        Kinds of the anomalies.
    space : ndarray of shape (n, d) or None
        Features, for a fusion that looks at them.
    seed : int
        For a fusion that draws at random.
    coarser : ndarray of shape (n, R) or None
        As `scores`, by detectors that learnt from fewer rows.
    """

    scores: Host
    labels: Host
    fold: NDArray[np.intp]
    truth: Host
    kinds: NDArray[np.intp] | None
    space: Host | None = None
    seed: int = 0
    coarser: Host | None = None

    @property
    def usable(self) -> NDArray[np.bool_]:
        """Rows that teach, and have a score by every detector."""
        return (self.labels != 0) & ~np.isnan(self.scores).any(axis=1)


@dataclass
class Workshop:
    """How the work is done: on so many cores, telling of each finished task.

    Attributes
    ----------
    n_jobs : int or None
        Tasks at a time.
    progress : callable or None
        Is told how many are done, and how many there are in all.
    later : int
        Tasks that are known to follow.
    """

    n_jobs: int | None = None
    progress: Progress | None = None
    later: int = 0
    done: int = 0

    def run(self, tasks: Sequence[Any]) -> Iterator[Any]:
        """Results of the tasks, in their order."""
        total = self.done + len(tasks) + self.later
        for result in Parallel(n_jobs=self.n_jobs, return_as="generator")(tasks):
            self.done += 1
            if self.progress is not None:
                self.progress(self.done, total)
            yield result


def one_class_lessons(
    members: list[Member], training: Training, workshop: Workshop
) -> tuple[list[Member], Host]:
    """Fit one-class members on all rows but anomalies; score every row by those who did not see it.

    Returns
    -------
    fitted : list of Member
        Fitted on all normal and unlabelled rows.
    scores : ndarray of shape (n + artificial, R)
        NaN where nobody could, or should, score a row.
    """
    labels, folds = training.labels, training.folds
    learn = np.flatnonzero(labels >= 0)
    alone = [i for i, member in enumerate(members) if _leaves_one_out(member, training)]
    by_folds = [] if folds is None else [i for i in range(len(members)) if i not in alone]
    tasks = []
    places: list[tuple[list[int], tuple[Index, Index] | None]] = []
    for group in groups_of(members):
        chosen = [members[i] for i in group]
        at_once = folds is None or any(i in alone for i in group)
        tasks.append(delayed(_fit_all)(chosen, training, learn, at_once))
        places.append((group, None))
    for group in groups_of([members[i] for i in by_folds]):
        group = [by_folds[i] for i in group]
        chosen = [members[i] for i in group]
        for fold, (rows, score) in enumerate(folds.pairs if folds else []):
            shaken = np.flatnonzero(folds.of_row[training.source] == fold) if folds else learn
            rows = rows[labels[rows] >= 0]
            if len(rows) == 0:
                raise ValueError(
                    "A fold leaves no normal row to learn from. Use folds, or groups, that spread "
                    "the normal rows."
                )
            tasks.append(delayed(_fit_fold)(chosen, training, rows, score, shaken))
            places.append((group, (score, len(labels) + shaken)))
    fitted: dict[int, Member] = {}
    scores = np.full((len(training.everything), len(members)), np.nan)
    for (group, place), result in zip(places, workshop.run(tasks), strict=True):
        if place is None:
            done, whole = result
            fitted.update(zip(group, done, strict=True))
            for column, i in enumerate(group):
                if whole is not None and i not in by_folds:
                    scores[:, i] = whole[:, column]
        else:
            scores[np.ix_(np.concatenate(place), np.array(group))] = result
    return [fitted[i] for i in range(len(members))], scores


def _leaves_one_out(member: Member, training: Training) -> bool:
    """Whether a formula can replace the folds: rows stand for themselves, none is shaken."""
    return (
        training.folds is not None
        and training.folds.independent
        and training.shaken is None
        and hasattr(member.last, "leave_one_out_scores")
        and len(complete_rows(training.X)) == len(training.labels)
    )


def _fit_all(
    members: list[Member], training: Training, learn: Index, score: bool
) -> tuple[list[Member], Host | None]:
    """Members fitted on all rows; where asked, with scores of all rows."""
    X = rows_of(training.X, learn)
    fitted = fit_members(members, X)
    if not score:
        return fitted, None
    if training.folds is None:
        parts = [training.X, *([] if training.shaken is None else [training.shaken])]
        return fitted, np.concatenate([score_members(fitted, part) for part in parts])
    scores = np.full((len(training.labels), len(members)), np.nan)
    anomalies = np.flatnonzero(training.labels < 0)
    if len(anomalies):
        scores[anomalies] = score_members(fitted, rows_of(training.X, anomalies))
    for column, member in enumerate(fitted):
        if _leaves_one_out(member, training):
            scores[learn, column] = leave_one_out_scores(member, X)
    return fitted, scores


def _fit_fold(
    members: list[Member], training: Training, learn: Index, score: Index, shaken: Index
) -> Host:
    fitted = fit_members(members, rows_of(training.X, learn))
    scores = [score_members(fitted, rows_of(training.X, score))]
    if len(shaken):
        scores.append(score_members(fitted, rows_of(training.shaken, shaken)))
    return np.concatenate(scores)


def expert_lessons(
    experts: list[Member], inputs: Table, training: Training, workshop: Workshop
) -> tuple[list[Member], Host]:
    """As `one_class_lessons`, for members that learn from both classes.

    Parameters
    ----------
    experts : list of Member
        With the columns of `inputs` that they see.
    inputs : table
        Rows, perhaps with the scores of the one-class members beside the features.
    training : Training
        Labels and folds.
    workshop : Workshop
        Does the work.
    """
    known = training.teaching
    pairs = training.folds.pairs if training.folds else []
    nothing = np.empty(0, dtype=np.intp)
    tasks, places = [], []
    for i, expert in enumerate(experts):
        for learn, score in [(np.arange(len(known)), nothing), *pairs]:
            learn = learn[known[learn] != 0]
            tasks.append(delayed(_fit_expert)(expert, inputs, known, learn, score))
            places.append((i, score))
    fitted: dict[int, Member] = {}
    stuck: set[int] = set()
    scores = np.full((len(known), len(experts)), np.nan)
    for (i, score), result in zip(places, workshop.run(tasks), strict=True):
        if result is None:
            stuck.add(i)
        elif len(score):
            scores[score, i] = result
        else:
            fitted[i] = result
    if stuck:
        names = ", ".join(repr(experts[i].name) for i in sorted(stuck))
        warnings.warn(
            f"{names} are left out: they cannot do with missing cells, and whichever fold is "
            "hidden, complete rows of both classes must remain.",
            UserWarning,
            stacklevel=4,
        )
    kept = [i for i in range(len(experts)) if i not in stuck]
    return [fitted[i] for i in kept], scores[:, kept]


def _fit_expert(
    expert: Member,
    inputs: Table,
    teaching: Host,
    learn: Index,
    score: Index,
    to_score: Table | None = None,
) -> Member | Host | None:
    """The expert, or its scores of some rows; None where too few complete rows can be learnt."""
    rows = rows_of(inputs, learn)
    try:
        (fitted,) = fit_members([expert], rows, teaching[learn])
    except Exception:
        complete = complete_rows(columns_of(rows, expert.columns))
        if len(complete) < len(learn) and len(np.unique(teaching[learn][complete])) < 2:
            return None
        raise
    if len(score) == 0:
        return fitted
    return score_members([fitted], rows_of(inputs if to_score is None else to_score, score))[:, 0]


def coarser_lessons(
    members: Sequence[Member],
    training: Training,
    workshop: Workshop,
    *,
    scores: Host,
    inputs: Table | None = None,
    to_score: Table | None = None,
) -> Host:
    """Scores of the normal rows by members that learnt from fewer rows: without a second fold.

    How scores depend on the number of rows learnt from shows in the difference to `scores`.

    Parameters
    ----------
    members : sequence of Member
        One-class members; or experts, with `inputs`.
    training : Training
        Rows, labels and folds.
    workshop : Workshop
        Does the work.
    scores : ndarray of shape (n, R)
        Out-of-fold scores; they stay where a member has a formula instead of folds, or too few
        rows are left to learn from.
    inputs, to_score : table, optional
        What experts learn from, and what they score.
    """
    assert training.folds is not None
    known, coarser = training.teaching, scores.copy()
    tasks, places = [], []
    for learn, score in training.folds.in_pairs():
        score = score[known[score] > 0]
        if len(score) == 0:  # folds that hold anomalies alone
            continue
        if inputs is None:
            learn = learn[training.labels[learn] >= 0]
            groups = [
                [i for i in group if not _leaves_one_out(members[i], training)]
                for group in groups_of(members)
            ]
            nothing = np.empty(0, dtype=np.intp)
            for group in filter(None, groups if len(learn) else []):
                chosen = [members[i] for i in group]
                tasks.append(delayed(_fit_fold)(chosen, training, learn, score, nothing))
                places.append((score, group))
        else:
            learn = learn[known[learn] != 0]
            if len(np.unique(known[learn])) == 2:
                for i, expert in enumerate(members):
                    tasks.append(
                        delayed(_fit_expert)(expert, inputs, known, learn, score, to_score)
                    )
                    places.append((score, [i]))
    for (score, group), result in zip(places, workshop.run(tasks), strict=True):
        if result is not None:
            coarser[np.ix_(score, np.array(group))] = result.reshape(len(score), -1)
    return coarser


def beside_scores(experts: list[Member], X: Table, n_scores: int) -> list[Member]:
    """Experts that see, with the columns of `X` that they saw, the scores to their right."""
    d = X.shape[1]
    scores = np.arange(d, d + n_scores)
    return [
        expert
        if expert.columns is None
        else Member(expert.name, expert.estimator, np.concatenate([expert.columns, scores]))
        for expert in experts
    ]
