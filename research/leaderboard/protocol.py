"""The protocol of the leaderboard, all of it.

A **table** is a file ``NAME.npz`` of a folder, with ``X`` (rows of numbers, NaN where missing) and
``y`` (1 = anomaly), as ADBench has them.

A **split** (`split_table`, mode "seen") draws three quarters of the normal rows, at most 1,200, to
learn from; half of the anomalies may be labelled; the rest, at most 600, and the other normal rows
are the test. Features become z-scores of the training rows, at most 10 off.

A **track** is a number of labelled anomalies, the first ones of those that may be labelled. A
method sees the training rows, which are known to be normal, and these; nothing else, and no test
row. It answers with scores of the test rows, high = normal.

The **measure** is the area under the ROC curve of the test, in per cent, mean over three splits. A
table counts where all methods of its track were measured.

Methods are as their packages ship them: no tuning, by nobody, ours included.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

from research.common.machine import environment
from research.common.store import Cell, Record, RecordStore
from research.leaderboard.methods import method_named
from research.studies.running import append_missing, installed, title
from research.studies.tables.splits import split_table

TRACKS = (0, 20)  # labelled anomalies
SEEDS = (0, 1, 2)
ASKED = ("table", "seed", "labels", "method")  # the rest of a row is what came out
PACKAGES = (
    "lpfuse",
    "numpy",
    "scipy",
    "scikit-learn",
    "pyod",
    "catboost",
    "lightgbm",
    "xgboost-cpu",
)


def measure(folder: Path, names: Sequence[str], out: Path, *, jobs: int = 1) -> None:
    """Append the rows of these methods that are not stored yet, on all tables of a folder."""
    tables = sorted(path.stem for path in folder.glob("*.npz"))
    if not tables:
        raise FileNotFoundError(f"{folder} holds no table NAME.npz with X and y.")
    methods = installed({name: method_named(name) for name in names})
    questions = [(k, name) for name, each in methods.items() for k in TRACKS if each.answers(k)]
    store = RecordStore(out, environment(1, PACKAGES), ASKED)
    cells = [Cell(table, seed) for table in tables for seed in SEEDS]
    missing = {
        cell: [asked for asked in questions if store.find(**_asked(cell, *asked)) is None]
        for cell in cells
    }
    append_missing(store, missing, partial(_rows, folder, missing), jobs=jobs)


def _asked(cell: Cell, labels: int, method: str) -> Record:
    return {"table": cell.set, "seed": cell.seed, "labels": labels, "method": title(method)}


def _rows(folder: Path, missing: dict[Cell, list[tuple[int, str]]], cell: Cell) -> list[Record]:
    with np.load(folder / f"{cell.set}.npz", allow_pickle=False) as arrays:
        X, is_anomaly = arrays["X"].astype(np.float64), arrays["y"].ravel() == 1
    return list(_answers(X, is_anomaly, cell, missing[cell]))


def _answers(
    X: np.ndarray, is_anomaly: np.ndarray, cell: Cell, questions: list[tuple[int, str]]
) -> Iterator[Record]:
    parts = split_table(X, is_anomaly, cell.seed, "seen")
    if parts is None:  # fewer than five anomalies to label, or to look for
        return
    test, is_normal = (
        np.concatenate([parts.test, parts.sought]),
        np.repeat([1, 0], [len(parts.test), len(parts.sought)]),
    )
    for labels, name in questions:
        row = {"kind": "auc", **_asked(cell, labels, name)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd widths, tied scores: the figures tell
            try:
                start = time.process_time()
                score = method_named(name).learn(parts.training(labels), cell.seed)
                seconds = time.process_time() - start
                auc = 100 * float(roc_auc_score(is_normal, score(test)))
                yield {**row, "auc": round(auc, 3), "seconds": round(seconds, 3)}
            except Exception as error:  # whatever a package raises: the other methods go on
                yield {**row, "failed": f"{type(error).__name__}: {error}"}
