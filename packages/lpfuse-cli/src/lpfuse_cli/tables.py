"""Tables in files: read whole, sampled or in chunks, and written row by row."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, Any
from zipfile import BadZipFile, ZipFile
from zlib import error as DeflateError

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse._files import check_writable, missing_file_message, replacing, write_errors
from lpfuse._format import plain, quote
from lpfuse._validation.params import counted
from lpfuse.frames import TableFormat
from lpfuse.frames.cells import check_names, labels_of, polars_module, settle_normal
from lpfuse.frames.table_detector import OPEN
from lpfuse_cli.csv_files import (
    MISSING,
    UNPACK,
    Chunk,
    CsvFile,
    TableFile,
    decimals_of,
    read_errors,
    with_points,
)

if TYPE_CHECKING:
    import polars

__all__ = [
    "check_table_target",
    "read_sample",
    "read_table",
    "table_writer",
]

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
        raise FileNotFoundError(missing_file_message(path))
    if not path.is_file():
        raise ValueError(f"{quote(str(path))} is not a file. Name one table, .csv or .parquet.")


@contextmanager
def open_table(path: str | Path, format: TableFormat = OPEN) -> Iterator[TableFile]:
    """Open a table that may be larger than the memory.

    Parameters
    ----------
    path, format : str or path, TableFormat
        As in `lpfuse_cli.tables.read_table`.
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


# ------------------------------------------------------------------------------------ spreadsheets

# Bytes that a file may unpack to. A full sheet of a million rows and twenty columns has about as
# many; what is larger is better kept as CSV or Parquet.
MOST_BYTES = 2**30


def read_sheet(path: Path, told: TableFormat) -> tuple[polars.DataFrame, TableFormat]:
    """The rows of a sheet, and how they were written.

    Parameters
    ----------
    path : Path
        The file.
    told : TableFormat
        Its `sheet`, and the decimal sign of numbers that are texts.
    """
    try:
        import fastexcel
    except ImportError as error:
        raise ImportError(
            f'{plain(path.name)} is read by fastexcel: pip install "lpfuse[excel]". Or save it as '
            "CSV."
        ) from error
    _refuse_bombs(path)
    try:
        book = fastexcel.read_excel(path)
        names = book.sheet_names
        sheet = names[0] if told.sheet is None and names else told.sheet
        if sheet not in names:
            shown = ", ".join(map(quote, names[:20]))
            raise ValueError(
                f"{plain(path.name)} has no sheet {quote(str(sheet))}. It has {shown}."
            )
        frame = book.load_sheet(sheet, schema_sample_rows=None).to_polars()
    except fastexcel.FastExcelError as error:
        raise _unreadable(path, str(error).partition("\n")[0]) from error
    texts = polars_module().selectors.string()
    # As in a CSV file: blanks around cells, and words for "no value".
    frame = frame.with_columns(texts.str.strip_chars().replace(list(MISSING), None))
    decimal, signs = decimals_of(frame.select(texts), told)
    used = TableFormat(decimal=decimal, sheet=sheet if len(names) > 1 else None)
    return with_points(frame.select(map(_whole, frame)), signs), used


def _whole(column: polars.Series) -> polars.Series:
    """Numbers of a spreadsheet are floats; whole ones may be names of rows, or codes."""
    pl = polars_module()
    if column.dtype == pl.Float64 and column.null_count() < len(column):
        whole: Any = column.drop_nulls()
        if ((whole == whole.round()) & (whole.abs() < 2**53)).all():
            return column.cast(pl.Int64)
    return column


def _refuse_bombs(path: Path) -> None:
    """Refuse a file that would not fit, or whose sizes are lies, by unpacking it to nowhere."""
    try:
        with ZipFile(path) as archive:
            parts = archive.infolist()
            if sum(part.file_size for part in parts) > MOST_BYTES:
                raise ValueError(
                    f"{plain(path.name)} unpacks to more than {MOST_BYTES >> 30} GiB. Save it as "
                    "CSV or Parquet."
                )
            if archive.testzip() is not None:  # reads no more than the sizes say
                raise BadZipFile("a part of it is damaged")
    except (BadZipFile, NotImplementedError, RuntimeError, EOFError, DeflateError) as error:
        raise _unreadable(path, str(error)) from error


def _unreadable(path: Path, reason: str) -> ValueError:
    return ValueError(
        f"{plain(path.name)} could not be read as a spreadsheet: {plain(reason).rstrip(' .:')}. "
        "Open and save it again as .xlsx, or as CSV."
    )


# -------------------------------------------------------------------------------- tables in memory

Progress = Callable[[int, "float | None"], None]

MOST_CELLS = 2**30  # of a table that is read whole: 8 GiB of numbers, from a file of a few bytes
# Rows that are read at a time: a twentieth of a file that knows its length, within these bounds.
# Chosen by hand.
FEWEST_ROWS, MOST_ROWS = 2**16, 2**20


def read_table(
    path: str | Path,
    *,
    format: TableFormat = OPEN,
    progress: Progress | None = None,
    notes: list[str] | None = None,
) -> polars.DataFrame:
    r"""A whole table of a file.

    Parameters
    ----------
    path : str or path
        A ``.csv``, ``.tsv``, ``.txt``, ``.parquet``, ``.arrow`` or ``.feather`` file, or an
        ``.xlsx`` one where fastexcel is installed; ``-`` for CSV on standard input.
    format : TableFormat, optional
        How it is written, where that should not be found by looking at it.
    progress : callable, optional
        Called with the rows that are read, and their share of the file, if it is known.
    notes : list of str, optional
        Gets a sentence where the table is written in another way than most.

    Returns
    -------
    polars.DataFrame
        Its rows. The cells of a CSV file are texts, null where they are empty or hold one of
        ``?``, ``NA``, ``N/A``, ``NaN`` and ``null``: what they mean is settled when a model is
        fitted to them. Lines without any value are left out, with a warning that counts them.

    Examples
    --------
    >>> from lpfuse_cli.tables import read_table
    >>> path = getfixture("tmp_path") / "pumps.csv"
    >>> _ = path.write_text("bar,kind\n2.5,a\n?,b\n")
    >>> read_table(path).rows()
    [('2.5', 'a'), (None, 'b')]
    """
    with open_table(path, format) as table:
        _check_cells(table, table.rows)
        parts, rows = [], 0
        for frame in _parts(table, progress):
            parts.append(frame)
            rows += frame.height
            _check_cells(table, rows)
        _tell_format(table, notes)
        return polars_module().concat(parts)


def read_sample(
    path: str | Path,
    most: int,
    *,
    label: str | None = None,
    normal: str | None = None,
    seed: int = 0,
    format: TableFormat = OPEN,
    progress: Progress | None = None,
    notes: list[str] | None = None,
) -> tuple[polars.DataFrame, int]:
    r"""Rows of a file that are drawn by chance, and how many it has: it may exceed the memory.

    Parameters
    ----------
    path, format, progress, notes
        As in `read_table`.
    most : int
        Rows to draw: all of a file that has no more. Of labelled anomalies all are taken, up to
        half of these; all others have the same chance.
    label, normal : str, optional
        The column of labels, and what normal rows hold there, as in `TableModel.fit`.
    seed : int, default=0
        Of the draw.

    Returns
    -------
    frame, rows : polars.DataFrame and int
        The rows drawn, in their order, and the number of all.

    Examples
    --------
    >>> path = getfixture("tmp_path") / "numbers.csv"
    >>> _ = path.write_text("a\n" + "\n".join(map(str, range(100))))
    >>> frame, rows = read_sample(path, 3)
    >>> frame.height, rows
    (3, 100)
    """
    pl, random = polars_module(), np.random.default_rng(seed)
    with open_table(path, format) as table:
        if label is not None:
            (label,) = check_names([label], table.columns)
        frame, chances, rows = None, np.empty(0), 0
        for part in _parts(table, progress):
            rows += part.height
            frame = part if frame is None else pl.concat([frame, part])
            chances = np.concatenate([chances, random.random(part.height)])  # nosec B311 # NumPy
            if frame.height > 2 * most:  # what cannot be drawn any more makes room
                kinds = np.zeros(frame.height) if label is None else _codes(frame[label])
                stays = _lowest(chances, kinds, most)
                frame, chances = frame.filter(stays), chances[stays]
        _tell_format(table, notes)
    assert frame is not None  # there is one part at least
    if rows <= most:
        return frame, rows
    anomalies = np.zeros(frame.height, dtype=bool)
    if label is not None:
        anomalies = labels_of(frame[label], settle_normal(frame[label], normal)) < 0
    taken = anomalies & _lowest(chances, anomalies, most // 2)
    taken |= ~anomalies & _lowest(chances, anomalies, most - int(taken.sum()))
    return frame.filter(taken), rows


def _tell_format(table: TableFile, notes: list[str] | None) -> None:
    if notes is not None and table.format.words:
        notes.append(f"File: {table.format.words}.")


def _lowest(chances: Host, kinds: Host, most: int) -> Host:
    """Which rows have the lowest numbers of their kind, so many of each at most."""
    order = np.lexsort((chances, kinds))
    starts = np.searchsorted(kinds[order], kinds[order])
    found = np.empty(len(order), dtype=bool)
    found[order] = np.arange(len(order)) - starts < most
    return found


def _codes(column: polars.Series) -> Host:
    """A number for each different cell; 0 where it is empty."""
    if column.dtype.is_nested():  # no label, as is said when all are read
        return np.zeros(len(column))
    return column.cast(polars_module().String).rank("dense").fill_null(0).to_numpy()


def _parts(table: TableFile, progress: Progress | None) -> Iterator[polars.DataFrame]:
    """The rows, some at a time; told of, and of lines that hold nothing."""
    rows = 0
    for chunk in table.chunks(min(MOST_ROWS, max(FEWEST_ROWS, table.rows // 20))):
        yield chunk.frame
        rows += chunk.frame.height
        if progress is not None:
            progress(rows, chunk.share)
    if table.empty:
        warnings.warn(f"{plain(table.name)}: {table.empty_note}", UserWarning, stacklevel=3)


def _check_cells(table: TableFile, rows: int) -> None:
    """Refuse a table that is too large to be held."""
    if rows * len(table.columns) > MOST_CELLS:
        raise ValueError(
            f"{plain(table.name)} has {counted(rows, 'row')} of "
            f"{counted(len(table.columns), 'column')}, more cells than are read at a time "
            f"({MOST_CELLS:,}). Take some of the rows: `lpfuse fit` does, with --sample 100000."
        )


# ----------------------------------------------------------------------------------------- writing

Add = Callable[["polars.DataFrame"], None]

# Rows that wait in memory before they become a group of a Parquet or Arrow file: 1 MB a column of
# numbers. Chosen by hand.
PART_ROWS = 2**17
# How texts begin that a spreadsheet would run as a formula, blanks aside; wide signs count, too.
FORMULA = r"^\s*[=+\-@＝＋－＠]|^[\t\r\n]"


def check_table_target(path: str | Path, sources: Iterable[str | Path] = ()) -> None:
    """Refuse, before any work, a table that could not be written or should not be.

    Its suffix must tell its format; ``-``, standard output, may always be written.

    Parameters
    ----------
    path : str or path
        The file to write.
    sources : iterable of path
        Files that are read, and must not be lost.

    Examples
    --------
    >>> check_table_target("scores.xlsx")
    Traceback (most recent call last):
    ValueError: Tables are written as .arrow, .feather, .csv or .parquet files, not as ...
    """
    if str(path) == STANDARD:
        return
    if Path(path).suffix.casefold() not in KINDS:
        *others, last = KINDS
        raise ValueError(
            f"Tables are written as {', '.join(others)} or {last} files, not as "
            f"{quote(str(path))}. Give it one of these suffixes."
        )
    check_writable(path, sources)


@contextmanager
def table_writer(
    path: str | Path, part_rows: int = PART_ROWS, *, formulas: bool = False
) -> Iterator[Add]:
    """A function that adds rows to a table, which appears when all are added.

    Parameters
    ----------
    path : str or path
        A ``.csv``, ``.parquet``, ``.arrow`` or ``.feather`` file; ``-`` for CSV on standard output,
        where rows appear as they come.
    part_rows : int, default=2**17
        Rows that are held in memory before they are written, where the format is not CSV.
    formulas : bool, default=False
        Whether texts of a CSV file stay as they are where a spreadsheet would run them as formulas
        (those that begin with =, +, -, @ and are no numbers); if not, an apostrophe is put before
        them, with a warning. Other formats know texts from formulas.

    Examples
    --------
    >>> import polars as pl
    >>> from lpfuse_cli.tables import read_table, table_writer
    >>> path = getfixture("tmp_path") / "rows.parquet"
    >>> with table_writer(path) as add:
    ...     add(pl.DataFrame({"a": [1, 2]}))
    ...     add(pl.DataFrame({"a": [3]}))
    >>> read_table(path)["a"].to_list()
    [1, 2, 3]
    """
    if str(path) == STANDARD:
        sys.stdout.flush()
        yield csv_writer(sys.stdout.buffer, "Standard output", formulas)
        return
    path = Path(path).expanduser()
    with write_errors(path.name, polars_module().exceptions.PolarsError), replacing(path) as file:
        if kind_of(path) == "CSV":
            yield csv_writer(file, path.name, formulas)
        else:
            yield from _columnar(Path(file.name), path.name, kind_of(path), part_rows)


def csv_writer(file: IO[bytes], name: str, formulas: bool = False) -> Add:
    """A function that adds rows to a stream as CSV, the header before the first."""
    has_header = False
    raw = getattr(file, "raw", file)  # what waits in a buffer would fail too late

    def add(frame: polars.DataFrame) -> None:
        nonlocal has_header
        frame = frame if formulas else without_formulas(frame)
        left = memoryview(frame.write_csv(include_header=not has_header).encode())
        has_header = True
        with write_errors(name):
            while left:  # a raw stream may take less than it is given
                left = left[raw.write(left) :]

    return add


def without_formulas(frame: polars.DataFrame) -> polars.DataFrame:
    """The same table with an apostrophe before texts, and names, that are formulas elsewhere."""
    pl = polars_module()
    texts = frame.select(pl.selectors.by_dtype(pl.String, pl.Categorical, pl.Enum).cast(pl.String))
    runs = pl.all().str.contains(FORMULA) & pl.all().cast(pl.Float64, strict=False).is_null()
    safe = texts.select(pl.when(runs).then(pl.all().str.replace("^", "'")).otherwise(pl.all()))
    names = {name: f"'{name}" for name in frame.columns if re.match(FORMULA, name)}
    if not names and safe.equals(texts):
        return frame
    warnings.warn(
        "Texts that a spreadsheet would run as formulas have an apostrophe before them in the CSV "
        "file; --formulas (in Python, formulas=True) leaves them as they are.",
        UserWarning,
        stacklevel=4,
    )
    return frame.with_columns(safe).rename(names)


def _columnar(path: Path, name: str, kind: str, part_rows: int) -> Iterator[Add]:
    """Rows in parts, which one file takes in at the end: polars cannot add to a file."""
    pl = polars_module()
    waiting: list[polars.DataFrame] = []
    parts: list[Path] = []

    def add(frame: polars.DataFrame) -> None:
        waiting.append(frame)
        if sum(part.height for part in waiting) >= part_rows:
            write_part()

    def write_part() -> None:
        parts.append(Path(folder) / str(len(parts)))
        with write_errors(name, pl.exceptions.PolarsError):
            pl.concat(waiting).write_parquet(parts[-1])
        waiting.clear()

    # Under a name that `replacing` removes with its own file, should a signal end the process.
    prefix = f"{path.name}."
    with TemporaryDirectory(dir=path.parent, prefix=prefix, ignore_cleanup_errors=True) as folder:
        yield add
        if waiting:
            write_part()
        with write_errors(name, pl.exceptions.PolarsError):
            table = pl.scan_parquet(parts, glob=False)
            (table.sink_parquet if kind == "PARQUET" else table.sink_ipc)(path)


# --------------------------------------------------------------------------------- scores of files
