"""What every source of data ends in."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays.operations import Host
from lpfuse._validation.params import quoted

FOLDER_VARIABLE = "LPFUSE_DATA"


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Rows of a data set, and which of them are normal.

    Parameters
    ----------
    name : str
        What the set is called.
    X : ndarray of shape (n, d)
        Features; NaN where a value is missing.
    y : ndarray of shape (n,)
        +1 normal, −1 anomaly.
    feature_names : tuple of d str
        What the columns are called.
    source : str
        Where the rows came from: "local folder", "scikit-learn", "OpenML", or a file's name.

    Examples
    --------
    >>> import numpy as np
    >>> from research.common.datasets import Dataset
    >>> Dataset("tiny", np.array([[0.0], [9.0]]), np.array([1, -1]), ("x",), "a notebook")
    Dataset('tiny': 2 rows, 1 of them normal, 1 features, from a notebook)
    """

    name: str
    X: Host
    y: NDArray[np.int_]
    feature_names: tuple[str, ...]
    source: str

    def __repr__(self) -> str:
        return f"Dataset({self.name!r}: {counts_in_words(*self.counts)}, from {self.source})"

    @property
    def counts(self) -> tuple[int, int, int]:
        """Number of rows, of normal rows, and of features."""
        return len(self.y), int((self.y == 1).sum()), self.X.shape[1]


def counts_in_words(samples: int, normals: int, features: int) -> str:
    """What `Dataset.counts` counts, for messages."""
    return f"{samples} rows, {normals} of them normal, {features} features"


def checked_dataset(
    name: str, X: Any, y: NDArray[np.int_], features: Iterable[str], source: str
) -> Dataset:
    """A data set without infinity; gaps may stay."""
    rows, names = np.ascontiguousarray(X, dtype=np.float64), tuple(map(str, features))
    infinite = [names[j] for j in np.flatnonzero(np.isinf(rows).any(axis=0))]
    if infinite:
        raise ValueError(
            f"{name} ({source}) holds infinity, which is no measurement, in {quoted(infinite)}. "
            "Put a number there, or leave the cell empty where the value is missing."
        )
    return Dataset(name, rows, y, names, source)


def local_folder(data_home: str | os.PathLike[str] | None) -> Path | None:
    """The folder that the user named, here or in the environment; None where none is named."""
    named = data_home if data_home is not None else os.environ.get(FOLDER_VARIABLE)
    if not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        who = "data_home" if data_home is not None else FOLDER_VARIABLE
        raise FileNotFoundError(
            f"{who} names {str(folder)!r}, which is no folder. Name one that holds uci/*.csv or "
            "anomaly/*.npz, or leave it out."
        )
    return folder
