"""How many rows were called anomalies, by what is known of them: counts that add up over chunks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln
from scipy.stats import norm, poisson

from lpfuse._arrays.operations import Host
from lpfuse.ensemble import FusedDetector
from lpfuse.ensemble.rows import places_in_training
from lpfuse.tables._preparation import TablePreparation

if TYPE_CHECKING:
    import polars

Mask = NDArray[np.bool_]
KINDS = {"normal": 1, "anomalies": -1, "unlabelled": 0}
# Standard deviations that rows must be above the copies of training rows that chance gives: 1 batch
# of 700 fresh ones is.
SURE = 3.0
MOST = 0.5  # of the rows, from where on a table is taken as one of training rows
# Of the rows that are equal to training rows; if fewer are copies, nobody can say which. By hand.
CLEAR = 0.9


@dataclass(frozen=True, eq=False)
class AlarmCounts:
    """Counts of rows; those of two batches can be added.

    Attributes
    ----------
    table : ndarray of shape (3, 2, 2, 2)
        Rows by label (as in `KINDS`), whether a row has gaps, whether a training row equals it, and
        whether it was called an anomaly.
    copies : ndarray of shape (n,)
        How many rows are equal to each of the n training rows; of equal ones, one has all.
    held_out : ndarray of shape (2,)
        Copies of training rows whose held-out scores are known: how many, and how many of these
        scores lie below the threshold.
    """

    table: NDArray[np.intp]
    copies: NDArray[np.intp]
    held_out: NDArray[np.intp]

    def __add__(self, other: AlarmCounts) -> AlarmCounts:
        return AlarmCounts(
            self.table + other.table, self.copies + other.copies, self.held_out + other.held_out
        )


def count_alarms(
    fused: FusedDetector,
    X: Any,
    flagged: Mask,
    labels: Host | None = None,
    gaps: Mask | None = None,
) -> AlarmCounts:
    """Count rows by what is known of them.

    Parameters
    ----------
    fused : FusedDetector
        Fitted.
    X : array or data frame of shape (n, d)
        Rows as it takes them.
    flagged : ndarray of shape (n,) of bool
        Which of them were called anomalies.
    labels : ndarray of shape (n,), optional
        +1 normal, −1 anomaly, 0 unlabelled; None: all unlabelled.
    gaps : ndarray of shape (n,) of bool, optional
        Which lack a cell, or hold a text that was not in the training; None: none.
    """
    n = len(flagged)
    place = places_in_training(getattr(fused, "rows_", None), X)
    known = place >= 0
    labels = np.zeros(n) if labels is None else labels
    gaps = np.zeros(n, dtype=bool) if gaps is None else gaps
    kind = np.select([labels > 0, labels < 0], [0, 1], 2)
    cell = np.ravel_multi_index((kind, gaps + 0, known + 0, flagged + 0), (3, 2, 2, 2))
    rows, held_out = n_training(fused), fused.held_out_.fused
    below = np.zeros(2, dtype=np.intp)
    if len(held_out) == rows:  # in the order of the rows, unless some were kept back
        scores = held_out[place[known]]
        # A row that no detector could score is called an anomaly, held out or not.
        below = np.array([known.sum(), (~(scores >= fused.offset_)).sum()])
    return AlarmCounts(
        np.bincount(cell, minlength=24).reshape(3, 2, 2, 2),
        np.bincount(place[known], minlength=rows),
        below,
    )


def n_training(fused: FusedDetector) -> int:
    """How many training rows a detector keeps."""
    rows = getattr(fused, "rows_", None)
    return 0 if rows is None or rows.values is None else len(rows.values)


def incomplete_rows(preparation: TablePreparation, frame: polars.DataFrame) -> Mask:
    """Which rows lack a cell, or hold a text that was not in the training.

    Parameters
    ----------
    preparation : TablePreparation
        How columns become features.
    frame : polars.DataFrame
        Rows.
    """
    found = np.zeros(frame.height, dtype=bool)
    for name in preparation.columns:
        column = frame[name]
        if column.dtype.is_float():
            column = column.fill_nan(None)
        found |= column.is_null().to_numpy()
    for new in preparation.unknown_texts(frame).values():
        found |= new.fill_null(False).to_numpy()
    return found


def copied_rows(fused: FusedDetector, counts: AlarmCounts) -> int:
    r"""How many rows are training rows, beyond those that are equal to some by chance.

    Where rows repeat, as those of few categories do, new rows are equal to training rows, too. So
    what counts is the overlap with c copies of each training row, :math:`\sum \min(b, c)` for b
    equal rows, beside that of new rows. One of these is equal to a training row with c copies with
    a chance of about :math:`(c - 1)/(n - 1)`, as one of them is to the n − 1 others, so that b is a
    Poisson variable of mean :math:`\lambda = m (c - 1)/(n - 1)`, and

    .. math:: E \min(b, c) = \sum_{k=1}^c P(b \ge k), \qquad
              E \min(b, c)^2 = \sum_{k=1}^c (2k - 1) P(b \ge k)

    Parameters
    ----------
    fused : FusedDetector
        Fitted.
    counts : AlarmCounts
        Of m rows.

    Returns
    -------
    int
        0 where chance alone gives as many, where they are few among others that are equal to
        training rows by chance, and where the detector keeps no training rows.
    """
    n, m = len(counts.copies), int(counts.table.sum())
    equal = int(counts.copies.sum())
    if equal == 0:
        return 0
    training = np.bincount(places_in_training(fused.rows_, fused.rows_.values), minlength=n)
    if _is_same_table(counts.copies, training):
        return equal
    overlap = int(np.minimum(counts.copies, training).sum())
    expected = variance = 0.0
    sizes, times = np.unique(training[training > 1], return_counts=True)
    for c, patterns in zip(sizes.tolist(), times.tolist(), strict=True):
        k = np.arange(1, c + 1)
        reach = poisson.sf(k - 1, m * (c - 1) / (n - 1))
        mean = reach.sum()
        expected += patterns * mean
        variance += patterns * (((2 * k - 1) * reach).sum() - mean**2)
    if overlap <= expected + SURE * np.sqrt(variance):
        return 0
    # A share q of training rows overlaps in qm + (1 − q) times what new rows do.
    copied = equal if m <= expected else round((overlap - expected) / (m - expected) * m)
    return min(copied, equal) if copied >= min(MOST * m, CLEAR * equal) else 0


def _is_same_table(copies: NDArray[np.intp], training: NDArray[np.intp]) -> bool:
    """Whether rows are the training rows, each as often, and chance would hardly have it so.

    The chance is that of a multinomial variable to be its mean, ``n! Π (c/n)^c / c!``.
    """
    if not (copies == training).all():
        return False
    n, c = training.sum(), training[training > 0]
    chance = gammaln(n + 1) + (c * np.log(c / n) - gammaln(c + 1)).sum()
    return bool(chance < norm.logsf(SURE))
