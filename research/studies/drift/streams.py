"""Made-up streams: rows as usual, with one anomaly in fifty, and what may happen to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from lpfuse._arrays.operations import Host
from research.studies.drift.records import CHANGE

WIDTH = 10  # columns
ROWS = 10_000  # of a stream
REFERENCE, TRAINING = 1_000, 2_500
ANOMALIES = 0.02

Rng = np.random.Generator


def gauss(rng: Rng, n: int) -> Host:
    """Normal columns that share two factors."""
    factors = np.linspace(0, 1, 2 * WIDTH).reshape(2, WIDTH)
    rows = rng.normal(size=(n, 2)) @ factors + rng.normal(size=(n, WIDTH))
    return rows / np.sqrt(1 + (factors**2).sum(axis=0))


def mixed(rng: Rng, n: int) -> Host:
    """Heavy tails, counts, ties at zero, skewness and missing cells, as tables have them."""
    rows = gauss(rng, n)
    rows[:, 1] = np.sign(rows[:, 1]) * np.abs(rows[:, 1]) ** 2  # heavy tails
    rows[:, 3] = np.rint(2 * rows[:, 3])  # counts
    rows[:, 5] = np.maximum(rows[:, 5], 0)  # half of it zero
    rows[:, 7] = np.exp(rows[:, 7])
    rows[:, 9][rng.random(n) < 0.1] = np.nan
    return rows


BASES: dict[str, Callable[[Rng, int], Host]] = {"gauss": gauss, "mixed": mixed}


def with_anomalies(rng: Rng, rows: Host, share: float) -> Host:
    """Some rows are four standard deviations off in three columns."""
    rows = rows.copy()
    for i in np.flatnonzero(rng.random(len(rows)) < share):
        rows[i, rng.choice(WIDTH, 3, replace=False)] += 4 * rng.choice([-1, 1], 3)
    return rows


def shift(rng: Rng, rows: Host) -> Host:
    """One column is half a standard deviation higher."""
    rows = rows.copy()
    rows[:, 0] += 0.5
    return rows


def cluster(rng: Rng, rows: Host) -> Host:
    """A fifth of the rows is of a new kind, normal as well: narrow, and off in four columns."""
    rows = rows.copy()
    new = rng.random(len(rows)) < 0.2
    centre = np.zeros(WIDTH)
    centre[[0, 2, 4, 6]] = 1.5, -1.5, 1.5, -1.5
    rows[new] = centre + 0.3 * rng.normal(size=(int(new.sum()), WIDTH))
    return rows


def dead(rng: Rng, rows: Host) -> Host:
    """A sensor repeats a usual value for ever."""
    rows = rows.copy()
    rows[:, 2] = 0.3
    return rows


def doubled(rng: Rng, rows: Host) -> Host:
    """Twice as many anomalies."""
    return with_anomalies(rng, rows, ANOMALIES)


CHANGES: dict[str, Callable[[Rng, Host], Host]] = {
    "shift": shift,
    "cluster": cluster,
    "dead": dead,
    "doubled": doubled,
}


class Stream(NamedTuple):
    """A stream, and rows from before it."""

    reference: Host
    rows: Host


def usual(base: str, rng: Rng, n: int) -> Host:
    """Rows as they come, anomalies among them."""
    return with_anomalies(rng, BASES[base](rng, n), ANOMALIES)


def stream(base: str, change: str | None, seed: int) -> Stream:
    """A stream that changes half way, or not at all."""
    rng = np.random.default_rng([seed, list(BASES).index(base)])
    reference, rows = usual(base, rng, REFERENCE), usual(base, rng, ROWS)
    if change is not None:
        rows[CHANGE:] = CHANGES[change](rng, rows[CHANGE:])
    return Stream(reference, rows)
