"""The campaign: every cell in a process of its own, each finished one stored at once."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

from research.common.clock import ratio
from research.common.isolation import Isolated, Stopped
from research.common.machine import environment, quiet, set_threads
from research.common.store import Record, RecordStore
from research.rivals import detectors as rivals
from research.rivals.detectors._tasks import GridTask, KPCATask, SVDDTask

from .data import Data
from .past_memory import PastMemoryBench
from .races import FitRace
from .scoring import RowsBench

PACKAGES = ("lpfuse", "numpy", "scipy", "scikit-learn", "pyod")


class Cell(NamedTuple):
    """What is asked, and the bench that answers: a class, its arguments and its method."""

    asked: Record
    bench: type
    arguments: tuple[Any, ...]
    method: str
    inputs: tuple[Any, ...]


def run(options: Namespace) -> None:
    """Measure what the store does not hold yet."""
    set_threads(options.threads)
    store = RecordStore(options.out, environment(options.threads, PACKAGES))
    for cell in cells(options):
        asked = {**cell.asked, "seed": options.seed, "threads": options.threads}
        if store.find(**asked) is None or options.redo:
            record = {**asked, **measured(cell, options)}
            store.append(record)
            print(describe(record), flush=True)


def cells(options: Namespace) -> Iterator[Cell]:
    """All of them, the parts in the order of the page."""
    makers = {
        "svdd": svdd_cells,
        "kpca": kpca_cells,
        "grid": grid_cells,
        "score-rows": row_cells,
        "past-memory": past_memory_cells,
    }
    for part in options.parts:
        yield from makers[part](options)


def measured(cell: Cell, options: Namespace) -> Record:
    """What the bench says, or why it did not."""
    with Isolated(quiet, options.threads, cell.bench, *cell.arguments) as bench:
        try:
            return {
                "status": "finished",
                **bench.call(cell.method, *cell.inputs, limit=options.time_limit),
            }
        except Stopped as stop:
            return {"status": stop.reason, "message": str(stop)}


def svdd_cells(options: Namespace) -> Iterator[Cell]:
    for n in sorted(options.svdd_n):
        for d in options.svdd_d:
            for nu, shape in product(options.nu, options.shapes):
                data = Data(n, d, options.seed, shape)
                task = SVDDTask(nu, gamma=1 / d, tol=options.tol)
                yield race_cell("svdd", data, task, {"nu": nu}, options)


def kpca_cells(options: Namespace) -> Iterator[Cell]:
    d, q = options.kpca_d, options.q
    for n in sorted(options.kpca_n):
        for shape in options.shapes:
            data = Data(n, d, options.seed, shape)
            yield race_cell("kpca", data, KPCATask(q, gamma=1 / d), {"q": q}, options)


def grid_cells(options: Namespace) -> Iterator[Cell]:
    task = GridTask(components=tuple(options.components), tol=options.tol)
    for n in sorted(options.grid_n):
        data = Data(n, options.grid_d, options.seed)
        yield race_cell("grid", data, task, {"learners": len(task.members())}, options)


def race_cell(kind: str, data: Data, task: Any, named: Record, options: Namespace) -> Cell:
    """All rivals that are installed, side by side."""
    present = [name for name in rivals.names(kind) if installed(kind, name)]
    asked = asked_of(kind, data, named)
    return Cell(
        asked, FitRace, (kind, present, data, task, options.score_rows), "run", (options.repeats,)
    )


def row_cells(options: Namespace) -> Iterator[Cell]:
    """Times, and memory for as many rows and for a tenth of them."""
    data = Data(options.train_n, options.rows_d, options.seed)
    for learner in options.learners:
        for rows in (options.rows // 10, options.rows):
            named = {"learner": learner, "rows": rows}
            arguments = (learner, data, rows, options.threads)
            if rows == options.rows:
                asked = asked_of("score-rows", data, named)
                yield Cell(asked, RowsBench, arguments, "run", (min(options.repeats, 5),))
            asked = asked_of("score-rows-memory", data, named)
            yield Cell(asked, RowsMemory, arguments, "run", ())


def past_memory_cells(options: Namespace) -> Iterator[Cell]:
    data = Data(options.past_n, options.past_d, options.seed)
    for r in options.n_components:
        for learner in ("SVDD", "OneClassGP", "KernelPCADetector"):
            named = {"learner": learner, "n_components": r}
            arguments = (learner, r, data, options.past_score_rows, options.exact_rows)
            asked = asked_of("past-memory", data, named)
            yield Cell(asked, PastMemoryBench, arguments, "run", ())


class RowsMemory(RowsBench):
    """The memory of a scoring, as a record."""

    def run(self) -> dict[str, Any]:  # type: ignore[override]
        return {"extra_bytes": self.extra_memory(), "row_bytes": self.rows.nbytes}


def asked_of(kind: str, data: Data, named: Record) -> Record:
    """The store knows a record by kind, n, seed, threads and `setting`: the rest in one line."""
    fields = {"d": data.d, "shape": data.shape, **named}
    setting = ", ".join(f"{name}={value}" for name, value in fields.items())
    return {"kind": kind, "n": data.n, "setting": setting, **fields}


def installed(kind: str, name: str) -> bool:
    try:
        rivals.load(kind, name)
    except ImportError as error:
        print(f"{kind}: {name} is left out, {error}")
        return False
    return True


def describe(record: Record) -> str:
    """One line a record, for whoever watches."""
    parts = [record["kind"], f"n={record['n']}", record["setting"], record["status"]]
    if record["status"] != "finished":
        parts.append(record["message"])
    for clock in ("fit_seconds", "score_seconds", "seconds"):
        if isinstance(record.get(clock), dict):
            parts.append(f"{clock}: {_times(record[clock])}")
        elif clock in record:
            parts.append(f"{clock} {record[clock]:.3g}")
    unequal = [name for name, v in record.get("verdicts", {}).items() if not v["equal"]]
    parts += [f"not equal: {', '.join(unequal)}"] if unequal else []
    for field in ("peak_bytes", "extra_bytes"):
        if record.get(field) is not None:
            parts.append(f"{field} {record[field] / 2**20:.0f} MiB")
    return "  ".join(parts)


def _times(samples: dict[str, list[float]]) -> str:
    """The first with its time, the others as ratios to it."""
    if not samples:
        return "none"
    first = next(iter(samples))
    told = [f"{first} {1e3 * sorted(samples[first])[len(samples[first]) // 2]:.3g} ms"]
    told += [f"{name} {ratio(samples, name, first):.3g}×" for name in samples if name != first]
    return ", ".join(told)
