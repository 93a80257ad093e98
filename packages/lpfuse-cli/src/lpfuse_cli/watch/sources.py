"""Sources of rows: a growing CSV file, a folder, standard input and a topic of Kafka.

Each `Source` gives batches with the position behind them, and continues at such a position.
"""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from queue import Empty, Full, Queue
from threading import Thread
from time import monotonic, time
from typing import IO, Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np

from lpfuse._files import missing_file_message
from lpfuse._format import plain, quote
from lpfuse.frames import TableFormat
from lpfuse.frames.cells import DECIMALS, ENCODINGS, QUOTES, SEPARATORS, polars_module
from lpfuse_cli.tables import MISSING, READABLE, STANDARD, ColumnarFile, kind_of, read_errors
from lpfuse_cli.watch.batches import (
    BEGAN_AGAIN,
    BROKEN,
    GONE,
    LACKS,
    MAX_RECORD,
    MAX_WAITING,
    UNREADABLE,
    Batch,
    CsvText,
    Note,
    Numbers,
    Rows,
    too_long,
)
from lpfuse_cli.watch.state import one_of

# All chosen by hand:
BLOCK = 2**22  # bytes that are read at a time
KNOWN_BY = 4096  # bytes at the beginning of a file by which it is recognised
SETTLED = 2.0  # seconds that a file of a folder must not have changed
POLL = 0.1  # seconds that one poll of the brokers lasts
ANSWER = 30.0  # seconds within which brokers must describe a topic

# Shapes of positions, see `lpfuse_cli.watch.state.fits`.
TEXT = {
    "offset": int,
    "row": int,
    "separator": one_of(*SEPARATORS),
    "quote": one_of(*QUOTES),
    "encoding": one_of(None, *ENCODINGS),
    "signs": (None, {str: one_of(*DECIMALS)}),
    "header": (None, str),
}
KAFKA = "kafka://"
NewText = Callable[[str, int], CsvText]
UNFINISHED = (".", "_", "~")  # first characters of names of files that are still being written


class Source:
    """A stream of rows.

    Attributes
    ----------
    name : str
        Identifies the source in a state.
    columns : list of str or None
        Where all rows have the same columns, and these are known.
    ended : bool
        Whether nothing can follow the rows taken.
    """

    name: str
    columns: list[str] | None = None
    ended = False
    position_shape: Any = None  # of positions in a saved state, see `lpfuse_cli.watch.state.fits`
    blocks = False  # whether `take` itself waits for rows, so that the caller need not
    mark_names: tuple[str, ...] = ()  # columns of the output that say where rows come from

    def open(self, position: dict[str, Any] | None) -> None:
        """Start, or continue at the position of a batch."""
        raise NotImplementedError

    def skip_files(self, names: list[str]) -> None:
        """Skip files that ended before the position, where a source has several."""

    def take(self, max_rows: int, allow_fewer: bool) -> Batch | None:
        """Return the next rows.

        Parameters
        ----------
        max_rows : int
            Rows at most.
        allow_fewer : bool
            Whether fewer rows are taken where no more have come; if not, they wait.

        Returns
        -------
        Batch or None
            None where there are not enough rows.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Release files and connections."""

    def remark_at_end(self) -> str | None:
        """Return a remark for the user on rows that were left, if there is one."""
        return None


def make_source(
    source: str,
    needed: Sequence[str],
    format: TableFormat,
    max_record: int = MAX_RECORD,
    *,
    once: bool,
    replayed: bool,
) -> Source:
    """Return the source that a name stands for.

    Parameters
    ----------
    source : str
        See `lpfuse_cli.watch.watch`.
    needed : sequence of str
        Columns that the model needs.
    format : TableFormat
        How CSV is written, as far as known.
    max_record : int
        Bytes of a line of CSV, or of a message, at most.
    once : bool
        Whether the source ends with the rows that are there now.
    replayed : bool
        Whether standard input starts with its first row again.
    """
    if replayed and source != STANDARD:
        raise ValueError(
            "replayed is for standard input only: other sources continue where they ended."
        )
    new_text = partial(CsvText, format, max_record)
    if source.startswith(KAFKA):
        return KafkaTopic(source, needed, max_record, once)
    if source == STANDARD:
        return StandardInput(new_text, replayed)
    path = Path(source).expanduser()
    if path.is_dir():
        return Folder(path, new_text, once)
    if path.exists() and kind_of(path) != "CSV":
        raise ValueError(
            f"{path.name} is not a CSV file, and only CSV files can grow by rows. Watch the folder "
            "that such files are put into, or score it once: lpfuse score."
        )
    return GrowingFile(path, new_text, once)


# ---------------------------------------------------------------------------------------- one file


class GrowingFile(Source):
    """A CSV file that another process appends to, or replaces.

    Only whole lines are taken. A replaced file is read to its end first, if this process has it
    open; then, and where a file has become shorter, the stream continues with the first line of
    the new content, and a note.

    Parameters
    ----------
    path : path
        The file.
    new_text : callable
        Makes a `CsvText` of a name and the number of rows before it.
    once : bool
        Whether the source ends where the file ends now.
    """

    position_shape = TEXT | {"known": [str, int]}

    def __init__(self, path: Path, new_text: NewText, once: bool = False) -> None:
        self.path = path
        if not path.exists():
            raise FileNotFoundError(missing_file_message(path))
        self.name, self.new_text, self.once = str(path.resolve()), new_text, once
        self._notes: list[Note] = []

    def open(self, position: dict[str, Any] | None) -> None:
        """Start, or continue behind a batch if the file still has the same beginning."""
        self._open(0 if position is None else position["row"])
        if position is None:
            return
        known = position["known"]
        size = os.fstat(self._file.fileno()).st_size
        same = size >= position["offset"] and known == self._fingerprint(known[1])
        if position.get("header"):
            self._text.follow(position["header"], position)
        while same and not self._text.read_header():
            self._text.add(data := self._file.read(BLOCK))
            same = bool(data)
        if same:
            self._text.set_format(position)
            self._text.skip_to(position["offset"])
            self._file.seek(position["offset"])
            self._known = known
        else:
            self._note_new("it is shorter, or begins with other lines, than when it was last read")

    def _open(self, row: int) -> None:
        self._file: IO[bytes] = self.path.open("rb")
        self._text = self.new_text(self.path.name, row)
        self._was_at_end = self._is_ignored = False
        self._known = self._fingerprint(0)

    def _reopen(self, why: str) -> None:
        self._file.close()
        before = self._text
        self._open(before.row)
        self._text.former = before if before.columns else before.former
        self._note_new(why)

    def _note_new(self, why: str) -> None:
        self._notes.append(Note(BEGAN_AGAIN, self._text.row, f"{why}: read from its first line"))

    def _fingerprint(self, length: int) -> list[Any]:
        """Return a digest of the first bytes, and their number."""
        here = self._file.tell()
        self._file.seek(0)
        length = min(length, KNOWN_BY)
        found = sha256(self._file.read(length)).hexdigest()
        self._file.seek(here)
        return [found, length]

    def take(self, max_rows: int, allow_fewer: bool) -> Batch | None:
        """Return the next whole lines."""
        try:
            at_end = self._read(max_rows)
        except ValueError as error:
            if not self._text.row:  # the first file: nothing can be scored
                raise
            # The new content cannot be read: wait for the next.
            self._notes.append(Note(UNREADABLE, self._text.row, str(error)))
            former = self._text.former
            self._text = self.new_text(self.path.name, self._text.row)
            self._text.former, self._is_ignored, at_end = former, True, True
        self.columns = self._text.columns
        if at_end and self.once and not self._text.n_available():
            self.ended = True
        enough = allow_fewer or not self._text.wants_more(max_rows)
        batch = self._text.take(max_rows) if enough else None
        if batch is None:
            return None
        self._known = self._fingerprint(min(KNOWN_BY, batch.position["offset"]))
        batch.position["known"] = self._known
        batch.notes[:0], self._notes = self._notes, []
        return batch

    def _read(self, max_rows: int) -> bool:
        """Read until so many rows wait; return whether the file ends before."""
        at_end = False
        while self._text.wants_more(max_rows) and not at_end:
            data = self._file.read(BLOCK)
            if data and self._was_at_end and self._known != self._fingerprint(self._known[1]):
                self._reopen("it begins with other lines than before")
            elif data and not self._is_ignored:
                self._text.add(data)
            elif data:
                continue
            else:
                at_end = not self._reopen_if_new()
            self._was_at_end = not data
        return at_end

    def _reopen_if_new(self) -> bool:
        """Open another file of the same name, or a shorter one; return whether there is one."""
        try:
            there = self.path.stat()
        except FileNotFoundError:  # between two files
            return False
        here = os.fstat(self._file.fileno())
        if (there.st_ino, there.st_dev) != (here.st_ino, here.st_dev):
            self._text.end()
            if self._text.n_available():  # a last line without its end: take it first
                return False
            why = "another file has its name now"
        elif there.st_size < self._file.tell():
            why = "it became shorter"
        else:
            return False
        self._reopen(why)
        return True

    def remark_at_end(self) -> str | None:
        """Say that the last line has no end yet."""
        rest = self._text.n_unfinished()
        if not rest:
            return None
        return f"The last line, of {rest:,} bytes, has no line end yet and was not scored."

    def close(self) -> None:
        """Close the file."""
        self._file.close()


# ---------------------------------------------------------------------------------- standard input


class StandardInput(Source):
    """CSV on standard input; rows that were read and not scored before a crash are lost.

    Parameters
    ----------
    new_text : callable
        As in `GrowingFile`.
    replayed : bool
        Whether the sender starts with the first row again, so that scored rows are skipped.
    """

    name = STANDARD
    position_shape = TEXT
    _over = False  # whether its end was read

    def __init__(self, new_text: NewText, replayed: bool = False) -> None:
        self.new_text, self.replayed = new_text, replayed
        self._file = sys.stdin.buffer
        # Not every system can tell whether a pipe holds anything: a thread waits for it.
        self._blocks: Queue[bytes] = Queue(2)
        self._closed = False

    def open(self, position: dict[str, Any] | None) -> None:
        """Start to read; with `replayed`, skip rows that were scored."""
        row = 0 if position is None else position["row"]
        self._text = self.new_text("Standard input", row)
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
        except (AttributeError, OSError):  # not a file of the system
            return getattr(self._file, "read1", self._file.read)
        # Past its buffer, whose lock this thread would hold when the interpreter ends.
        return lambda size: os.read(number, size)

    def take(self, max_rows: int, allow_fewer: bool) -> Batch | None:
        """Return the next lines, and the last one even without its end."""
        try:
            while self._text.wants_more(max_rows) and not self._over:
                data = self._blocks.get_nowait()
                self._over = not data
                self._text.end() if not data else self._add(data)
        except Empty:
            pass
        self.columns = self._text.columns
        enough = allow_fewer or self._over or not self._text.wants_more(max_rows)
        batch = self._text.take(max_rows) if enough else None
        self.ended = self._over and not self._text.n_available()
        return batch

    def _add(self, data: bytes) -> None:
        self._text.add(data)
        if self._position and self._text.read_header():
            self._text.set_format(self._position)
            if self._text.drop_before(self._skip):
                self._position = None

    def close(self) -> None:
        """Stop reading."""
        self._closed = True


# ------------------------------------------------------------------------------------------ folder


class Folder(Source):
    """Files in the order of their names, each once, when it has not changed for `SETTLED` seconds.

    Names that begin with a dot, an underscore or a tilde, and other suffixes, are skipped: write a
    file under such a name, and rename it when it is complete.

    Parameters
    ----------
    path : path
        The folder.
    new_text : callable
        As in `GrowingFile`, for CSV files in it.
    once : bool
        Whether the source ends with the files that are there now.
    """

    mark_names = ("file",)
    position_shape = ({"row": int}, {"row": int, "file": str, "within": int}, TEXT | {"file": str})

    def __init__(self, path: Path, new_text: NewText, once: bool) -> None:
        self.path, self.name, self.new_text, self.once = path, str(path.resolve()), new_text, once
        self.done: set[str] = set()
        self.row = 0
        self._file: _CsvFile | _Columnar | None = None
        self._seen: dict[str, tuple[tuple[int, int], float]] = {}

    def open(self, position: dict[str, Any] | None) -> None:
        """Start, or continue within the file that was being read, if it still exists."""
        if position is None:
            return
        self.row = position["row"]
        name = position.get("file")
        if name is None or Path(name).name != name or not (self.path / name).exists():
            return
        if ("offset" if kind_of(self.path / name) == "CSV" else "within") in position:
            self._file = self._opened(name, position)

    def skip_files(self, names: list[str]) -> None:
        """Skip files that ended before the position."""
        self.done = set(names)

    def take(self, max_rows: int, allow_fewer: bool) -> Batch | None:
        """Return rows of one file, or a note that it cannot be read."""
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
            batch = self._file.take(max_rows)
        except (ValueError, OSError) as error:
            return self._unreadable(name, error)
        if batch is None:  # a table without rows
            batch = Batch(_no_rows, {}, self.row)
        self.row = batch.last
        more = not self._file.over
        position = {"row": self.row, "file": name, **batch.position} if more else {"row": self.row}
        if not more:
            self._finish(name)
        finished = [] if more else [name]
        return Batch(batch.load, position, self.row, batch.notes, {"file": name}, finished)

    def _opened(self, name: str, position: dict[str, Any] | None) -> _CsvFile | _Columnar:
        kind = kind_of(self.path / name)
        if kind == "CSV":
            return _CsvFile(self.path / name, self.new_text(name, self.row), position)
        return _Columnar(self.path / name, self.row, position)

    def _finish(self, name: str) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None
        self.done.add(name)
        self._seen.pop(name, None)

    def _unreadable(self, name: str, error: Exception) -> Batch:
        self._finish(name)
        note = Note(UNREADABLE, self.row, f"{name}: {error}")
        return Batch(_no_rows, {"row": self.row}, self.row, [note], {"file": name}, [name])

    def _next_name(self) -> str | None:
        """Return the first complete file; None where there is none now."""
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
        """Decide by the clock of the file system or, where that is wrong, by our own."""
        if time() - status.st_mtime >= SETTLED:
            return True
        now, face = monotonic(), (status.st_size, status.st_mtime_ns)
        before, since = self._seen.get(name, (None, now))
        if before != face:
            since = now
        self._seen[name] = (face, since)
        return now - since >= SETTLED

    def close(self) -> None:
        """Close the file that is being read."""
        if self._file is not None:
            self._file.close()


def _no_rows() -> Rows:
    return Rows(polars_module().DataFrame(), np.empty(0, np.int64), [])


class _CsvFile:
    """A whole CSV file of a folder, read in blocks."""

    def __init__(self, path: Path, text: CsvText, position: dict[str, Any] | None) -> None:
        self.name, self.over, self._text = path.name, False, text
        self._file = path.open("rb")
        self._is_read = False
        try:
            while not self._text.read_header() and not self._is_read:
                self._read()
        except ValueError:
            self._file.close()
            raise
        if position is None:
            return
        self._text.set_format(position)
        self._text.skip_to(position["offset"])
        self._file.seek(position["offset"])

    def _read(self) -> None:
        data = self._file.read(BLOCK)
        if data:
            self._text.add(data)
        else:
            self._is_read = True
            self._text.end()

    def take(self, max_rows: int) -> Batch | None:
        while self._text.wants_more(max_rows) and not self._is_read:
            self._read()
        batch = self._text.take(max_rows)
        self.over = self._is_read and not self._text.n_available()
        return batch

    def close(self) -> None:
        self._file.close()


class _Columnar:
    """A Parquet or Arrow file of a folder, read in slices."""

    def __init__(self, path: Path, row: int, position: dict[str, Any] | None) -> None:
        self.name, self.row = path.name, row
        self._table = ColumnarFile(path)
        self._done = 0 if position is None else position["within"]
        self.over = self._done >= self._table.rows

    def take(self, max_rows: int) -> Batch | None:
        first = self._done
        count = min(max_rows, self._table.rows - first)
        if count <= 0:
            self.over = True
            return None
        numbers = self.row + np.arange(1, count + 1)
        self._done, self.row = first + count, self.row + count
        self.over = self._done >= self._table.rows
        load = partial(_slice, self._table, first, numbers)
        return Batch(load, {"within": self._done}, self.row)

    def close(self) -> None:
        """Do nothing: no file is held open."""


def _slice(table: ColumnarFile, first: int, numbers: Any) -> Rows:
    try:
        with read_errors(table.name, table.kind):
            return Rows(table.scan.slice(first, len(numbers)).collect(), numbers, [])
    except (ValueError, OSError) as error:  # a part of the file is damaged
        text = f"{plain(table.name)}: {error}"
        notes = [Note(UNREADABLE, int(row), text) for row in numbers]
        return Rows(_no_rows().frame, numbers[:0], notes)


# ------------------------------------------------------------------------------------------- Kafka


class KafkaTopic(Source):
    """All partitions of a topic: a message is a JSON object, or a line of CSV.

    Positions are part of the state, not kept by the brokers, so that no message is scored twice or
    never. Partitions that are added later are found at the next start.

    Parameters
    ----------
    address : str
        ``kafka://host:port,host:port/topic?columns=a,b&NAME=VALUE``: `columns` names the cells
        where messages are lines of CSV; the others are settings of the client, such as
        ``security.protocol``.
    needed : sequence of str
        Columns that an object must have.
    max_record : int
        Bytes of a message at most.
    once : bool
        Whether the source ends with the messages that are there now.
    """

    blocks = True
    mark_names = ("partition", "offset")
    position_shape: Any = {"row": int, "next": {str: (int, lambda at: at == -1)}}

    def __init__(
        self, address: str, needed: Sequence[str], max_record: int, once: bool = False
    ) -> None:
        url = urlsplit(address)
        self.topic = url.path.strip("/")
        if not url.netloc or not self.topic or "/" in self.topic:
            raise ValueError(
                f"A topic must be given as kafka://host:port/topic, got {quote(address)}."
            )
        try:
            settings = dict(parse_qsl(url.query, strict_parsing=bool(url.query)))
        except ValueError:
            raise ValueError(
                "Settings of a topic must be given as kafka://host:port/topic?NAME=VALUE&…, got "
                f"{quote(url.query)} after the question mark."
            ) from None
        self.name = f"{KAFKA}{url.netloc}/{self.topic}"
        names = [name.strip() for name in settings.pop("columns", "").split(",")]
        self.csv_columns = [name for name in names if name]
        self.columns = self.csv_columns or None
        self.needed, self.once, self.max_record = list(needed), once, max_record
        self._kafka = _client()
        self._settings = {
            "bootstrap.servers": url.netloc,
            "group.id": "lpfuse-watch",  # required by the client; nothing is committed to it
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            **settings,
        }
        self.row = 0
        self._waiting: list[Any] = []
        self._at_end: set[int] = set()
        self._began: set[int] = set()  # partitions with a message since the start

    def open(self, position: dict[str, Any] | None) -> None:
        """Assign the partitions, each behind its last scored message."""
        self.row = 0 if position is None else position["row"]
        known = {} if position is None else position["next"]
        self._consumer = self._kafka.Consumer(self._settings)
        try:
            topics = self._consumer.list_topics(self.topic, timeout=ANSWER).topics
        except self._kafka.KafkaException as error:
            raise ConnectionError(
                f"No broker of {quote(self.name)} answers: {error}. Check the address."
            ) from error
        found = topics[self.topic]
        if found.error is not None or not found.partitions:
            raise ValueError(f"There is no topic {quote(self.topic)}: {found.error}.")
        self._next = {int(p): int(known.get(str(p), -1)) for p in found.partitions}
        begin = self._kafka.OFFSET_BEGINNING
        self._consumer.assign(
            [
                self._kafka.TopicPartition(self.topic, p, begin if at < 0 else at)
                for p, at in self._next.items()
            ]
        )

    def take(self, max_rows: int, allow_fewer: bool) -> Batch | None:
        """Return the next messages."""
        if not (enough := self._is_enough(max_rows)):
            found = self._consumer.consume(max_rows - len(self._waiting), POLL)
            self._waiting += filter(self._is_row, found)
            enough = allow_fewer or self._is_enough(max_rows)
        if not self._waiting:
            self.ended = self.once and len(self._at_end) == len(self._next)
        if not (self._waiting and enough):
            return None
        taken, self._waiting = self._waiting[:max_rows], self._waiting[max_rows:]
        return self._batch(taken)

    def _is_enough(self, max_rows: int) -> bool:
        held = sum(len(each.value() or b"") for each in self._waiting)
        return len(self._waiting) >= max_rows or held > MAX_WAITING

    def _is_row(self, message: Any) -> bool:
        error = message.error()
        if error is None:
            self._at_end.discard(message.partition())
            return True
        if error.code() == self._kafka.KafkaError._PARTITION_EOF:
            self._at_end.add(message.partition())
        elif error.fatal():
            raise ConnectionError(f"{self.name} can no longer be read: {error}.")
        return False  # the client retries by itself

    def _batch(self, messages: list[Any]) -> Batch:
        numbers = self.row + np.arange(1, len(messages) + 1)
        self.row += len(messages)
        notes = []
        for number, message in zip(numbers.tolist(), messages, strict=True):
            p, at = message.partition(), message.offset()
            # Compacted messages and transactions leave gaps; only messages that brokers deleted
            # before they were read are lost, and these are at the beginning.
            if 0 <= self._next[p] < at and p not in self._began:
                lost = f"partition {p} begins at {at}, and {self._next[p]} was to be read next"
                notes.append(Note(GONE, number - 1, lost))
            self._began.add(p)
            self._next[p] = at + 1
        position = {"row": self.row, "next": {str(p): at for p, at in self._next.items()}}
        marks = {
            "partition": np.array([message.partition() for message in messages]),
            "offset": np.array([message.offset() for message in messages]),
        }
        values = [message.value() or b"" for message in messages]
        settings = self.needed, self.csv_columns, self.max_record
        load = partial(_parse_messages, values, numbers, *settings)
        return Batch(load, position, self.row, notes, marks)

    def close(self) -> None:
        """Close the connection."""
        self._consumer.close()


def _client() -> Any:
    try:
        import confluent_kafka
    except ImportError as error:
        raise ImportError(
            'Topics of Kafka need confluent-kafka. Install it: pip install "lpfuse[kafka]"'
        ) from error
    return confluent_kafka


def _parse_messages(
    values: list[bytes], numbers: Numbers, needed: list[str], csv_columns: list[str], most: int
) -> Rows:
    """Parse messages; invalid ones become notes."""
    rows: list[dict[str, Any]] = []
    kept: list[int] = []
    notes: list[Note] = []
    for value, number in zip(values, numbers.tolist(), strict=True):
        try:
            if len(value) > most:
                raise ValueError(too_long(most))
            row = _from_csv(value, csv_columns) if csv_columns else _from_json(value)
        except (ValueError, csv.Error, RecursionError) as error:
            notes.append(Note(BROKEN, number, str(error)))
            continue
        lacking = [name for name in needed if name not in row]
        if lacking:
            notes.append(Note(LACKS, number, ", ".join(map(quote, lacking))))
            continue
        rows.append(row)
        kept.append(number)
    pl = polars_module()
    names = dict.fromkeys(name for row in rows for name in row)
    frame = pl.DataFrame([_column(name, [row.get(name) for row in rows]) for name in names])
    return Rows(frame, np.array(kept, np.int64), notes)


def _from_json(value: bytes) -> dict[str, Any]:
    found = json.loads(value, parse_constant=lambda _: None)
    if not isinstance(found, dict):
        raise ValueError("no JSON object")
    for name, cell in found.items():
        if isinstance(cell, list | dict):
            raise ValueError(f"{quote(name)} holds no number and no text")
    return found


def _from_csv(value: bytes, columns: list[str]) -> dict[str, Any]:
    records = list(csv.reader([value.decode()], strict=True))
    cells = records[0] if records else []
    if len(cells) != len(columns):
        raise ValueError(f"{len(cells)} cells, not {len(columns)}")
    texts = [None if cell.strip() in MISSING else cell.strip() for cell in cells]
    return dict(zip(columns, texts, strict=True))


def _column(name: str, cells: list[Any]) -> Any:
    """Make a column of numbers where all cells are numbers, else of texts as in a CSV file."""
    pl = polars_module()
    known = [cell for cell in cells if cell is not None]
    if all(isinstance(cell, bool) for cell in known) and known:
        return pl.Series(name, cells, dtype=pl.Boolean)
    if all(isinstance(cell, int) and abs(cell) < 2**63 for cell in known):
        return pl.Series(name, cells, dtype=pl.Int64)
    if all(isinstance(cell, int | float) for cell in known):
        return pl.Series(name, [_float(cell) for cell in cells], dtype=pl.Float64)
    texts = [cell if isinstance(cell, str | None) else json.dumps(cell) for cell in cells]
    return pl.Series(name, texts, dtype=pl.String)


def _float(cell: Any) -> float | None:
    try:
        return None if cell is None else float(cell)
    except OverflowError:  # an integer of more than 308 digits, which is refused like infinity
        return float("inf")
