"""Models in files, and the scores of the rows of files."""

from __future__ import annotations

import os
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from zipfile import BadZipFile, ZipFile, is_zipfile

import numpy as np
from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays.operations import Host, one_blas_thread
from lpfuse._files import missing_model_message
from lpfuse._format import plain, quote
from lpfuse._validation.params import counted, is_gap, quoted
from lpfuse.ensemble import FusedDetector
from lpfuse.ensemble.components import Verdicts
from lpfuse.ensemble.scoring import score_columns
from lpfuse.frames import TableFormat, TablePreparation
from lpfuse.frames.cells import OPEN, as_polars, check_names, numbers_of, polars_module
from lpfuse.frames.preparation import RangeCounts, count_outside, parse_column, range_figures
from lpfuse.io import load
from lpfuse_cli.alarms import AlarmCounts, alarm_figures, count_alarms, incomplete_rows
from lpfuse_cli.reasons import WHY, with_reasons, with_unusual
from lpfuse_cli.tables import (
    READABLE,
    Chunk,
    example_row,
    hinted_errors,
    how_prepared,
    numbered_errors,
    open_table,
    table_writer,
    with_signs_of,
    writes_commas,
)
from lpfuse_cli.times import Follower

if TYPE_CHECKING:
    import polars

__all__ = ["ScoredFile", "load_model", "score_file"]


def load_model(
    path: str | PathLike[str], trusted: Iterable[str] = (), *, key: bytes | None = None
) -> FusedDetector:
    """Read a detector that was fitted to a table, and try it out on a row.

    Parameters
    ----------
    path : path-like
        The file.
    trusted : iterable of str, default=()
        Types of other makers that it may hold, see :func:`lpfuse.load`.
    key : bytes, optional
        The secret that signed it.
    """
    path = Path(path).expanduser()
    if not path.exists() or path.is_dir():
        raise FileNotFoundError(missing_model_message(path))
    _refuse_table(path)
    model = load(path, trusted, key=key)
    if isinstance(model, FusedDetector):
        check_is_fitted(model)
    if not isinstance(model, FusedDetector) or model.preparation_ is None:
        raise ValueError(
            f"{plain(path)} holds {type(model).__name__}, which knows no columns of tables. Fit a "
            "model with `lpfuse fit` or, in Python, to a data frame; or score in Python."
        )
    try:
        with warnings.catch_warnings(action="ignore"):
            score_frame(model, example_row(model.preparation_))
    except Exception as error:  # whatever a forged file may lead to
        raise ValueError(
            f"{plain(path)} is damaged: it cannot score a row ({type(error).__name__}: "
            f"{plain(error)}). Fit the model again, or restore the file from a copy."
        ) from error
    return model


def _refuse_table(path: Path) -> None:
    """Say of a table that it is no model; the two may have been given in the other order."""
    if not path.is_file():  # a pipe would wait for its writer: `load` refuses it
        return
    is_table = not is_zipfile(path) and path.suffix.casefold() in READABLE
    with suppress(BadZipFile, NotImplementedError), ZipFile(path) as archive:
        is_table = "[Content_Types].xml" in archive.namelist()  # of a spreadsheet
    if is_table:
        raise ValueError(
            f"{plain(path)} is a table, not a model. Name the model first, then the table: MODEL "
            f"{plain(path)}."
        )


def load_detector(path: Path, trusted: Iterable[str], key: bytes | None, use: str) -> Any:
    """Load a `FusedDetector`; refuse anything else."""
    path = path.expanduser()
    if path.is_file():
        _refuse_table(path)
        model = load(path, trusted, key=key)
        if not isinstance(model, FusedDetector):
            raise ValueError(
                f"{path} holds {type(model).__name__}. {use} needs a fused detector, of "
                "`lpfuse fit` or of FusedDetector.save."
            )
        check_is_fitted(model)
        if model.preparation_ is None:
            return model
    return load_model(path, trusted, key=key)


@contextmanager
def model_errors(path: Path, purpose: str) -> Iterator[None]:
    """Say of errors which model they are of; a file that was tampered with may hold anything."""
    try:
        yield
    except ValueError as error:
        error.add_note(f"The model is {path}.")
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError) as error:
        raise ValueError(
            f"{path} cannot be {purpose}: it is damaged, or of another version of lpfuse "
            f"({type(error).__name__}: {error}). Fit the model again, or restore the file."
        ) from error


def cells_of(model: FusedDetector, frame: polars.DataFrame) -> polars.DataFrame:
    """Return the columns that a model uses, as it sees them: numbers, texts, and gaps.

    Parameters
    ----------
    model : FusedDetector
        Fitted. A detector that was fitted to an array knows no names, and uses all columns.
    frame : polars.DataFrame
        Rows of a file, the cells of which may be texts.
    """
    if model.preparation_ is not None:
        model.preparation_.check(frame.columns)
        return model.preparation_.cells(frame)
    names = getattr(model, "feature_names_in_", frame.columns)
    for name in names:
        check_names([name], frame.columns)
    return frame.select(map(parse_column, frame.select(list(names))))


def rows_of(model: FusedDetector, frame: polars.DataFrame) -> Any:
    """Rows of a file as the fused detector takes them, with times in seconds, as `cells_of`."""
    made, name = model.preparation_, getattr(model, "time_column_", None)
    if made is not None:
        made.check(frame.columns)
        rows = frame.select(made.columns)
        if name is None:
            return rows
        return rows.with_columns(polars_module().Series(name, Follower(model).seconds(frame)))
    cells = cells_of(model, frame)
    if hasattr(model, "feature_names_in_"):
        return cells
    return np.column_stack([numbers_of(column) for column in cells])


def normal_rows(model: FusedDetector, frame: polars.DataFrame) -> Any:
    """Rows as in `rows_of`, without known anomalies and rows that hold nothing."""
    rows, made = rows_of(model, frame), model.preparation_
    if made is None:
        return rows
    labels = made.labels(frame)
    normal = ~np.isnan(made.numbers(frame)).all(axis=1)
    normal &= True if labels is None else labels >= 0
    if not normal.any():
        raise ValueError(
            f"recalibrate needs normal rows, got none among {frame.height:,}. Pass rows that are "
            "not labelled as anomalies and hold some values."
        )
    return rows.filter(normal)


def features_of(model: FusedDetector, frame: polars.DataFrame) -> Any:
    """Rows as in `rows_of`; of a model with time their features, with windows of those before."""
    rows = rows_of(model, frame)
    return rows if model.windows_ is None else model.follow().features(rows)


# ------------------------------------------------------------------------------ scores of a frame


class ScoredFrame(NamedTuple):
    """All that one pass over n rows gives.

    Attributes
    ----------
    X : ndarray of shape (n, d)
        Their features, NaN where nothing is known; with their windows, of a model with time.
    verdicts : Verdicts or None
        What the fused detector says; NaN of rows that hold nothing. None of no rows.
    table : polars.DataFrame of n rows
        The columns of `score_frame`.
    """

    X: Host
    verdicts: Verdicts | None
    table: polars.DataFrame


def judge_frame(
    model: FusedDetector,
    frame: polars.DataFrame,
    start: int | None = None,
    follower: Follower | None = None,
    seconds: Host | None = None,
) -> ScoredFrame:
    """Features, verdicts and the table of scores.

    Parameters
    ----------
    model : FusedDetector
        Fitted to a table.
    frame, start : polars.DataFrame, int
        Rows, and how many were before these in their file, for messages.
    follower, seconds : Follower and ndarray of shape (n,), optional
        Of a model with time: what the rows continue, which moves on, and their times.
    """
    made = how_prepared(model)
    made.check(frame.columns)
    X = made.numbers(frame, start)
    if not len(X):
        empty = dict.fromkeys(score_columns(model.detector_names_), polars_module().Float64)
        empty |= {"decision": polars_module().Int8}
        return ScoredFrame(X, None, polars_module().DataFrame(schema=empty))
    rows = frame.select(made.columns)
    if model.windows_ is None:
        found = model.verdicts(rows)
    else:
        X, found = _judge_in_time(model, rows, seconds, follower or Follower(model))
    return ScoredFrame(X, found, found.to_frame("polars"))


def _judge_in_time(
    model: FusedDetector, rows: polars.DataFrame, seconds: Host | None, follower: Follower
) -> tuple[Host, Verdicts]:
    """Return features and verdicts of the next rows, to the last bit whatever rows come together.

    Products of matrices are rounded by the size of a batch and the place of a row in it: so each
    row is scored at the same place of a block of the same size.
    """
    stream = follower.stream
    before, n, first = stream.history, len(rows), follower.judged % BLOCK
    X = stream.features(rows, seconds)
    places = np.arange(-first, -(-(first + n) // BLOCK) * BLOCK - first)
    blocks = np.split(X[np.clip(places, 0, n - 1)], len(places) // BLOCK)
    try:
        raws = [model.detector_scores(block) for block in blocks]
        fill = model.feature_imputer_
        seen = [None if fill is None else fill.transform(block) for block in blocks]
        parts = list(map(model.combination_.contributions, raws, seen))
    except Exception:
        stream.history = before
        raise
    raw, terms, scores = (
        np.concatenate(each)[first : first + n]
        for each in (raws, parts, [part.sum(axis=1) for part in parts])
    )
    pvalues = stream.level.update(scores)
    follower.judged += n
    decision = pvalues - np.nextafter(stream.level.rate, 1)  # the rate itself: an alarm
    found = Verdicts(
        scores, decision, pvalues, terms if model.combination_.is_additive else None, raw
    )
    return X, found.of_rows(rows, model.detector_names_)


def score_frame(
    model: FusedDetector, frame: Any, *, start: int | None = None, keep: Sequence[str] = ()
) -> polars.DataFrame:
    """Scores, p-values, decisions, and what each detector contributed.

    Parameters
    ----------
    model : FusedDetector
        Fitted to a table.
    frame : data frame
        Rows, with the columns of the training in any order, and perhaps others.
    start : int, optional
        Rows before these in their file, for messages.
    keep : sequence of str, default=()
        Columns of the rows to be put before the scores.

    Returns
    -------
    polars.DataFrame
        Columns ``score`` (high = normal), ``p_value`` (small for anomalies), ``decision`` (1
        normal, −1 anomaly) and ``contribution:NAME`` for each detector, which add up to the score.
        Null where no detector could score a row, or it holds no value at all.
    """
    frame = as_polars(frame)
    is_timed = getattr(model, "time_column_", None) in frame.columns
    seconds = Follower(model).seconds(frame) if is_timed else None
    table = judge_frame(model, frame, start, seconds=seconds).table
    return frame.select(keep).hstack(table) if keep else table


def check_kept(model: FusedDetector, keep: Sequence[str], columns: list[str]) -> list[str]:
    """Return names of columns to stand before the scores, which must not have the same.

    Parameters
    ----------
    model : FusedDetector
        Fitted to a table.
    keep : sequence of str
        As a user wrote them.
    columns : list of str
        The columns that there are.
    """
    kept, own = check_names(keep, columns), score_columns(model.detector_names_)
    clash = [name for name in kept if name in own]
    if clash:
        raise ValueError(
            f"{quoted(clash)} cannot be kept: the scores have a column of that name. Rename it "
            "in the data."
        )
    return list(dict.fromkeys(kept))


def id_column(made: TablePreparation, taken: Iterable[str], columns: Sequence[str]) -> list[str]:
    """Return the first column that names the rows, and is not used for that; empty without one.

    Parameters
    ----------
    made : TablePreparation
        How the training rows were prepared.
    taken : iterable of str
        Names that it must not have.
    columns : sequence of str
        The columns that there are.
    """
    ids = [name for name, kind in made.kinds_dropped.items() if kind == "id" and name in columns]
    return [name for name in ids[:1] if name not in taken]


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
    model: FusedDetector,
    data: str | Path,
    out: str | Path,
    *,
    format: TableFormat = OPEN,
    keep: Sequence[str] | None = None,
    chunk_rows: int = 10_000,
    jobs: int | None = None,
    formulas: bool = False,
    explain: int = 0,
    progress: Callable[[int, float | None], None] | None = None,
) -> ScoredFile:
    """Score a file that may be larger than the memory: in chunks, on all cores, in order.

    Parameters
    ----------
    model : FusedDetector
        Fitted to a table.
    data : str or path
        The rows, in a file as in `read_table`; ``-`` for CSV on standard input.
    out : str or path
        The scores, in the order of the rows, in any of these formats; ``-`` for CSV on standard
        output. A file appears whole or not at all.
    format : TableFormat, optional
        How the data are written; what it leaves open is as the model remembers it, or is found.
    keep : sequence of str, optional
        Columns of the data to be put before the scores; None: the first that names the rows, if
        the preparation found one.
    chunk_rows : int, default=10000
        Rows that are scored at a time.
    jobs : int, optional
        Chunks that are scored at a time; None: one on each core, up to 8.
    formulas : bool, default=False
        Whether texts stay as they are in a CSV file, see `table_writer`.
    explain : int, default=0
        Alarms, the first ones, whose text in the column ``why`` tells the columns that pushed the
        score down most, what they hold and usually hold, and how far they pushed (Shapley values).
        A hundred alarms of 20 columns take about a quarter of a minute. Of the other alarms it
        tells the columns that are farthest out of their usual range.
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
    >>> from lpfuse import FusedDetector
    >>> from lpfuse_cli.scoring import score_file
    >>> rows = pl.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), schema=["a", "b"])
    >>> model = FusedDetector(["gmm"], random_state=0).fit(rows)
    >>> folder = getfixture("tmp_path")
    >>> rows.write_csv(folder / "rows.csv")
    >>> score_file(model, folder / "rows.csv", folder / "scores.parquet").rows
    60
    """
    made = how_prepared(model)
    with (
        open_table(data, format.checked() | made.format) as table,
        hinted_errors(table.hints),
    ):
        own = {*score_columns(model.detector_names_), WHY}
        chosen = id_column(made, own, table.columns) if keep is None else keep
        kept = check_kept(model, chosen, table.columns)
        if explain and WHY in kept:
            raise ValueError(
                f"{quote(WHY)} cannot be kept: the reasons have a column of that name. Rename it "
                "in the data."
            )
        known = {*kept, made.label, getattr(model, "time_column_", None)}
        unknown = [name for name in made.check(table.columns) if name not in known]

        timed = None if model.windows_ is None else Follower(model)

        def score(chunk: Chunk) -> tuple[Chunk, Host, polars.DataFrame, ChunkCounts]:
            frame = chunk.frame
            with numbered_errors(lambda: table.numbers(frame.height, chunk.start)):
                seconds = None if timed is None else timed.seconds(frame)
                X, _, scored = judge_frame(model, frame, None, timed, seconds)
            flagged = (scored["decision"] < 0).to_numpy()
            gaps = incomplete_rows(made, frame)
            labels, unseen = _labels(made, frame)
            counts = count_alarms(model, X, flagged, labels, gaps)
            outside = count_outside(made, frame, X)
            if WHY not in kept:
                scored = with_unusual(model, frame, scored, X, writes_commas(table))
            return chunk, X, scored, ChunkCounts(made.new_in(frame) + unseen, counts, outside)

        rows, told, found = 0, 0, None
        # One thread for BLAS: the chunks are spread over the cores.
        with one_blas_thread, table_writer(out, formulas=formulas, like=table) as add:
            # Rows in time are scored one chunk after the other.
            workers = (jobs or cores()) if timed is None else 1
            chunks = map_in_order(score, table.chunks(chunk_rows), workers)
            for chunk, X, scored, here in chunks:
                if explain:
                    left, in_commas = explain - told, writes_commas(table)
                    scored, more = with_reasons(model, chunk.frame, X, scored, left, in_commas)
                    told += more
                if kept:
                    scored = with_signs_of(chunk.frame.select(kept), table).hstack(scored)
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
    alarms = alarm_figures(model, found.alarms)
    flagged = alarms["rows"]["flagged"]
    if explain and told == explain < flagged:
        notes.append(
            f"Explained: the first {told:,} of {flagged:,} alarms. --explain (in Python, explain=) "
            "says how many; of the others stands what is out of its usual range."
        )
    left_range = range_figures(made, found.outside)
    return ScoredFile(rows, flagged, notes, alarms, left_range)


class ChunkCounts(NamedTuple):
    """What is counted in a chunk: what is new in it, alarms, and what is out of range."""

    new: Counter[str]
    alarms: AlarmCounts
    outside: RangeCounts

    def __add__(self, other: Any) -> ChunkCounts:
        return ChunkCounts(*(a + b for a, b in zip(self, other, strict=True)))


def _labels(made: TablePreparation, frame: polars.DataFrame) -> tuple[Host | None, Counter[str]]:
    """Return the labels of rows, None where the column of labels holds no scalars; and new labels.

    Rows with a new label count as unlabelled: labels are for the figures, not for the scores.
    """
    nested = made.label in frame.columns and frame[str(made.label)].dtype.is_nested()
    labels = None if nested else made.labels(frame, "open")
    if labels is None:
        return None, Counter()
    unseen = [cell for cell in frame[str(made.label)].filter(labels == 0) if not is_gap(cell)]
    what = "Label {}, which the fit did not see, counts as unlabelled"
    return labels, Counter(what.format(quote(cell)) for cell in unseen if str(cell) != "0")


def map_in_order(work: Callable[[X], T], items: Iterable[X], workers: int) -> Iterator[T]:
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
    """Count the cores that may score chunks."""
    allowed = getattr(os, "sched_getaffinity", None)  # Linux: the cores this process may use
    return min(MOST_WORKERS, len(allowed(0)) if allowed else os.cpu_count() or 1)


BLOCK = 256  # rows that are scored together where the last bit counts; chosen by hand
MOST_WORKERS = 8  # chunks in memory at a time, however many cores there are; chosen by hand


X = TypeVar("X")


T = TypeVar("T")
