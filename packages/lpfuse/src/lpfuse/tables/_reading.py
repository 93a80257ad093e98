"""Tables in files, in chunks: however long a file is, few rows are in memory at a time."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import IO, TYPE_CHECKING

from lpfuse._checks.messages import counted
from lpfuse._files import no_file
from lpfuse._format import plain, quote

if TYPE_CHECKING:
    import polars

STANDARD = "-"  # the name of standard input and output
KINDS = {".arrow": "ARROW", ".feather": "ARROW", ".csv": "CSV", ".parquet": "PARQUET"}
# Cells of a CSV file that hold no value, as spreadsheets, R, pandas and SQL write them.
MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "null", "NULL")
BLOCK_BYTES = 2**22  # of a CSV file that are parsed at a time; chosen by hand
LONGEST_RECORD = 2**26  # bytes; beyond, a quote was forgotten or the file is no CSV
MOST_COLUMNS = 100_000  # of a CSV file, for each takes a kilobyte whatever it holds
# How gzip, zlib, zstd, bzip2, xz and zip begin. polars would unpack the first three, to any size.
PACKED = re.compile(rb"\x1f\x8b|x[\x01\x9c\xda]|\x28\xb5\x2f\xfd|BZh[1-9]1AY|\xfd7zXZ|PK\x03\x04")
UNPACK = "Unpack it first, or pipe it in: gunzip -c FILE | lpfuse … -"


def polars_module() -> ModuleType:
    """polars, which is imported when a table is read, and not before."""
    try:
        import polars
    except ImportError as error:
        raise ImportError('Tables are read by polars: pip install "lpfuse[cli]"') from error
    return polars


def kind_of(path: Path) -> str:
    """What a table is stored as, by the suffix of its name: CSV, PARQUET or ARROW."""
    kind = KINDS.get(path.suffix.casefold())
    if kind is None:
        *others, last = KINDS
        raise ValueError(
            f"Tables are read from {', '.join(others)} and {last} files, not from "
            f"{quote(path.name)}. Save it as one. Is it packed? {UNPACK}"
        )
    return kind


def _check_readable(path: Path) -> None:
    """Refuse what is no file."""
    if not path.exists():
        raise FileNotFoundError(no_file(path))
    if not path.is_file():
        raise ValueError(f"{quote(str(path))} is not a file. Name one table, .csv or .parquet.")


@contextmanager
def read_errors(name: str, kind: str) -> Iterator[None]:
    """Say in one sentence why a file cannot be read."""
    pl = polars_module()
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        if getattr(error, "errno", None) is not None:  # of the system, and no fault of the file
            raise
        reason = plain(str(error).partition("\n")[0].rstrip(" .:"))
        raise ValueError(
            f"{plain(name)} could not be read as {kind}: {reason}. Check that it is complete and "
            f"in that format{', in UTF-8' if 'utf' in reason.casefold() else ''}."
        ) from error


def read_csv(content: bytes) -> polars.DataFrame:
    """Cells as texts, without blanks around them; null where a value is missing."""
    pl = polars_module()
    content = trimmed(content)
    if not content:
        raise pl.exceptions.NoDataError("empty CSV")
    if PACKED.match(content):
        raise pl.exceptions.ComputeError(f"it is packed. {UNPACK}")
    if b"\0" in content:
        raise pl.exceptions.ComputeError("it holds NUL bytes, as UTF-16 does")
    if content.count(b",", 0, first_record_end(content)) >= MOST_COLUMNS:
        raise pl.exceptions.ComputeError(f"it has more than {MOST_COLUMNS:,} columns")
    if content.count(b'"') % 2:
        raise pl.exceptions.ComputeError("a quote is never closed")
    frame = pl.read_csv(content, infer_schema_length=0)
    names = dict.fromkeys(frame.columns)
    for name in names:
        if f"{name}_duplicated_0" in names:  # so polars calls the second of that name
            raise pl.exceptions.DuplicateError(f"two columns are called {quote(name)}")
    texts = pl.all().str.strip_chars()
    cells = pl.when(texts.is_in(MISSING)).then(None).otherwise(texts)
    frame = frame.with_columns(cells.name.keep())
    return frame.rename({name: name.strip() for name in names})


def trimmed(content: bytes) -> bytes:
    """A CSV file without what may stand before its header: a mark of UTF-8, empty lines."""
    return content.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")


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


def refuse_other_separators(name: str, columns: list[str]) -> None:
    """Refuse a CSV file whose columns are separated by something else than commas."""
    for mark, called in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
        if len(columns) == 1 and mark in columns[0]:
            raise ValueError(
                f"{plain(name)} has {called} between its columns, {quote(columns[0])}, where "
                "commas are expected. Save it with commas."
            )


class TableFile:
    """An open table: the names of its columns, and its rows in chunks."""

    name: str
    columns: list[str]
    rows = 0  # where that is known before they are read
    empty = 0  # lines of a CSV file, among those read, that were left out: they hold no value

    @property
    def empty_note(self) -> str:
        """How many lines were left out, in a sentence."""
        return f"Left out, for there is no value in it: {counted(self.empty, 'line')}."

    def chunks(self, rows: int) -> Iterator[Chunk]:
        """All rows, so many at a time; one chunk at least, without rows where there are none."""
        raise NotImplementedError


@contextmanager
def open_table(path: str | Path) -> Iterator[TableFile]:
    """Open a table that may be larger than the memory.

    Parameters
    ----------
    path : str or path
        As in `lpfuse.tables.read_table`.
    """
    if str(path) == STANDARD:
        yield CsvFile("Standard input", sys.stdin.buffer, None)
        return
    path = Path(path).expanduser()
    _check_readable(path)
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
        with read_errors(self.name, self.kind):
            scan = {"PARQUET": pl.scan_parquet, "ARROW": pl.scan_ipc}[self.kind]
            self.scan = scan(path, glob=False)
            self.columns = self.scan.collect_schema().names()
            self.rows = self.scan.select(pl.len()).collect().item()

    def chunks(self, rows: int) -> Iterator[Chunk]:
        """All rows, so many at a time."""
        for start in range(0, max(1, self.rows), rows):
            with read_errors(self.name, self.kind):
                frame = self.scan.slice(start, rows).collect()
            yield Chunk(frame, start, min(1.0, (start + rows) / max(1, self.rows)))


class CsvFile(TableFile):
    """A CSV file or stream, read once from its beginning to its end.

    Parameters
    ----------
    name : str
        For messages.
    file : binary file
        Where it is read from.
    size : int or None
        Its bytes; None where they are not known.
    block_bytes, longest_record : int
        Bytes that are parsed at a time, and that one row may have.
    """

    def __init__(
        self,
        name: str,
        file: IO[bytes],
        size: int | None,
        block_bytes: int = BLOCK_BYTES,
        longest_record: int = LONGEST_RECORD,
    ) -> None:
        self.name, self.size = name, size
        self.block_bytes, self.longest_record = block_bytes, longest_record
        self.bytes_read = self.rows_read = 0
        self.records = self._records(file)
        self.header = next(self.records, b"")
        with read_errors(name, "CSV"):
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
        pl = polars_module()
        for block in itertools.chain([b""], self.records):
            with read_errors(self.name, "CSV"):
                frame = read_csv(self.header + block)
            some = frame.filter(~pl.all_horizontal(pl.all().is_null()))
            self.empty += frame.height - some.height
            self.rows_read += some.height
            yield some

    def _records(self, file: IO[bytes]) -> Iterator[bytes]:
        """The header; then blocks of whole records."""
        header = rest = b""
        while block := file.read(self.block_bytes):
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
            if len(rest) > self.longest_record:
                raise ValueError(
                    f"{plain(self.name)} could not be read as CSV: a row is longer than "
                    f"{self.longest_record >> 20} MiB. Look for a quote that is never closed."
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
