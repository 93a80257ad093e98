"""Which columns of new rows left the range of the training, and for how many rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse._format import quote
from lpfuse._validation.params import counted
from lpfuse.tables._alarm_figures import share_interval
from lpfuse.tables._alarm_words import per_cent
from lpfuse.tables._preparation import TablePreparation

if TYPE_CHECKING:
    import polars

TAIL = 0.01  # of the training rows on either side of the range: single outliers have no say
# Share of rows outside, surely exceeded, from where on a column is said to have left its range: ten
# times that of training rows. Batches that hold a tenth of anomalies stay below it.
FAR = 0.2


def learn_ranges(preparation: TablePreparation, X: Host) -> None:
    """Keep where numbers lie.

    Parameters
    ----------
    preparation : TablePreparation
        Gets `ranges`.
    X : ndarray of shape (n, d)
        Its features of normal rows.
    """
    names = preparation.feature_names
    waves = (" (sin)", " (cos)")
    last = len(preparation.number_columns) + sum(
        len(_places(preparation, name)) for name in preparation.orders
    )
    for j, name in enumerate(names[:last]):
        column = X[:, j][~np.isnan(X[:, j])]
        is_wave = j >= len(preparation.number_columns) and name.endswith(waves)
        if len(column) and not is_wave:
            ends = np.quantile(column, [TAIL, 1 - TAIL], method="inverted_cdf")
            preparation.ranges[name] = [float(end) for end in ends]


def _places(preparation: TablePreparation, name: str) -> range:
    waves = [part not in ("elapsed", "since") for part in preparation.parts[name]]
    return range(sum(1 + wave for wave in waves))


@dataclass
class RangeCounts:
    """Rows below and above the range of a feature; counts of two batches can be added.

    Attributes
    ----------
    rows : Counter of str
        Rows that have the value.
    below, above, unknown : Counter of str
        Rows outside, and those with a text that was not in the training, by column.
    powers : Counter of (str, int)
        By which power of ten those outside differ from the middle of the range.
    """

    rows: Counter[str] = field(default_factory=Counter)
    below: Counter[str] = field(default_factory=Counter)
    above: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    powers: Counter[tuple[str, int]] = field(default_factory=Counter)

    def __add__(self, other: RangeCounts) -> RangeCounts:
        return RangeCounts(*(a + b for a, b in zip(_values(self), _values(other), strict=True)))


def _values(counts: RangeCounts) -> list[Counter[Any]]:
    return [counts.rows, counts.below, counts.above, counts.unknown, counts.powers]


def count_outside(preparation: TablePreparation, frame: polars.DataFrame, X: Host) -> RangeCounts:
    """Count what is outside of the ranges of the training.

    Parameters
    ----------
    preparation : TablePreparation
        With ranges.
    frame, X : polars.DataFrame, ndarray of shape (n, d)
        Rows, and their features.
    """
    found = RangeCounts()
    places = {name: j for j, name in enumerate(preparation.feature_names)}
    for name, (low, high) in preparation.ranges.items():
        column = X[:, places[name]]
        column = column[~np.isnan(column)]
        found.rows[name] = len(column)
        found.below[name], found.above[name] = int((column < low).sum()), int((column > high).sum())
        middle = (low + high) / 2
        outside = column[((column < low) | (column > high)) & (column != 0)]
        if middle and len(outside):
            powers = np.rint(np.log10(np.abs(outside / middle))).astype(int)
            for power, times in zip(*np.unique(powers, return_counts=True), strict=True):
                found.powers[name, int(power)] = int(times)
    for name, new in preparation.unknown_texts(frame).items():
        found.rows[name] = frame[name].len() - frame[name].null_count()
        found.unknown[name] = int(new.sum())
    return found


def range_figures(preparation: TablePreparation, counts: RangeCounts) -> list[dict[str, Any]]:
    """The columns that left their range, those with the largest share of rows first.

    Parameters
    ----------
    preparation, counts : TablePreparation, RangeCounts
        Of a model, and of rows.

    Returns
    -------
    list of dict
        ``column``; ``rows`` that have a value; of numbers ``low`` and ``high``, between which 98 %
        of the training rows lie, how many rows are ``below`` and ``above``, and ``factor``, the
        power of ten by which most of them differ (None: none); of texts how many are ``unknown``;
        and the ``share`` of all of these.
    """
    found = []
    for name, rows in counts.rows.items():
        below, above, unknown = counts.below[name], counts.above[name], counts.unknown[name]
        outside = below + above + unknown
        if not outside or (not unknown and share_interval(outside, rows)[0] <= FAR):
            continue
        figures: dict[str, Any] = {"column": name, "rows": rows, "share": outside / rows}
        if unknown:
            found.append(figures | {"unknown": unknown})
            continue
        low, high = preparation.ranges[name]
        powers = {power: n for (of, power), n in counts.powers.items() if of == name and power}
        most = max(powers, key=lambda power: powers[power], default=None)
        sure = most is not None and powers[most] > 0.5 * outside
        factor = 10.0**most if most is not None and sure else None
        found.append(
            figures | {"low": low, "high": high, "below": below, "above": above, "factor": factor}
        )
    return sorted(found, key=lambda each: -each["share"])


def range_sentences(figures: list[dict[str, Any]]) -> list[str]:
    """What `range_figures` found, a sentence for each column."""
    return [_sentence(each) for each in figures]


def _sentence(figures: dict[str, Any]) -> str:
    name, share = quote(figures["column"]), per_cent(figures["share"])
    if "unknown" in figures:
        return (
            f"{name} holds texts that the training did not in {counted(figures['unknown'], 'row')} "
            f"({share} of those with a text): these were judged by the other columns."
        )
    sides = [f"{side} it in {counted(figures[side], 'row')}"
             for side in ("below", "above") if figures[side]]  # fmt: skip
    told = (
        f"{name} left the range of the training, {figures['low']:.4g} to {figures['high']:.4g}: "
        f"{' and '.join(sides)} ({share})"
    )
    if figures["factor"]:
        factor = figures["factor"]
        times = f"{factor:,.0f} times" if factor > 1 else f"1/{1 / factor:,.0f} of"
        return f"{told}, by about {times} what it was. Has its unit changed?"
    return f"{told}. Alarms of these rows may be about that column alone."


def column_changes(
    preparation: TablePreparation, frame: polars.DataFrame, X: Host | None = None
) -> tuple[list[dict[str, Any]], list[str]]:
    """Which columns of a table left the range of the training: figures, and sentences.

    Parameters
    ----------
    preparation : TablePreparation
        Of a fitted `TableModel`.
    frame : polars.DataFrame
        Rows.
    X : ndarray of shape (n, d), optional
        Their features, if they are known already.

    Returns
    -------
    figures, sentences : list of dict, list of str
        See `range_figures`.

    Examples
    --------
    >>> import numpy as np
    >>> import polars as pl
    >>> from lpfuse.tables import TableModel, column_changes
    >>> rng = np.random.default_rng(0)
    >>> rows = pl.DataFrame({"bar": rng.normal(2.5, 0.1, 200), "flow": rng.normal(7.0, 1.0, 200)})
    >>> model = TableModel.fit(rows, detectors=["gmm"])
    >>> _, told = column_changes(model.preparation, rows.with_columns(pl.col("bar") * 1000))
    >>> print(*told)
    'bar' left the range of the training, 2.263 to 2.682: above it in 200 rows (100 %), by about
    1,000 times what it was. Has its unit changed?
    """
    X = preparation.numbers(frame) if X is None else X
    figures = range_figures(preparation, count_outside(preparation, frame, X))
    return figures, range_sentences(figures)
