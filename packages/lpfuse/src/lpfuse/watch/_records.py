"""CSV text cut into records, good and broken ones: one that is broken costs itself alone."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# Lines behind a quote that is not closed which, each alone, have as many cells as the header: from
# so many on the quote is taken as a stray one, and costs its own line. Chosen by hand.
WHOLE_LINES = 3
LONGEST = 2**20  # bytes that a record in quotes may have; beyond, the same


class Cut(NamedTuple):
    """Where the records of a text end.

    Attributes
    ----------
    ends : ndarray of shape (n,)
        The byte behind each record, its line end included.
    why : dict of int: str
        What is wrong with the broken ones, by place.
    empty : ndarray of shape (n,) of bool
        Which are lines without a sign, and no records at all.
    """

    ends: NDArray[np.int64]
    why: dict[int, str]
    empty: NDArray[np.bool_]


def cut_records(
    data: bytes, cells: int, separator: str, quote: str, encoding: str, *, final: bool = False
) -> Cut:
    r"""The whole records at the beginning of a text.

    Parameters
    ----------
    data : bytes
        Behind the header.
    cells : int
        That every record must have.
    separator, quote, encoding : str
        How it is written; quote "none": there are none.
    final : bool, default=False
        Whether nothing follows: then a last line needs no line end, and an open quote is broken.

    Examples
    --------
    >>> cut = cut_records(b'1,2\n3\n"4\n",5\n6,', 2, ",", '"', "utf-8")
    >>> cut.ends.tolist(), cut.why
    ([4, 6, 13], {1: '1 cell, not 2'})
    """
    if quote != "none" and quote.encode() in data:
        cut = _with_quotes(data, cells, separator, quote, final)
    else:
        cut = _without_quotes(data, cells, separator, final)
    _find_strange_signs(data, cut, encoding)
    return cut


def _without_quotes(data: bytes, cells: int, separator: str, final: bool) -> Cut:
    """Every line is a record: separators are counted, all at once."""
    signs = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(signs == ord("\n")) + 1
    if final and (len(ends) == 0 or ends[-1] < len(data)) and data:
        ends = np.append(ends, len(data))
    between = np.flatnonzero(signs == ord(separator))
    counts = np.diff(np.searchsorted(between, ends), prepend=0) + 1
    lengths = np.diff(ends, prepend=0)
    empty = lengths <= 2
    for place in np.flatnonzero(empty):  # few signs: perhaps the line end alone
        start = ends[place] - lengths[place]
        empty[place] = not data[start : ends[place]].strip(b"\r\n")
    wrong = np.flatnonzero((counts != cells) & ~empty)
    return Cut(ends, {int(k): _count_words(int(counts[k]), cells) for k in wrong}, empty)


def _with_quotes(data: bytes, cells: int, separator: str, quote: str, final: bool) -> Cut:
    """Records by the rules of CSV; where a line breaks them, the next one begins anew."""
    lines = data.split(b"\n")
    tail = lines.pop()  # has no line end yet
    lines = [line + b"\n" for line in lines] + ([tail] if final and tail else [])
    ends: list[int] = []
    why: dict[int, str] = {}
    empty: list[bool] = []
    end = first = 0

    def take(to: int, told: str | None) -> None:
        nonlocal end, first
        end += sum(map(len, lines[first:to]))
        if told is not None:
            why[len(ends)] = told
        empty.append(told is None and to == first + 1 and not lines[first].strip(b"\r\n"))
        ends.append(end)
        first = to

    while first < len(lines):
        at = first
        reader = _reader(lines, at, separator, quote)
        told: str | None = None
        try:
            for record in reader:
                to = at + reader.line_num
                count = len(record)
                if record and count != cells:
                    if to > first + 1:  # a quote that was closed by chance, lines below
                        told = "a quote that is not closed in its line"
                        break
                    take(to, _count_words(count, cells))
                elif b"".join(lines[first:to]).count(quote.encode()) % 2:
                    take(to, "a quote within a cell")
                else:
                    take(to, None)
        except csv.Error:
            told = "quotes that break the rules of CSV"
            if at + reader.line_num >= len(lines) and not final:  # perhaps closed by what follows
                held = b"".join(lines[first:])
                if held.count(quote.encode()) % 2:
                    if not _is_stray(lines[first + 1 :], held, cells, separator, quote):
                        break
                    told = "a quote that is never closed"
        if told is not None:
            take(first + 1, told)
    return Cut(np.array(ends, np.int64), why, np.array(empty, bool))


def _reader(lines: list[bytes], first: int, separator: str, quote: str) -> Any:
    def texts() -> Iterator[str]:
        for place in range(first, len(lines)):
            yield lines[place].decode("latin-1")  # a sign a byte: structure alone is looked at

    return csv.reader(texts(), delimiter=separator, quotechar=quote, strict=True)


def _is_stray(following: list[bytes], held: bytes, cells: int, separator: str, quote: str) -> bool:
    """Whether a quote that is open at the end of the text was none."""
    if len(held) > LONGEST:
        return True
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


def _count_words(count: int, cells: int) -> str:
    return f"{count} cell{'s' if count > 1 else ''}, not {cells}"


def _find_strange_signs(data: bytes, cut: Cut, encoding: str) -> None:
    """Add records to `why` that are no text in that encoding."""
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
