"""A shift that is there from the first row on: what reference rows of a column leave open."""

from __future__ import annotations

import numpy as np

from lpfuse.monitor import WatchedStreams, block_sizes
from research.common.store import Record

SIZES, SHIFTS = (50, 400, 2_000, 20_000), (0.1, 0.2, 0.3, 0.4, 0.6, 1.0)
STREAMS, COLUMNS, BATCHES, BATCH, LEVEL = 40, 10, 100, 200, 0.01


def measure() -> list[Record]:
    """For each size and shift, the share of streams of 20,000 rows in which it is found."""
    return [
        {"reference": n, "shift": shift, "found": found_share(n, shift)}
        for n in SIZES
        for shift in SHIFTS
    ]


def found_share(n: int, shift: float) -> float:
    """Of columns as one of ten that share the columns' part of the level."""
    rng = np.random.default_rng(0)
    # Apart, so that each shares the level with nine others.
    watched = [
        WatchedStreams.columns(rng.normal(size=(n, COLUMNS)), [str(j) for j in range(COLUMNS)], k)
        for k in range(STREAMS // COLUMNS)
    ]
    found: set[tuple[int, str]] = set()
    rows = block_sizes(BATCH)
    for start in range(0, BATCHES * BATCH, BATCH):
        for k, streams in enumerate(watched):
            values = rng.normal(size=(BATCH, COLUMNS)) + shift
            drifts = streams.update(streams.count(values, start, rows), rows, LEVEL, start)
            found |= {(k, drift.stream) for drift in drifts}
    return len(found) / STREAMS
