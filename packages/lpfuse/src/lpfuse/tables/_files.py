"""Tables in files as polars reads them: CSV, Parquet and Arrow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars

MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "null", "NULL")  # cells of a CSV file
KINDS = {".arrow": "ARROW", ".feather": "ARROW", ".csv": "CSV", ".parquet": "PARQUET"}
MOST_CATEGORIES = 100  # more different texts than this are no categories


def polars_module() -> ModuleType:
    """polars, which is imported when a table is read, and not before."""
    try:
        import polars
    except ImportError as error:
        raise ImportError('Tables are read by polars: pip install "lpfuse[cli]"') from error
    return polars


def kind_of(path: Path) -> str:
    """What a table is stored as, by the suffix of its name: CSV, PARQUET or ARROW."""
    kind = KINDS.get(path.suffix.casefold())
    if kind is None:
        *others, last = KINDS
        raise ValueError(
            f"Tables are read from {', '.join(others)} and {last} files, not from {path.name!r}. "
            "Save it as one."
        )
    return kind


def check_readable(path: Path) -> None:
    """Refuse what is no file."""
    if not path.exists():
        raise FileNotFoundError(f"There is no file {str(path)!r}. Check its path.")
    if not path.is_file():
        raise ValueError(f"{str(path)!r} is not a file. Name one table, .csv or .parquet.")


@contextmanager
def plain_errors(name: str, kind: str) -> Iterator[None]:
    """Say in one sentence what a reader stumbled over in a file."""
    pl = polars_module()
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        if getattr(error, "errno", None) is not None:  # of the system, and no fault of the file
            raise
        told = str(error).partition("\n")[0].rstrip(" .:")
        raise ValueError(
            f"{name} could not be read as {kind}: {told}. Check that it is complete and in that "
            f"format{', in UTF-8' if 'utf' in told.casefold() else ''}."
        ) from error


def read_frame(path: Path) -> polars.DataFrame:
    """A whole table; the cells of a CSV file are texts, see `read_csv` and `typed`."""
    check_readable(path)
    kind = kind_of(path)
    pl = polars_module()
    with plain_errors(path.name, kind), path.open("rb") as file:
        if kind == "CSV":
            return read_csv(file.read())
        read = pl.read_parquet if kind == "PARQUET" else pl.read_ipc
        return read(file)  # a path would be searched for wildcards


def read_csv(content: bytes) -> polars.DataFrame:
    """Cells as texts, without blanks around them; null where a value is missing.

    Lines without any value are left out.
    """
    pl = polars_module()
    content = trimmed(content)
    if not content:
        raise pl.exceptions.NoDataError("empty CSV")
    if content.count(b'"') % 2:
        raise pl.exceptions.ComputeError("a quote is never closed")
    frame = pl.read_csv(content, infer_schema_length=0)
    for name in frame.columns:
        if f"{name}_duplicated_0" in frame.columns:  # so polars calls the second of that name
            raise pl.exceptions.DuplicateError(f"two columns are called {name!r}")
    texts = pl.all().str.strip_chars()
    cells = pl.when(texts.is_in(MISSING)).then(None).otherwise(texts)
    frame = frame.with_columns(cells.name.keep())
    frame = frame.rename({name: name.strip() for name in frame.columns})
    return frame.filter(~pl.all_horizontal(pl.all().is_null()))


def trimmed(content: bytes) -> bytes:
    """A CSV file without what may stand before its header: a mark of UTF-8, empty lines."""
    return content.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")


def typed(texts: polars.Series) -> polars.Series:
    """Texts as what all of them spell: numbers, truth values, or dates and times."""
    pl = polars_module()
    if texts.dtype != pl.String:
        return texts
    gaps = texts.null_count()
    for kind in (pl.Int64, pl.Float64):
        numbers = texts.cast(kind, strict=False)
        if numbers.null_count() == gaps:
            return numbers
    lower = texts.str.to_lowercase()
    if lower.is_in(["true", "false"]).sum() == len(texts) - gaps:
        return lower == "true"
    for parse in ("to_date", "to_datetime", "to_time"):
        if _moments(texts.drop_nulls().head(10), parse) is not None:
            moments = _moments(texts, parse)
            if moments is not None:
                return moments
    return texts


def _moments(texts: polars.Series, parse: str) -> polars.Series | None:
    """Texts as dates or times, if all of them are."""
    pl = polars_module()
    try:
        moments: polars.Series = getattr(texts.str, parse)(strict=False)
    except pl.exceptions.PolarsError:  # no format fits
        return None
    return moments if moments.null_count() == texts.null_count() else None
