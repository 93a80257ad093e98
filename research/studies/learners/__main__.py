"""Measure learners on the development sets, store the results, show them as tables."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from lpfuse.detectors import KernelWidthWarning
from research.common.store import Record, read_rows
from research.studies.running import (
    RESULTS,
    Study,
    load_set,
    measure_study,
    set_names,
    study_parser,
)

from . import approximation, approximation_tables, study, tables

SEEDS = {"learners": 3, "approximation": 2}


def main() -> None:
    parser = study_parser("research.studies.learners", __doc__, seeds=0, out=RESULTS)
    parser.set_defaults(seeds=None)
    parser.add_argument("studies", nargs="*", default=list(SEEDS), help=" or ".join(SEEDS))
    options = parser.parse_args()
    if not set(options.studies) <= set(SEEDS):
        parser.error(f"the studies are {' and '.join(SEEDS)}, got {' '.join(options.studies)}")
    for name in options.studies:
        path = options.out / f"{name}.jsonl"
        if not options.show:
            measure(name, path, options.seeds or SEEDS[name], options.jobs)
        print(show(name, path), end="\n\n")


def show(name: str, path: Path) -> str:
    """All tables of one study."""
    if name == "learners":
        warned = f"Widths that come with a warning\n\n{tables.warnings_table(path)}"
        return f"{tables.report(tables.read_aucs(path))}\n\n{warned}"
    return approximation_tables.report(read_rows(path))


def measure(name: str, path: Path, seeds: int, jobs: int) -> None:
    """Measure what is not stored yet of one study."""
    if name == "learners":
        measure_study(quiet(study.records_of), path, seeds=seeds, jobs=jobs, **study.about())
        return
    names = [name for name in set_names() if approximation.has_enough_rows(load_set(name)[1])]
    measure_study(
        quiet(approximation.records_of),
        path,
        seeds=seeds,
        jobs=jobs,
        names=names,
        **approximation.about(),
    )


def quiet(records_of: Study) -> Study:
    """Widths are varied on purpose, and so is the number of components of a mixture."""

    def records(X: np.ndarray, is_anomaly: np.ndarray, seed: int) -> list[Record]:
        with warnings.catch_warnings():
            for category in (KernelWidthWarning, ConvergenceWarning):
                warnings.simplefilter("ignore", category)
            return list(records_of(X, is_anomaly, seed))

    return records


if __name__ == "__main__":
    main()
