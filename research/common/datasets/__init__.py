"""Data sets by name or from a file: rows as numbers, +1 for normal and −1 for anomaly.

The ten UCI sets of the paper (``uci``), the development sets of a local folder (``anomaly``) and a
table of one's own (``table``) all come out of `load_dataset` as a `Dataset`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from lpfuse._validation.params import did_you_mean, key
from research.common.datasets.anomaly import anomaly_names, load_anomaly
from research.common.datasets.base import Dataset
from research.common.datasets.table import load_table
from research.common.datasets.uci import ALIASES, UCI, UCISet, load_uci, uci_file

__all__ = [
    "UCI",
    "Dataset",
    "UCISet",
    "anomaly_names",
    "load_anomaly",
    "load_dataset",
    "load_table",
    "load_uci",
    "uci_file",
]


def load_dataset(
    name_or_path: str | os.PathLike[str],
    *,
    data_home: str | os.PathLike[str] | None = None,
    label: str = "label",
    normal: Any = 1,
    download: bool = True,
) -> Dataset:
    """A data set by whatever it is known: one of the paper's, a development set, or a file.

    Parameters
    ----------
    name_or_path : str or path
        The path of a table, if it has a suffix or a folder in it or is no string; otherwise a name
        that `load_uci` knows, or one of `anomaly_names`.
    data_home : path, optional
        The local folder; by default what the environment variable ``LPFUSE_DATA`` names.
    label, normal, download
        As in `load_table` and `load_uci`.

    Returns
    -------
    Dataset
        Rows and labels.

    Examples
    --------
    >>> from research.common.datasets import load_dataset
    >>> load_dataset("D7").X.shape
    (178, 13)
    """
    path = Path(name_or_path)
    if not isinstance(name_or_path, str) or path.suffix or path.name != name_or_path:
        return load_table(path, label=label, normal=normal)
    if key(name_or_path) in ALIASES:
        return load_uci(name_or_path, data_home=data_home, download=download)
    development = anomaly_names(data_home=data_home)
    if key(name_or_path) in map(key, development):
        return load_anomaly(name_or_path, data_home=data_home)
    known = [*UCI, *development]
    raise ValueError(
        f"There is no data set {name_or_path!r}.{did_you_mean(name_or_path, known)} Known are "
        f"{', '.join(known)}, and the path of any .csv or .parquet file."
    )
