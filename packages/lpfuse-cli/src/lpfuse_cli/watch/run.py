"""`watch`: take rows from a source, score them on all cores, write verdicts, save the state."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess  # nosec B404 # runs the user's own command
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from copy import copy, deepcopy
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from math import ceil, inf
from os import PathLike
from pathlib import Path
from queue import Queue
from time import monotonic, sleep, time
from typing import Any

import numpy as np

from lpfuse._arrays.operations import one_blas_thread
from lpfuse._files import as_json, check_writable
from lpfuse._format import plain, quote
from lpfuse._validation.params import check_count, check_number, quoted
from lpfuse.ensemble import FusedDetector
from lpfuse.frames import TableFormat
from lpfuse.frames.cells import OPEN, check_names
from lpfuse.monitor import DriftMonitor, DriftStatus, StreamCounts
from lpfuse_cli.alarms import describe_promise
from lpfuse_cli.scoring import check_kept, cores, load_model, rows_of
from lpfuse_cli.tables import example_row, how_prepared, numbered_errors, read_table
from lpfuse_cli.times import Follower, reader_of, time_column
from lpfuse_cli.watch.batches import LACKS, MAX_RECORD, Batch
from lpfuse_cli.watch.clock import Clock
from lpfuse_cli.watch.episodes import Episodes, episode_line
from lpfuse_cli.watch.judge import (
    ROW,
    Judged,
    Places,
    Progress,
    RowTimes,
    Tally,
    judge,
    row_columns,
)
from lpfuse_cli.watch.page import write_metrics, write_status
from lpfuse_cli.watch.sources import GrowingFile, Source, StandardInput, make_source
from lpfuse_cli.watch.state import (
    ANOTHER_OUTPUT,
    AppendedFile,
    CsvOutput,
    PartsOutput,
    StateFolder,
    digest,
    make_output,
    remove_unfinished,
)

# All chosen by hand:
MIN_PAUSE, MAX_PAUSE = 0.02, 0.5  # seconds between two looks at an idle source, growing
RATE_SECONDS = 30.0  # over which rows per second are counted
DRIFT_ROWS = 2_000  # of a batch at most that are compared for drift, evenly spaced
TRACED = 20  # points of the evidence of drift by rows, where batches are many rows: each takes 1 ms
COMMITS, PAGES, PARTS = 2, 5, 60  # times `batch_seconds`: between states, pages, Parquet files
COMMAND_SECONDS = 600.0  # after which the command for drift is ended
COMMAND_PATIENCE = 10.0  # seconds for which the end of a watch waits for it

STARTED = "started"  # of the command for drift, until it has ended
Scored = tuple[Judged, StreamCounts | None]


@dataclass(frozen=True, kw_only=True)
class WatchSettings:
    """How `watch` reads, scores and ends.

    Parameters
    ----------
    page : path-like, optional
        An HTML page with the status, rewritten every five `batch_seconds`. Its charts are drawn
        over the time that rows tell (`time_column`, or a column of dates of the model or `keep`),
        else over rows or the clock.
    metrics : path-like, optional
        A text file for Prometheus with the counts, rewritten as the page.
    keep : sequence of str
        Columns of the rows to copy before the scores.
    time_column : str, optional
        A column of times or growing numbers: a row that steps back is noted, not scored. That of a
        model with time, where it has one.
    late : float, default=0
        Of a model with time: seconds that rows may come late. So long rows wait for others, to be
        judged in the order of their times; later ones are noted.
    once : bool, default=False
        Whether to end where the source ends now.
    rows, idle_timeout : int and float, optional
        End after so many rows of this start, or after so many seconds without any.
    until_drift : bool, default=False
        Whether to end when drift is declared.
    on_drift : str, optional
        A command to run once when drift is declared, without a shell. It gets the facts as JSON on
        its standard input, and in ``LPFUSE_KIND``, ``LPFUSE_SINCE``, ``LPFUSE_ROW``,
        ``LPFUSE_SENTENCE`` and others of its environment.
    on_alarm : str, optional
        Of a model with time: a command as `on_drift`, run once for each episode of alarms. The
        facts are ``number``, ``row``, ``time``, ``strongest``, ``p_value``, ``why`` and others.
    drift_level : float, default=0.01
        Upper bound on the probability that drift is ever declared without a change, see
        `lpfuse.monitor.DriftMonitor`.
    reference : path-like, optional
        A table of rows as they usually come, see `lpfuse.monitor.DriftMonitor.fit`.
    batch_rows, batch_seconds : int and float, default=10000 and 1
        Rows that are scored together at most, and how long rows wait for others. The state is
        saved every two `batch_seconds` while rows come fast, a Parquet file written every sixty.
    replayed : bool, default=False
        Whether standard input starts with its first row again, so that scored rows are skipped.
    max_record_bytes : int, default=2**22
        Bytes of a line of CSV, its line end included, or of a message at most. A longer one is a
        broken line; it is never held whole.
    jobs : int, optional
        Batches that are scored at a time; None: one per core, up to 8.
    format : TableFormat
        How CSV is written; what is not given is that of the model, or found in the first rows.
    trusted, key
        As in `lpfuse_cli.scoring.load_model`.
    on_batch : callable, optional
        Called after every batch with its counts, ``progress.values()`` or ``progress.line()``.
    on_episode : callable, optional
        Called for every episode of alarms, with its facts and a line that tells it.
    """

    page: str | PathLike[str] | None = None
    metrics: str | PathLike[str] | None = None
    keep: Sequence[str] = ()
    time_column: str | None = None
    late: float = 0.0
    once: bool = False
    rows: int | None = None
    idle_timeout: float | None = None
    until_drift: bool = False
    on_drift: str | None = None
    on_alarm: str | None = None
    drift_level: float = 0.01
    reference: str | PathLike[str] | None = None
    batch_rows: int = 10_000
    batch_seconds: float = 1.0
    replayed: bool = False
    max_record_bytes: int = MAX_RECORD
    jobs: int | None = None
    format: TableFormat = OPEN
    trusted: Iterable[str] = ()
    key: bytes | None = None
    on_batch: Callable[[Progress], None] | None = None
    on_episode: Callable[[dict[str, Any], str], None] | None = None

    def files(self) -> list[Path]:
        """Return the page and the metrics, as far as there are any."""
        return [Path(file).expanduser() for file in (self.page, self.metrics) if file is not None]

    def check(self) -> None:
        """Refuse values that no source makes right; `DriftMonitor` checks its level."""
        check_count("batch_rows", self.batch_rows)
        check_count("max_record_bytes", self.max_record_bytes)
        check_number("batch_seconds", self.batch_seconds, at_least=0)
        check_number("late", self.late, at_least=0)
        for name in ("rows", "jobs"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))
        if self.idle_timeout is not None:
            check_number("idle_timeout", self.idle_timeout, at_least=0)


@dataclass(frozen=True)
class Watched:
    """Result of a watch, over all its starts.

    Attributes
    ----------
    rows, judged, alarms : int
        Rows that came, were scored, were called anomalies.
    notes : dict of str: int
        Rows that were not scored, by reason.
    remarks : list of str
        Further remarks.
    drift : dict or None
        ``kind``, ``since``, ``row`` at which it was declared, ``time``, ``sentence`` and the result
        of the ``hook``; None where no drift was declared.
    ended : {"source", "rows", "idle", "signal", "drift"}
        Why it ended.
    episodes : int or None
        Episodes of alarms; None of a model without time.
    promise : str
        What is promised of false alarms, or why nothing is, where rows come in time.
    resumed : bool
        Whether it continued where another start had ended.
    seconds : float
        Duration of this start.
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
    episodes: int | None = None
    promise: str = ""


def watch(
    model: str | PathLike[str],
    source: str | PathLike[str],
    out: str | PathLike[str],
    **settings: Any,
) -> Watched:
    r"""Score rows as they arrive, each exactly once, and detect drift.

    Parameters
    ----------
    model : path-like
        A file of `lpfuse fit`, or of `FusedDetector.save` after a fit to a data frame.
    source : str or path
        A ``.csv`` file that grows; a folder that ``.csv``, ``.parquet`` and ``.arrow`` files are
        put into; ``-`` for CSV on standard input; or ``kafka://host:port/topic``, followed by
        ``?columns=a,b,c`` where messages are lines of CSV and not JSON objects, and by
        ``security.protocol=SSL`` and other settings of the client.
    out : str or path
        A ``.csv`` file that verdicts are appended to, or a folder, ``verdicts/``, for Parquet
        files. Columns: ``row``, the place in the stream from 1; ``file`` for a folder,
        ``partition`` and ``offset`` for Kafka; those of `keep`; and those of ``lpfuse score``.
        The state is the folder `out` with ``.watch`` added.
    **settings
        Fields of `WatchSettings`.

    Returns
    -------
    Watched
        Counts of rows and notes, and the declared drift.

    Notes
    -----
    After a batch is durable, its end in the source, the length of the output, all counts and the
    evidence of drift are saved as one file, which replaces the one before. A start cuts the output
    to that length, and continues at that place: so each row of a file, a folder or a topic has one
    line, also after ``kill -9`` or a power cut. Rows of standard input that were not scored by then
    are lost, unless it is `replayed`.

    Examples
    --------
    >>> import numpy as np
    >>> import polars as pl
    >>> from lpfuse import FusedDetector
    >>> from lpfuse_cli.watch import watch
    >>> rows = pl.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), schema=["a", "b"])
    >>> folder = getfixture("tmp_path")
    >>> FusedDetector(["gmm"], random_state=0).fit(rows).save(folder / "model.lpfuse")
    >>> rows.write_csv(folder / "rows.csv")
    >>> files = folder / "model.lpfuse", folder / "rows.csv", folder / "verdicts.csv"
    >>> watch(*files, once=True).rows
    60
    >>> with open(folder / "rows.csv", "a") as file:
    ...     _ = file.write("0.1,0.2\n0.3\n")
    >>> found = watch(*files, once=True)  # continues where it ended
    >>> found.rows, found.judged, found.notes
    (62, 61, {'broken line': 1})
    """
    began = monotonic()
    run = _prepare(str(model), str(source), str(out), WatchSettings(**settings))
    with run.state.locked():
        for file in run.settings.files():
            remove_unfinished(file)
        run.restore()
        run.run()
    tally = run.tally
    lacking = [text for kind, _, text, _ in tally.last_notes if kind == LACKS]
    remarks = [*run.remarks, run.source.remark_at_end()]
    remarks += [f"The latest row with a missing column lacks {lacking[-1]}."] if lacking else []
    return Watched(
        tally.rows, tally.judged, tally.alarms, tally.notes, [text for text in remarks if text],
        run.drift, run.ended, run.resumed, monotonic() - began,
        None if run.episodes is None else run.episodes.count, describe_promise(run.model),
    )  # fmt: skip


def _prepare(model: str, source: str, out: str, settings: WatchSettings) -> Watch:
    """Check everything that can be checked before the first row, and open nothing for writing."""
    settings.check()
    on_drift, on_alarm = settings.on_drift, settings.on_alarm
    drift_command = None if on_drift is None else Command(on_drift)
    alarm_command = None if on_alarm is None else Command(on_alarm, "on_alarm")
    seconds = settings.batch_seconds
    output = make_output(out, COMMITS * seconds, PARTS * seconds)
    for file in settings.files():
        check_writable(file, [Path(model)])
    loaded = load_model(model, settings.trusted, key=settings.key)
    made = how_prepared(loaded)
    column = _time_column(loaded, settings)
    format = settings.format.checked() | made.format
    opened = make_source(
        source, made.columns, format, settings.max_record_bytes,
        once=settings.once, replayed=settings.replayed,
    )  # fmt: skip
    if output.path.exists() and Path(opened.name).exists() and output.path.samefile(opened.name):
        raise ValueError("The output is the source. Use another output.")
    reference, numbers = None, list[int]()
    monitor = DriftMonitor(level=settings.drift_level)
    with numbered_errors(lambda: numbers):
        if settings.reference is not None:
            table = read_table(Path(settings.reference), format=format, numbers=numbers)
            reference = rows_of(loaded, table)
        monitor.fit(loaded, reference)
    return Watch(
        loaded,
        Path(model).name,
        opened,
        output,
        StateFolder(Path(f"{output.path}.watch")),
        {
            "model": digest(model),
            "source": opened.name,
            "list of kept columns": list(settings.keep),
            "time column": column,
            "level of drift": float(settings.drift_level),
            "reference": None if settings.reference is None else digest(settings.reference),
            "format": asdict(format),
        },
        settings,
        monitor,
        _kept_columns(loaded, opened, settings.keep),
        column,
        drift_command,
        alarm_command,
    )


def _time_column(model: FusedDetector, settings: WatchSettings) -> str | None:
    """Return the column of times; refuse settings that need a model with time."""
    own, given = time_column(model), settings.time_column
    if model.windows_ is None:
        for name in ("late", "on_alarm"):
            if getattr(settings, name):
                raise ValueError(
                    f"{name}= is for models that judge rows in time, and this one was fitted "
                    "without. Fit it with time='COLUMN', or leave the option out."
                )
    elif own is None and settings.late:
        raise ValueError(
            "late= puts rows in the order of their times, and the model was fitted to rows at even "
            "intervals. Fit it with time='COLUMN', or leave the option out."
        )
    if own is not None and given not in (None, own):
        raise ValueError(
            f"time_column={quote(str(given))} is not the column of times of the model, "
            f"{quote(own)}. Leave the option out."
        )
    return given if own is None else own


def _kept_columns(model: FusedDetector, source: Source, keep: Sequence[str]) -> list[str]:
    """Check columns to keep, as far as possible before the first row."""
    own = [ROW, *source.mark_names]
    clash = [name for name in keep if name in own]
    if clash:
        raise ValueError(
            f"{quoted(clash)} cannot be kept: the output has a column of that name. Rename it in "
            "the data."
        )
    if isinstance(source, GrowingFile | StandardInput):  # checked against its header
        return list(keep)
    names = [part.strip() for text in keep for part in text.split(",")]
    return check_kept(model, names, names)


@dataclass
class Watch:
    """One run between a start and an end.

    Attributes
    ----------
    identity : dict
        Identifies the watch that a state belongs to.
    keep : list of str
        Columns to copy before the scores.
    time_column : str or None
        The column of times.
    """

    model: FusedDetector
    model_name: str
    source: Source
    output: CsvOutput | PartsOutput
    state: StateFolder
    identity: dict[str, Any]
    settings: WatchSettings
    monitor: DriftMonitor
    keep: list[str]
    time_column: str | None = None
    command: Command | None = None
    alarm_command: Command | None = None
    tally: Tally = field(default_factory=Tally)
    places: Places = field(default_factory=Places)
    drift: dict[str, Any] | None = None
    remarks: list[str] = field(default_factory=list)
    resumed: bool = False
    ended: str = ""
    _position: dict[str, Any] | None = None
    _uncommitted: bool = False
    _stop: bool = False
    _page_time: float = 0.0
    _read_rows: int = 0  # rows that were read, of which some may wait for their scores
    _pace: deque[tuple[float, int]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        column, is_timed = self.time_column, self.model.windows_ is not None
        reader = reader_of(self.model) if is_timed else None
        self.clock = None if column is None else Clock(column, reader, self.settings.late)
        self.times = RowTimes(self.model, column)
        # Of a model with time: windows and level, which all batches go through one after the other.
        self.follower = Follower(self.model) if is_timed else None
        self.episodes = Episodes() if is_timed else None
        self.done_files = AppendedFile(self.state.path / "files.jsonl")
        self.jobs = self.settings.jobs or cores()

    # ---------------------------------------------------------------------------------- start, end

    def restore(self) -> None:
        """Continue from the saved state, or start a new one."""
        found = self.state.read(self.identity, self.output.mark_shape, self.source.position_shape)
        if found is None:
            self.output.check_new()
        nothing: tuple[dict[str, Any], Any] = {"output": 0, "files": 0}, None
        facts, monitor = found or nothing
        position = facts.get("position")
        if position is not None:
            self.monitor = self._checked_monitor(monitor)
            self.keep = check_kept(self.model, facts["keep"], facts["keep"])
            self.tally, self.drift = Tally.from_state(facts["tally"]), facts.get("drift")
            self.places = Places(facts["places"])
            self.times.found = facts.get("times")
            self.resumed, self._position = True, position
            if self.clock is not None and position.get("clock"):
                self.clock.restore(position["clock"])
            if self.follower is not None:
                self._restore_follower(facts)
            if self.drift and self.drift.get("hook") == STARTED:
                self.drift["hook"] = "was running when the watch was ended; it is not run again"
        self.done_files.restore(facts["files"], own=found is not None)
        self.source.skip_files(self.done_files.lines())
        rows = self.tally.rows
        self.output.restore(facts["output"], rows if not self.clock else self.clock.before(rows))
        if position is None:
            # From now on the output belongs to this watch, even if a crash follows.
            self.commit()
        self.tally.starts += 1

    def _restore_follower(self, facts: dict[str, Any]) -> None:
        """Continue windows, level and episodes."""
        assert self.follower is not None
        try:
            self.follower.restore(facts["stream"])
            self.episodes = Episodes.from_state(facts["episodes"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"The windows in {quote(str(self.state.file))} are not of this model: the state is "
                f"damaged or forged. {ANOTHER_OUTPUT}"
            ) from error

    def _checked_monitor(self, monitor: Any) -> DriftMonitor:
        """Return the saved monitor, if it is of this model and takes a row, on trial."""
        row = example_row(how_prepared(self.model))
        names = ("level", "positions_", "column_names_", "detector_names_", "n_features_in_")
        try:
            trial = deepcopy(monitor)
            same = all(getattr(trial, name) == getattr(self.monitor, name) for name in names)
            trial.update(row, self.model.verdicts(row)).sentence()
        except Exception:  # whatever a forged one raises
            same = False
        if not same or type(monitor) is not DriftMonitor:
            raise ValueError(
                f"The evidence of drift in {quote(str(self.state.file))} is not of this model: it "
                f"is damaged or forged. {ANOTHER_OUTPUT}"
            )
        return monitor

    def commit(self) -> None:
        """Make everything written so far count."""
        facts = {
            "output": self.output.flush(),
            "files": self.done_files.flush(),
            "position": self._position,
            "keep": self.keep,
            "tally": self.tally.state(),
            "places": self.places.pairs,
            "drift": self.drift,
            "times": self.times.found,
            "stream": None if self.follower is None else self.follower.state(),
            "episodes": None if self.episodes is None else self.episodes.state(),
        }
        self.state.write(self.identity, facts, self.monitor)
        self.output.publish()
        self._uncommitted = False

    def run(self) -> None:
        """Watch until the source ends, a limit is reached, or a signal comes."""
        try:
            with self._signals(), one_blas_thread, ThreadPoolExecutor(self.jobs) as pool:
                self.source.open(None if self._position is None else self._position["source"])
                if self.settings.until_drift and self.drift:
                    self.ended = "drift"
                    return
                for judged in self._judged(pool):
                    self._take(judged)
                if self._uncommitted:
                    self.commit()
                for command in filter(None, (self.command, self.alarm_command)):
                    command.wait()
                    self._note_command()
        finally:
            with suppress(Exception):
                self.source.close()
        self._write_page()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Let SIGTERM and SIGINT end the watch after the batch; a second one ends it at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(number: int, _: Any) -> None:
            if self._stop:
                raise KeyboardInterrupt
            self._stop = True

        before = {each: signal.signal(each, stop) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    # ---------------------------------------------------------------------------------- the stream

    def _batches(self) -> Iterator[Batch | None]:
        """Yield batches as they come; None where there is nothing now."""
        settings, left = self.settings, self.settings.rows
        pause, last, heard = MIN_PAUSE, 0.0, monotonic()
        while not self._stop:
            most = settings.batch_rows if left is None else min(left, settings.batch_rows)
            if most == 0:
                self.ended = "rows"
                return
            now = monotonic()
            is_due = settings.once or now - last >= settings.batch_seconds
            batch = self.source.take(most, is_due)
            if batch is not None:
                pause, last, heard = MIN_PAUSE, now, now
                before = self._read_rows
                self._read_rows = batch.last
                left = None if left is None else left - (batch.last - before)
                yield self._in_order(batch)
                continue
            yield None
            if self.source.ended:
                self.ended = "source"
                if self.clock is not None and self.clock.n_waiting and self._position:
                    position = self._position["source"]
                    yield self.clock.last_rows(position, self._read_rows)
                return
            idle = settings.idle_timeout
            if idle is not None and monotonic() - heard >= idle:
                self.ended = "idle"
                return
            if not self.source.blocks:
                sleep(pause)
                pause = min(MAX_PAUSE, 1.5 * pause)
        self.ended = self.ended or "signal"

    def _in_order(self, batch: Batch) -> Batch:
        """Drop rows that step back in time; add the state of the clock to the position."""
        if self.clock is None:
            return replace(batch, position={"source": batch.position})
        return self.clock.in_order(batch, row_columns)

    def _judged(self, pool: ThreadPoolExecutor) -> Iterator[Judged | None]:
        """Yield batches with verdicts, in order, few of them waiting; None where all is quiet."""
        self._read_rows = self.tally.rows
        waiting: deque[Future[Scored]] = deque()
        checked = self.resumed
        for batch in self._batches():
            if not checked and self.source.columns is not None:
                how_prepared(self.model).check(self.source.columns)  # before anything is written
                self.keep = check_kept(self.model, self.keep, self.source.columns)
                if self.clock is not None:
                    check_names([self.clock.column], self.source.columns)
                checked = True
            if batch is not None and self.follower is not None:
                yield self._update_monitor(*self._judge(batch))
            elif batch is not None:
                waiting.append(pool.submit(self._judge, batch))
            while waiting and (
                batch is None or len(waiting) > self.jobs or waiting[0].done() or self._stop
            ):
                yield self._update_monitor(*waiting.popleft().result())
            if batch is None:
                yield None
        while waiting:
            yield self._update_monitor(*waiting.popleft().result())

    def _judge(self, batch: Batch) -> Scored:
        times = self.times.columns(self.keep)
        judged = judge(self.model, batch, self.keep, self.output.prepare, times, self.follower)
        # Where scores have no reference yet, the main thread makes one of the first of them.
        counts = self._counts(judged) if self.monitor.scores_ is not None else None
        return judged, counts

    def _counts(self, judged: Judged) -> StreamCounts | None:
        if judged.table is None or judged.X is None or not len(judged.X):
            return None
        X, verdicts = judged.some_rows(DRIFT_ROWS)
        return self.monitor.count(X, verdicts, first_row=int(judged.table[ROW][0]) - 1)

    def _update_monitor(self, judged: Judged, counts: StreamCounts | None) -> Judged:
        counts = self._counts(judged) if counts is None else counts
        if counts is None:
            return judged
        within = self._evidence_within(counts, judged.batch.last)
        self.monitor.update_counts(counts)
        self.places.add(self.monitor.n_rows_, judged.batch.last)
        return replace(judged, evidence=[(self.places.row(n), value) for n, value in within])

    def _evidence_within(self, counts: StreamCounts, last: int) -> list[tuple[int, float]]:
        """Return the strongest evidence of drift after some rows of the monitor in a batch.

        Only for a batch that is many points of the chart by rows, and by a copy of the monitor: it
        judges a batch as a whole.
        """
        history, found = self.tally.by_row, list[tuple[int, float]]()
        if history is not None:
            points = (last - self.tally.rows) / max(history.width, last / TRACED)
            ends = np.linspace(0, len(counts.rows), 1 + min(len(counts.rows), ceil(points)))
            trial = copy(self.monitor)
            for start, end in pairwise(ends.astype(int)[:-1].tolist()):
                evidence = trial.update_counts(_some_blocks(counts, start, end)).evidence
                found.append((trial.n_rows_, max(evidence.values(), default=-inf)))
        return found

    @property
    def status(self) -> DriftStatus:
        """Status of the monitor, with rows of the stream."""
        return self.places.in_rows(self.monitor.status_)

    # ------------------------------------------------------------------------------------ verdicts

    def _take(self, judged: Judged | None) -> None:
        if judged is not None:
            if judged.table is not None:
                self.output.add(judged.prepared)
            self.done_files.add_lines(judged.batch.finished)
            self._position, self._uncommitted = judged.batch.position, True
            self._count_pace(judged.batch.last)
            status, now = self.status, time()
            here = self.tally.add(judged, status, now, self.times)
            if self.episodes is not None:
                self._tell(self.episodes.add(self.model, judged))
            if self.settings.on_batch is not None:
                self.settings.on_batch(Progress(now, here, self.tally, status))
            if status.alarm and self.drift is None:
                self._declare(status, now)
        if self._uncommitted and self.output.due(idle=judged is None):
            self.commit()
        self._note_command()
        if monotonic() - self._page_time >= PAGES * self.settings.batch_seconds:
            self._write_page()
            self._page_time = monotonic()

    def _tell(self, episodes: list[dict[str, Any]]) -> None:
        """Save episodes that began, then tell them: killed in between, none is told twice."""
        if episodes and self.alarm_command is not None:
            self.commit()
        for each in episodes:
            line = episode_line(each, None if self.clock is None else self.clock.reader.order)
            if self.settings.on_episode is not None:
                self.settings.on_episode(each, line)
            if self.alarm_command is not None:
                self.alarm_command.start({**each, "source": self.source.name, "sentence": line})

    def _declare(self, status: DriftStatus, now: float) -> None:
        """Save the drift, then run the command: killed in between, it never runs twice."""
        self.drift = {
            "row": self.tally.rows,
            "time": now,
            "kind": status.kind,
            "since": status.since,
            "sentence": status.sentence(),
            "hook": None if self.command is None else STARTED,
        }
        self.commit()
        if self.command is not None:
            self.command.start({**self.drift, "source": self.source.name, "rows": self.tally.rows})
        if self.settings.until_drift:
            self._stop, self.ended = True, "drift"

    def _note_command(self) -> None:
        if self.command is not None and self.command.result and self.drift:
            self.drift["hook"], self.command.result = self.command.result, None
            self.remarks.append(f"The command of on_drift {self.drift['hook']}.")
            self.commit()
        command = self.alarm_command
        if command is not None and command.result:
            told, command.result = f"A command of on_alarm {command.result}.", None
            if not told.endswith("ended well.") and told not in self.remarks:
                self.remarks.append(told)

    def _write_page(self) -> None:
        """Write page and metrics; a failure must not stop the verdicts."""
        seconds = PAGES * self.settings.batch_seconds
        for name, file in (("page", self.settings.page), ("metrics", self.settings.metrics)):
            if file is None:
                continue
            try:
                if name == "page":
                    write_status(Path(file).expanduser(), self, seconds)
                else:
                    write_metrics(Path(file).expanduser(), self)
            except Exception as error:
                remark = f"The {name} could not be written: {getattr(error, 'strerror', error)}."
                if remark not in self.remarks:
                    self.remarks.append(remark)

    def _count_pace(self, rows: int) -> None:
        now = monotonic()
        self._pace.append((now, rows))
        while self._pace[0][0] < now - RATE_SECONDS:
            self._pace.popleft()

    @property
    def rate(self) -> float:
        """Latest rows per second."""
        if len(self._pace) < 2:
            return 0.0
        (start, before), (_, after) = self._pace[0], self._pace[-1]
        return (after - before) / max(monotonic() - start, 1e-3)


def _some_blocks(counts: StreamCounts, start: int, end: int) -> StreamCounts:
    """Return the counts of some consecutive blocks."""
    first, last = int(counts.rows[:start].sum()), int(counts.rows[:end].sum())
    return StreamCounts(
        counts.rows[start:end],
        None if counts.columns is None else counts.columns[start:end],
        None if counts.scores is None else counts.scores[start:end],
        None if counts.waiting is None else counts.waiting[first:last],
    )


class Command:
    """A command that runs when drift is declared, or for an alarm, on a thread of its own.

    Parameters
    ----------
    text : str
        The command and its arguments; no shell reads them.
    name : str
        Of the setting, for messages.
    """

    def __init__(self, text: str, name: str = "on_drift") -> None:
        try:
            self.words = shlex.split(text)
        except ValueError as error:
            raise ValueError(f"{name}={text!r} cannot be split into words: {error}.") from None
        if not self.words:
            raise ValueError(f"{name} must name a command, got {text!r}.")
        self.result: str | None = None  # once it has ended
        self._queue: Queue[tuple[dict[str, str], str]] = Queue()  # one runs after the other
        self._thread: threading.Thread | None = None

    def start(self, facts: dict[str, Any]) -> None:
        """Run it with the facts in its environment and on its standard input."""
        values = as_json(facts)
        texts = {f"LPFUSE_{name.upper()}": str(value) for name, value in values.items()}
        self._queue.put((os.environ | texts, json.dumps(values)))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run_all, daemon=True)
            self._thread.start()

    def _run_all(self) -> None:
        while True:
            self._run(*self._queue.get())
            self._queue.task_done()

    def _run(self, environment: dict[str, str], text: str) -> None:
        try:
            done = subprocess.run(  # nosec B603 # the user's own command, without a shell
                self.words, input=text.encode(), env=environment, timeout=COMMAND_SECONDS,
                check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            )  # fmt: skip
            error_text = plain(done.stderr.decode(errors="replace").strip()[-200:])
            code = done.returncode
            self.result = (
                "ended well" if code == 0 else f"ended with exit code {code}: {error_text}"
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            self.result = f"could not be run to its end: {plain(error)}"

    def wait(self) -> None:
        """Wait some seconds for its end."""
        end = monotonic() + COMMAND_PATIENCE
        while self._queue.unfinished_tasks and monotonic() < end:
            sleep(MIN_PAUSE)
