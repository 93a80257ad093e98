"""The order of rows: times, dependence of consecutive rows, and folds of contiguous rows."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from lpfuse._arrays.operations import Host
from lpfuse._files import ANY, saved_as
from lpfuse._format import quote
from lpfuse._validation.params import check_choice, check_values

TIME, RANDOM = "time", "random"
# Consecutive rows resemble each other where the rank correlation of a column is this large, and so
# many standard errors from 0; chosen by hand: of 322 tables in the order of their files see
# docs/adr/0050.
CORRELATED, SURELY = 0.3, 6.0
FEWEST = 50  # rows in which dependence shows
SEGMENT, SEGMENTS = 500, 10  # consecutive rows that are looked at, and how often
REMEDY = (
    'Pass time= with the time of each row, or order="time" where rows come at even intervals; '
    'or order="random" where the order means nothing.'
)


@saved_as("RowOrder", order=(TIME, RANDOM), because=ANY)
@dataclass(frozen=True)
class RowOrder:
    """What is known of the order of the training rows.

    Attributes
    ----------
    order : {"time", "random"} or None
        As the user said; None: nobody said.
    spacing : float
        Rows that tell as much as one independent row; 1 where consecutive rows do not resemble each
        other.
    because : str
        Why no rate of false alarms can be promised; empty where one can.
    """

    order: str | None = None
    spacing: float = 1.0
    because: str = ""

    @property
    def is_time(self) -> bool:
        """Whether rows are in time order."""
        return self.order == TIME

    @property
    def is_dependent(self) -> bool:
        """Whether consecutive rows resemble each other."""
        return self.spacing > 1


UNTOLD = RowOrder()


def look_at_order(order: str | None, table: Any, names: list[str] | None) -> RowOrder:
    """Estimate how far consecutive rows depend on each other.

    Parameters
    ----------
    order : {"time", "random"} or None
        As the user said.
    table : array of shape (n, d)
        Rows as they came; columns that are no numbers are left out.
    names : list of d str or None
        Of the columns.
    """
    check_choice("order", order, (None, TIME, RANDOM))
    if order == RANDOM or not isinstance(table, np.ndarray) or len(table) < FEWEST:
        return RowOrder(order)
    starts = np.linspace(0, max(len(table) - SEGMENT, 0), SEGMENTS).astype(int)
    segments = [table[start : start + SEGMENT] for start in np.unique(starts)]
    found = np.array([[_rank_correlation(column) for column in part.T] for part in segments])
    correlation = found.mean(axis=0)
    error = 1 / np.sqrt(sum(map(len, segments)))
    most = int(np.argmax(correlation))
    if order is None and correlation[most] < max(CORRELATED, SURELY * error):
        return UNTOLD
    spacing = max(correlation_length(column) for column in table[: SEGMENT * SEGMENTS].T)
    if order == TIME:
        return RowOrder(order, max(1.0, spacing))
    name = f"column {most}" if names is None else quote(names[most])
    because = (
        f"consecutive rows resemble each other (rank correlation {correlation[most]:.2f} in "
        f"{name}), as rows in time do, and the order of the rows was not told"
    )
    return RowOrder(None, max(1.0, spacing), because)


def _rank_correlation(values: Host) -> float:
    """Return the rank correlation of each value with the next one; 0 where there is none."""
    there = values[~np.isnan(values)]
    if len(there) < FEWEST or there.min() == there.max():
        return 0.0
    ranks = rankdata(there)
    ranks -= ranks.mean()
    return float(ranks[1:] @ ranks[:-1] / (ranks @ ranks))


def correlation_length(values: Host) -> float:
    r"""Return how many consecutive values tell as much as one independent value.

    .. math:: \tau = 1 + 2 \sum_{k \ge 1} \rho_k

    with the autocorrelations :math:`\rho_k` of the ranks, up to the first that is not positive.

    Parameters
    ----------
    values : ndarray of shape (n,)
        In their order; NaN is left out.

    Returns
    -------
    float
        From 1 to n.
    """
    ranks = rankdata(values[~np.isnan(values)]) if len(values) else values
    n = len(ranks)
    if n < 2 or ranks.min() == ranks.max():
        return 1.0
    ranks -= ranks.mean()
    power = np.abs(np.fft.rfft(ranks, 2 * n)) ** 2
    covariance = np.fft.irfft(power)[: n // 2]
    positive = covariance > 0
    end = len(positive) if positive.all() else int(np.argmin(positive))
    return float(min(n, 2 * covariance[:end].sum() / covariance[0] - 1)) if end else 1.0


def read_times(time: Any, n: int) -> Host:
    """Return times in seconds, checked: one a row, none missing, none before the one above.

    Parameters
    ----------
    time : array-like of shape (n,)
        Numbers (seconds), times of NumPy, pandas, polars or Python, or texts such as
        "2024-02-28 12:30".
    n : int
        The rows.

    Examples
    --------
    >>> read_times(["2024-02-28 12:30", "2024-02-28 12:31"], 2)
    array([1.7091234e+09, 1.7091234e+09])
    """
    values = np.asarray(time.to_numpy() if hasattr(time, "to_numpy") else time)
    if values.dtype.kind in "OUS":
        values = _moments(values)
    if values.dtype.kind == "M":
        gaps = np.isnat(values)
        seconds = values.astype("datetime64[us]").astype(np.int64) / 1e6
        values = np.where(gaps, np.nan, seconds)
    found: Host = check_values(values, "time", allow_nan=True)
    if len(found) != n:
        raise ValueError(f"time must tell the time of each of the {n} rows, got {len(found)}.")
    if np.isnan(found).any():
        row = int(np.flatnonzero(np.isnan(found))[0])
        raise ValueError(f"time is missing in row {row}. Leave out rows without a time.")
    return found


def _moments(values: NDArray[Any]) -> NDArray[Any]:
    """Read texts and times of Python; a time zone is converted to UTC."""
    if find_spec("polars") is None:
        return values.astype("datetime64[us]")
    from polars import Datetime, Series

    column = Series(values.tolist())
    if column.dtype.is_temporal():
        return column.cast(Datetime("us")).to_numpy()
    try:
        return column.cast(str).str.to_datetime(time_unit="us").to_numpy()
    except Exception:
        raise ValueError(
            f"time holds {quote(str(values[0]))}, which is no time. Expected numbers (seconds), "
            'times, or texts such as "2024-02-28 12:30".'
        ) from None


def refuse_steps_back(time: Host) -> None:
    """Refuse times of training rows that are not in their order."""
    back = np.flatnonzero(np.diff(time) < 0)
    if len(back):
        row = int(back[0]) + 1
        raise ValueError(
            f"time goes back in row {row} ({len(back)} such rows). Sort the rows by time, each "
            "series by itself."
        )
