"""Validation of Dask collections, with the checks of tables in memory.

One pass over the blocks runs all checks, and may compute a further summary. Blocks only report;
errors are raised here, so that no task of a cluster fails on invalid input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from lpfuse._arrays import operations as ops
from lpfuse._arrays.blocks import Blocks, CheckedBlocks, Summary, arrays_of, meta_of
from lpfuse._arrays.operations import Host
from lpfuse._validation import params, tables
from lpfuse._validation.params import Table

REPORTED = 10  # errors that blocks report at most: twice as many as a message shows

Also = Summary | Callable[[Blocks], Summary] | None


def check_score_blocks(
    S: Any,
    y: Any = None,
    sample_weight: Any = None,
    also: Also = None,
    extra_row: tuple[float, float, float] | None = None,
) -> CheckedBlocks:
    """Check scores in blocks: finite numbers, with aligned labels and weights.

    Parameters
    ----------
    S : Dask array or data frame of shape (n, R)
        Scores; numbers of rows may be unknown, blocks may be empty.
    y, sample_weight : Dask array or series, array-like, or None
        As for arrays in memory. Dask collections must have the blocks of `S`.
    also : Summary, or function from the blocks to one, optional
        A summary to compute in the same pass.
    extra_row : tuple of float, optional
        A further row beside the user's (the imaginary anomaly of `LpFusion`): its score by every
        detector, label and weight.
    """
    return _check_blocks(S, y, sample_weight, also, params.SCORES, extra_row)


def check_feature_blocks(
    X: Any, y: Any = None, sample_weight: Any = None, also: Also = None
) -> CheckedBlocks:
    """Check features in blocks: finite numbers, with aligned labels and weights."""
    return _check_blocks(X, y, sample_weight, also, params.FEATURES)


def check_vector_blocks(values: Any, name: str) -> None:
    """Check dimension and type of a Dask vector without reading it."""
    if values.ndim != 1:
        raise ValueError(params.not_1d_message(name, f"{values.ndim}"))
    if getattr(values.dtype, "kind", "O") not in "biuf":
        raise ValueError(f"{name} must be numbers, got {values.dtype} values.")


def _check_blocks(
    S: Any,
    y: Any,
    sample_weight: Any,
    also: Also,
    table: Table,
    extra_row: tuple[float, float, float] | None = None,
) -> CheckedBlocks:
    head = _check_head(S, table)
    names = tables.column_names(head)
    blocks = _aligned(S, y, sample_weight, table)
    n_user_blocks = len(blocks.parts)
    if extra_row is not None:
        score, label, weight = extra_row
        row = np.full((1, head.shape[1]), score)
        blocks.append((row, np.full(1, label), np.full(1, weight)))
    summary = also(blocks) if callable(also) else also
    facts = blocks.reduce(partial(_inspect, summary, n_user_blocks), partial(_merged, summary))
    facts.refuse(table, names, extra_row)
    blocks.sizes = facts.sizes
    normal, anomalies = (int(count) for count in facts.rows)
    mass = (float(facts.mass[0]), float(facts.mass[1]))
    return CheckedBlocks(
        blocks, names, facts.low, facts.high, (normal, anomalies), mass, facts.also
    )


def _check_head(S: Any, table: Table) -> Any:
    """Check shape and types of a collection without reading it; return its empty table."""
    if getattr(S, "ndim", 2) != 2:
        raise ValueError(table.not_two_dimensional(S.ndim))
    head = meta_of(S)
    if head.shape[1] == 0:
        raise ValueError(table.too_small("no column"))
    dtypes = list(S.dtypes) if hasattr(S, "columns") else [S.dtype]
    strange = [j for j, dtype in enumerate(dtypes) if getattr(dtype, "kind", "O") not in "biuf"]
    if strange:
        names = tables.column_names(head)
        columns = "they" if names is None else params.listed(params.column_labels(strange, names))
        raise ValueError(table.not_numbers(columns, f"hold {dtypes[strange[0]]} values"))
    tables.record_columns(BaseEstimator(), head)  # raises for invalid column names
    return head


def _aligned(S: Any, y: Any, sample_weight: Any, table: Table) -> Blocks:
    """Return blocks of rows with labels and weights; vectors in memory are split to fit."""
    vectors = {"y": y, "sample_weight": sample_weight}
    names = (table.letter, *vectors)
    blocks = Blocks.of(
        S, *(v if ops.is_blocked(v) else None for v in vectors.values()), names=names
    )
    in_memory = {k: v for k, v in vectors.items() if v is not None and not ops.is_blocked(v)}
    if not in_memory:
        return blocks
    if blocks.sizes is None:
        blocks.sizes = blocks.reduce(_count, _join)
    n = sum(blocks.sizes)
    cuts = np.cumsum(blocks.sizes)[:-1]
    for name, values in in_memory.items():
        checked = (
            params.check_labels(values, n) if name == "y" else params.check_sample_weight(values, n)
        )
        assert checked is not None
        position = names.index(name)
        blocks.parts = [
            (*parts[:position], part, *parts[position + 1 :])
            for parts, part in zip(blocks.parts, np.split(checked, cuts), strict=True)
        ]
    return blocks


def _count(k: int, parts: tuple[Any, ...]) -> list[int]:
    return [int(parts[0].shape[0])]


def _join(lists: list[list[Any]]) -> list[Any]:
    return [item for items in lists for item in items]


@dataclass
class _BlockReport:
    """Report of one or several blocks; a block with an error reports nothing else."""

    sizes: list[int]  # numbers of rows of the blocks
    low: Host  # minimum and maximum of each column
    high: Host
    # Counts and weights of normal rows and of anomalies.
    rows: NDArray[np.int64] = field(default_factory=lambda: np.zeros(2, dtype=np.int64))
    mass: Host = field(default_factory=lambda: np.zeros(2))
    user_weight: float = 0.0  # total weight of the user's rows
    not_finite: list[tuple[int, int, int]] = field(default_factory=list)  # block, column, rows
    errors: list[tuple[int, str]] = field(default_factory=list)  # block, what is wrong
    also: Any = None  # the caller's summary

    def refuse(
        self,
        table: Table,
        names: Sequence[str] | None,
        extra_row: tuple[float, float, float] | None = None,
    ) -> None:
        """Raise the most fundamental error, if there is one."""
        if self.errors:
            block, what = self.errors[0]
            raise ValueError(f"block {block}: {what}")
        if self.not_finite:
            places = [
                params.with_row_count(
                    f"block {block}, {params.column_labels([column], names)[0]}", rows
                )
                for block, column, rows in self.not_finite
            ]
            raise ValueError(table.not_finite(places))
        if sum(self.sizes) == (extra_row is not None):
            raise ValueError(table.too_small("no row in any block"))
        if not self.rows[0]:
            raise ValueError(params.ONLY_ANOMALIES)
        params.check_weight_sum(self.user_weight)
        largest = np.maximum(np.abs(self.low), np.abs(self.high))
        if table is params.SCORES and largest.max() > params.LARGEST_SCORE:
            columns = params.column_labels(np.flatnonzero(largest > params.LARGEST_SCORE), names)
            raise ValueError(table.too_large(columns, float(largest.max())))


def _inspect(
    also: Summary | None, n_user_blocks: int, k: int, parts: tuple[Any, ...]
) -> _BlockReport:
    """Return the report of one block."""
    n, width = (int(side) for side in parts[0].shape)
    facts = _BlockReport([n], np.full(width, np.inf), np.full(width, -np.inf))
    try:
        S, y, c = arrays_of(tuple(map(ops.fill_masked, parts)))
    except (ValueError, TypeError) as error:
        facts.errors.append((k, _conversion_error(parts[1], error)))
        return facts
    for name, vector, noun in (("y", y, "label"), ("sample_weight", c, "number")):
        if vector is not None and vector.shape != (n,):
            facts.errors.append((k, params.wrong_shape_message(name, noun, n, vector.shape)))
            return facts
    if y is not None and not np.isin(y, (-1, 1)).all():
        facts.errors.append((k, params.invalid_labels_message(y, False)))
    if c is not None and not (np.isfinite(c) & (c >= 0)).all():
        refused = c[~(np.isfinite(c) & (c >= 0))]
        facts.errors.append((k, params.invalid_weights_message(refused[0], refused.size)))
    if n == 0 or facts.errors:
        return facts
    xp = ops.namespace(S)
    facts.low, facts.high = ops.to_host(xp.min(S, axis=0)), ops.to_host(xp.max(S, axis=0))
    # NaN and infinity both show in minimum and maximum: where these are finite, all values are.
    if not np.isfinite([facts.low, facts.high]).all():
        flawed = ops.to_host(xp.sum(xp.astype(~xp.isfinite(S), xp.int64), axis=0)).astype(int)
        facts.not_finite = [(k, int(j), int(flawed[j])) for j in np.flatnonzero(flawed)]
    if facts.not_finite:
        return facts
    normal = np.ones(n, dtype=bool) if y is None else y > 0
    weight = np.ones(n) if c is None else c
    facts.rows = np.array([normal.sum(), n - normal.sum()])
    with np.errstate(over="ignore", invalid="ignore"):
        facts.mass = np.array([ops.accurate_total(weight[side]) for side in (normal, ~normal)])
        facts.user_weight = float(weight.sum()) if k < n_user_blocks else 0.0
    if also is not None:
        facts.also = also.work(k, S, y, c)
    return facts


def _conversion_error(labels: Any, error: Exception) -> str:
    """Return the message for a block that is not numeric; labels have a remedy of their own."""
    if labels is not None and np.asarray(labels).dtype.kind not in "biuf":
        return params.invalid_labels_message(np.asarray(labels), False)
    return f"there is a value that is not a number ({error})."


def _merged(also: Summary | None, parts: list[_BlockReport]) -> _BlockReport:
    """Return the merged report of several blocks."""
    summaries = [part.also for part in parts if part.also is not None]
    return _BlockReport(
        sizes=_join([part.sizes for part in parts]),
        low=np.min([part.low for part in parts], axis=0),
        high=np.max([part.high for part in parts], axis=0),
        rows=np.sum([part.rows for part in parts], axis=0),
        mass=np.sum([part.mass for part in parts], axis=0),
        user_weight=sum(part.user_weight for part in parts),
        not_finite=_join([part.not_finite for part in parts])[:REPORTED],
        errors=_join([part.errors for part in parts])[:1],
        also=also.merge(summaries) if also is not None and summaries else None,
    )


def warn_constant_blocks(checked: CheckedBlocks) -> None:
    """Warn about constant columns."""
    tables.warn_constant_columns(tables.is_constant(checked.low, checked.high), checked.names)
