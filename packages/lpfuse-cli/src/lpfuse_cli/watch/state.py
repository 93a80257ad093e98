"""Exactly-once output: verdicts on disk, and the one state file that says how far they count.

A commit first makes the output durable, then replaces the state file in one step. A start cuts the
output to the length in the state. So there is no moment at which both could disagree.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from glob import escape
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from lpfuse._files import (
    ANY,
    WriteError,
    as_json,
    check_writable,
    replacing,
    saved_as,
    write_errors,
)
from lpfuse._format import quote
from lpfuse.frames.cells import polars_module
from lpfuse.io import load, save
from lpfuse_cli.tables import PART_ROWS, without_formulas
from lpfuse_cli.watch.judge import ROW

if TYPE_CHECKING:
    import polars

VERSION = 1  # of the state


# ------------------------------------------------------------------------------------------- output


class AppendedFile:
    """A file to append to, whose valid length is stored in the state.

    Parameters
    ----------
    path : path
        The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.length = 0

    def restore(self, length: int) -> None:
        """Cut off bytes that were appended after the last commit."""
        there = self.path.stat().st_size if self.path.exists() else 0
        self.length = length
        self._check(min(there, length))
        if there > length:
            with self.path.open("r+b") as file:
                file.truncate(length)
                os.fsync(file.fileno())

    def _check(self, there: int) -> None:
        """Refuse a file that was moved, cut or appended to by another process."""
        if there != self.length:
            raise ValueError(
                f"{quote(str(self.path))} has {there:,} bytes, but {self.length:,} were written: "
                "another process has changed it. Restore it, or use another output."
            )

    def add(self, content: bytes) -> None:
        """Append bytes, which count from the next commit on."""
        with _errors_of_writing(self.path.name), self._opened() as file:
            self._check(os.fstat(file.fileno()).st_size)
            left = memoryview(content)
            while left:
                left = left[file.write(left) :]
        self.length += len(content)

    def flush(self) -> int:
        """Make the content durable; return its length."""
        if self.length:
            with _errors_of_writing(self.path.name), self._opened() as file:
                os.fsync(file.fileno())
        return self.length

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        # Opened each time: a lasting descriptor would keep writing to a file that was moved.
        with self.path.open("ab", buffering=0) as file:
            yield file

    def lines(self) -> list[Any]:
        """Return the values that `add_lines` wrote."""
        text = self.path.read_bytes()[: self.length].decode() if self.length else ""
        return [json.loads(line) for line in text.splitlines()]

    def add_lines(self, values: list[Any]) -> None:
        """Append JSON values, one per line."""
        if values:
            self.add("".join(f"{json.dumps(value)}\n" for value in values).encode())


@contextmanager
def _errors_of_writing(name: str) -> Iterator[None]:
    """Turn errors of the system into one sentence with a remedy."""
    try:
        yield
    except OSError as error:
        raise WriteError(
            f"{name} could not be written: {error.strerror}. Free disk space, then start again: "
            "rows since the last saved state are scored again."
        ) from error


class CsvOutput:
    """A CSV file that rows are appended to."""

    def __init__(self, path: Path, seconds: float) -> None:
        self.path, self.seconds = path, seconds
        self._file = AppendedFile(path)
        self._named = False  # whether the name is durable
        self._committed = monotonic()

    def check_new(self) -> None:
        """Refuse a file without a state."""
        if self.path.exists() and self.path.stat().st_size:
            raise ValueError(
                f"{quote(str(self.path))} exists but has no matching state file. Use another "
                "output, or move it away."
            )

    def restore(self, mark: int) -> None:
        """Cut the file to its length in the state."""
        self._file.restore(mark)

    def prepare(self, table: polars.DataFrame) -> tuple[str, str]:
        """Format header and rows as text, on any thread."""
        table = without_formulas(table)
        header = table.clear().write_csv()
        return header, table.write_csv(include_header=False)

    def add(self, rows: tuple[str, str]) -> None:
        """Append rows from `prepare`."""
        header, text = rows
        self._file.add((text if self._file.length else header + text).encode())

    def due(self, idle: bool) -> bool:
        """Return whether to commit now."""
        return idle or monotonic() - self._committed >= self.seconds

    def flush(self) -> int:
        """Make all rows durable; return the value for `restore`."""
        is_new = not self._named and self._file.length
        length = self._file.flush()
        if is_new:
            sync_folder(self.path.parent)
            self._named = True
        self._committed = monotonic()
        return length


class PartsOutput:
    """A folder of Parquet files, each named by its first row."""

    def __init__(self, path: Path, seconds: float) -> None:
        self.path, self.seconds = path, seconds
        self._waiting: list[polars.DataFrame] = []
        self._last = 0
        self._committed = monotonic()

    def check_new(self) -> None:
        """Refuse a folder with files but without a state."""
        if self.path.exists() and any(self.path.iterdir()):
            raise ValueError(
                f"{quote(str(self.path))} holds files but has no matching state file. Use another "
                "folder, or empty it."
            )

    def restore(self, mark: int) -> None:
        """Remove parts after the last commit; committed ones may have been taken away."""
        self.path.mkdir(exist_ok=True)
        for part in self.path.glob("part-*"):
            row = re.match(r"part-(\d+)\.parquet", part.name)
            if row is None or int(row[1]) > mark or part.suffix == ".tmp":
                part.unlink()
        self._last = mark

    def prepare(self, table: polars.DataFrame) -> polars.DataFrame:
        """Return the rows unchanged."""
        return table

    def add(self, table: polars.DataFrame) -> None:
        """Collect rows for the next part."""
        self._waiting.append(table)

    def due(self, idle: bool) -> bool:
        """Return whether to commit now."""
        rows = sum(table.height for table in self._waiting)
        return rows >= PART_ROWS or monotonic() - self._committed >= self.seconds

    def flush(self) -> int:
        """Write a part; return the value for `restore`."""
        pl = polars_module()
        if self._waiting:
            table = _joined(self._waiting)
            first = int(table[ROW][0])
            path = self.path / f"part-{first:015d}.parquet"
            with write_errors(path.name, pl.exceptions.PolarsError), replacing(path) as file:
                table.write_parquet(file)
            sync_folder(self.path)
            self._waiting, self._last = [], first
        self._committed = monotonic()
        return self._last


def _joined(tables: list[polars.DataFrame]) -> polars.DataFrame:
    """Concatenate tables; columns of mixed types, from several files, become texts."""
    pl = polars_module()
    mixed = [name for name in tables[0].columns if len({table[name].dtype for table in tables}) > 1]
    return pl.concat([table.with_columns(pl.col(mixed).cast(pl.String)) for table in tables])


def make_output(out: str, seconds: float, part_seconds: float) -> CsvOutput | PartsOutput:
    """Return the output that a name stands for: a ``.csv`` file, or a folder of Parquet files.

    Parameters
    ----------
    out : str
        Its name.
    seconds, part_seconds : float
        Between two commits of a file and of a folder.
    """
    path = Path(out).expanduser()
    if path.suffix.casefold() == ".csv":
        check_writable(path)
        return CsvOutput(path, seconds)
    if path.is_dir() or out.endswith(("/", os.sep)):
        if not path.parent.is_dir():
            raise FileNotFoundError(f"There is no folder {quote(str(path.parent))}. Make it.")
        return PartsOutput(path, part_seconds)
    raise ValueError(
        f"The output must be a .csv file, or a folder, verdicts/, for Parquet files; got "
        f"{quote(out)}."
    )


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable, where the system can."""
    if os.name == "posix":
        number = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


# -------------------------------------------------------------------------------------------- state


@saved_as("WatchState", facts=ANY)
@dataclass(eq=False)
class WatchState:
    """Everything that a later start needs, saved as one file.

    Attributes
    ----------
    facts : str
        JSON: identity of source and model, valid lengths of the files, counts and history.
    monitor : DriftMonitor or None
        The evidence of drift.
    """

    facts: str
    monitor: Any = None


class StateFolder:
    """The folder of a watch's state: the state file, and a lock.

    Parameters
    ----------
    path : path
        The folder, which is created where it does not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path / "state.lpfuse"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock, which the system releases when the process ends; refuse a second one."""
        self.path.mkdir(exist_ok=True)
        with (self.path / "lock").open("a+b") as file:
            try:
                _lock(file)
            except OSError as error:
                raise ValueError(
                    f"Another `lpfuse watch` is running on {quote(str(self.path))}. End it first, "
                    "or use another output."
                ) from error
            remove_unfinished(self.file)
            yield

    def read(self, identity: dict[str, Any]) -> tuple[dict[str, Any], Any] | None:
        """Return the saved facts and monitor; None at the first start.

        Parameters
        ----------
        identity : dict
            JSON values that must be the same as saved, by the words for them in messages.
        """
        if not self.file.exists():
            return None
        try:
            found = load(self.file)
        except ValueError as error:
            raise ValueError(
                f"The state {quote(str(self.file))} cannot be read: it is damaged, or of another "
                "version of lpfuse. Use another output; this one stays unchanged."
            ) from error
        if not isinstance(found, WatchState):
            raise ValueError(
                f"{quote(str(self.file))} is not the state of a watch. Use another output."
            )
        facts = json.loads(found.facts)
        if facts["version"] != VERSION:
            raise ValueError(
                f"{quote(str(self.file))} was written by another version of lpfuse. Use another "
                "output."
            )
        if facts["position"] is None:  # nothing was scored: it fits any watch
            return facts, None
        other = [name for name, value in identity.items() if facts["identity"].get(name) != value]
        if other:
            raise ValueError(
                f"{quote(str(self.path))} belongs to another {', another '.join(other)}. Use "
                "another output, or remove that folder and its output to start again."
            )
        return facts, found.monitor

    def write(self, identity: dict[str, Any], facts: dict[str, Any], monitor: Any) -> None:
        """Replace the state file in one step, and make it durable."""
        held = {"version": VERSION, "identity": identity, **facts}
        save(WatchState(json.dumps(as_json(held)), monitor), self.file)
        sync_folder(self.path)


def remove_unfinished(path: Path) -> None:
    """Remove temporary files that a killed process left beside a file."""
    for left in path.parent.glob(f"{escape(path.name)}.*.tmp"):
        if re.fullmatch(r"[0-9a-f]{32}", left.name[len(path.name) + 1 : -len(".tmp")]):
            left.unlink(missing_ok=True)


def digest(path: Any) -> str:
    """Return the SHA-256 of a file."""
    found = sha256()
    with open(path, "rb") as file:
        while block := file.read(2**20):
            found.update(block)
    return found.hexdigest()


if os.name == "nt":
    import msvcrt

    def _lock(file: Any) -> None:
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]

else:
    import fcntl

    def _lock(file: Any) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
