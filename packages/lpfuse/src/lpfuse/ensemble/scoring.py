"""What a fitted detector answers: raw scores, decisions, p-values and verdicts of rows.

Every function takes a `CalibratedFit` and checked rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.utils import _safe_indexing

from lpfuse._arrays.operations import Host
from lpfuse._base import rows_by_gaps
from lpfuse._validation.params import check_choice, counted, warn_user
from lpfuse.adapters import ScoreColumn
from lpfuse.ensemble.calibration import CalibratedFit, ThresholdParameters
from lpfuse.ensemble.combination import report_gaps
from lpfuse.ensemble.pool import Pool
from lpfuse.ensemble.rows import (
    Index,
    Table,
    as_numbers,
    empty_columns,
    impute_features,
    missing_cells,
    replace_numbers,
    warn_of_empty_columns,
)
from lpfuse.threshold import conformal_pvalues
from lpfuse.views import FilledGaps

FEWEST_ROWS = 10  # in which a column without a value is more than a few gaps; by hand
CONTRIBUTION = "contribution:"  # before the name of a detector
LIBRARIES = ("pandas", "polars")


def raw_scores(
    result: CalibratedFit, X: Table, n_jobs: int | None = None, empty: Host | bool = False
) -> tuple[Host, Host | None]:
    """Score rows by every detector; also return their features, where the fusion looks at them.

    Rows that are `empty` have no score, whatever stands in their features.
    """
    _warn_of_new_gaps(result.pool, X)
    raw, errors = result.pool.scores(X, n_jobs)
    raw[empty] = np.nan
    if np.isnan(raw).any():
        raw = score_after_imputation(result, X, raw, n_jobs)
        report_gaps(raw, result.pool.names, errors, result.combination.abs_weights)
    return raw, None if result.imputer is None else impute_features(result.imputer, X)


def _warn_of_new_gaps(pool: Pool, X: Table) -> None:
    """Warn of columns that detectors use, and of which these rows hold no value."""
    if X.shape[0] < FEWEST_ROWS:
        return
    empty = empty_columns(X)
    if len(empty):
        columns = [member.columns for member in pool.members]
        known = [np.arange(X.shape[1]) if some is None else some for some in columns]
        empty = empty[np.isin(empty, np.concatenate(known))]
        warn_of_empty_columns(X, empty, "other columns decide")


def score_after_imputation(
    result: CalibratedFit, X: Table, raw: Host, n_jobs: int | None = None
) -> Host:
    """Score rows that no detector with a weight could, after imputing their missing cells.

    A detector that refuses missing cells gives no score where one is, and the others decide,
    against a threshold of their own. Where none is left, the row would have no score for a single
    gap. So its cells are imputed from normal training rows (`FilledGaps`). Scores that came as
    columns are not imputed.

    Parameters
    ----------
    result : CalibratedFit
        With the training rows.
    X : table of shape (n, d)
        Rows.
    raw : ndarray of shape (n, R)
        Their raw scores, NaN where a detector gave none.
    n_jobs : int, optional
        Threads.
    """
    weights = result.combination.abs_weights
    idle = weights == 0 if len(weights) == raw.shape[1] else False
    rows = _rows_to_impute(X, np.flatnonzero((np.isnan(raw) | idle).all(axis=1)))
    numbers = as_numbers(X) if len(rows) else None
    if numbers is None or result.rows.values is None:
        return raw
    imputer = FilledGaps().fit(result.rows.values[result.held_out.labels > 0])
    some = _safe_indexing(X, rows, axis=0)
    filled = replace_numbers(some, imputer.transform(numbers[rows]))
    found, _ = result.pool.scores(filled, n_jobs)
    gaps = missing_cells(some)
    for j, member in enumerate(result.pool.members):
        seen = (
            gaps if member.columns is None else gaps[:, member.columns[member.columns < X.shape[1]]]
        )
        found[seen.all(axis=1) | isinstance(member.last, ScoreColumn), j] = np.nan
    imputed = raw.copy()
    imputed[rows] = np.where(np.isnan(raw[rows]), found, raw[rows])
    n_scored = int((~(np.isnan(imputed[rows]) | idle).all(axis=1)).sum())
    if n_scored:
        warn_user(
            f"{counted(n_scored, 'row')} with missing cells, which no detector could score: the "
            "cells are imputed from the nearest training rows. Put lpfuse.views.FilledGaps() "
            "before detectors to impute all missing cells.",
        )
    return imputed


def _rows_to_impute(X: Table, rows: Index) -> Index:
    """Return those of some rows that have cells, but not all."""
    if len(rows) == 0:
        return rows
    gaps = missing_cells(_safe_indexing(X, rows, axis=0))
    return rows[gaps.any(axis=1) & ~gaps.all(axis=1)]


def decide(result: CalibratedFit, raw: Host, scores: Host, rule: ThresholdParameters) -> Host:
    """Return signed distances to the threshold that holds for the detectors that gave a score."""
    decision = scores.copy()
    for rows, missing in rows_by_gaps(np.isnan(raw)):
        offset = rule.offset(result.held_out, missing) if missing.any() else result.offset
        decision[rows] -= offset
    return decision


def compare(result: CalibratedFit, raw: Host, scores: Host) -> Host:
    """Return conformal p-values against the calibration rows, for the detectors with a score."""
    found = np.empty(len(scores))
    for rows, missing in rows_by_gaps(np.isnan(raw)):
        found[rows] = conformal_pvalues(result.held_out.normal_scores(missing), scores[rows])
    return found


def score_columns(detector_names: Sequence[str]) -> list[str]:
    """Name the columns of scored tables, here and in files of the command line.

    Examples
    --------
    >>> score_columns(["gmm"])
    ['score', 'p_value', 'decision', 'contribution:gmm']
    """
    return ["score", "p_value", "decision", *(f"{CONTRIBUTION}{name}" for name in detector_names)]


class _Arrays(NamedTuple):
    scores: Host
    decision: Host
    pvalues: Host
    contributions: Host | None
    detector_scores: Host


class Verdicts(_Arrays):
    """All that a fused detector says of n rows: a tuple of arrays.

    Attributes
    ----------
    scores : ndarray of shape (n,)
        Fused scores, high = normal.
    decision : ndarray of shape (n,)
        Signed distance to the threshold: negative for anomalies.
    pvalues : ndarray of shape (n,)
        Small for anomalies.
    contributions : ndarray of shape (n, R) or None
        What each detector adds to the score; None where that is no sum.
    detector_scores : ndarray of shape (n, R)
        What each detector says, before scaling.
    detector_names : list of str
        Names of the R detectors.
    index : pandas.Index or None
        That of the rows, where they had one.
    library : {"pandas", "polars"} or None
        That of the rows, where they were a data frame of one of these.
    """

    detector_names: list[str]
    index: Any
    library: str | None

    def of_rows(self, X: Any, detector_names: Sequence[str]) -> Self:
        """Remember the names of the detectors, and what a data frame of the rows needs."""
        module = type(X).__module__.partition(".")[0]
        self.library = module if module in LIBRARIES else None
        self.index = X.index if self.library == "pandas" else None
        self.detector_names = list(detector_names)
        return self

    def to_frame(self, library: str | None = None, **ids: Any) -> Any:
        """Return the same as a data frame, with the columns of ``lpfuse score``.

        Parameters
        ----------
        library : {"pandas", "polars"}, optional
            By default that of the rows; of arrays, whichever is installed, pandas first.
        **ids : array-like of shape (n,)
            Columns to stand before the others, such as ``serial=pumps["serial"]``.

        Returns
        -------
        pandas.DataFrame or polars.DataFrame
            ``score`` (high = normal), ``p_value``, ``decision`` (1 normal, −1 anomaly, as `predict`
            has it) and ``contribution:NAME``, which add up to the score, where it is a sum. Of
            pandas, the index is that of the rows. Where no detector could score a row, NaN; null in
            polars.
        """
        library = library or self.library or _installed()
        check_choice("library", library, LIBRARIES)
        decisions = np.where(self.decision >= 0, 1, -1).astype(np.int8)
        parts = () if self.contributions is None else self.contributions.T
        names = score_columns(self.detector_names[: len(parts)])
        clash = [name for name in ids if name in names]
        if clash:
            raise ValueError(
                f"{', '.join(map(repr, clash))}: the scores have a column of that name. Give the "
                "ids another one."
            )
        ids = {name: np.asarray(values) for name, values in ids.items()}
        columns = ids | dict(
            zip(names, [self.scores, self.pvalues, decisions, *parts], strict=True)
        )
        if library == "pandas":
            return import_module("pandas").DataFrame(columns, index=self.index)
        pl = import_module("polars")
        return pl.DataFrame(columns).with_columns(pl.col(names).fill_nan(None))


def _installed() -> str:
    """Choose the library for a data frame of what came as an array."""
    for library in LIBRARIES:
        if find_spec(library) is not None:
            return library
    raise ImportError("A data frame needs pandas or polars: pip install pandas")


def weights_table(
    names: Sequence[str], weights: Host | None, sentences: Sequence[str], offset: float
) -> str:
    """Write a small HTML table of the detectors, the largest weight first, and sentences.

    Parameters
    ----------
    names : sequence of R str
        Of the detectors; any text, which is escaped.
    weights : ndarray of shape (R,) or None
        None for a fusion without weights.
    sentences : sequence of str
        On what was learnt; any text, which is escaped.
    offset : float
        The threshold.

    Returns
    -------
    str
        HTML.

    Examples
    --------
    >>> weights_table(["<gmm>"], None, [], 0.5).count("&lt;gmm&gt;")
    1
    """
    order = list(range(len(names)))
    if weights is not None:
        order.sort(key=lambda j: -abs(weights[j]))
    rows = "".join(_row(names[j], None if weights is None else weights[j], weights) for j in order)
    told = "".join(f"<br>{escape(sentence)}" for sentence in sentences)
    head = "<th>detector</th>" + ("" if weights is None else "<th>weight</th><th>share</th>")
    return (
        f'<div class="lpfuse"><p>{len(names)} detectors, threshold {offset:.4g}{told}</p>'
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _row(name: str, weight: float | None, weights: Host | None) -> str:
    cells = f'<td style="text-align:left">{escape(name)}</td>'
    if weight is not None and weights is not None:
        total = float(abs(weights).sum()) or 1.0
        cells += f"<td>{weight:.4f}</td><td>{100 * weight / total:.1f} %</td>"
    return f"<tr>{cells}</tr>"
