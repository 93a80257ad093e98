"""Batches of rows of a stream, and how CSV text that comes in pieces is cut into them.

A source gives `Batch` objects, which are parsed and scored on any thread. `cut_records` finds the
records of a text by its bytes, so that a broken one is known before anything is parsed and does not
affect its neighbours; `CsvText` numbers the records and makes batches of them.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays.operations import Host
from lpfuse._format import plain
from lpfuse.frames import TableFormat
from lpfuse.frames.cells import polars_module
from lpfuse_cli.tables import (
    PACKED,
    UNPACK,
    Decoder,
    decimals_of,
    read_csv,
    read_errors,
    read_header,
    trimmed,
    with_points,
)

if TYPE_CHECKING:
    import polars

# Kinds of notes. Saved states count by them: a new text would start a new count.
BROKEN, LACKS, NO_NUMBER = "broken line", "missing column", "cell that is no number or date"
BACKWARDS, NO_TIME = "clock went backwards", "time that cannot be read"
EMPTY, UNREADABLE = "row without any value", "file that cannot be read"
BEGAN_AGAIN, GONE = "source began again", "rows lost by the source"

# All chosen by hand:
MAX_NOTE = 200  # characters of a note
FORMAT_ROWS = 1_000  # rows that tell decimal commas from points
# Lines behind an unclosed quote which, each alone, have as many cells as the header: from so many
# on the quote is taken as a stray one, and breaks its own line only.
WHOLE_LINES = 3
MAX_RECORD = 2**22  # bytes of a record: a hundred thousand cells of forty
MAX_WAITING = 2**26  # bytes that wait for more rows; beyond, a batch has fewer rows

NOWHERE = 2**62  # a place behind every text

Numbers = NDArray[np.int64]


class Note(NamedTuple):
    """A note on a row that was not scored, or on the source itself.

    Attributes
    ----------
    kind : str
        One of the kinds above; notes are counted by kind.
    row : int
        The row's number in the stream, from 1; for the source itself, that of the row before.
    text : str
        Details.
    """

    kind: str
    row: int
    text: str


class Rows(NamedTuple):
    """Parsed rows.

    Attributes
    ----------
    frame : polars.DataFrame of n rows
        Their cells.
    numbers : ndarray of shape (n,)
        Their places in the stream, from 1.
    notes : list of Note
        On unreadable rows, which are not in the frame.
    seconds : ndarray of shape (n,) or None
        Their times, where a column of times is read.
    """

    frame: polars.DataFrame
    numbers: Numbers
    notes: list[Note]
    seconds: Host | None = None

    def only(self, chosen: NDArray[np.bool_], notes: Sequence[Note] = ()) -> Rows:
        """Return some of the rows, with further notes."""
        if chosen.all():
            return self._replace(notes=[*self.notes, *notes])
        frame = self.frame.filter(polars_module().Series(chosen, dtype=polars_module().Boolean))
        seconds = None if self.seconds is None else self.seconds[chosen]
        return Rows(frame, self.numbers[chosen], [*self.notes, *notes], seconds)


@dataclass(frozen=True)
class Batch:
    """Consecutive rows of a stream, to be parsed on any thread.

    Attributes
    ----------
    load : callable
        Parses the `Rows`.
    position : dict
        Where the next row begins, as JSON values.
    last : int
        The number of its last row.
    notes : list of Note
        On records that are broken before any parsing.
    marks : dict
        Where the rows come from: columns of the output beside their numbers, each a value, an
        array with one value for every row of the batch, or a dict of values by number.
    finished : list of str
        Files that end with this batch.
    """

    load: Callable[[], Rows]
    position: dict[str, Any]
    last: int
    notes: list[Note] = field(default_factory=list)
    marks: dict[str, Any] = field(default_factory=dict)
    finished: list[str] = field(default_factory=list)


# ---------------------------------------------------------------------------------------- CSV text


class CsvText:
    """Text of one table, header first: bytes are added at its end, batches taken from its front.

    Of a record longer than `max_record`, the bytes beyond are dropped as they come, and the record
    is broken: memory does not grow with it.

    Parameters
    ----------
    format : TableFormat
        How it is written, as far as known.
    max_record : int
        Bytes of a record at most.
    name : str
        For messages.
    row : int
        Rows of the stream before those of this text.

    Attributes
    ----------
    offset : int
        Bytes of the text that were taken.
    columns : list of str or None
        Of the header; None before it is complete.
    """

    def __init__(self, format: TableFormat, max_record: int, name: str, row: int = 0) -> None:
        self.name, self.row, self.offset = name, row, 0
        self.format, self.max_record = format, max_record
        self.columns: list[str] | None = None
        self.decimal_signs: dict[str, str] | None = None
        self.former: CsvText | None = None  # the file before, whose header a file without one has
        self._header = self._data = b""
        self._cut: Cut | None = None
        self._taken = 0  # records of the cut
        self._final = False
        # Bytes that were dropped from a long record, where they were in `_data`, and whether its
        # line end is still to come.
        self._dropped, self._gap, self._in_long = 0, NOWHERE, False
        self._check_readable(b"")

    def add(self, data: bytes) -> None:
        """Append the next bytes."""
        self._drop(int(self._cut.ends[self._taken - 1]) if self._cut and self._taken else 0)
        if self._in_long and data:
            end = data.find(b"\n")
            self._in_long = end < 0
            skipped = len(data) if end < 0 else end
            self._dropped += skipped
            data = data[skipped:]
        self._data += data

    def end(self) -> None:
        """End the text: a last line needs no line end."""
        if not self._final:
            self.add(b"")
            self._final = True

    def set_format(self, position: dict[str, Any]) -> None:
        """Read on in the format of a position, whatever the next rows look like."""
        self.decimal_signs = position.get("signs")
        known = {name: position[name] for name in ("separator", "quote")}
        encoding = position.get("encoding", self.format.encoding)
        self.format = replace(self.format, **known, encoding=encoding)

    def _drop(self, length: int) -> None:
        self.offset = self._place(length)
        self._data, self._gap = self._data[length:], self._gap - length
        if self._gap <= 0:
            self._dropped, self._gap = 0, NOWHERE
        self._cut, self._taken = None, 0

    def _place(self, length: int) -> int:
        """Return the place in the text behind so many bytes of `_data`."""
        return self.offset + length + (self._dropped if length >= self._gap else 0)

    def drop_before(self, offset: int) -> bool:
        """Drop bytes before a place; return whether it is reached."""
        self._drop(max(0, min(len(self._data), offset - self.offset)))
        return self.offset >= offset

    def skip_to(self, offset: int) -> None:
        """Let the next bytes begin at this place."""
        self._drop(len(self._data))
        self.offset = offset

    def n_unfinished(self) -> int:
        """Return the number of bytes behind the last whole record."""
        cut = self._records() if self.read_header() else None
        end = int(cut.ends[-1]) if cut and len(cut.ends) else 0
        return self._place(len(self._data)) - self._place(end)

    def read_header(self) -> bool:
        """Read the header; return whether it is complete."""
        if self.columns is not None:
            return True
        if self.format.header_row is None:  # else all lines above it count
            self._drop(len(self._data) - len(trimmed(self._data)))
        start = self._data
        if not start:
            return False
        self._check_readable(start)
        self._find_encoding(start)
        if self._has_no_header(start):
            return True
        with read_errors(self.name, "CSV"):
            found = read_header(start, self.format, self.encoding, final=self._final)
        if found is None and len(start) <= self.max_record:
            return False
        if found is None or len(found[0]) > self.max_record:
            raise ValueError(
                f"{plain(self.name)} could not be read as CSV: its header is longer than "
                f"{self.max_record:,} bytes. Look for a quote that is never closed."
            )
        self._header, self.columns, rest, self.format = found
        self._drop(len(self._data) - len(rest))
        return True

    def _has_no_header(self, start: bytes) -> bool:
        """Whether a text that replaces another begins with a row; then the header is that one's."""
        former, (line, end, _) = self.former, start.partition(b"\n")
        if former is None or not former.columns or not (end or self._final):
            return False
        separator = str(former.format.separator)
        texts = line.decode(self.encoding, errors="replace").removeprefix("\ufeff")
        first = [text.strip(" \r\"'") for text in texts.split(separator)]
        if len(first) != len(former.columns) or set(first) & set(former.columns):
            return False
        if not any(map(_is_number, first)):
            return False
        self._header, self.columns, self.format = former._header, former.columns, former.format
        return True

    def follow(self, header: str, position: dict[str, Any]) -> None:
        """Take the header of the text before, in case this one has none."""
        self.former = CsvText(self.format, self.max_record, self.name)
        self.former.set_format(position)
        self.former.add(header.encode())
        self.former.end()
        self.former.read_header()

    @property
    def encoding(self) -> str:
        """How the bytes so far are to be decoded."""
        return self.format.encoding or "utf-8"  # nothing but ASCII as yet

    def _find_encoding(self, text: bytes) -> None:
        """Decide as `Decoder` does for other commands: by the first sign beyond ASCII."""
        lines = text if self._final else text[: text.rfind(b"\n") + 1]
        if self.format.encoding is None and not lines.isascii():
            decoder = Decoder(self.name, None, b"")
            with suppress(ValueError):  # what cannot be decoded breaks its own record
                decoder(lines)
            self.format = replace(self.format, encoding=decoder.encoding)

    def _check_readable(self, start: bytes) -> None:
        if PACKED.match(start):
            raise ValueError(
                f"{plain(self.name)} could not be read as CSV: it is compressed. {UNPACK}"
            )
        wide = str(self.format.encoding).startswith("utf-16")
        if wide or start[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in start[:1000]:
            raise ValueError(
                f"{plain(self.name)} is UTF-16, which cannot be read line by line. Convert it: "
                "iconv -f UTF-16 -t UTF-8, or have it written as UTF-8."
            )

    def n_available(self) -> int:
        """Return the number of whole records that were not taken yet."""
        return 0 if not self.read_header() else len(self._records().ends) - self._taken

    def wants_more(self, max_rows: int) -> bool:
        """Return whether to read on for a batch of so many rows."""
        is_full = len(self._data) > MAX_WAITING or (self._dropped and not self._in_long)
        return self.n_available() < max_rows and not is_full

    def _records(self) -> Cut:
        if self._cut is None:
            self._find_encoding(self._data)
            f = self.format
            self._cut = cut_records(
                self._data, len(self.columns or []), str(f.separator), str(f.quote), self.encoding,
                max_record=self.max_record, final=self._final,
            )  # fmt: skip
            end = int(self._cut.ends[-1]) if len(self._cut.ends) else 0
            if not (self._final or self._dropped) and len(self._data) - end > self.max_record:
                # A line whose end is to come: one byte more than allowed tells that it is long.
                self._gap, self._in_long = end + self.max_record + 1, True
                self._dropped = len(self._data) - self._gap
                self._data = self._data[: self._gap]
        return self._cut

    def take(self, max_rows: int) -> Batch | None:
        """Return the next rows; None where none are whole."""
        if not self.n_available():
            return None
        cut, first = self._records(), self._taken
        last = min(first + max_rows, len(cut.ends))
        is_row = ~cut.empty[first:last]
        numbers: Numbers = self.row + np.cumsum(is_row)
        broken = {k: cut.why[k] for k in range(first, last) if k in cut.why}
        notes = [
            Note(BROKEN, int(numbers[k - first]), f"{why}: {self._text(cut, k)}")
            for k, why in broken.items()
        ]
        good = is_row.copy()
        good[[k - first for k in broken]] = False
        starts = np.append(0, cut.ends)[first:last]
        spans = np.column_stack([starts, cut.ends[first:last]])[good]
        self._taken = last
        self.row = int(numbers[-1])
        self._find_decimal_signs(spans)
        done = int(cut.ends[last - 1])
        signs = dict(self.decimal_signs or {})
        load = partial(_parse, self._data, spans, numbers[good], self._header, self.format, signs)
        position = {
            "offset": self._place(done),
            "row": self.row,
            "separator": self.format.separator,
            "quote": self.format.quote,
            "encoding": self.format.encoding,
            "signs": self.decimal_signs,
            "header": self._header.decode(),
        }
        if last == len(cut.ends):
            self._drop(done)
        return Batch(load, position, self.row, notes)

    def _text(self, cut: Cut, place: int) -> str:
        start = int(cut.ends[place - 1]) if place else 0
        return _shown(self._data[start : int(cut.ends[place])])

    def _find_decimal_signs(self, spans: Any) -> None:
        """Find the decimal signs of the columns in the first rows, once."""
        if self.decimal_signs is None and len(spans):
            some = _parse(self._data, spans[:FORMAT_ROWS], np.arange(len(spans)), self._header,
                          self.format, {}).frame  # fmt: skip
            if some.height:
                _, self.decimal_signs = decimals_of(some, self.format)


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True


def _as_utf8(content: bytes, encoding: str | None) -> bytes:
    return content if encoding in (None, "utf-8") else content.decode(str(encoding)).encode()


def _shown(record: bytes) -> str:
    """Return the beginning of a record, for a note."""
    return record[: 4 * MAX_NOTE].decode(errors="replace").rstrip("\r\n")[:MAX_NOTE]


def _parse(
    data: bytes, spans: Any, numbers: Numbers, header: bytes, format: TableFormat, signs: Any
) -> Rows:
    """Parse records; bisect where polars fails, so that a bad record is dropped alone."""
    pl = polars_module()
    if not len(spans):
        return Rows(read_csv(header, format), numbers, [])
    if (spans[1:, 0] == spans[:-1, 1]).all():
        content = data[spans[0, 0] : spans[-1, 1]]
    else:
        content = b"".join(data[start:end] for start, end in spans)
    try:
        frame = read_csv(header + _as_utf8(content, format.encoding), format)
        if frame.height != len(spans):
            raise pl.exceptions.ComputeError("quotes within cells")
    except pl.exceptions.PolarsError as error:
        if len(spans) == 1:
            reason = str(error).partition("\n")[0]
            note = Note(BROKEN, int(numbers[0]), f"{reason}: {_shown(content)}")
            return Rows(read_csv(header, format), numbers[:0], [note])
        half = len(spans) // 2
        parts = [
            _parse(data, spans[part], numbers[part], header, format, signs)
            for part in (slice(half), slice(half, None))
        ]
        frames = pl.concat([part.frame for part in parts])
        found = np.concatenate([part.numbers for part in parts])
        return Rows(frames, found, parts[0].notes + parts[1].notes)
    blank = frame.select(pl.all_horizontal(pl.all().is_null())).to_series()
    notes = []
    if blank.any():
        notes = [Note(EMPTY, int(row), "") for row in numbers[blank.to_numpy()]]
        frame, numbers = frame.filter(~blank), numbers[~blank.to_numpy()]
    return Rows(with_points(frame, signs), numbers, notes)


# ----------------------------------------------------------------------------------------- records


class Cut(NamedTuple):
    """Where the records of a text end.

    Attributes
    ----------
    ends : ndarray of shape (n,)
        The byte behind each record, its line end included.
    why : dict of int: str
        What is wrong with the broken ones, by place.
    empty : ndarray of shape (n,) of bool
        Which of them are empty lines, and no records.
    """

    ends: NDArray[np.int64]
    why: dict[int, str]
    empty: NDArray[np.bool_]


def cut_records(
    data: bytes,
    cells: int,
    separator: str,
    quote: str,
    encoding: str,
    *,
    max_record: int = MAX_RECORD,
    final: bool = False,
) -> Cut:
    r"""Find the whole records at the beginning of a text.

    Parameters
    ----------
    data : bytes
        Text behind the header.
    cells : int
        Cells of every record.
    separator, quote, encoding : str
        How it is written; quote "none": without quotes.
    max_record : int
        Bytes of a record at most. A quote that leads to a longer one is a stray one.
    final : bool, default=False
        Whether the text is complete: then a last line needs no line end, and an open quote is
        broken.

    Examples
    --------
    >>> cut = cut_records(b'1,2\n3\n"4\n",5\n6,', 2, ",", '"', "utf-8")
    >>> cut.ends.tolist(), cut.why
    ([4, 6, 13], {1: '1 cell, not 2'})
    """
    if quote != "none" and quote.encode() in data:
        cut = _cut_quoted(data, cells, separator, quote, max_record, final)
    else:
        cut = _cut_lines(data, cells, separator, max_record, final)
    _find_invalid_text(data, cut, encoding)
    return cut


def _cut_lines(data: bytes, cells: int, separator: str, max_record: int, final: bool) -> Cut:
    """Cut text without quotes: every line is a record, and separators are counted at once."""
    codes = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(codes == ord("\n")) + 1
    if final and (len(ends) == 0 or ends[-1] < len(data)) and data:
        ends = np.append(ends, len(data))
    separators = np.flatnonzero(codes == ord(separator))
    counts = np.diff(np.searchsorted(separators, ends), prepend=0) + 1
    lengths = np.diff(ends, prepend=0)
    empty = lengths <= 2
    for place in np.flatnonzero(empty):  # perhaps nothing but a line end
        start = ends[place] - lengths[place]
        empty[place] = not data[start : ends[place]].strip(b"\r\n")
    why = {
        int(k): _wrong_count(int(counts[k]), cells)
        for k in np.flatnonzero((counts != cells) & ~empty)
    }
    why |= {int(k): too_long(max_record) for k in np.flatnonzero(lengths > max_record)}
    return Cut(ends, why, empty)


def _cut_quoted(
    data: bytes, cells: int, separator: str, quote: str, max_record: int, final: bool
) -> Cut:
    """Cut by the rules of CSV; where a line breaks them, start again at the next one."""
    lines = data.split(b"\n")
    tail = lines.pop()  # has no line end yet
    lines = [line + b"\n" for line in lines] + ([tail] if final and tail else [])
    ends: list[int] = []
    why: dict[int, str] = {}
    empty: list[bool] = []
    end = first = 0

    def take(to: int, problem: str | None) -> None:
        nonlocal end, first
        end += sum(map(len, lines[first:to]))
        if problem is not None:
            why[len(ends)] = problem
        empty.append(problem is None and to == first + 1 and not lines[first].strip(b"\r\n"))
        ends.append(end)
        first = to

    while first < len(lines):
        at = first
        reader = _reader(lines, at, separator, quote)
        problem: str | None = None
        try:
            for record in reader:
                to = at + reader.line_num
                count = len(record)
                if sum(map(len, lines[first:to])) > max_record:
                    problem = too_long(max_record)
                    break
                if record and count != cells:
                    if to > first + 1:  # a quote that was closed by chance, lines below
                        problem = "a quote that is not closed in its line"
                        break
                    take(to, _wrong_count(count, cells))
                elif b"".join(lines[first:to]).count(quote.encode()) % 2:
                    take(to, "a quote within a cell")
                else:
                    take(to, None)
        except csv.Error:
            problem = "quotes that break the rules of CSV"
            if at + reader.line_num >= len(lines) and not final:  # the next bytes may close it
                held = b"".join(lines[first:])
                if held.count(quote.encode()) % 2:
                    if len(held) + len(tail) <= max_record and not _is_stray(
                        lines[first + 1 :], cells, separator, quote
                    ):
                        break
                    problem = "a quote that is never closed"
        if problem is not None:
            take(first + 1, too_long(max_record) if len(lines[first]) > max_record else problem)
    return Cut(np.array(ends, np.int64), why, np.array(empty, bool))


def _reader(lines: list[bytes], first: int, separator: str, quote: str) -> Any:
    def texts() -> Iterator[str]:
        for place in range(first, len(lines)):
            yield lines[place].decode("latin-1")  # a character a byte: only structure matters

    return csv.reader(texts(), delimiter=separator, quotechar=quote, strict=True)


def _is_stray(following: list[bytes], cells: int, separator: str, quote: str) -> bool:
    """Return whether a quote that is open at the end of the text is a stray one."""
    whole = 0
    for line in following:
        try:
            (record,) = _reader([line], 0, separator, quote)
        except (csv.Error, ValueError):
            whole = 0
            continue
        whole = whole + 1 if len(record) == cells else 0
        if whole == WHOLE_LINES and cells > 1:
            return True
    return False


def _wrong_count(count: int, cells: int) -> str:
    return f"{count} cell{'s' if count > 1 else ''}, not {cells}"


def too_long(max_record: int) -> str:
    """Say what is wrong with a record that is too long."""
    return f"more than {max_record:,} bytes"


def _find_invalid_text(data: bytes, cut: Cut, encoding: str) -> None:
    """Add records to `why` that cannot be decoded."""
    end = int(cut.ends[-1]) if len(cut.ends) else 0
    try:
        data[:end].decode(encoding)
        if b"\0" not in data[:end]:
            return
    except UnicodeDecodeError:
        pass
    start = 0
    for place, end in enumerate(cut.ends.tolist()):
        record, start = data[start:end], end
        try:
            record.decode(encoding)
        except UnicodeDecodeError:
            cut.why[place] = f"bytes that are not {encoding.upper()}"
        else:
            if b"\0" in record:
                cut.why[place] = "NUL bytes, as no text has"
