"""Results as data: cells are measured once, kept when a run stops, and stored as JSON lines.

While a run goes on, each finished cell is one line of a journal (``uci.partial.jsonl``). At the end
the whole file (``uci.jsonl``) takes its place: lines with a ``header`` spell out each protocol and
the versions once, every other line is a row that carries their hashes.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from numbers import Integral, Real
from pathlib import Path
from typing import IO, Any, NamedTuple

from lpfuse._versions import versions
from research.common.cells import Cell, Row, finished

__all__ = ["Cell", "Progress", "Row", "measure", "protocol_hash", "read_rows", "versions"]

Progress = Callable[[int, int], None]


def protocol_hash(description: Mapping[str, Any]) -> str:
    """Twelve hexadecimal digits that change when anything in a description changes.

    Parameters
    ----------
    description : mapping
        Values as in `measure`; the order of its keys does not matter.

    Examples
    --------
    >>> protocol_hash({"p": [1, 2]}) == protocol_hash({"p": (1, 2)}) != protocol_hash({"p": [2, 1]})
    True
    """
    canonical = json.dumps(_plain(description), sort_keys=True, separators=(",", ":"))
    return sha256(canonical.encode()).hexdigest()[:12]


def read_rows(path: Path | str, protocol: str | None = None) -> list[Row]:
    """Stored rows, those of a run that was interrupted or still goes on included.

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
    if not path.exists() and not _journal_of(path).exists():
        raise FileNotFoundError(f"There are no results in {path}: nothing has been measured yet.")
    cells = _Stored.read(path).cells
    return [row for (mark, _), rows in cells.items() if protocol in (None, mark) for row in rows]


def measure(
    work: Callable[[Cell], list[Row]],
    cells: Sequence[Cell],
    path: Path | str,
    *,
    protocol: Mapping[str, Any],
    jobs: int = 1,
    progress: Progress | None = None,
) -> list[Row]:
    """Measure the cells that are not stored yet, and return the rows of all.

    However it is interrupted (Ctrl-C, ``kill -9``, an error in a cell), every finished cell is kept
    and the next call goes on from there. The finished file is the same, byte for byte, for any
    `jobs` and however often it was interrupted.

    Parameters
    ----------
    work : callable
        Takes a cell, returns its rows: dicts with ``setting``, ``method``, ``metric``, ``value``
        and what else is worth keeping; ``set`` and ``seed`` are filled in. It may depend on nothing
        but the cell, and runs with one thread for linear algebra. Values are numbers, strings,
        booleans, None, or lists and dicts of those. What comes from NumPy becomes plain Python.
        JSON has neither NaN, which becomes None, nor infinity, which becomes ``"inf"``: ``float``
        reads it.
    cells : sequence of Cell
        In the order in which the file holds them.
    path : path
        The results file; its folder is made. Cells of another protocol, and those that are not
        asked for this time, stay in it.
    protocol : mapping
        All that the figures depend on. Cells count as stored under the same `protocol_hash` only.
    jobs : int, default=1
        Processes; −1 for one on each core.
    progress : callable, optional
        Called with the number of cells done, stored ones included, and the number of all: at the
        start and after each cell.

    Returns
    -------
    list of dict
        Rows of `cells`, in their order, each with the hashes ``protocol`` and ``versions``.

    Raises
    ------
    BlockingIOError
        When another process measures into the same file.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from research.common.results import Cell, measure
    >>> def work(cell):
    ...     print("measuring", cell)
    ...     return [{"method": "sum", "metric": "auc", "value": 0.9}]
    >>> protocol = {"splits": "70/20/10"}
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "results" / "uci.jsonl"
    ...     one = measure(work, [Cell("iris", 0)], path, protocol=protocol)
    ...     two = measure(work, [Cell("iris", 0), Cell("iris", 1)], path, protocol=protocol)
    measuring iris, seed 0
    measuring iris, seed 1
    >>> [row["seed"] for row in two]
    [0, 1]
    """
    path = Path(path)
    if jobs == 0:
        raise ValueError("jobs must be a number of processes, or -1 for all cores; got 0.")
    origin = _Origin(_plain(protocol), versions())
    wanted = {(origin.protocol_hash, cell): cell for cell in cells}
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked_journal(path) as journal:
        stored = _Stored.read(path)
        missing = [cell for key, cell in wanted.items() if key not in stored.cells]
        done = len(wanted) - len(missing)
        report = progress or (lambda done, total: None)
        report(done, len(wanted))
        for rows in finished(partial(_rows_of, work), missing, jobs):
            journal.write(_json_line({**origin._asdict(), "rows": rows}))
            _sync(journal)
            stored.add(origin, rows)
            done += 1
            report(done, len(wanted))
        if _size(journal) > 0:
            stored.write(path, first=wanted)
            journal.truncate(0)
    return [row for key in wanted for row in stored.cells[key]]


# ------------------------------------------------------------------------------------------ files


class _Origin(NamedTuple):
    """Where rows come from."""

    protocol: dict[str, Any]
    versions: dict[str, str]

    @property
    def protocol_hash(self) -> str:
        return protocol_hash(self.protocol)

    @property
    def versions_hash(self) -> str:
        return protocol_hash(self.versions)


_Key = tuple[str, Cell]  # protocol hash and cell


@dataclass
class _Stored:
    """What a results file and its journal hold, in the order of the lines."""

    cells: dict[_Key, list[Row]] = field(default_factory=dict)
    headers: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> _Stored:
        stored = cls()
        # The journal first: were it finished in between, its cells would be in neither.
        since = _lines_of(_journal_of(path))
        for number, line in enumerate(_lines_of(path), start=1):
            try:
                stored._take(json.loads(line))
            except (ValueError, LookupError, TypeError) as error:
                raise ValueError(
                    f"Line {number} of {path} does not hold results. Restore the file, or move it "
                    "away to measure everything anew."
                ) from error
        for line in since:
            with suppress(ValueError):  # a line that was torn: its cell is measured again
                cell = json.loads(line)
                stored.add(_Origin(cell["protocol"], cell["versions"]), cell["rows"])
        return stored

    def _take(self, line: dict[str, Any]) -> None:
        """One line of a results file."""
        if "header" in line:
            self.headers[line["header"], line["hash"]] = line["content"]
        else:
            self.cells.setdefault((line["protocol"], _cell_of(line)), []).append(line)

    def add(self, origin: _Origin, rows: list[Row]) -> None:
        """One whole cell."""
        stamp = {"protocol": origin.protocol_hash, "versions": origin.versions_hash}
        self.headers["protocol", stamp["protocol"]] = origin.protocol
        self.headers["versions", stamp["versions"]] = origin.versions
        self.cells[stamp["protocol"], _cell_of(rows[0])] = [row | stamp for row in rows]

    def write(self, path: Path, first: Iterable[_Key]) -> None:
        """Replace the file by all that is stored; within a protocol, some cells come first."""
        blocks: dict[str, list[Row]] = {mark: [] for mark, _ in self.cells}
        for mark, cell in dict.fromkeys([*first, *self.cells]):
            blocks[mark] += self.cells[mark, cell]
        rows = [row for block in blocks.values() for row in block]
        used = dict.fromkeys((kind, row[kind]) for kind in ("protocol", "versions") for row in rows)
        beside = path.with_name(f"{path.name}.new")
        with beside.open("wb") as file:
            for kind, mark in used:
                content = self.headers[kind, mark]
                file.write(_json_line({"header": kind, "hash": mark, "content": content}))
            file.writelines(map(_json_line, rows))
            _sync(file)
        beside.replace(path)


def _journal_of(path: Path) -> Path:
    return path.with_name(f"{path.stem}.partial.jsonl")


def _cell_of(row: Row) -> Cell:
    return Cell(row["set"], row["seed"])


def _lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines() if path.exists() else []


def _end_torn_line(journal: IO[bytes]) -> None:
    """What is appended must not be glued to a line that an interruption left unfinished."""
    if _size(journal) > 0:
        journal.seek(-1, os.SEEK_END)
        if journal.read(1) != b"\n":
            journal.write(b"\n")


@contextmanager
def _locked_journal(path: Path) -> Iterator[IO[bytes]]:
    """The journal, for this process alone to append to; an empty one is removed in the end.

    The lock is the system's own: it ends with the process, however that ends.
    """
    import fcntl  # here, because Windows has none: it can read results all the same

    name = _journal_of(path)
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
            if _size(journal) == 0:
                name.unlink()


def _json_line(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def _size(file: IO[bytes]) -> int:
    return os.fstat(file.fileno()).st_size


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _rows_of(work: Callable[[Cell], list[Row]], cell: Cell) -> list[Row]:
    """The rows of a cell as they are stored."""
    rows = work(cell)
    if not rows:
        raise ValueError("A cell must give at least one row, got none.")
    place = {"set": cell.set, "seed": cell.seed}
    for row in rows:
        if taken := {"header", "protocol", "versions"} & row.keys():
            raise ValueError(f"Rows may not use the names that the file uses: {sorted(taken)}.")
        if (found := {name: row.get(name, place[name]) for name in place}) != place:
            raise ValueError(f"A row of the cell {place} says that it belongs to {found}.")
    return [_plain(place | row) for row in rows]


def _plain(value: Any) -> Any:
    """The value in terms of JSON, as `measure` says."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        number = float(value)
        return number if math.isfinite(number) else None if math.isnan(number) else str(number)
    if hasattr(value, "tolist"):  # arrays, booleans and strings of NumPy and its relatives
        return _plain(value.tolist())
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    raise TypeError(
        "Results hold numbers, strings, booleans, None, and lists or dicts of those; got "
        f"{value!r} of type {type(value).__name__}."
    )
