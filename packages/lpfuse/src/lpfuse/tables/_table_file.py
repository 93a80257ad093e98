"""A table in a file, as its readers show it: columns, and rows in chunks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lpfuse._format import plain
from lpfuse._validation.params import counted
from lpfuse.tables._csv_format import OPEN
from lpfuse.tables._polars import polars_module

if TYPE_CHECKING:
    import polars


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows of a table.

    Attributes
    ----------
    frame : polars.DataFrame
        The rows; the cells of a CSV file are texts.
    start : int
        Rows before them.
    share : float or None
        How much of the file is read by now; None where its length is not known.
    """

    frame: polars.DataFrame
    start: int
    share: float | None


class TableFile:
    """An open table: the names of its columns, and its rows in chunks."""

    name: str
    columns: list[str]
    rows = 0  # where that is known before they are read
    format = OPEN  # how it is written, as far as that was found
    empty = 0  # lines of a CSV file, among those read, that were left out: they hold no value

    @property
    def empty_note(self) -> str:
        """How many lines were left out, in a sentence."""
        return f"Left out, for there is no value in it: {counted(self.empty, 'line')}."

    def chunks(self, rows: int) -> Iterator[Chunk]:
        """All rows, so many at a time; one chunk at least, without rows where there are none."""
        raise NotImplementedError


@contextmanager
def read_errors(name: str, kind: str) -> Iterator[None]:
    """Say in one sentence why a file cannot be read."""
    pl = polars_module()
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        if getattr(error, "errno", None) is not None:  # of the system, and no fault of the file
            raise
        reason = plain(str(error).partition("\n")[0].rstrip(" .:"))
        raise ValueError(
            f"{plain(name)} could not be read as {kind}: {reason}. Check that it is complete and "
            f"in that format{', in UTF-8' if 'utf' in reason.casefold() else ''}."
        ) from error
