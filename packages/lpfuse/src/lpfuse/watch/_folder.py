"""A folder that complete CSV and Parquet files are put into."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from time import monotonic, time
from typing import Any

import numpy as np

from lpfuse._files import missing_file_message
from lpfuse._format import plain
from lpfuse.frames import TableFormat
from lpfuse.watch._batch import UNREADABLE, Batch, Note, Rows
from lpfuse.watch._csv_text import CsvText
from lpfuse.watch._source import BLOCK, Source
from lpfuse_cli.csv_files import read_errors
from lpfuse_cli.tables import READABLE, ColumnarFile, kind_of

UNFINISHED = (".", "_", "~")  # how names begin of files that somebody is still writing


class Folder(Source):
    """Files in the order of their names, each once, when it has not changed for a while.

    Names that begin with a dot, an underscore or a tilde, and suffixes of no table, are left out:
    so a file can be written under such a name, and renamed when it is whole.

    Parameters
    ----------
    path : path-like
        The folder.
    format : TableFormat
        How CSV files in it are written, as far as that was told.
    settle : float
        Seconds that a file must not have changed.
    once : bool
        Whether the source ends with the files that are there now.
    """

    mark_names = ("file",)

    def __init__(self, path: Any, format: TableFormat, settle: float, once: bool) -> None:
        self.path = Path(path).expanduser()
        if not self.path.is_dir():
            raise FileNotFoundError(missing_file_message(self.path))
        self.name, self.format = str(self.path.resolve()), format
        self.settle, self.once = settle, once
        self.done: set[str] = set()
        self.row = 0
        self._file: _CsvFile | _Columnar | None = None
        self._seen: dict[str, tuple[tuple[int, int], float]] = {}

    def open(self, position: dict[str, Any] | None) -> None:
        """Begin, or go on within the file that was being read, if it is still the same."""
        if position is None:
            return
        self.row = position["row"]
        name = position.get("file")
        if name is not None and Path(name).name == name and (self.path / name).exists():
            self._file = self._opened(name, position)

    def were_taken(self, names: list[str]) -> None:
        """Files that ended before the position."""
        self.done = set(names)

    def take(self, most: int, everything: bool) -> Batch | None:
        """Rows of one file, or a note that it cannot be read."""
        if self._file is None:
            name = self._next_name()
            if name is None:
                return None
            try:
                self._file = self._opened(name, None)
            except (ValueError, OSError) as error:
                return self._unreadable(name, error)
        name = self._file.name
        try:
            batch = self._file.take(most)
        except (ValueError, OSError) as error:
            return self._unreadable(name, error)
        if batch is None:  # a table without rows
            batch = Batch(_no_rows, {}, self.row)
        self.row = batch.last
        more = not self._file.over
        position = {"row": self.row, "file": name, **batch.position} if more else {"row": self.row}
        if not more:
            self._forget(name)
        finished = [] if more else [name]
        return Batch(batch.load, position, self.row, batch.notes, {"file": name}, finished)

    def _opened(self, name: str, position: dict[str, Any] | None) -> _CsvFile | _Columnar:
        kind = kind_of(self.path / name)
        made = _CsvFile if kind == "CSV" else _Columnar
        return made(self.path / name, self.format, self.row, position)

    def _forget(self, name: str) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None
        self.done.add(name)
        self._seen.pop(name, None)

    def _unreadable(self, name: str, error: Exception) -> Batch:
        self._forget(name)
        note = Note(UNREADABLE, self.row, f"{name}: {error}")
        return Batch(_no_rows, {"row": self.row}, self.row, [note], {"file": name}, [name])

    def _next_name(self) -> str | None:
        """The first file that is whole; None where there is none now."""
        waiting = False
        with os.scandir(self.path) as entries:
            new = sorted(entry.name for entry in entries if self._is_new(entry.name))
        for name in new:
            try:
                status = (self.path / name).stat()
            except FileNotFoundError:
                continue
            if not os.path.isfile(self.path / name):
                continue
            if self._has_settled(name, status):
                return name
            waiting = True
        self.ended = self.once and not waiting
        return None

    def _is_new(self, name: str) -> bool:
        suffix = Path(name).suffix.casefold()
        table = suffix in READABLE and READABLE[suffix] != "EXCEL"
        return table and name not in self.done and not name.startswith(UNFINISHED)

    def _has_settled(self, name: str, status: os.stat_result) -> bool:
        """By the clock of the file system, or, where that is wrong, by our own."""
        if time() - status.st_mtime >= self.settle:
            return True
        now, face = monotonic(), (status.st_size, status.st_mtime_ns)
        before, since = self._seen.get(name, (None, now))
        if before != face:
            since = now
        self._seen[name] = (face, since)
        return now - since >= self.settle

    def close(self) -> None:
        """Close the file that is being read."""
        if self._file is not None:
            self._file.close()


def _no_rows() -> Rows:
    from lpfuse.frames.cells import polars_module

    return Rows(polars_module().DataFrame(), np.empty(0, np.int64), [])


class _CsvFile:
    """A whole CSV file, a block at a time."""

    def __init__(
        self, path: Path, format: TableFormat, row: int, position: dict[str, Any] | None
    ) -> None:
        self.name, self.over = path.name, False
        self._text = CsvText(path.name, format, row)
        self._file = path.open("rb")
        self._is_read = False
        try:
            while not self._text.read_header() and not self._is_read:
                self._read()
        except ValueError:
            self._file.close()
            raise
        if position is not None and not self._is_read:
            self._text.settle(position)
            self._text.skip_to(position["offset"])
            self._file.seek(position["offset"])
        elif position is not None:
            self._text.settle(position)
            self._text.drop_before(position["offset"])

    def _read(self) -> None:
        data = self._file.read(BLOCK)
        if data:
            self._text.add(data)
        else:
            self._is_read = True
            self._text.end()

    def take(self, most: int) -> Batch | None:
        while self._text.available() < most and not self._is_read:
            self._read()
        batch = self._text.take(most)
        self.over = self._is_read and not self._text.available()
        return batch

    def close(self) -> None:
        self._file.close()


class _Columnar:
    """A Parquet or Arrow file, by slices."""

    def __init__(
        self, path: Path, format: TableFormat, row: int, position: dict[str, Any] | None
    ) -> None:
        self.name, self.row = path.name, row
        self._table = ColumnarFile(path)
        self._done = 0 if position is None else position["within"]
        self.over = self._done >= self._table.rows

    def take(self, most: int) -> Batch | None:
        first = self._done
        count = min(most, self._table.rows - first)
        if count <= 0:
            self.over = True
            return None
        numbers = self.row + np.arange(1, count + 1)
        self._done, self.row = first + count, self.row + count
        self.over = self._done >= self._table.rows
        load = partial(_slice, self._table, first, numbers)
        return Batch(load, {"within": self._done}, self.row)

    def close(self) -> None:
        """Nothing is held open."""


def _slice(table: ColumnarFile, first: int, numbers: Any) -> Rows:
    try:
        with read_errors(table.name, table.kind):
            return Rows(table.scan.slice(first, len(numbers)).collect(), numbers, [])
    except (ValueError, OSError) as error:  # a part of the file is damaged
        told = f"{plain(table.name)}: {error}"
        notes = [Note(UNREADABLE, int(row), told) for row in numbers]
        return Rows(_no_rows().frame, numbers[:0], notes)
