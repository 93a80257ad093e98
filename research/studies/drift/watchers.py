"""What watchers are given of a stream, and the numbers of ours."""

from __future__ import annotations

import numpy as np

from lpfuse import FusedDetector
from lpfuse._arrays.operations import Host
from lpfuse.monitor import DriftMonitor
from research.studies.drift.streams import Stream

BATCH = 10  # rows that are handed over at a time


def lpfuse_numbers(fused: FusedDetector, given: Stream, seed: int, batch: int = BATCH) -> Host:
    """Decimal logarithms of the evidence over the correction; at the level α the line is 1/α."""
    monitor = DriftMonitor(random_state=seed).fit(fused, given.reference)
    verdicts = fused.verdicts(given.rows)
    found = np.empty(len(given.rows))
    for start in range(0, len(given.rows), batch):
        part = slice(start, start + batch)
        some = type(verdicts)(*(None if each is None else each[part] for each in verdicts))
        status = monitor.update(given.rows[part], some)
        found[part] = max(status.evidence.values())
    return found


def standardised(fused: FusedDetector, given: Stream) -> tuple[Host, Host]:
    """Columns and the fused score of reference and stream, in standard deviations of the former."""
    both = [
        np.column_stack([rows, fused.score_samples(rows)]) for rows in (given.reference, given.rows)
    ]
    mean, deviation = np.nanmean(both[0], axis=0), np.nanstd(both[0], axis=0)
    reference, rows = (np.nan_to_num((each - mean) / deviation, nan=0.0) for each in both)
    return reference, rows
