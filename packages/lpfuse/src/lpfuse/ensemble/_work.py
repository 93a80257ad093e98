"""Fitting and scoring members of a pool: together where they see the same rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from lpfuse._arrays import Host
from lpfuse.detectors import fit_together, score_together
from lpfuse.detectors._base import Detector
from lpfuse.ensemble._members import Member
from lpfuse.ensemble._tables import Index, Table, columns_of, complete_rows, rows_of

T = TypeVar("T")
BOUNDLESS = 1e100  # what infinite scores become: beyond all others, with a finite square


def fit_members(members: Sequence[Member], X: Table, labels: Host | None = None) -> list[Member]:
    """Fit members that see the same columns, prepared in the same way.

    Kernel learners share the kernel's work. Where rows with missing cells are refused, the
    complete ones are learnt from.

    Parameters
    ----------
    members : sequence of Member
        One group of `groups_of`.
    X : table
        Rows, with all columns.
    labels : ndarray of shape (n,), optional
        ±1, for experts.
    """

    def fit(rows: Table, index: Index) -> list[Member]:
        head = members[0].head
        if head is not None:
            head = clone(head)
            rows = head.fit_transform(rows)
        detectors = [clone(member.last) for member in members]
        if isinstance(detectors[0], Detector):
            fit_together(detectors, rows)
        elif labels is not None:
            detectors[0].fit(rows, labels[index])
        else:
            detectors[0].fit(rows)
        return [
            member.fitted(_behind(head, detector, member.last_name))
            for member, detector in zip(members, detectors, strict=True)
        ]

    return _on_usable_rows(fit, X, members, "fitting")[0]


def score_members(members: Sequence[Member], X: Table) -> Host:
    """Scores of fitted members of one group, a column each.

    NaN where rows with missing cells are refused. Infinite scores become very large ones.

    Parameters
    ----------
    members : sequence of Member
        One group of `groups_of`, fitted.
    X : table
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
        return _one_column(members[0].last.score_samples(rows), members[0], len(index))

    found, rows = _on_usable_rows(score, X, members, "scoring with")
    scores = np.full((X.shape[0], len(members)), np.nan)
    scores[rows] = np.clip(found, -BOUNDLESS, BOUNDLESS)
    return scores


def leave_one_out_scores(member: Member, X: Table) -> Host:
    """What each training row would get from a fit to all others, by the detector's own formula."""
    rows = columns_of(X, member.columns)
    if member.head is not None:
        rows = member.head.transform(rows)
    return np.asarray(member.last.leave_one_out_scores(rows), dtype=np.float64)


def _behind(head: Pipeline | None, detector: Any, name: str) -> Any:
    """The detector with the preparation, already fitted and shared, in front of it."""
    return detector if head is None else Pipeline([*head.steps, (name, detector)])


def _one_column(scores: Any, member: Member, n: int) -> Host:
    values = np.asarray(scores, dtype=np.float64)
    if values.shape != (n,):
        raise ValueError(
            f"{member.name!r} must give one score for each row: expected shape ({n},), got "
            f"{values.shape}."
        )
    return values[:, None]


def _on_usable_rows(
    work: Callable[[Table, Index], T], X: Table, members: Sequence[Member], doing: str
) -> tuple[T, Index]:
    """The work on all rows; if it refuses them, on those without missing cells."""
    view = columns_of(X, members[0].columns)
    every = np.arange(X.shape[0])
    try:
        try:
            return work(view, every), every
        except Exception:
            complete = complete_rows(view)
            if len(complete) == len(every):
                raise
            return work(rows_of(view, complete), complete), complete
    except Exception as error:
        names = ", ".join(repr(member.name) for member in members)
        error.add_note(f"This happened while {doing} {names}.")
        raise
