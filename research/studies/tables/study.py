"""Methods × tables × splits: a row for each mode and number of labels, measured once."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.metrics import roc_auc_score

from research.common.machine import environment
from research.common.store import Cell, Record, RecordStore
from research.studies.running import append_missing, installed, title
from research.studies.tables.ours import method_named
from research.studies.tables.rivals import Score
from research.studies.tables.splits import (
    LABELS,
    MODES,
    Half,
    Mode,
    TableSplit,
    Training,
    family_of,
    half_of,
    load_rows,
    split_table,
    table_key,
    table_names,
)

ASKED = ("table", "seed", "mode", "labels", "method")  # the rest of a row is what came out
PACKAGES = (
    "lpfuse", "numpy", "scipy", "scikit-learn", "catboost", "lightgbm", "xgboost-cpu", "pyod",
)  # fmt: skip

Question = tuple[Mode, int, str]  # mode, labels, method


class Fitted(NamedTuple):
    """What a method learnt, and how long that took."""

    score: Score
    seconds: float


@dataclass(frozen=True)
class Plan:
    """What to measure.

    Attributes
    ----------
    methods, labels, modes
        Every combination of them, as far as a method has something of its own to say there.
    seeds : int
        Random splits of each table.
    half : {"choose", "confirm", "both"}
        Which tables.
    every : int
        Every so-manieth of them.
    """

    methods: tuple[str, ...]
    labels: tuple[int, ...] = LABELS
    modes: tuple[Mode, ...] = ("seen",)
    seeds: int = 1
    half: Half | str = "both"
    every: int = 1

    def questions(self) -> list[Question]:
        """Of one split; a method whose package is missing is left out with a word."""
        methods = installed({name: method_named(name) for name in self.methods})
        return [
            (mode, labels, name)
            for name, method in methods.items()
            for mode in self.modes
            for labels in self.labels
            if method.answers(labels)
        ]

    def tables(self) -> dict[str, Half]:
        """Names of the tables, and their halves."""
        halves = half_of(table_names())
        chosen = [name for name, half in halves.items() if self.half in (half, "both")]
        return {name: halves[name] for name in chosen[:: self.every]}


def measure_tables(plan: Plan, path: Path, *, jobs: int = 1) -> None:
    """Append the rows that are not stored yet."""
    store = RecordStore(path, environment(1, PACKAGES), ASKED)
    halves, questions = plan.tables(), plan.questions()
    cells = [Cell(name, seed) for seed in range(plan.seeds) for name in halves]
    missing = {
        cell: [q for q in questions if store.find(**_asked(cell, q)) is None] for cell in cells
    }
    append_missing(store, missing, partial(_rows_of, missing, halves), jobs=jobs)


def _asked(cell: Cell, question: Question) -> Record:
    mode, labels, method = question
    return {
        "table": table_key(cell.set), "seed": cell.seed, "mode": mode, "labels": labels,
        "method": title(method),
    }  # fmt: skip


def _rows_of(
    missing: dict[Cell, list[Question]], halves: dict[str, Half], cell: Cell
) -> list[Record]:
    """What is missing of one table and seed."""
    X, is_anomaly = load_rows(cell.set)
    rows: list[Record] = []
    about = {"kind": "auc", "family": family_of(cell.set), "half": halves[cell.set]}
    unlabelled: dict[str, Fitted] = {}  # "seen" and "unseen" train alike without labels: fit once
    for mode in MODES:
        asked = [question for question in missing[cell] if question[0] == mode]
        parts = split_table(X, is_anomaly, cell.seed, mode) if asked else None
        for question in asked if parts else []:
            _, labels, method = question
            if labels not in parts.label_counts(LABELS):
                continue
            fits = unlabelled if labels == 0 and mode != "contaminated" else {}
            try:
                if method not in fits:
                    fits[method] = _fitted(method, parts.training(labels), cell.seed)
                came_out = _measured(fits[method], parts)
            except Exception as error:  # whatever a package raises: the other methods go on
                came_out = {"": {"failed": f"{type(error).__name__}: {error}"}}
            asked_here = {**about, **_asked(cell, question)}
            rows += [
                {**asked_here, "method": title(method) + suffix, **found}
                for suffix, found in came_out.items()
            ]
    return rows


def _fitted(method: str, training: Training, seed: int) -> Fitted:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of odd widths, tied scores: the figures tell
        start = time.process_time()
        score = method_named(method).learn(training, seed)
        return Fitted(score, time.process_time() - start)


def _measured(fitted: Fitted, parts: TableSplit) -> dict[str, Record]:
    """AUC in per cent and seconds of the processor for fitting, by suffix of the method's name."""
    is_normal = np.repeat([1, 0], [len(parts.test), len(parts.sought)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = fitted.score(np.concatenate([parts.test, parts.sought]))
        scores = found if isinstance(found, dict) else {"": found}
    return {
        suffix: {
            "auc": round(100 * float(roc_auc_score(is_normal, values)), 3),
            "seconds": round(fitted.seconds, 3),
        }
        for suffix, values in scores.items()
    }
