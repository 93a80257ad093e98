"""Batches of rows from CSV text that comes in pieces."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from lpfuse._format import plain
from lpfuse.frames import TableFormat
from lpfuse.frames.cells import polars_module
from lpfuse.watch._batch import BROKEN, EMPTY, Batch, Note, Numbers, Rows
from lpfuse.watch._records import Cut, cut_records
from lpfuse_cli.csv_files import (
    HEAD_BYTES,
    PACKED,
    UNPACK,
    decimals_of,
    first_record_end,
    found_format,
    read_csv,
    read_errors,
    separator_hint,
    trimmed,
    with_points,
)

LOOKED_AT = 1_000  # rows that tell decimal commas from points; chosen by hand


class CsvText:
    """Text of one table, header first: bytes are added at its end, batches taken from its front.

    Parameters
    ----------
    name : str
        For messages.
    format : TableFormat
        How it is written, as far as that was told.
    row : int
        Rows of the stream before those of this text.

    Attributes
    ----------
    offset : int
        Bytes of the text that were taken.
    columns : list of str or None
        Of the header; None until it is there.
    """

    def __init__(self, name: str, format: TableFormat, row: int = 0) -> None:
        self.name, self.row, self.offset = name, row, 0
        self.format = replace(format, encoding=format.encoding or "utf-8")
        self.columns: list[str] | None = None
        self.signs: dict[str, str] | None = None
        self._header = self._data = b""
        self._cut: Cut | None = None
        self._taken = 0  # records of the cut
        self._final = False
        self._refuse_wide(b"")

    # ------------------------------------------------------------------------------------- feeding

    def add(self, data: bytes) -> None:
        """Take in the next bytes."""
        self.drop(int(self._cut.ends[self._taken - 1]) if self._cut and self._taken else 0)
        self._data += data

    def end(self) -> None:
        """No bytes follow: a last line needs no line end."""
        if not self._final:
            self.add(b"")
            self._final = True

    def settled(self) -> dict[str, Any]:
        """How the text is written, in terms of JSON: `settle` takes it up again."""
        f = self.format
        return {"separator": f.separator, "quote": f.quote, "signs": self.signs}

    def settle(self, found: dict[str, Any]) -> None:
        """Take the text as written as one before it was, whatever the rows to come look like."""
        self.signs = found["signs"]
        self.format = replace(self.format, separator=found["separator"], quote=found["quote"])

    def drop(self, length: int) -> None:
        """Let go of bytes at the front."""
        self._data, self.offset = self._data[length:], self.offset + length
        self._cut, self._taken = None, 0

    def drop_before(self, offset: int) -> bool:
        """Let go of bytes before a place; whether it is reached."""
        self.drop(max(0, min(len(self._data), offset - self.offset)))
        return self.offset >= offset

    def unfinished(self) -> int:
        """Bytes behind the last whole record."""
        cut = self._records() if self.read_header() else None
        return len(self._data) - (int(cut.ends[-1]) if cut and len(cut.ends) else 0)

    def skip_to(self, offset: int) -> None:
        """The bytes to be added next begin at this place; those before were taken long ago."""
        self._data, self.offset = b"", offset
        self._cut, self._taken = None, 0

    # -------------------------------------------------------------------------------------- header

    def read_header(self) -> bool:
        """Whether the header is there."""
        if self.columns is not None:
            return True
        start = trimmed(self._data)
        if not start:
            return False
        self._refuse_wide(start)
        rest, told = separator_hint(start, self.format)
        told = found_format(rest[:HEAD_BYTES].decode(str(told.encoding), "replace"), told)
        sign = b"" if told.quote == "none" else str(told.quote).encode()
        end = first_record_end(rest, sign) or (len(rest) if self._final else 0)
        if not end:
            return False
        self.format = told
        self._header = _as_utf8(rest[:end], str(told.encoding)).rstrip(b"\r\n") + b"\n"
        with read_errors(self.name, "CSV"):
            self.columns = read_csv(self._header, told).columns
        self.drop(len(self._data) - len(rest) + end)
        return True

    def _refuse_wide(self, start: bytes) -> None:
        if PACKED.match(start):
            raise ValueError(f"{plain(self.name)} could not be read as CSV: it is packed. {UNPACK}")
        wide = str(self.format.encoding).startswith("utf-16")
        if wide or start[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in start[:1000]:
            raise ValueError(
                f"{plain(self.name)} is UTF-16, which cannot be followed line by line. Convert it: "
                "iconv -f UTF-16 -t UTF-8, or have it written as UTF-8."
            )

    # ------------------------------------------------------------------------------------- batches

    def available(self) -> int:
        """Whole records that wait."""
        return 0 if not self.read_header() else len(self._records().ends) - self._taken

    def _records(self) -> Cut:
        if self._cut is None:
            f = self.format
            self._cut = cut_records(
                self._data, len(self.columns or []), str(f.separator), str(f.quote),
                str(f.encoding), final=self._final,
            )  # fmt: skip
        return self._cut

    def take(self, most: int) -> Batch | None:
        """The next rows, so many at most; None where none are whole."""
        if not self.available():
            return None
        cut, first = self._records(), self._taken
        last = min(first + most, len(cut.ends))
        there = ~cut.empty[first:last]
        numbers: Numbers = self.row + np.cumsum(there)
        broken = {k: cut.why[k] for k in range(first, last) if k in cut.why}
        notes = [
            Note(BROKEN, int(numbers[k - first]), f"{told}: {self._text(cut, k)}")
            for k, told in broken.items()
        ]
        good = there.copy()
        good[[k - first for k in broken]] = False
        starts = np.append(0, cut.ends)[first:last]
        spans = np.column_stack([starts, cut.ends[first:last]])[good]
        self._taken = last
        self.row = int(numbers[-1])
        self._settle_signs(spans)
        done = int(cut.ends[last - 1])
        load = partial(
            _load,
            self._data,
            spans,
            numbers[good],
            self._header,
            self.format,
            dict(self.signs or {}),
        )
        position = {"offset": self.offset + done, "row": self.row, **self.settled()}
        if last == len(cut.ends):
            self.drop(done)
        return Batch(load, position, self.row, notes)

    def _text(self, cut: Cut, place: int) -> str:
        start = int(cut.ends[place - 1]) if place else 0
        return self._data[start : int(cut.ends[place])].decode(errors="replace").rstrip("\r\n")

    def _settle_signs(self, spans: Any) -> None:
        """Decimal signs of the columns, by the first rows that there are."""
        if self.signs is None and len(spans):
            some = _load(self._data, spans[:LOOKED_AT], np.arange(len(spans)), self._header,
                         self.format, {}).frame  # fmt: skip
            if some.height:
                _, self.signs = decimals_of(some, self.format)


def _as_utf8(content: bytes, encoding: str) -> bytes:
    return content if encoding == "utf-8" else content.decode(encoding).encode()


def _load(
    data: bytes, spans: Any, numbers: Numbers, header: bytes, format: TableFormat, signs: Any
) -> Rows:
    """Parse records; one that no reader understands costs itself alone."""
    pl = polars_module()
    if not len(spans):
        return Rows(read_csv(header, format), numbers, [])
    if (spans[1:, 0] == spans[:-1, 1]).all():
        content = data[spans[0, 0] : spans[-1, 1]]
    else:
        content = b"".join(data[start:end] for start, end in spans)
    try:
        frame = read_csv(header + _as_utf8(content, str(format.encoding)), format)
        if frame.height != len(spans):
            raise pl.exceptions.ComputeError("quotes within cells")
    except pl.exceptions.PolarsError as error:
        if len(spans) == 1:
            reason = str(error).partition("\n")[0]
            text = content.decode(errors="replace").rstrip("\r\n")
            note = Note(BROKEN, int(numbers[0]), f"{reason}: {text}")
            return Rows(read_csv(header, format), numbers[:0], [note])
        half = len(spans) // 2
        parts = [
            _load(data, spans[part], numbers[part], header, format, signs)
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
