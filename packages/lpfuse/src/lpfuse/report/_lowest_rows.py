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
from lpfuse.tables._reasons import Reason

# Chosen by hand, for a page that is read in a few minutes:
ROWS = 10  # that are shown one by one
COLUMNS = 5  # of such a row, those that pushed its score down most

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
            "reasons": None if reasons is None else [_plain(reason) for reason in reasons],
        }
        for i, (row, reasons) in enumerate(zip(lowest.rows, found, strict=True))
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


def _plain(reason: Reason) -> dict[str, Any]:
    """A reason as plain values, and in words."""
    told = {"held": reason.value_words(), "usually": reason.usual_words()}
    return {**asdict(reason), **told, "pushed": reason.push_words()}
