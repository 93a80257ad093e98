"""Exactly-once output: verdicts on disk, and the one state file that says how far they count.

A commit first makes the output durable, then replaces the state file in one step. A start cuts the
output to the length in the state. So there is no moment at which both could disagree.
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from glob import escape
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from lpfuse._files import ANY, WriteError, as_json, check_writable, saved_as
from lpfuse._format import quote
from lpfuse.frames.cells import polars_module
from lpfuse.io import load, save
from lpfuse_cli.tables import PART_ROWS, without_formulas
from lpfuse_cli.times import ANY_ORDER
from lpfuse_cli.watch.judge import BINS, ROW

if TYPE_CHECKING:
    import polars

VERSION = 1  # of the state
JSON_LINES = (".jsonl", ".ndjson")  # suffixes


# ------------------------------------------------------------------- shapes of what a state holds


def fits(value: Any, shape: Any) -> bool:
    """Return whether a JSON value has a shape: whoever forged it, code below may rely on that.

    Parameters
    ----------
    value : object
        The value.
    shape : object
        ``int``, a whole number from 0 on; ``float``, any number, both below 2**53; other types;
        None; ``[s]``, a list of any length; ``[s, t]``, of these values; ``{str: s}``, a dict with
        any names; ``{"a": s}``, with these, where a missing one is None; a tuple of shapes, of
        which one must fit; or a function that returns whether a value fits.

    Examples
    --------
    >>> fits({"row": 3, "names": ["a"]}, {"row": int, "names": [str], "clock": (None, float)})
    True
    >>> fits([1, -1], [int])
    False
    """
    if isinstance(shape, tuple):
        return any(fits(value, each) for each in shape)
    if isinstance(shape, list):
        same = isinstance(value, list) and len(shape) in (1, len(value))
        return same and all(map(fits, value, shape if len(shape) > 1 else shape * len(value)))
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return False
        shape = dict.fromkeys(value, shape[str]) if str in shape else shape
        return value.keys() <= shape.keys() and all(fits(value.get(k), shape[k]) for k in shape)
    if shape in (int, float):
        kinds = (int, shape)
        return type(value) in kinds and abs(value) < 2**53 and (shape is float or value >= 0)
    if isinstance(shape, type):
        return isinstance(value, shape)
    return value is None if shape is None else bool(shape(value))


def one_of(*words: str | None) -> Callable[[Any], bool]:
    """Return a shape: one of these words."""
    return lambda value: isinstance(value, str | None) and value in words


def _is_temporary(name: Any) -> bool:
    return isinstance(name, str) and bool(re.fullmatch(r"\.[0-9a-f]{32}\.tmp", name))


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) < 1e300


def _is_width(value: Any) -> bool:
    return fits(value, float) and bool(value >= 1)


COUNTS = dict.fromkeys(("rows", "judged", "alarms"), int)
BUCKET = COUNTS | {
    "start": float, "noted": int, "evidence": (float, one_of("inf", "-inf")),
    "time": (None, _is_time),
}  # fmt: skip
HISTORY = {"buckets": [BUCKET], "width": _is_width}
TALLY = COUNTS | HISTORY | {
    "notes": {str: int}, "remarks": {str: int}, "last_notes": list, "last_alarms": list,
    "pvalues": [float] * BINS, "latest": [float] * BINS, "by_row": (None, HISTORY), "starts": int,
}  # fmt: skip
DRIFT = {"row": int, "time": float, "kind": str, "since": int, "sentence": str, "hook": (None, str)}
CLOCK = {
    "order": one_of(None, *ANY_ORDER), "last": (None, _is_time), "written": (None, _is_time),
    "shift": (None, float), "waiting": (None, str),
}  # fmt: skip
STREAM = {
    "level": {"mean": [_is_time, _is_time], "level": float, "latest": [_is_time]},
    "rows": [[(None, _is_time)]], "time": _is_time, "judged": int,
}  # fmt: skip
EPISODE = {
    "number": int, "row": int, "time": (None, _is_time), "alarms": int, "strongest": int,
    "p_value": float, "why": str, "start": int, "end": int,
}  # fmt: skip
EPISODES = {
    "count": int, "judged": int, "first": (None, _is_time), "last": (None, _is_time),
    "latest": [EPISODE],
}  # fmt: skip
FACTS = {
    "version": int, "identity": dict, "files": int, "keep": [str], "tally": TALLY,
    "places": [[int, int]], "drift": (None, DRIFT), "times": (None, [str, one_of(*ANY_ORDER)]),
    "stream": (None, STREAM), "episodes": (None, EPISODES),
}  # fmt: skip
ANOTHER_OUTPUT = "Use another output; this one stays unchanged."


def _from_json(text: str) -> Any:
    """Return a value, or None where it is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


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

    def restore(self, length: int, own: bool = True) -> None:
        """Cut off bytes that were appended after the last commit, if these are our own."""
        there = self.path.stat().st_size if self.path.exists() else 0
        self.length = length
        self._check(min(there, length) if own else there)
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
        found = _from_json(f"[{','.join(text.splitlines())}]")
        if not fits(found, [str]):
            raise ValueError(f"{quote(str(self.path))} is damaged. {ANOTHER_OUTPUT}")
        return list(found)

    def add_lines(self, values: list[Any]) -> None:
        """Append JSON values, one per line."""
        if values:
            self.add("".join(f"{json.dumps(value)}\n" for value in values).encode())


@contextmanager
def _errors_of_writing(name: str) -> Iterator[None]:
    """Turn errors of the system into one sentence with a remedy."""
    try:
        yield
    except (OSError, polars_module().exceptions.PolarsError) as error:
        reason = getattr(error, "strerror", error)
        raise WriteError(
            f"{name} could not be written: {reason}. Free disk space, then start again: rows since "
            "the last saved state are scored again."
        ) from error


class CsvOutput:
    """A CSV file that rows are appended to."""

    mark_shape: Any = int  # of the value for `restore`, see `fits`

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

    def restore(self, mark: int, row: int) -> None:
        """Cut the file to its length in the state, if only rows behind `row` are lost."""
        self._file.restore(mark, not self.path.exists() or _holds_verdicts(self.path, mark, row))

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

    def publish(self) -> None:
        """Do nothing: rows are in their place."""


class JsonLinesOutput(CsvOutput):
    """A file of JSON lines that rows are appended to."""

    def prepare(self, table: polars.DataFrame) -> tuple[str, str]:
        """Format rows as text, on any thread; what is no finite number is null."""
        pl = polars_module()
        numbers = pl.selectors.float()
        return "", table.with_columns(
            pl.when(numbers.is_finite()).then(numbers).name.keep()
        ).write_ndjson()


def _row_in(line: str) -> str:
    """Return the number of the row of a verdict in JSON; a word where it is none."""
    found = _from_json(line)
    return str(found.get(ROW)) if isinstance(found, dict) else "none"


def _holds_verdicts(path: Path, start: int, row: int) -> bool:
    """Return whether what follows a place in a file are verdicts on rows behind `row`.

    A last line without its end, and bytes that are no text, are what a crash leaves.
    """
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        file.seek(start)
        lines = (line for line in file if line.endswith("\n"))
        if path.suffix.casefold() in JSON_LINES:
            lines = (f"{_row_in(line)}\n" for line in lines)
        with suppress(csv.Error):  # a cell of more than 128 KiB, as no person writes
            for first, *rest in filter(None, csv.reader(lines)):
                number = int(first) if first.isdecimal() and len(first) < 20 else 0
                text = "".join([first, *rest]).replace("\t", " ")
                is_text = text.isprintable() and "\ufffd" not in text
                if is_text and number <= row and (start or first != ROW):
                    return False
    return True


class PartsOutput:
    """A folder of Parquet files, each named by its first row.

    A part is written under a name that is in the state, and gets its own when it counts: so no file
    of any other name is ever removed or replaced.
    """

    mark_shape: Any = int, {"first": int, "names": [_is_temporary, _is_temporary]}

    def __init__(self, path: Path, seconds: float) -> None:
        self.path, self.seconds = path, seconds
        self._waiting: list[polars.DataFrame] = []
        self._last = 0
        self._names = [f".{uuid4().hex}.tmp" for _ in range(2)]  # of the last part, of the next
        self._committed = monotonic()

    def check_new(self) -> None:
        """Refuse a folder with files but without a state."""
        if self.path.exists() and any(self.path.iterdir()):
            raise ValueError(
                f"{quote(str(self.path))} holds files but has no matching state file. Use another "
                "folder, or empty it."
            )

    def restore(self, mark: int | dict[str, Any], row: int) -> None:
        """Publish the last part that counts, and remove one that does not."""
        self.path.mkdir(exist_ok=True)
        if isinstance(mark, int):  # of a version whose parts had their names at once
            self._last = mark
            return
        self._last, self._names = mark["first"], mark["names"]
        self.publish()
        (self.path / self._names[1]).unlink(missing_ok=True)

    def publish(self) -> None:
        """Give the last part its name."""
        part = self.path / self._names[0]
        if part.exists():
            path = self._free_name()
            with _errors_of_writing(path.name):
                os.replace(part, path)
            sync_folder(self.path)

    def _free_name(self) -> Path:
        """Return the name of the last part, which no file may have."""
        path = self.path / f"part-{self._last:015d}.parquet"
        if path.exists() or path.is_symlink():
            raise ValueError(
                f"{quote(str(path))} is there, and this watch did not write it. Move it away, then "
                "start again: no row is lost."
            )
        return path

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

    def flush(self) -> dict[str, Any]:
        """Write a part; return the value for `restore`."""
        if self._waiting:
            table = _joined(self._waiting)
            self._last, self._names = int(table[ROW][0]), self._names[::-1]
            name, part = self._free_name().name, self.path / self._names[0]
            with _errors_of_writing(name), part.open("wb") as file:
                table.write_parquet(file)
                file.flush()
                os.fsync(file.fileno())
            sync_folder(self.path)
            self._waiting = []
        self._committed = monotonic()
        return {"first": self._last, "names": self._names}


def _joined(tables: list[polars.DataFrame]) -> polars.DataFrame:
    """Concatenate tables; columns of mixed types, from several files, become texts."""
    pl = polars_module()
    mixed = [name for name in tables[0].columns if len({table[name].dtype for table in tables}) > 1]
    return pl.concat([table.with_columns(pl.col(mixed).cast(pl.String)) for table in tables])


def make_output(out: str, seconds: float, part_seconds: float) -> CsvOutput | PartsOutput:
    """Return the output that a name stands for: a file of CSV or JSON lines, or a folder.

    Parameters
    ----------
    out : str
        Its name.
    seconds, part_seconds : float
        Between two commits of a file and of a folder.
    """
    path = Path(out).expanduser()
    suffix = path.suffix.casefold()
    if suffix == ".csv" or suffix in JSON_LINES:
        check_writable(path)
        return CsvOutput(path, seconds) if suffix == ".csv" else JsonLinesOutput(path, seconds)
    if path.is_dir() or out.endswith(("/", os.sep)):
        if not path.parent.is_dir():
            raise FileNotFoundError(f"There is no folder {quote(str(path.parent))}. Make it.")
        return PartsOutput(path, part_seconds)
    raise ValueError(
        f"The output must be a .csv or .jsonl file, or a folder, verdicts/, for Parquet files; got "
        f"{quote(out)}."
    )


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable, where the system can."""
    if os.name == "posix":
        with _errors_of_writing(path.name):
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
        with (self.path / "lock").open("a+b", buffering=0) as file:
            file.seek(0)
            try:
                _lock(file)
            except OSError as error:
                holder = ""
                with suppress(OSError, ValueError):  # Windows lets nobody read what is locked
                    holder = f" as process {int(file.read(20))}"
                raise ValueError(
                    f"Another `lpfuse watch` is running on {quote(str(self.path))}{holder}. End it "
                    "first, or use another output."
                ) from error
            if re.fullmatch(rb"\d*", file.read(20)):  # else it is no lock of ours
                with suppress(OSError):  # on a full disk the lock holds without its number
                    file.truncate(0)
                    file.write(str(os.getpid()).encode())
            remove_unfinished(self.file)
            yield

    def read(
        self, identity: dict[str, Any], output: Any = int, source: Any = None
    ) -> tuple[dict[str, Any], Any] | None:
        """Return the saved facts and monitor; None at the first start.

        Parameters
        ----------
        identity : dict
            JSON values that must be the same as saved, by the words for them in messages.
        output, source : object
            Shapes of what output and source saved, see `fits`.
        """
        if not self.file.exists():
            return None
        try:
            found = load(self.file)
        except ValueError as error:
            raise ValueError(
                f"The state {quote(str(self.file))} cannot be read: it is damaged, or of another "
                f"version of lpfuse. {ANOTHER_OUTPUT}"
            ) from error
        if not isinstance(found, WatchState):
            raise ValueError(
                f"{quote(str(self.file))} is not the state of a watch. Use another output."
            )
        facts = _from_json(found.facts) if isinstance(found.facts, str) else None
        facts = facts if isinstance(facts, dict) else {"version": VERSION}
        if facts.get("version") != VERSION:
            raise ValueError(
                f"{quote(str(self.file))} was written by another version of lpfuse. Use another "
                "output."
            )
        begun, saved = facts.get("position") is not None, facts.get("identity")
        saved = saved if isinstance(saved, dict) else identity
        other = [name for name, value in identity.items() if saved.get(name) != value]
        if begun and other:  # where nothing was scored, it fits any watch
            raise ValueError(
                f"{quote(str(self.path))} belongs to another {', another '.join(other)}. Use "
                "another output, or remove that folder and its output to start again."
            )
        position = {"source": source, "clock": (None, CLOCK)} if begun else None
        right = fits(facts, FACTS | {"output": output, "position": position})
        if not right or (begun and facts["position"]["source"]["row"] != facts["tally"]["rows"]):
            raise ValueError(
                f"The state {quote(str(self.file))} holds other values than a watch of this source "
                f"saves: it is damaged or forged. {ANOTHER_OUTPUT}"
            )
        return facts, found.monitor

    def write(self, identity: dict[str, Any], facts: dict[str, Any], monitor: Any) -> None:
        """Replace the state file in one step, and make it durable."""
        held = {"version": VERSION, "identity": identity, **facts}
        with _errors_of_writing(self.file.name):
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
