"""Methods × sets × seeds: a row for each point of each protocol, measured once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from research.common.machine import environment
from research.common.store import Cell, Record, RecordStore, read_records
from research.studies.answers.methods import method_named
from research.studies.answers.protocols import POINTS, ProtocolName, Question, answer, questions_for
from research.studies.answers.splits import COLLECTIONS, CollectionName
from research.studies.running import append_missing, installed, title

# The rest of a row is what came out.
ASKED = ("kind", "collection", "set", "seed", "mode", "at", "method")
PACKAGES = (
    "lpfuse", "numpy", "scipy", "scikit-learn", "pyod", "xgboost-cpu", "coniferest",
)  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """What to measure.

    Attributes
    ----------
    protocol : {"dirty", "answers", "contaminated"}
        What methods are given.
    methods : tuple of str
        Names of `methods.METHODS`, or ``[TITLE=]module:function``.
    collection : {"anomaly", "tables"}
        Which sets.
    most : int, optional
        So many of them, drawn evenly.
    seeds : int
        Random splits of each set.
    modes : tuple of str, optional
        Only questions that are chosen in these ways.
    """

    protocol: ProtocolName
    methods: tuple[str, ...]
    collection: CollectionName = "anomaly"
    most: int | None = None
    seeds: int = 1
    modes: tuple[str, ...] = ()

    def questions(self) -> list[Question]:
        """Of one split; a method whose package is missing is left out with a word."""
        methods = installed({name: method_named(name) for name in self.methods})
        asked = [q for n, m in methods.items() for q in questions_for(self.protocol, n, m)]
        return [q for q in asked if not self.modes or q.mode in self.modes]


def measure_answers(plan: Plan, path: Path, *, jobs: int = 1) -> None:
    """Append the rows that are not stored yet; of ``answers``, all points of a run together."""
    store = RecordStore(path, environment(1, PACKAGES), ASKED)
    questions, names = plan.questions(), COLLECTIONS[plan.collection].some(plan.most)
    missing = {
        cell: [q for q in questions if _is_missing(store, plan.collection, cell, q)]
        for cell in (Cell(name, seed) for seed in range(plan.seeds) for name in names)
    }
    append_missing(store, missing, partial(_rows_of, plan.collection, missing), jobs=jobs)


def read_answers(paths: Iterable[Path]) -> list[Record]:
    """The rows of these files, the latest of each question."""
    return [row for row in read_records(paths, ASKED) if row["kind"] in POINTS]


def _asked(collection: CollectionName, cell: Cell, question: Question) -> Record:
    return {
        "kind": question.protocol, "collection": collection,
        "set": COLLECTIONS[collection].key(cell.set), "seed": cell.seed,
        "mode": question.mode, "method": title(question.method),
    }  # fmt: skip


def _is_missing(
    store: RecordStore, collection: CollectionName, cell: Cell, question: Question
) -> bool:
    asked = _asked(collection, cell, question)
    return any(store.find(**asked, at=at) is None for at in question.at)


def _rows_of(
    collection: CollectionName, missing: dict[Cell, list[Question]], cell: Cell
) -> list[Record]:
    """What is missing of one set and seed."""
    X, is_anomaly = COLLECTIONS[collection].load(cell.set)
    rows: list[Record] = []
    for question in missing[cell]:
        asked = _asked(collection, cell, question)
        method = method_named(question.method)
        try:
            found = list(answer(question, method, X, is_anomaly, cell.seed))
        except Exception as error:  # whatever a package raises: the other methods go on
            rows.append({**asked, "failed": f"{type(error).__name__}: {error}"})
            continue
        rows += [{**asked, "at": at, **came_out} for at, came_out in found]
    return rows
