"""The tables of a local folder, the half that each belongs to, and how their rows are split.

The files (``tables/NAME.npz`` below the folder that ``LPFUSE_DATA`` names) are for measuring only:
what is stored calls a table by `table_key`, and pages show figures over many tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from lpfuse._arrays.operations import Host
from research.common.datasets.base import FOLDER_VARIABLE, local_folder
from research.common.splits import clipped_z_scores, shuffled

Mode = Literal["seen", "unseen", "contaminated"]
Half = Literal["choose", "confirm"]
Rows = NDArray[np.int_]  # numbers of rows of a table
MODES: tuple[Mode, ...] = ("seen", "unseen", "contaminated")
HALVES: tuple[Half, ...] = ("choose", "confirm")
LABELS = (0, 5, 20, 100)  # labelled anomalies

# The sizes of the protocol that the goals are told in; none of them is ours to choose.
FIRST_SEED = 1000  # of the generator that draws the first split
MOST_NORMALS, MOST_ANOMALIES = 2400, 1600  # drawn from a table
TRAINING_SHARE, MOST_TRAINING = 0.75, 1200  # of the normal rows
MOST_SOUGHT = 600  # anomalies of the test
FEWEST_ANOMALIES = 5  # on either side, or the table has nothing to say in this mode
HIDDEN_SHARE = 0.05  # of the training rows, in the mode "contaminated"


# ----------------------------------------------------------------------------------------- tables


def table_folder() -> Path:
    """Where the tables are.

    Raises
    ------
    FileNotFoundError
        Where there are none.
    """
    folder = local_folder(None)
    if folder is None or not any(folder.glob("tables/*.npz")):
        raise FileNotFoundError(
            f"There are no tables: set {FOLDER_VARIABLE} to a folder that holds tables/*.npz."
        )
    return folder / "tables"


def table_names() -> list[str]:
    """Names of all tables, sorted."""
    return sorted(path.stem for path in table_folder().glob("*.npz"))


def load_rows(name: str) -> tuple[Host, NDArray[np.bool_]]:
    """Features and ``is_anomaly`` of a table."""
    with np.load(table_folder() / f"{name}.npz", allow_pickle=False) as arrays:
        return arrays["X"].astype(np.float64), arrays["y"].ravel() == 1


def table_key(name: str) -> str:
    """What stored rows call a table: it tells tables apart without naming them.

    Examples
    --------
    >>> table_key("ovr-example")
    'd14a49de'
    """
    return sha256(name.encode()).hexdigest()[:8]


def family_of(name: str) -> str:
    """The collection a table is from: what stands before the first hyphen."""
    return name.partition("-")[0]


def source_of(name: str) -> str:
    """What tables of one source have in common: all but a trailing index.

    Examples
    --------
    >>> [source_of(n) for n in ("ovr-batch-31_part-1_i83", "ovr-hills-a2", "odd-Trade")]
    ['ovr-batch-31', 'ovr-hills', 'odd-Trade']
    """
    return re.sub(r"(_part-\d+)?_i\d+$|-[a-z]\d+$", "", name)


def half_of(names: Iterable[str]) -> dict[str, Half]:
    """The half of each table: sources alternate, in the order of their names, in each family.

    Tables of one source stay together, for what is chosen on one would be confirmed by its sister.

    Parameters
    ----------
    names : iterable of str
        Of all tables, in any order: the halves are those of the whole collection.

    Examples
    --------
    >>> half_of(["odd-A", "odd-B", "ovr-c-a1", "ovr-c-a2", "ovr-d"])
    {'odd-A': 'choose', 'odd-B': 'confirm', 'ovr-c-a1': 'choose', 'ovr-c-a2': 'choose',
     'ovr-d': 'confirm'}
    """
    halves: dict[str, Half] = {}
    in_order = sorted(names, key=lambda name: (family_of(name), source_of(name), name))
    for _, family in groupby(in_order, key=family_of):
        for number, (_, tables) in enumerate(groupby(family, key=source_of)):
            halves |= dict.fromkeys(tables, HALVES[number % 2])
    return halves


# ----------------------------------------------------------------------------------------- splits


class Training(NamedTuple):
    """What a method is given."""

    rows: Host
    anomalies: Host  # labelled
    vouched: bool  # whether the rows are known to be normal

    @property
    def X(self) -> Host:
        """All rows, the labelled anomalies last."""
        return np.concatenate([self.rows, self.anomalies])

    @property
    def y(self) -> NDArray[np.int_] | None:
        """As detectors of lpfuse take it: 0 where nobody vouches for a row, None if for none."""
        if not len(self.anomalies) and not self.vouched:
            return None
        return np.repeat([int(self.vouched), -1], [len(self.rows), len(self.anomalies)])


@dataclass(frozen=True, eq=False)
class TableSplit:
    """One division of a table; features are z-scores of the training rows, at most 10 off.

    Attributes
    ----------
    train : ndarray
        Normal rows; in the mode "contaminated", hidden anomalies follow them.
    test, sought : ndarray
        Normal rows and anomalies of the test.
    known : ndarray
        Anomalies that may be labelled, the first ones first.
    mode : str
        What tells `known` from `sought`: chance ("seen", "contaminated") or a cluster ("unseen").
    """

    train: Host
    test: Host
    sought: Host
    known: Host
    mode: Mode

    def training(self, labels: int) -> Training:
        """What a method is given that may ask for so many labels."""
        return Training(self.train, self.known[:labels], self.mode != "contaminated")

    def label_counts(self, asked: Sequence[int]) -> list[int]:
        """Those that differ here: too large a count stands for "all there are", but once.

        With 30 known anomalies, the row of 100 labels has those 30; with 12, the row of 20 has all
        of them and there is none of 100.
        """
        enough = min((k for k in LABELS if k >= len(self.known)), default=max(LABELS))
        return [k for k in asked if k <= len(self.known) or k == enough]


def split_table(X: Host, is_anomaly: NDArray[Any], seed: int, mode: Mode) -> TableSplit | None:
    """Divide a table at random; None where it has too few anomalies of either side.

    Examples
    --------
    >>> import numpy as np
    >>> X, is_anomaly = np.random.default_rng(0).normal(size=(160, 2)), np.arange(160) >= 120
    >>> parts = split_table(X, is_anomaly, 0, "seen")
    >>> [len(rows) for rows in (parts.train, parts.test, parts.known, parts.sought)]
    [90, 30, 20, 20]
    """
    normals, anomalies = shuffled(is_anomaly, FIRST_SEED + seed)
    normals, anomalies = normals[:MOST_NORMALS], anomalies[:MOST_ANOMALIES]
    cut = int(TRAINING_SHARE * len(normals))
    train, test = normals[:cut][:MOST_TRAINING], normals[cut:]
    if mode == "unseen":
        known, sought = _by_cluster(X, train, anomalies)
    else:
        known, sought = np.split(anomalies, [len(anomalies) // 2])
    if mode == "contaminated":
        wanted = round(HIDDEN_SHARE / (1 - HIDDEN_SHARE) * len(train))
        known, hidden = np.split(known, [len(known) - min(wanted, len(known) // 2)])
        train = np.concatenate([train, hidden])
    if min(len(known), len(sought)) < FEWEST_ANOMALIES:
        return None
    z_scores = clipped_z_scores(X, train, test, sought[:MOST_SOUGHT], known[: max(LABELS)])
    return TableSplit(*z_scores, mode)


def _by_cluster(X: Host, train: Rows, anomalies: Rows) -> tuple[Rows, Rows]:
    """The smaller and the larger of two clusters of anomalies."""
    _, z_scores = clipped_z_scores(X, train, anomalies)
    side = KMeans(2, n_init=5, random_state=0).fit_predict(z_scores)
    smaller = side == np.bincount(side, minlength=2).argmin()
    return anomalies[smaller], anomalies[~smaller]
