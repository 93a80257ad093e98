"""PyOD's detectors that score a row by its batch, here by the training rows and that row alone.

``decision_function`` of ECOD, COPOD, COF, SOD, CD and ROD compares the rows of a batch with each
other. Each function below returns what it gives for the last row of ``[training rows, x]``, one x
at a time, from what `learn_reference` keeps. Scores are those of PyOD, high for anomalies.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.neighbors import NearestNeighbors

from lpfuse._arrays.operations import Host

Reference = dict[str, Host]
# Training rows that a row is joined to where each costs a pass of PyOD over all. Chosen by hand.
MOST_ROWS = 1_000


def learn_reference(detector: Any, rows: Host) -> Reference:
    """Return what is kept of the training rows."""
    name = _name(detector)
    if name in ("ECOD", "COPOD"):
        return {"marginals": np.sort(rows, axis=0)}
    if name in ("COF", "SOD"):
        distances, neighbours = _neighbours(detector).fit(rows).kneighbors()
        return {"rows": rows, "neighbours": neighbours, "reach": distances[:, -1]}
    if name == "CD":
        some = np.linspace(0, len(rows) - 1, min(len(rows), MOST_ROWS)).astype(np.intp)
        return {"rows": rows[some]}
    return {"rows": rows}


def score_joined(detector: Any, X: Host, reference: Reference) -> Host:
    """Score each row as the last one of a batch that holds the training rows and this row."""
    return SCORERS[_name(detector)](detector, X, **reference)


def _name(detector: Any) -> str:
    return type(detector).__name__


def _neighbours(detector: Any) -> NearestNeighbors:
    """Return the neighbours that COF (Euclidean) or SOD (by its parameters) asks for."""
    if hasattr(detector, "n_neighbors_"):
        return NearestNeighbors(n_neighbors=detector.n_neighbors_)
    names = ("n_neighbors", "metric", "p", "metric_params")
    return NearestNeighbors(**{name: getattr(detector, name) for name in names})


def _tails(detector: Any, X: Host, marginals: Host) -> Host:
    r"""ECOD and COPOD, from the shares of rows below and above in each column.

    .. math:: l = -\log \frac{1 + \#\{i : x_i \le x\}}{n + 1}, \quad
              r = -\log \frac{1 + \#\{i : x_i \ge x\}}{n + 1}

    By the sign of the skewness of the n + 1 values a column counts r (positive), l (negative) or
    l + r; ECOD takes the maximum of this, l and r, COPOD of this and (l + r) / 2.
    """
    n = len(marginals)
    columns = list(zip(marginals.T, X.T, strict=True))
    below = np.transpose([np.searchsorted(known, new, "right") for known, new in columns])
    above = n - np.transpose([np.searchsorted(known, new, "left") for known, new in columns])
    left, right = -np.log((1 + below) / (n + 1)), -np.log((1 + above) / (n + 1))
    skew = _skewness_signs(marginals, X)
    skewed = np.where(skew > 0, right, np.where(skew < 0, left, left + right))
    is_ecod = _name(detector) == "ECOD"
    plain = np.maximum(left, right) if is_ecod else (left + right) / 2
    return np.maximum(skewed, plain).sum(axis=1)


def _skewness_signs(known: Host, X: Host) -> Host:
    """Return the sign of the skewness of ``[known, x]`` by column, 0 where it is constant."""
    n, mean = len(known), known.mean(axis=0)
    second, third = ((known - mean) ** 2).sum(axis=0), ((known - mean) ** 3).sum(axis=0)
    step = X - mean
    variance = (second + step**2 * n / (n + 1)) / (n + 1)
    moment = third + step**3 * n * (n - 1) / (n + 1) ** 2 - 3 * step * second / (n + 1)
    level = np.finfo(np.float64).eps * (mean + step / (n + 1))
    return np.where(variance <= level**2, 0.0, np.sign(moment))


def _cof(detector: Any, X: Host, rows: Host, neighbours: Any, reach: Host) -> Host:
    """COF, of the row, its neighbours and theirs alone: it depends on no others."""
    nearest = _neighbours(detector).fit(rows).kneighbors(X, return_distance=False)
    parts = [rows[np.unique([*some, *neighbours[some].ravel()])] for some in nearest]
    return _last_scores(detector, parts, X)


def _last_scores(detector: Any, parts: list[Host], X: Host) -> Host:
    batches = (np.vstack([part, x]) for part, x in zip(parts, X, strict=True))
    return np.array([detector.decision_function(batch)[-1] for batch in batches])


def _sod(detector: Any, X: Host, rows: Host, neighbours: Any, reach: Host) -> Host:
    """SOD; of rows with as many shared neighbours the nearer ones are taken."""
    n, k = neighbours.shape
    search = _neighbours(detector).set_params(algorithm="brute").fit(rows)
    scores = np.zeros(len(X))
    for i, (distances, order) in enumerate(zip(*search.kneighbors(X, n_neighbors=n), strict=True)):
        lists = neighbours[order].copy()
        lists[distances < reach[order], -1] = n  # the row itself is among their neighbours
        shared = np.isin(lists, order[:k]).sum(axis=1)
        alike = rows[order[np.argsort(-shared, kind="stable")[: detector.ref_set]]]
        variances = alike.var(axis=0)
        narrow = variances < detector.alpha * variances.mean()
        if narrow.any():
            scores[i] = np.sqrt(((X[i] - alike.mean(axis=0)) ** 2)[narrow].mean())
    return scores


def _cook(detector: Any, X: Host, rows: Host) -> Host:
    """Cook's distance, on the scale from the smallest to the largest of all these rows."""
    return _last_scores(detector, [rows] * len(X), X)


def _rod(detector: Any, X: Host, rows: Host) -> Host:
    """ROD: deviations over their median, which is that of the training rows and the row."""
    n, both = len(rows), np.vstack([rows, X])
    both = np.pad(both, ((0, 0), (0, max(0, 3 - both.shape[1]))))
    states = (detector.gm_, detector.median_, detector.angles_scaler1_, detector.angles_scaler2_)
    if both.shape[1] == 3:
        return _deviations(both, n, *states)
    scaled = detector.data_scaler_.transform(both)
    subspaces = [scaled[:, list(some)] for some in combinations(range(scaled.shape[1]), 3)]
    found = [_deviations(some, n, *each) for some, *each in zip(subspaces, *states, strict=True)]
    return (1 / (1 + np.exp(-np.nan_to_num(found)))).mean(axis=0)


def _deviations(both: Host, n: int, *state: Any) -> Host:
    deviations = import_module("pyod.models.rod").rod_3D(both, *state)[0]  # up to a factor
    known, new = np.sort(deviations[:n]), deviations[n:]
    middle = n // 2
    if n % 2:
        between = np.clip(new, known[middle - 1], known[middle + 1])
        return 0.6745 * new / ((known[middle] + between) / 2)
    return 0.6745 * new / np.clip(new, known[middle - 1], known[middle])


SCORERS: dict[str, Callable[..., Host]] = {
    "ECOD": _tails,
    "COPOD": _tails,
    "COF": _cof,
    "SOD": _sod,
    "CD": _cook,
    "ROD": _rod,
}
