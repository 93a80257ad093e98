"""Columns with few different values: which of them a number is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays.operations import Host

# Chosen by hand: what single precision does to a number, and never so far that two values meet.
ROUNDING = 1e-6  # of the largest value
APART = 1e-3  # of the least distance of two values


def tolerance_of(values: Host) -> float:
    """How far off a number may be that is one of the values, but for rounding."""
    least = float(np.diff(values).min(initial=np.inf))
    return min(ROUNDING * float(np.abs(values).max()), APART * least)


def positions_among(values: Host, x: Host) -> NDArray[np.int64]:
    """The position of each number among ascending values; −1 where it is none of them.

    Examples
    --------
    >>> positions_among(np.array([0.0, 0.1, 5.0]), np.array([np.float32(0.1), 5.0, 0.2]))
    array([ 1,  2, -1])
    """
    nearest = np.searchsorted(values[:-1] / 2 + values[1:] / 2, x)
    off = np.abs(x - values[nearest])
    return np.where(off <= tolerance_of(values), nearest, -1)
