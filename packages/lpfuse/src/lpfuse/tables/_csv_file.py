"""CSV files and streams, a block at a time: however long one is, few rows are in memory."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import IO, TYPE_CHECKING

from lpfuse._format import plain, quote
from lpfuse._validation.params import counted
from lpfuse.tables._csv_format import (
    MISSING,
    OPEN,
    PLAIN,
    Decoder,
    TableFormat,
    cells_in_records,
    decimals_of,
    found_format,
    with_points,
)
from lpfuse.tables._polars import polars_module
from lpfuse.tables._table_file import Chunk, TableFile, read_errors

if TYPE_CHECKING:
    import polars

HEAD_BYTES = 2**18  # of a CSV file that tell how it is written; chosen by hand
BLOCK_BYTES = 2**22  # of a CSV file that are parsed at a time; chosen by hand
LONGEST_RECORD = 2**26  # bytes; beyond, a quote was forgotten or the file is no CSV
MOST_COLUMNS = 100_000  # of a CSV file, for each takes a kilobyte whatever it holds
# How gzip, zlib, zstd, bzip2, xz and zip begin. polars would unpack the first three, to any size.
PACKED = re.compile(rb"\x1f\x8b|x[\x01\x9c\xda]|\x28\xb5\x2f\xfd|BZh[1-9]1AY|\xfd7zXZ|PK\x03\x04")
UNPACK = "Unpack it first, or pipe it in: gunzip -c FILE | lpfuse … -"


def read_csv(content: bytes, format: TableFormat = PLAIN) -> polars.DataFrame:
    """Cells as texts, without blanks around them; null where a value is missing.

    Parameters
    ----------
    content : bytes
        Header and records, in UTF-8.
    format : TableFormat
        With separator and quotes.
    """
    pl = polars_module()
    content = trimmed(content)
    separator, quote_sign = str(format.separator), _sign(format)
    if not content:
        raise pl.exceptions.NoDataError("empty CSV")
    if b"\0" in content:
        raise pl.exceptions.ComputeError("it holds NUL bytes, as no text does")
    end = first_record_end(content, quote_sign)
    if content.count(separator.encode(), 0, end) >= MOST_COLUMNS:
        raise pl.exceptions.ComputeError(f"it has more than {MOST_COLUMNS:,} columns")
    if quote_sign and content.count(quote_sign) % 2:
        raise pl.exceptions.ComputeError(
            "a quote is never closed; if they are no quotes, say quote='none'"
        )
    sign = quote_sign.decode() if quote_sign else None
    frame = pl.read_csv(content, infer_schema_length=0, separator=separator, quote_char=sign)
    names = dict.fromkeys(frame.columns)
    for name in names:
        if f"{name}_duplicated_0" in names:  # so polars calls the second of that name
            raise pl.exceptions.DuplicateError(f"two columns are called {quote(name)}")
    texts = pl.all().str.strip_chars()
    cells = pl.when(texts.is_in(MISSING)).then(None).otherwise(texts)
    frame = frame.with_columns(cells.name.keep())
    return frame.rename({name: name.strip() for name in names})


def _sign(format: TableFormat) -> bytes:
    """The quotes; empty where there are none."""
    return b"" if format.quote == "none" else str(format.quote).encode()


def trimmed(content: bytes) -> bytes:
    """A CSV file without what may stand before its header: a mark of UTF-8, empty lines."""
    return content.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")


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
    format : TableFormat
        How it is written, as far as that was told; the rest is found in its first bytes.
    head_bytes, block_bytes, longest_record : int
        Bytes that tell how it is written, that are parsed at a time, and that one row may have.
    """

    def __init__(
        self,
        name: str,
        file: IO[bytes],
        size: int | None,
        format: TableFormat = OPEN,
        *,
        head_bytes: int = HEAD_BYTES,
        block_bytes: int = BLOCK_BYTES,
        longest_record: int = LONGEST_RECORD,
    ) -> None:
        self.name, self.size = name, size
        self.block_bytes, self.longest_record = block_bytes, longest_record
        self.bytes_read = self.rows_read = self.lines_read = 0
        self.signs: dict[str, str] | None = None  # decimal signs of columns, once rows are seen
        head = self._head(file, head_bytes)
        self.decoder = Decoder(plain(name), format.encoding, head)
        self.blocks = self._decoded(file, head)
        start = trimmed(next(self.blocks, b""))
        start, told = separator_hint(start, format)
        self.format = found_format(start[:head_bytes].decode(errors="replace"), told)
        self.records = self._records(itertools.chain([start], self.blocks))
        self.header = next(self.records, b"")
        with read_errors(name, "CSV"):
            self.columns = read_csv(self.header, self.format).columns

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
            frame = self._frame(block)
            some = frame.filter(~pl.all_horizontal(pl.all().is_null()))
            if some.height and self.signs is None:
                decimal, self.signs = decimals_of(some, self.format)
                self.format = replace(self.format, decimal=decimal)
            self.empty += frame.height - some.height
            self.rows_read += some.height
            self.lines_read += frame.height
            yield with_points(some, self.signs or {})
        self.format = replace(self.format, encoding=self.decoder.encoding)

    def _frame(self, block: bytes) -> polars.DataFrame:
        with read_errors(self.name, "CSV"):
            try:
                return read_csv(self.header + block, self.format)
            except polars_module().exceptions.PolarsError:
                self._refuse_ragged(block)
                if _sign(self.format) and _sign(self.format) in block:
                    raise ValueError(
                        f"{plain(self.name)} could not be read as CSV: quotes stand within cells, "
                        "or are never closed. If they are no quotes, say quote='none'."
                    ) from None
                raise

    def _refuse_ragged(self, block: bytes) -> None:
        """Say which row has more cells than the header, if that is what is wrong."""
        separator, quote_sign = str(self.format.separator), str(self.format.quote)
        counts = cells_in_records(block.decode(errors="replace"), separator, quote_sign)
        for line, cells in enumerate(counts, start=self.lines_read + 1):
            if cells > len(self.columns):
                called = {"\t": "tab", ",": "comma", ";": "semicolon", "|": "bar"}[separator]
                raise ValueError(
                    f"{plain(self.name)} could not be read as CSV: row {line:,} has "
                    f"{counted(cells, 'cell')}, and the header {len(self.columns):,}. Put quotes "
                    f"around cells that hold a {called}; if columns are separated by something "
                    "else, say separator=SIGN."
                )

    def _head(self, file: IO[bytes], size: int) -> bytes:
        """The first bytes, so many if there are: a stream may give them in pieces."""
        head = b""
        while len(head) < size and (block := file.read(size - len(head))):
            head += block
        self.bytes_read = len(head)
        if PACKED.match(trimmed(head)):
            raise ValueError(f"{plain(self.name)} could not be read as CSV: it is packed. {UNPACK}")
        return head

    def _decoded(self, file: IO[bytes], head: bytes) -> Iterator[bytes]:
        """The file in UTF-8, a block at a time; the first is what tells how it is written."""
        block = head
        while block:
            following = file.read(self.block_bytes)
            yield self.decoder(block, last=not following)
            self.bytes_read += len(following)
            block = following

    def _records(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """The header; then blocks of whole records."""
        header = rest = b""
        sign = _sign(self.format)
        for block in blocks:
            rest += block
            if not header:
                rest = trimmed(rest)
                header, rest = _cut(rest, first_record_end(rest, sign))
                if header:
                    yield header
            whole, rest = _cut(rest, last_record_end(rest, sign)) if header else (b"", rest)
            if whole:
                yield whole
            if len(rest) > self.longest_record:
                raise ValueError(
                    f"{plain(self.name)} could not be read as CSV: a row is longer than "
                    f"{self.longest_record >> 20} MiB. Look for a quote that is never closed."
                )
        if rest:
            yield rest


def separator_hint(start: bytes, format: TableFormat) -> tuple[bytes, TableFormat]:
    """What a first line of ``sep=;`` tells, with which spreadsheets begin some files."""
    hint = re.match(rb"sep=([,;|\t])\r?\n", start)
    if hint is None:
        return start, format
    told = format.separator or hint[1].decode()
    return trimmed(start[hint.end() :]), replace(format, separator=told)


def first_record_end(data: bytes, quote_sign: bytes = b'"') -> int:
    """Where the first record ends: after the first line end that is in no quotes; 0 if nowhere."""
    end = data.find(b"\n")
    quotes = _count(data, quote_sign, 0, end)
    while end >= 0 and quotes % 2:
        after = data.find(b"\n", end + 1)
        quotes += _count(data, quote_sign, end, after)
        end = after
    return end + 1


def last_record_end(data: bytes, quote_sign: bytes = b'"') -> int:
    """Where the last complete record ends; 0 if nowhere."""
    end = data.rfind(b"\n")
    quotes = _count(data, quote_sign, 0, max(0, end))
    while end >= 0 and quotes % 2:
        before = data.rfind(b"\n", 0, end)
        quotes -= _count(data, quote_sign, before + 1, end)
        end = before
    return end + 1


def _count(data: bytes, quote_sign: bytes, start: int, end: int) -> int:
    return data.count(quote_sign, start, end) if quote_sign else 0


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
