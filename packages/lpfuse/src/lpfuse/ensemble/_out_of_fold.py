"""Raw scores of training rows by detectors that have not seen them, and the detectors themselves.

One-class members learn from rows that are not known anomalies. Experts come after them:
`lpfuse.ensemble._experts`. Of either, a final fit is asked whether it scores each row by itself:
`lpfuse.ensemble._batches`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
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
)
from lpfuse.ensemble._tables import Index, Table
from lpfuse.ensemble._training import Training

# Normal rows that an expert learns from, at most; chosen by hand.
EXPERT_ROWS = 2_000

Progress = Callable[[int, int], None]
Choice = Callable[[list[Member], Host], list[int]]


@dataclass
class FitScheduler:
    """Runs fits on so many cores, and tells of each that is done.

    Attributes
    ----------
    n_jobs : int or None
        Fits at a time.
    progress : callable or None
        Is told how many are done, and how many there are in all.
    later : int
        Fits that are known to follow.
    done : int
        Fits that are done.
    rounds : int
        How often all will be fitted again, without a part of the rows.
    """

    n_jobs: int | None = None
    progress: Progress | None = None
    later: int = 0
    done: int = 0
    rounds: int = 0
    done_before: int = 0

    def start_round(self) -> None:
        """One of the rounds begins."""
        self.rounds, self.done_before = self.rounds - 1, self.done

    @classmethod
    def for_user(cls, n_jobs: int | None, progress: bool | Progress) -> FitScheduler:
        """With the parameters of these names of a `FusedDetector`."""
        return cls(n_jobs, progress if callable(progress) else _to_stderr if progress else None)

    def run(self, tasks: Sequence[Any]) -> Iterator[Any]:
        """Results of the tasks, in their order."""
        in_round = self.done - self.done_before + len(tasks) + self.later
        total = self.done_before + in_round * (1 + self.rounds)  # later rounds are like this one
        for result in Parallel(n_jobs=self.n_jobs, return_as="generator")(tasks):
            self.done += 1
            if self.progress is not None:
                self.progress(self.done, total)
            yield result


def _to_stderr(done: int, total: int) -> None:
    end = "\n" if done == total else ""
    print(f"\rFitting detectors: {done} of {total}", end=end, file=sys.stderr, flush=True)


def fit_one_class(
    members: list[Member], training: Training, scheduler: FitScheduler
) -> tuple[list[Member], Host]:
    """Fit one-class members on all rows but anomalies; score every row by fits without its fold.

    Returns
    -------
    fitted : list of Member
        Fitted on all normal and unlabelled rows.
    scores : ndarray of shape (n + artificial, R)
        NaN where no fit could, or should, score a row.
    """
    n, folds = len(training.labels), training.folds
    by_formula = [i for i, member in enumerate(members) if _leaves_one_out(member, training)]
    by_folds = [] if folds is None else [i for i in range(len(members)) if i not in by_formula]
    tasks: list[Any] = []
    places: list[tuple[list[int], Index | None]] = []  # columns and rows; None: the final fits
    for group in group_members(members):
        score = folds is None or any(i in by_formula for i in group)
        tasks.append(delayed(_fit_on_all)([members[i] for i in group], training, score))
        places.append((group, None))
    for positions in group_members([members[i] for i in by_folds]):
        group = [by_folds[i] for i in positions]
        for fold, (learn, score_rows) in enumerate(folds.pairs if folds else []):
            jittered = np.flatnonzero(training.fold_of_truth[n:] == fold)
            learn = learn[training.labels[learn] >= 0]
            if len(learn) == 0:
                raise ValueError(
                    "A fold leaves no normal row to learn from. Use folds, or groups, that spread "
                    "the normal rows."
                )
            chosen = [members[i] for i in group]
            tasks.append(delayed(_fit_and_score)(chosen, training, learn, score_rows, jittered))
            places.append((group, np.concatenate([score_rows, n + jittered])))
    fitted: dict[int, Member] = {}
    scores = np.full((len(training.truth), len(members)), np.nan)
    for (group, rows), result in zip(places, scheduler.run(tasks), strict=True):
        if rows is not None:
            scores[np.ix_(rows, np.array(group))] = result
            continue
        done, whole = result
        fitted.update(zip(group, done, strict=True))
        for column, i in enumerate(group):
            if whole is not None and i not in by_folds:
                scores[:, i] = whole[:, column]
    return [fitted[i] for i in range(len(members))], scores


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
    members: list[Member], training: Training, score: bool
) -> tuple[list[Member], Host | None]:
    """Members fitted on all rows but anomalies; where asked, with scores of all rows."""
    learn = np.flatnonzero(training.labels >= 0)
    X = _safe_indexing(training.X, learn, axis=0)
    fitted = fit_members(members, X)
    for member in [] if training.is_part else fitted:
        check_scores_by_row(member, X)
    if not score:
        return fitted, None
    if training.folds is None:
        parts = [training.X, *([] if training.jittered is None else [training.jittered])]
        return fitted, np.concatenate([score_members(fitted, part) for part in parts])
    scores = np.full((len(training.labels), len(members)), np.nan)
    anomalies = np.flatnonzero(training.labels < 0)
    if len(anomalies):
        scores[anomalies] = score_members(fitted, _safe_indexing(training.X, anomalies, axis=0))
    for column, member in enumerate(fitted):
        if _leaves_one_out(member, training):
            scores[learn, column] = leave_one_out_scores(member, X)
    return fitted, scores


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
) -> Member | Host | None:
    """The expert, or its scores of some rows; None where too few complete rows can be learnt.

    With `check`, an expert that scores a row by its batch is refused.
    """
    try:
        rows = _safe_indexing(inputs, learn, axis=0)
        counts = None if weights is None else weights[learn]
        (fitted,) = fit_members([expert], rows, labels[learn], counts)
    except TooFewCompleteRows:
        return None
    if len(score) == 0:
        if check:
            check_scores_by_row(fitted, rows)
        return fitted
    return score_members([fitted], _safe_indexing(inputs, score, axis=0))[:, 0]
