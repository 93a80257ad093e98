"""`watch`: from a source of rows, by a model, to verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from time import monotonic
from typing import Any

from lpfuse._files import check_writable
from lpfuse._validation.params import check_count, check_number, quoted
from lpfuse.frames import TableFormat, TableModel
from lpfuse.frames.table_detector import OPEN
from lpfuse.monitor import DriftMonitor
from lpfuse.watch._clock import Clock
from lpfuse.watch._folder import Folder
from lpfuse.watch._hook import Hook, split_command
from lpfuse.watch._judging import ROW
from lpfuse.watch._kafka import SCHEME, KafkaTopic
from lpfuse.watch._output import AppendedFile, make_output
from lpfuse.watch._page import write_status
from lpfuse.watch._run import Limits, Watch
from lpfuse.watch._source import GrowingFile, Source, StandardInput
from lpfuse.watch._state import StateFolder, digest, remove_unfinished
from lpfuse.watch._tally import Told
from lpfuse_cli.scoring import cores, load_model
from lpfuse_cli.tables import STANDARD, kind_of, read_table


@dataclass(frozen=True)
class Watched:
    """What came of a watch, with all its starts.

    Attributes
    ----------
    rows, judged, alarms : int
        Rows that came, were judged, were called anomalies.
    notes : dict of str: int
        Rows that were not judged, by why.
    remarks : list of str
        What else there is to know.
    drift : dict or None
        ``kind``, ``since``, ``row`` at which it was declared, ``time``, ``sentence`` and what came
        of the ``hook``; None where no drift was declared.
    ended : {"source", "rows", "idle", "signal", "drift"}
        Why it ended.
    resumed : bool
        Whether it went on where another had ended.
    seconds : float
        That it took, this time.
    """

    rows: int
    judged: int
    alarms: int
    notes: dict[str, int]
    remarks: list[str]
    drift: dict[str, Any] | None
    ended: str
    resumed: bool
    seconds: float


def watch(
    model: str | PathLike[str],
    source: str | PathLike[str],
    out: str | PathLike[str],
    *,
    page: str | PathLike[str] | None = None,
    state: str | PathLike[str] | None = None,
    keep: Sequence[str] = (),
    time_column: str | None = None,
    once: bool = False,
    rows: int | None = None,
    idle_timeout: float | None = None,
    until_drift: bool = False,
    on_drift: str | None = None,
    drift_level: float = 0.01,
    drift_rows: int = 2_000,
    reference: str | PathLike[str] | None = None,
    batch_rows: int = 10_000,
    batch_seconds: float = 1.0,
    page_seconds: float = 5.0,
    commit_seconds: float | None = None,
    settle: float = 2.0,
    replayed: bool = False,
    csv_columns: Sequence[str] = (),
    kafka: Mapping[str, str] | None = None,
    jobs: int | None = None,
    formulas: bool = False,
    format: TableFormat = OPEN,
    trusted: Iterable[str] = (),
    key: bytes | None = None,
    tell: Callable[[Told], None] | None = None,
) -> Watched:
    r"""Judge rows as they arrive, each exactly once, and say when they drift.

    Parameters
    ----------
    model : path-like
        A file of `TableModel.save`.
    source : str or path
        A ``.csv`` file that grows; a folder that ``.csv``, ``.parquet`` and ``.arrow`` files are
        put into; ``-`` for CSV on standard input; or ``kafka://host:port/topic``.
    out : str or path
        A ``.csv`` file that verdicts are added to, or a folder, ``verdicts/``, for Parquet files.
        Columns: ``row``, the place in the stream from 1; of a folder ``file``, of Kafka
        ``partition`` and ``offset``; those of `keep`; and those of `TableModel.score`.
    page : path-like, optional
        A page of HTML that tells how things stand, written anew every `page_seconds`.
    state : path-like, optional
        The folder that remembers how far the watch has come; by default `out` and ``.watch``.
    keep : sequence of str
        Columns of the rows to be put before the scores.
    time_column : str, optional
        A column of times or growing numbers: a row that steps back is not judged, but noted.
    once : bool, default=False
        Whether to end where the source ends now.
    rows, idle_timeout : int and float, optional
        End after so many rows of this start, or after so many seconds without any.
    until_drift : bool, default=False
        Whether to end when drift is declared.
    on_drift : str, optional
        A command to be run once when drift is declared, without a shell. It finds the facts as JSON
        on its standard input, and in ``LPFUSE_KIND``, ``LPFUSE_SINCE``, ``LPFUSE_ROW``,
        ``LPFUSE_SENTENCE`` and others of its environment.
    drift_level : float, default=0.01
        The chance that drift is ever declared though nothing changes, see `DriftMonitor`.
    drift_rows : int, default=2000
        Rows of a batch at most that are compared for drift, evenly spaced: where rows come by the
        ten thousand each is like its neighbours, and all of them take longer than many a model.
    reference : path-like, optional
        A table of rows as they usually come, to compare with, see `DriftMonitor.fit`.
    batch_rows, batch_seconds : int and float, default=10000 and 1
        Rows that are judged together at most, and how long rows wait for others.
    page_seconds, settle : float, default=5 and 2
        Between two pages; that a file of a folder must not have changed before it is read.
    commit_seconds : float, optional
        Between two moments from which a later start can go on, while rows come fast; by default 2,
        and 60 for a folder, of which each is a part. What is written after the last one is written
        again.
    replayed : bool, default=False
        Whether standard input begins with its first row again at every start, so that rows that
        were judged are left out.
    csv_columns, kafka : sequence of str and mapping, optional
        Names of cells where messages of Kafka are lines of CSV, not JSON objects; and settings of
        its client, such as ``{"security.protocol": "SSL"}``.
    jobs : int, optional
        Batches that are judged at a time; None: one on each core, up to 8.
    formulas, format, trusted, key
        As in `score_file` and `load_model`.
    tell : callable, optional
        Called after every batch.

    Returns
    -------
    Watched
        How many rows, and what to know of them.

    Notes
    -----
    After a batch was written and is on disk, its end in the source, the length of the output, all
    counts and the evidence of drift are saved as one file, which replaces the one before. A start
    cuts the output to that length, and goes on at that place: so each row of a file, a folder or a
    topic has one line, also after ``kill -9`` or a power cut. What standard input has sent, and was
    not judged by then, is lost, unless it is `replayed`.

    Examples
    --------
    >>> import numpy as np
    >>> import polars as pl
    >>> from lpfuse.frames import TableModel
    >>> from lpfuse.watch import watch
    >>> rows = pl.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), schema=["a", "b"])
    >>> folder = getfixture("tmp_path")
    >>> TableModel.fit(rows, detectors=["gmm"]).save(folder / "model.lpfuse")
    >>> rows.write_csv(folder / "rows.csv")
    >>> files = folder / "model.lpfuse", folder / "rows.csv", folder / "verdicts.csv"
    >>> watch(*files, once=True).rows
    60
    >>> with open(folder / "rows.csv", "a") as file:
    ...     _ = file.write("0.1,0.2\n0.3\n")
    >>> found = watch(*files, once=True)  # goes on where it was
    >>> found.rows, found.judged, found.notes
    (62, 61, {'broken line': 1})
    """
    began = monotonic()
    limits = Limits(
        check_count("batch_rows", batch_rows),
        check_number("batch_seconds", batch_seconds, at_least=0),
        None if rows is None else check_count("rows", rows),
        None if idle_timeout is None else check_number("idle_timeout", idle_timeout, at_least=0),
        until_drift,
        check_count("drift_rows", drift_rows),
    )
    check_number("page_seconds", page_seconds, above=0)
    check_number("settle", settle, at_least=0)
    words = split_command(on_drift)
    if commit_seconds is not None:
        check_number("commit_seconds", commit_seconds, at_least=0)
    output = make_output(str(out), formulas, commit_seconds)
    if page is not None:
        check_writable(Path(page), [Path(model)])
    loaded = load_model(model, trusted, key=key)
    told = format.checked() | loaded.format
    opened = _source(str(source), loaded, told, once, settle, replayed, csv_columns, kafka)
    if output.path.exists() and Path(opened.name).exists() and output.path.samefile(opened.name):
        raise ValueError("The output is the source. Name another.")
    monitor = DriftMonitor(level=drift_level)
    usual = None if reference is None else loaded.numbers(read_table(Path(reference), format=told))
    monitor.fit(loaded.fused, usual, column_names=loaded.feature_names)
    folder = StateFolder(Path(f"{output.path}.watch" if state is None else state).expanduser())
    run = Watch(
        loaded,
        opened,
        output,
        folder,
        AppendedFile(folder.path / "files.jsonl"),
        {
            "model": digest(model),
            "source": opened.name,
            "list of kept columns": list(keep),
            "time column": time_column,
            "level of drift": float(drift_level),
            "reference": None if reference is None else digest(reference),
            "format": asdict(told),
        },
        _kept(loaded, opened, keep),
        limits,
        monitor,
        clock=None if time_column is None else Clock(time_column),
        hook=Hook(words) if words else None,
        jobs=cores() if jobs is None else check_count("jobs", jobs),
        once=once,
        model_name=Path(model).name,
        tell=tell or (lambda _: None),
        show_seconds=page_seconds,
    )
    if page is not None:
        path = Path(page).expanduser()
        remove_unfinished(path)
        run.show = lambda now: _show(path, now, page_seconds)
    with folder.locked():
        run.restore()
        run.run()
    last = opened.last_words()
    tally = run.tally
    return Watched(
        tally.rows, tally.judged, tally.alarms, tally.notes,
        run.remarks + ([last] if last else []), run.drift, run.ended, run.resumed,
        monotonic() - began,
    )  # fmt: skip


def _show(path: Path, run: Watch, seconds: float) -> None:
    """Write the page; where that fails, verdicts matter more."""
    try:
        write_status(path, run, seconds)
    except OSError as error:
        told = f"The page could not be written: {error.strerror}."
        if told not in run.remarks:
            run.remarks.append(told)


def _source(
    source: str,
    model: TableModel,
    format: TableFormat,
    once: bool,
    settle: float,
    replayed: bool,
    csv_columns: Sequence[str],
    kafka: Mapping[str, str] | None,
) -> Source:
    """The source that a name stands for."""
    if source.startswith(SCHEME):
        needed = model.preparation.columns
        return KafkaTopic(source, needed, csv_columns, dict(kafka or {}), once)
    if csv_columns or kafka:
        raise ValueError("csv_columns and kafka are for a source kafka://host:port/topic alone.")
    if source == STANDARD:
        return StandardInput(format, replayed)
    if replayed:
        raise ValueError(
            "replayed is for standard input: all other sources begin where they ended."
        )
    path = Path(source).expanduser()
    if path.is_dir():
        return Folder(path, format, settle, once)
    if path.exists() and kind_of(path) != "CSV":
        raise ValueError(
            f"{path.name} is no CSV file, and no other file grows by rows. Put such files into a "
            "folder, and watch that; or score it: lpfuse score."
        )
    return GrowingFile(path, format, once)


def _kept(model: TableModel, source: Source, keep: Sequence[str]) -> list[str]:
    """Columns to keep, as far as that can be known before the first row."""
    own = [ROW, *source.mark_names]
    clash = [name for name in keep if name in own]
    if clash:
        raise ValueError(
            f"{quoted(clash)} cannot be kept: the verdicts have a column of that name. Rename it "
            "in the data."
        )
    if isinstance(source, GrowingFile | StandardInput):  # its header tells
        return list(keep)
    names = [part.strip() for text in keep for part in text.split(",")]
    return model.check_kept(names, names)
