"""Ten drifting streams: scores of detectors on rows of real tables in which something changes.

Detectors learn from normal rows of one half of a table; a stream draws its rows, with replacement,
from the other half, and changes on the way: see `DRIFTS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from sklearn.cluster import KMeans

from lpfuse import TwoSidedMinMax
from lpfuse._arrays.operations import Host
from lpfuse.ensemble.components import default_detectors, fit_detectors
from lpfuse.ensemble.pool import Member, Pool
from research.common.datasets import load_anomaly

ROWS = 4000
ANOMALIES = 0.1  # share of the rows of a stream
START = 200  # rows at the beginning whose labels are all known
LABELLED = 0.1  # share of the others whose label is told, at random
MOST_TRAINING = 1000  # normal rows that detectors learn from
REGIMES = 4  # of the drift "members"


class Stream(NamedTuple):
    """Scores, high = normal and on one scale, in the order of time.

    Attributes
    ----------
    scores : ndarray of shape (ROWS, R)
        Of the detectors.
    labels : ndarray of shape (ROWS,)
        +1 normal, −1 anomaly.
    told : ndarray of shape (ROWS,)
        Whether the label is revealed, after the row was scored.
    """

    scores: Host
    labels: Host
    told: Host


class Parts(NamedTuple):
    """Rows of a table to draw a stream from, with the detectors that score them."""

    normal: Host
    anomalous: Host
    pool: Pool
    spread: Host  # of each column, among the rows learnt from


Drift = Callable[[Parts, Host, np.random.Generator], Host]  # parts, labels → raw scores


def _drawn(parts: Parts, labels: Host, rng: np.random.Generator) -> Host:
    """Rows of each class, at random."""
    X = parts.normal[rng.integers(len(parts.normal), size=len(labels))]
    strange = np.flatnonzero(labels < 0)
    X[strange] = parts.anomalous[rng.integers(len(parts.anomalous), size=len(strange))]
    return X


def no_change(parts: Parts, labels: Host, rng: np.random.Generator) -> Host:
    """Nothing changes: what following costs where there is nothing to follow."""
    return parts.pool.scores(_drawn(parts, labels, rng))[0]


def broken_columns(parts: Parts, labels: Host, rng: np.random.Generator) -> Host:
    """From the middle on half of the columns say what other rows said: sensors mixed up."""
    X, half = _drawn(parts, labels, rng), len(labels) // 2
    for column in rng.permutation(X.shape[1])[: X.shape[1] // 2]:
        X[half:, column] = rng.permutation(X[half:, column])
    return parts.pool.scores(X)[0]


def other_kind(parts: Parts, labels: Host, rng: np.random.Generator) -> Host:
    """The anomalies are of one of two clusters, and from the middle on of the other."""
    strange = parts.anomalous / np.where(parts.spread > 0, parts.spread, 1.0)
    seed = int(rng.integers(2**31))
    cluster = KMeans(2, n_init=3, random_state=seed).fit_predict(strange)
    X, late = _drawn(parts, labels, rng), np.arange(len(labels)) >= len(labels) // 2
    for number, when in enumerate((~late, late)):
        rows = np.flatnonzero(when & (labels < 0))
        kind = parts.anomalous[cluster == number]
        X[rows] = kind[rng.integers(len(kind), size=len(rows))]
    return parts.pool.scores(X)[0]


def silent_members(parts: Parts, labels: Host, rng: np.random.Generator) -> Host:
    """In each quarter half of the detectors, drawn anew, say what they said of other rows."""
    raw = parts.pool.scores(_drawn(parts, labels, rng))[0]
    for rows in np.array_split(np.arange(len(labels)), REGIMES):
        for member in rng.permutation(raw.shape[1])[: raw.shape[1] // 2]:
            raw[rows, member] = raw[rng.permutation(rows), member]
    return raw


def slow_shift(parts: Parts, labels: Host, rng: np.random.Generator) -> Host:
    """A third of the columns move away, by two standard deviations at the end."""
    X = _drawn(parts, labels, rng)
    moved = rng.permutation(X.shape[1])[: max(X.shape[1] // 3, 1)]
    way = np.linspace(0.0, 2.0, len(labels))[:, None] * rng.choice([-1, 1], size=len(moved))
    X[:, moved] += way * parts.spread[moved]
    return parts.pool.scores(X)[0]


DRIFTS: dict[str, Drift] = {
    "none": no_change,
    "columns": broken_columns,
    "kinds": other_kind,
    "members": silent_members,
    "shift": slow_shift,
}
# Sets with a thousand rows and a hundred anomalies at least, of twenty; dealt out to the drifts in
# the order of the alphabet.
TABLES = (
    "Cardiotocography", "PageBlocks", "Waveform", "Wilt", "annthyroid", "cardio", "fault",
    "landsat", "satellite", "yeast",
)  # fmt: skip
STREAMS = {name: list(DRIFTS)[i % len(DRIFTS)] for i, name in enumerate(TABLES)}


def make_stream(name: str, seed: int) -> Stream:
    """The stream of a table, the same for every method."""
    data = load_anomaly(name)
    return stream_of(data.X, data.y == -1, STREAMS[name], seed)


def stream_of(X: Host, is_anomaly: Host, drift: str, seed: int, rows: int = ROWS) -> Stream:
    """A stream of rows of a table; at its beginning normal rows set the scale."""
    rng = np.random.default_rng(seed)
    normal = rng.permutation(np.flatnonzero(~is_anomaly))
    learn, rest = np.split(normal, [min(len(normal) // 2, MOST_TRAINING)])
    fitted = fit_detectors(default_detectors(len(learn), 0), X[learn], random_state=seed)
    members = [Member(member, detector) for member, detector, _ in fitted]
    parts = Parts(X[rest], X[is_anomaly], Pool(members, []), X[learn].std(axis=0))
    labels = np.where(rng.random(rows) < ANOMALIES, -1.0, 1.0)
    raw = DRIFTS[drift](parts, labels, rng)
    # On rows that no detector has learnt from, as out-of-fold scores are.
    reference = rng.permutation(len(parts.normal))[:START]
    scaler = TwoSidedMinMax().fit(parts.pool.scores(parts.normal[reference])[0])
    told = (np.arange(rows) < START) | (rng.random(rows) < LABELLED)
    return Stream(np.asarray(scaler.transform(raw)), labels, told)
