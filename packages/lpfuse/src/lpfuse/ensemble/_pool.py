"""A pool of fitted detectors: rows in, raw scores out; who fails is named, and the rest go on."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

from lpfuse._arrays import Host
from lpfuse._saved import saved_as
from lpfuse.ensemble._combination import scale
from lpfuse.ensemble._lessons import (
    Training,
    Workshop,
    beside_scores,
    coarser_lessons,
    expert_lessons,
    one_class_lessons,
)
from lpfuse.ensemble._members import Member, groups_of
from lpfuse.ensemble._tables import Table, with_scores
from lpfuse.ensemble._work import score_members

Choice = Callable[[list[Member], Host], list[int]]


@saved_as("Pool")
@dataclass(frozen=True)
class Pool:
    """Fitted one-class members, then fitted experts.

    Attributes
    ----------
    one_class : list of Member
        Fitted on rows that are not known anomalies.
    experts : list of Member
        Fitted on both classes.
    score_scaler : estimator or None
        Puts the scores of the one-class members on the scale that experts know; None: experts see
        features alone.
    """

    one_class: list[Member]
    experts: list[Member]
    score_scaler: Any = None

    @property
    def members(self) -> list[Member]:
        """All of them, in the order of the scores' columns."""
        return [*self.one_class, *self.experts]

    def scores(self, X: Table, n_jobs: int | None = None) -> tuple[Host, dict[str, str]]:
        """Raw scores, high = normal, and the errors of those who failed, by name.

        Parameters
        ----------
        X : table
            Rows.
        n_jobs : int, optional
            Threads.

        Returns
        -------
        scores : ndarray of shape (n, R)
            NaN where a detector is silent.
        errors : dict
            Name of a detector: what it said.
        """
        scores, errors = _attempt(self.one_class, X, n_jobs)
        if not self.experts:
            return scores, errors
        inputs = self._inputs(X, scores)
        expert_scores, expert_errors = _attempt(self.experts, inputs, n_jobs)
        return np.column_stack([scores, expert_scores]), errors | expert_errors

    def _inputs(self, X: Table, scores: Host) -> Table:
        if self.score_scaler is None:
            return X
        names = [member.name for member in self.one_class]
        return with_scores(X, scale(self.score_scaler, scores), names)


def learn_pool(
    members: Sequence[Member],
    training: Training,
    workshop: Workshop,
    *,
    scaler: Any = None,
    choose: Choice | None = None,
    coarser: bool = False,
) -> tuple[Pool, Host, Host | None]:
    """Fit a pool, and score its training rows by detectors that have not seen them.

    Parameters
    ----------
    members : sequence of Member
        One-class members and experts.
    training : Training
        Rows, labels and folds.
    workshop : Workshop
        Does the work.
    scaler : estimator, optional
        A copy puts scores on the scale on which experts see them; None: they see features alone.
    choose : callable, optional
        Which of the one-class members to keep, judged by their out-of-fold scores.
    coarser : bool, default=False
        Whether to score normal rows once more, by detectors that learnt from fewer rows.

    Returns
    -------
    pool : Pool
        Fitted on all rows.
    scores : ndarray of shape (n + artificial, R)
        Out-of-fold scores of the rows, then of the artificial anomalies.
    coarser : ndarray of shape (n, R) or None
        See `coarser_lessons`.
    """
    one_class = [member for member in members if not member.learns_from_anomalies]
    experts = [member for member in members if member.learns_from_anomalies]
    folds = training.folds.pairs if training.folds else []
    twice = training.folds.in_pairs() if training.folds and coarser else []
    groups = len(groups_of(one_class))
    workshop.later = len(experts) * (1 + len(folds)) + (groups + len(experts)) * len(twice)
    fitted, scores = one_class_lessons(one_class, training, workshop)
    if choose is not None:
        kept = choose(fitted, scores)
        fitted, scores = [fitted[i] for i in kept], scores[:, kept]
    n = len(training.labels)
    by_fewer = None
    if twice:
        workshop.later = len(experts) * (1 + len(folds) + len(twice))
        by_fewer = coarser_lessons(fitted, training, workshop, scores=scores[:n])
    if not experts:
        return Pool(fitted, []), scores, by_fewer
    score_scaler = None
    if scaler is not None and fitted:
        normal = scores[:n][training.teaching > 0]
        with warnings.catch_warnings():  # what there is to say of the scores is said by the audit
            warnings.simplefilter("ignore")
            score_scaler = clone(scaler).fit(normal[~np.isnan(normal).any(axis=1)])
        experts = beside_scores(experts, training.X, len(fitted))
    pool = Pool(fitted, experts, score_scaler)
    inputs = pool._inputs(training.X, scores)
    workshop.later = len(experts) * len(twice)
    learnt, of_experts = expert_lessons(experts, inputs, training, workshop)
    workshop.later = 0
    if by_fewer is not None:
        once_more = coarser_lessons(
            learnt,
            training,
            workshop,
            scores=of_experts,
            inputs=inputs,
            to_score=pool._inputs(training.X, by_fewer),
        )
        by_fewer = np.column_stack([by_fewer, once_more])
    return Pool(fitted, learnt, score_scaler), np.column_stack([scores, of_experts]), by_fewer


def _attempt(
    members: Sequence[Member], X: Table, n_jobs: int | None
) -> tuple[Host, dict[str, str]]:
    groups = groups_of(members, fitted=True)
    jobs = ([members[i] for i in group] for group in groups)
    answers = Parallel(n_jobs=n_jobs, prefer="threads")(delayed(_ask)(job, X) for job in jobs)
    scores = np.full((X.shape[0], len(members)), np.nan)
    errors = {}
    for group, group_answers in zip(groups, answers, strict=True):
        for i, answer in zip(group, group_answers, strict=True):
            if isinstance(answer, str):
                errors[members[i].name] = answer
            else:
                scores[:, i] = answer
    return scores, errors


def _ask(members: Sequence[Member], X: Table) -> list[Host | str]:
    """The scores of each member, or its error; members of a group that fails are asked apart."""
    try:
        return list(score_members(members, X).T)
    except Exception as error:
        if len(members) > 1:
            return [answer for member in members for answer in _ask([member], X)]
        return [f"{type(error).__name__}: {error}"]
