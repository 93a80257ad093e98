"""What is measured: the largest number of a calm stream, and how long a change goes unseen."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from time import monotonic
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from lpfuse import FusedDetector
from lpfuse._arrays.operations import Host
from research.common.store import Record
from research.studies.drift.peers import PEERS
from research.studies.drift.records import kept
from research.studies.drift.streams import TRAINING, stream, usual
from research.studies.drift.watchers import lpfuse_numbers, standardised

OURS = "lpfuse"
Task = tuple[str, str, str | None, int]  # watcher, base, change, seed


@cache
def detector(base: str) -> FusedDetector:
    """Fitted once to rows as they come; what it was calibrated on plays no part."""
    X = usual(base, np.random.default_rng(123), TRAINING)
    return FusedDetector(["gmm", "histogram", "knn"], random_state=0).fit(X)


def measure(task: Task) -> list[Record]:
    """One watcher on one stream: records of its numbers."""
    watcher, base, change, seed = task
    fused, given = detector(base), stream(base, change, seed)
    began = monotonic()
    if watcher == OURS:
        numbers: dict[str, Host] = {OURS: lpfuse_numbers(fused, given, seed)}
    else:
        found = PEERS[watcher](*standardised(fused, given))
        numbers = found if isinstance(found, dict) else {watcher: found}
    seconds = round(monotonic() - began, 3)
    about = {"base": base, "change": change, "seed": seed, "seconds": seconds}
    return [{"watcher": name, **about, **kept(each, change)} for name, each in numbers.items()]


def run(tasks: Iterable[Task], jobs: int, limit: float | None = None) -> Iterator[list[Record]]:
    """Measure tasks, some at a time; none begins after `limit` seconds."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    began = monotonic()

    def in_time(task: Task) -> list[Record]:
        return [] if limit and monotonic() - began > limit else measure(task)

    found: Any = Parallel(jobs, return_as="generator_unordered")(
        delayed(in_time)(task) for task in tasks
    )
    for i, records in enumerate(found):
        if i % 50 == 0:
            print(f"{i} streams, {monotonic() - began:.0f} s", file=sys.stderr)
        yield records
