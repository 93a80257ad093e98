"""The streams of a local folder, what controls change in them, and rows with known truth.

``LPFUSE_DATA`` names the folder that holds ``streams/skab/*.npz`` and ``streams/nab/*.npz``: ``X``,
``time`` in seconds, ``fault`` 0 or 1, and ``healthy``, how many rows of the start are known to be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays.operations import Host
from research.common.datasets.base import local_folder

PUMPS, METRICS = "skab", "nab"
COLLECTIONS = (PUMPS, METRICS)
Rng = np.random.Generator


@dataclass(frozen=True)
class StreamRows:
    """Rows in their order.

    Attributes
    ----------
    collection, name : str
        Where they come from.
    X, time : ndarrays of shapes (n, d) and (n,)
        Rows without gaps, and seconds.
    fault : ndarray of shape (n,)
        Whether a row is faulty.
    healthy : int
        Rows of the start that are known to be healthy.
    """

    collection: str
    name: str
    X: Host
    time: Host
    fault: NDArray[np.bool_]
    healthy: int

    @property
    def later(self) -> NDArray[np.bool_]:
        """The faults of the rows after the healthy start."""
        return self.fault[self.healthy :]

    @property
    def calm(self) -> NDArray[np.bool_]:
        """Rows after the healthy start that are normal; of pumps, those before the fault.

        A pump does not come to rest at once when its fault ends.
        """
        found = ~self.later
        if self.collection == PUMPS and self.later.any():
            found[int(np.argmax(self.later)) :] = False
        return found


def stream_names() -> list[tuple[str, str]]:
    """Collection and name of every stream of the local folder."""
    folder = local_folder(None)
    if folder is None or not (folder / "streams").is_dir():
        raise SystemExit("Set LPFUSE_DATA to the folder that holds streams/skab and streams/nab.")
    return [
        (collection, path.stem)
        for collection in COLLECTIONS
        for path in sorted((folder / "streams" / collection).glob("*.npz"))
    ]


def load_stream(collection: str, name: str) -> StreamRows:
    """One stream, without the rows that have a gap."""
    folder = local_folder(None)
    assert folder is not None
    with np.load(folder / "streams" / collection / f"{name}.npz") as held:
        X, healthy = held["X"].astype(np.float64), int(held["healthy"])
        whole = np.isfinite(X).all(axis=1)
        time, fault = held["time"].astype(np.float64), held["fault"].astype(bool)
    n = int(whole[:healthy].sum())
    return StreamRows(collection, name, X[whole], time[whole], fault[whole], n)


# --------------------------------------------------------------------------------------- controls


def shuffled(stream: StreamRows, rng: Rng) -> StreamRows:
    """Shuffle the rows of the start, and those after it, each with its fault."""
    n = stream.healthy
    order = np.concatenate([rng.permutation(n), n + rng.permutation(len(stream.X) - n)])
    return replace(stream, X=stream.X[order], fault=stream.fault[order])


def moved_faults(stream: StreamRows, rng: Rng) -> StreamRows:
    """Tell the faults half of the stream later, those at its end after the start."""
    later = np.roll(stream.later, len(stream.later) // 2)
    return replace(stream, fault=np.concatenate([stream.fault[: stream.healthy], later]))


def noise(stream: StreamRows, rng: Rng) -> StreamRows:
    """Replace the columns by independent noise."""
    return replace(stream, X=rng.normal(size=stream.X.shape))


AS_IT_IS = "as it is"
CHANGES: dict[str, Callable[[StreamRows, Rng], StreamRows]] = {
    AS_IT_IS: lambda stream, rng: stream,
    "rows shuffled": shuffled,
    "faults moved": moved_faults,
    "noise columns": noise,
}


# -------------------------------------------------------------------------------------- simulation

MEMORIES = (0.0, 0.5, 0.9)  # of autoregressive rows: the correlation of a row with the next
DRIFTS = (0.0, 2.0)  # standard deviations from the first row to the last
LEARNT, NEW, WIDTH = 400, 4_000, 3


def simulated(memory: float, drift: float, rng: Rng) -> Host:
    """Normal rows of autoregressive columns with variance 1, which drift at an even pace."""
    rows = rng.normal(size=(LEARNT + NEW, WIDTH))
    for t in range(1, len(rows)):
        rows[t] = memory * rows[t - 1] + np.sqrt(1 - memory**2) * rows[t]
    return rows + drift * np.linspace(0, 1, len(rows))[:, None]
