"""Spreadsheets as tables: a sheet of an .xlsx file, read whole."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile, ZipFile
from zlib import error as DeflateError

from lpfuse._format import plain, quote
from lpfuse.tables._csv_format import MISSING, TableFormat, decimals_of, with_points
from lpfuse.tables._polars import polars_module

if TYPE_CHECKING:
    import polars

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
