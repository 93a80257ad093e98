"""Which rows a detector can use where cells are missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from sklearn.utils import _safe_indexing

from lpfuse.adapters import call_on_protected_rows
from lpfuse.ensemble._tables import NO_COMPLETE_ROW, Index, Table, missing_cells

T = TypeVar("T")
LARGEST_SQUARED = 1e150  # beyond it, sums of squares overflow


def complete_rows(X: Table) -> Index:
    """Positions of the rows without a missing cell."""
    return np.flatnonzero(~missing_cells(X).any(axis=1))


def rows_with_any_cell(X: Table) -> Index:
    """Positions of the rows that something is known of."""
    return np.flatnonzero(~missing_cells(X).all(axis=1))


def on_usable_rows(
    work: Callable[[Table, Index], T], X: Table, doing: str, fills_gaps: bool, must_have: bool
) -> tuple[T, Index]:
    """The work on all rows or, where it refuses missing cells, on the complete ones.

    Whether a detector accepts missing cells is found by trying: scikit-learn's ``allow_nan`` speaks
    of NaN, not of missing words, and what is of other makers has no tags. One that fills cells in
    is not asked about rows without any: filled in, these would be the most usual rows there are.

    Parameters
    ----------
    work : callable
        A function of rows and their positions.
    X : table of shape (n, d)
        Rows, with the columns that the detector sees.
    doing : str
        What is done, with which detectors, for errors.
    fills_gaps : bool
        Whether the work begins with filling missing cells in.
    must_have : bool
        Whether there must be a row.

    Returns
    -------
    result : object
        What the work gave.
    rows : ndarray of positions
        The rows that it was done on.
    """
    every = rows_with_any_cell(X) if fills_gaps else np.arange(X.shape[0])
    view = X if len(every) == X.shape[0] else _safe_indexing(X, every, axis=0)
    try:
        try:
            return call_on_protected_rows(lambda rows: work(rows, every), view), every
        except Exception:
            complete = complete_rows(view)
            if len(complete) == X.shape[0]:  # no missing cell: the error has another reason
                raise
            if len(complete) == 0 and must_have:
                raise ValueError(NO_COMPLETE_ROW) from None
            whole, index = _safe_indexing(view, complete, axis=0), every[complete]
            return call_on_protected_rows(lambda rows: work(rows, index), whole), index
    except Exception as error:
        error.add_note(f"This happened while {doing}.")
        if isinstance(X, np.ndarray) and np.abs(X).max(initial=0.0) > LARGEST_SQUARED:
            error.add_note("X holds numbers beyond 1e150, whose squares overflow. Divide them.")
        raise
