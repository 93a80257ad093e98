"""All alarms, the strongest first, and what users want to see of each row: ids, times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays.operations import Host
from lpfuse._format import quote, shortened
from lpfuse._validation.params import counted
from lpfuse.report._scored_rows import ScoredRows

# Chosen by hand: 200 screens to page through, and half a megabyte of the page at most.
MOST = 5_000
LONGEST = 120  # letters of a cell that is shown

Kept = dict[str, Sequence[Any]]


def kept_columns(keep: Any, n: int) -> Kept:
    """Columns to show of each row, by name, checked.

    Parameters
    ----------
    keep : data frame, mapping of str to sequence, or None
        Columns of n values.
    n : int
        Rows.

    Examples
    --------
    >>> kept_columns({"serial": ["P-1", "P-2"]}, 2)
    {'serial': ['P-1', 'P-2']}
    """
    if keep is None:
        return {}
    names = keep.keys() if isinstance(keep, Mapping) else getattr(keep, "columns", None)
    if names is None:
        raise TypeError(
            "keep must be a data frame or a dict of columns, such as {'serial': serials}, got "
            f"{type(keep).__name__}."
        )
    kept: Kept = {str(name): list(keep[name]) for name in names}
    for name, values in kept.items():
        if len(values) != n:
            raise ValueError(
                f"keep needs a value for each row: {n:,}, got {counted(len(values), 'value')} of "
                f"{quote(name)}."
            )
    return kept


def cells_of(kept: Kept, row: int) -> list[str | None]:
    """What a row holds in the columns that are shown, as text; None where it holds nothing."""
    values = (column[row] for column in kept.values())
    # What is not equal to itself is NaN, or pandas' NaT.
    return [None if v is None or v != v else shortened(str(v), LONGEST) for v in values]


def alarm_list(
    scored: ScoredRows, labels: Host, flagged: NDArray[np.intp], kept: Kept
) -> dict[str, Any]:
    """Alarms as rows of a table, the farthest below the threshold first.

    Parameters
    ----------
    scored : ScoredRows
        Rows that have a score.
    labels : ndarray of shape (n,)
        Of all rows, by position.
    flagged : ndarray of int
        Positions of the rows that were called anomalies; those without a score come last.
    kept : dict
        As `kept_columns` makes it.

    Returns
    -------
    dict
        ``total``: alarms; ``kept``: names of the columns; ``rows``: of each of the strongest
        (`MOST` at most) its position, label, score, p-value, the number of the detector that
        speaks most for an anomaly, and what it holds in the columns.
    """
    alarms = scored[np.isin(scored.rows, flagged)]
    alarms = alarms[np.lexsort((alarms.fused, alarms.margin))[:MOST]]
    loudest = _loudest(alarms)
    rows: list[list[Any]] = [
        [int(row), int(labels[row]), _short(alarms.fused[i]), _short(alarms.pvalues[i]), loudest[i]]
        for i, row in enumerate(alarms.rows)
    ]
    silent = np.setdiff1d(flagged, scored.rows)[: MOST - len(rows)]
    rows += [[int(row), int(labels[row]), None, None, None] for row in silent]
    return {
        "total": len(flagged),
        "kept": list(kept),
        "rows": [[*row, *cells_of(kept, row[0])] for row in rows],
    }


def _loudest(alarms: ScoredRows) -> list[int | None]:
    """The detector that takes most from each score; None where none does, or it is no sum."""
    if alarms.parts.shape != alarms.raw.shape or not len(alarms.rows):
        return [None] * len(alarms.rows)
    parts = np.where(np.isnan(alarms.raw) | np.isnan(alarms.parts), np.inf, alarms.parts)
    which = parts.argmin(axis=1)
    return [int(j) if part[j] < 0 else None for j, part in zip(which, parts, strict=True)]


def _short(value: float) -> float | None:
    """Six digits, which are more than one sees and fewer than doubles have."""
    return None if np.isnan(value) else float(f"{value:.6g}")
