"""What a fit on a cluster would take, on paper, from what fits on Dask took here.

A fit of n rows by k workers takes

    t  =  fixed  +  passes · (between + max(work, storage, scheduling))

- work: bytes of S over k times what one worker reads and reduces in a second;
- storage: bytes of S over what the machines can fetch together;
- scheduling: tasks times what Dask spends on each;
- between: the driver fetches the undecided rows and solves for them, as it would a table of so many
  rows in memory;
- fixed: what is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from research.common.store import Record

from .growth import PowerLaw

TASKS_A_BLOCK = 2.0  # it is read and reduced
BLOCK_BYTES = 2**27  # assumed: 128 MiB
FETCH_RATE = 1.25e9  # bytes a second that a machine gets from storage: 10 Gbit/s
WORKERS_A_MACHINE = 8  # assumed


@dataclass(frozen=True)
class Model:
    """The measured part: of workers with one core each, reading Parquet."""

    R: int
    fixed: float  # seconds
    rate: float  # bytes of S a second and worker
    passes: float  # the most that were needed
    task_seconds: float  # that the scheduler spends on a task with nothing to do
    in_memory: PowerLaw  # seconds of a fit on one thread

    @classmethod
    def fitted(cls, records: Sequence[Record], task_seconds: float, in_memory: PowerLaw) -> Model:
        """By least squares on t = fixed + passes · bytes / (workers · rate)."""
        moved = [r["passes"] * r["score_bytes"] / r["workers"] for r in records]
        seconds = [r["seconds"] for r in records]
        # Relative errors count alike: a long fit is off by more seconds than a short one.
        design = np.column_stack([np.ones(len(moved)), moved]) / np.array(seconds)[:, None]
        (fixed, slope), *_ = np.linalg.lstsq(design, np.ones(len(seconds)))
        return cls(
            R=records[0]["R"],
            fixed=max(float(fixed), 0.0),
            rate=1.0 / float(slope),
            passes=max(r["passes"] for r in records),
            task_seconds=task_seconds,
            in_memory=in_memory,
        )


@dataclass(frozen=True)
class Plan:
    """A fit that was not made."""

    workers: int
    pass_bytes: float  # read in a pass, by all workers
    worker_bytes: float  # by each
    back_bytes: float  # to the driver in a pass, at most
    passes: int
    bounds: dict[str, float]  # seconds a pass, by what would limit it
    between: float
    fixed: float

    @property
    def limit(self) -> str:
        """What a pass waits for."""
        return max(self.bounds, key=self.bounds.__getitem__)

    @property
    def pass_seconds(self) -> float:
        return self.bounds[self.limit]

    @property
    def seconds(self) -> float:
        return self.fixed + self.passes * (self.between + self.pass_seconds)


def plan(model: Model, n: float, R: int, number_bytes: int, workers: int) -> Plan:
    """A fit of n rows and R learners in numbers of 8 or 4 bytes."""
    size = float(n) * R * number_bytes
    machines = -(-workers // WORKERS_A_MACHINE)
    bounds = {
        "work": size / (workers * model.rate),
        "storage": size / (machines * FETCH_RATE),
        "scheduling": size / BLOCK_BYTES * TASKS_A_BLOCK * model.task_seconds,
    }
    rows = undecided(n)
    back = 8.0 * R * rows
    solved = float(model.in_memory.seconds(rows, R)[2][0])  # the upper confidence limit
    return Plan(
        workers=workers,
        pass_bytes=size,
        worker_bytes=size / workers,
        back_bytes=back,
        passes=int(np.ceil(model.passes)),
        bounds=bounds,
        between=solved + back / FETCH_RATE,
        fixed=model.fixed,
    )


def undecided(n: float) -> float:
    """The most rows that a first look keeps of n."""
    return max(60_000.0, 4.0 * n ** (2 / 3))
