"""Rows of pumps for tests of streams."""

import numpy as np
import polars as pl


def rows(n, seed=1, shift=0.0):
    rng = np.random.default_rng(seed)
    bar = rng.normal(2.5, 0.1, n) + shift
    return pl.DataFrame(
        {
            "serial": [f"P-{i:04d}" for i in range(n)],
            "bar": bar.round(4),
            "flow": (3 * bar + rng.normal(0, 0.2, n)).round(4),
            "kind": rng.choice(["a", "b"], n),
        }
    )
