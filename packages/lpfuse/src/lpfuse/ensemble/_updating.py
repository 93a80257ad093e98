"""Members that can learn from new rows without being fitted again: those with ``partial_fit``."""

from __future__ import annotations

from copy import copy, deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing

from lpfuse._arrays.operations import Host
from lpfuse.adapters import ClassifierExpert, ScoreFunction
from lpfuse.ensemble._mean_of_fits import MeanOfFits
from lpfuse.ensemble._members import Member, judged_rows
from lpfuse.ensemble._pool import Pool
from lpfuse.ensemble._tables import Table

# Adapters, and where they keep what they have fitted.
FITTED = {ClassifierExpert: "classifier_", ScoreFunction: "scorer_"}


def can_update(estimator: Any) -> bool:
    """Whether a fitted member can learn from further rows.

    What is frozen stays. Of a pipeline the last step learns, what prepares its rows does not: a
    detector behind it would no longer know its own features.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression, SGDOneClassSVM
    >>> can_update(SGDOneClassSVM()), can_update(LogisticRegression())
    (True, False)
    """
    return all(hasattr(one, "partial_fit") for one in _learners(estimator))


def _learners(estimator: Any) -> list[Any]:
    """What learns inside an estimator; something that cannot where it is frozen."""
    if isinstance(estimator, FrozenEstimator):
        return [None]
    if isinstance(estimator, MeanOfFits):
        return [learner for fit in estimator.fits for learner in _learners(fit)]
    if isinstance(estimator, Pipeline):
        return _learners(estimator[-1])
    kept = FITTED.get(type(estimator))
    return [estimator] if kept is None else _learners(getattr(estimator, kept, None))


def updated(estimator: Any, X: Any, y: Host) -> Any:
    """A copy of a fitted member that has learnt from further rows; labels are for classifiers."""
    if isinstance(estimator, MeanOfFits):
        return MeanOfFits([updated(fit, X, y) for fit in estimator.fits])
    if isinstance(estimator, Pipeline):
        *before, (name, last) = estimator.steps
        rows = estimator[:-1].transform(X) if before else X
        return Pipeline([*before, (name, updated(last, rows, y))])
    kept = FITTED.get(type(estimator))
    if kept is not None:
        found = copy(estimator)
        setattr(found, kept, updated(getattr(estimator, kept), X, y))
        return found
    found = deepcopy(estimator)
    labels = [y.astype(int)] if is_classifier(estimator) else []
    found.partial_fit(X, *labels)
    return found


def update_pool(pool: Pool, X: Table, raw: Host, labels: Host) -> tuple[Pool, list[str]]:
    """A pool whose members have learnt from new rows, as far as they can, and their names.

    Parameters
    ----------
    pool : Pool
        Fitted; it is not changed.
    X : table of shape (n, d)
        Rows to learn from.
    raw : ndarray of shape (n, R)
        Their scores by the pool as it is, which experts see.
    labels : ndarray of shape (n,)
        ±1. One-class members learn from the normal rows alone.
    """
    names: list[str] = []
    normal = np.flatnonzero(labels > 0)
    one_class = [_updated_member(m, X, labels, normal, names) for m in pool.one_class]
    experts = pool.experts
    if any(can_update(expert.estimator) for expert in experts):
        seen = pool.expert_inputs(X, raw[:, : len(pool.one_class)])
        every = np.arange(len(labels))
        experts = [_updated_member(m, seen, labels, every, names) for m in experts]
    return (replace(pool, one_class=one_class, experts=experts) if names else pool), names


def _updated_member(member: Member, X: Table, labels: Host, rows: Any, names: list[str]) -> Member:
    """The member after it has learnt from some of the rows; as it is where it cannot."""
    if not can_update(member.estimator):
        return member
    usable = np.intersect1d(rows, judged_rows(member, X))
    if not len(usable):
        return member
    view = _safe_indexing(X, usable, axis=0)
    if member.columns is not None:
        view = _safe_indexing(view, member.columns, axis=1)
    try:
        found = member.with_estimator(updated(member.estimator, view, labels[usable]))
    except Exception as error:
        raise ValueError(
            f"Detector {member.name!r} could not learn from the new rows: {error} The fused "
            "detector was left as it is. Freeze this one (sklearn.frozen.FrozenEstimator), or "
            "leave those rows out."
        ) from error
    names.append(member.name)
    return found
