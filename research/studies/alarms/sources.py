"""Where a repetition's rows come from: a made-up family, or a real table that is never named."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays.operations import Host
from research.common.splits import shuffled
from research.studies.alarms.families import FAMILIES, Trained
from research.studies.tables.splits import FIRST_SEED, load_rows, table_key, table_names

FRESH = 2000  # normal rows that alarms are counted on: 5 % of them to half a point
FEWEST_FRESH = 500  # of a table, or it has nothing to say at this size
SOUGHT = 500  # anomalies that hits are counted on
FAR_ONES = 20  # anomalies among the rows that false discoveries are counted on
SHIFT, FAR_SHIFT = 3.0, 6.0  # of anomalies, in every column and either direction
TABLES = "tables"  # the family of the real tables


@dataclass(frozen=True)
class Cell:
    """One place of the grid.

    Attributes
    ----------
    family : str
        One of `FAMILIES`, or "tables".
    n : int
        Normal rows to learn from.
    labels : int
        Labelled anomalies beside them.
    """

    family: str
    n: int
    labels: int

    @property
    def key(self) -> str:
        """What options call it."""
        return f"{self.family}:{self.n}:{self.labels}"


@dataclass(frozen=True)
class Rows:
    """What one repetition learns from and is measured on.

    Attributes
    ----------
    train : Trained
        Normal rows, and their groups where the detector is told.
    labelled : ndarray
        Anomalies to learn from; may be empty.
    fresh : ndarray
        Normal rows that nothing has seen.
    sought, far : ndarray
        Anomalies; for false discoveries, more distant ones.
    about : dict
        What else a stored row says of its source.
    """

    train: Trained
    labelled: Host
    fresh: Host
    sought: Host
    far: Host
    about: dict[str, str]

    @property
    def X(self) -> Host:
        """All training rows, anomalies last."""
        return np.concatenate([self.train.rows, self.labelled])

    @property
    def y(self) -> NDArray[np.int_] | None:
        """Labels as `fit` takes them; None without anomalies."""
        if not len(self.labelled):
            return None
        return np.repeat([1, -1], [len(self.train.rows), len(self.labelled)])

    @property
    def groups(self) -> NDArray[np.int_] | None:
        """Groups of all training rows: an anomaly is one of its own."""
        if self.train.groups is None:
            return None
        last = int(self.train.groups.max())
        return np.append(self.train.groups, last + 1 + np.arange(len(self.labelled)))


def rows_of(cell: Cell, rep: int, tables: int) -> Rows:
    """The rows of one repetition: the same for every version of the library."""
    if cell.family == TABLES:
        return _of_table(cell, tables_for(cell.n, tables)[rep])
    rng = np.random.default_rng([crc32(cell.family.encode()), cell.n, cell.labels, rep])
    family = FAMILIES[cell.family]

    def shifted(count: int, by: float) -> Host:
        rows = family.draw(rng, count)
        return rows + by * rng.choice([-1, 1], size=rows.shape)

    return Rows(
        family.training(rng, cell.n),
        shifted(cell.labels, SHIFT),
        family.draw(rng, FRESH),
        shifted(SOUGHT, SHIFT),
        shifted(FAR_ONES, FAR_SHIFT),
        {},
    )


def _of_table(cell: Cell, name: str) -> Rows:
    """A table divided at random; its anomalies are real, and as far as they are."""
    X, is_anomaly = load_rows(name)
    normals, anomalies = shuffled(is_anomaly, FIRST_SEED)
    labelled, others = np.split(anomalies, [cell.labels])
    return Rows(
        Trained(X[normals[: cell.n]]),
        X[labelled],
        X[normals[cell.n :][:FRESH]],
        X[others[:SOUGHT]],
        X[others[:FAR_ONES]],
        {"table": table_key(name)},
    )


def tables_for(n: int, most: int) -> list[str]:
    """Names of so many tables that leave enough fresh rows.

    In the order of their keys, which is as good as random: the first few are a fair draw, and stay
    the first when more are asked for.
    """
    names = [name for name, normals in _normal_rows().items() if normals >= n + FEWEST_FRESH]
    return sorted(names, key=table_key)[:most]


@cache
def _normal_rows() -> dict[str, int]:
    """Table → its normal rows."""
    return {name: int((~load_rows(name)[1]).sum()) for name in table_names()}
