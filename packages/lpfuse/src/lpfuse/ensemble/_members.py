"""Members of an ensemble: named detectors that are fitted and scored, together where they can be.

Which rows a detector can use where cells are missing is settled in `_usable_rows`, what becomes of
a fitted detector that fails here (`spoken_scores`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import joblib
import numpy as np
from sklearn.base import clone
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing

from lpfuse._arrays.operations import Host, openmp_threads_for
from lpfuse._base import Detector
from lpfuse._saved import ANY, saved_as
from lpfuse._validation.params import LARGEST_SCORE
from lpfuse.adapters import ClassifierExpert, check_detector_scores
from lpfuse.detectors import fit_together, score_together
from lpfuse.detectors.base import RefittedDetector
from lpfuse.ensemble._tables import Index, Table
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


def group_members(
    members: Sequence[Member], *, fitted: bool = False, alone: bool = False
) -> list[list[int]]:
    """Positions of members that can share work.

    These are lpfuse's own detectors with the same columns and preparation; fitted ones, where they
    hold the very same fitted preparation. All others are on their own; with `alone` also those that
    have no kernel, whose preparation is all that they could share.
    """
    groups: dict[Any, list[int]] = {}
    for i, member in enumerate(members):
        shares = member.is_own and not (alone and not isinstance(member.last, RefittedDetector))
        groups.setdefault(_key(member, i, fitted) if shares else i, []).append(i)
    return list(groups.values())


def _key(member: Member, i: int, fitted: bool) -> Any:
    """Equal for members with the same columns and preparation."""
    columns = None if member.columns is None else tuple(member.columns)
    return columns, _preparation(member, i, fitted)


def share_preparation(members: Sequence[Member]) -> list[Member]:
    """Members that were fitted to the same rows, apart: those prepared alike share one preparation.

    Rows to be scored are then prepared once for all of them.
    """
    heads: dict[Any, Pipeline] = {}
    shared = []
    for i, member in enumerate(members):
        head = member.head
        if head is None or not member.is_own:
            shared.append(member)
            continue
        unfitted = member.with_estimator(clone(member.estimator))
        head = heads.setdefault(_key(unfitted, i, False), head)
        shared.append(member.with_estimator(_behind(head, member.last, member.last_name)))
    return shared


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
        return check_detector_scores(answer, len(index), members[0].name)[:, None]

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


def spoken_scores(members: Sequence[Member], X: Table) -> list[Host | str]:
    """The scores of each member, or its error: the others go on without it.

    Members of a group that fails are asked apart, which finds the one that is to blame.
    """
    try:
        return list(score_members(members, X).T)
    except Exception as error:
        if len(members) > 1:
            return [answer for member in members for answer in spoken_scores([member], X)]
        return [f"{type(error).__name__}: {error}"]
