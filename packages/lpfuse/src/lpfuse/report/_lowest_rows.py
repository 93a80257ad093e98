"""The rows with the lowest scores: what each detector adds to them, and their unusual values."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from lpfuse._arrays.operations import Host
from lpfuse._files import as_json
from lpfuse.report._measures import rounded
from lpfuse.report._scored_rows import ScoredRows

# Chosen by hand, for a page that is read in a few minutes:
ROWS = 10  # that are shown one by one
FEATURES = 5  # of such a row, those that are farthest from usual
UNUSUAL = 2.0  # standard deviations from where a value is worth a word: 5 % of a normal column

Columns = dict[str, Host]


def lowest_rows(scored: ScoredRows, columns: Columns | None) -> list[dict[str, Any]]:
    """The rows farthest below the threshold, with what each detector adds to their scores.

    Parameters
    ----------
    scored : ScoredRows
        Scored rows.
    columns : dict of ndarray, optional
        Their features, by name.
    """
    # By margin, for the threshold depends on which detectors could score a row; by score where it
    # is infinite.
    lowest = scored[np.lexsort((scored.fused, scored.margin))[:ROWS]]
    is_sum = lowest.parts.shape == lowest.raw.shape
    parts = np.where(np.isnan(lowest.raw), np.nan, lowest.parts)
    unusual = {} if columns is None else _unusual(columns, scored, lowest.rows)
    return [
        {
            "row": int(row),
            "label": int(lowest.labels[i]),
            "score": float(lowest.fused[i]),
            "margin": as_json(lowest.margin[i]),
            "p_value": as_json(lowest.pvalues[i]),
            "contributions": rounded(parts[i]) if is_sum else None,
            "features": unusual.get(int(row)),
        }
        for i, row in enumerate(lowest.rows)
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


def _unusual(
    columns: Columns, scored: ScoredRows, rows: NDArray[np.intp]
) -> dict[int, list[dict[str, Any]]]:
    """Of each row the values that are farthest from the median, in robust standard deviations.

    The farthest in any case, others from two deviations on.
    """
    usual = scored.rows[scored.labels >= 0]
    usual = usual if len(usual) else scored.rows
    names = list(columns)
    distances = np.column_stack([_deviations(columns[name], usual, rows) for name in names])
    found = {}
    for row, distance in zip(rows, distances, strict=True):
        farthest = np.argsort(-np.abs(distance), kind="stable")[:FEATURES]
        found[int(row)] = [
            {
                "name": names[j],
                "value": as_json(columns[names[j]][row]),
                "deviations": round(float(distance[j]), 3),
            }
            for place, j in enumerate(farthest)
            if place == 0 or abs(distance[j]) >= UNUSUAL
        ]
    return found


def _deviations(values: Host, usual: NDArray[np.intp], rows: NDArray[np.intp]) -> Host:
    """Distances from the median, over the spread of the middle half; 0 for what does not vary."""
    known = values[usual][~np.isnan(values[usual])]
    if not len(known):
        return np.zeros(len(rows))
    low, median, high = np.quantile(known, [0.25, 0.5, 0.75])
    spread = (high - low) / 1.349 or known.std()  # the same for a normal distribution
    return np.nan_to_num((values[rows] - median) / spread) if spread > 0 else np.zeros(len(rows))
