"""What a watch has seen so far, in a size that does not grow: counts, and a history of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Self

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse._format import fixed
from lpfuse._validation.params import counted
from lpfuse.monitor import DriftStatus
from lpfuse.watch._batch import MOST_TEXT
from lpfuse.watch._judging import Judged

# All chosen by hand:
BUCKETS = 240  # of the history; where there are more, two become one
FIRST_WIDTH = 1.0  # seconds of one
LATEST = 20_000  # p-values of which about half are in the histogram of the latest ones
BINS = 20
SHOWN = 20  # alarms and notes that are kept in full


@dataclass
class Bucket:
    """What happened within some seconds.

    Attributes
    ----------
    start : float
        Seconds since 1970.
    rows, judged, alarms, noted : int
        Rows that came, were judged, were called anomalies, could not be judged.
    evidence : float
        The most that there was for drift, as a decimal logarithm.
    """

    start: float
    rows: int = 0
    judged: int = 0
    alarms: int = 0
    noted: int = 0
    evidence: float = -np.inf

    def add(self, other: Bucket) -> None:
        """Take in a later one."""
        self.rows += other.rows
        self.judged += other.judged
        self.alarms += other.alarms
        self.noted += other.noted
        self.evidence = max(self.evidence, other.evidence)


@dataclass
class Places:
    """Which rows of the stream those of the monitor were, which looks at some of them.

    Attributes
    ----------
    pairs : list of [int, int]
        After so many rows of the monitor, that row of the stream; thinned where there are many.
    """

    pairs: list[list[int]] = field(default_factory=list)

    def add(self, looked_at: int, row: int) -> None:
        """Take in the end of a batch."""
        if len(self.pairs) >= 2 * BUCKETS:
            self.pairs = self.pairs[1::2]
        self.pairs.append([looked_at, row])

    def row(self, looked_at: int) -> int:
        """The row of the stream, or about that."""
        ours, theirs = zip([0, 0], *self.pairs, strict=True)
        return round(float(np.interp(looked_at, ours, theirs)))

    def in_rows(self, status: DriftStatus) -> DriftStatus:
        """A status in terms of rows of the stream."""
        drifts = [
            replace(each, since=self.row(each.since), declared=self.row(each.declared))
            for each in status.drifts
        ]
        return replace(status, n_rows=self.row(status.n_rows), drifts=drifts)


@dataclass
class Tally:
    """Counts of a stream; `state` and `of_state` are in terms of JSON.

    Attributes
    ----------
    rows, judged, alarms : int
        Rows that came, were judged, were called anomalies.
    notes, remarks : dict of str: int
        Rows that were not judged, by why; what was new in rows that were.
    last_notes, last_alarms : list
        The latest, in full.
    pvalues, latest : list
        Counts of p-values in equal bins: of all, and of the latest rows.
    starts : int
        How often the watch was started.
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
    buckets: list[Bucket] = field(default_factory=list)
    width: float = FIRST_WIDTH
    starts: int = 0

    def add(self, judged: Judged, status: DriftStatus, now: float) -> Bucket:
        """Take in a batch; what it came to."""
        came = judged.batch.last - self.rows
        here = Bucket(now, rows=came, noted=len(judged.notes))
        self.rows = judged.batch.last
        for note in judged.notes:
            self.notes[note.kind] = self.notes.get(note.kind, 0) + 1
        told = [[n.kind, n.row, n.text[:MOST_TEXT], now] for n in judged.notes[-SHOWN:]]
        self.last_notes = (self.last_notes + told)[-SHOWN:]
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
        self._add_bucket(replace(here))
        return here

    def _add_alarms(self, judged: Judged, now: float) -> int:
        assert judged.table is not None
        odd = judged.table.filter(judged.table["decision"] < 0)
        names = [name for name in odd.columns if not name.startswith("contribution:")]
        rows = odd.tail(SHOWN).select(names).to_dicts()
        cut = [
            {
                k: v if isinstance(v, int | float | None) else str(v)[:MOST_TEXT]
                for k, v in r.items()
            }
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

    def _add_bucket(self, here: Bucket) -> None:
        here.start -= here.start % self.width
        if self.buckets and self.buckets[-1].start >= here.start:  # or the clock went back
            self.buckets[-1].add(here)
        else:
            self.buckets.append(here)
        while len(self.buckets) > BUCKETS:
            self.width *= 2
            merged: list[Bucket] = []
            for each in self.buckets:
                each.start -= each.start % self.width
                if merged and merged[-1].start == each.start:
                    merged[-1].add(each)
                else:
                    merged.append(each)
            self.buckets = merged

    @property
    def noted(self) -> int:
        """Rows that were not judged."""
        return sum(self.notes.values())

    def state(self) -> dict[str, Any]:
        """All of it, in terms of JSON but for infinity."""
        return asdict(self)

    @classmethod
    def of_state(cls, state: dict[str, Any]) -> Self:
        """What `state` gave."""
        buckets = [
            Bucket(**each | {"evidence": float(each["evidence"])}) for each in state["buckets"]
        ]
        return cls(**state | {"buckets": buckets})


@dataclass
class Told:
    """What is said after a batch.

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
        """The figures, in terms of JSON."""
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
        """The figures, for people."""
        told = self.values()
        most = "–" if told["evidence"] is None else f"10^{fixed(told['evidence'], 1)}"
        noted = f", {self.batch.noted:,} not judged" if self.batch.noted else ""
        drift = f"; drift: {self.status.kind}" if self.status.alarm else ""
        return (
            f"{told['time'][11:19]}  {counted(self.batch.rows, 'row')}, "
            f"{counted(self.batch.alarms, 'alarm')}{noted}; {self.tally.rows:,} in all; "
            f"evidence of drift {most}{drift}"
        )
