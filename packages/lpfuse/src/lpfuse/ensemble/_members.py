"""Members of an ensemble: named detectors that are fitted and scored, together where they can be.

Which rows a detector can use where cells are missing is settled in `_usable_rows`, what becomes of
a fitted detector that fails here (`_scores_or_error`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import joblib
import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing

from lpfuse._arrays.operations import Host, openmp_threads_for
from lpfuse._base import Detector
from lpfuse._checks.messages import LARGEST_SCORE
from lpfuse._saved import ANY, saved_as
from lpfuse.adapters import ClassifierExpert, check_answer
from lpfuse.detectors import fit_together, score_together
from lpfuse.ensemble._scoring import scale_scores, without_gaps
from lpfuse.ensemble._tables import Index, Table, frame_with_scores
from lpfuse.ensemble._usable_rows import complete_rows as complete_rows
from lpfuse.ensemble._usable_rows import on_usable_rows, rows_with_any_cell
from lpfuse.views import FilledGaps

T = TypeVar("T")


class TooFewCompleteRows(ValueError):
    """An expert refuses missing cells, and the complete rows are not of both classes."""


@saved_as("Member", name=ANY)
@dataclass(frozen=True)
class Member:
    """A detector by name, with the columns that it sees.

    Attributes
    ----------
    name : str
        As users call it.
    estimator : estimator
        With ``fit`` and ``score_samples``, high = normal; may be a Pipeline.
    columns : ndarray of positions or None
        None: all columns.
    """

    name: str
    estimator: Any
    columns: Index | None = None

    @property
    def learns_from_anomalies(self) -> bool:
        """Whether it is an expert: one that needs rows of both classes."""
        return getattr(self.last, "learns_from_anomalies", False)

    @property
    def is_own(self) -> bool:
        """Whether it is a detector of lpfuse, which can share work with others."""
        return isinstance(self.last, Detector)

    @property
    def last(self) -> Any:
        """The detector behind whatever prepares its rows."""
        return self.estimator[-1] if isinstance(self.estimator, Pipeline) else self.estimator

    @property
    def last_name(self) -> str:
        """What the detector is called in its pipeline."""
        return self.estimator.steps[-1][0] if isinstance(self.estimator, Pipeline) else self.name

    @property
    def head(self) -> Pipeline | None:
        """What prepares the rows for the detector."""
        is_pipeline = isinstance(self.estimator, Pipeline) and len(self.estimator) > 1
        return self.estimator[:-1] if is_pipeline else None

    @property
    def fills_gaps(self) -> bool:
        """Whether the first thing it does is to fill missing cells in."""
        fills = (FilledGaps, KNNImputer, SimpleImputer)
        return self.head is not None and isinstance(self.head[0], fills)

    def with_estimator(self, estimator: Any) -> Member:
        """The same member with another estimator, for instance a fitted one."""
        return replace(self, estimator=estimator)


def group_members(members: Sequence[Member], *, fitted: bool = False) -> list[list[int]]:
    """Positions of members that can share work.

    These are lpfuse's own detectors with the same columns and preparation; fitted ones, where they
    hold the very same fitted preparation. All others are on their own.
    """
    groups: dict[Any, list[int]] = {}
    for i, member in enumerate(members):
        columns = None if member.columns is None else tuple(member.columns)
        key = (columns, _preparation(member, i, fitted)) if member.is_own else i
        groups.setdefault(key, []).append(i)
    return list(groups.values())


def _preparation(member: Member, i: int, fitted: bool) -> Any:
    head = member.head
    if head is None:
        return None
    if fitted:
        return tuple(id(step) for _, step in head.steps)
    try:
        return joblib.hash([step for _, step in head.steps])
    except Exception:  # what cannot be hashed, such as a lambda in a step, is shared with nobody
        return i


def fit_members(
    members: Sequence[Member], X: Table, labels: Host | None = None, weights: Host | None = None
) -> list[Member]:
    """Fit copies of members that see the same columns, prepared in the same way.

    Kernel learners share the kernel's work. Where rows with missing cells are refused, the
    complete ones are learnt from.

    Parameters
    ----------
    members : sequence of Member
        One group of `group_members`.
    X : table of shape (n, d)
        Rows, with all columns.
    labels, weights : ndarrays of shape (n,), optional
        For experts: ±1, and how much each row counts.

    Raises
    ------
    TooFewCompleteRows
        The members are experts that refuse missing cells, and the complete rows are of one class.
    """

    def fit(rows: Table, index: Index) -> list[Member]:
        if labels is not None and len(index) < len(labels) and len(np.unique(labels[index])) < 2:
            raise TooFewCompleteRows("Complete rows of both classes are needed.")
        head = members[0].head
        if head is not None:
            head = clone(head)
            with np.errstate(all="ignore"):  # what is no number then is refused below
                rows = head.fit_transform(rows)
        detectors = [clone(member.last) for member in members]
        if isinstance(detectors[0], Detector):
            fit_together(detectors, rows, thresholds=False)  # the fused scores have their own
        else:
            known = [] if labels is None else [labels[index]]
            if weights is not None and isinstance(detectors[0], ClassifierExpert):
                known.append(weights[index])
            with openmp_threads_for(len(index)):
                detectors[0].fit(rows, *known)
        return [
            member.with_estimator(_behind(head, detector, member.last_name))
            for member, detector in zip(members, detectors, strict=True)
        ]

    return _on_usable_rows(fit, X, members, "fitting")[0]


def _behind(head: Pipeline | None, detector: Any, name: str) -> Any:
    """The detector with the fitted preparation in front of it."""
    return detector if head is None else Pipeline([*head.steps, (name, detector)])


def score_members(members: Sequence[Member], X: Table) -> Host:
    """Scores of fitted members of one group, a column each.

    NaN where rows with missing cells are refused. Infinite scores become very large ones.

    Parameters
    ----------
    members : sequence of Member
        One group of `group_members`, fitted.
    X : table of shape (n, d)
        Rows, with all columns.
    """

    def score(rows: Table, index: Index) -> Host:
        if len(index) == 0:
            return np.empty((0, len(members)))
        head = members[0].head
        if head is not None:
            rows = head.transform(rows)
        if isinstance(members[0].last, Detector):
            together = score_together([member.last for member in members], rows)
            return np.asarray(together, dtype=np.float64)
        with openmp_threads_for(len(index)):
            answer = members[0].last.score_samples(rows)
        return check_answer(answer, len(index), members[0].name)[:, None]

    found, rows = _on_usable_rows(score, X, members, "scoring with")
    scores = np.full((X.shape[0], len(members)), np.nan)
    scores[rows] = np.clip(found, -LARGEST_SCORE, LARGEST_SCORE)
    return scores


def leave_one_out_scores(member: Member, X: Table) -> Host:
    """What each training row would get from a fit to all others, by the detector's own formula."""
    rows = X if member.columns is None else _safe_indexing(X, member.columns, axis=1)
    if member.head is not None:
        rows = member.head.transform(rows)
    return np.asarray(member.last.leave_one_out_scores(rows), dtype=np.float64)


def judged_rows(member: Member, X: Table) -> Index:
    """Positions of the rows that a member can judge in any case, whatever it thinks of NaN."""
    view = X if member.columns is None else _safe_indexing(X, member.columns, axis=1)
    return rows_with_any_cell(view) if member.fills_gaps else complete_rows(view)


def _on_usable_rows(
    work: Callable[[Table, Index], T], X: Table, members: Sequence[Member], doing: str
) -> tuple[T, Index]:
    """The work on the rows that members of one group can use, and which these are."""
    columns, fills_gaps = members[0].columns, members[0].fills_gaps
    view = X if columns is None else _safe_indexing(X, columns, axis=1)
    names = ", ".join(repr(member.name) for member in members)
    return on_usable_rows(work, view, f"{doing} {names}", fills_gaps, must_have=doing == "fitting")


@saved_as("Pool")
@dataclass(frozen=True)
class Pool:
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
        scores, errors = _scores_and_errors(self.one_class, X, n_jobs)
        expert_scores, expert_errors = self.expert_scores(X, scores, n_jobs)
        return np.column_stack([scores, expert_scores]), errors | expert_errors

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
    jobs = (delayed(_scores_or_error)([members[i] for i in group], X) for group in groups)
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


def _scores_or_error(members: Sequence[Member], X: Table) -> list[Host | str]:
    """The scores of each member, or its error: the others go on without it.

    Members of a group that fails are asked apart, which finds the one that is to blame.
    """
    try:
        return list(score_members(members, X).T)
    except Exception as error:
        if len(members) > 1:
            return [answer for member in members for answer in _scores_or_error([member], X)]
        return [f"{type(error).__name__}: {error}"]
