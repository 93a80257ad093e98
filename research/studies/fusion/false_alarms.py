"""False alarms of FusedDetector() on fresh normal rows, against the rate that was asked for.

``python -m research.studies.fusion.false_alarms`` prints the table of docs/false-alarms.md:
per cent at 5 % and at 10 %, mean over repetitions, each with other rows to learn from; beside it,
what out-of-fold scores as they are would have given.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed

from lpfuse import FusedDetector
from lpfuse.threshold import conformal_offset
from research.common.tables import markdown
from research.studies.running import load_set, set_names

RATES = (0.05, 0.1)
FRESH = 1000


class Case(NamedTuple):
    rows: str  # a development set, or Gaussian rows of so many columns
    n: int
    labels: int


CASES = (
    Case("Gaussian, 3", 100, 0), Case("Gaussian, 3", 300, 0), Case("Gaussian, 3", 300, 10),
    Case("Gaussian, 8", 300, 0), Case("PageBlocks", 300, 0), Case("PageBlocks", 300, 10),
    Case("Waveform", 100, 0), Case("Waveform", 300, 0),
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser("python -m research.studies.fusion.false_alarms")
    parser.add_argument("--repetitions", type=int, default=96)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    names = {case.rows for case in CASES} & set(set_names())
    data = {
        name: (X[~is_anomaly], X[is_anomaly])
        for name in names
        for X, is_anomaly in [load_set(name)]
    }
    tasks = list(product(CASES, range(options.repetitions)))
    found = Parallel(n_jobs=options.jobs)(
        delayed(alarms)(draw(case, data, seed), seed) for case, seed in tasks
    )
    rows = [["rows, columns", "n", "labels", "continued", "as they are"]]
    for case in CASES:
        some = [value for task, value in zip(tasks, found, strict=True) if task[0] == case]
        cells = [" / ".join(f"{value:.1f}" for value in pair) for pair in np.mean(some, axis=0)]
        rows.append([case.rows, str(case.n), str(case.labels), *cells])
    print(markdown(rows, numbers=False))


def draw(
    case: Case, data: dict[str, tuple[np.ndarray, np.ndarray]], seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Normal rows and anomalies to learn from, and fresh normal rows."""
    rng = np.random.default_rng(1000 * seed + case.n + case.labels)
    if case.rows in data:
        normal, anomalies = data[case.rows]
        order = rng.permutation(len(normal))
        learnt, fresh = normal[order[: case.n]], normal[order[case.n :][:FRESH]]
        return learnt, anomalies[rng.permutation(len(anomalies))[: case.labels]], fresh
    d = int(case.rows.split()[-1])
    learnt, fresh = rng.normal(size=(case.n, d)), rng.normal(size=(FRESH, d))
    return learnt, rng.normal(2.0, 1.0, size=(case.labels, d)), fresh


def alarms(rows: tuple[np.ndarray, np.ndarray, np.ndarray], seed: int) -> list[list[float]]:
    """Per cent of fresh rows below the thresholds: continued to all rows, and as they are."""
    normal, anomalies, fresh = rows
    y = np.repeat([1, -1], [len(normal), len(anomalies)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rows: widths, neighbours
        fused = FusedDetector(random_state=seed).fit(np.concatenate([normal, anomalies]), y)
        scores = fused.score_samples(fresh)
        held_out = fused.held_out_
        references = [
            held_out.normal_scores(),
            replace(held_out, extrapolation=0.0).normal_scores(),
        ]
        return [
            [100 * float((scores < conformal_offset(known, rate)).mean()) for rate in RATES]
            for known in references
        ]


if __name__ == "__main__":
    main()
