"""Quantiles of rows that keep coming, a few at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from lpfuse._arrays.operations import Host, is_blocked, to_host
from lpfuse._checks.answers import check_new_labels
from lpfuse._checks.messages import ONLY_ANOMALIES
from lpfuse._checks.tables import check_scores, column_names, remember_columns, warn_about_columns
from lpfuse._quantiles.sketch import SIZE, QuantileSketch
from lpfuse._saved import saved_as

# Up to so many rows every row counts at once; beyond, rows wait until they are a hundredth of all:
# to sort them in costs as much for one as for many.
AT_ONCE, WAITING = 1000, 0.01


@saved_as("RunningQuantiles")
class RunningQuantiles:
    """A `QuantileSketch` that takes rows in as they come.

    Parameters
    ----------
    sketch : QuantileSketch
        Of rows so far.

    Attributes
    ----------
    waiting : ndarray of shape (m, R)
        Rows that are not in the sketch yet: less than a hundredth of all.

    Examples
    --------
    >>> running = RunningQuantiles.of(np.arange(500.0)[:, None])
    >>> running.add(np.arange(500.0, 801.0)[:, None])
    True
    >>> running.n, running.rank_error, running.sketch.order_statistic(400)
    (801, 0, array([400.]))
    """

    def __init__(self, sketch: QuantileSketch) -> None:
        self.sketch = sketch
        self.waiting = np.empty((0, len(sketch.lowest)))

    @classmethod
    def of(cls, rows: Host, size: int = SIZE) -> RunningQuantiles:
        """Of first rows, of shape (n, R)."""
        return cls(QuantileSketch.of(rows, size))

    @classmethod
    def standing_for(cls, n: int, shares: Host, values: Host) -> RunningQuantiles:
        """Of n rows that are gone, of which some quantiles are known; linear between them.

        Parameters
        ----------
        n : int
            How many rows there were.
        shares : ndarray of shape (k,)
            From 0 to 1, ascending.
        values : ndarray of shape (k, R)
            The quantiles at these shares.
        """
        level = max(0, (n - 1).bit_length() - (SIZE - 1).bit_length())
        counts = [(n >> i) & 1 for i in range(level)] + [n >> level]
        levels = tuple(_drawn(count, shares, values) for count in counts)
        # Between two quantiles that are known a row may be anywhere.
        error = int(np.ceil(n * np.diff(shares).max()))
        return cls(QuantileSketch(n, values[0], values[-1], levels, error, error, SIZE))

    @property
    def n(self) -> int:
        """How many rows there were."""
        return self.sketch.n + len(self.waiting)

    @property
    def rank_error(self) -> int:
        """By how many rows the rank of an order statistic of the sketch can be wrong."""
        return self.sketch.rank_error + len(self.waiting)

    def add(self, rows: Host) -> bool:
        """Take rows in; whether the sketch has changed."""
        waiting = np.concatenate([self.waiting, rows])
        if len(waiting) <= WAITING * (self.sketch.n - AT_ONCE):
            self.waiting = waiting
            return False
        self.waiting = waiting[:0]
        if not len(waiting):
            return False
        self.sketch = QuantileSketch.merge(
            [self.sketch, QuantileSketch.of(waiting, self.sketch.size)]
        )
        return True


def _drawn(count: int, shares: Host, values: Host) -> Host:
    """So many rows, evenly spread over the quantiles."""
    at = (np.arange(count) + 0.5) / max(count, 1)
    return np.column_stack([np.interp(at, shares, column) for column in values.T])


def take_rows_in(scaler: Any, S: Any, y: Any) -> bool:
    """Let a scaler's ``running_`` take new scores in; whether its thresholds have changed.

    Parameters
    ----------
    scaler : TwoSidedMinMax or TailScaler
        Fitted, or not.
    S, y : array-likes
        As users pass them.
    """
    if is_blocked(S):
        raise ValueError("partial_fit takes rows in memory: pass a block of Dask at a time.")
    first = not hasattr(scaler, "lower_")
    scores = check_scores(S, estimator=None if first else scaler)
    normal = np.asarray(to_host(scores)[check_new_labels(y, scores.shape[0]) > 0], np.float64)
    if first:
        if not len(normal):
            raise ValueError(ONLY_ANOMALIES)
        warn_about_columns(normal, column_names(S))
        remember_columns(scaler, S)
        scaler.running_ = RunningQuantiles.of(normal)
        return True
    if not hasattr(scaler, "running_"):
        scaler.running_ = _after_fit(scaler)
    return bool(scaler.running_.add(normal))


def _after_fit(scaler: Any) -> RunningQuantiles:
    if not hasattr(scaler, "extremes_"):
        raise ValueError(
            "This scaler was saved by a version of lpfuse that did not keep what partial_fit goes "
            "on from. Fit it again."
        )
    shares = np.array([0.0, scaler.rho / 200, 1.0 - scaler.rho / 200, 1.0])
    lowest, highest = scaler.extremes_
    values = np.stack([lowest, scaler.lower_, scaler.upper_, highest])
    return RunningQuantiles.standing_for(scaler.n_samples_seen_, shares, values)
