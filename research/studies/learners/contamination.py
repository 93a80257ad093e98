"""What share of fresh rows lies below the threshold of a learner, beside the share asked for.

``python -m research.studies.learners.contamination`` prints the table of
docs/benchmarks/thresholds.md; rows are made up. ``--offset-from training`` shows the rule
that looks at the training rows' own scores, ``--approximation nystroem`` learners with landmarks.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from lpfuse import SVDD, GMMDetector, KernelPCADetector, OneClassGP
from lpfuse.detectors import ColumnForest, HistogramDetector, KNNDetector
from research.common.tables import markdown

Rows = NDArray[np.float64]
SHARES = (0.01, 0.05, 0.1)
FRESH = 4000  # rows that count alarms; they add 0.5 points to the error of a single fit
CENTRES = np.array([[0, 0, 0, 0], [6, 0, 0, 0], [0, 6, 0, 0], [0, 0, 8, 0]])
SPREADS, PARTS = np.array([1, 0.5, 0.3, 1]), [0.6, 0.25, 0.1, 0.05]


def clusters(rng: np.random.Generator, n: int) -> Rows:
    """Four groups of uneven size and spread."""
    group = rng.choice(4, size=n, p=PARTS)
    return CENTRES[group] + SPREADS[group, None] * rng.normal(size=(n, 4))


def binary(rng: np.random.Generator, n: int) -> Rows:
    """Four columns of 0 and 1: sixteen different rows at most."""
    return (rng.random((n, 4)) < [0.5, 0.3, 0.2, 0.1]).astype(float)


def twice(rng: np.random.Generator, n: int) -> Rows:
    """Gaussian rows, each of which is there twice."""
    return np.repeat(rng.normal(size=(n // 2, 4)), 2, axis=0)


FAMILIES: dict[str, Callable[[np.random.Generator, int], Rows]] = {
    "gaussian": lambda rng, n: rng.normal(size=(n, 4)),
    "t": lambda rng, n: rng.standard_t(2, size=(n, 4)),
    "clusters": clusters,
    "binary": binary,
    "twice": twice,
}


def learners(offset_from: str, approximation: str) -> dict[str, Any]:
    """The seven learners with their defaults, but the scores that were the default of two."""
    rule: dict[str, Any] = {"offset_from": offset_from}
    kernel = {"approximation": approximation, "random_state": 0, **rule}
    return {
        "OneClassGP": OneClassGP(score_type="mean", **kernel),
        "SVDD": SVDD(**kernel),
        "KernelPCADetector": KernelPCADetector(**kernel),
        "GMMDetector": GMMDetector(score_type="mahalanobis", random_state=0, **rule),
        "KNNDetector": KNNDetector(),
        "HistogramDetector": HistogramDetector(),
        "ColumnForest": ColumnForest(random_state=0),
    }


def alarms(detector: Any, family: str, n: int, fits: int) -> Rows:
    """Shares of fresh rows below the threshold, of shape (fits, 3)."""
    draw, found = FAMILIES[family], np.empty((fits, len(SHARES)))
    for seed in range(fits):
        rng = np.random.default_rng([seed, n])
        X, fresh = draw(rng, n), draw(rng, FRESH)
        for j, share in enumerate(SHARES):
            fitted = clone(detector).set_params(contamination=share).fit(X)
            found[seed, j] = (fitted.predict(fresh) == -1).mean()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[60, 300, 2000])
    parser.add_argument("--families", nargs="+", default=list(FAMILIES), choices=list(FAMILIES))
    parser.add_argument("--fits", type=int, default=20)
    parser.add_argument("--offset-from", default="unseen", choices=["unseen", "training"])
    parser.add_argument("--approximation", default="auto", choices=["auto", "nystroem"])
    parser.add_argument("--learners", nargs="+", help="by name; all of them")
    given = parser.parse_args()
    cells = [(n, family) for n in given.rows for family in given.families]
    table = [["learner", *(f"{n}, {family}" for n, family in cells)]]
    for name, detector in learners(given.offset_from, given.approximation).items():
        if given.learners and name not in given.learners:
            continue
        line = [name]
        for n, family in cells:
            found = 100 * alarms(detector, family, n, given.fits)
            error = found.std(axis=0)[-1] / np.sqrt(len(found))
            means = " / ".join(f"{mean:.1f}" for mean in found.mean(axis=0))
            line.append(f"{means} (± {error:.1f})")
        table.append(line)
        print(*line, sep=" | ", flush=True)
    print(markdown(table, numbers=False))


if __name__ == "__main__":
    main()
