"""Kinds of labelled anomalies, and artificial ones: normal rows with noise added."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.preprocessing import StandardScaler
from sklearn.utils import _safe_indexing

from lpfuse._arrays.operations import Host
from lpfuse.ensemble._tables import Index, Table, numeric_columns, replace_numbers

MOST_CLUSTERS = 5  # kinds that clustering tells apart at most; chosen by hand


def number_kinds(
    kind: Any, X: Table, labels: Host, random: np.random.RandomState
) -> NDArray[np.intp] | None:
    """Numbers of the kinds of anomalies, as named by the user or found as clusters.

    Parameters
    ----------
    kind : None, "clusters" or array-like of shape (n,)
        Only what it says of anomalies counts.
    X : table
        The rows; clusters need columns of numbers.
    labels : ndarray of shape (n,)
        −1 marks anomalies.
    random : RandomState
        Starts the clusters.
    """
    if isinstance(kind, str) and kind != "clusters":
        raise ValueError(f'kind must be one name a row, or "clusters"; got {kind!r}.')
    anomalies = np.flatnonzero(labels < 0)
    if kind is None or len(anomalies) == 0:
        return None
    numbers = np.zeros(len(labels), dtype=np.intp)
    if isinstance(kind, str):
        numbers[anomalies] = _clusters(numeric_columns(X), labels, random)
        return numbers
    names = np.asarray(kind)
    numbers[anomalies] = np.unique(names[anomalies].astype(str), return_inverse=True)[1]
    return numbers


def _clusters(X: Host, labels: Host, random: np.random.RandomState) -> NDArray[np.intp]:
    """Clusters of the anomalies, in units of the normal rows' spread."""
    scaler = StandardScaler().fit(X[labels >= 0])
    anomalies = np.nan_to_num(scaler.transform(X[labels < 0]))  # what is missing: the mean
    most = int(np.clip(len(np.unique(anomalies, axis=0)) // 2, 1, MOST_CLUSTERS))
    found: NDArray[np.intp] = KMeans(most, n_init=5, random_state=random).fit_predict(anomalies)
    return found


def jittered_rows(X: Table, rows: Index, random: np.random.RandomState) -> Table:
    """Copies of rows with Gaussian noise, as large as the spread, in every column of numbers.

    Parameters
    ----------
    X : table
        All rows; their spread sets the size of the noise.
    rows : ndarray of positions
        The rows to copy.
    random : RandomState
        Draws the noise.
    """
    numbers = numeric_columns(X)
    spread = np.nanstd(numbers, axis=0)
    noise = spread * random.standard_normal((len(rows), numbers.shape[1]))
    return replace_numbers(_safe_indexing(X, rows, axis=0), numbers[rows] + noise)
