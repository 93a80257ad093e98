"""Rows that were copied, not measured again: kept together as one group."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpfuse._format import percent
from lpfuse.ensemble._kept_rows import keys_of, numbers_of
from lpfuse.ensemble._repeated_rows import MOST_ROWS, _unmistakable
from lpfuse.ensemble._tables import Table

# Share of the rows that have a copy from which on copies are kept together. Fewer change false
# alarms by less than their share, and folds of groups take longer than formulas.
SHARE = 0.02


def copies_as_groups(X: Table) -> NDArray[Any] | None:
    """A number for each row that its copies share; None where rows are equal by chance, or hardly.

    A copy vouches for the row that it is a copy of: with two to five copies of each of 200 rows,
    93 % of new rows were called anomalies where 5 % was asked for. Rows of numbers count as copies
    where columns hold as good as no two equal cells but theirs; rows of few values, such as
    indicators and counts, are equal by chance.
    """
    values = numbers_of(X)
    if values is None:
        return None
    _, first, number, count = np.unique(
        keys_of(values), return_index=True, return_inverse=True, return_counts=True
    )
    number = number.ravel()
    share = float((count[number] > 1).mean())
    some = np.sort(first)[np.linspace(0, len(first) - 1, min(len(first), MOST_ROWS)).astype(int)]
    if share < SHARE or _unmistakable(np.nan_to_num(values[some])) is None:
        return None
    warnings.warn(
        f"{percent(share)} of the rows have an exact copy. Copies are kept together, as one group: "
        "else each would vouch for the other, and false alarms would exceed the rate. Leave copies "
        "out, or pass groups= where rows belong together.",
        UserWarning,
        stacklevel=3,
    )
    return number
