"""Verdicts on batches of rows, and the counts that a watch keeps of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse._format import fixed, plain, quote
from lpfuse._validation.params import counted
from lpfuse.ensemble import FusedDetector
from lpfuse.frames.cells import ELAPSED, NO_DATE, ORDERS, polars_module
from lpfuse.monitor import DriftStatus
from lpfuse_cli.scoring import ScoredFrame, judge_frame
from lpfuse_cli.tables import how_prepared
from lpfuse_cli.times import ANY_ORDER, NUMBER, Follower, order_of_times, read_times
from lpfuse_cli.watch.batches import LACKS, MAX_NOTE, NO_NUMBER, Batch, Note, Numbers, Rows

if TYPE_CHECKING:
    import polars

    from lpfuse.ensemble.components import Verdicts

ROW = "row"  # the column of the output with the place in the stream

# All chosen by hand:
SEARCHED = 1_000  # rows in which the column of their times is looked for
MOST_BACK = 0.1  # of the steps between rows may go back in time where a chart follows a column
BUCKETS = 240  # of a history; beyond, neighbours are merged
LATEST = 20_000  # p-values of which about half are in the histogram of the latest ones
BINS = 20
SHOWN = 20  # alarms and notes that are stored in full


# ----------------------------------------------------------------------------------------- verdicts


@dataclass(frozen=True)
class Judged:
    """Verdicts on a batch.

    Attributes
    ----------
    batch : Batch
        Its rows.
    table : polars.DataFrame or None
        Rows of the output; None where no row could be scored.
    notes : list of Note
        On rows that were not scored, in their order.
    remarks : Counter of str
        Unknown values in rows that were scored nevertheless.
    X, verdicts : ndarray of shape (m, d) and Verdicts, or None
        Of the rows that hold a value, for the drift monitor.
    frame, features, seconds : polars.DataFrame and ndarrays, or None
        Of a model with time: cells, features with windows, and times of the rows in `table`.
    prepared : object
        The rows as `prepare` of the output returned them.
    times : polars.DataFrame or None
        Columns of the rows in `table` that may tell when they were.
    evidence : list of (int, float)
        The strongest evidence of drift after rows of the stream, as a decimal logarithm.
    """

    batch: Batch
    table: polars.DataFrame | None
    notes: list[Note]
    remarks: Counter[str]
    X: Host | None = None
    verdicts: Verdicts | None = None
    frame: polars.DataFrame | None = None
    features: Host | None = None
    seconds: Host | None = None
    prepared: Any = None
    times: polars.DataFrame | None = None
    evidence: Sequence[tuple[int, float]] = ()

    def some_rows(self, most: int) -> tuple[Host, Verdicts]:
        """Return features and verdicts of `most` rows at most, evenly spaced."""
        assert self.X is not None
        assert self.verdicts is not None
        step = -(-len(self.X) // most)
        return _select_rows(self.X, self.verdicts, slice(None, None, step))


def _select_rows(X: Host, verdicts: Verdicts, which: Any) -> tuple[Host, Verdicts]:
    X = X[which]
    cut: list[Any] = [None if part is None else part[which] for part in verdicts]
    return X, type(verdicts)(*cut).of_rows(X, verdicts.detector_names)


def judge(
    model: FusedDetector,
    batch: Batch,
    keep: list[str],
    prepare: Callable[[polars.DataFrame], Any],
    times: Sequence[str] = (),
    follower: Follower | None = None,
) -> Judged:
    """Score the rows of a batch, and note those that cannot be scored.

    Parameters
    ----------
    model : FusedDetector
        The fitted model.
    batch : Batch
        Rows.
    keep : list of str
        Columns to copy before the scores; empty where rows lack them.
    prepare : callable
        Converts rows of the output to what its `add` takes.
    times : sequence of str
        Columns that may tell when rows were.
    follower : Follower, optional
        Of a model with time: what the rows continue, which moves on.
    """
    rows = batch.load()
    notes = [*batch.notes, *rows.notes]
    rows = _drop_if_columns_lack(model, rows, notes)
    found = None
    try:
        found = _judge_rows(model, rows, follower)
    except ValueError:
        rows = _drop_wrong_cells(model, rows, notes)
        found = _judge_rows(model, rows, follower)
    except polars_module().exceptions.PolarsError as error:  # cells of an unsupported type
        text = plain(str(error).partition("\n")[0])
        notes += [Note(NO_NUMBER, int(row), text) for row in rows.numbers]
    notes.sort(key=lambda note: note.row)
    if found is None or found.verdicts is None:
        return Judged(batch, None, notes, Counter())
    table = row_columns(batch, rows.numbers).hstack(_kept(rows.frame, keep)).hstack(found.table)
    remarks = how_prepared(model).new_in(rows.frame)
    X, verdicts = found.X, found.verdicts
    timed: dict[str, Any] = {}
    if follower is not None:
        timed = {"frame": rows.frame, "features": X, "seconds": rows.seconds}
        X = X[:, : len(how_prepared(model).features)]
    nothing = np.isnan(X).all(axis=1)
    if nothing.any():
        X, verdicts = _select_rows(X, verdicts, ~nothing)
    there = rows.frame.select(name for name in times if name in rows.frame.columns)
    return Judged(
        batch, table, notes, remarks, X, verdicts, prepared=prepare(table), times=there, **timed
    )


def _judge_rows(model: FusedDetector, rows: Rows, follower: Follower | None) -> ScoredFrame | None:
    if not rows.frame.height:
        return None
    return judge_frame(model, rows.frame, None, follower, rows.seconds)


def _drop_if_columns_lack(model: FusedDetector, rows: Rows, notes: list[Note]) -> Rows:
    """Drop all rows where the table lacks columns of the model."""
    lacking = [name for name in how_prepared(model).columns if name not in rows.frame.columns]
    if not lacking or not rows.frame.height:
        return rows
    text = ", ".join(map(quote, lacking))
    notes += [Note(LACKS, int(row), text) for row in rows.numbers]
    return rows.only(np.zeros(rows.frame.height, bool))


def _drop_wrong_cells(model: FusedDetector, rows: Rows, notes: list[Note]) -> Rows:
    """Drop rows with a cell that is no number or date where the model needs one."""
    wrong = how_prepared(model).wrong_cells(rows.frame)
    bad = np.zeros(rows.frame.height, bool)
    for name, where in wrong.items():
        new = where.to_numpy() & ~bad
        cells = rows.frame[name]
        notes += [
            Note(NO_NUMBER, int(rows.numbers[k]), f"{quote(name)} holds {quote(cells[k])}")
            for k in np.flatnonzero(new).tolist()
        ]
        bad |= new
    if not bad.any():  # the error is not of single rows
        return rows
    return rows.only(~bad)


def row_columns(batch: Batch, numbers: Numbers) -> polars.DataFrame:
    """Return the columns that locate rows: their numbers, and where they come from."""
    columns: dict[str, Any] = {ROW: numbers}
    for name, value in batch.marks.items():
        if isinstance(value, dict):
            value = [value[number] for number in numbers.tolist()]
        elif isinstance(value, np.ndarray):
            value = value[numbers - (batch.last - len(value) + 1)]
        columns[name] = value
    return polars_module().DataFrame(columns)


def _kept(frame: polars.DataFrame, keep: list[str]) -> polars.DataFrame:
    pl = polars_module()
    columns = []
    for name in keep:
        column = frame[name] if name in frame.columns else pl.Series([None] * frame.height)
        if column.dtype.is_nested() or column.dtype in (pl.Binary, pl.Object, pl.Null):
            texts = [None if cell is None else str(cell) for cell in column]
            column = pl.Series(texts, dtype=pl.String)
        columns.append(column.alias(name))
    return pl.DataFrame(columns)


# -------------------------------------------------------------------------------------- time column


class RowTimes:
    """Find and read the column that tells when rows were, for charts.

    It is `column`, if given; else the first column of dates of the model, or that is kept, in whose
    order the first rows come: a date of birth tells nothing of the time of a row.

    Parameters
    ----------
    model : FusedDetector
        The fitted model, which knows columns of dates.
    column : str, optional
        Of times, dates or growing numbers.

    Attributes
    ----------
    found : tuple of (str, str) or None
        The column, and how its times are written; None until rows tell.
    """

    def __init__(self, model: FusedDetector, column: str | None = None) -> None:
        made, self.is_given = how_prepared(model), column is not None
        dates = [name for name, kind in made.kinds.items() if kind in ("date", ELAPSED)]
        orders = {name: made.orders.get(name) for name in dates}
        self.orders: dict[str, Sequence[str]] = (
            {column: ANY_ORDER} if column is not None
            else {name: [order] if order else ORDERS for name, order in orders.items()}
        )  # fmt: skip
        self.found: tuple[str, str] | None = None

    def columns(self, keep: Sequence[str]) -> list[str]:
        """Return the columns to look at."""
        return list(self.orders) if self.is_given else [*dict.fromkeys([*self.orders, *keep])]

    def read(self, frame: polars.DataFrame, places: Any) -> list[float | None]:
        """Return the times of some rows as `Clock` has them; None where they cannot be read."""
        if self.found is None:
            self.found = self._find(frame.head(SEARCHED))
        name, order = self.found or ("", NUMBER)
        if name not in frame.columns:
            return [None] * len(places)
        times = read_times(frame[name][places], order)
        return [float(time) if np.isfinite(time) else None for time in times]

    def _find(self, frame: polars.DataFrame) -> tuple[str, str] | None:
        for column in frame:
            order = order_of_times(column, self.orders.get(column.name, ORDERS))
            if order is None or (order == NO_DATE and not self.is_given):
                continue
            times = read_times(column, order)
            steps = np.diff(times[np.isfinite(times)])
            if self.is_given or not len(steps) or np.mean(steps < 0) <= MOST_BACK:
                return column.name, order
        return None


# ------------------------------------------------------------------------------------------- counts


@dataclass
class Bucket:
    """Counts of some seconds, or of some rows.

    Attributes
    ----------
    start : float
        Seconds since 1970, or the number of rows before.
    rows, judged, alarms, noted : int
        Rows that came, were scored, were called anomalies, could not be scored.
    evidence : float
        The strongest evidence of drift, as a decimal logarithm.
    time : float or None
        Of its last row, as `RowTimes` reads it; None where that is not known.
    """

    start: float
    rows: int = 0
    judged: int = 0
    alarms: int = 0
    noted: int = 0
    evidence: float = -np.inf
    time: float | None = None

    def add(self, other: Bucket) -> None:
        """Add a later one."""
        self.rows += other.rows
        self.judged += other.judged
        self.alarms += other.alarms
        self.noted += other.noted
        self.evidence = max(self.evidence, other.evidence)
        self.time = self.time if other.time is None else other.time


@dataclass
class History:
    """Counts in buckets of equal width, which doubles where there would be too many.

    Attributes
    ----------
    buckets : list of Bucket
        In their order; those without rows are left out.
    width : float
        In seconds or rows.
    """

    buckets: list[Bucket] = field(default_factory=list)
    width: float = 1.0

    def add(self, here: Bucket) -> None:
        """Add the counts of a moment, or of a row, none earlier than the last."""
        here.start -= here.start % self.width
        if self.buckets and self.buckets[-1].start >= here.start:  # or the system clock went back
            self.buckets[-1].add(here)
        else:
            self.buckets.append(here)
        while len(self.buckets) > BUCKETS:
            self.widen()

    def widen(self) -> None:
        """Double the width."""
        self.width *= 2
        merged: list[Bucket] = []
        for each in self.buckets:
            each.start -= each.start % self.width
            if merged and merged[-1].start == each.start:
                merged[-1].add(each)
            else:
                merged.append(each)
        self.buckets = merged

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Restore from its fields, as JSON values."""
        numbers = [each | {"evidence": float(each["evidence"])} for each in state["buckets"]]
        return cls([Bucket(**each) for each in numbers], state["width"])


@dataclass
class Places:
    """Map rows of the monitor, which are some of the stream, to rows of the stream.

    Attributes
    ----------
    pairs : list of [int, int]
        A number of rows of the monitor, and the row of the stream; thinned where there are many.
    """

    pairs: list[list[int]] = field(default_factory=list)

    def add(self, monitored: int, row: int) -> None:
        """Add the end of a batch."""
        if len(self.pairs) >= 2 * BUCKETS:
            self.pairs = self.pairs[1::2]
        self.pairs.append([monitored, row])

    def row(self, monitored: int) -> int:
        """Return the row of the stream, interpolated."""
        ours, theirs = zip([0, 0], *self.pairs, strict=True)
        return round(float(np.interp(monitored, ours, theirs)))

    def end(self, monitored: int) -> int:
        """Return the row of the stream with which the batch ended."""
        ends = (row for monitored_rows, row in self.pairs if monitored_rows >= monitored)
        return next(ends, self.row(monitored))

    def in_rows(self, status: DriftStatus) -> DriftStatus:
        """Convert a status to rows of the stream, which count from 1."""
        drifts = [
            replace(each, since=1 + self.row(each.since), declared=self.end(each.declared))
            for each in status.drifts
        ]
        return replace(status, n_rows=self.row(status.n_rows), drifts=drifts)


@dataclass
class Tally:
    """Counts of a stream, in a size that does not grow.

    Attributes
    ----------
    rows, judged, alarms : int
        Rows that came, were scored, were called anomalies.
    notes, remarks : dict of str: int
        Rows that were not scored, by reason; unknown values in rows that were.
    last_notes, last_alarms : list
        The latest ones, in full.
    pvalues, latest : list
        Counts of p-values in equal bins: of all, and of the latest rows.
    by_clock, by_row : History
        Counts over time, as rows were judged, and over the rows; None in the state of a version
        that did not count these.
    starts : int
        Number of starts.
    """

    rows: int = 0
    judged: int = 0
    alarms: int = 0
    notes: dict[str, int] = field(default_factory=dict)
    remarks: dict[str, int] = field(default_factory=dict)
    last_notes: list[list[Any]] = field(default_factory=list)
    last_alarms: list[dict[str, Any]] = field(default_factory=list)
    pvalues: list[float] = field(default_factory=lambda: [0.0] * BINS)
    latest: list[float] = field(default_factory=lambda: [0.0] * BINS)
    by_clock: History = field(default_factory=History)
    by_row: History | None = field(default_factory=History)
    starts: int = 0

    def add(self, judged: Judged, status: DriftStatus, now: float, times: RowTimes) -> Bucket:
        """Add a batch; return its counts."""
        n_rows = judged.batch.last - self.rows
        here = Bucket(now, rows=n_rows, noted=len(judged.notes))
        self.rows = judged.batch.last
        for note in judged.notes:
            self.notes[note.kind] = self.notes.get(note.kind, 0) + 1
        latest = [[n.kind, n.row, n.text[:MAX_NOTE], now] for n in judged.notes[-SHOWN:]]
        self.last_notes = (self.last_notes + latest)[-SHOWN:]
        for what, count in judged.remarks.items():
            self.remarks[what] = self.remarks.get(what, 0) + count
        if judged.table is not None:
            here.judged = judged.table.height
            here.alarms = self._add_alarms(judged, now)
            self._add_pvalues(judged.table["p_value"].drop_nulls().to_numpy())
        if status.evidence:
            here.evidence = max(status.evidence.values())
        self.judged += here.judged
        self.alarms += here.alarms
        self.by_clock.add(replace(here))
        if self.by_row is not None and n_rows:
            self._add_by_row(self.by_row, judged, here, times)
        return here

    def _add_by_row(self, history: History, judged: Judged, whole: Bucket, times: RowTimes) -> None:
        """Add the rows of a batch, each to its bucket; `whole` has the evidence after them."""
        end = judged.batch.last
        first = end - whole.rows  # rows are counted from 0 here
        while end / history.width > BUCKETS:
            history.widen()
        ends = np.arange(first // history.width, (end - 1) // history.width + 2) * history.width
        ends = np.clip(ends, first, end)

        def place(numbers: Any) -> Any:
            rows = np.clip(np.array(numbers, dtype=np.int64) - 1, first, end - 1)
            return np.searchsorted(ends, rows, side="right") - 1

        found = [
            Bucket(float(start), rows=int(n))
            for start, n in zip(ends[:-1], np.diff(ends), strict=True)
        ]
        for note in judged.notes:
            found[place(note.row)].noted += 1
        for row, evidence in [*judged.evidence, (end, whole.evidence)]:
            here = found[place(row)]
            here.evidence = max(here.evidence, evidence)
        if judged.table is not None and judged.table.height:
            assert judged.times is not None
            of = place(judged.table[ROW])
            odd = (judged.table["decision"] < 0).fill_null(False).to_numpy()
            places, lasts = np.unique(of[::-1], return_index=True)
            read = times.read(judged.times, len(of) - 1 - lasts)
            judged_rows, alarms = np.bincount(of), np.bincount(of, odd)
            for at, moment in zip(places.tolist(), read, strict=True):
                found[at].judged, found[at].alarms = int(judged_rows[at]), int(alarms[at])
                found[at].time = moment
        for each in found:
            history.add(each)

    def _add_alarms(self, judged: Judged, now: float) -> int:
        assert judged.table is not None
        odd = judged.table.filter(judged.table["decision"] < 0)
        names = [name for name in odd.columns if not name.startswith("contribution:")]
        rows = odd.tail(SHOWN).select(names).to_dicts()
        cut = [
            {k: v if isinstance(v, int | float | None) else str(v)[:MAX_NOTE] for k, v in r.items()}
            for r in rows
        ]
        self.last_alarms = (self.last_alarms + [row | {"time": now} for row in cut])[-SHOWN:]
        return int(odd.height)

    def _add_pvalues(self, pvalues: Host) -> None:
        places = np.minimum((pvalues * BINS).astype(int), BINS - 1)
        counts = np.bincount(places, minlength=BINS)
        self.pvalues = (np.array(self.pvalues) + counts).tolist()
        latest = np.array(self.latest) + counts
        if latest.sum() > LATEST:
            latest = latest * (LATEST / 2 / latest.sum())
        self.latest = latest.tolist()

    @property
    def noted(self) -> int:
        """Number of notes."""
        return sum(self.notes.values())

    def state(self) -> dict[str, Any]:
        """Return all fields, as JSON values and infinities."""
        state = asdict(self)
        return state | state.pop("by_clock")  # as they were called when there was no other

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Restore from `state()`."""
        others = {name: state[name] for name in state.keys() - {"buckets", "width", "by_row"}}
        by_row = state.get("by_row")
        by_row = None if by_row is None else History.from_state(by_row)
        return cls(**others, by_clock=History.from_state(state), by_row=by_row)


@dataclass
class Progress:
    """Counts after a batch, as `on_batch` gets them.

    Attributes
    ----------
    time : float
        Seconds since 1970.
    batch, tally : Bucket, Tally
        Counts of the batch, and of all rows so far.
    status : DriftStatus
        The evidence of drift.
    """

    time: float
    batch: Bucket
    tally: Tally
    status: DriftStatus

    def values(self) -> dict[str, Any]:
        """Return the counts, as JSON values."""
        most = max(self.status.evidence.values(), default=None)
        return {
            "time": datetime.fromtimestamp(self.time, UTC).isoformat(timespec="seconds"),
            "rows": self.batch.rows,
            "alarms": self.batch.alarms,
            "noted": self.batch.noted,
            "all_rows": self.tally.rows,
            "all_alarms": self.tally.alarms,
            "all_noted": self.tally.noted,
            "evidence": most,
            "drift": self.status.kind,
        }

    def line(self) -> str:
        """Return the counts as one line of text."""
        values = self.values()
        most = "–" if values["evidence"] is None else f"10^{fixed(values['evidence'], 1)}"
        noted = f", {self.batch.noted:,} not judged" if self.batch.noted else ""
        drift = f"; drift: {self.status.kind}" if self.status.alarm else ""
        return (
            f"{values['time'][11:19]}  {counted(self.batch.rows, 'row')}, "
            f"{counted(self.batch.alarms, 'alarm')}{noted}; {self.tally.rows:,} in all; "
            f"evidence of drift {most}{drift}"
        )
