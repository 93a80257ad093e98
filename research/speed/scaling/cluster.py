"""Fits over Dask workers: one, two and four processes, on the same rows and on rows in proportion.

A table is drawn once, block by block, into Parquet files and NumPy files with the same rows; every
fit reads the first blocks of it. Workers have one thread each and a memory limit; their memory is
the kernel's own mark. What comes back to the driver is counted where it arrives.
"""

from __future__ import annotations

import os
import pickle  # nosec B403 # measures what would be sent, reads nothing
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from distributed import Client, LocalCluster

from lpfuse import LpFusion
from lpfuse.optim import Problem
from research.common.clock import timed
from research.common.judge import Matrix, Vector
from research.common.machine import cpu_name, environment, set_threads, slug
from research.common.memory import highest_since, restart_peak
from research.common.store import Record, RecordStore
from research.speed.solver.problems import NEGATIVE_FRACTION, parse_p

from .scores import Learners

PACKAGES = ("lpfuse", "numpy", "scipy", "dask", "distributed", "pandas", "pyarrow")
# Sizes by hand; the scores of 1e7 rows exceed the memory of a worker.
WORKERS = (1, 2, 4)
FORMS = ("parquet", "array")
GAP, P, R = 1e-8, "4/3", 36
FIXED_ROWS, ROWS_EACH, GOAL_ROWS = 2_000_000, 500_000, 10_000_000
BLOCK_ROWS = 125_000
MEMORY_LIMIT = 2**31  # of a worker: 2 GiB, the goal
TASKS = 2_000  # by hand: enough that starting does not count
COMPARED_ROWS = 1_000_000  # up to here the driver solves the same in memory


class Cell(NamedTuple):
    """One fit."""

    n: int
    workers: int
    form: str


def run(options: Namespace) -> None:
    """Measure what the store does not hold yet."""
    set_threads(1)
    surroundings = environment(1, PACKAGES, device=cpu_name(), memory_limit=MEMORY_LIMIT)
    store = RecordStore(options.out / f"dask-{slug(cpu_name())}.jsonl", surroundings)
    for setting in options.setting:
        campaign = Campaign(options, setting, store)
        pending = [cell for cell in cells(options) if campaign.is_pending(cell)]
        if pending:
            with TemporaryDirectory(dir=options.folder) as folder:
                campaign.run(pending, Path(folder))
    print(f"stored in {store.path}")


def cells(options: Namespace) -> list[Cell]:
    """Strong scaling (rows fixed), weak scaling (rows in proportion), and the goal."""
    sizes = [(options.rows, k) for k in options.workers]
    sizes += [(options.rows_each * k, k) for k in options.workers]
    found = [Cell(n, k, form) for n, k in dict.fromkeys(sizes) for form in FORMS]
    goal = Cell(options.goal_rows, max(options.workers), "parquet")
    return sorted([*found, goal] if options.goal_rows else found, key=lambda cell: cell.workers)


class Campaign:
    """All fits of one setting, pure or with negatives."""

    def __init__(self, options: Namespace, setting: str, store: RecordStore) -> None:
        self.options, self.setting, self.store = options, setting, store

    def asked(self, cell: Cell) -> Record:
        return {
            "kind": "dask-fit", **cell._asdict(), "R": R, "setting": self.setting, "p": P,
            "gap": GAP, "seed": self.options.seed, "threads": 1, "device": cpu_name(),
        }  # fmt: skip

    def is_pending(self, cell: Cell) -> bool:
        return self.options.redo or self.store.find(**self.asked(cell)) is None

    def run(self, pending: list[Cell], folder: Path) -> None:
        table = Table(folder, self.setting, self.options.block_rows)
        table.write(pending, self.options.seed)
        for workers in self.options.workers:
            chosen = [cell for cell in pending if cell.workers == workers]
            if chosen:
                with cluster_of(workers, folder) as client:
                    self.tasks(workers)
                    for cell in chosen:
                        self.record(cell, self.fit(client, table, cell))

    def tasks(self, workers: int) -> None:
        """What the scheduler spends on a task that does nothing."""
        count = self.options.tasks
        work = [dask.delayed(abs, pure=False)(k) for k in range(count)]
        dask.compute(work[:100])
        samples = [timed(lambda: dask.compute(work))[0] / count for _ in range(3)]
        asked = {"kind": "dask-task", "n": count, "workers": workers, "device": cpu_name()}
        self.store.append({**asked, "status": "finished", "seconds": median(samples)})

    def fit(self, client: Counting, table: Table, cell: Cell) -> Record:
        """One untimed fit of a single block, then the repeats; memory is that of all repeats."""
        fusion = LpFusion(parse_p(P), tol=GAP)
        fusion.fit(*table.read(cell.form, 1))
        S, y = table.read(cell.form, cell.n)
        client.run(restart_peak)
        client.start_counting()
        repeats = 1 if cell.n >= self.options.goal_rows else self.options.repeats
        samples = [timed(lambda: fusion.fit(S, y))[0] for _ in range(repeats)]
        proof = fusion.certificate_
        found = {
            "status": "finished", "seconds": median(samples), "samples": samples,
            "passes": proof.passes, "relative_gap": proof.relative_gap,
            "score_bytes": 8 * cell.n * R, "blocks": table.blocks_of(cell.n),
            "reductions": client.arrivals / repeats, "bytes_back": client.arrived / repeats,
            "worker_bytes": list(client.run(highest_since).values()),
            "weights": fusion.weights_.tolist(),
        }  # fmt: skip
        if cell.n <= COMPARED_ROWS:
            found |= beside_memory(fusion, *table.in_memory(cell.n))
        return found

    def record(self, cell: Cell, found: Record) -> None:
        record = {**self.asked(cell), **found}
        self.store.append(record)
        print(describe(record), flush=True)


class Table:
    """Scores on disk, in numbered blocks, each in both forms."""

    def __init__(self, folder: Path, setting: str, block_rows: int) -> None:
        self.folder, self.setting, self.block_rows = folder, setting, block_rows
        self.names = [f"s{k:02}" for k in range(R)]

    def write(self, cells: list[Cell], seed: int) -> None:
        """As many blocks of each form as its largest cell needs."""
        learners, fraction = Learners.drawn(R, seed), NEGATIVE_FRACTION[self.setting]
        needed = {
            form: max((self.blocks_of(c.n) for c in cells if c.form == form), default=1)
            for form in FORMS
        }
        for k in range(max(needed.values())):
            S, y = learners.block(self.block_rows, fraction, np.random.default_rng([seed, k]))
            if k < needed["parquet"]:
                columns = dict(zip(self.names, S.T, strict=True))
                pq.write_table(pa.table({**columns, "y": y.astype(np.int8)}), self.parquet(k))
            if k < needed["array"]:
                np.save(self.numpy("S", k), S)
                np.save(self.numpy("y", k), y)
        os.sync()  # or the system writes while fits are timed

    def read(self, form: str, n: int) -> tuple[Any, Any]:
        """The first n rows, rounded up to whole blocks: Dask collections of S and y (or None)."""
        blocks = range(self.blocks_of(n))
        if form == "parquet":
            frame = dd.read_parquet([str(self.parquet(k)) for k in blocks])
            S, y = frame[self.names], frame["y"]
        else:
            S = da.concatenate([self._array("S", k, (self.block_rows, R)) for k in blocks])
            y = da.concatenate([self._array("y", k, (self.block_rows,)) for k in blocks])
        return S, y if self.setting == "negatives" else None

    def in_memory(self, n: int) -> tuple[Matrix, Vector | None]:
        """The same rows as NumPy arrays."""
        tables = [pq.read_table(self.parquet(k)) for k in range(self.blocks_of(n))]
        S = np.concatenate([np.column_stack([t[name] for name in self.names]) for t in tables])
        y = np.concatenate([np.asarray(t["y"], dtype=np.float64) for t in tables])
        return S, y if self.setting == "negatives" else None

    def blocks_of(self, n: int) -> int:
        return -(-n // self.block_rows)

    def parquet(self, k: int) -> Path:
        return self.folder / f"part-{k:04}.parquet"

    def numpy(self, name: str, k: int) -> Path:
        return self.folder / f"{name}-{k:04}.npy"

    def _array(self, name: str, k: int, shape: tuple[int, ...]) -> da.Array:
        return da.from_delayed(dask.delayed(np.load)(self.numpy(name, k)), shape, np.float64)


class Counting(Client):
    """A client that counts the bytes of the results that arrive, as they are sent."""

    arrived = 0
    arrivals = 0

    def start_counting(self) -> None:
        self.arrived = self.arrivals = 0

    def gather(self, *arguments: Any, **options: Any) -> Any:
        result = super().gather(*arguments, **options)
        self.arrived += len(pickle.dumps(result, protocol=5))
        self.arrivals += 1
        return result


@contextmanager
def cluster_of(workers: int, folder: Path) -> Iterator[Counting]:
    """A fresh cluster of processes with one thread each."""
    with (
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            memory_limit=MEMORY_LIMIT,
            dashboard_address=":0",
            local_directory=str(folder),
        ) as cluster,
        Counting(cluster) as client,
    ):
        yield client


def beside_memory(fusion: LpFusion, S: Matrix, y: Vector | None) -> Record:
    """How far the weights are from those of a solve in memory, and from the bound it proves."""
    inside = LpFusion(fusion.p, tol=fusion.tol).fit(S, y)
    value = Problem(S, y, p=fusion.p).value(fusion.weights_)
    bound = inside.certificate_.dual
    return {
        "weights_apart": float(np.abs(fusion.weights_ - inside.weights_).max()),
        "gap_in_memory": (value - bound) / max(value, 1e-3 * len(S)),
    }


def describe(record: Record) -> str:
    """One line a record, for whoever watches."""
    parts = [record["form"], f"{record['n']}×{record['R']}", record["setting"]]
    parts.append(f"{record['workers']} workers  {record['seconds']:.2f} s")
    parts.append(f"{record['passes']:.1f} passes in {record['reductions']:.0f} reductions")
    parts.append(f"gap {record['relative_gap']:.1e}")
    parts.append(f"{record['bytes_back'] / 2**20:.1f} MiB back")
    peaks = [peak for peak in record["worker_bytes"] if peak is not None]
    if peaks:
        parts.append(f"workers ≤ {max(peaks) / 2**20:.0f} MiB")
    if "gap_in_memory" in record:
        parts.append(f"in memory: gap {record['gap_in_memory']:.1e}")
        parts.append(f"weights {record['weights_apart']:.1e} apart")
    return "  ".join(parts)
