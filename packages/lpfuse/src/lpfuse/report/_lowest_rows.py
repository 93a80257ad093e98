"""The rows with the lowest scores: what each detector adds to them, and which columns made them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from lpfuse._arrays.operations import Host
from lpfuse._files import as_json
from lpfuse.report._measures import rounded
from lpfuse.report._scored_rows import ScoredRows
from lpfuse.tables._reasons import Reason, reasons

# Chosen by hand, for a page that is read in a few minutes:
ROWS = 10  # that are shown one by one
COLUMNS = 5  # of such a row, those that pushed its score down most
ROWS_TO_COMPARE = 32  # with a row that is explained, where no training rows are kept

Columns = dict[str, Host]
Explain = Callable[[NDArray[np.intp]], list[list[Reason]]]


def lowest_rows(scored: ScoredRows, explain: Explain | None) -> list[dict[str, Any]]:
    """The rows farthest below the threshold, with what each detector adds to their scores.

    Parameters
    ----------
    scored : ScoredRows
        Scored rows.
    explain : callable, optional
        Positions of rows ↦ the columns that pushed the score of each down.
    """
    # By margin, for the threshold depends on which detectors could score a row; by score where it
    # is infinite.
    lowest = scored[np.lexsort((scored.fused, scored.margin))[:ROWS]]
    is_sum = lowest.parts.shape == lowest.raw.shape
    parts = np.where(np.isnan(lowest.raw), np.nan, lowest.parts)
    found = [None] * len(lowest.rows) if explain is None else explain(lowest.rows)
    return [
        {
            "row": int(row),
            "label": int(lowest.labels[i]),
            "score": float(lowest.fused[i]),
            "margin": as_json(lowest.margin[i]),
            "p_value": as_json(lowest.pvalues[i]),
            "contributions": rounded(parts[i]) if is_sum else None,
            "reasons": None if why is None else [_plain(reason) for reason in why],
        }
        for i, (row, why) in enumerate(zip(lowest.rows, found, strict=True))
    ]


def numeric_columns(X: Any, names: list[str]) -> Columns:
    """The columns of a table that hold numbers, by name.

    Examples
    --------
    >>> numeric_columns(np.array([[1.0, 2.0], [3.0, 4.0]]), ["a", "b"])["b"]
    array([2., 4.])
    """
    columns = [np.asarray(_safe_indexing(X, j, axis=1)) for j in range(len(names))]
    return {
        name: values.astype(np.float64)
        for name, values in zip(names, columns, strict=True)
        if values.dtype.kind in "biuf"
    }


def explainer(model: Any, given: Any, X: Any, names: list[str], scored: ScoredRows) -> Explain:
    """What says why rows got their scores.

    Parameters
    ----------
    model, given : FusedDetector or TableModel, and rows as they were given
        A `TableModel` explains the columns of its table.
    X, names : array or data frame, and list of str
        Rows as the fused detector takes them, and the names of their columns.
    scored : ScoredRows
        Those that could be scored.
    """
    if hasattr(model, "fused"):
        return lambda rows: reasons(model, given[rows], most=COLUMNS)
    others = None
    if model.rows_.values is None:  # it learnt from words: rows that it calls normal must do
        best_first = scored.rows[np.argsort(-scored.margin, kind="stable")]
        normal = best_first[: max(1, int((scored.margin >= 0).sum()))]
        spread = np.linspace(0, len(normal) - 1, min(len(normal), ROWS_TO_COMPARE)).astype(int)
        others = _safe_indexing(X, normal[spread], axis=0)
    return lambda rows: reasons(model, _safe_indexing(X, rows, axis=0), names, COLUMNS, others)


def _plain(reason: Reason) -> dict[str, Any]:
    """A reason as plain values, and in words."""
    told = {"held": reason.value_words(), "usually": reason.usual_words()}
    return {**asdict(reason), **told, "pushed": reason.push_words()}
