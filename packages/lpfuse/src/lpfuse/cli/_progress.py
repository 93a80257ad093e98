"""What a command is doing, on standard error: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any

from lpfuse._format import printable

Progress = Callable[[int, int], None]
Stream = Callable[[int, "float | None"], None]
Clock = Callable[[], float]

# All chosen by hand:
EVIDENCE_SECONDS = 2.0  # of work, before which nothing is said about the time to go,
EVIDENCE_SHARE = 0.03  # and this much of it,
ENOUGH_SECONDS = 30.0  # unless so long has passed that less will do
SMOOTHING = 0.5  # how far an estimate of the end moves towards a new one
SECONDS_BETWEEN_LINES = 5.0  # where there is no terminal,
SHARE_BETWEEN_LINES = 0.05  # or this much of the time that has passed, if it is more
BAR_WIDTH = 24  # characters


class TimeToGo:
    """How long the rest of some work takes, by the time that a part of it took.

    Parameters
    ----------
    clock : callable
        Seconds.
    first : float, default=0.0
        What was done before, and tells nothing of the speed: results that were stored, say.
    """

    def __init__(self, clock: Clock, first: float = 0.0) -> None:
        self.clock, self.began = clock, clock()
        self.first = self.done = first
        self.total = self.step = 0.0
        self.end: float | None = None  # when it is expected, by the clock

    @property
    def passed(self) -> float:
        """Seconds since it began."""
        return self.clock() - self.began

    def report(self, done: float, total: float) -> None:
        """Take in how much is done, and how much there is in all."""
        self.step, self.done, self.total = done - self.done, done, total
        if done > self.first:
            end = self.clock() + self._rest(done)
            self.end = end if self.end is None else self.end + SMOOTHING * (end - self.end)

    def _rest(self, done: float) -> float:
        return self.passed * (self.total - done) / (done - self.first)

    def seconds(self) -> float | None:
        """The time to go; None as long as there is no evidence, or where the work is done."""
        known = self.end is not None and self.done < self.total
        if not known or self.passed < EVIDENCE_SECONDS:
            return None
        share = (self.done - self.first) / (self.total - self.first)
        if share < EVIDENCE_SHARE and self.passed < ENOUGH_SECONDS:
            return None
        assert self.end is not None
        # Where a step takes longer than the one before, it ends at this moment at best.
        rest = self._rest(min(self.total, self.done + self.step))
        return max(self.end - self.clock(), rest) or None


def in_words(seconds: float) -> str:
    """A time to go, no finer than it can be known.

    Examples
    --------
    >>> [in_words(seconds) for seconds in (3, 41, 100, 1000, 9000)]
    ['a few seconds', 'about 45 s', 'about 2 min', 'about 17 min', 'about 2.5 h']
    """
    if seconds < 10:
        return "a few seconds"
    if seconds <= 90:
        return f"about {5 * -(-seconds // 5):.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"


def so_far(seconds: float) -> str:
    """A time that has passed: seconds, and minutes where there are some."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def called(path: str | Path) -> str:
    """What a file is called in a line of progress."""
    return "standard input" if str(path) == "-" else Path(path).name


class Phases:
    """One thing after another that a command does, each told of when it begins.

    Parameters
    ----------
    quiet : bool
        Say nothing.
    clock : callable
        Seconds.
    """

    def __init__(self, quiet: bool, clock: Clock = monotonic) -> None:
        self.quiet, self.clock = quiet, clock
        self.title = self.detail = ""
        self.time_to_go = TimeToGo(clock)
        self.next_line = 0.0
        self.lock = Lock()  # of the lines: work that is reported and the ticker may both print
        self.view: Any = None

    def begin(self, title: str, done: float = 0.0) -> None:
        """Go on to the next thing, of which so much was done before, and say so at once."""
        self.end()
        self.title, self.detail, self.time_to_go = title, "", TimeToGo(self.clock, done)
        if self.quiet:
            return
        if sys.stderr.isatty():
            self.view = _live_line(self)
        else:
            self._print_line()
            self.view = _Ticker(self.tick)

    def restart_clock(self) -> None:
        """What went before in this phase, imports say, tells nothing of its speed."""
        self.time_to_go = TimeToGo(self.clock)

    def end(self) -> None:
        """It is done; others may write."""
        if isinstance(self.view, _Ticker) and self.time_to_go.passed >= SECONDS_BETWEEN_LINES:
            self._print(f"{self.title}: done in {so_far(self.time_to_go.passed)}")
        self.stop()

    def stop(self) -> None:
        """It is over, done or not."""
        if self.view is not None:
            self.view.stop()
        self.view = None

    @property
    def progress(self) -> Progress | None:
        """A function that takes the work done, and all that there is, in any unit."""

        def report(done: int, total: int) -> None:
            # What follows the last unit (a threshold, say) is a part of the work, too.
            self.report(done, total, f"{min(99, 100 * done // max(1, total)):.0f} %")

        return None if self.quiet else report

    @property
    def stream(self) -> Stream | None:
        """A function that takes the rows done, and their share of all if it is known."""

        def report(rows: int, share: float | None) -> None:
            rate = f"{rows:,} rows, {rows / max(1e-9, self.time_to_go.passed):,.0f} a second"
            known = "" if share is None else f"{100 * share:.0f} %, "
            self.report(share or 0.0, 0.0 if share is None else 1.0, known + rate)

        return None if self.quiet else report

    def report(self, done: float, total: float, detail: str) -> None:
        """Take in how much is done, in numbers and in words; if less than before, of other work."""
        if done < self.time_to_go.done:
            self.time_to_go = TimeToGo(self.clock, done)
        self.time_to_go.report(done, total)
        self.detail = detail
        self.tick()

    def words(self) -> str:
        """What is going on, in a line."""
        left, passed = self.time_to_go.seconds(), self.time_to_go.passed
        time = "" if passed < EVIDENCE_SECONDS else f"{so_far(passed)} so far"
        time = time if left is None else f"{in_words(left)} to go"
        said = ", ".join(filter(None, [self.detail, time]))
        return printable(f"{self.title}: {said}" if said else f"{self.title} …")

    def tick(self) -> None:
        """Print a line, where there is no terminal and the last one is old enough."""
        with self.lock:
            if isinstance(self.view, _Ticker) and self.clock() >= self.next_line:
                self._print_line()

    def _print_line(self) -> None:
        wait = max(SECONDS_BETWEEN_LINES, SHARE_BETWEEN_LINES * self.time_to_go.passed)
        self.next_line = self.clock() + wait
        self._print(self.words())

    def _print(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)


class _Ticker:
    """Looks at the clock while work goes on that reports nothing."""

    def __init__(self, tick: Callable[[], None]) -> None:
        self.over = Event()
        self.thread = Thread(target=self._run, args=(tick,), daemon=True)
        self.thread.start()

    def _run(self, tick: Callable[[], None]) -> None:
        while not self.over.wait(1.0):
            tick()

    def stop(self) -> None:
        self.over.set()
        self.thread.join()


def _live_line(phases: Phases) -> Any:
    """A line that is drawn anew several times a second, and goes when it is stopped."""
    from rich.console import Console
    from rich.live import Live
    from rich.progress_bar import ProgressBar
    from rich.spinner import Spinner
    from rich.table import Table
    from rich.text import Text

    spinner = Spinner("dots")

    def line() -> Table:
        grid, work = Table.grid(padding=(0, 1)), phases.time_to_go
        bar = ProgressBar(total=work.total, completed=work.done, width=BAR_WIDTH)
        # A Text and no str, in which rich would take [brackets] of a file's name as its own.
        words = Text(phases.words(), no_wrap=True, overflow="ellipsis")
        grid.add_row(spinner, *([bar] if work.total else []), words)
        return grid

    # What goes to standard output is none of its business: that may be a file.
    live = Live(
        get_renderable=line, console=Console(stderr=True), transient=True, redirect_stdout=False
    )
    live.start(refresh=True)
    return live


@contextmanager
def phases(quiet: bool, clock: Clock = monotonic) -> Iterator[Phases]:
    """What a command does, one thing after another, on stderr.

    Parameters
    ----------
    quiet : bool
        Show nothing.
    clock : callable
        Seconds.
    """
    found = Phases(quiet, clock)
    try:
        yield found
        found.end()
    finally:
        found.stop()


@contextmanager
def progress(title: str, quiet: bool, clock: Clock = monotonic) -> Iterator[Progress | None]:
    """A function that takes (done, total) and shows it, with the time to go, on stderr.

    What is done at the first report was stored before; where that is all, nothing is shown.

    Parameters
    ----------
    title : str
        What is going on.
    quiet : bool
        Show nothing.
    clock : callable
        Seconds.
    """
    with phases(quiet, clock) as shown:

        def report(done: int, total: int) -> None:
            if not shown.title and done < total:
                shown.begin(title, done)
            if shown.title:
                shown.report(done, total, f"{done:,} of {total:,}")

        yield None if quiet else report


@contextmanager
def stream(title: str, quiet: bool, clock: Clock = monotonic) -> Iterator[Stream | None]:
    """A function that takes the rows done, and their share if it is known, and shows their rate.

    Parameters
    ----------
    title : str
        What is going on.
    quiet : bool
        Show nothing.
    clock : callable
        Seconds.
    """
    with phases(quiet, clock) as shown:
        shown.begin(title)
        yield shown.stream
