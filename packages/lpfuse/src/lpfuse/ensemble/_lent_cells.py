"""Rows with missing cells that no detector could judge: judged with cells that others lend."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from lpfuse._arrays.operations import Host
from lpfuse._validation.params import counted
from lpfuse.adapters import ScoreColumn
from lpfuse.ensemble._kept_rows import numbers_of
from lpfuse.ensemble._tables import (
    Index,
    Table,
    empty_columns,
    missing_cells,
    replace_numbers,
    warn_of_empty_columns,
)
from lpfuse.views import FilledGaps

FEWEST_ROWS = 10  # in which a column without a value is more than a few gaps; by hand
# Whether columns without a value are told of, in this thread.
_TOLD = ContextVar("told", default=True)


@contextmanager
def empty_columns_untold() -> Iterator[None]:
    """For whoever says in words of their own that rows hold no value in a column."""
    before = _TOLD.set(False)
    try:
        yield
    finally:
        _TOLD.reset(before)


def warn_of_new_gaps(fused: Any, X: Table) -> None:
    """Warn of columns that detectors know, and of which these rows hold no value."""
    if X.shape[0] < FEWEST_ROWS or not _TOLD.get():
        return
    empty = empty_columns(X)
    if len(empty):
        columns = [member.columns for member in fused.pool_.members]
        known = [np.arange(X.shape[1]) if some is None else some for some in columns]
        empty = empty[np.isin(empty, np.concatenate(known))]
        warn_of_empty_columns(X, empty, "other columns decide")


def judge_lost_rows(fused: Any, X: Table, raw: Host) -> Host:
    """Raw scores, also of rows with a value that all detectors with a weight were silent about.

    A detector that refuses missing cells is silent where one is, and the others decide, against a
    threshold of their own. Where none is left, the row would have no score for a single gap. So
    normal training rows lend it the cells (`FilledGaps`). Scores that came as columns are not lent.

    Parameters
    ----------
    fused : FusedDetector
        Fitted.
    X : table of shape (n, d)
        Rows.
    raw : ndarray of shape (n, R)
        Their raw scores, NaN where a detector is silent.
    """
    weights = fused.combination_.abs_weights
    idle = weights == 0 if len(weights) == raw.shape[1] else False
    rows = _rows_to_mend(X, np.flatnonzero((np.isnan(raw) | idle).all(axis=1)))
    lenders, numbers = getattr(fused, "rows_", None), numbers_of(X) if len(rows) else None
    if numbers is None or lenders is None or lenders.values is None:
        return raw
    normal = fused.held_out_.labels > 0
    lender = FilledGaps().fit(lenders.values[normal])
    some = _safe_indexing(X, rows, axis=0)
    filled = replace_numbers(some, lender.transform(numbers[rows]))
    found, _ = fused.pool_.scores(filled, fused.n_jobs)
    gaps = missing_cells(some)
    for j, member in enumerate(fused.pool_.members):
        seen = (
            gaps if member.columns is None else gaps[:, member.columns[member.columns < X.shape[1]]]
        )
        found[seen.all(axis=1) | isinstance(member.last, ScoreColumn), j] = np.nan
    mended = raw.copy()
    mended[rows] = np.where(np.isnan(raw[rows]), found, raw[rows])
    spoken = int((~(np.isnan(mended[rows]) | idle).all(axis=1)).sum())
    if spoken:
        warnings.warn(
            f"{counted(spoken, 'row')} with missing cells, which no detector could score: the "
            "nearest training rows lend the cells. Put lpfuse.views.FilledGaps() before detectors "
            "to fill in all gaps.",
            UserWarning,
            stacklevel=4,
        )
    return mended


def _rows_to_mend(X: Table, rows: Index) -> Index:
    """Those of some rows that have cells, but not all."""
    if len(rows) == 0:
        return rows
    gaps = missing_cells(_safe_indexing(X, rows, axis=0))
    return rows[gaps.any(axis=1) & ~gaps.all(axis=1)]
