"""Raw scores of training rows by detectors that have not seen them, and the detectors themselves.

One-class members learn from rows that are not known anomalies. Experts come after them:
`lpfuse.ensemble._experts`. Of either, a final fit is asked whether it scores each row by itself.
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
from lpfuse._base import Scorer
from lpfuse._checks.messages import LARGEST_SCORE
from lpfuse._format import quote
from lpfuse.adapters import innermost
from lpfuse.ensemble._members import (
    Member,
    TooFewCompleteRows,
    complete_rows,
    fit_members,
    group_members,
    leave_one_out_scores,
    score_members,
)
from lpfuse.ensemble._tables import Index, Table
from lpfuse.ensemble._training import Training

# Normal rows that an expert learns from, at most; chosen by hand.
EXPERT_ROWS = 2_000

# Rows that are scored again in another batch: a two-hundredth of those learnt from, so that a batch
# that is added to the training rows still moves their ranks; within bounds, as time is short.
FEWEST_ROWS, MOST_ROWS, SHARE_OF_ROWS = 32, 1_000, 200
# What rounding may change, of the spread of the scores and of each score: networks in single
# precision differ by 1e-6, detectors in double by 1e-15, ECOD by 1e-3 or more. Chosen by hand.
OF_SPREAD, OF_SCORE = 1e-4, 1e-6
# Terms of size 1 that cancel leave such scores: a row that a full basis rebuilds, for instance.
NOISE = 1e-12

REMEDY = "Leave it out, or use a detector that scores each row by itself, as all of lpfuse do."

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
    """

    n_jobs: int | None = None
    progress: Progress | None = None
    later: int = 0
    done: int = 0

    @classmethod
    def for_user(cls, n_jobs: int | None, progress: bool | Progress) -> FitScheduler:
        """With the parameters of these names of a `FusedDetector`."""
        return cls(n_jobs, progress if callable(progress) else _to_stderr if progress else None)

    def run(self, tasks: Sequence[Any]) -> Iterator[Any]:
        """Results of the tasks, in their order."""
        total = self.done + len(tasks) + self.later
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
        and len(complete_rows(training.X)) == len(training.labels)
    )


def _fit_on_all(
    members: list[Member], training: Training, score: bool
) -> tuple[list[Member], Host | None]:
    """Members fitted on all rows but anomalies; where asked, with scores of all rows."""
    learn = np.flatnonzero(training.labels >= 0)
    X = _safe_indexing(training.X, learn, axis=0)
    fitted = fit_members(members, X)
    for member in fitted:
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
) -> Member | Host | None:
    """The expert, or its scores of some rows; None where too few complete rows can be learnt."""
    try:
        rows = _safe_indexing(inputs, learn, axis=0)
        counts = None if weights is None else weights[learn]
        (fitted,) = fit_members([expert], rows, labels[learn], counts)
    except TooFewCompleteRows:
        return None
    if len(score) == 0:
        check_scores_by_row(fitted, rows)
        return fitted
    return score_members([fitted], _safe_indexing(inputs, score, axis=0))[:, 0]


def score_two_folds_out(
    members: Sequence[Member], training: Training, scheduler: FitScheduler, scores: Host
) -> Host:
    """Scores of the normal rows by members that learnt from fewer rows: without a second fold.

    How scores depend on the number of rows learnt from shows in the difference to the out-of-fold
    `scores`, which stay where a member has a formula instead of folds, or too few rows are left to
    learn from.
    """
    assert training.folds is not None
    found, nothing = scores.copy(), np.empty(0, dtype=np.intp)
    groups = [
        [i for i in group if not _leaves_one_out(members[i], training)]
        for group in group_members(members)
    ]
    tasks, places = [], []
    for learn, score in training.folds.in_pairs():
        score = score[training.weight_labels[score] > 0]
        learn = learn[training.labels[learn] >= 0]
        if len(score) == 0 or len(learn) == 0:  # folds that hold anomalies alone
            continue
        for group in filter(None, groups):
            chosen = [members[i] for i in group]
            tasks.append(delayed(_fit_and_score)(chosen, training, learn, score, nothing))
            places.append((score, group))
    for (score, group), result in zip(places, scheduler.run(tasks), strict=True):
        found[np.ix_(score, np.array(group))] = result
    return found


def check_scores_by_row(member: Member, X: Table) -> None:
    """Refuse a fitted member that gives rows other scores when they come in another batch.

    Some detectors rank a row among those that are scored with it (PyOD's ECOD and COPOD add the
    batch to the training rows, COF and SOD look at nothing else). A threshold set on one batch says
    nothing about the next: false alarms went from 5.2 to 0.6 % with the size of the batch.
    Some training rows are scored together, then half of them without the rest; two calls in all.
    The detectors of lpfuse are never asked.

    Parameters
    ----------
    member : Member
        Fitted.
    X : table of shape (n, d)
        The rows that it was fitted on.
    """
    if isinstance(innermost(member.estimator), Scorer):
        return
    rows = _rows_to_score(member, X)
    together = _scores(member, X, rows)
    known = np.flatnonzero(np.abs(together) < LARGEST_SCORE)  # infinite ones are cut to it
    if len(known) < 2:
        return
    # A half unlike the whole, for a sample of it would have the same ranks: that of the lowest
    # scores, without the very lowest, as who counts the rows below notices no others.
    half = np.sort(known[np.argsort(together[known], kind="stable")[1 : 1 + len(known) // 2]])
    apart = _scores(member, X, rows[half])
    if _same(together[half], apart, together[known]):
        return
    who = _who(member)
    if not _same(together[known], _scores(member, X, rows)[known], together[known]):
        raise ValueError(
            f"{who} scores at random: the same {len(rows)} rows got other scores a second time. A "
            "threshold needs scores that stay. Fix its seed, or leave it out."
        )
    raise ValueError(
        f"{who} scores a row by what else is in its batch: {len(half)} of {len(rows)} rows got "
        "other scores when they came without the rest. A threshold set on one batch then says "
        f"nothing about the next. {REMEDY}"
    )


def _rows_to_score(member: Member, X: Table) -> Index:
    """Training rows, spread evenly; complete ones where there are at least two."""
    n = X.shape[0]
    view = X if member.columns is None else _safe_indexing(X, member.columns, axis=1)
    found = complete_rows(view)
    found = found if len(found) > 1 else np.arange(n)
    count = min(len(found), max(FEWEST_ROWS, min(MOST_ROWS, n // SHARE_OF_ROWS)))
    return found[np.linspace(0, len(found) - 1, count).astype(np.intp)]


def _scores(member: Member, X: Table, rows: Index) -> Host:
    """Scores of some training rows; a member that can score only more of them is refused."""
    try:
        return score_members([member], _safe_indexing(X, rows, axis=0))[:, 0]
    except Exception as error:
        score_members([member], X)  # where it fails on all rows as well, that is the error
        raise ValueError(
            f"{_who(member)} scores {X.shape[0]} rows, but not {len(rows)} of them by themselves "
            f"({type(error).__name__}: {error}): what it says of a row depends on its batch. "
            f"{REMEDY}"
        ) from error


def _same(first: Host, second: Host, scale: Host) -> bool:
    """Whether two answers agree up to rounding, as far as both are finite."""
    low, high = np.quantile(scale, [0.25, 0.75])
    allowed = OF_SPREAD * (high - low) + OF_SCORE * np.abs(first) + NOISE
    return not np.any(np.abs(first - second) > allowed)  # NaN is no difference


def _who(member: Member) -> str:
    return f"{quote(member.name)} ({type(innermost(member.estimator)).__name__})"
