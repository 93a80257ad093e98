"""Artificial anomalies: normal rows, shaken."""

from __future__ import annotations

import numpy as np

from lpfuse.ensemble._tables import Index, Table, numbers_of, replace_numbers, rows_of


def shaken_rows(X: Table, rows: Index, random: np.random.RandomState) -> Table:
    """Copies of rows with Gaussian noise, as large as the spread, in every column of numbers.

    Parameters
    ----------
    X : table
        All rows; their spread sets the size of the noise.
    rows : ndarray of positions
        The rows to shake.
    random : RandomState
        Shakes.
    """
    numbers = numbers_of(X)
    spread = np.nanstd(numbers, axis=0)
    noise = spread * random.standard_normal((len(rows), numbers.shape[1]))
    return replace_numbers(rows_of(X, rows), numbers[rows] + noise)
