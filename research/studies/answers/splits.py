"""Training rows that hold anomalies nobody knows of, and the sets that they are drawn from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays.operations import Host
from research.common.datasets import anomaly_names, load_anomaly
from research.common.splits import clipped_z_scores, shuffled
from research.studies.tables.splits import FIRST_SEED, load_rows, table_key, table_names

CollectionName = Literal["anomaly", "tables"]

# The sizes of the protocol that the goals are told in; none of them is ours to choose.
MOST_NORMALS, MOST_ANOMALIES = 1600, 600  # drawn from a set
TRAINING_SHARE = 0.5  # of the normal rows
MOST_HIDDEN_SHARE = 0.5  # of the anomalies: the others are sought


# ------------------------------------------------------------------------------------------- sets


class Collection(NamedTuple):
    """Where sets come from, and what stored rows call them."""

    names: Callable[[], list[str]]
    load: Callable[[str], tuple[Host, NDArray[np.bool_]]]
    key: Callable[[str], str]

    def some(self, most: int | None = None) -> list[str]:
        """Names of so many sets, drawn evenly, in the order of their files."""
        names = sorted(self.names(), key=lambda name: f"{name}.npz")
        count = len(names) if most is None else min(most, len(names))
        return [
            names[i] for i in np.unique(np.linspace(0, len(names) - 1, count).round().astype(int))
        ]


def _load_anomaly(name: str) -> tuple[Host, NDArray[np.bool_]]:
    data = load_anomaly(name)
    return data.X, data.y == -1


COLLECTIONS: dict[CollectionName, Collection] = {
    "anomaly": Collection(anomaly_names, _load_anomaly, str),
    "tables": Collection(table_names, load_rows, table_key),  # tables are never named
}


# ----------------------------------------------------------------------------------------- splits


class DirtySplit(NamedTuple):
    """Rows to learn from, some of them anomalies, and rows to test on.

    Features are z-scores of the training rows, hidden anomalies included, at most 10 off.

    Attributes
    ----------
    rows : ndarray of shape (n, d)
        Training rows in random order.
    test, sought : ndarray
        Normal rows and anomalies of the test.
    truth : ndarray of shape (n,)
        What a person who looks at a training row would answer: +1 normal, −1 anomaly.
    rng : Generator
        Draws the rows that are asked about at random: the same for every method.
    """

    rows: Host
    test: Host
    sought: Host
    truth: NDArray[np.int_]
    rng: np.random.Generator


def dirty_split(X: Host, is_anomaly: NDArray[Any], seed: int, rate: float) -> DirtySplit:
    """Divide a set at random and hide anomalies, a share `rate` of the training rows.

    There are fewer where half of the anomalies do not suffice.

    Examples
    --------
    >>> X, is_anomaly = np.random.default_rng(0).normal(size=(120, 2)), np.arange(120) >= 100
    >>> parts = dirty_split(X, is_anomaly, 0, 0.1)
    >>> [len(rows) for rows in (parts.rows, parts.test, parts.sought)], int((parts.truth < 0).sum())
    ([56, 50, 14], 6)
    """
    rng = np.random.default_rng(FIRST_SEED + seed)
    normals, anomalies = shuffled(is_anomaly, rng)
    normals, anomalies = normals[:MOST_NORMALS], anomalies[:MOST_ANOMALIES]
    train, test = np.split(normals, [int(TRAINING_SHARE * len(normals))])
    wanted = round(rate / (1 - rate) * len(train))
    hidden, sought = np.split(anomalies, [min(wanted, int(MOST_HIDDEN_SHARE * len(anomalies)))])
    order = rng.permutation(len(train) + len(hidden))
    mixed = np.concatenate([train, hidden])[order]
    truth = np.where(is_anomaly[mixed], -1, 1)
    return DirtySplit(*clipped_z_scores(X, mixed, test, sought), truth, rng)
