"""Tables in files, whole or in chunks: however long the file, few rows are held at a time."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from lpfuse.tables._files import (
    check_readable,
    kind_of,
    plain_errors,
    polars_module,
    read_csv,
    read_frame,
    trimmed,
)

if TYPE_CHECKING:
    import polars

STANDARD = "-"  # the name of standard input and output
BLOCK_BYTES = 2**22  # of a CSV file that are parsed at a time
LONGEST_RECORD = 2**26  # bytes; beyond, a quote was forgotten or the file is no CSV


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows of a table.

    Attributes
    ----------
    frame : polars.DataFrame
        The rows; the cells of a CSV file are texts.
    start : int
        Rows before them.
    share : float or None
        How much of the file is read by now; None where its length is not known.
    """

    frame: polars.DataFrame
    start: int
    share: float | None


def read_table(path: str | Path) -> polars.DataFrame:
    """A whole table.

    Parameters
    ----------
    path : str or path
        A ``.csv``, ``.parquet``, ``.arrow`` or ``.feather`` file; ``-`` for CSV on standard input.
    """
    if str(path) == STANDARD:
        with plain_errors("Standard input", "CSV"):
            frame = read_csv(sys.stdin.buffer.read())
    else:
        frame = read_frame(Path(path).expanduser())
    refuse_other_separators(str(path), frame.columns)
    return frame


def refuse_other_separators(name: str, columns: list[str]) -> None:
    """Refuse a CSV file whose columns are not told apart by commas."""
    for mark, called in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
        if len(columns) == 1 and mark in columns[0]:
            raise ValueError(
                f"{name} has {called} between its columns, {columns[0]!r}, where commas are "
                "expected. Save it with commas."
            )


class TableFile:
    """An open table: the names of its columns, and its rows in chunks."""

    name: str
    columns: list[str]

    def chunks(self, rows: int) -> Iterator[Chunk]:
        """All rows, so many at a time; one chunk at least, without rows where the table has none.

        Parameters
        ----------
        rows : int
            Rows of a chunk; the last one may have fewer.
        """
        raise NotImplementedError


@contextmanager
def open_table(path: str | Path) -> Iterator[TableFile]:
    """A table that may be larger than the memory.

    Parameters
    ----------
    path : str or path
        As in `read_table`.
    """
    if str(path) == STANDARD:
        yield CsvFile("Standard input", sys.stdin.buffer, None)
        return
    path = Path(path).expanduser()
    check_readable(path)
    if kind_of(path) != "CSV":
        yield ColumnarFile(path)
        return
    with path.open("rb") as file:
        yield CsvFile(path.name, file, path.stat().st_size)


class ColumnarFile(TableFile):
    """A Parquet or Arrow file, which knows where its rows are."""

    def __init__(self, path: Path) -> None:
        pl = polars_module()
        self.name, self.kind = path.name, kind_of(path)
        with plain_errors(self.name, self.kind):
            scan = {"PARQUET": pl.scan_parquet, "ARROW": pl.scan_ipc}[self.kind]
            self.scan = scan(path, glob=False)
            self.columns = self.scan.collect_schema().names()
            self.rows: int = self.scan.select(pl.len()).collect().item()

    def chunks(self, rows: int) -> Iterator[Chunk]:
        """All rows, so many at a time."""
        for start in range(0, max(1, self.rows), rows):
            with plain_errors(self.name, self.kind):
                frame = self.scan.slice(start, rows).collect()
            yield Chunk(frame, start, min(1.0, (start + rows) / max(1, self.rows)))


class CsvFile(TableFile):
    """A CSV file or stream, read once from its beginning to its end."""

    def __init__(self, name: str, file: IO[bytes], size: int | None) -> None:
        self.name, self.size = name, size
        self.bytes_read = self.rows_read = 0
        self.records = self._records(file)
        self.header = next(self.records, b"")
        with plain_errors(name, "CSV"):
            self.columns = read_csv(self.header).columns
        refuse_other_separators(name, self.columns)

    def chunks(self, rows: int) -> Iterator[Chunk]:
        """All rows, so many at a time."""
        start = 0
        for frame in regrouped(self._frames(), rows):
            end = start + frame.height
            read = self.bytes_read / max(1, self.size) if self.size is not None else None
            # Of what is read, some rows may still wait for their turn.
            yield Chunk(frame, start, read and min(1.0, read * end / max(1, self.rows_read)))
            start = end

    def _frames(self) -> Iterator[polars.DataFrame]:
        for block in itertools.chain([b""], self.records):
            with plain_errors(self.name, "CSV"):
                frame = read_csv(self.header + block)
            self.rows_read += frame.height
            yield frame

    def _records(self, file: IO[bytes]) -> Iterator[bytes]:
        """The header; then blocks of whole records."""
        header = rest = b""
        while block := file.read(BLOCK_BYTES):
            self.bytes_read += len(block)
            rest += block
            if not header:
                rest = trimmed(rest)
                header, rest = _cut(rest, first_record_end(rest))
                if header:
                    yield header
            whole, rest = _cut(rest, last_record_end(rest)) if header else (b"", rest)
            if whole:
                yield whole
            if len(rest) > LONGEST_RECORD:
                raise ValueError(
                    f"{self.name} could not be read as CSV: a row is longer than "
                    f"{LONGEST_RECORD >> 20} MiB. Look for a quote that is never closed."
                )
        if rest:
            yield rest


def first_record_end(data: bytes) -> int:
    """Where the first record ends: after the first line end that is in no quotes; 0 if nowhere."""
    end = data.find(b"\n")
    quotes = data.count(b'"', 0, end)
    while end >= 0 and quotes % 2:
        after = data.find(b"\n", end + 1)
        quotes += data.count(b'"', end, after)
        end = after
    return end + 1


def last_record_end(data: bytes) -> int:
    """Where the last complete record ends; 0 if nowhere."""
    end = data.rfind(b"\n")
    quotes = data.count(b'"', 0, max(0, end))
    while end >= 0 and quotes % 2:
        before = data.rfind(b"\n", 0, end)
        quotes -= data.count(b'"', before + 1, end)
        end = before
    return end + 1


def _cut(data: bytes, end: int) -> tuple[bytes, bytes]:
    return data[:end], data[end:]


def regrouped(frames: Iterable[polars.DataFrame], rows: int) -> Iterator[polars.DataFrame]:
    """The same rows, so many at a time; one frame at least, if there is one."""
    waiting: list[polars.DataFrame] = []
    some = False
    for frame in frames:
        waiting.append(frame)
        if sum(part.height for part in waiting) >= rows:
            joined = polars_module().concat(waiting)
            whole = joined.height // rows * rows
            for start in range(0, whole, rows):
                yield joined.slice(start, rows)
            waiting, some = [joined.slice(whole)], True
    left = polars_module().concat(waiting)
    if left.height or not some:
        yield left
