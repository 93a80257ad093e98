"""Fitted detectors together: rows in, raw scores out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from lpfuse._arrays.operations import Host
from lpfuse._saved import FieldsOnlyState, saved_as
from lpfuse.ensemble._members import Member, group_members, spoken_scores
from lpfuse.ensemble._one_row import QuickMembers
from lpfuse.ensemble._scoring import scale_scores, without_gaps
from lpfuse.ensemble._tables import Table, frame_with_scores


@saved_as("Pool")
@dataclass(frozen=True)
class Pool(FieldsOnlyState):
    """Fitted detectors: rows in, raw scores out.

    Attributes
    ----------
    one_class : list of Member
        Fitted on rows that are not known anomalies.
    experts : list of Member
        Fitted on both classes.
    score_scaler : estimator or None
        Puts the scores of the one-class members on the scale that experts know; None: experts see
        features alone.
    score_weights : ndarray of shape (len(one_class),) or None
        Of the one fused score that experts see; None: they see the score of each.
    """

    one_class: list[Member]
    experts: list[Member]
    score_scaler: Any = None
    score_weights: Host | None = None

    @property
    def members(self) -> list[Member]:
        """All of them, in the order of the scores' columns."""
        return [*self.one_class, *self.experts]

    def scores(self, X: Table, n_jobs: int | None = None) -> tuple[Host, dict[str, str]]:
        """Raw scores, high = normal, and the errors of the detectors that failed.

        Parameters
        ----------
        X : table of shape (n, d)
            Rows.
        n_jobs : int, optional
            Threads.

        Returns
        -------
        scores : ndarray of shape (n, R)
            NaN where a detector is silent.
        errors : dict
            Name of a detector: its error.
        """
        row = self._of_one_row(X)
        if row is not None:
            return row, {}
        scores, errors = _scores_and_errors(self.one_class, X, n_jobs)
        expert_scores, expert_errors = self.expert_scores(X, scores, n_jobs)
        return np.column_stack([scores, expert_scores]), errors | expert_errors

    @cached_property
    def _quick(self) -> tuple[QuickMembers, QuickMembers]:
        return QuickMembers(self.one_class), QuickMembers(self.experts)

    def _of_one_row(self, X: Table) -> Host | None:
        """Raw scores of one complete row, without checks on the way; None of any other table."""
        one = isinstance(X, np.ndarray) and X.shape[0] == 1 and X.dtype == np.float64
        if not one or np.isnan(X).any():
            return None
        one_class, experts = self._quick
        try:
            scores = one_class.scores(X)
            more = experts.scores(self.expert_inputs(X, scores)) if self.experts else scores[:, :0]
        except Exception:  # who fails, and why, is found out where members are asked one by one
            return None
        found = np.concatenate([scores, more], axis=1)
        return None if np.isnan(found).any() else found

    def expert_scores(
        self, X: Table, scores: Host, n_jobs: int | None = None
    ) -> tuple[Host, dict[str, str]]:
        """As `scores`, of the experts alone, given the scores of the one-class members."""
        if not self.experts:
            return np.empty((len(scores), 0)), {}
        return _scores_and_errors(self.experts, self.expert_inputs(X, scores), n_jobs)

    def expert_inputs(self, X: Table, scores: Host) -> Table:
        """What experts see of rows: features and, to their right, one-class scores.

        Parameters
        ----------
        X : table of shape (n, d)
            Rows.
        scores : ndarray of shape (n, len(one_class))
            Their raw scores by the one-class members.
        """
        if self.score_scaler is None:
            return X
        seen = scale_scores(self.score_scaler, scores)
        names = [member.name for member in self.one_class]
        if self.score_weights is not None:
            terms = without_gaps(seen * self.score_weights, np.abs(self.score_weights))
            seen, names = terms.sum(axis=1, keepdims=True), ["one-class detectors"]
        if isinstance(X, np.ndarray):
            return np.column_stack([X, seen])
        return frame_with_scores(X, seen, names)


def _scores_and_errors(
    members: Sequence[Member], X: Table, n_jobs: int | None
) -> tuple[Host, dict[str, str]]:
    groups = group_members(members, fitted=True)
    work = [[members[i] for i in group] for group in groups]
    if effective_n_jobs(n_jobs) == 1:  # joblib takes longer than a row does
        answers = [spoken_scores(some, X) for some in work]
    else:
        jobs = (delayed(spoken_scores)(some, X) for some in work)
        answers = Parallel(n_jobs=n_jobs, prefer="threads")(jobs)
    scores = np.full((X.shape[0], len(members)), np.nan)
    errors = {}
    for group, group_answers in zip(groups, answers, strict=True):
        for i, answer in zip(group, group_answers, strict=True):
            if isinstance(answer, str):
                errors[members[i].name] = answer
            else:
                scores[:, i] = answer
    return scores, errors
