"""CSV files and streams: how they are written, and their rows a block at a time."""

from __future__ import annotations

import codecs
import csv
import itertools
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import IO, TYPE_CHECKING, Any

from lpfuse._format import plain, quote
from lpfuse._validation.params import counted
from lpfuse.frames import TableFormat
from lpfuse.frames.cells import NUMBER, plain_numbers, polars_module
from lpfuse.frames.table_detector import DECIMALS, OPEN, SEPARATORS

if TYPE_CHECKING:
    import polars


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
    empty = 0  # lines of a CSV file, among those read, that were left out: they hold no value

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
MOSTLY = 0.5  # share of numbers from which a column is one of numbers


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
    semicolons has decimal commas, for that is why it has semicolons.

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
    found: dict[str, str | None] = {}
    open_commas = False
    for column in frame:
        cells = column.drop_nulls()
        fits: dict[str, Any] = {sign: cells.str.contains(NUMBER[sign]) for sign in DECIMALS}
        if len(cells) and max(each.mean() for each in fits.values()) < MOSTLY:
            continue
        points, commas = (
            int((fits["."] & ~fits[","]).sum()),
            int((fits[","] & ~fits["."]).sum()),
        )
        found[column.name] = None if points == commas else "," if commas > points else "."
        open_commas |= bool((cells.filter(fits[","])).str.contains(",", literal=True).any())
    known = [sign for sign in found.values() if sign is not None]
    decimal = format.decimal
    if decimal is not None:
        return decimal, dict.fromkeys(found, decimal)
    if known:
        decimal = "," if known.count(",") > known.count(".") else "."
    else:
        decimal = "," if format.separator == ";" and open_commas else "."
    return decimal, {name: sign or decimal for name, sign in found.items()}


def with_points(frame: polars.DataFrame, signs: dict[str, str]) -> polars.DataFrame:
    """Write numbers with decimal points and without separators of thousands."""
    return frame.with_columns(
        plain_numbers(frame[name], sign) for name, sign in signs.items() if name in frame.columns
    )


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
            raise pl.exceptions.DuplicateError(f"two columns are called {quote(name)}")
    texts = pl.all().str.strip_chars()
    cells = pl.when(texts.is_in(MISSING)).then(None).otherwise(texts)
    frame = frame.with_columns(cells.name.keep())
    return frame.rename({name: name.strip() for name in names})


def _sign(format: TableFormat) -> bytes:
    """Return the quote character as bytes; empty where there is none."""
    return b"" if format.quote == "none" else str(format.quote).encode()


def trimmed(content: bytes) -> bytes:
    """Strip what may precede the header: a byte order mark, empty lines."""
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
        """Yield the header, then blocks of whole records."""
        header = rest = b""
        sign = _sign(self.format)
        for block in blocks:
            rest += block
            if not header:
                rest = trimmed(rest)
                header, rest = _split_at(rest, first_record_end(rest, sign))
                if header:
                    yield header
            whole, rest = _split_at(rest, last_record_end(rest, sign)) if header else (b"", rest)
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


def _split_at(data: bytes, end: int) -> tuple[bytes, bytes]:
    return data[:end], data[end:]


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
