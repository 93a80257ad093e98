"""What a stream of rows is, and the growing file and standard input among them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from queue import Empty, Full, Queue
from threading import Thread
from typing import IO, Any

from lpfuse._files import missing_file_message
from lpfuse.frames import TableFormat
from lpfuse.watch._batch import BEGAN_AGAIN, UNREADABLE, Batch, Note
from lpfuse.watch._csv_text import CsvText

BLOCK = 2**22  # bytes that are read at a time; chosen by hand
KNOWN_BY = 4096  # bytes at its beginning by which a file is known again; chosen by hand


class Source:
    """Rows that keep coming.

    Attributes
    ----------
    name : str
        By which a state knows it again.
    columns : list of str or None
        Where all rows have the same, and these are known.
    ended : bool
        Whether nothing can follow what was taken.
    """

    name: str
    columns: list[str] | None = None
    ended = False
    waits = False  # whether `take` itself waits for rows, so that the caller need not
    mark_names: tuple[str, ...] = ()  # columns that tell where rows come from

    def open(self, position: dict[str, Any] | None) -> None:
        """Begin, or go on at a position that a batch had."""
        raise NotImplementedError

    def were_taken(self, names: list[str]) -> None:
        """Take note of files that ended before the position, where a source has several."""

    def take(self, most: int, everything: bool) -> Batch | None:
        """The next rows.

        Parameters
        ----------
        most : int
            Rows at most.
        everything : bool
            Whether fewer rows are taken where no more are there now; if not, they wait.

        Returns
        -------
        Batch or None
            None where there are not as many, or none.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Let go of files and connections."""

    def last_words(self) -> str | None:
        """What is to be said at the end."""
        return None


class GrowingFile(Source):
    """A CSV file that somebody else adds lines to, or replaces by a new one.

    Only whole lines are taken. A file that was replaced is read to its end first, if this process
    has it open; then, and where a file has become shorter, the stream goes on with the first line
    of what is there now, and a note.

    Parameters
    ----------
    path : path-like
        The file.
    format : TableFormat
        How it is written, as far as that was told.
    once : bool
        Whether the source ends where the file ends now.
    """

    def __init__(self, path: Any, format: TableFormat, once: bool = False) -> None:
        self.path = Path(path).expanduser()
        if not self.path.exists():
            raise FileNotFoundError(missing_file_message(self.path))
        self.name, self.format, self.once = str(self.path.resolve()), format, once
        self._notes: list[Note] = []

    def open(self, position: dict[str, Any] | None) -> None:
        """Begin, or go on where a batch ended if the file still begins as it did."""
        self._open(0 if position is None else position["row"])
        if position is None:
            return
        known = position["known"]
        size = os.fstat(self._file.fileno()).st_size
        if size >= position["offset"] and known == self._mark(known[1]):
            while not self._text.read_header():
                self._text.add(self._file.read(BLOCK))
            self._text.settle(position)
            self._text.skip_to(position["offset"])
            self._file.seek(position["offset"])
            self._known = known
        else:
            self._say_new("it is shorter, or begins with other lines, than when it was last read")

    def _open(self, row: int) -> None:
        self._file: IO[bytes] = self.path.open("rb")
        self._text = CsvText(self.path.name, self.format, row)
        self._was_at_end = self._is_ignored = False
        self._known = self._mark(0)

    def _open_again(self, why: str) -> None:
        self._file.close()
        self._open(self._text.row)
        self._say_new(why)

    def _say_new(self, why: str) -> None:
        self._notes.append(Note(BEGAN_AGAIN, self._text.row, f"{why}: read from its first line"))

    def _mark(self, length: int) -> list[Any]:
        """By what the file is known again: a digest of its first bytes, and how many these are."""
        here = self._file.tell()
        self._file.seek(0)
        found = sha256(self._file.read(length)).hexdigest()
        self._file.seek(here)
        return [found, length]

    def take(self, most: int, everything: bool) -> Batch | None:
        """The next whole lines."""
        try:
            at_end = self._read(most)
        except ValueError as error:
            if not self._text.row:  # the first file: nothing could be judged
                raise
            # One that was put in its place cannot be read: wait for the next.
            self._notes.append(Note(UNREADABLE, self._text.row, str(error)))
            self._text = CsvText(self.path.name, self.format, self._text.row)
            self._is_ignored, at_end = True, True
        self.columns = self._text.columns
        if at_end and self.once and not self._text.available():
            self.ended = True
        batch = self._text.take(most) if everything or self._text.available() >= most else None
        if batch is None:
            return None
        self._known = self._mark(min(KNOWN_BY, batch.position["offset"]))
        batch.position["known"] = self._known
        batch.notes[:0], self._notes = self._notes, []
        return batch

    def _read(self, most: int) -> bool:
        """Read until so many rows wait; whether the file ends before."""
        at_end = False
        while self._text.available() < most and not at_end:
            data = self._file.read(BLOCK)
            if data and self._was_at_end and self._known != self._mark(self._known[1]):
                self._open_again("it begins with other lines than before")
            elif data and not self._is_ignored:
                self._text.add(data)
            elif data:
                continue
            else:
                at_end = not self._is_new()
            self._was_at_end = not data
        return at_end

    def _is_new(self) -> bool:
        """Whether another file lies there by now, or a shorter one; if so it is opened."""
        try:
            there = self.path.stat()
        except FileNotFoundError:  # between two files
            return False
        here = os.fstat(self._file.fileno())
        if (there.st_ino, there.st_dev) != (here.st_ino, here.st_dev):
            self._text.end()
            if self._text.available():  # a last line without its end: take it first
                return False
            why = "another file has its name now"
        elif there.st_size < self._file.tell():
            why = "it became shorter"
        else:
            return False
        self._open_again(why)
        return True

    def last_words(self) -> str | None:
        """That a line is left, which has no end yet."""
        rest = self._text.unfinished()
        if not rest:
            return None
        return f"The last line, of {rest:,} bytes, has no line end yet, and waits for it."

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class StandardInput(Source):
    """CSV that is piped in, once: what was read and not judged before a crash is lost.

    Parameters
    ----------
    format : TableFormat
        How it is written, as far as that was told.
    replayed : bool
        Whether whoever sends the rows begins with the first one again, so that those that were
        judged are left out.
    file : binary file, optional
        What to read in its place.
    """

    name = "-"
    _over = False  # whether its end was read

    def __init__(
        self, format: TableFormat, replayed: bool = False, file: IO[bytes] | None = None
    ) -> None:
        self.format, self.replayed = format, replayed
        self._file = file or sys.stdin.buffer
        # A pipe cannot be asked whether it holds anything on every system: a thread waits for it.
        self._blocks: Queue[bytes] = Queue(2)
        self._closed = False

    def open(self, position: dict[str, Any] | None) -> None:
        """Begin to read; with `replayed`, leave out what was judged."""
        row = 0 if position is None else position["row"]
        self._text = CsvText("Standard input", self.format, row)
        self._skip = position["offset"] if position and self.replayed else 0
        self._position = position if self._skip else None
        Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        read = self._reader()
        while not self._closed:
            data = read(BLOCK)
            while not self._closed:
                try:
                    self._blocks.put(data, timeout=0.1)
                    break
                except Full:
                    continue
            if not data:
                return

    def _reader(self) -> Callable[[int], bytes]:
        try:
            number = self._file.fileno()
        except (AttributeError, OSError):  # no file of the system
            return getattr(self._file, "read1", self._file.read)
        # Past its buffer, whose lock this thread would hold when the interpreter ends.
        return lambda size: os.read(number, size)

    def take(self, most: int, everything: bool) -> Batch | None:
        """The next lines, and the last one even without its end."""
        try:
            while self._text.available() < most and not self._over:
                data = self._blocks.get_nowait()
                self._over = not data
                self._text.end() if not data else self._add(data)
        except Empty:
            pass
        self.columns = self._text.columns
        few = everything or self._over
        batch = self._text.take(most) if few or self._text.available() >= most else None
        self.ended = self._over and not self._text.available()
        return batch

    def _add(self, data: bytes) -> None:
        self._text.add(data)
        if self._position and self._text.read_header():
            self._text.settle(self._position)
            if self._text.drop_before(self._skip):
                self._position = None

    def close(self) -> None:
        """Read no more."""
        self._closed = True
