"""Measure pools, experts and rules on the development sets, store the results, show tables.

A run goes on where it stopped: cells (set, seed) that are stored are not measured again.
"""

from __future__ import annotations

import argparse
import platform
import warnings
from importlib.metadata import version
from pathlib import Path

from sklearn.exceptions import ConvergenceWarning

from research.studies.cells import measure, read_records

from .study import Record, records_of
from .tables import report

PACKAGES = ("lpfuse", "numpy", "scipy", "scikit-learn")


def main() -> None:
    parser = argparse.ArgumentParser("python -m research.studies.fusion", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="random splits of each set")
    parser.add_argument("--jobs", type=int, default=1, help="cells measured at a time")
    parser.add_argument("--out", type=Path, default=Path("research/results/studies/fusion.jsonl"))
    parser.add_argument("--show", action="store_true", help="tables from the stored results only")
    options = parser.parse_args()
    if not options.show:
        versions = {name: version(name) for name in PACKAGES}
        header = {"versions": versions, "python": platform.python_version()}
        measure(_cell, options.out, options.seeds, options.jobs, header)
    print(report(read_records(options.out)))


def _cell(*cell: object) -> list[Record]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # mixtures; records keep the gaps
        warnings.filterwarnings("ignore", "The best weights are zero")  # of some rules; AUC 50
        return list(records_of(*cell))  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
