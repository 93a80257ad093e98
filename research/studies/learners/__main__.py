"""Measure learners on the development sets, store the results, show them as tables."""

from __future__ import annotations

import argparse
import json
import platform
import warnings
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from lpfuse.detectors import KernelWidthWarning
from research.studies.defaults.data import read_sets

from . import approximation, approximation_tables, study, tables

PACKAGES = ("lpfuse", "numpy", "scipy", "scikit-learn")
STUDIES = ("learners", "approximation")

Measure = Callable[[str, np.ndarray, np.ndarray, int], Iterable[study.Record]]


def main() -> None:
    parser = argparse.ArgumentParser("python -m research.studies.learners", description=__doc__)
    parser.add_argument("studies", nargs="*", default=STUDIES, help=" or ".join(STUDIES))
    parser.add_argument("--seeds", type=int, help="random splits of each set (default: 3 and 2)")
    parser.add_argument("--out", type=Path, default=Path("research/results/studies"))
    parser.add_argument("--show", action="store_true", help="tables from the stored results only")
    options = parser.parse_args()
    if not set(options.studies) <= set(STUDIES):
        parser.error(f"the studies are {' and '.join(STUDIES)}, got {' '.join(options.studies)}")
    for name in options.studies:
        path = options.out / f"{name}.jsonl"
        if not options.show:
            measure(name, path, options.seeds)
        print(show(name, path), end="\n\n")


def show(name: str, path: Path) -> str:
    if name == "learners":
        warned = f"Widths that come with a warning\n\n{tables.warnings_table(path)}"
        return f"{tables.report(tables.read_aucs(path))}\n\n{warned}"
    return approximation_tables.report(approximation_tables.read_records(path))


def measure(name: str, path: Path, seeds: int | None) -> None:
    # Widths are varied on purpose, and so is the number of components of a mixture or a k-means.
    for category in (KernelWidthWarning, ConvergenceWarning):
        warnings.simplefilter("ignore", category)
    if name == "learners":
        store(path, study.header(), lambda *cell: [study.record_of(*cell)], seeds or 3)
    else:
        store(path, approximation.header(), approximation.records_of, seeds or 2)


def store(path: Path, header: dict[str, Any], records_of: Measure, seeds: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    versions = {name: version(name) for name in PACKAGES}
    unfinished = path.with_suffix(".part")  # so that a run that stops early loses no results
    with unfinished.open("w") as file:
        environment = {"versions": versions, "python": platform.python_version()}
        print(json.dumps(environment | header), file=file)
        for name, X, is_anomaly in read_sets():
            for seed in range(seeds):
                for record in records_of(name, X, is_anomaly, seed):
                    print(json.dumps(record), file=file, flush=True)
    unfinished.replace(path)


if __name__ == "__main__":
    main()
