"""Cells (set, seed) of a study: measured once, stored as JSON lines, kept when a run stops."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed

from research.studies.defaults.data import read_sets

Record = dict[str, Any]


def read_records(path: Path) -> list[Record]:
    """Stored records; lines that are about the run, not about a set, are left out."""
    lines = map(json.loads, path.read_text().splitlines())
    return [line for line in lines if "set" in line]


def measure(
    cell: Callable[..., list[Record]],
    path: Path,
    seeds: int,
    jobs: int,
    header: Record | None = None,
) -> None:
    """Append the records of every cell that is not stored yet; `header` opens a new file."""
    is_new = not path.exists()
    done = set() if is_new else {(r["set"], r["seed"]) for r in read_records(path)}
    cells = (
        delayed(cell)(name, X, is_anomaly, seed)
        for seed in range(seeds)
        for name, X, is_anomaly in read_sets()
        if (name, seed) not in done
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        if is_new and header is not None:
            print(json.dumps(header), file=file)
        for records in Parallel(n_jobs=jobs, return_as="generator_unordered")(cells):
            file.writelines(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records)
            file.flush()  # whole cells, so that a run that stops early loses none
