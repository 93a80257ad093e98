"""Metrics of scores and decisions: the geometric mean of the hit rates, and means over folds.

For the area under the ROC curve see :func:`sklearn.metrics.roc_auc_score`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays.operations import Host, column_ranks
from lpfuse._validation.params import check_labels, check_values

__all__ = ["auc_over_folds", "best_g_mean", "g_mean"]


def auc_of_columns(y: Host, scores: Host) -> Host:
    """Return the area under the ROC curve of each column of scores, ties counting half.

    Parameters
    ----------
    y : ndarray of shape (n,)
        +1 normal, −1 anomaly; both must occur.
    scores : ndarray of shape (n,) or (n, k)
        High = normal.

    Returns
    -------
    ndarray of shape () or (k,)
        From 0 to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse.metrics import auc_of_columns
    >>> auc_of_columns(np.array([1, 1, -1]), np.array([[2.0, 0.0], [1.0, 2.0], [0.0, 1.0]]))
    array([1. , 0.5])
    """
    normal = y > 0
    n, m = normal.sum(), (~normal).sum()
    ranks = column_ranks(scores.reshape(len(y), -1)).reshape(scores.shape)
    found: Host = (ranks[normal].sum(axis=0) - n * (n + 1) / 2) / (n * m)
    return found


def g_mean(y_true: Any, y_pred: Any) -> float:
    r"""Compute the geometric mean of the hit rates on normal rows and on anomalies.

    .. math:: G = \sqrt{\mathrm{TPR} \cdot \mathrm{TNR}}

    where TPR is the share of normal rows predicted as normal, and TNR the share of anomalies
    predicted as anomalies. Unlike accuracy, it is zero if every row is predicted as normal.

    Parameters
    ----------
    y_true : array-like of shape (n,)
        +1 normal, −1 anomaly; both must occur.
    y_pred : array-like of shape (n,)
        Predictions, +1 or −1.

    Returns
    -------
    float
        From 0 to 1, the higher the better.

    Examples
    --------
    >>> from lpfuse.metrics import g_mean
    >>> g_mean([1, -1, -1, -1, -1], [1, -1, 1, 1, 1])  # TPR = 1, TNR = 1/4
    0.5
    """
    predictions = check_values(y_pred, "y_pred")
    is_normal = _require_both_classes(y_true, predictions.size) > 0
    if not (np.abs(predictions) == 1).all():
        raise ValueError(
            "y_pred must be +1 (normal) or -1 (anomaly) in every row. For scores, see best_g_mean."
        )
    return sqrt((predictions[is_normal] > 0).mean() * (predictions[~is_normal] < 0).mean())


def best_g_mean(y: Any, scores: Any) -> tuple[float, float]:
    """Return the highest geometric mean that any threshold reaches, and that threshold.

    Parameters
    ----------
    y : array-like of shape (n,)
        +1 normal, −1 anomaly; both must occur.
    scores : array-like of shape (n,)
        High = normal.

    Returns
    -------
    value : float
        :func:`g_mean` of predicting ``score >= offset`` as normal.
    offset : float
        Halfway between two neighbouring scores. Of ties the lowest, which predicts the fewest
        anomalies.

    Examples
    --------
    >>> from lpfuse.metrics import best_g_mean
    >>> best_g_mean([-1, -1, 1, 1], [0.0, 1.0, 3.0, 4.0])
    (1.0, 2.0)
    """
    values = check_values(scores, "scores")
    is_normal = _require_both_classes(y, values.size) > 0
    order = np.argsort(values)
    values, is_normal = values[order], is_normal[order]
    # A threshold lies below the first of several equal scores. Counts instead of rates, so that
    # ties are exact.
    cuts = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    normals_below: NDArray[np.int64] = (np.cumsum(is_normal) - is_normal)[cuts]
    hits = (cuts - normals_below) * (is_normal.sum() - normals_below)
    best = cuts[np.argmax(hits)]
    value = sqrt(hits.max() / (is_normal.sum() * (~is_normal).sum()))
    return value, halfway(values[max(best - 1, 0)], values[best])


def mean_over_folds(
    criterion: Callable[[Host, Host], float], y: Host, scores: Host, fold: NDArray[np.intp]
) -> Host | None:
    r"""Return a criterion within each fold, averaged over the folds by their anomalies.

    .. math:: \frac{\sum_k m_k \, c(y_k, s_k)}{\sum_k m_k}

    with :math:`m_k` the number of anomalies in fold k. Scores of different folds come from
    different detectors and weights, and are not comparable.

    Parameters
    ----------
    criterion : callable
        Labels and scores of a fold → a number; called on folds with both classes.
    y : ndarray of shape (n,)
        +1 normal, −1 anomaly, 0 to ignore a row.
    scores : ndarray of shape (n,) or (n, m)
        High = normal. Rows with NaN are ignored.
    fold : ndarray of shape (n,)
        The fold of each row; negative if it is in none.

    Returns
    -------
    ndarray of shape () or (m,), or None
        The mean for each column; None if no fold has both classes.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.metrics import roc_auc_score
    >>> from lpfuse.metrics import mean_over_folds
    >>> y, fold = np.array([1, -1, 1, -1]), np.array([0, 0, 1, 1])
    >>> float(mean_over_folds(roc_auc_score, y, np.array([2.0, 1.0, 20.0, 30.0]), fold))
    0.5
    """
    columns = scores.reshape(len(scores), -1)
    counts = (fold >= 0) & (y != 0) & ~np.isnan(columns).any(axis=1)
    found, anomalies = [], []
    for number in np.unique(fold[counts]):
        rows = counts & (fold == number)
        if len(np.unique(y[rows])) == 2:
            found.append([criterion(y[rows], column) for column in columns[rows].T])
            anomalies.append((y[rows] < 0).sum())
    if not found:
        return None
    return np.average(found, axis=0, weights=anomalies).reshape(scores.shape[1:])


def auc_over_folds(
    y: Host, columns: Mapping[str, Host], fold: NDArray[np.intp]
) -> dict[str, float | None]:
    """Return the area under the ROC curve of several scores, each as its `mean_over_folds`.

    Parameters
    ----------
    y : ndarray of shape (n,)
        +1 normal, −1 anomaly, 0 to ignore a row.
    columns : mapping of str to ndarray of shape (n,)
        Scores by name, high = normal; rows with NaN are ignored.
    fold : ndarray of shape (n,)
        The fold of each row; negative if it is in none.

    Returns
    -------
    dict of str to float or None
        None if no fold has both classes.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse.metrics import auc_over_folds
    >>> y, fold = np.array([1, -1, 1, -1]), np.array([0, 0, 1, 1])
    >>> auc_over_folds(y, {"gmm": np.array([2.0, 1.0, 20.0, 30.0])}, fold)
    {'gmm': 0.5}
    """
    from sklearn.metrics import roc_auc_score

    areas = {name: mean_over_folds(roc_auc_score, y, s, fold) for name, s in columns.items()}
    return {name: None if area is None else float(area) for name, area in areas.items()}


def halfway(low: float, high: float) -> float:
    """Return a threshold between two scores that rounding cannot move across either of them.

    Parameters
    ----------
    low, high : float
        ``low <= high``. If no number lies between them the result is `high`: a score on the
        threshold is normal.

    Examples
    --------
    >>> halfway(1.0, 2.0)
    1.5
    """
    middle = float(low) / 2 + float(high) / 2
    return middle if low < middle <= high else float(high)


def _require_both_classes(y: Any, n: int) -> Host:
    labels = check_labels(y, n)
    if labels is None or (labels > 0).all():
        raise ValueError(
            "The geometric mean needs rows of both classes, but y has no anomaly. Pass y with +1 "
            "(normal) and -1 (anomaly)."
        )
    return labels
