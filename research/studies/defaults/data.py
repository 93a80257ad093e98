"""The development sets, read where `LPFUSE_DATA` points, and their random splits."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from research.common.datasets import UCI, anomaly_names, load_anomaly, load_uci, uci_file

TRAIN_SHARE = 0.7
MOST_TRAIN, MOST_TEST = 600, 750  # rows: of training normals, of each class in the test


@dataclass(frozen=True)
class Split:
    """Standardised features: three parts that share no row of the set."""

    train: np.ndarray  # normal
    known: np.ndarray  # anomalies that may be labelled, in the order in which they are
    test_normal: np.ndarray
    test_anomaly: np.ndarray


def read_sets() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Name, features and ``is_anomaly`` of each set, in a fixed order."""
    if not os.environ.get("LPFUSE_DATA"):
        raise SystemExit("Set LPFUSE_DATA to the folder that holds anomaly/*.npz and uci/*.csv.")
    for name in anomaly_names():
        data = load_anomaly(name)
        yield name, data.X, data.y == -1
    for name in filter(uci_file, UCI):
        data = load_uci(name)
        yield Path(UCI[name].file).stem, data.X, data.y == -1  # as the stored results call them


def split(X: np.ndarray, is_anomaly: np.ndarray, seed: int) -> Split:
    """Normals 70/30 for training and test; anomalies half to be known, half for the test."""
    rng = np.random.default_rng(seed)
    normal = rng.permutation(np.flatnonzero(~is_anomaly))
    anomaly = rng.permutation(np.flatnonzero(is_anomaly))
    cut, half = int(TRAIN_SHARE * len(normal)), len(anomaly) // 2
    train = normal[:cut][:MOST_TRAIN]
    prepare = make_pipeline(SimpleImputer(strategy="median"), StandardScaler()).fit(X[train])
    rows = train, anomaly[:half], normal[cut:][:MOST_TEST], anomaly[half:][:MOST_TEST]
    return Split(*(prepare.transform(X[part]) for part in rows))
