"""The one store of results: JSON that survives an interruption, read as it lies in `results/`.

- **Cells** (`CellFile`, written by `measure`): a line a row; rows belong to a cell (set, seed) that
  is measured whole or not at all. Lines with a ``header`` spell out each protocol and the versions
  once, and rows carry their hashes; the files of studies open with one line about the run instead.
- **Records** (`RecordStore`): a line each, appended as they come and known by what was asked.
- **Documents** (`read_document`, `write_document`): one object, written in one go.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, NamedTuple

from lpfuse._files import as_json, replacing

Row = dict[str, Any]
Record = dict[str, Any]


# ------------------------------------------------------------------------------------------ cells


@dataclass(frozen=True, order=True)
class Cell:
    """The unit of work that is done whole or not at all.

    Attributes
    ----------
    set : str
        Name of the data set.
    seed : int
        Of the random split.
    """

    set: str
    seed: int

    def __str__(self) -> str:
        return f"{self.set}, seed {self.seed}"


def protocol_hash(description: Mapping[str, Any]) -> str:
    """Twelve hexadecimal digits that change when anything in a description changes.

    Parameters
    ----------
    description : mapping
        Values as in `plain`; the order of its keys does not matter.

    Examples
    --------
    >>> protocol_hash({"p": [1, 2]}) == protocol_hash({"p": (1, 2)}) != protocol_hash({"p": [2, 1]})
    True
    """
    canonical = json.dumps(as_json(description), sort_keys=True, separators=(",", ":"))
    return sha256(canonical.encode()).hexdigest()[:12]


def read_rows(path: Path | str, protocol: str | None = None) -> list[Row]:
    """Stored rows of cells, those of a run that was interrupted or still goes on included.

    Parameters
    ----------
    path : path
        The results file; its journal lies beside it.
    protocol : str, optional
        Only rows with this `protocol_hash`.

    Raises
    ------
    FileNotFoundError
        When nothing is stored.
    """
    path = Path(path)
    if not path.exists() and not journal_of(path).exists():
        raise FileNotFoundError(f"There are no results in {path}: nothing has been measured yet.")
    cells = CellFile.read(path).cells
    return [row for (mark, _), rows in cells.items() if protocol in (None, mark) for row in rows]


class Origin(NamedTuple):
    """Where rows come from; without a protocol, the file's opening line says it for all rows."""

    protocol: dict[str, Any] | None = None
    versions: dict[str, Any] | None = None

    @property
    def hashes(self) -> dict[str, str]:
        """What the rows of this origin carry."""
        told = self._asdict().items()
        return {kind: protocol_hash(content) for kind, content in told if content is not None}


CellKey = tuple[str | None, Cell]  # protocol hash and cell


@dataclass
class CellFile:
    """What a results file and its journal hold, in the order of the lines."""

    cells: dict[CellKey, list[Row]] = field(default_factory=dict)
    headers: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    opening: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> CellFile:
        """Read the file, then what its journal adds."""
        stored = cls()
        # The journal first: were it finished in between, its cells would be in neither.
        since = _lines_of(journal_of(path))
        for number, line in enumerate(_lines_of(path), start=1):
            try:
                stored._take(json.loads(line))
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                raise ValueError(
                    f"Line {number} of {path} does not hold results. Restore the file, or move it "
                    "away to measure everything anew."
                ) from error
        for line in since:
            with suppress(ValueError):  # a line that was torn: its cell is measured again
                cell = json.loads(line)
                stored.add(Origin(cell.get("protocol"), cell.get("versions")), cell["rows"])
        return stored

    def _take(self, line: dict[str, Any]) -> None:
        """One line of a results file."""
        if "header" in line:
            self.headers[line["header"], line["hash"]] = line["content"]
        elif not self.cells and isinstance(line.get("versions"), dict):
            self.opening.append(line)
        else:
            self.cells.setdefault((line.get("protocol"), _cell_of(line)), []).append(line)

    def add(self, origin: Origin, rows: list[Row]) -> None:
        """One whole cell."""
        hashes = origin.hashes
        for kind, content in origin._asdict().items():
            if kind in hashes:
                self.headers[kind, hashes[kind]] = content
        self.cells[hashes.get("protocol"), _cell_of(rows[0])] = [row | hashes for row in rows]

    def write(self, path: Path, first: Iterable[CellKey]) -> None:
        """Replace the file by all that is stored; within a protocol, some cells come first."""
        blocks: dict[str | None, list[Row]] = {mark: [] for mark, _ in self.cells}
        for mark, cell in dict.fromkeys([*first, *self.cells]):
            blocks[mark] += self.cells[mark, cell]
        rows = [row for block in blocks.values() for row in block]
        used = dict.fromkeys(
            (kind, row[kind]) for kind in ("protocol", "versions") for row in rows if kind in row
        )
        with replacing(path) as file:
            file.writelines(map(json_line, self.opening))
            for kind, mark in used:
                content = self.headers[kind, mark]
                file.write(json_line({"header": kind, "hash": mark, "content": content}))
            file.writelines(map(json_line, rows))


def _cell_of(row: Row) -> Cell:
    return Cell(row["set"], row["seed"])


def journal_of(path: Path) -> Path:
    """Where finished cells are kept until the file is written whole."""
    return path.with_name(f"{path.stem}.partial.jsonl")


@contextmanager
def locked_journal(path: Path) -> Iterator[IO[bytes]]:
    """The journal, for this process alone to append to; an empty one is removed in the end.

    The lock is the system's own: it ends with the process, however that ends.
    """
    import fcntl  # here, because Windows has none: it can read results all the same

    name = journal_of(path)
    with name.open("a+b") as journal:
        try:
            fcntl.flock(journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not name.exists() or not os.path.samestat(name.stat(), os.fstat(journal.fileno())):
                raise BlockingIOError  # its owner finished between our opening and our locking it
        except BlockingIOError as error:
            raise BlockingIOError(
                f"Another process is measuring into {path}. Wait until it has finished, or choose "
                "another folder."
            ) from error
        _end_torn_line(journal)
        try:
            yield journal
        finally:
            if size_of(journal) == 0:
                name.unlink()


# ---------------------------------------------------------------------------------------- records

# What is asked; all other fields of a record are what came out.
IDENTITY = (
    "kind", "source", "n", "R", "setting", "seed", "p", "rival", "gap", "tolerance_asked",
    "threads", "device", "dtype", "workers", "form",
)  # fmt: skip


def identity(record: Record, asked: Sequence[str] = IDENTITY) -> tuple[Any, ...]:
    """What was asked, without what came out."""
    return tuple(record.get(name) for name in asked)


def read_records(paths: Iterable[Path], asked: Sequence[str] = IDENTITY) -> list[Record]:
    """The latest record of each identity in these files, and every environment."""
    latest: dict[tuple[Any, ...], Record] = {}
    for path in paths:
        for line in _lines_of(path):
            with suppress(json.JSONDecodeError):  # the torn last line of an interrupted run
                record: Record = json.loads(line)
                is_environment = record["kind"] == "environment"
                latest[(record["id"],) if is_environment else identity(record, asked)] = record
    return list(latest.values())


def matching(records: Iterable[Record], **fields: Any) -> list[Record]:
    """The records whose fields agree with these."""
    return [r for r in records if all(r.get(name) == value for name, value in fields.items())]


class RecordStore:
    """One file of records and what is known from it; measuring again appends another line.

    `asked` names the fields that tell what was asked, where they are not the usual ones.
    """

    def __init__(self, path: Path, environment: Record, asked: Sequence[str] = IDENTITY) -> None:
        self.path = path
        self.environment = environment
        self.asked = asked
        stored = read_records([path], asked)
        self.records = {identity(r, asked): r for r in stored if r["kind"] != "environment"}
        # Once, before the first record that was measured in it.
        if not any(r["kind"] == "environment" and r["id"] == environment["id"] for r in stored):
            self._write({"kind": "environment", **environment})

    def find(self, **asked: Any) -> Record | None:
        """The record that answers exactly this question."""
        return self.records.get(identity(asked, self.asked))

    def select(self, **fields: Any) -> list[Record]:
        """All records whose fields agree with these."""
        return matching(self.records.values(), **fields)

    def append(self, record: Record) -> None:
        """Keep a record, with the environment that it was measured in."""
        self.records[identity(record, self.asked)] = record
        self._write({**record, "environment": self.environment["id"]})

    def _write(self, record: Record) -> None:
        import fcntl

        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # for this line; other processes wait
            _end_torn_line(file)
            file.write(json_line(as_json(record, infinite=False)))
            sync(file)


# ------------------------------------------------------------------------------------------ files


def read_document(path: Path) -> Record:
    """One JSON object."""
    found: Record = json.loads(path.read_text())
    return found


def write_document(path: Path, content: Mapping[str, Any]) -> None:
    """One JSON object, indented, so that a change of it can be read."""
    write_whole(path, json.dumps(as_json(content, infinite=False), indent=1) + "\n")


def write_whole(path: Path, text: str) -> None:
    """Write a file that appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(text.encode())


def json_line(content: Mapping[str, Any]) -> bytes:
    """One line of a file."""
    return json.dumps(content, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def size_of(file: IO[bytes]) -> int:
    """Bytes that have been written."""
    return os.fstat(file.fileno()).st_size


def sync(file: IO[bytes]) -> None:
    """Wait until the disk has it."""
    file.flush()
    os.fsync(file.fileno())


def _lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines() if path.exists() else []


def _end_torn_line(file: IO[bytes]) -> None:
    """What is appended must not be glued to a line that an interruption left unfinished."""
    if size_of(file) > 0:
        file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n":
            file.write(b"\n")
