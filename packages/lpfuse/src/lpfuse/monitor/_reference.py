"""What rows of a stream are compared with: columns and scores of rows that came before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import _safe_indexing

from lpfuse._arrays.operations import Host
from lpfuse._format import quote
from lpfuse._validation.tables import check_table, column_names
from lpfuse.ensemble import FusedDetector

FEWEST = 20  # rows that can be compared with


class Reference(NamedTuple):
    """Rows to compare with.

    Attributes
    ----------
    positions, names : lists
        The d columns of numbers: where they are, and what they are called.
    columns : ndarray of shape (n, d) or None
        Their values; None where there are none to compare with.
    scores : ndarray of shape (m, 1 + R) or None
        The fused score and the raw ones of the detectors; None where no rows are known that the
        detectors have not seen.
    """

    positions: list[int]
    names: list[str]
    columns: Host | None
    scores: Host | None


def reference_of(fused: FusedDetector, rows: Any, names: Sequence[str] | None) -> Reference:
    """The reference: rows of the user's, or those that a fitted detector remembers."""
    if rows is not None:
        table = check_table(rows, estimator=fused)
        if table.shape[0] < FEWEST:
            raise ValueError(
                f"reference must have at least {FEWEST} rows to compare with, got "
                f"{table.shape[0]}. A few hundred tell more."
            )
        verdicts = fused.verdicts(rows)
        scores: Host | None = np.column_stack([verdicts.scores, verdicts.detector_scores])
    else:
        kept = fused.rows_.values
        normal = _may_be_normal(fused)
        table = None if kept is None or normal.sum() < FEWEST else kept[normal]
        scores = _scores_kept_back(fused)
    called = _names(fused, names)
    if table is None:
        return Reference([], [], None, scores)
    positions = _number_positions(table)
    values = numbers_at(table, positions) if positions else None
    return Reference(positions, [called[j] for j in positions], values, scores)


def numbers_at(table: Any, positions: list[int]) -> Host:
    """Some columns of a table as numbers; NaN where a cell is missing."""
    if isinstance(table, np.ndarray):
        return table[:, positions].astype(np.float64, copy=False)
    found = []
    for j in positions:
        column = _column(table, j)
        try:
            found.append(column.astype(np.float64))
        except (TypeError, ValueError):
            name = (column_names(table) or [])[j]
            raise ValueError(
                f"Column {quote(name)} held numbers in the reference, and now holds words. Turn "
                "them into numbers, or into missing cells, before they are handed over."
            ) from None
    return np.column_stack(found)


def _column(table: Any, j: int) -> Any:
    column = _safe_indexing(table, j, axis=1)
    if hasattr(column, "to_numpy") and hasattr(column, "iloc"):  # pandas: its NA becomes NaN
        numeric = str(column.dtype) in ("boolean",) or getattr(column.dtype, "kind", "O") in "biuf"
        return column.to_numpy(dtype=np.float64, na_value=np.nan) if numeric else np.asarray(column)
    return np.asarray(column)


def _number_positions(table: Any) -> list[int]:
    if isinstance(table, np.ndarray):
        return list(range(table.shape[1]))
    return [j for j in range(table.shape[1]) if _column(table, j).dtype.kind in "biuf"]


def _names(fused: FusedDetector, names: Sequence[str] | None) -> list[str]:
    d = fused.n_features_in_
    if names is None:
        return [str(name) for name in getattr(fused, "feature_names_in_", range(d))]
    if len(names) != d:
        raise ValueError(f"column_names must name {d} columns, got {len(names)}.")
    return [str(name) for name in names]


def _may_be_normal(fused: FusedDetector) -> Any:
    """Training rows, then those kept back, that nobody has called anomalous."""
    n = len(fused.held_out_.labels)
    known = fused.out_of_fold_.known
    normal = np.ones(n, dtype=bool)
    if known is not None:
        normal[: len(known)] = known >= 0
    return normal


def _scores_kept_back(fused: FusedDetector) -> Host | None:
    """Scores of rows that calibrate and that nothing has seen, if the detector at hand made them.

    Those of calibration="cross" are other detectors', brought over: close, but the least difference
    is found in the long run, and would be called drift.
    """
    unseen = fused.unseen_
    if unseen.by != "split" or unseen.n_split < FEWEST:
        return None
    return np.column_stack([fused.held_out_.fused[-unseen.n_split :], unseen.scores])
