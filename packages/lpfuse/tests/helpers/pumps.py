"""A table as people have them: numbers, texts, gaps, names of rows, dates, labels."""

import numpy as np
import polars as pl
from sklearn.base import BaseEstimator

DETECTORS = ["gmm", "kpca"]


def pumps(n=200, seed=0, worn=0.1):
    rng = np.random.default_rng(seed)
    is_worn = rng.random(n) < worn
    bar = rng.normal(2.5, 0.1, n) + is_worn * 0.4
    frame = pl.DataFrame(
        {
            "serial": [f"P-{i:04d}" for i in rng.permutation(n)],
            "bar": bar,
            "flow": 3 * bar + rng.normal(0, 0.2, n) - is_worn,
            "kind": rng.choice(["a", "b", "c"], n),
            "wet": rng.random(n) < 0.3,
            "site": ["north"] * n,
            "when": pl.date_range(pl.date(2020, 1, 1), pl.date(2030, 1, 1), eager=True)[:n],
            "state": np.where(is_worn, "worn", "ok"),
        }
    )
    gaps = pl.Series(rng.random(n) < 0.05)
    return frame.with_columns(bar=pl.when(gaps).then(None).otherwise("bar"))


def score_table(n=300):
    """Scores of three detectors, one of which points the other way, and labels."""
    rng = np.random.default_rng(0)
    fake = rng.random(n) < 0.2
    return pl.DataFrame(
        {
            "file": [f"{i}.png" for i in range(n)],
            "svm": rng.normal(size=n) - 2 * fake,
            "knn": rng.normal(size=n) + 2 * fake,
            "junk": rng.normal(size=n),
            "fake": np.where(fake, "yes", "no"),
        }
    )


def write(frame, path):
    """By the suffix of its name."""
    kinds = {".csv": frame.write_csv, ".parquet": frame.write_parquet, ".arrow": frame.write_ipc}
    kinds[path.suffix](path)
    return path


def read(path):
    kinds = {".csv": pl.read_csv, ".parquet": pl.read_parquet, ".arrow": pl.read_ipc}
    return kinds[path.suffix](path)


class Stranger(BaseEstimator):
    """A detector of a maker whom nobody knows."""

    def fit(self, X, y=None):
        self.centre_ = np.mean(X, axis=0)
        return self

    def score_samples(self, X):
        return -np.abs(X - self.centre_).sum(axis=1)
