"""The loop: take rows, judge them on all cores, write, remember, tell."""

from __future__ import annotations

import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from time import monotonic, sleep, time
from typing import Any

from lpfuse._arrays.operations import one_blas_thread
from lpfuse.frames import TableModel
from lpfuse.monitor import DriftMonitor, DriftStatus, StreamCounts
from lpfuse.watch._batch import Batch
from lpfuse.watch._clock import Clock
from lpfuse.watch._hook import Hook
from lpfuse.watch._judging import Judged, judge
from lpfuse.watch._output import AppendedFile, CsvOutput, PartsOutput
from lpfuse.watch._source import Source
from lpfuse.watch._state import StateFolder
from lpfuse.watch._tally import Places, Tally, Told

# Seconds between two looks at a source that has nothing, which grow from one to the other: by hand.
SHORTEST, LONGEST = 0.02, 0.5
RATE_SECONDS = 30.0  # over which rows a second are counted; chosen by hand
STARTED = "started"  # of the command for drift, until it has ended


Work = tuple[Judged, StreamCounts | None]


@dataclass
class Limits:
    """When a batch is full, and when the watch ends.

    Attributes
    ----------
    batch_rows, batch_seconds : int, float
        Rows of a batch at most, and how long rows may wait for others.
    rows : int or None
        Rows after which the watch ends.
    idle : float or None
        Seconds without a row after which it ends.
    until_drift : bool
        Whether it ends when drift is declared.
    drift_rows : int
        Rows of a batch at most that the monitor of drift looks at, evenly spaced.
    """

    batch_rows: int
    batch_seconds: float
    rows: int | None = None
    idle: float | None = None
    until_drift: bool = False
    drift_rows: int = 2_000


@dataclass
class Watch:
    """One run, between a start and an end; see `lpfuse.watch.watch` for the words.

    Attributes
    ----------
    identity : dict
        By which a state is known to belong to this watch.
    tell, show : callables
        Called with `Told` after every batch; and from time to time, to write the page.
    """

    model: TableModel
    source: Source
    output: CsvOutput | PartsOutput
    state: StateFolder
    done_files: AppendedFile
    identity: dict[str, Any]
    keep: list[str]
    limits: Limits
    monitor: DriftMonitor
    clock: Clock | None = None
    hook: Hook | None = None
    jobs: int = 1
    once: bool = False
    model_name: str = ""
    tell: Callable[[Told], None] = lambda _: None
    show: Callable[[Watch], None] = lambda _: None
    show_seconds: float = 5.0
    tally: Tally = field(default_factory=Tally)
    places: Places = field(default_factory=Places)
    drift: dict[str, Any] | None = None
    remarks: list[str] = field(default_factory=list)
    resumed: bool = False
    ended: str = ""
    _position: dict[str, Any] | None = None
    _uncommitted: bool = False
    _stop: bool = False
    _shown: float = 0.0
    _read_rows: int = 0  # rows that were read, of which some may wait to be judged
    _pace: deque[tuple[float, int]] = field(default_factory=deque)

    # ---------------------------------------------------------------------------------- start, end

    def restore(self) -> None:
        """Take up the state that is there, or begin."""
        found = self.state.read(self.identity)
        if found is None:
            self.output.check_new()
        nothing: tuple[dict[str, Any], Any] = {"output": 0, "files": 0, "position": None}, None
        facts, monitor = found or nothing
        self.output.restore(facts["output"])
        self.done_files.restore(facts["files"])
        if facts["position"] is None:
            # From now on what lies in the output is ours, also if the next thing is a crash.
            self.commit()
        else:
            self.resumed, self.monitor = True, monitor
            self.tally, self.drift = Tally.of_state(facts["tally"]), facts["drift"]
            self.places = Places(facts["places"])
            self.keep, self._position = facts["keep"], facts["position"]
            if self.clock is not None:
                self.clock.restore(self._position["clock"])
            if self.drift and self.drift["hook"] == STARTED:
                self.drift["hook"] = "was running when the watch was ended; it is not run again"
        self.tally.starts += 1
        self.source.were_taken(self.done_files.lines())

    def commit(self) -> None:
        """Make all that was written count."""
        facts = {
            "output": self.output.flush(),
            "files": self.done_files.flush(),
            "position": self._position,
            "keep": self.keep,
            "tally": self.tally.state(),
            "places": self.places.pairs,
            "drift": self.drift,
        }
        self.state.write(self.identity, facts, self.monitor)
        self._uncommitted = False

    def run(self) -> None:
        """Watch until the source ends, a limit is reached, or a signal comes."""
        try:
            with self._signals(), one_blas_thread, ThreadPoolExecutor(self.jobs) as pool:
                self.source.open(None if self._position is None else self._position["source"])
                if self.limits.until_drift and self.drift:
                    self.ended = "drift"
                    return
                for judged in self._judged(pool):
                    self._take(judged)
                if self._uncommitted:
                    self.commit()
                if self.hook is not None:
                    self.hook.wait()
                    self._note_hook()
        finally:
            with suppress(Exception):
                self.source.close()
        self.show(self)

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
        """Batches as they come; None where there is nothing now."""
        left = self.limits.rows
        pause, last, heard = SHORTEST, 0.0, monotonic()
        while not self._stop:
            most = self.limits.batch_rows if left is None else min(left, self.limits.batch_rows)
            if most == 0:
                self.ended = "rows"
                return
            now = monotonic()
            batch = self.source.take(most, self.once or now - last >= self.limits.batch_seconds)
            if batch is not None:
                pause, last, heard = SHORTEST, now, now
                before = self._read_rows
                self._read_rows = batch.last
                left = None if left is None else left - (batch.last - before)
                yield self._on_time(batch)
                continue
            yield None
            if self.source.ended:
                self.ended = "source"
                return
            if self.limits.idle is not None and monotonic() - heard >= self.limits.idle:
                self.ended = "idle"
                return
            if not self.source.waits:
                sleep(pause)
                pause = min(LONGEST, 1.5 * pause)
        self.ended = self.ended or "signal"

    def _on_time(self, batch: Batch) -> Batch:
        """The batch without rows that step back in time; the position with what that rests on."""
        if self.clock is None:
            return replace(batch, position={"source": batch.position})
        rows = self.clock.checked(batch.load())
        position = {"source": batch.position, "clock": self.clock.state()}
        return replace(batch, load=lambda: rows, position=position)

    def _judged(self, pool: ThreadPoolExecutor) -> Iterator[Judged | None]:
        """Batches with their verdicts, in order, few of them waiting; None where all is quiet."""
        self._read_rows = self.tally.rows
        waiting: deque[Future[Work]] = deque()
        checked = self.resumed
        for batch in self._batches():
            if not checked and self.source.columns is not None:
                self.model.preparation.check(self.source.columns)  # before anything is written
                self.keep = self.model.check_kept(self.keep, self.source.columns)
                checked = True
            if batch is not None:
                waiting.append(pool.submit(self._work, batch))
            while waiting and (
                batch is None or len(waiting) > self.jobs or waiting[0].done() or self._stop
            ):
                yield self._counted(*waiting.popleft().result())
            if batch is None:
                yield None
        while waiting:
            yield self._counted(*waiting.popleft().result())

    def _work(self, batch: Batch) -> Work:
        judged = judge(self.model, batch, self.keep, self.output.prepared)
        # Where scores have no reference yet, the main thread makes one of the first of them.
        counts = self._counts(judged) if self.monitor.scores_ is not None else None
        return judged, counts

    def _counts(self, judged: Judged) -> StreamCounts | None:
        if judged.table is None or judged.X is None or not len(judged.X):
            return None
        X, verdicts = judged.some_rows(self.limits.drift_rows)
        return self.monitor.count(X, verdicts, first_row=int(judged.table["row"][0]) - 1)

    def _counted(self, judged: Judged, counts: StreamCounts | None) -> Judged:
        counts = self._counts(judged) if counts is None else counts
        if counts is not None:
            self.monitor.update_counts(counts)
            self.places.add(self.monitor.n_rows_, judged.batch.last)
        return judged

    @property
    def status(self) -> DriftStatus:
        """What the monitor says, in numbers of rows of the stream."""
        return self.places.in_rows(self.monitor.status_)

    # ------------------------------------------------------------------------------------ verdicts

    def _take(self, judged: Judged | None) -> None:
        if judged is not None:
            if judged.table is not None:
                self.output.add(judged.prepared)
            self.done_files.add_lines(judged.batch.finished)
            self._position, self._uncommitted = judged.batch.position, True
            self._keep_pace(judged.batch.last)
            status, now = self.status, time()
            here = self.tally.add(judged, status, now)
            self.tell(Told(now, here, self.tally, status))
            if status.alarm and self.drift is None:
                self._declare(status, now)
        if self._uncommitted and self.output.due(idle=judged is None):
            self.commit()
        self._note_hook()
        if monotonic() - self._shown >= self.show_seconds:
            self.show(self)
            self._shown = monotonic()

    def _keep_pace(self, rows: int) -> None:
        now = monotonic()
        self._pace.append((now, rows))
        while self._pace[0][0] < now - RATE_SECONDS:
            self._pace.popleft()

    def _declare(self, status: DriftStatus, now: float) -> None:
        """Drift: remember it, then run the command. Killed between, it is not run: never twice."""
        self.drift = {
            "row": self.tally.rows,
            "time": now,
            "kind": status.kind,
            "since": status.since,
            "sentence": status.sentence(),
            "hook": None if self.hook is None else STARTED,
        }
        self.commit()
        if self.hook is not None:
            self.hook.start({**self.drift, "source": self.source.name, "rows": self.tally.rows})
        if self.limits.until_drift:
            self._stop, self.ended = True, "drift"

    @property
    def rate(self) -> float:
        """Rows a second, of late."""
        if len(self._pace) < 2:
            return 0.0
        (start, before), (_, after) = self._pace[0], self._pace[-1]
        return (after - before) / max(monotonic() - start, 1e-3)

    def _note_hook(self) -> None:
        if self.hook is not None and self.hook.told and self.drift:
            self.drift["hook"], self.hook.told = self.hook.told, None
            self.remarks.append(f"The command of on_drift {self.drift['hook']}.")
            self.commit()
