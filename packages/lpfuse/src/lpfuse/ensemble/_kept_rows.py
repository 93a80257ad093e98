"""The training rows that a detector keeps, and how rows are known again: by their values alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from lpfuse._arrays.operations import Host
from lpfuse._saved import ANY, saved_as
from lpfuse._validation.tables import column_names
from lpfuse.ensemble._tables import Index, Table, numeric_columns


@saved_as("KeptRows", names=ANY)
@dataclass(frozen=True)
class KeptRows:
    """The training rows, in a form that a file can hold.

    Attributes
    ----------
    values : ndarray of shape (n, d) or None
        Numbers: rows learnt from, then those kept back; None where some column has words, which
        are not kept.
    names : list of str or None
        Of the columns, where the rows were a data frame.
    of_polars : bool
        Whether that was one of polars.
    n_added : int
        Rows at the end of those learnt from that came with answers.
    """

    values: Host | None
    names: list[str] | None = None
    of_polars: bool = False
    n_added: int = 0

    def table(self, rows: Index | slice = slice(None)) -> Table:
        """The rows, or some of them, as they were fitted to."""
        if self.values is None:
            raise ValueError(
                "The detector learnt from columns of words, which it does not keep, so it cannot "
                "be taught. Fit it again with y=, or encode the words as numbers first."
            )
        values = self.values[rows]
        if self.names is None:
            return values
        if self.of_polars:
            import polars

            return polars.DataFrame(values, schema=self.names)
        import pandas

        return pandas.DataFrame(values, columns=self.names)


def kept_rows(table: Table, below: Table | None = None) -> KeptRows:
    """What is kept of training rows and, where there are some, of others below them."""
    names, of_polars = None, False
    if not isinstance(table, np.ndarray):
        names, of_polars = column_names(table), not hasattr(table, "iloc")
    # Arrays as they are: rows of single precision take half the memory, and half the file.
    both = [part for part in (table, below) if part is not None]
    parts = [part if isinstance(part, np.ndarray) else numbers_of(part) for part in both]
    values = [part for part in parts if part is not None]
    whole = len(values) == len(parts)
    return KeptRows(np.concatenate(values) if whole else None, names, of_polars)


def numbers_of(table: Table) -> Host | None:
    """The rows as numbers; None where some column has words."""
    try:
        values = numeric_columns(table)
    except ValueError:
        return None
    return values if values.shape[1] == table.shape[1] else None


def keys_of(values: Host) -> NDArray[Any]:
    """One value for each row that is equal for equal rows; missing cells are equal."""
    values = values.astype(np.float64, copy=False) + 0.0  # −0.0 is 0.0
    whole = np.ascontiguousarray(np.where(np.isnan(values), np.nan, values))
    return whole.view(np.dtype((np.void, whole.dtype.itemsize * whole.shape[1]))).ravel()


def places_of(known: Host, rows: Host) -> Index:
    """Where each of the rows is among the known ones; −1 where it is not."""
    keys, sought = keys_of(known), keys_of(rows)
    order = np.argsort(keys)
    at = np.minimum(np.searchsorted(keys, sought, sorter=order), len(keys) - 1)
    found = order[at]
    return np.where(keys[found] == sought, found, -1)


def number_rows(values: Host) -> Host:
    """A number from 0 to 2⁵³ for each row, equal for equal rows.

    Of a million rows that differ two have the same with a chance of 1 in 18,000; each block of rows
    can be numbered by itself.
    """
    bits = keys_of(values).view(np.uint64).reshape(values.shape)
    odd = np.random.RandomState(0).randint(1, 2**62, size=(2, values.shape[1]), dtype=np.uint64)
    mixed = (bits ^ (bits >> np.uint64(29))) * (2 * odd[0] + 1)
    mixed = ((mixed ^ (mixed >> np.uint64(32))) * (2 * odd[1] + 1)).sum(axis=1, dtype=np.uint64)
    mixed ^= mixed >> np.uint64(31)
    return (mixed >> np.uint64(11)).astype(np.float64)


def refuse_contradictions(answers: Host, copy_of: NDArray[np.intp]) -> None:
    low, high = (np.full(int(np.max(copy_of)) + 1, side * np.inf) for side in (1, -1))
    np.minimum.at(low, copy_of, answers)
    np.maximum.at(high, copy_of, answers)
    torn = np.flatnonzero(low < high)
    if len(torn):
        rows = np.flatnonzero(np.asarray(copy_of) == torn[0])[:2].tolist()
        raise ValueError(
            f"Answers contradict each other: rows {rows[0]} and {rows[1]} are equal, but one is "
            f"called normal and the other an anomaly ({len(torn)} such rows). Decide, or answer 0."
        )


def copied_rows(table: Table) -> Index:
    """Positions of the rows that have an equal among them; words are compared as well.

    Examples
    --------
    >>> import numpy as np
    >>> copied_rows(np.array([[1.0, 2.0], [0.0, 0.0], [1.0, 2.0]]))
    array([0, 2])
    """
    values = numbers_of(table)
    if values is None:
        columns = [np.asarray(_safe_indexing(table, j, axis=1)) for j in range(table.shape[1])]
        texts = [np.array([str(cell) for cell in column]) for column in columns]
        numbers = [np.unique(column, return_inverse=True)[1] for column in texts]
        values = np.column_stack(numbers).astype(np.float64)
    number, count = np.unique(keys_of(values), return_inverse=True, return_counts=True)[1:]
    return np.flatnonzero(count[number.ravel()] > 1)
