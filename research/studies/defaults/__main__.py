"""Measure the options on the development sets, store the results, show them as tables."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from research.common.store import Record
from research.studies.running import RESULTS, measure_study, study_parser

from .study import CLIPS, GRID, records_of
from .tables import Option, describe, means_table, paired_table, read_cells

CHOSEN = Option(clip="soft", weighting="plain", p="4/3")


def main() -> None:
    out = RESULTS / "defaults.jsonl"
    options = study_parser("research.studies.defaults", __doc__, seeds=3, out=out).parse_args()
    if not options.show:
        measure_study(_records, options.out, seeds=options.seeds, jobs=options.jobs, p=list(GRID))
    cells = read_cells(options.out)
    print(means_table(cells), end="\n\n")
    print(f"Paired comparison: {describe(CHOSEN)}\n\n{paired_table(cells, CHOSEN, rivals())}")


def rivals() -> list[Option]:
    """The references, and all that differ from the chosen option in one respect."""
    references = [*(Option(clip, "sum") for clip in CLIPS), Option(CHOSEN.clip, "picked")]
    variants = [
        *(CHOSEN._replace(p=p) for p in GRID),
        *(CHOSEN._replace(clip=clip) for clip in CLIPS),
        *(CHOSEN._replace(weighting=name) for name in ("intercept", "balanced", "nonnegative")),
    ]
    return references + [option for option in variants if option != CHOSEN]


def _records(X: np.ndarray, is_anomaly: np.ndarray, seed: int) -> list[Record]:
    # Mixtures and hostile scalings may stop early; each record keeps the gap that was reached.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return list(records_of(X, is_anomaly, seed))


if __name__ == "__main__":
    main()
