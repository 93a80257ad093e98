"""Measure pools, experts and rules on the development sets, store the results, show tables.

A run goes on where it stopped: cells (set, seed) that are stored are not measured again.
"""

from __future__ import annotations

import argparse
import json
import platform
import warnings
from importlib.metadata import version
from pathlib import Path

from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning

from benchmarks.defaults.data import read_sets

from .study import Record, records_of
from .tables import read_records, report

PACKAGES = ("lpfuse", "numpy", "scipy", "scikit-learn")


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.fusion", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="random splits of each set")
    parser.add_argument("--jobs", type=int, default=1, help="cells measured at a time")
    parser.add_argument("--out", type=Path, default=Path("docs/results/fusion.jsonl"))
    parser.add_argument("--show", action="store_true", help="tables from the stored results only")
    options = parser.parse_args()
    if not options.show:
        measure(options.out, options.seeds, options.jobs)
    print(report(read_records(options.out)))


def measure(path: Path, seeds: int, jobs: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    stored = read_records(path) if path.exists() else []
    done = {(record["set"], record["seed"]) for record in stored}
    with path.open("a") as file:
        if not done:
            versions = {name: version(name) for name in PACKAGES}
            print(
                json.dumps({"versions": versions, "python": platform.python_version()}), file=file
            )
        cells = (
            delayed(_cell)(name, X, is_anomaly, seed)
            for seed in range(seeds)
            for name, X, is_anomaly in read_sets()
            if (name, seed) not in done
        )
        for records in Parallel(n_jobs=jobs, return_as="generator_unordered")(cells):
            file.writelines(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records)
            file.flush()  # whole cells, so that a run that stops early loses none


def _cell(*cell: object) -> list[Record]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # mixtures; records keep the gaps
        warnings.filterwarnings("ignore", "The best weights are zero")  # of some rules; AUC 50
        return list(records_of(*cell))  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
