"""Results as JSON lines, appended as they come: an interrupted run goes on where it stopped.

A record is known by what was asked (its ``kind`` and the fields of ``IDENTITY``). Measuring the
same thing again appends another line, and the last one counts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Record = dict[str, Any]

IDENTITY = (
    "kind", "source", "n", "R", "setting", "seed", "p", "rival", "gap", "tolerance_asked",
    "threads", "device", "dtype", "workers", "form",
)  # fmt: skip


def identity(record: Record) -> tuple[Any, ...]:
    """What was asked, without what came out."""
    return tuple(record.get(name) for name in IDENTITY)


def read_records(paths: Iterable[Path]) -> list[Record]:
    """The latest record of each identity in these files, and every environment."""
    latest: dict[tuple[Any, ...], Record] = {}
    for path in paths:
        for line in path.read_text().splitlines():
            record = _parse(line)
            if record is not None:
                key = (record["id"],) if record["kind"] == "environment" else identity(record)
                latest[key] = record
    return list(latest.values())


def matching(records: Iterable[Record], **fields: Any) -> list[Record]:
    """The records whose fields agree with these."""
    return [r for r in records if all(r.get(name) == value for name, value in fields.items())]


def _parse(line: str) -> Record | None:
    """None for the torn last line of an interrupted run."""
    try:
        record: Record = json.loads(line)
    except json.JSONDecodeError:
        return None
    return record


class Store:
    """One file of results and what is known from it."""

    def __init__(self, path: Path, environment: Record) -> None:
        self.path = path
        self.environment = environment
        self.records: dict[tuple[Any, ...], Record] = {}
        if path.is_file():
            found = read_records([path])
            self.records = {identity(r): r for r in found if r["kind"] != "environment"}
        self._announce()

    def find(self, **asked: Any) -> Record | None:
        """The record that answers exactly this question."""
        return self.records.get(identity(asked))

    def select(self, **fields: Any) -> list[Record]:
        """All records whose fields agree with these."""
        return matching(self.records.values(), **fields)

    def append(self, record: Record) -> None:
        self.records[identity(record)] = record
        self._write({**record, "environment": self.environment["id"]})

    def _announce(self) -> None:
        """Write the environment once, before the first record that was measured in it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = self.path.read_text() if self.path.is_file() else ""
        if text and not text.endswith("\n"):
            with self.path.open("a") as file:
                file.write("\n")
        if f'"id": "{self.environment["id"]}"' not in text:
            self._write({"kind": "environment", **self.environment})

    def _write(self, record: Record) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(plain(record)) + "\n")


def plain(value: Any) -> Any:
    """Standard JSON has no NaN and no infinity: both become null."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
