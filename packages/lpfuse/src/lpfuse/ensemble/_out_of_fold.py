"""Raw scores of training rows by detectors that have not seen them, and the detectors themselves.

One-class members learn from rows that are not known anomalies. Experts come after them:
`lpfuse.ensemble._experts`. Of either, a final fit is asked whether it scores each row by itself:
`lpfuse.ensemble._batches`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from joblib.parallel import get_active_backend
from sklearn.utils import _safe_indexing

from lpfuse._arrays.operations import Host
from lpfuse.ensemble._batches import check_scores_by_row
from lpfuse.ensemble._members import (
    Member,
    TooFewCompleteRows,
    fit_members,
    group_members,
    judged_rows,
    leave_one_out_scores,
    score_members,
    share_preparation,
    spoken_scores,
)
from lpfuse.ensemble._tables import Index, Table
from lpfuse.ensemble._training import Training

# Normal rows that an expert learns from, at most; chosen by hand.
EXPERT_ROWS = 2_000
# Rows from which on detectors that share no more than their preparation are fitted one by one: then
# cores are used evenly, and progress shows. Below, preparing rows once for all of them is faster.
ALONE_FROM = 10_000

Progress = Callable[[int, int], None]
Choice = Callable[[list[Member], Host], list[int]]


@dataclass
class FitScheduler:
    """Runs fits on so many cores, and tells how much of the work is done.

    Attributes
    ----------
    n_jobs : int or None
        Fits at a time.
    progress : callable or None
        Is told how much work is done, and how much there is in all.
    later : int
        Work that is known to follow.
    done : int
        Work that is done.
    """

    n_jobs: int | None = None
    progress: Progress | None = None
    later: int = 0
    done: int = 0

    @classmethod
    def for_user(cls, n_jobs: int | None, progress: bool | Progress) -> FitScheduler:
        """With the parameters of these names of a `FusedDetector`."""
        return cls(n_jobs, progress if callable(progress) else _to_stderr if progress else None)

    def run(self, tasks: Sequence[Any], work: Sequence[int] | None = None) -> Iterator[Any]:
        """Results of the tasks, in their order; `work` says how long each takes, 1 for all."""
        work = [1] * len(tasks) if work is None else work
        total = self.done + sum(work) + self.later
        one_by_one = get_active_backend()[0].supports_return_generator  # "multiprocessing": not
        kind = "generator" if one_by_one else "list"
        results = Parallel(n_jobs=self.n_jobs, return_as=kind)(tasks)
        for result, took in zip(results, work, strict=True):
            self.done += took
            if self.progress is not None:
                self.progress(self.done, total)
            yield result


def _to_stderr(done: int, total: int) -> None:
    end = "\n" if done == total else ""
    print(f"\rFitting detectors: {done / total:.0%}", end=end, file=sys.stderr, flush=True)


class OneClass(NamedTuple):
    """Fitted one-class members, and what they say of rows that they have not seen.

    Attributes
    ----------
    members : list of Member
        Fitted on all rows but anomalies; as they were given, where rows were hidden: those fits
        have said all that they will.
    scores : ndarray of shape (n + artificial, R)
        Of the training rows, out of fold; NaN where no fit could, or should, score a row.
    hidden : ndarray of shape (m, R) or None
        Of the rows that were hidden.
    """

    members: list[Member]
    scores: Host
    hidden: Host | None = None


def fit_one_class(
    members: list[Member],
    trainings: Sequence[tuple[Training, Table | None]],
    scheduler: FitScheduler,
) -> list[OneClass]:
    """Fit one-class members on all rows but anomalies; score every row by fits without its fold.

    Parameters
    ----------
    members : list of Member
        To be fitted to each training.
    trainings : sequence of (Training, table or None)
        Rows to learn from, and rows to hide meanwhile. All fits run side by side.
    scheduler : FitScheduler
        Runs them.
    """
    plans = [_FitPlan(members, training, hidden) for training, hidden in trainings]
    tasks = [task for plan in plans for task in plan.tasks]
    work = [work for plan in plans for work in plan.work]
    results = scheduler.run(tasks, work)
    return [plan.collect(results) for plan in plans]


class _FitPlan:
    """The fits of one-class members to the rows of one training, and where results belong."""

    def __init__(self, members: list[Member], training: Training, hidden: Table | None) -> None:
        self.members, self.training, self.hidden = members, training, hidden
        n, folds = len(training.labels), training.folds
        n_learn = int((training.labels >= 0).sum())
        by_formula = {i for i, member in enumerate(members) if _leaves_one_out(member, training)}
        self.by_folds = [] if folds is None else [
            i for i in range(len(members)) if i not in by_formula
        ]  # fmt: skip
        self.tasks: list[Any] = []
        self.work: list[int] = []
        # Columns and rows of the results; no rows: those of fits to all rows.
        self.places: list[tuple[list[int], Index | None]] = []
        for group in group_members(members, alone=n_learn >= ALONE_FROM):
            score = folds is None or any(i in by_formula for i in group)
            chosen = [members[i] for i in group]
            self.tasks.append(delayed(_fit_on_all)(chosen, training, score, hidden))
            self.work.append(_work(chosen, n_learn))
            self.places.append((group, None))
        for positions in group_members([members[i] for i in self.by_folds]):
            group = [self.by_folds[i] for i in positions]
            for fold, (learn, score_rows) in enumerate(folds.pairs if folds else []):
                jittered = np.flatnonzero(training.fold_of_truth[n:] == fold)
                learn = learn[training.labels[learn] >= 0]
                if len(learn) == 0:
                    raise ValueError(
                        "A fold leaves no normal row to learn from. Use folds, or groups, that "
                        "spread the normal rows."
                    )
                chosen = [members[i] for i in group]
                task = delayed(_fit_and_score)(chosen, training, learn, score_rows, jittered)
                self.tasks.append(task)
                self.work.append(_work(chosen, len(learn)))
                self.places.append((group, np.concatenate([score_rows, n + jittered])))

    def collect(self, results: Iterator[Any]) -> OneClass:
        """The next results, which are of the tasks in their order."""
        fitted: dict[int, Member] = {}
        scores = np.full((len(self.training.truth), len(self.members)), np.nan)
        hidden = None
        if self.hidden is not None:
            hidden = np.full((self.hidden.shape[0], len(self.members)), np.nan)
        for group, rows in self.places:
            result = next(results)
            if rows is not None:
                scores[np.ix_(rows, np.array(group))] = result
                continue
            done, whole, unseen = result
            fitted.update(zip(group, done, strict=True))
            for column, i in enumerate(group):
                if whole is not None and i not in self.by_folds:
                    scores[:, i] = whole[:, column]
                if hidden is not None and not isinstance(unseen[column], str):
                    hidden[:, i] = unseen[column]
        members = share_preparation([fitted[i] for i in range(len(self.members))])
        return OneClass(members, scores, hidden)


def _work(members: Sequence[Member], n: int) -> int:
    """How long fits to n rows take, beside those of other members."""
    return round(n * sum(float(getattr(member.last, "relative_work", 1.0)) for member in members))


def _leaves_one_out(member: Member, training: Training) -> bool:
    """Whether a formula can replace the folds: rows stand for themselves, none is jittered."""
    return (
        training.folds is not None
        and training.folds.independent
        and training.jittered is None
        and hasattr(member.last, "leave_one_out_scores")
        and getattr(member.last, "leaves_one_out_of", bool)((training.labels >= 0).sum())
        and len(judged_rows(member, training.X)) == len(training.labels)
    )


def _fit_on_all(
    members: list[Member], training: Training, score: bool, hidden: Table | None
) -> tuple[list[Member], Host | None, list[Any] | None]:
    """Members fitted on all rows but anomalies, scores of all rows where asked, and of hidden ones.

    Where rows were hidden the fits are of no further use, and the members come back as they were.
    """
    learn = np.flatnonzero(training.labels >= 0)
    X = _safe_indexing(training.X, learn, axis=0)
    fitted = fit_members(members, X)
    for member in [] if training.is_part else fitted:
        check_scores_by_row(member, X)
    scores = _scores_of_all(fitted, training, X) if score else None
    if hidden is None:
        return fitted, scores, None
    return members, scores, spoken_scores(fitted, hidden)


def _scores_of_all(fitted: list[Member], training: Training, X: Table) -> Host:
    """Scores of all rows by members that were fitted to those that are not anomalies, `X`."""
    if training.folds is None:
        parts = [training.X, *([] if training.jittered is None else [training.jittered])]
        return np.concatenate([score_members(fitted, part) for part in parts])
    scores = np.full((len(training.labels), len(fitted)), np.nan)
    anomalies = np.flatnonzero(training.labels < 0)
    if len(anomalies):
        scores[anomalies] = score_members(fitted, _safe_indexing(training.X, anomalies, axis=0))
    for column, member in enumerate(fitted):
        if _leaves_one_out(member, training):
            scores[training.labels >= 0, column] = leave_one_out_scores(member, X)
    return scores


def _fit_and_score(
    members: list[Member], training: Training, learn: Index, score: Index, jittered: Index
) -> Host:
    """Scores of rows, then of jittered ones, by members fitted to others."""
    fitted = fit_members(members, _safe_indexing(training.X, learn, axis=0))
    scores = [score_members(fitted, _safe_indexing(training.X, score, axis=0))]
    if len(jittered):
        scores.append(score_members(fitted, _safe_indexing(training.jittered, jittered, axis=0)))
    return np.concatenate(scores)


def learners_of_experts(training: Training, rows: Index) -> Index:
    """The rows, of some, that experts learn from: all anomalies, and at most so many normal ones.

    Those that somebody vouched for come first; the others are taken evenly.
    """
    normal = rows[training.labels[rows] >= 0]
    if len(normal) <= EXPERT_ROWS:
        return rows
    vouched = normal[training.labels[normal] > 0]
    vouched = vouched if len(vouched) <= EXPERT_ROWS // 2 else vouched[:0]
    others = np.setdiff1d(normal, vouched)
    some = others[np.linspace(0, len(others) - 1, EXPERT_ROWS - len(vouched)).astype(np.intp)]
    return np.concatenate([rows[training.labels[rows] < 0], vouched, some])


def fit_expert(
    expert: Member,
    inputs: Table,
    labels: Host,
    learn: Index,
    score: Index,
    weights: Host | None = None,
    check: bool = True,
) -> tuple[Member, Host] | None:
    """The expert and its scores of some rows; None where too few complete rows can be learnt.

    With `check`, an expert that scores a row by its batch is refused.
    """
    try:
        rows = _safe_indexing(inputs, learn, axis=0)
        counts = None if weights is None else weights[learn]
        (fitted,) = fit_members([expert], rows, labels[learn], counts)
    except TooFewCompleteRows:
        return None
    if check:
        check_scores_by_row(fitted, rows)
    if len(score) == 0:
        return fitted, np.empty(0)
    return fitted, score_members([fitted], _safe_indexing(inputs, score, axis=0))[:, 0]
