"""Tables that are written row by row: whatever rows, or the scores of the rows of a file."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeVar

from lpfuse._arrays.operations import Host, one_blas_thread
from lpfuse._files import check_target, replacing, write_errors
from lpfuse._format import quote
from lpfuse._validation.params import counted, quoted
from lpfuse.tables._alarm_counts import AlarmCounts, count_alarms, incomplete_rows
from lpfuse.tables._alarm_figures import alarm_figures
from lpfuse.tables._csv_format import OPEN, TableFormat
from lpfuse.tables._model import TableModel
from lpfuse.tables._polars import polars_module
from lpfuse.tables._ranges import RangeCounts, count_outside, range_figures
from lpfuse.tables._reading import KINDS, STANDARD, kind_of, open_table
from lpfuse.tables._reasons import WHY, with_reasons
from lpfuse.tables._table_file import Chunk

if TYPE_CHECKING:
    import polars

Add = Callable[["polars.DataFrame"], None]
X = TypeVar("X")
T = TypeVar("T")

# Rows that wait in memory before they become a group of a Parquet or Arrow file: 1 MB a column of
# numbers. Chosen by hand.
PART_ROWS = 2**17
MOST_WORKERS = 8  # chunks in memory at a time, however many cores there are; chosen by hand
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
    check_target(path, sources)


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
    >>> from lpfuse.tables import read_table, table_writer
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


@dataclass(frozen=True)
class ScoredFile:
    """What came of scoring a file.

    Attributes
    ----------
    rows, anomalies : int
        How many rows there are, and how many of them were called anomalies.
    notes : list of str
        What to know of them: columns that were not used, values that were new.
    alarms : dict or None
        The share of alarms asked for, expected and measured, see `alarm_figures`; None of no rows.
    left_range : list of dict
        Columns that left the range of the training, and for how many rows, see `range_figures`.
    """

    rows: int
    anomalies: int
    notes: list[str]
    alarms: dict[str, Any] | None = None
    left_range: list[dict[str, Any]] = field(default_factory=list)


def score_file(
    model: TableModel,
    data: str | Path,
    out: str | Path,
    *,
    format: TableFormat = OPEN,
    keep: Sequence[str] = (),
    chunk_rows: int = 10_000,
    jobs: int | None = None,
    formulas: bool = False,
    explain: int = 0,
    progress: Callable[[int, float | None], None] | None = None,
) -> ScoredFile:
    """Score a file that may be larger than the memory: in chunks, on all cores, in order.

    Parameters
    ----------
    model : TableModel
        Fitted.
    data : str or path
        The rows, in a file as in `read_table`; ``-`` for CSV on standard input.
    out : str or path
        The scores, in the order of the rows, in any of these formats; ``-`` for CSV on standard
        output. A file appears whole or not at all.
    format : TableFormat, optional
        How the data are written; what it leaves open is as the model remembers it, or is found.
    keep : sequence of str, default=()
        Columns of the data to be put before the scores.
    chunk_rows : int, default=10000
        Rows that are scored at a time.
    jobs : int, optional
        Chunks that are scored at a time; None: one on each core, up to 8.
    formulas : bool, default=False
        Whether texts stay as they are in a CSV file, see `table_writer`.
    explain : int, default=0
        Alarms, the first ones, that get a text in a further column, ``why``: the columns that
        pushed the score down most, what they hold and usually hold, and how far they pushed. A
        hundred alarms of 20 columns take about a quarter of a minute.
    progress : callable, optional
        Called with the number of rows that are scored, and the share of the file, if it is known.

    Returns
    -------
    ScoredFile
        How many rows, and what to know of them.

    Examples
    --------
    >>> import numpy as np
    >>> import polars as pl
    >>> from lpfuse.tables import TableModel, score_file
    >>> rows = pl.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), schema=["a", "b"])
    >>> model = TableModel.fit(rows, detectors=["gmm"])
    >>> folder = getfixture("tmp_path")
    >>> rows.write_csv(folder / "rows.csv")
    >>> score_file(model, folder / "rows.csv", folder / "scores.parquet").rows
    60
    """
    with open_table(data, format.checked() | model.format) as table:
        kept = model.check_kept(keep, table.columns)
        if explain and WHY in kept:
            raise ValueError(
                f"{quote(WHY)} cannot be kept: the reasons have a column of that name. Rename it "
                "in the data."
            )
        known = {*kept, model.label}
        unknown = [name for name in model.preparation.check(table.columns) if name not in known]

        def score(chunk: Chunk) -> tuple[Chunk, polars.DataFrame, Found]:
            frame = chunk.frame
            scored = model.score(frame, start=chunk.start, keep=kept)
            flagged = (scored["decision"] < 0).to_numpy()
            gaps = incomplete_rows(model.preparation, frame)
            X = model.numbers(frame, chunk.start)
            counts = count_alarms(model.fused, X, flagged, _labels(model, frame), gaps)
            outside = count_outside(model.preparation, frame, X)
            return chunk, scored, Found(model.preparation.new_in(frame), counts, outside)

        rows, told, found = 0, 0, None
        # One thread for BLAS: the chunks are spread over the cores.
        with one_blas_thread, table_writer(out, formulas=formulas) as add:
            chunks = in_order(score, table.chunks(chunk_rows), jobs or cores())
            for chunk, scored, here in chunks:
                if explain:
                    scored, more = with_reasons(model, chunk.frame, scored, explain - told)
                    told += more
                add(scored)
                rows += scored.height
                found = here if found is None else found + here
                if progress is not None:
                    progress(rows, chunk.share)
        notes = [f"Read as a file with {table.format.words}."] if table.format.words else []
        notes += [table.empty_note] if table.empty else []
    if unknown:
        notes.append(f"Ignored, for the model does not know it: {quoted(unknown, 20)}.")
    if found is None or not rows:
        return ScoredFile(rows, 0, notes)
    notes += [f"{what} in {counted(number, 'row')}." for what, number in found.new.items()]
    alarms = alarm_figures(model.fused, found.alarms)
    flagged = alarms["rows"]["flagged"]
    if explain and told == explain < flagged:
        notes.append(
            f"Explained: the first {told:,} of {flagged:,} alarms. --explain (in Python, explain=) "
            "says how many."
        )
    left_range = range_figures(model.preparation, found.outside)
    return ScoredFile(rows, flagged, notes, alarms, left_range)


class Found(NamedTuple):
    """What is counted in a chunk: what is new in it, alarms, and what is out of range."""

    new: Counter[str]
    alarms: AlarmCounts
    outside: RangeCounts

    def __add__(self, other: Any) -> Found:
        return Found(*(a + b for a, b in zip(self, other, strict=True)))


def _labels(model: TableModel, frame: polars.DataFrame) -> Host | None:
    """What is known of rows; nothing where the column of labels holds no labels: it is not used."""
    nested = model.label in frame.columns and frame[str(model.label)].dtype.is_nested()
    return None if nested else model.labels(frame)


def in_order(work: Callable[[X], T], items: Iterable[X], workers: int) -> Iterator[T]:
    """``work`` on each item, on so many threads; results in their order, few of them waiting."""
    pool = ThreadPoolExecutor(workers)
    waiting: deque[Future[T]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def cores() -> int:
    allowed = getattr(os, "sched_getaffinity", None)  # Linux: the cores this process may use
    return min(MOST_WORKERS, len(allowed(0)) if allowed else os.cpu_count() or 1)
