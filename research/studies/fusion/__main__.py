"""Measure pools, experts and rules on the development sets, store the results, show tables.

A run goes on where it stopped: cells (set, seed) that are stored are not measured again.
"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from research.common.store import Record, read_rows
from research.studies.running import RESULTS, measure_study, study_parser

from .study import records_of
from .tables import report


def main() -> None:
    out = RESULTS / "fusion.jsonl"
    options = study_parser("research.studies.fusion", __doc__, seeds=3, out=out).parse_args()
    if not options.show:
        measure_study(_records, options.out, seeds=options.seeds, jobs=options.jobs)
    print(report(read_rows(options.out)))


def _records(X: np.ndarray, is_anomaly: np.ndarray, seed: int) -> list[Record]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # mixtures; records keep the gaps
        warnings.filterwarnings("ignore", "The best weights are zero")  # of some rules; AUC 50
        return list(records_of(X, is_anomaly, seed))


if __name__ == "__main__":
    main()
