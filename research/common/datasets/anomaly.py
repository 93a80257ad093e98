"""The development sets of a local folder: files of NumPy, as ADBench has them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from lpfuse._validation.params import did_you_mean, key
from research.common.datasets.base import FOLDER_VARIABLE, Dataset, checked_dataset, local_folder


def anomaly_names(*, data_home: str | os.PathLike[str] | None = None) -> list[str]:
    """Names of the development sets in the local folder, sorted; none without a folder.

    Parameters
    ----------
    data_home : path, optional
        The local folder; by default what the environment variable ``LPFUSE_DATA`` names.

    Returns
    -------
    list of str
        What `load_anomaly` can load: the files ``anomaly/NAME.npz``.

    Examples
    --------
    >>> import tempfile
    >>> from research.common.datasets import anomaly_names
    >>> with tempfile.TemporaryDirectory() as empty:
    ...     anomaly_names(data_home=empty)
    []
    """
    folder = local_folder(data_home)
    return [] if folder is None else sorted(path.stem for path in folder.glob("anomaly/*.npz"))


def load_anomaly(name: str, *, data_home: str | os.PathLike[str] | None = None) -> Dataset:
    """A development set of the local folder: a file ``anomaly/NAME.npz``, as ADBench has them.

    Parameters
    ----------
    name : str
        One of `anomaly_names`; case, spaces, hyphens and underscores do not matter.
    data_home : path, optional
        The local folder; by default what the environment variable ``LPFUSE_DATA`` names. A file
        holds ``X`` of shape (n, d) and ``y`` of shape (n,), 1 for anomalies and 0 for normal rows.

    Returns
    -------
    Dataset
        Rows, and labels that are +1 for normal and −1 for anomaly as everywhere else.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from research.common.datasets import load_anomaly
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     (Path(folder) / "anomaly").mkdir()
    ...     np.savez(Path(folder) / "anomaly" / "tiny.npz", X=[[0.1], [0.2], [9.0]], y=[0, 0, 1])
    ...     load_anomaly("tiny", data_home=folder).y
    array([ 1,  1, -1])
    """
    folder = local_folder(data_home)
    if folder is None:
        raise FileNotFoundError(
            f"The data set {name!r} lies in a local folder, and none was named: give data_home, or "
            f"set {FOLDER_VARIABLE}, to a folder that holds anomaly/{name}.npz."
        )
    found = {key(known): known for known in anomaly_names(data_home=folder)}
    if key(name) not in found:
        raise FileNotFoundError(
            f"There is no {folder / 'anomaly' / f'{name}.npz'}."
            f"{did_you_mean(name, found.values())} Found there: "
            f"{', '.join(found.values()) or 'no .npz file'}."
        )
    return _read_npz(folder / "anomaly" / f"{found[key(name)]}.npz")


def _read_npz(path: Path) -> Dataset:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            X, is_anomaly = arrays["X"].astype(np.float64), arrays["y"]
        if X.ndim != 2 or is_anomaly.shape != X.shape[:1]:
            raise ValueError(f"X has shape {X.shape}, y has shape {is_anomaly.shape}")
        if not np.isin(is_anomaly, (0, 1)).all():
            raise ValueError("y holds something else")
    except Exception as error:  # a damaged archive raises whatever its damage leads to
        raise ValueError(
            f"{path} is not an archive of NumPy with X of shape (n, d) and y of shape (n,), 1 for "
            f"anomalies and 0 for normal rows ({type(error).__name__}: {error}). Replace the file."
        ) from error
    y = np.where(is_anomaly == 1, -1, 1)
    return checked_dataset(path.stem, X, y, (f"x{j}" for j in range(X.shape[1])), "local folder")
