"""Measure every rival on the development sets, store the results, write the page and the plot.

A run goes on where it stopped: cells (set, seed) that are stored are not measured again.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from joblib import Parallel, delayed

from benchmarks.defaults.data import read_sets

from .plot import draw
from .study import Record, records_of
from .tables import page, read_records

PAGE = Path("docs/benchmarks/rivals.md")
PLOT = Path("docs/benchmarks/rivals.png")


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.rivals", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="random splits of each set")
    parser.add_argument("--jobs", type=int, default=1, help="cells measured at a time")
    parser.add_argument("--out", type=Path, default=Path("docs/results/rivals.jsonl"))
    parser.add_argument(
        "--show", action="store_true", help="page and plot from stored results only"
    )
    options = parser.parse_args()
    if not options.show:
        measure(options.out, options.seeds, options.jobs)
    records = read_records(options.out)
    PAGE.write_text(f"{page(records)}\n![Critical differences]({PLOT.name})\n")
    draw(records, PLOT)
    print(page(records))


def measure(path: Path, seeds: int, jobs: int) -> None:
    stored = read_records(path) if path.exists() else []
    done = {(record["set"], record["seed"]) for record in stored}
    cells = (
        delayed(_cell)(name, X, is_anomaly, seed)
        for seed in range(seeds)
        for name, X, is_anomaly in read_sets()
        if (name, seed) not in done
    )
    with path.open("a") as file:
        for records in Parallel(n_jobs=jobs, return_as="generator_unordered")(cells):
            file.writelines(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records)
            file.flush()  # whole cells, so that a run that stops early loses none


def _cell(*cell: object) -> list[Record]:
    return list(records_of(*cell))  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
