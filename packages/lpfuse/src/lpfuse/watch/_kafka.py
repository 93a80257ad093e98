"""A topic of Kafka: JSON objects, or lines of CSV, one a message."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from lpfuse._format import quote
from lpfuse.frames.cells import polars_module
from lpfuse.watch._batch import BROKEN, GONE, LACKS, Batch, Note, Numbers, Rows
from lpfuse.watch._source import Source
from lpfuse_cli.csv_files import MISSING

SCHEME = "kafka://"
WAIT = 0.1  # seconds for which one question to the brokers lasts; chosen by hand
ANSWER = 30.0  # seconds within which brokers must tell of a topic; chosen by hand


def _client() -> Any:
    try:
        import confluent_kafka
    except ImportError as error:
        raise ImportError(
            'Topics of Kafka need confluent-kafka. Install it: pip install "lpfuse[kafka]"'
        ) from error
    return confluent_kafka


class KafkaTopic(Source):
    """All partitions of a topic, each from where its last judged message was.

    Positions are kept by the caller, not by the brokers: they are stored together with the
    verdicts, so that no message is judged twice or never. Partitions that are added later are seen
    at the next start.

    Parameters
    ----------
    address : str
        ``kafka://host:port,host:port/topic``.
    needed : sequence of str
        Columns that an object must have.
    csv_columns : sequence of str
        Where messages are lines of CSV, the names of their cells; else empty.
    settings : dict of str: str
        Further settings of the client, such as ``security.protocol``.
    once : bool
        Whether the source ends with the messages that are there now.
    """

    waits = True
    mark_names = ("partition", "offset")

    def __init__(
        self,
        address: str,
        needed: Sequence[str],
        csv_columns: Sequence[str] = (),
        settings: dict[str, str] | None = None,
        once: bool = False,
    ) -> None:
        found = urlsplit(address)
        self.topic = found.path.strip("/")
        if not found.netloc or not self.topic or "/" in self.topic:
            raise ValueError(
                f"A topic is written as kafka://host:port/topic, not as {quote(address)}."
            )
        self.name = f"{SCHEME}{found.netloc}/{self.topic}"
        self.needed, self.csv_columns, self.once = list(needed), list(csv_columns), once
        self.columns = self.csv_columns or None
        self._kafka = _client()
        self._settings = {
            "bootstrap.servers": found.netloc,
            "group.id": "lpfuse-watch",  # the client wants one; nothing is committed to it
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            **(settings or {}),
        }
        self.row = 0
        self._waiting: list[Any] = []
        self._at_end: set[int] = set()
        self._began: set[int] = set()  # partitions of which a message was read since the start

    def open(self, position: dict[str, Any] | None) -> None:
        """Ask for the partitions, and go on behind the last message of each."""
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

    def take(self, most: int, everything: bool) -> Batch | None:
        """The next messages."""
        if len(self._waiting) < most:
            found = self._consumer.consume(most - len(self._waiting), WAIT)
            self._waiting += filter(self._is_row, found)
        if not self._waiting:
            self.ended = self.once and len(self._at_end) == len(self._next)
            return None
        if len(self._waiting) < most and not everything:
            return None
        taken, self._waiting = self._waiting[:most], self._waiting[most:]
        return self._batch(taken)

    def _is_row(self, message: Any) -> bool:
        error = message.error()
        if error is None:
            self._at_end.discard(message.partition())
            return True
        if error.code() == self._kafka.KafkaError._PARTITION_EOF:
            self._at_end.add(message.partition())
        elif error.fatal():
            raise ConnectionError(f"{self.name} cannot be read any more: {error}.")
        return False  # the client tries again by itself

    def _batch(self, messages: list[Any]) -> Batch:
        numbers = self.row + np.arange(1, len(messages) + 1)
        self.row += len(messages)
        notes = []
        for number, message in zip(numbers.tolist(), messages, strict=True):
            p, at = message.partition(), message.offset()
            # Gaps are usual where messages are compacted or belong to transactions; only what
            # brokers deleted before it was read is gone, and that is at the beginning.
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
        values = [message.value() for message in messages]
        load = partial(_rows, values, numbers, self.needed, self.csv_columns)
        return Batch(load, position, self.row, notes, marks)

    def close(self) -> None:
        """Leave the brokers."""
        self._consumer.close()


def _rows(
    values: list[bytes | None], numbers: Numbers, needed: list[str], csv_columns: list[str]
) -> Rows:
    """Messages as rows; those that are none are noted."""
    rows: list[dict[str, Any]] = []
    kept: list[int] = []
    notes: list[Note] = []
    for value, number in zip(values, numbers.tolist(), strict=True):
        try:
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


def _from_json(value: bytes | None) -> dict[str, Any]:
    found = json.loads(value or b"", parse_constant=lambda _: None)
    if not isinstance(found, dict):
        raise ValueError("no JSON object")
    for name, cell in found.items():
        if isinstance(cell, list | dict):
            raise ValueError(f"{quote(name)} holds no number and no text")
    return found


def _from_csv(value: bytes | None, columns: list[str]) -> dict[str, Any]:
    records = list(csv.reader([(value or b"").decode()], strict=True))
    cells = records[0] if records else []
    if len(cells) != len(columns):
        raise ValueError(f"{len(cells)} cells, not {len(columns)}")
    texts = [None if cell.strip() in MISSING else cell.strip() for cell in cells]
    return dict(zip(columns, texts, strict=True))


def _column(name: str, cells: list[Any]) -> Any:
    """Numbers where all are numbers, else texts, as all cells of a CSV file are."""
    pl = polars_module()
    there = [cell for cell in cells if cell is not None]
    if all(isinstance(cell, bool) for cell in there) and there:
        return pl.Series(name, cells, dtype=pl.Boolean)
    if all(isinstance(cell, int) and abs(cell) < 2**63 for cell in there):
        return pl.Series(name, cells, dtype=pl.Int64)
    if all(isinstance(cell, int | float) for cell in there):
        return pl.Series(name, [_float(cell) for cell in cells], dtype=pl.Float64)
    texts = [None if cell is None else _text(cell) for cell in cells]
    return pl.Series(name, texts, dtype=pl.String)


def _float(cell: Any) -> float | None:
    try:
        return None if cell is None else float(cell)
    except OverflowError:  # a whole number of more than 308 digits: refused as infinity is
        return float("inf")


def _text(cell: Any) -> str:
    return cell if isinstance(cell, str) else json.dumps(cell)
