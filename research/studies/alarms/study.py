"""The grid, in an order of which any part covers all cells evenly, measured until time is up."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from lpfuse import FusedDetector
from research.common.machine import environment
from research.common.measure import finished
from research.common.store import Record, RecordStore, read_records
from research.studies.alarms.families import FAMILIES
from research.studies.alarms.measures import Make, measured
from research.studies.alarms.sources import TABLES, Cell, rows_of, tables_for

# What is asked; the rest of a row is what came out.
ASKED = ("kind", "version", "calibration", "family", "n", "labels", "rep")
PACKAGES = ("lpfuse", "numpy", "scipy", "scikit-learn")
SIZES = (60, 200, 1000, 2000, 5000, 20_000)
TABLE_SIZES = (60, 200, 1000, 1500)  # the tables have at most 2,000 normal rows
LABELS = (0, 30)
REPS = {0: 60, 5000: 12, 20_000: 12}  # from so many rows on: more would take an hour
MOST_TABLES = 100
# A fit of so many rows takes at most about so many seconds: none begins that would not end in time.
# Twice what was measured on a busy machine; what this run sees itself replaces them.
LONGEST = {0: 5.0, 2000: 12.0, 5000: 20.0, 20_000: 40.0}


class Task(NamedTuple):
    """One repetition of a cell."""

    cell: Cell
    rep: int


@dataclass(frozen=True)
class Plan:
    """What to measure.

    Attributes
    ----------
    cells : tuple of str
        Patterns of ``FAMILY[:ROWS[:LABELS]]``; ``*`` stands for anything. None: all.
    reps : dict
        From so many rows on → repetitions of a made-up family.
    tables : int
        Real tables at each size, a repetition each.
    version : str
        What stored rows call the state of the library.
    calibration : str, optional
        Passed to the detector; by default its own.
    """

    cells: tuple[str, ...] = ()
    reps: dict[int, int] = field(default_factory=lambda: dict(REPS))
    tables: int = MOST_TABLES
    version: str = "now"
    calibration: str | None = None

    def tasks(self) -> list[Task]:
        """All repetitions; after any part of them, all cells are done to about the same share."""
        shares = {
            Task(cell, rep): ((rep + 0.5) / count, -cell.n)
            for cell in chosen(self.cells)
            for count in [self.count(cell)]
            for rep in range(count)
        }
        return sorted(shares, key=shares.__getitem__)

    def count(self, cell: Cell) -> int:
        """Repetitions of a cell."""
        if cell.family == TABLES:
            return len(tables_for(cell.n, self.tables))
        return at_size(self.reps, cell.n)

    def asked(self, task: Task) -> Record:
        """What a stored row is known by."""
        cell = task.cell
        return {
            "kind": "alarms", "version": self.version, "calibration": self.calibration,
            "family": cell.family, "n": cell.n, "labels": cell.labels, "rep": task.rep,
        }  # fmt: skip


def all_cells() -> list[Cell]:
    """The whole grid."""
    made_up = [Cell(f, n, k) for f in FAMILIES for n in SIZES for k in LABELS]
    return made_up + [Cell(TABLES, n, k) for n in TABLE_SIZES for k in LABELS]


def chosen(patterns: Sequence[str]) -> list[Cell]:
    """Cells that some pattern names; all where there is none.

    Examples
    --------
    >>> [cell.key for cell in chosen(["t2:60", "cats:?00:0"])]
    ['t2:60:0', 't2:60:30', 'cats:200:0']
    """
    unknown = [p for p in patterns if not any(_names(p, cell) for cell in all_cells())]
    if unknown:
        raise SystemExit(
            f"No cell is called {', '.join(unknown)}. Cells are FAMILY:ROWS:LABELS, as "
            f"{all_cells()[0].key}; families: {', '.join([*FAMILIES, TABLES])}."
        )
    return [c for c in all_cells() if not patterns or any(_names(p, c) for p in patterns)]


def _names(pattern: str, cell: Cell) -> bool:
    return fnmatchcase(":".join(cell.key.split(":")[: pattern.count(":") + 1]), pattern)


def at_size(steps: dict[int, Any], n: int) -> Any:
    """The value of the last step that n reaches.

    Examples
    --------
    >>> [at_size({0: 60, 5000: 12}, n) for n in (60, 5000, 20_000)]
    [60, 12, 12]
    """
    return steps[max(start for start in steps if start <= n)]


# ---------------------------------------------------------------------------------------- running


def measure_alarms(
    plan: Plan, path: Path, *, jobs: int = 1, limit: float | None = None, make: Make | None = None
) -> None:
    """Append the rows that are not stored yet, until `limit` seconds have passed.

    Parameters
    ----------
    plan : Plan
        What to measure.
    path : Path
        Where rows are stored, one a line, as they come.
    jobs : int
        Processes.
    limit : float, optional
        No repetition begins that is likely to end later, in seconds from now.
    make : callable, optional
        What makes the detector, for tests; by default `FusedDetector`.
    """
    start = time.monotonic()
    store = RecordStore(path, environment(1, PACKAGES), ASKED)
    tasks = [task for task in plan.tasks() if store.find(**plan.asked(task)) is None]
    stopwatch = Stopwatch(start, limit)
    made, failed = 0, Counter[str]()
    work = partial(_row, plan, make or _maker(plan.calibration))
    for (row,) in finished(work, stopwatch.in_time(tasks), jobs):
        if "failed" in row:
            failed[f"{row['family']}:{row['n']}:{row['labels']} {row['failed']}"] += 1
            continue
        stopwatch.saw(row["n"], row.pop("wall"))
        store.append(row)
        made += 1
    for what, times in failed.items():
        print(f"failed {times} times: {what}", file=sys.stderr)
    spent = time.monotonic() - start
    print(f"{made} of {len(tasks)} repetitions in {spent:.0f} s.", file=sys.stderr)


class Stopwatch:
    """Tells which tasks can still end in time."""

    def __init__(self, start: float, limit: float | None) -> None:
        self.end = None if limit is None else start + limit
        self.longest: dict[int, float] = {}

    def saw(self, n: int, seconds: float) -> None:
        """A repetition of n rows took so long."""
        self.longest[n] = max(seconds, self.longest.get(n, 0.0))

    def in_time(self, tasks: Iterable[Task]) -> Iterator[Task]:
        """Tasks in their order, without those that would end too late."""
        for task in tasks:
            n = task.cell.n
            expected = self.longest.get(n, at_size(LONGEST, n))
            if self.end is None or time.monotonic() + expected < self.end:
                yield task


def _maker(calibration: str | None) -> Make:
    return FusedDetector if calibration is None else partial(FusedDetector, calibration=calibration)


def _row(plan: Plan, make: Make, task: Task) -> list[Record]:
    """One repetition, in whichever process."""
    asked, start = plan.asked(task), time.monotonic()
    try:
        found = measured(rows_of(task.cell, task.rep, plan.tables), task.rep, make)
    except Exception as error:  # whatever it is, the others go on; the next run tries again
        return [{**asked, "failed": f"{type(error).__name__}: {error}"}]
    return [{**asked, **found, "wall": time.monotonic() - start}]


def read_alarms(paths: Iterable[Path]) -> list[Record]:
    """The rows of these files, the latest of each repetition."""
    return [row for row in read_records(paths, ASKED) if row["kind"] == "alarms"]
