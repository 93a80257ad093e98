"""The times of rows of a stream: rows that step back are noted, late ones put in their order."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from typing import Any

import numpy as np

from lpfuse._format import quote
from lpfuse.frames.cells import polars_module
from lpfuse_cli.times import TimeReader
from lpfuse_cli.watch.batches import BACKWARDS, LACKS, NO_TIME, Batch, Note, Rows

MARK = "\0"  # begins names of columns of waiting rows that are none of the user's
NUMBER, SECONDS = f"{MARK}row", f"{MARK}seconds"


class Clock:
    """Drop rows whose time is earlier than that of the row before.

    A row is not compared with the latest time of all: one clock that is wrong by a century would
    cost all rows after it.

    Parameters
    ----------
    column : str
        A column of times, dates with times, or numbers.
    reader : TimeReader, optional
        Of a model with time.
    late : float, default=0
        Seconds that rows may come late: so long rows wait, and are put in the order of their times.
    """

    def __init__(self, column: str, reader: TimeReader | None = None, late: float = 0.0) -> None:
        self.column, self.late = column, late
        self.reader = TimeReader() if reader is None else reader
        self.last: float | None = None  # of the row before
        self.waiting: Any = None  # rows that came and are not due yet, with their numbers and marks

    def state(self) -> dict[str, Any]:
        """Return the state for `restore`, as JSON values."""
        reader, waiting = self.reader, None
        if self.n_waiting:
            content = BytesIO()
            self.waiting.write_ipc(content)
            waiting = b64encode(content.getvalue()).decode()
        clock = {"order": reader.order, "written": reader.last, "shift": reader.shift}
        return {**clock, "last": self.last, "waiting": waiting}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore from `state()`."""
        self.reader.order, self.last = state.get("order"), state.get("last")
        self.reader.last, self.reader.shift = state.get("written"), state.get("shift") or 0.0
        if state.get("waiting"):
            try:
                self.waiting = polars_module().read_ipc(BytesIO(b64decode(state["waiting"])))
                self.waiting.select(NUMBER, SECONDS)
            except Exception as error:  # whatever a forged one raises
                raise ValueError("The rows that wait in the state are damaged.") from error

    @property
    def n_waiting(self) -> int:
        """Number of rows that wait."""
        return 0 if self.waiting is None else int(self.waiting.height)

    def before(self, row: int) -> int:
        """Return the number of the row before which no row waits, at most `row`."""
        return min(row, int(self.waiting[NUMBER].min()) - 1) if self.n_waiting else row

    def in_order(self, batch: Batch, columns: Callable[..., Any]) -> Batch:
        """Return a batch of rows in the order of their times, and with the state in its position.

        Parameters
        ----------
        batch : Batch
            As it came.
        columns : callable
            Of a batch and numbers: the columns that locate rows.
        """
        rows = batch.load()
        rows = self.drop_steps_back(rows) if not self.late else self._due(batch, rows, columns)
        position = {"source": batch.position, "clock": self.state()}
        return replace(
            batch, load=lambda: rows, position=position, marks=self._marks or batch.marks
        )

    _marks: dict[str, Any] | None = None

    def last_rows(self, position: dict[str, Any], last: int) -> Batch:
        """Return the rows that wait as a batch, at the end of the source."""
        rows = self._released(self.waiting, [])
        self.waiting = None
        here = {"source": position, "clock": self.state()}
        return Batch(lambda: rows, here, last, marks=self._marks or {})

    def drop_steps_back(self, rows: Rows) -> Rows:
        """Drop rows that step back, or whose time cannot be read."""
        rows = self._with_seconds(rows)
        if not rows.frame.height:
            return rows
        times = rows.seconds
        assert times is not None
        before = np.append(np.nan if self.last is None else self.last, times[:-1])
        self.last = float(times[-1])
        return self._noted(rows, times < before, BACKWARDS)

    def _with_seconds(self, rows: Rows) -> Rows:
        """Read the times, and drop rows where that fails."""
        n = rows.frame.height
        if not n:
            return rows._replace(seconds=np.empty(0))
        if self.column not in rows.frame.columns:
            lost = [Note(LACKS, int(row), quote(self.column)) for row in rows.numbers]
            return rows._replace(seconds=np.empty(n)).only(np.zeros(n, bool), lost)
        times = self.reader.seconds(rows.frame[self.column])
        return self._noted(rows._replace(seconds=times), np.isnan(times), NO_TIME)

    def _noted(self, rows: Rows, wrong: Any, kind: str) -> Rows:
        """Drop rows, with a note for each."""
        lost = [
            Note(kind, int(rows.numbers[k]), str(rows.frame[self.column][k]))
            for k in np.flatnonzero(wrong).tolist()
        ]
        return rows.only(~wrong, lost)

    def _due(self, batch: Batch, rows: Rows, columns: Callable[..., Any]) -> Rows:
        """Let rows wait; return those that nothing may come before any more, in their order."""
        pl = polars_module()
        rows = self._with_seconds(rows)
        times = rows.seconds
        assert times is not None
        if self.last is not None:
            rows = self._noted(rows, times < self.last, BACKWARDS)
        marks = columns(batch, rows.numbers)
        own = {f"{MARK}{name}": marks[name] for name in marks.columns}
        here = rows.frame.with_columns(
            pl.Series(SECONDS, rows.seconds), *(column.alias(name) for name, column in own.items())
        )
        both = [each for each in (self.waiting, here) if each is not None and each.height]
        if not both:
            return Rows(rows.frame, rows.numbers, rows.notes, rows.seconds)
        waiting = pl.concat(both, how="diagonal_relaxed").sort(SECONDS, NUMBER)
        is_due = waiting[SECONDS] <= float(waiting[SECONDS].max()) - self.late
        self.waiting = waiting.filter(~is_due)
        return self._released(waiting.filter(is_due), rows.notes)

    def _released(self, frame: Any, notes: list[Note]) -> Rows:
        """Return rows that waited, and remember where they come from."""
        numbers, seconds = frame[NUMBER].to_numpy(), frame[SECONDS].to_numpy()
        if len(seconds):
            self.last = float(seconds[-1])
        marks = [name for name in frame.columns if name.startswith(MARK)]
        self._marks = {
            name[1:]: dict(zip(numbers.tolist(), frame[name].to_list(), strict=True))
            for name in marks
            if name not in (NUMBER, SECONDS)
        }
        return Rows(frame.drop(marks), numbers, notes, seconds)
