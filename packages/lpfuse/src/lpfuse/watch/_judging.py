"""From rows as they came to verdicts, on any thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse._format import plain, quote
from lpfuse.frames import TableModel
from lpfuse.frames.cells import polars_module
from lpfuse.watch._batch import LACKS, NO_NUMBER, Batch, Note, Numbers, Rows

if TYPE_CHECKING:
    import polars

    from lpfuse.ensemble.components import Verdicts

ROW = "row"  # the column of the output that tells the place in the stream


@dataclass(frozen=True)
class Judged:
    """What came of a batch.

    Attributes
    ----------
    batch : Batch
        As it was read.
    table : polars.DataFrame or None
        Lines of the output; None where no row could be judged.
    notes : list of Note
        Of rows that were not judged, in their order.
    remarks : Counter of str
        What is new in rows that were judged all the same.
    X, verdicts : ndarray of shape (m, d) and Verdicts, or None
        Of the rows that hold a value, for the monitor of drift.
    prepared : object
        The lines as the output takes them.
    """

    batch: Batch
    table: polars.DataFrame | None
    notes: list[Note]
    remarks: Counter[str]
    X: Host | None = None
    verdicts: Verdicts | None = None
    prepared: Any = None

    def some_rows(self, most: int) -> tuple[Host, Verdicts]:
        """Features and verdicts of so many rows at most, evenly spaced."""
        assert self.X is not None
        assert self.verdicts is not None
        step = -(-len(self.X) // most)
        return _rows_of(self.X, self.verdicts, slice(None, None, step))


def _rows_of(X: Host, verdicts: Verdicts, which: Any) -> tuple[Host, Verdicts]:
    X = X[which]
    cut: list[Any] = [None if part is None else part[which] for part in verdicts]
    return X, type(verdicts)(*cut).of_rows(X, verdicts.detector_names)


def judge(
    model: TableModel,
    batch: Batch,
    keep: list[str],
    prepare: Callable[[polars.DataFrame], Any],
) -> Judged:
    """Judge the rows of a batch that can be judged, and note the others.

    Parameters
    ----------
    model : TableModel
        Fitted.
    batch : Batch
        Rows.
    keep : list of str
        Columns to stand before the scores; empty where rows lack them.
    prepare : callable
        Makes of lines of the output what it takes.
    """
    rows = batch.load()
    notes = [*batch.notes, *rows.notes]
    rows = _with_columns(model, rows, notes)
    found = None
    try:
        found = model.judged(rows.frame) if rows.frame.height else None
    except ValueError:
        rows = _without_wrong_cells(model, rows, notes)
        found = model.judged(rows.frame) if rows.frame.height else None
    except polars_module().exceptions.PolarsError as error:  # cells of a type that is no text
        told = plain(str(error).partition("\n")[0])
        notes += [Note(NO_NUMBER, int(row), told) for row in rows.numbers]
    notes.sort(key=lambda note: note.row)
    if found is None:
        return Judged(batch, None, notes, Counter())
    table = _places(batch, rows.numbers).hstack(_kept(rows.frame, keep)).hstack(found.table)
    remarks = model.preparation.new_in(rows.frame)
    X, verdicts = found.X, found.verdicts
    if found.nothing.any():
        X, verdicts = _rows_of(X, verdicts, ~found.nothing)
    return Judged(batch, table, notes, remarks, X, verdicts, prepare(table))


def _with_columns(model: TableModel, rows: Rows, notes: list[Note]) -> Rows:
    """No rows where their table lacks columns."""
    lacking = [name for name in model.preparation.columns if name not in rows.frame.columns]
    if not lacking or not rows.frame.height:
        return rows
    told = ", ".join(map(quote, lacking))
    notes += [Note(LACKS, int(row), told) for row in rows.numbers]
    return Rows(rows.frame.clear(), rows.numbers[:0], rows.notes)


def _without_wrong_cells(model: TableModel, rows: Rows, notes: list[Note]) -> Rows:
    """The rows whose cells are all numbers and dates where the model wants such."""
    wrong = model.preparation.wrong_cells(rows.frame)
    bad = np.zeros(rows.frame.height, bool)
    for name, where in wrong.items():
        new = where.to_numpy() & ~bad
        cells = rows.frame[name]
        notes += [
            Note(NO_NUMBER, int(rows.numbers[k]), f"{quote(name)} holds {quote(cells[k])}")
            for k in np.flatnonzero(new).tolist()
        ]
        bad |= new
    if not bad.any():  # something else is wrong, which no row can be blamed for
        return rows
    good = ~bad
    frame = rows.frame.filter(polars_module().Series(good))
    return Rows(frame, rows.numbers[good], rows.notes)


def _places(batch: Batch, numbers: Numbers) -> polars.DataFrame:
    """The numbers of rows, and where they come from."""
    columns: dict[str, Any] = {ROW: numbers}
    for name, value in batch.marks.items():
        if isinstance(value, np.ndarray):
            value = value[numbers - (batch.last - len(value) + 1)]
        columns[name] = value
    return polars_module().DataFrame(columns)


def _kept(frame: polars.DataFrame, keep: list[str]) -> polars.DataFrame:
    pl = polars_module()
    columns = []
    for name in keep:
        column = frame[name] if name in frame.columns else pl.Series([None] * frame.height)
        if column.dtype.is_nested() or column.dtype in (pl.Binary, pl.Object, pl.Null):
            texts = [None if cell is None else str(cell) for cell in column]
            column = pl.Series(texts, dtype=pl.String)
        columns.append(column.alias(name))
    return pl.DataFrame(columns)
