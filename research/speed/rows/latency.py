"""How long one row takes, by the clock on the wall: that is what a caller waits for.

Nothing here imports lpfuse: versions of it are timed here.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any

import numpy as np

from research.common.clock import Samples

from .data import Matrix

WARM_UP = 5  # rows before the clock starts: caches, and what is built at the first call


def latencies(actions: Mapping[str, Callable[[Matrix], Any]], X: Matrix) -> Samples:
    """Seconds of each action on each row by itself, the actions taking turns row by row."""
    for row in _one_by_one(X[:WARM_UP]):
        for action in actions.values():
            action(row)
    samples: Samples = {name: [] for name in actions}
    gc.collect()
    for row in _one_by_one(X):
        for name, action in actions.items():
            start = perf_counter()
            action(row)
            samples[name].append(perf_counter() - start)
    return samples


def _one_by_one(X: Matrix) -> list[Matrix]:
    return [X[i : i + 1] for i in range(len(X))]


def quantiles(samples: Mapping[str, list[float]]) -> dict[str, dict[str, float]]:
    """What is stored of latencies: the median and the 95 % quantile of each."""
    return {
        name: dict(zip(("p50", "p95"), np.quantile(found, [0.5, 0.95]).tolist(), strict=True))
        for name, found in samples.items()
    }
