"""Tables in files, in chunks: which reader a file takes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lpfuse._files import no_file
from lpfuse._format import quote
from lpfuse.tables._csv_file import UNPACK, CsvFile
from lpfuse.tables._csv_format import OPEN, TableFormat
from lpfuse.tables._excel import read_sheet
from lpfuse.tables._polars import polars_module
from lpfuse.tables._table_file import Chunk, TableFile, read_errors

STANDARD = "-"  # the name of standard input and output
KINDS = {".arrow": "ARROW", ".feather": "ARROW", ".csv": "CSV", ".parquet": "PARQUET"}
# Read, and never written.
READABLE = KINDS | {".tsv": "CSV", ".txt": "CSV", ".xlsx": "EXCEL", ".xlsm": "EXCEL"}


def kind_of(path: Path) -> str:
    """What a table is stored as, by the suffix of its name: CSV, PARQUET, ARROW or EXCEL."""
    kind = READABLE.get(path.suffix.casefold())
    if kind is None:
        *others, last = READABLE
        raise ValueError(
            f"Tables are read from {', '.join(others)} and {last} files, not from "
            f"{quote(path.name)}. Save it as one. Is it packed? {UNPACK}"
        )
    return kind


def _check_readable(path: Path) -> None:
    """Refuse what is no file."""
    if not path.exists():
        raise FileNotFoundError(no_file(path))
    if not path.is_file():
        raise ValueError(f"{quote(str(path))} is not a file. Name one table, .csv or .parquet.")


@contextmanager
def open_table(path: str | Path, format: TableFormat = OPEN) -> Iterator[TableFile]:
    """Open a table that may be larger than the memory.

    Parameters
    ----------
    path, format : str or path, TableFormat
        As in `lpfuse.tables.read_table`.
    """
    format = format.checked()
    if str(path) == STANDARD:
        yield CsvFile("Standard input", sys.stdin.buffer, None, format)
        return
    path = Path(path).expanduser()
    _check_readable(path)
    kind = kind_of(path)
    if kind == "EXCEL":
        yield Sheet(path, format)
    elif kind != "CSV":
        yield ColumnarFile(path)
    else:
        with path.open("rb") as file:
            yield CsvFile(path.name, file, path.stat().st_size, format)


class Sheet(TableFile):
    """A sheet of a spreadsheet, which is read whole: it has a million rows at most."""

    def __init__(self, path: Path, format: TableFormat) -> None:
        pl = polars_module()
        self.name = path.name
        frame, self.format = read_sheet(path, format)
        self.frame = frame.filter(~pl.all_horizontal(pl.all().is_null()))
        self.empty = frame.height - self.frame.height
        self.columns, self.rows = self.frame.columns, self.frame.height

    def chunks(self, rows: int) -> Iterator[Chunk]:
        """All rows, so many at a time."""
        for start in range(0, max(1, self.rows), rows):
            share = min(1.0, (start + rows) / max(1, self.rows))
            yield Chunk(self.frame.slice(start, rows), start, share)


class ColumnarFile(TableFile):
    """A Parquet or Arrow file, which knows where its rows are."""

    def __init__(self, path: Path) -> None:
        pl = polars_module()
        self.name, self.kind = path.name, kind_of(path)
        with read_errors(self.name, self.kind):
            scan = {"PARQUET": pl.scan_parquet, "ARROW": pl.scan_ipc}[self.kind]
            self.scan = scan(path, glob=False)
            self.columns = self.scan.collect_schema().names()
            self.rows = self.scan.select(pl.len()).collect().item()

    def chunks(self, rows: int) -> Iterator[Chunk]:
        """All rows, so many at a time."""
        for start in range(0, max(1, self.rows), rows):
            with read_errors(self.name, self.kind):
                frame = self.scan.slice(start, rows).collect()
            yield Chunk(frame, start, min(1.0, (start + rows) / max(1, self.rows)))
