"""Tables that are held in memory: all rows of a file, or some that are drawn by chance."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse._format import plain
from lpfuse._validation.params import counted
from lpfuse.tables._cells import check_names
from lpfuse.tables._csv_format import OPEN, TableFormat
from lpfuse.tables._labels import labels_of, settle_normal
from lpfuse.tables._polars import polars_module
from lpfuse.tables._reading import open_table
from lpfuse.tables._table_file import TableFile

if TYPE_CHECKING:
    import polars

Progress = Callable[[int, "float | None"], None]

MOST_CELLS = 2**30  # of a table that is read whole: 8 GiB of numbers, from a file of a few bytes
# Rows that are read at a time: a twentieth of a file that knows its length, within these bounds.
# Chosen by hand.
FEWEST_ROWS, MOST_ROWS = 2**16, 2**20


def read_table(
    path: str | Path,
    *,
    format: TableFormat = OPEN,
    progress: Progress | None = None,
    notes: list[str] | None = None,
) -> polars.DataFrame:
    r"""A whole table of a file.

    Parameters
    ----------
    path : str or path
        A ``.csv``, ``.tsv``, ``.txt``, ``.parquet``, ``.arrow`` or ``.feather`` file, or an
        ``.xlsx`` one where fastexcel is installed; ``-`` for CSV on standard input.
    format : TableFormat, optional
        How it is written, where that should not be found by looking at it.
    progress : callable, optional
        Called with the rows that are read, and their share of the file, if it is known.
    notes : list of str, optional
        Gets a sentence where the table is written in another way than most.

    Returns
    -------
    polars.DataFrame
        Its rows. The cells of a CSV file are texts, null where they are empty or hold one of
        ``?``, ``NA``, ``N/A``, ``NaN`` and ``null``: what they mean is settled when a model is
        fitted to them. Lines without any value are left out, with a warning that counts them.

    Examples
    --------
    >>> from lpfuse.tables import read_table
    >>> path = getfixture("tmp_path") / "pumps.csv"
    >>> _ = path.write_text("bar,kind\n2.5,a\n?,b\n")
    >>> read_table(path).rows()
    [('2.5', 'a'), (None, 'b')]
    """
    with open_table(path, format) as table:
        _check_cells(table, table.rows)
        parts, rows = [], 0
        for frame in _parts(table, progress):
            parts.append(frame)
            rows += frame.height
            _check_cells(table, rows)
        _tell_format(table, notes)
        return polars_module().concat(parts)


def read_sample(
    path: str | Path,
    most: int,
    *,
    label: str | None = None,
    normal: str | None = None,
    seed: int = 0,
    format: TableFormat = OPEN,
    progress: Progress | None = None,
    notes: list[str] | None = None,
) -> tuple[polars.DataFrame, int]:
    r"""Rows of a file that are drawn by chance, and how many it has: it may exceed the memory.

    Parameters
    ----------
    path, format, progress, notes
        As in `read_table`.
    most : int
        Rows to draw: all of a file that has no more. Of labelled anomalies all are taken, up to
        half of these; all others have the same chance.
    label, normal : str, optional
        The column of labels, and what normal rows hold there, as in `TableModel.fit`.
    seed : int, default=0
        Of the draw.

    Returns
    -------
    frame, rows : polars.DataFrame and int
        The rows drawn, in their order, and the number of all.

    Examples
    --------
    >>> path = getfixture("tmp_path") / "numbers.csv"
    >>> _ = path.write_text("a\n" + "\n".join(map(str, range(100))))
    >>> frame, rows = read_sample(path, 3)
    >>> frame.height, rows
    (3, 100)
    """
    pl, random = polars_module(), np.random.default_rng(seed)
    with open_table(path, format) as table:
        if label is not None:
            (label,) = check_names([label], table.columns)
        frame, chances, rows = None, np.empty(0), 0
        for part in _parts(table, progress):
            rows += part.height
            frame = part if frame is None else pl.concat([frame, part])
            chances = np.concatenate([chances, random.random(part.height)])  # nosec B311 # NumPy
            if frame.height > 2 * most:  # what cannot be drawn any more makes room
                kinds = np.zeros(frame.height) if label is None else _codes(frame[label])
                stays = _lowest(chances, kinds, most)
                frame, chances = frame.filter(stays), chances[stays]
        _tell_format(table, notes)
    assert frame is not None  # there is one part at least
    if rows <= most:
        return frame, rows
    anomalies = np.zeros(frame.height, dtype=bool)
    if label is not None:
        anomalies = labels_of(frame[label], settle_normal(frame[label], normal)) < 0
    taken = anomalies & _lowest(chances, anomalies, most // 2)
    taken |= ~anomalies & _lowest(chances, anomalies, most - int(taken.sum()))
    return frame.filter(taken), rows


def _tell_format(table: TableFile, notes: list[str] | None) -> None:
    if notes is not None and table.format.words:
        notes.append(f"File: {table.format.words}.")


def _lowest(chances: Host, kinds: Host, most: int) -> Host:
    """Which rows have the lowest numbers of their kind, so many of each at most."""
    order = np.lexsort((chances, kinds))
    starts = np.searchsorted(kinds[order], kinds[order])
    found = np.empty(len(order), dtype=bool)
    found[order] = np.arange(len(order)) - starts < most
    return found


def _codes(column: polars.Series) -> Host:
    """A number for each different cell; 0 where it is empty."""
    if column.dtype.is_nested():  # no label, as is said when all are read
        return np.zeros(len(column))
    return column.cast(polars_module().String).rank("dense").fill_null(0).to_numpy()


def _parts(table: TableFile, progress: Progress | None) -> Iterator[polars.DataFrame]:
    """The rows, some at a time; told of, and of lines that hold nothing."""
    rows = 0
    for chunk in table.chunks(min(MOST_ROWS, max(FEWEST_ROWS, table.rows // 20))):
        yield chunk.frame
        rows += chunk.frame.height
        if progress is not None:
            progress(rows, chunk.share)
    if table.empty:
        warnings.warn(f"{plain(table.name)}: {table.empty_note}", UserWarning, stacklevel=3)


def _check_cells(table: TableFile, rows: int) -> None:
    """Refuse a table that is too large to be held."""
    if rows * len(table.columns) > MOST_CELLS:
        raise ValueError(
            f"{plain(table.name)} has {counted(rows, 'row')} of "
            f"{counted(len(table.columns), 'column')}, more cells than are read at a time "
            f"({MOST_CELLS:,}). Take some of the rows: `lpfuse fit` does, with --sample 100000."
        )
