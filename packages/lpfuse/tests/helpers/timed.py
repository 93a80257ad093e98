"""A pump whose rows depend on those before them, for tests of rows in time."""

from datetime import datetime, timedelta

import numpy as np
import polars as pl

DETECTORS = ["gmm", "histogram"]


def pump(n, seed=0, seconds=10):
    """Bar and flow wander slowly; dates are written as in Germany."""
    rng = np.random.default_rng(seed)
    shocks = rng.normal(size=(n, 2))
    states = np.zeros((n, 2))
    for t in range(1, n):
        states[t] = 0.8 * states[t - 1] + shocks[t]
    start = datetime(2024, 2, 28, 10)
    when = [start + timedelta(seconds=seconds * t) for t in range(n)]
    return pl.DataFrame(
        {
            "when": [f"{each:%d.%m.%Y %H:%M:%S}" for each in when],
            "bar": (2.5 + 0.1 * states[:, 0]).round(4),
            "flow": (7.0 + 0.3 * states[:, 1]).round(4),
        }
    )
