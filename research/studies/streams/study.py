"""Every method on every stream, changed by controls and as it is; and on simulated rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from lpfuse import FusedDetector
from lpfuse.time import alarm_episodes
from research.common.machine import environment
from research.common.measure import finished
from research.common.store import Record, RecordStore, read_records
from research.studies.streams.measures import RATE, excess, figures_of, spans
from research.studies.streams.methods import FIXED, OURS, methods_for, ours
from research.studies.streams.sources import (
    CHANGES,
    DRIFTS,
    LEARNT,
    MEMORIES,
    load_stream,
    simulated,
    stream_names,
)

ASKED = ("kind", "collection", "set", "change", "part", "method", "memory", "drift", "seed")
PACKAGES = ("lpfuse", "numpy", "scipy", "scikit-learn")
REPEATS = 30  # of a simulation
SAID = {"time": "time", "nothing": None}  # with nothing said, a warning comes, and is not heeded


class Task(NamedTuple):
    """One method on one stream; a method may have several names."""

    collection: str
    name: str
    change: str
    part: str

    @property
    def asked(self) -> Record:
        """What its rows are known by, beside the method."""
        return {
            "kind": "stream", "collection": self.collection, "set": self.name,
            "change": self.change, "part": self.part, "seed": 0,
        }  # fmt: skip


class Draw(NamedTuple):
    """One simulation."""

    memory: float
    drift: float
    seed: int

    @property
    def asked(self) -> Record:
        """What its rows are known by, beside the method."""
        return {"kind": "simulation", **self._asdict()}


def stream_tasks() -> list[Task]:
    """All streams, the competitors first."""
    return [
        Task(*name, change, part)
        for change in CHANGES
        for part in methods_for(change)
        for name in stream_names()
    ]


def draws(repeats: int = REPEATS) -> list[Draw]:
    """All simulations."""
    return [Draw(m, d, seed) for seed in range(repeats) for m in MEMORIES for d in DRIFTS]


def judged_stream(task: Task) -> list[Record]:
    """Rows of one method, by whichever names it has."""
    rng = np.random.default_rng(crc32(f"{task.name} {task.change}".encode()))
    stream = CHANGES[task.change](load_stream(task.collection, task.name), rng)
    method = methods_for(task.change)[task.part]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = method(stream, 0)
    return [
        {**task.asked, "method": name, **figures_of(stream, *judged)}
        for name, judged in found.items()
    ]


def simulate(draw: Draw) -> list[Record]:
    """Alarms on rows of which all are normal, with time said, and with nothing said."""
    rng = np.random.default_rng([draw.seed, int(10 * draw.memory), int(draw.drift)])
    rows = simulated(draw.memory, draw.drift, rng)
    found = []
    for said, order in SAID.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fused = FusedDetector(false_alarm_rate=RATE, random_state=draw.seed)
            fused.fit(rows[:LEARNT], order=order)
        flagged = fused.pvalues(rows[LEARNT:]) <= RATE
        promise, beyond = bool(fused.calibration_promise_), excess(flagged, RATE)
        figures = {"promise": promise, "flagged": float(flagged.mean()), "excess": beyond}
        found.append({**draw.asked, "method": said, **figures})
    return found


def measure_streams(
    path: Path, *, jobs: int = 1, repeats: int = REPEATS, parts: Iterable[str] = ()
) -> None:
    """Append the rows that are not stored yet.

    Parameters
    ----------
    path : Path
        Where rows are stored, one a line, as they come.
    jobs : int
        Processes.
    repeats : int
        Simulations of each kind.
    parts : iterable of str
        Methods to measure; none: all.
    """
    store, wanted = RecordStore(path, environment(1, PACKAGES), ASKED), set(parts)
    tasks = [task for task in stream_tasks() if not wanted or task.part in wanted]
    _append(store, judged_stream, tasks, jobs)
    _append(store, simulate, draws(repeats), jobs)


def _append(
    store: RecordStore, work: Callable[[Any], list[Record]], asked: list[Any], jobs: int
) -> None:
    missing = [each for each in asked if not store.select(**each.asked)]
    for rows in finished(work, missing, jobs):
        for row in rows:
            store.append(row)


def read_streams(paths: Iterable[Path]) -> list[Record]:
    """Stored rows, the latest of each."""
    return [row for row in read_records(paths, ASKED) if row["kind"] != "environment"]


# ---------------------------------------------------------------------------------------- pictures

PICTURED = (
    ("skab", "valve2-0"), ("skab", "other-11"),
    ("nab", "realTraffic-speed_7578"), ("nab", "realKnownCause-ambient_temperature_system_failure"),
)  # fmt: skip


def pictures_of(names: Iterable[tuple[str, str]]) -> Record:
    """P-values of the rows after the healthy start by our method, and where faults are."""
    return {"streams": [_picture(*name) for name in names]}


def _picture(collection: str, name: str) -> Record:
    stream = load_stream(collection, name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = ours(stream, 0)
    levels = {"adaptive": found[OURS].pvalues, "fixed": found[FIXED].pvalues}
    told = {key: np.round(-np.log10(p), 2).tolist() for key, p in levels.items()}
    episodes = [each.start for each in alarm_episodes(levels["adaptive"], RATE)]
    return {
        "collection": collection, "name": name, "start": stream.healthy,
        "faults": spans(stream.later), "episodes": episodes, **told,
    }  # fmt: skip
