"""Rows of a Dask collection that detectors are trained on: as many as one machine can learn from.

Every row gets a number at random, and those with the lowest numbers are taken. Such samples can be
put together without knowing how many rows there are: one pass is enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import _safe_indexing

from lpfuse._arrays.blocks import Blocks, meta_of
from lpfuse._arrays.operations import Host, is_blocked
from lpfuse._validation import params
from lpfuse._validation.tables import check_table, record_columns
from lpfuse.ensemble.rows import Index, Table, draw_seed, joined_rows

# The most rows that a block hands in: so many times its share of the sample, and some rows more for
# small blocks. Keys are drawn at random, so a block's part of the sample scatters around its share;
# where sizes are unknown, blocks are presumed alike, and a second pass mends what that loses. All
# chosen by hand.
SHARES_OF_KNOWN = 2
SHARES_OF_UNKNOWN = 4
EXTRA_ROWS = 50


@dataclass(frozen=True)
class Sample:
    """Rows drawn at random, from a few blocks.

    Attributes
    ----------
    rows : table
        Rows.
    labels : ndarray of shape (m,)
        Their labels.
    places : ndarray of shape (m, 2)
        The block and the position in it of each row.
    keys : ndarray of shape (m,)
        The number in [0, 1) that each row was given at random.
    limit : float
        Every row with a lower key is here.
    """

    rows: Table
    labels: Host
    places: NDArray[np.int64]
    keys: Host
    limit: float = 1.0

    def lowest(self, most: int) -> Sample:
        """Keep the rows with the lowest keys, at most so many."""
        within = np.flatnonzero(self.keys < self.limit)
        limit = self.limit
        if len(within) > most:
            order = np.argsort(self.keys[within], kind="stable")
            limit = float(self.keys[within[order[most]]])
            within = np.sort(within[order[:most]])
        return Sample(
            _safe_indexing(self.rows, within, axis=0),
            self.labels[within],
            self.places[within],
            self.keys[within],
            limit,
        )

    @classmethod
    def joined(cls, samples: Sequence[Sample], most: int) -> Sample:
        """Join samples of several blocks."""
        some = [sample for sample in samples if len(sample.keys)] or list(samples[:1])
        return cls(
            joined_rows([sample.rows for sample in some]),
            np.concatenate([sample.labels for sample in some]),
            np.concatenate([sample.places for sample in some]),
            np.concatenate([sample.keys for sample in some]),
            min(sample.limit for sample in samples),
        ).lowest(most)


@dataclass(frozen=True)
class PassResult:
    """What a pass over a few blocks has found."""

    sizes: list[int]
    n_anomalies: int = 0
    drawn: tuple[Sample, Sample] | None = None  # of the others, of known anomalies; None: no rows
    refusal: str | None = None

    def falls_short(self, most: int) -> bool:
        """Tell whether fewer rows were drawn than could have been."""
        assert self.drawn is not None
        others, anomalies = (len(sample.keys) for sample in self.drawn)
        return others < min(most - anomalies, sum(self.sizes) - self.n_anomalies)


def draw_from_blocks(
    X: Any, y: Any, groups: Any, kind: Any, subsample: int, random: np.random.RandomState
) -> tuple[Table, Host | None]:
    """Draw rows of a Dask collection to learn from, into memory; all, where they are few enough."""
    for name, value in (("groups", groups), ("kind", kind)):
        if value is not None and not isinstance(value, str):
            raise TypeError(
                f"{name} cannot go with rows of Dask, which are drawn from for training. Draw "
                "rows with what belongs to them, bring them into memory, and pass those."
            )
    # From a copy: where all rows are taken, the rest of the fit is what it is in memory.
    return subsample_of(X, y, int(subsample), draw_seed(deepcopy(random)))


def subsample_of(X: Any, y: Any, most: int, seed: int) -> tuple[Table, Host | None]:
    """Draw rows for training into memory, in their order, with their labels.

    Parameters
    ----------
    X : Dask array or data frame of shape (n, d)
        Rows; cells may be missing.
    y : array-like, Dask array or series of shape (n,), or None
        +1 normal, −1 anomaly, 0 unlabelled; of Dask, cut as `X` is.
    most : int
        Rows to draw. Of known anomalies all are taken, or half as many as rows are drawn.
    seed : int
        Draws.

    Returns
    -------
    rows : data frame or ndarray
        All rows, where there are no more than `most`.
    labels : ndarray or None
        Their labels.
    """
    _check_head(X)
    blocks = _beside(X, y)
    seen = _pass_over(blocks, most, seed)
    if blocks.sizes is None and seen.falls_short(most):
        # Blocks of very different sizes: once more, now that these are known.
        seen = _pass_over(Blocks(blocks.parts, seen.sizes), most, seed)
    return _in_order(seen, most, is_labelled=y is not None)


def _check_head(X: Any) -> None:
    """Refuse what can be refused without a look at the rows."""
    if getattr(X, "ndim", 2) != 2:
        raise ValueError(params.FEATURES.not_two_dimensional(X.ndim))
    head = meta_of(X)
    if head.shape[1] == 0:
        raise ValueError(params.FEATURES.too_small("no column"))
    record_columns(BaseEstimator(), head)  # names that cannot be remembered are refused


def _beside(X: Any, y: Any) -> Blocks:
    """Pair blocks of rows with their labels; labels in memory are cut to fit."""
    if y is None or is_blocked(y):
        return Blocks.of(X, y, names=("X", "y"))
    blocks = Blocks.of(X)
    sizes = blocks.reduce(_count, _chained) if blocks.sizes is None else blocks.sizes
    labels = params.check_labels(y, sum(sizes), unlabelled=True, zero=0)  # 0 and 1 alone: see fit
    assert labels is not None
    cut = np.split(labels, np.cumsum(sizes)[:-1])
    return Blocks([(*rows, part) for rows, part in zip(blocks.parts, cut, strict=True)], sizes)


def _count(k: int, parts: tuple[Any, ...]) -> list[int]:
    return [len(parts[0])]


def _chained(lists: list[list[int]]) -> list[int]:
    return [item for items in lists for item in items]


def _pass_over(blocks: Blocks, most: int, seed: int) -> PassResult:
    """Check all rows and draw from them; bad input is refused here, so that no task ever fails."""
    if blocks.sizes is None:
        shares = [SHARES_OF_UNKNOWN / len(blocks)] * len(blocks)
    else:
        shares = [SHARES_OF_KNOWN * size / max(sum(blocks.sizes), 1) for size in blocks.sizes]
    wanted = [EXTRA_ROWS + int(np.ceil(most * share)) for share in shares]
    seen = blocks.reduce(partial(_look, wanted, most, seed), partial(_together, most))
    if seen.refusal is not None:
        raise ValueError(seen.refusal)
    if not sum(seen.sizes):
        raise ValueError(params.FEATURES.too_small("no row in any block"))
    return seen


def _look(wanted: list[int], most: int, seed: int, k: int, parts: tuple[Any, ...]) -> PassResult:
    """Check a block, and draw from it."""
    n = len(parts[0])
    try:
        labels = np.ones(n) if parts[1] is None else _labels(parts[1], n)
        if n == 0:
            return PassResult([0])
        table = check_table(parts[0])
    except (ValueError, TypeError) as error:
        return PassResult([n], refusal=f"block {k}: {error}")
    keys = np.random.default_rng([seed, k]).random(n)
    places = np.column_stack([np.full(n, k), np.arange(n)])

    def sample(rows: Index, limit: int) -> Sample:
        return Sample(
            _safe_indexing(table, rows, axis=0), labels[rows], places[rows], keys[rows]
        ).lowest(limit)

    anomalies = np.flatnonzero(labels < 0)
    others = sample(np.flatnonzero(~(labels < 0)), wanted[k])  # NaN: unlabelled
    return PassResult([n], len(anomalies), (others, sample(anomalies, _half(most))))


def _labels(values: Any, n: int) -> Host:
    labels = np.asarray(values)
    if labels.shape != (n,):
        raise ValueError(params.wrong_shape_message("y", "label", n, labels.shape))
    is_number = labels.dtype.kind in "iuf"
    if n and not (is_number and (np.isin(labels, (-1, 0, 1)) | np.isnan(labels)).all()):
        raise ValueError(params.invalid_labels_message(labels, True))
    return labels.astype(np.float64) if n else np.empty(0)


def _half(most: int) -> int:
    return max(most // 2, 1)


def _together(most: int, parts: list[PassResult]) -> PassResult:
    refusals = [part.refusal for part in parts if part.refusal is not None]
    drawn = [part.drawn for part in parts if part.drawn is not None]
    joined = None
    if drawn and not refusals:
        others, anomalies = zip(*drawn, strict=True)
        joined = Sample.joined(others, most), Sample.joined(anomalies, _half(most))
    return PassResult(
        _chained([part.sizes for part in parts]),
        sum(part.n_anomalies for part in parts),
        joined,
        refusals[0] if refusals else None,
    )


def _in_order(seen: PassResult, most: int, is_labelled: bool) -> tuple[Table, Host | None]:
    """Return the rows that were drawn, in the order of the collection."""
    assert seen.drawn is not None
    others, anomalies = seen.drawn
    others = others.lowest(max(most - len(anomalies.keys), 1))
    whole = Sample.joined([replace(sample, limit=1.0) for sample in (others, anomalies)], 2 * most)
    order = np.lexsort(whole.places.T[::-1])
    return _safe_indexing(whole.rows, order, axis=0), whole.labels[order] if is_labelled else None
