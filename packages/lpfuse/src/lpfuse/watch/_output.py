"""Verdicts on disk, of which it is known how far they count: the rest is cut off at a start."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from lpfuse._files import WriteError, check_writable, replacing, write_errors
from lpfuse._format import quote
from lpfuse.frames.cells import polars_module
from lpfuse.watch._judging import ROW
from lpfuse_cli.tables import PART_ROWS, without_formulas

if TYPE_CHECKING:
    import polars

SECONDS = 2.0  # between two commits of a file that is added to; chosen by hand
PART_SECONDS = 60.0  # after which a part of a folder is written, however few rows; chosen by hand


class AppendedFile:
    """A file that is added to, up to a length that is kept elsewhere.

    Parameters
    ----------
    path : path
        The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.length = 0

    def restore(self, length: int) -> None:
        """Cut off what was added and never counted."""
        there = self.path.stat().st_size if self.path.exists() else 0
        self.length = length
        self._check(min(there, length))
        if there > length:
            with self.path.open("r+b") as file:
                file.truncate(length)
                os.fsync(file.fileno())

    def _check(self, there: int) -> None:
        """Refuse to add to a file that is not as it was left: moved away, cut, or added to."""
        if there != self.length:
            raise ValueError(
                f"{quote(str(self.path))} has {there:,} bytes, and {self.length:,} were written: "
                "somebody has changed it. Restore it, or begin anew with another output."
            )

    def add(self, content: bytes) -> None:
        """Write behind what is there; it counts from the next `flush` on."""
        with _words_for_errors(self.path.name), self._opened() as file:
            self._check(os.fstat(file.fileno()).st_size)
            left = memoryview(content)
            while left:
                left = left[file.write(left) :]
        self.length += len(content)

    def flush(self) -> int:
        """Have it all on disk; its length."""
        if self.length:
            with _words_for_errors(self.path.name), self._opened() as file:
                os.fsync(file.fileno())
        return self.length

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        # Opened each time: a descriptor that lasted would go on writing to a file that was moved.
        with self.path.open("ab", buffering=0) as file:
            yield file

    def lines(self) -> list[Any]:
        """What `add_lines` wrote."""
        text = self.path.read_bytes()[: self.length].decode() if self.length else ""
        return [json.loads(line) for line in text.splitlines()]

    def add_lines(self, values: list[Any]) -> None:
        """Values in terms of JSON, one a line."""
        if values:
            self.add("".join(f"{json.dumps(value)}\n" for value in values).encode())


@contextmanager
def _words_for_errors(name: str) -> Iterator[None]:
    """Say in one sentence what failed, and that nothing is lost by it."""
    try:
        yield
    except OSError as error:
        raise WriteError(
            f"{name} could not be written: {error.strerror}. Make room, or see to the disk, and "
            "start again: what was saved counts, and the rest is judged anew."
        ) from error


class CsvOutput:
    """One CSV file, which rows are added to."""

    def __init__(self, path: Path, formulas: bool, seconds: float = SECONDS) -> None:
        self.path, self.formulas, self.seconds = path, formulas, seconds
        self._file = AppendedFile(path)
        self._named = False  # whether the folder on disk knows the file
        self._committed = monotonic()

    def check_new(self) -> None:
        """Refuse to begin with a file that is somebody's."""
        if self.path.exists() and self.path.stat().st_size:
            raise ValueError(
                f"{quote(str(self.path))} is there, and no state tells how far it counts. Name "
                "another output, or move it away."
            )

    def restore(self, mark: int) -> None:
        """Cut the file to what counts."""
        self._file.restore(mark)

    def prepared(self, table: polars.DataFrame) -> tuple[str, str]:
        """Header and rows as text, on any thread."""
        table = table if self.formulas else without_formulas(table)
        header = table.clear().write_csv()
        return header, table.write_csv(include_header=False)

    def add(self, rows: tuple[str, str]) -> None:
        """Write rows, as `prepared` gave them."""
        header, text = rows
        self._file.add((text if self._file.length else header + text).encode())

    def due(self, idle: bool) -> bool:
        """Whether to commit what was added."""
        return idle or monotonic() - self._committed >= self.seconds

    def flush(self) -> int:
        """Have all rows on disk; what `restore` takes."""
        is_new = not self._named and self._file.length
        length = self._file.flush()
        if is_new:
            sync_folder(self.path.parent)
            self._named = True
        self._committed = monotonic()
        return length


class PartsOutput:
    """A folder of Parquet files, each named after its first row."""

    def __init__(self, path: Path, seconds: float = PART_SECONDS) -> None:
        self.path, self.seconds = path, seconds
        self._waiting: list[polars.DataFrame] = []
        self._last = 0
        self._committed = monotonic()

    def check_new(self) -> None:
        """Refuse to begin with a folder that is somebody's."""
        if self.path.exists() and any(self.path.iterdir()):
            raise ValueError(
                f"{quote(str(self.path))} holds files, and no state tells which of them count. "
                "Name another folder, or empty it."
            )

    def restore(self, mark: int) -> None:
        """Remove parts that were written and never counted; those that count may be gone by now."""
        self.path.mkdir(exist_ok=True)
        for part in self.path.glob("part-*"):
            row = re.match(r"part-(\d+)\.parquet", part.name)
            if row is None or int(row[1]) > mark or part.suffix == ".tmp":
                part.unlink()
        self._last = mark

    def prepared(self, table: polars.DataFrame) -> polars.DataFrame:
        """The rows as they are."""
        return table

    def add(self, table: polars.DataFrame) -> None:
        """Keep rows until there are enough for a part."""
        self._waiting.append(table)

    def due(self, idle: bool) -> bool:
        """Whether to commit what was added."""
        rows = sum(table.height for table in self._waiting)
        return rows >= PART_ROWS or monotonic() - self._committed >= self.seconds

    def flush(self) -> int:
        """Write a part; what `restore` takes."""
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
    """One table; columns of several types, as files of a folder may have them, become texts."""
    pl = polars_module()
    mixed = [name for name in tables[0].columns if len({table[name].dtype for table in tables}) > 1]
    return pl.concat([table.with_columns(pl.col(mixed).cast(pl.String)) for table in tables])


def make_output(out: str, formulas: bool, seconds: float | None) -> CsvOutput | PartsOutput:
    """The output that a name stands for: a ``.csv`` file, or a folder for parts of Parquet.

    Parameters
    ----------
    out, formulas : str, bool
        Its name, and whether texts of CSV stay as they are.
    seconds : float or None
        Between two commits; None: as long as suits it.
    """
    path = Path(out).expanduser()
    if path.suffix.casefold() == ".csv":
        check_writable(path)
        return CsvOutput(path, formulas, SECONDS if seconds is None else seconds)
    if path.is_dir() or out.endswith(("/", os.sep)):
        if not path.parent.is_dir():
            raise FileNotFoundError(f"There is no folder {quote(str(path.parent))}. Make it.")
        return PartsOutput(path, PART_SECONDS if seconds is None else seconds)
    raise ValueError(
        f"Verdicts of a stream go to a .csv file, or to a folder, verdicts/, as parts of Parquet; "
        f"not to {quote(out)}. Name one of these."
    )


def sync_folder(path: Path) -> None:
    """Have the names of a folder on disk, where the system knows how."""
    if os.name == "posix":
        number = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
