"""The streams, played and stored: curves of losses and of AUC, a row for each stream and seed."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

from lpfuse._arrays.operations import Host
from research.common.machine import environment
from research.common.measure import finished
from research.common.store import Cell, Record, RecordStore, read_records
from research.studies.regret.strategies import METHODS, Played, play
from research.studies.regret.streams import START, STREAMS, Stream, make_stream

ASKED = ("kind", "stream", "drift", "seed")
PACKAGES = ("lpfuse", "numpy", "scipy", "scikit-learn")
BLOCKS = 19  # of 200 rows each
# Seed 0 was looked at while the method was made; what is told comes from the others.
FIRST_SEED, SEEDS = 1, 10


def measure_regret(path: Path, *, seeds: int = SEEDS, jobs: int = 1) -> None:
    """Append the rows that are not stored yet.

    Parameters
    ----------
    path : Path
        Where rows are stored, one a line, as they come.
    seeds, jobs : int
        Streams of each table, and processes.
    """
    store = RecordStore(path, environment(1, PACKAGES), ASKED)
    cells = [Cell(name, FIRST_SEED + seed) for seed in range(seeds) for name in STREAMS]
    missing = [cell for cell in cells if store.find(**asked(cell)) is None]
    for (row,) in finished(partial(_row), missing, jobs):
        store.append(row)
        print(f"{row['stream']}, seed {row['seed']}", file=sys.stderr)


def asked(cell: Cell) -> Record:
    """What a stored row is known by."""
    return {
        "kind": "regret", "stream": cell.set, "drift": STREAMS[cell.set], "seed": cell.seed,
    }  # fmt: skip


def _row(cell: Cell) -> list[Record]:
    stream = make_stream(cell.set, cell.seed)
    return [{**asked(cell), **curves_of(stream, play(stream))}]


def curves_of(stream: Stream, played: Played) -> Record:
    """Sums of losses at the ends of blocks, and the AUC in each, of every method.

    Losses are those of the labelled rows of a block, AUCs of all of its rows.
    """
    y = stream.labels[START:]
    blocks = np.array_split(np.arange(len(y)), BLOCKS)
    told = np.cumsum(stream.told[START:])
    ends = [int(told[block[-1]]) for block in blocks]
    return {
        "labelled": ends[-1],
        "anomalies": int((stream.labels[START:][stream.told[START:]] < 0).sum()),
        "losses": {
            name: np.append(0.0, np.cumsum(played.losses[name]))[ends].round(4).tolist()
            for name in METHODS
        },
        "labels_at": ends,
        "aucs": {
            name: [_auc(y[block], played.scores[name][block]) for block in blocks]
            for name in METHODS
        },
        "bounds": {name: round(bound, 4) for name, bound in played.bounds.items()},
        "gap": played.gap,
        "seconds": round(played.seconds, 7),
    }


def _auc(labels: Host, scores: Host) -> float | None:
    """In per cent; None where there is one class."""
    if len(np.unique(labels)) < 2:
        return None
    return round(100 * float(roc_auc_score(labels, scores)), 3)


def read_regret(paths: Iterable[Path]) -> list[Record]:
    """The rows of these files, the latest of each stream and seed."""
    return [row for row in read_records(paths, ASKED) if row["kind"] == "regret"]
