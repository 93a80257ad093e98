"""What fusing costs beside the detectors' own work: ``python -m research.studies.fusion.overhead``.

Everything but fitting detectors and scoring with them counts: folds, checks, scaling, weights (one
more time for each fold), calibration, audits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from lpfuse import FusedDetector
from lpfuse.ensemble import out_of_fold
from lpfuse.ensemble import pool as members

ROWS, COLUMNS, ANOMALIES, REPEATS = 10_000, 10, 20, 3
WORK = ("fit_members", "score_members", "leave_one_out_scores")


class Stopwatch:
    """Sums up the time spent in some functions."""

    def __init__(self) -> None:
        self.spent = 0.0

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **options: Any) -> Any:
            start = perf_counter()
            try:
                return function(*arguments, **options)
            finally:
                self.spent += perf_counter() - start

        return timed


def main() -> None:
    watch = Stopwatch()
    for module in (out_of_fold, members):
        for name in set(WORK) & vars(module).keys():
            setattr(module, name, watch.around(getattr(module, name)))
    rng = np.random.default_rng(0)
    normal = rng.normal(size=(ROWS, COLUMNS))
    anomalies = rng.normal(1.0, 1.5, size=(ANOMALIES, COLUMNS))
    labelled = np.concatenate([normal, anomalies]), np.repeat([1, -1], [ROWS, ANOMALIES])
    for told, data in ((f"{ROWS} rows", (normal,)), (f"with {ANOMALIES} anomalies", labelled)):
        fused = FusedDetector(random_state=0)
        for what, call in (
            ("fit", partial(fused.fit, *data)),
            ("predict", partial(fused.predict, normal)),
        ):
            shares, seconds = zip(*(_measured(call, watch) for _ in range(REPEATS)), strict=True)
            print(f"{told}, {what}: {median(seconds):.1f} s, overhead {median(shares):.1%}")


def _measured(call: Callable[[], Any], watch: Stopwatch) -> tuple[float, float]:
    watch.spent, start = 0.0, perf_counter()
    call()
    whole = perf_counter() - start
    return (whole - watch.spent) / whole, whole


if __name__ == "__main__":
    main()
