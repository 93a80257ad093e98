"""Raw scores of the default pool on the tables that choose: measured once, learnt from often.

A file a table, below a folder that git ignores, called by `table_key`; a table whose file is there
is not measured again.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpfuse import FusedDetector
from lpfuse._arrays.operations import Host
from lpfuse._files import replacing
from lpfuse.ensemble.defaults import ROBUST
from research.studies.tables.splits import (
    LABELS,
    Mode,
    half_of,
    load_rows,
    split_table,
    table_key,
    table_names,
)

FOLDER = Path("build/prior")
# Tables speak for unseen kinds and for hidden anomalies in turns: all modes would take too long.
TURNS: tuple[tuple[Mode, ...], ...] = (("seen", "unseen"), ("seen", "contaminated"))
# Rows kept of a table, a mode and a number of labels: enough for quartiles, and for pairs.
MOST_NORMAL, MOST_TEST = 600, 250
PARTS = ("names", "normal", "test", "sought")


class RawScores(NamedTuple):
    """Of one table; high = normal, a column a detector."""

    mode: str
    labels: int
    names: NDArray[np.str_]  # (R,)
    normal: Host  # training rows that count as normal, by detectors that have not seen them
    test: Host  # normal rows of the test
    sought: Host  # anomalies of the test


def choosing_tables() -> list[str]:
    """Names of the tables of the choosing half, sorted."""
    halves = half_of(table_names())
    return [name for name in table_names() if halves[name] == "choose"]


def measure_scores(folder: Path = FOLDER, *, jobs: int = 1) -> None:
    """Measure the choosing tables that have no file yet."""
    asked = {name: TURNS[i % len(TURNS)] for i, name in enumerate(choosing_tables())}
    missing = [name for name in asked if not _file(folder, name).exists()]
    with ProcessPoolExecutor(jobs) as pool:
        work = partial(_measure_table, folder)
        for _ in pool.map(work, missing, [asked[name] for name in missing]):
            pass  # an error comes out here


def _measure_table(folder: Path, name: str, modes: Sequence[Mode]) -> None:
    write_scores(_file(folder, name), raw_scores(name, modes))


def raw_scores(
    name: str, modes: Sequence[Mode], counts: Sequence[int] = LABELS, seed: int = 0
) -> list[RawScores]:
    """What the default pool says of one table, for some numbers of labels.

    Robust members, which join where anomalies may hide, are left out: what they weigh is learnt by
    `research.studies.suspicion`.
    """
    found = []
    X, is_anomaly = load_rows(name)
    rng = np.random.default_rng(seed)
    for mode in modes:
        split = split_table(X, is_anomaly, seed, mode)
        for labels in split.label_counts(counts) if split else []:
            if mode == "unseen" and not labels:
                continue  # without labels no kind has been seen
            training = split.training(labels)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fused = FusedDetector(random_state=seed).fit(training.X, training.y)
            kept = ~np.isin(fused.detector_names_, ROBUST)
            names, out_of_fold = np.array(fused.detector_names_)[kept], fused.out_of_fold_
            normal = out_of_fold.scores[out_of_fold.usable & (out_of_fold.labels > 0)]
            some = rng.permutation(len(normal))[:MOST_NORMAL]  # hidden anomalies come last
            parts = (
                normal[some],
                *(fused.detector_scores(rows[:MOST_TEST]) for rows in (split.test, split.sought)),
            )
            found.append(RawScores(mode, labels, names, *(scores[:, kept] for scores in parts)))
    return found


# ------------------------------------------------------------------------------------------ files


def _file(folder: Path, name: str) -> Path:
    return folder / f"{table_key(name)}.npz"


def write_scores(path: Path, found: Sequence[RawScores]) -> None:
    """One table's file, which appears whole or not at all; scores have single precision."""
    arrays = {f"{s.mode}|{s.labels}|{part}": getattr(s, part) for s in found for part in PARTS}
    for key, values in arrays.items():
        arrays[key] = values if key.endswith("names") else np.asarray(values, dtype=np.float32)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        np.savez_compressed(file, **arrays)


def read_scores(folder: Path = FOLDER) -> dict[str, list[RawScores]]:
    """What is stored, by name of the table, in the order of the names."""
    files = {name: _file(folder, name) for name in choosing_tables()}
    found = {name: _read(path) for name, path in files.items() if path.exists()}
    if not any(found.values()):
        raise FileNotFoundError(
            f"There are no scores in {folder}: measure them first "
            "(`python -m research.studies.tables prior measure`)."
        )
    return {name: scores for name, scores in found.items() if scores}


def _read(path: Path) -> list[RawScores]:
    with np.load(path, allow_pickle=False) as arrays:
        asked = dict.fromkeys(tuple(key.split("|")[:2]) for key in arrays.files)
        return [
            RawScores(mode, int(k), *(arrays[f"{mode}|{k}|{part}"] for part in PARTS))
            for mode, k in asked
        ]
