"""Tables in files: read whole, sampled or in chunks, and written row by row."""

from __future__ import annotations

import codecs
import csv
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from io import StringIO
from itertools import islice
from typing import IO, TYPE_CHECKING, Any

from lpfuse._format import plain, quote
from lpfuse._validation.params import Labels, check_count, counted, is_gap, quoted
from lpfuse.frames import TableFormat, TablePreparation
from lpfuse.frames.cells import LIMIT, OPEN, SEPARATORS, decimal_signs, plain_numbers, polars_module

if TYPE_CHECKING:
    import polars

    from lpfuse.ensemble import FusedDetector
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import BadZipFile, ZipFile
from zlib import error as DeflateError

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse._files import check_writable, missing_file_message, replacing, write_errors
from lpfuse.frames.cells import as_polars, check_names, labels_of

__all__ = ["check_table_target", "read_sample", "read_table", "table_writer"]


# --------------------------------------------------------------------------------------------------
# CSV files and streams: how they are written, and their rows a block at a time.


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


class TableFile:
    """An open table: the names of its columns, and its rows in chunks."""

    name: str
    columns: list[str]
    rows = 0  # where that is known before they are read
    format = OPEN  # how it is written, as far as that was found
    first = 1  # number of the first row; 2 where a header stands above it, as in a spreadsheet
    left_out: tuple[int, ...] = ()  # positions, among the rows read, of those without any value
    # What may be meant where the columns are others than expected: a subject, and a sentence.
    hints: tuple[tuple[str, str], ...] = ()

    @property
    def empty(self) -> int:
        """How many rows, among those read, were left out: they hold no value."""
        return len(self.left_out)

    def numbers(self, rows: int, start: int = 0) -> Host:
        """Return the numbers of rows that were read, as a spreadsheet shows them.

        Parameters
        ----------
        rows, start : int
            How many, and how many before these, without rows that were left out.
        """
        every = np.arange(start + rows + self.empty)
        kept: Host = np.delete(every, [at for at in self.left_out if at < len(every)])
        return kept[start : start + rows] + self.first

    @property
    def empty_note(self) -> str:
        """How many lines were left out, in a sentence."""
        return f"Left out, for there is no value in it: {counted(self.empty, 'line')}."

    def chunks(self, rows: int) -> Iterator[Chunk]:
        """All rows, so many at a time; one chunk at least, without rows where there are none."""
        raise NotImplementedError


@contextmanager
def read_errors(name: str, kind: str) -> Iterator[None]:
    """Say in one sentence why a file cannot be read."""
    pl = polars_module()
    try:
        yield
    except pl.exceptions.DuplicateError as error:
        raise ValueError(f"{plain(name)} could not be read as {kind}: {plain(error)}.") from error
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        if getattr(error, "errno", None) is not None:  # of the system, and no fault of the file
            raise
        reason = plain(str(error).partition("\n")[0].rstrip(" .:"))
        raise ValueError(
            f"{plain(name)} could not be read as {kind}: {reason}. Check that it is complete and "
            f"in that format{', in UTF-8' if 'utf' in reason.casefold() else ''}."
        ) from error


# --------------------------------------------------------------------------- how a file is written

# Cells that hold no value, as spreadsheets, R, pandas and SQL write them.
MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "null", "NULL")
RECORDS = 200  # of a file that are looked at for its separator; chosen by hand


PLAIN = TableFormat(",", ".", "utf-8", '"')

# ---------------------------------------------------------------------------------------- encoding


class Decoder:
    """Blocks of a file as UTF-8.

    Without a name for it, a file is UTF-8 or UTF-16; one whose first sign beyond ASCII is no UTF-8
    is of Windows (cp1252, which includes what people call latin-1). That rests on that sign alone,
    and so does not depend on where blocks end.

    Parameters
    ----------
    name : str
        Of the file, for messages.
    encoding : str or None
        As told.
    head : bytes
        How the file begins.
    """

    def __init__(self, name: str, encoding: str | None, head: bytes) -> None:
        self.name = name
        self.is_open = encoding is None
        self.encoding = encoding or _detect_utf16(head) or "utf-8"
        self._codec = codecs.getincrementaldecoder(self.encoding)()
        self._only_ascii = True

    def __call__(self, block: bytes, *, last: bool = False) -> bytes:
        """Decode the next block; `last`: there are no more."""
        try:
            text = self._codec.decode(block, last)
        except UnicodeDecodeError as error:
            before = error.object[: error.start]
            if not (self.is_open and self.encoding == "utf-8" and self._only_ascii):
                raise self._refusal(error) from error
            if not before.isascii():
                raise self._refusal(error) from error
            self.encoding = "cp1252"
            self._codec = codecs.getincrementaldecoder(self.encoding)()
            try:
                text = self._codec.decode(error.object, last)
            except UnicodeDecodeError as again:
                raise self._refusal(again) from again
        self._only_ascii = self._only_ascii and text.isascii()
        return text.encode(errors="replace")

    def _refusal(self, error: UnicodeDecodeError) -> ValueError:
        strange = error.object[error.start : error.start + 1].hex()
        told = f"the byte 0x{strange} is not {self.encoding.upper()}"
        return ValueError(
            f"{self.name} could not be read as CSV: {told}. Save it as UTF-8, or name what it is: "
            "encoding='cp1252' of Windows, or encoding='latin-1'."
        )


def _detect_utf16(head: bytes) -> str | None:
    """UTF-16, by its mark, or by every other byte of Western letters being zero."""
    if head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return "utf-16"
    even, odd = head[:1000:2], head[1:1000:2]
    if len(odd) < 2:
        return None
    if odd.count(0) > 0.7 * len(odd) and 0 not in even[:2]:
        return "utf-16-le"
    return "utf-16-be" if even.count(0) > 0.7 * len(even) and 0 not in odd[:2] else None


# ---------------------------------------------------------------------------- separator and quotes


def found_format(head: str, told: TableFormat) -> TableFormat:
    r"""Find the separator and the quotes of a file from its beginning.

    The separator is the one that cuts most records into as many cells as the header has.

    Parameters
    ----------
    head : str
        How it begins.
    told : TableFormat
        What is settled already.

    Examples
    --------
    >>> found_format("a;b\n1,5;2,5\n", TableFormat()).separator
    ';'
    """
    quote = told.quote or ("'" if _in_apostrophes(head) else '"')
    if told.separator is not None:
        return replace(told, quote=quote)
    best, most = ",", 0.0
    for separator in SEPARATORS:
        counts = list(islice(cells_in_records(head, separator, quote), RECORDS))
        if not counts or counts[0] < 2:
            continue
        rest = counts[1:-1] or counts[1:] or counts  # the last one may be cut off
        share = sum(count == counts[0] for count in rest) / len(rest)
        if share > most or (most == 0.0 and best == ","):
            best, most = separator, share
    return replace(told, quote=quote, separator=best)


def cells_in_records(text: str, separator: str, quote: str) -> Iterator[int]:
    """How many cells each record has, empty lines aside."""
    quoting: Any = csv.QUOTE_NONE if quote == "none" else csv.QUOTE_MINIMAL
    sign = None if quote == "none" else quote
    reader = csv.reader(
        text.splitlines(keepends=True), delimiter=separator, quotechar=sign, quoting=quoting
    )
    try:
        yield from (len(record) for record in reader if record)
    except csv.Error:  # a cell of more than 128 KiB
        return


def _in_apostrophes(head: str) -> bool:
    """Whether apostrophes are used as quotes: two cells or more, and no apostrophe elsewhere."""
    if '"' in head or "'" not in head:
        return False
    ends = r"[,;|\t\r\n]"
    whole = re.findall(rf"(?:(?<={ends})|^)'[^'\r\n]*'(?={ends}|$)", head)
    return len(whole) >= 2 and 2 * len(whole) >= head.count("'") - 1  # the last may be cut off


# ------------------------------------------------------------------------------------ decimal sign


def decimals_of(frame: polars.DataFrame, format: TableFormat) -> tuple[str, dict[str, str]]:
    """Find the decimal sign of a file, and of each of its columns of numbers.

    A column that holds 7,67 has decimal commas, one that holds 7.67 has not. Where it holds neither
    (1,234 may be either), it is like most of the others; if these say nothing, a file with
    semicolons has decimal commas, for that is why it has semicolons. 8.863 beside 117 stays as it
    is: what it means is settled when a model is fitted, for all files to come.

    Parameters
    ----------
    frame : polars.DataFrame
        First rows, as texts.
    format : TableFormat
        What is settled.

    Returns
    -------
    decimal, signs : str, dict of str: str
        Columns of texts are not among `signs`: their cells stay as they are.
    """
    found = decimal_signs(frame)
    if format.decimal is not None:
        return format.decimal, dict.fromkeys(found, format.decimal)
    signs = list(found.values())
    decimal = "," if signs.count(",") > signs.count(".") else "."
    if not any(signs) and format.separator == ";":
        has_commas = any(frame[name].str.contains(",", literal=True).any() for name in found)
        decimal = "," if has_commas else "."
    return decimal, {name: sign or decimal for name, sign in found.items()}


def with_points(frame: polars.DataFrame, signs: dict[str, str]) -> polars.DataFrame:
    """Write numbers with decimal points and without separators of thousands; <0,6 becomes <0.6."""
    found = []
    for column in (frame[name] for name in signs if name in frame.columns):
        beyond = column.str.extract(f"({LIMIT})").fill_null("")
        rest = plain_numbers(column.str.replace(LIMIT, ""), signs[column.name])
        found.append(beyond + rest)
    return frame.with_columns(found)


# ----------------------------------------------------------------------------------------- reading

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
            called = f"are called {quote(name)}" if name.strip() else "have no name"
            raise pl.exceptions.DuplicateError(f"two columns {called}. Rename one of them")
    texts = pl.all().str.strip_chars()
    cells = pl.when(texts.is_in(MISSING)).then(None).otherwise(texts)
    frame = frame.with_columns(cells.name.keep())
    found = _unescaped(content[: end or None], frame.columns, format)
    return frame.rename({name: each.strip() for name, each in zip(names, found, strict=True)})


def _unescaped(header: bytes, names: list[str], format: TableFormat) -> list[str]:
    """Return the names of a header; polars leaves doubled quotes in them, though not in cells."""
    sign = _sign(format)
    if sign * 2 not in header or not sign:
        return names
    separator, lines = str(format.separator), StringIO(header.decode(), newline="\n")
    reader = csv.reader(lines, delimiter=separator, quotechar=sign.decode(), strict=True)
    try:
        found = next(reader)
    except csv.Error:  # quotes within cells: as polars reads them
        return names
    return found if len(found) == len(names) else names


def _sign(format: TableFormat) -> bytes:
    """Return the quote character as bytes; empty where there is none."""
    return b"" if format.quote == "none" else str(format.quote).encode()


def trimmed(content: bytes) -> bytes:
    """Strip what may precede the header: a byte order mark, empty lines."""
    return content.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")


def _blank_lines(content: bytes) -> int:
    """Count the empty lines above the header."""
    return content[: len(content) - len(trimmed(content))].count(b"\n")


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
        start, found = b"", None
        for block in itertools.chain(self.blocks, [b""]):
            self._check_length(start := start + block)
            self.hints = _hints_of_text(start, format)
            with hinted_errors(self.hints), read_errors(name, "CSV"):
                found = read_header(start, format, final=not block)
            if found is not None:
                break
        assert found is not None  # the last block is final
        self.header, self.columns, rest, self.format = found
        self.first = 1 + (format.header_row or 1 + _blank_lines(start))
        self.records = self._records(itertools.chain([rest], self.blocks))

    def chunks(self, rows: int) -> Iterator[Chunk]:
        """All rows, so many at a time."""
        start = 0
        for frame in rechunk(self._frames(), rows):
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
            if some.height < frame.height:
                empty = frame.select(pl.all_horizontal(pl.all().is_null())).to_series().arg_true()
                self.left_out += tuple((empty + self.lines_read).to_list())
            self.rows_read += some.height
            self.lines_read += frame.height
            yield with_points(some, self.signs or {})
        self.format = replace(self.format, encoding=self.decoder.encoding)

    def _frame(self, block: bytes) -> polars.DataFrame:
        with hinted_errors(self.hints), read_errors(self.name, "CSV"):
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
        for line, cells in enumerate(counts, start=self.lines_read + self.first):
            if cells > len(self.columns):
                called = {"\t": "tab", ",": "comma", ";": "semicolon", "|": "bar"}[separator]
                raise ValueError(
                    f"{plain(self.name)} could not be read as CSV: row {line:,} has "
                    f"{counted(cells, 'cell')}, and the header {len(self.columns):,}. Put quotes "
                    f"around cells that hold a {called}; if columns are separated by something "
                    "else, say separator=SIGN."
                )

    def _head(self, file: IO[bytes], size: int) -> bytes:
        """Read the first bytes; a stream may deliver them in pieces."""
        head = b""
        while len(head) < size and (block := file.read(size - len(head))):
            head += block
        self.bytes_read = len(head)
        if PACKED.match(trimmed(head)):
            raise ValueError(f"{plain(self.name)} could not be read as CSV: it is packed. {UNPACK}")
        return head

    def _decoded(self, file: IO[bytes], head: bytes) -> Iterator[bytes]:
        """Yield the file as UTF-8, a block at a time, beginning with its head."""
        block = head
        while block:
            following = file.read(self.block_bytes)
            yield self.decoder(block, last=not following)
            self.bytes_read += len(following)
            block = following

    def _records(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield blocks of whole records."""
        rest = b""
        for block in blocks:
            rest += block
            end = last_record_end(rest, _sign(self.format))
            whole, rest = rest[:end], rest[end:]
            if whole:
                yield whole
            self._check_length(rest)
        if rest:
            yield rest

    def _check_length(self, record: bytes) -> None:
        if len(record) > self.longest_record:
            raise ValueError(
                f"{plain(self.name)} could not be read as CSV: a row is longer than "
                f"{self.longest_record >> 20} MiB. Look for a quote that is never closed."
            )


def read_header(
    start: bytes, format: TableFormat, encoding: str = "utf-8", *, final: bool = False
) -> tuple[bytes, list[str], bytes, TableFormat] | None:
    r"""Find how a CSV file is written, and read its header.

    Parameters
    ----------
    start : bytes
        How the file begins.
    format : TableFormat
        What is settled already.
    encoding : str, default="utf-8"
        Of these bytes.
    final : bool, default=False
        Whether there are no more: a header needs no line end then.

    Returns
    -------
    record, columns, rest, format : bytes, list of str, bytes, TableFormat
        The header in UTF-8, the names in it, what follows as it came, and how the file is written;
        None where the header is not complete.

    Examples
    --------
    >>> read_header(b'"a ""wide"" pipe";b\n1;2\n', TableFormat())[1]
    ['a "wide" pipe', 'b']
    """
    rest, told = separator_hint(trimmed(start), format)
    if format.header_row is not None:
        # Lines that are skipped count from the very first one.
        rest = start.removeprefix(b"\xef\xbb\xbf") if told is format else rest
        *above, rest = rest.split(b"\n", format.header_row - 1)
        if len(above) < format.header_row - 1:
            if not final:
                return None
            raise ValueError(
                f"There is no row {format.header_row:,} to take as the header: the file has "
                f"{counted(len(above) + bool(rest), 'row')}. Name another, header_row=1."
            )
    told = found_format(rest[:HEAD_BYTES].decode(encoding, "replace"), told)
    end = first_record_end(rest, _sign(told)) or (len(rest) if final else 0)
    if not (end or final):
        return None
    try:
        record = rest[:end].decode(encoding).encode().rstrip(b"\r\n") + b"\n"
    except UnicodeDecodeError as error:
        reason = f"its header holds bytes that are not {encoding.upper()}"
        raise polars_module().exceptions.ComputeError(reason) from error
    return record, read_csv(record, told).columns, rest[end:], told


def _hints_of_text(start: bytes, format: TableFormat) -> tuple[tuple[str, str], ...]:
    """Say which row of a CSV file looks like its header, if that is another one."""
    rest, _ = separator_hint(start.removeprefix(b"\xef\xbb\xbf"), format)
    lines = rest[:HEAD_BYTES].decode(errors="replace").splitlines()[:LOOK]
    best: list[list[str]] = []
    for separator in SEPARATORS if format.separator is None else [format.separator]:
        with suppress(csv.Error):
            records = [next(csv.reader([line], delimiter=separator), []) for line in lines]
            best = max(best, records, key=lambda each: max(map(len, each), default=0))
    return _header_hint([[cell.strip() for cell in record] for record in best], format.header_row)


LOOK = 30  # rows of a table among which its header is sought; chosen by hand


def _header_hint(
    rows: Sequence[Sequence[str | None]], told: int | None
) -> tuple[tuple[str, str], ...]:
    """Say which row looks like the header: the first that is as full as any, if it is another."""
    counts = [sum(map(bool, row)) for row in rows]
    if max(counts, default=0) < 2:
        return ()
    used = told or next(k for k, count in enumerate(counts, start=1) if count)
    looks = next(k for k, count in enumerate(counts, start=1) if count == max(counts))
    if used <= looks and 2 * counts[used - 1] > max(counts):
        return ()
    names = quoted([cell for cell in rows[looks - 1] if cell], 3)
    return (("Header", f"If the header is in row {looks} ({names}), say header_row={looks}."),)


@contextmanager
def hinted_errors(hints: Iterable[tuple[str, str]]) -> Iterator[None]:
    """Add to errors about columns what may be meant: another header, another sheet."""
    try:
        yield
    except ValueError as error:
        if ABOUT_COLUMNS.search(str(error)):
            for _, sentence in hints:
                error.add_note(sentence)
        raise


# Errors that another header or sheet would explain.
ABOUT_COLUMNS = re.compile("There is no column|data lack |cells?, and the header|two columns ")


def separator_hint(start: bytes, format: TableFormat) -> tuple[bytes, TableFormat]:
    """Read a first line such as ``sep=;``, which some spreadsheets write."""
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


def rechunk(frames: Iterable[polars.DataFrame], rows: int) -> Iterator[polars.DataFrame]:
    """Yield the same rows in frames of a given size; at least one frame, if there is one."""
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


# --------------------------------------------------------------------------------------------------

STANDARD = "-"  # the name of standard input and output
KINDS = {
    ".arrow": "ARROW", ".feather": "ARROW", ".csv": "CSV", ".parquet": "PARQUET", ".xlsx": "EXCEL",
}  # fmt: skip
# Read, and never written.
READABLE = KINDS | {".tsv": "CSV", ".txt": "CSV", ".xlsm": "EXCEL"}


def kind_of(path: Path) -> str:
    """Return the kind of a table by its suffix: CSV, PARQUET, ARROW or EXCEL."""
    kind = READABLE.get(path.suffix.casefold())
    if kind is None:
        *others, last = READABLE
        raise ValueError(
            f"Tables are read from {', '.join(others)} and {last} files, not from "
            f"{quote(path.name)}. Save it as one. Is it packed? {UNPACK}"
        )
    return kind


def _check_readable(path: Path) -> None:
    """Refuse what is no file."""
    if not path.exists():
        raise FileNotFoundError(missing_file_message(path))
    if not path.is_file():
        raise ValueError(f"{quote(str(path))} is not a file. Name one table, .csv or .parquet.")


@contextmanager
def open_table(path: str | Path, format: TableFormat = OPEN) -> Iterator[TableFile]:
    """Open a table that may be larger than the memory.

    Parameters
    ----------
    path, format : str or path, TableFormat
        As in `lpfuse_cli.tables.read_table`.
    """
    format = format.checked()
    if format.header_row is not None:
        check_count("header_row", format.header_row)
    if str(path) == STANDARD:
        yield CsvFile("Standard input", sys.stdin.buffer, None, format)
        return
    path = Path(path).expanduser()
    _check_readable(path)
    kind = kind_of(path)
    if kind == "EXCEL":
        yield Sheet(path, format)
    elif kind != "CSV":
        yield ColumnarFile(path)
    else:
        with path.open("rb") as file:
            yield CsvFile(path.name, file, path.stat().st_size, format)


class Sheet(TableFile):
    """A sheet of a spreadsheet, which is read whole: it has a million rows at most."""

    def __init__(self, path: Path, format: TableFormat) -> None:
        pl = polars_module()
        self.name = path.name
        frame, self.format, header, self.hints = read_sheet(path, format)
        is_empty = frame.select(pl.all_horizontal(pl.all().is_null())).to_series()
        self.frame, self.first = frame.filter(~is_empty), header + 1
        self.left_out = tuple(is_empty.arg_true().to_list())
        self.columns, self.rows = self.frame.columns, self.frame.height

    def chunks(self, rows: int) -> Iterator[Chunk]:
        """All rows, so many at a time."""
        for start in range(0, max(1, self.rows), rows):
            share = min(1.0, (start + rows) / max(1, self.rows))
            yield Chunk(self.frame.slice(start, rows), start, share)


class ColumnarFile(TableFile):
    """A Parquet or Arrow file, which knows where its rows are."""

    def __init__(self, path: Path) -> None:
        pl = polars_module()
        self.name, self.kind = path.name, kind_of(path)
        with read_errors(self.name, self.kind):
            scan = {"PARQUET": pl.scan_parquet, "ARROW": pl.scan_ipc}[self.kind]
            self.scan = in_seconds(scan(path, glob=False))
            self.columns = self.scan.collect_schema().names()
            self.rows = self.scan.select(pl.len()).collect().item()

    def chunks(self, rows: int) -> Iterator[Chunk]:
        """All rows, so many at a time."""
        for start in range(0, max(1, self.rows), rows):
            with read_errors(self.name, self.kind):
                frame = self.scan.slice(start, rows).collect()
            yield Chunk(frame, start, min(1.0, (start + rows) / max(1, self.rows)))


def in_seconds(frame: Any) -> Any:
    """Write durations of a frame, or a scan, as numbers of seconds, to be learnt from."""
    lengths: Any = polars_module().selectors.duration()
    return frame.with_columns(lengths.dt.total_microseconds() / 1e6)


# ------------------------------------------------------------------------------------ spreadsheets

# Bytes that a file may unpack to. A full sheet of a million rows and twenty columns has about as
# many; what is larger is better kept as CSV or Parquet.
MOST_BYTES = 2**30


def read_sheet(
    path: Path, told: TableFormat
) -> tuple[polars.DataFrame, TableFormat, int, tuple[tuple[str, str], ...]]:
    """Read the rows of a sheet, how they are written, the row of the header, and hints.

    Parameters
    ----------
    path : Path
        The file.
    told : TableFormat
        Its `sheet` and `header_row`, and the decimal sign of numbers that are texts.
    """
    try:
        import fastexcel
    except ImportError as error:
        raise ImportError(
            f'{plain(path.name)} is read by fastexcel: pip install "lpfuse[excel]". Or save it as '
            "CSV."
        ) from error
    _refuse_bombs(path)
    try:
        book = fastexcel.read_excel(path)
        names = book.sheet_names
        sheet = names[0] if told.sheet is None and names else told.sheet
        if sheet not in names:
            shown = ", ".join(map(quote, names[:20]))
            raise ValueError(
                f"{plain(path.name)} has no sheet {quote(str(sheet))}. It has {shown}."
            )
        every: dict[str, Any] = {
            "header_row": None,
            "skip_rows": 0,
            "n_rows": LOOK,
            "dtypes": "string",
        }
        top = book.load_sheet(sheet, **every).to_polars().rows()
        header = told.header_row or next((k for k, row in enumerate(top, 1) if any(row)), 1)
        frame = book.load_sheet(sheet, header_row=header - 1, schema_sample_rows=None).to_polars()
    except fastexcel.FastExcelError as error:
        raise _unreadable(path, str(error).partition("\n")[0]) from error
    texts = polars_module().selectors.string()
    # As in a CSV file: blanks around cells, and words for "no value".
    frame = frame.with_columns(texts.str.strip_chars().replace(list(MISSING), None))
    decimal, signs = decimals_of(frame.select(texts), told)
    used = TableFormat(decimal=decimal, sheet=sheet if len(names) > 1 else None)
    hints = _header_hint(top, told.header_row)
    if len(names) > 1 and told.sheet is None:
        others = ", ".join(f"sheet={quote(name)}" for name in names[1:20])
        hints += (("Sheet", f"If the table is in another sheet, say {others}."),)
    frame = with_points(in_seconds(frame.select(map(_as_integers, frame))), signs)
    return frame, replace(used, header_row=told.header_row), header, hints


def _as_integers(column: polars.Series) -> polars.Series:
    """Numbers of a spreadsheet are floats; whole ones may be names of rows, or codes."""
    pl = polars_module()
    if column.dtype == pl.Float64 and column.null_count() < len(column):
        whole: Any = column.drop_nulls()
        if ((whole == whole.round()) & (whole.abs() < 2**53)).all():
            return column.cast(pl.Int64)
    return column


def _refuse_bombs(path: Path) -> None:
    """Refuse a file that would not fit, or whose sizes are lies, by unpacking it to nowhere."""
    try:
        with ZipFile(path) as archive:
            parts = archive.infolist()
            if sum(part.file_size for part in parts) > MOST_BYTES:
                raise ValueError(
                    f"{plain(path.name)} unpacks to more than {MOST_BYTES >> 30} GiB. Save it as "
                    "CSV or Parquet."
                )
            if archive.testzip() is not None:  # reads no more than the sizes say
                raise BadZipFile("a part of it is damaged")
    except (BadZipFile, NotImplementedError, RuntimeError, EOFError, DeflateError) as error:
        raise _unreadable(path, str(error)) from error


def _unreadable(path: Path, reason: str) -> ValueError:
    return ValueError(
        f"{plain(path.name)} could not be read as a spreadsheet: {plain(reason).rstrip(' .:')}. "
        "Open and save it again as .xlsx, or as CSV."
    )


# -------------------------------------------------------------------------------- tables in memory

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
    numbers: list[int] | None = None,
    formats: list[TableFormat] | None = None,
    hints: list[tuple[str, str]] | None = None,
) -> polars.DataFrame:
    r"""Read a whole table from a file.

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
    numbers : list of int, optional
        Gets the number of each row, as a spreadsheet shows it: where there is a header, it is row
        1, and the first row below it row 2; rows of a Parquet or Arrow file count from 1.
    formats : list of TableFormat, optional
        Gets how the table is written, as far as that was told or found.
    hints : list of (str, str), optional
        Gets what may be meant where the columns are others than expected, for `numbered_errors`.

    Returns
    -------
    polars.DataFrame
        Its rows. The cells of a CSV file are texts, null where they are empty or hold one of
        ``?``, ``NA``, ``N/A``, ``NaN`` and ``null``: what they mean is settled when a model is
        fitted to them. Lines without any value are left out, with a warning that counts them.

    Examples
    --------
    >>> from lpfuse_cli.tables import read_table
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
        _note_format(table, notes, formats)
        if numbers is not None:
            numbers += table.numbers(rows).tolist()
        if hints is not None:
            hints += table.hints
        return polars_module().concat(parts)


def describe_numbers(numbers: Sequence[int] | None) -> str:
    """Say how rows are numbered: those of a file as in `read_table`, others from 0.

    Examples
    --------
    >>> describe_numbers([2, 3])
    'have the numbers of a spreadsheet, where the first line is row 1'
    >>> describe_numbers([1, 2]), describe_numbers(None)
    ('count from 1', 'count from 0')
    """
    if numbers is None:
        return "count from 0"
    if len(numbers) and numbers[0] == 1:
        return "count from 1"
    return "have the numbers of a spreadsheet, where the first line is row 1"


# How errors of the library name rows, and the number that its first row has there.
NAMED_ROWS = ((r"\brow [\d,]+ holds", 1), (r"\brows \d+ and \d+ are equal", 0))


@contextmanager
def numbered_errors(
    numbers: Callable[[], Sequence[int] | Host], hints: Iterable[tuple[str, str]] = ()
) -> Iterator[None]:
    """Name rows in errors by their numbers in the file, not by their places in the frame.

    Parameters
    ----------
    numbers : callable
        Returns the numbers of the rows.
    hints : iterable of (str, str)
        What `hinted_errors` adds.
    """

    def numbered(match: re.Match[str], first: int) -> str:
        known = numbers()

        def of_file(place: re.Match[str]) -> str:
            at = int(place[0].replace(",", "")) - first
            return f"{known[at]:,}" if at < len(known) else place[0]

        return re.sub(r"[\d,]+", of_file, match[0])

    try:
        with hinted_errors(hints):
            yield
    except ValueError as error:
        if len(error.args) == 1 and isinstance(error.args[0], str):
            text = error.args[0]
            for named, first in NAMED_ROWS:
                text = re.sub(named, partial(numbered, first=first), text)
            error.args = (text,)
        raise


def read_sample(
    path: str | Path,
    most: int,
    *,
    label: str | None = None,
    normal: Any = None,
    anomaly: Any = None,
    seed: int = 0,
    format: TableFormat = OPEN,
    progress: Progress | None = None,
    notes: list[str] | None = None,
    formats: list[TableFormat] | None = None,
    numbers: list[int] | None = None,
    hints: list[tuple[str, str]] | None = None,
) -> tuple[polars.DataFrame, int]:
    r"""Rows of a file that are drawn by chance, and how many it has: it may exceed the memory.

    Parameters
    ----------
    path, format, progress, notes, formats, numbers, hints
        As in `read_table`.
    most : int
        Rows to draw: all of a file that has no more. Of labelled anomalies all are taken, up to
        half of these; all others have the same chance.
    label, normal, anomaly : optional
        The column of labels, and what normal rows and anomalies hold there, as in
        `lpfuse_cli.fitting.fit_table`.
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
    with open_table(path, format) as table, hinted_errors(table.hints):
        if label is not None:
            (label,) = check_names([label], table.columns)
        frame, chances, at, rows = None, np.empty(0), np.empty(0, dtype=np.intp), 0
        for part in _parts(table, progress):
            at = np.concatenate([at, rows + np.arange(part.height)])
            rows += part.height
            frame = part if frame is None else pl.concat([frame, part])
            chances = np.concatenate([chances, random.random(part.height)])  # nosec B311 # NumPy
            if frame.height > 2 * most:  # what cannot be drawn any more makes room
                kinds = np.zeros(frame.height) if label is None else _codes(frame[label])
                stays = _smallest_per_kind(chances, kinds, most)
                frame, chances, at = frame.filter(stays), chances[stays], at[stays]
        _note_format(table, notes, formats)
        called = table.numbers(rows)
        if hints is not None:
            hints += table.hints
    assert frame is not None  # there is one part at least
    taken = np.ones(frame.height, dtype=bool)
    if rows > most:
        anomalies = np.zeros(frame.height, dtype=bool)
        if label is not None:
            anomalies = labels_of(frame[label], normal, anomaly).values < 0
        taken = anomalies & _smallest_per_kind(chances, anomalies, most // 2)
        taken |= ~anomalies & _smallest_per_kind(chances, anomalies, most - int(taken.sum()))
    if numbers is not None:
        numbers += called[at[taken]].tolist()
    return frame.filter(taken), rows


def _note_format(
    table: TableFile, notes: list[str] | None, formats: list[TableFormat] | None
) -> None:
    if formats is not None:
        formats.append(table.format)
    if notes is None:
        return
    if table.format.words:
        notes.append(f"File: {table.format.words}.")
    if table.format.header_row is None:
        notes += [f"{about}: {told[0].lower()}{told[1:]}" for about, told in table.hints]


def _smallest_per_kind(chances: Host, kinds: Host, most: int) -> Host:
    """Which rows have the lowest numbers of their kind, so many of each at most."""
    order = np.lexsort((chances, kinds))
    starts = np.searchsorted(kinds[order], kinds[order])
    found = np.empty(len(order), dtype=bool)
    found[order] = np.arange(len(order)) - starts < most
    return found


def _codes(column: polars.Series) -> Host:
    """Code different cells by numbers; 0 where empty."""
    if column.dtype.is_nested():  # no label, as is said when all are read
        return np.zeros(len(column))
    return column.cast(polars_module().String).rank("dense").fill_null(0).to_numpy()


def _parts(table: TableFile, progress: Progress | None) -> Iterator[polars.DataFrame]:
    """Yield the rows in parts; report progress, and warn of empty lines."""
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


# ----------------------------------------------------------------------------------------- writing

Add = Callable[["polars.DataFrame"], None]

# Rows that wait in memory before they become a group of a Parquet or Arrow file: 1 MB a column of
# numbers. Chosen by hand.
PART_ROWS = 2**17
# How texts begin that a spreadsheet would run as a formula, blanks aside; wide signs count, too.
FORMULA = r"^\s*[=+\-@＝＋－＠]|^[\t\r\n]"


def check_table_target(path: str | Path, sources: Iterable[str | Path] = ()) -> None:
    """Refuse, before any work, a table that could not be written or should not be.

    Its suffix must tell its format; ``-``, standard output, may always be written.

    Parameters
    ----------
    path : str or path
        The file to write.
    sources : iterable of path
        Files that are read, and must not be lost.

    Examples
    --------
    >>> check_table_target("scores.ods")
    Traceback (most recent call last):
    ValueError: Tables are written as .arrow, .feather, .csv, .parquet or .xlsx files, not as ...
    """
    if str(path) == STANDARD:
        return
    if Path(path).suffix.casefold() not in KINDS:
        *others, last = KINDS
        raise ValueError(
            f"Tables are written as {', '.join(others)} or {last} files, not as "
            f"{quote(str(path))}. Give it one of these suffixes."
        )
    if kind_of(Path(path)) == "EXCEL" and find_spec("openpyxl") is None:
        raise ImportError(
            f'{plain(Path(path).name)} is written by openpyxl: pip install "lpfuse[excel]". Or '
            "write a .csv file."
        )
    check_writable(path, sources)


@contextmanager
def table_writer(
    path: str | Path,
    part_rows: int = PART_ROWS,
    *,
    formulas: bool = False,
    like: TableFile | None = None,
) -> Iterator[Add]:
    """Yield a function that adds rows to a table, which appears when all are added.

    Parameters
    ----------
    path : str or path
        A ``.csv``, ``.parquet``, ``.arrow`` or ``.feather`` file, or an ``.xlsx`` one where
        openpyxl is installed; ``-`` for CSV on standard output, where rows appear as they come.
    part_rows : int, default=2**17
        Rows that are held in memory before they are written, where the format is not CSV.
    formulas : bool, default=False
        Whether texts of a CSV file stay as they are where a spreadsheet would run them as formulas
        (those that begin with =, +, -, @ and are no numbers); if not, an apostrophe is put before
        them, with a warning. Other formats know texts from formulas.
    like : TableFile, optional
        Where it is a CSV file and `path` another, its separator and decimal sign are used.

    Examples
    --------
    >>> import polars as pl
    >>> from lpfuse_cli.tables import read_table, table_writer
    >>> path = getfixture("tmp_path") / "rows.parquet"
    >>> with table_writer(path) as add:
    ...     add(pl.DataFrame({"a": [1, 2]}))
    ...     add(pl.DataFrame({"a": [3]}))
    >>> read_table(path)["a"].to_list()
    [1, 2, 3]
    """
    if str(path) == STANDARD:
        sys.stdout.flush()
        yield csv_writer(sys.stdout.buffer, "Standard output", formulas, like)
        return
    path = Path(path).expanduser()
    with write_errors(path.name, polars_module().exceptions.PolarsError), replacing(path) as file:
        if kind_of(path) == "CSV":
            yield csv_writer(file, path.name, formulas, like)
        elif kind_of(path) == "EXCEL":
            yield from _sheet_writer(file, path.name)
        else:
            yield from _columnar(Path(file.name), path.name, kind_of(path), part_rows)


def csv_writer(
    file: IO[bytes], name: str, formulas: bool = False, like: TableFile | None = None
) -> Add:
    """Return a function that adds rows to a stream as CSV, the header before the first.

    Parameters
    ----------
    file, name : binary file, str
        Where rows go, and what it is called in messages.
    formulas, like
        As in `table_writer`.
    """
    has_header = False
    raw = getattr(file, "raw", file)  # what waits in a buffer would fail too late

    def add(frame: polars.DataFrame) -> None:
        nonlocal has_header
        frame = frame if formulas else without_formulas(frame)
        separator, has_commas = _signs(like)
        text = frame.write_csv(
            include_header=not has_header, separator=separator, decimal_comma=has_commas
        )
        left = memoryview(text.encode())
        has_header = True
        with write_errors(name):
            while left:  # a raw stream may take less than it is given
                left = left[raw.write(left) :]

    return add


def _signs(like: TableFile | None) -> tuple[str, bool]:
    """Return the separator, and whether decimals are commas, which cannot separate cells, too."""
    separator = like.format.separator if isinstance(like, CsvFile) else None
    has_commas = like is not None and like.format.decimal == "," and separator not in (None, ",")
    return separator or ",", has_commas


def writes_commas(like: TableFile) -> bool:
    """Whether a CSV file that is written like another one has decimal commas."""
    return _signs(like)[1]


def with_signs_of(frame: polars.DataFrame, like: TableFile) -> polars.DataFrame:
    """Return columns of a file with their numbers, which are texts, as the file writes them.

    Parameters
    ----------
    frame : polars.DataFrame
        Columns of `like`.
    like : TableFile
        Its cells have decimal points, see `with_points`.
    """
    if not (isinstance(like, CsvFile) and writes_commas(like)):
        return frame
    names = [name for name in frame.columns if name in (like.signs or {})]
    return frame.with_columns(
        polars_module().col(names).str.replace(".", ",", literal=True) if names else []
    )


def _sheet_writer(file: IO[bytes], name: str) -> Iterator[Add]:
    """Rows of a spreadsheet; texts stay texts, whatever they begin with."""
    from openpyxl import Workbook  # type: ignore[import-untyped]
    from openpyxl.cell import WriteOnlyCell  # type: ignore[import-untyped]

    book = Workbook(write_only=True)
    sheet, lines = book.create_sheet("scores"), 0

    def cell(value: Any) -> Any:
        if not isinstance(value, str):
            return value if value is None or value == value else None
        found = WriteOnlyCell(sheet, UNWRITABLE.sub("�", value))
        found.data_type = "s"  # no formula
        return found

    def add(frame: polars.DataFrame) -> None:
        nonlocal lines
        if not lines:
            sheet.append([cell(column) for column in frame.columns])
            lines = 1
        lines += frame.height
        if lines > MOST_LINES:
            raise ValueError(
                f"{plain(name)} cannot hold more than {MOST_LINES - 1:,} rows, as a spreadsheet. "
                "Write a .csv or .parquet file."
            )
        plain_kinds = polars_module().selectors.numeric() | polars_module().selectors.boolean()
        texts = frame.with_columns((~plain_kinds).cast(polars_module().String))
        for row in texts.iter_rows():
            sheet.append([cell(value) for value in row])

    yield add
    with write_errors(name):
        book.save(file)


MOST_LINES = 2**20  # of a sheet, the header among them
UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")  # in a cell of a sheet


def without_formulas(frame: polars.DataFrame) -> polars.DataFrame:
    """Put an apostrophe before texts and names that a spreadsheet would run as formulas."""
    pl = polars_module()
    texts = frame.select(pl.selectors.by_dtype(pl.String, pl.Categorical, pl.Enum).cast(pl.String))
    runs = pl.all().str.contains(FORMULA) & pl.all().cast(pl.Float64, strict=False).is_null()
    safe = texts.select(pl.when(runs).then(pl.all().str.replace("^", "'")).otherwise(pl.all()))
    names = {name: f"'{name}" for name in frame.columns if re.match(FORMULA, name)}
    if not names and safe.equals(texts):
        return frame
    warnings.warn(
        "Texts that a spreadsheet would run as formulas have an apostrophe before them in the CSV "
        "file; --formulas (in Python, formulas=True) leaves them as they are.",
        UserWarning,
        stacklevel=4,
    )
    return frame.with_columns(safe).rename(names)


def _columnar(path: Path, name: str, kind: str, part_rows: int) -> Iterator[Add]:
    """Rows in parts, which one file takes in at the end: polars cannot add to a file."""
    pl = polars_module()
    waiting: list[polars.DataFrame] = []
    parts: list[Path] = []

    def add(frame: polars.DataFrame) -> None:
        waiting.append(frame)
        if sum(part.height for part in waiting) >= part_rows:
            write_part()

    def write_part() -> None:
        parts.append(Path(folder) / str(len(parts)))
        with write_errors(name, pl.exceptions.PolarsError):
            pl.concat(waiting).write_parquet(parts[-1])
        waiting.clear()

    # Under a name that `replacing` removes with its own file, should a signal end the process.
    prefix = f"{path.name}."
    with TemporaryDirectory(dir=path.parent, prefix=prefix, ignore_cleanup_errors=True) as folder:
        yield add
        if waiting:
            write_part()
        with write_errors(name, pl.exceptions.PolarsError):
            table = pl.scan_parquet(parts, glob=False)
            (table.sink_parquet if kind == "PARQUET" else table.sink_ipc)(path)


# --------------------------------------------------------------------------------- scores of files


# ------------------------------------------------------------------------------- models of tables


def how_prepared(model: FusedDetector) -> TablePreparation:
    """Return how the columns of a table became the features of a model of a table."""
    made = model.preparation_
    assert made is not None
    return made


def example_row(made: TablePreparation) -> polars.DataFrame:
    """Return a plausible row of a table, to try things out."""
    pl = polars_module()
    numbers = {name: [np.nan_to_num(median)] for name, median in made.medians.items()}
    moments = {name: pl.Series([0]).cast(pl.Datetime("us")) for name in made.orders}
    texts = {name: kinds[:1] for name, kinds in made.categories.items()}
    return pl.DataFrame({**numbers, **moments, **texts})


# ------------------------------------------------------------------------------------------ labels


def split_labels(
    frame: polars.DataFrame, label: str | None, normal: Any = None, anomaly: Any = None
) -> tuple[polars.DataFrame, Host, dict[str, Any], str]:
    """Split columns and labels; return also the words for normal and anomaly, and a note.

    Parameters
    ----------
    frame : polars.DataFrame
        Rows to learn from.
    label, normal, anomaly
        As in `lpfuse_cli.fitting.fit_table`.
    """
    frame = as_polars(frame)
    if frame.height == 0:
        raise ValueError("The table has no rows. Bring some to learn from.")
    if label is None:
        for name, word in (("normal", normal), ("anomaly", anomaly)):
            if word is not None:
                raise ValueError(
                    f"{name}={quote(word)} says what labels mean, but not in which column. Name "
                    "it: label=COLUMN"
                )
        note = f"Label: none; all {counted(frame.height, 'row')} are unlabelled."
        return frame, np.zeros(frame.height), {}, note
    (label,) = check_names([label], frame.columns)
    labels = labels_of(frame[label], normal, anomaly)
    words = {k: each[0] if len(each) == 1 else each for k, each in labels.words.items()}
    return frame.drop(label), labels.values, words, describe_labels(frame[label], labels)


def describe_labels(column: polars.Series, labels: Labels) -> str:
    """Describe which labels were taken as what."""
    counts: dict[float, Counter[str]] = {1.0: Counter(), -1.0: Counter(), 0.0: Counter()}
    for cell, label in zip(column.to_list(), labels.values, strict=True):
        counts[label]["" if is_gap(cell) else str(cell)] += 1
    normal, odd, rest = counts.values()
    names = ", ".join(quote(name) if name else "an empty cell" for name in normal)
    parts = [f"normal is {names} ({counted(normal.total(), 'row')})"] if normal else []
    if odd:
        shown = [f"{quote(kind)} ({number:,})" for kind, number in odd.most_common()]
        more = f" and {len(shown) - 8} more" if len(shown) > 8 else ""
        parts.append(f"anomalies are {', '.join(shown[:8])}{more}")
    if rest:
        parts.append(f"{counted(rest.total(), 'row')} without a label")
    return " ".join([f"Label: {quote(column.name)}; {'; '.join(parts)}.", *labels.notes])
