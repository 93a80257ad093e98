"""Tables that appear whole or not at all, and the sentences for those that cannot."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING

from lpfuse._files import replacing
from lpfuse.tables._files import KINDS, kind_of, polars_module
from lpfuse.tables._reading import STANDARD

if TYPE_CHECKING:
    import polars

Add = Callable[["polars.DataFrame"], None]
PART_ROWS = 2**17  # that are held before they become a group of a Parquet or Arrow file


def check_target(path: str | Path, sources: Iterable[str | Path] = ()) -> None:
    """Refuse, before any work, a file that could not be written or should not be.

    Parameters
    ----------
    path : str or path
        The file to write.
    sources : iterable of path
        Files that are read, and must not be lost.
    """
    path = Path(path).expanduser()
    folder = path.resolve().parent
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no folder {str(folder)!r}. Make it, or name another.")
    if path.exists() and not path.is_file():
        raise ValueError(f"{str(path)!r} is there, and is no file. Name another.")
    for source in map(Path, sources):
        if path.exists() and source.exists() and path.samefile(source):
            raise ValueError(f"{str(path)!r} is read, so it cannot be written. Name another.")
    try:
        with TemporaryDirectory(dir=folder, prefix="."):
            pass
    except OSError as error:
        reason = f"Nothing can be written to {str(folder)!r}: {error.strerror}."
        raise type(error)(f"{reason} Name another folder, or ask for access to it.") from error


def check_table_target(path: str | Path, sources: Iterable[str | Path] = ()) -> None:
    """The same for a table, which must have a suffix that tells its format; ``-`` may be written.

    Parameters
    ----------
    path, sources
        As in `check_target`.
    """
    if str(path) == STANDARD:
        return
    if Path(path).suffix.casefold() not in KINDS:
        *others, last = KINDS
        raise ValueError(
            f"Tables are written as {', '.join(others)} or {last} files, not as {str(path)!r}. "
            "Give it one of these suffixes."
        )
    check_target(path, sources)


class NotWritten(OSError):
    """Why something could not be written, in a sentence."""


@contextmanager
def said(name: str) -> Iterator[None]:
    """Say in one sentence why something could not be written."""
    pl = polars_module()
    try:
        yield
    except (BrokenPipeError, NotWritten):  # `lpfuse … | head`; or it is said already
        raise
    except (OSError, pl.exceptions.PolarsError) as error:
        of_polars = str(error).rpartition("error: ")[2].partition(" (os error")[0]
        reason = getattr(error, "strerror", None) or of_polars
        raise NotWritten(
            f"{name} could not be written: {reason}. Nothing of it is left; make room, or name "
            "another folder, and try again."
        ) from error


@contextmanager
def table_writer(path: str | Path) -> Iterator[Add]:
    """A function that adds rows to a table, which appears when all are added.

    Parameters
    ----------
    path : str or path
        A ``.csv``, ``.parquet``, ``.arrow`` or ``.feather`` file; ``-`` for CSV on standard output,
        where rows appear as they come.
    """
    if str(path) == STANDARD:
        sys.stdout.flush()
        yield _csv(sys.stdout.buffer, "Standard output")
        return
    path = Path(path).expanduser()
    with said(path.name), replacing(path) as file:
        if kind_of(path) == "CSV":
            yield _csv(file, path.name)
        else:
            yield from _columnar(Path(file.name), path.name, kind_of(path))


def _csv(file: IO[bytes], name: str) -> Add:
    has_header = False
    raw = getattr(file, "raw", file)  # what waits in a buffer would fail too late

    def add(frame: polars.DataFrame) -> None:
        nonlocal has_header
        left = memoryview(frame.write_csv(include_header=not has_header).encode())
        has_header = True
        with said(name):
            while left:
                left = left[raw.write(left) :]

    return add


def _columnar(path: Path, name: str, kind: str) -> Iterator[Add]:
    """Rows in parts, which one file takes in at the end: polars cannot add to a file."""
    pl = polars_module()
    waiting: list[polars.DataFrame] = []
    parts: list[Path] = []

    def add(frame: polars.DataFrame) -> None:
        waiting.append(frame)
        if sum(part.height for part in waiting) >= PART_ROWS:
            put_away()

    def put_away() -> None:
        parts.append(Path(folder) / str(len(parts)))
        with said(name):
            pl.concat(waiting).write_parquet(parts[-1])
        waiting.clear()

    with TemporaryDirectory(dir=path.parent, prefix=".", ignore_cleanup_errors=True) as folder:
        yield add
        if waiting:
            put_away()
        with said(name):
            table = pl.scan_parquet(parts, glob=False)
            (table.sink_parquet if kind == "PARQUET" else table.sink_ipc)(path)
