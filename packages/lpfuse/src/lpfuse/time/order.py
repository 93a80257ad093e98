"""What is known of the order of rows, and times."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays.operations import Host
from lpfuse._files import ANY, saved_as
from lpfuse._format import quote
from lpfuse._validation.params import check_values

TIME, RANDOM = "time", "random"


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


UNTOLD = RowOrder()


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
    >>> read_times(["2024-02-28 12:30", "2024-02-28 12:31"], 2).tolist()
    [1709123400.0, 1709123460.0]
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
    if not np.isfinite(found).all():
        row = int(np.flatnonzero(~np.isfinite(found))[0])
        raise ValueError(f"time is missing in row {row}. Leave out rows without a time.")
    return found


def _moments(values: NDArray[Any]) -> NDArray[Any]:
    """Read texts and times of Python; a time zone is converted to UTC."""
    if find_spec("polars") is None:
        return values.astype("datetime64[us]")
    from polars import Datetime, Series

    column = Series(values.tolist())
    try:
        if column.dtype.is_temporal():
            return column.cast(Datetime("us")).to_numpy()
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
