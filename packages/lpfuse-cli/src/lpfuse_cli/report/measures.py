"""Figures and curves of scores: how well they part anomalies from normal rows, and how surely."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import norm, rankdata
from sklearn.metrics import average_precision_score, precision_recall_curve

from lpfuse._arrays.operations import Host

POINTS = 200  # of a curve: more than a screen shows
FALSE_ALARM_RATES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
RECALLS = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
DIGITS = 5  # of points of curves: a hundredth of a pixel
VALUE_DIGITS = 8  # of weights, shares and contributions: beyond what solvers prove by default
# Scores that reach further than so many times their usual size have a bent axis; by hand.
LONG_TAIL = 20.0


def places(labels: Host, scores: Host, fold: Any) -> Host:
    """Compute the share of normal rows of the same fold below each row, ties counting half.

    Scores of different folds come from different detectors and weights, and do not compare;
    places do. Their mean over anomalies is 1 − AUC, averaged over folds by their anomalies.

    Parameters
    ----------
    labels : ndarray of shape (n,)
        +1 normal, −1 anomaly.
    scores : ndarray of shape (n,)
        High = normal.
    fold : ndarray of shape (n,)
        Which rows compare.

    Returns
    -------
    ndarray of shape (n,)
        From 0, below all normal rows, to 1; NaN in folds without a normal row.

    Examples
    --------
    >>> import numpy as np
    >>> y, fold = np.array([1, 1, -1, 1, -1]), np.array([0, 0, 0, 1, 1])
    >>> places(y, np.array([1.0, 3.0, 2.0, 30.0, 20.0]), fold)
    array([0.25, 0.75, 0.5 , 0.5 , 0.  ])
    """
    found = np.full(len(scores), np.nan)
    for number in np.unique(fold):
        inside = fold == number
        normal = np.sort(scores[inside & (labels > 0)])
        if len(normal):
            below, up_to = (
                np.searchsorted(normal, scores[inside], side) for side in ("left", "right")
            )
            found[inside] = (below + up_to) / (2 * len(normal))
    return found


def separation(labels: Host, scores: Host, fold: Any, points: int = POINTS) -> dict[str, Any]:
    """How well scores part anomalies from normal rows: AUC, average precision, curves.

    Parameters
    ----------
    labels : ndarray of shape (n,)
        +1 normal, −1 anomaly; both occur.
    scores : ndarray of shape (n,)
        High = normal.
    fold : ndarray of shape (n,)
        Which rows compare; none is without a normal row.
    points : int
        Of a curve, at most.

    Returns
    -------
    dict
        ``auc``; ``average_precision``; ``roc``: shares of normal rows flagged, of anomalies found;
        ``pr``: shares of anomalies found, of alarms that are right; ``found_at``: share of
        anomalies found at each of `FALSE_ALARM_RATES`; ``precision_at``: best share of right
        alarms with at least each of `RECALLS` found.

    Examples
    --------
    >>> import numpy as np
    >>> y, fold = np.array([1, 1, 1, -1]), np.zeros(4)
    >>> found = separation(y, np.array([3.0, 2.0, 0.5, 1.0]), fold)
    >>> round(found["auc"], 3), found["average_precision"]
    (0.667, 0.5)
    >>> found["roc"]
    [[0.0, 0.33333, 0.33333, 1.0], [0.0, 0.0, 1.0, 1.0]]
    """
    anomalous, place = labels < 0, places(labels, scores, fold)
    of_anomalies = np.sort(place[anomalous])
    found = np.arange(len(of_anomalies) + 1) / len(of_anomalies)
    strangeness = -_one_order(place, scores, fold)
    precision, recall, _ = precision_recall_curve(anomalous, strangeness)
    precision, recall = precision[:-1][::-1], recall[:-1][::-1]  # without the point at no alarms
    return {
        "auc": float(1 - of_anomalies.mean()),
        "average_precision": float(average_precision_score(anomalous, strangeness)),
        "roc": _thinned(*_steps(of_anomalies), points),
        "pr": _thinned(np.append(0.0, recall), np.append(precision[0], precision), points),
        "found_at": [
            float(found[np.searchsorted(of_anomalies, rate + 1e-12)]) for rate in FALSE_ALARM_RATES
        ],
        "precision_at": [float(precision[recall >= least - 1e-12].max()) for least in RECALLS],
    }


def _one_order(place: Host, scores: Host, fold: Any) -> Host:
    """All rows by place and, between two normal rows of their fold, by score."""
    finer = np.empty(len(scores))
    for number in np.unique(fold):
        inside = fold == number
        finer[inside] = rankdata(scores[inside]) / (inside.sum() + 1)
    return place + finer / (4 * len(scores))  # places of a fold are farther apart than that


def _steps(at: Host) -> tuple[Host, Host]:
    """Return the step curve from (0, 0) to (1, 1) that rises by a share at each point."""
    corners, counts = np.unique(at, return_counts=True)
    heights = np.append(0.0, np.cumsum(counts) / len(at))
    x, y = np.repeat(np.concatenate([[0.0], corners, [1.0]]), 2)[1:-1], np.repeat(heights, 2)
    moves = np.append(True, (np.diff(x) > 0) | (np.diff(y) > 0))
    return x[moves], y[moves]


def _thinned(x: Host, y: Host, points: int) -> list[list[float]]:
    """Thin a curve to fewer points, evenly spread; the ends stay."""
    if len(x) > points:
        along = np.append(0.0, np.cumsum(np.abs(np.diff(x)) + np.abs(np.diff(y))))
        kept = np.searchsorted(along, np.linspace(0, along[-1], points - 1))
        kept = np.unique(np.append(kept, len(x) - 1))
        x, y = x[kept], y[kept]
    return [x.round(DIGITS).tolist(), y.round(DIGITS).tolist()]


def auc_difference(labels: Host, scores: Host, others: Host, fold: Any) -> dict[str, Any]:
    """By how much the AUC of some scores exceeds that of others, on the same rows.

    An AUC is a mean over anomalies, of the shares of normal rows above each, and also one over
    normal rows, of the shares of anomalies below each. The variance of a difference of two AUCs is
    that of the differences of these shares, ``var(of anomalies)/m + var(of normals)/n``.

    Parameters
    ----------
    labels : ndarray of shape (n,)
        +1 normal, −1 anomaly; both occur.
    scores, others : ndarray of shape (n,)
        High = normal.
    fold : ndarray of shape (n,)
        Which rows compare; none is without a normal row.

    Returns
    -------
    dict
        ``gain``; ``interval``: that contains it in 95 of 100 cases, None with fewer than two rows
        of a class.

    References
    ----------
    DeLong, DeLong and Clarke-Pearson (1988). Comparing the areas under two or more correlated
    receiver operating characteristic curves: a nonparametric approach. Biometrics 44(3), 837–845.

    Examples
    --------
    >>> import numpy as np
    >>> y, fold = np.repeat([1, -1], 3), np.zeros(6)
    >>> perfect, flawed = np.array([4.0, 5, 6, 1, 2, 3]), np.array([4.0, 5, 2.5, 1, 2, 3])
    >>> round(auc_difference(y, perfect, flawed, fold)["gain"], 3)
    0.111
    """
    anomalous = labels < 0
    place, other = (places(labels, each, fold) for each in (scores, others))
    of_anomalies = other[anomalous] - place[anomalous]
    of_normal = _anomalies_below(anomalous, place) - _anomalies_below(anomalous, other)
    gain = float(of_anomalies.mean())
    if min(len(of_anomalies), len(of_normal)) < 2:
        return {"gain": gain, "interval": None}
    variance = sum(part.var(ddof=1) / len(part) for part in (of_anomalies, of_normal))
    half = float(norm.ppf(0.975) * np.sqrt(variance))
    return {"gain": gain, "interval": [gain - half, gain + half]}


def _anomalies_below(anomalous: Any, place: Host) -> Host:
    """For each normal row the share of anomalies below it, ties counting half."""
    anomalies = np.sort(place[anomalous])
    below, up_to = (
        np.searchsorted(anomalies, place[~anomalous], side) for side in ("left", "right")
    )
    return (below + up_to) / (2 * len(anomalies))


def rank_correlation(scores: Host) -> list[list[float | None]]:
    """Spearman's correlation of columns; None where one does not vary."""
    ranks = np.apply_along_axis(rankdata, 0, scores)
    ranks -= ranks.mean(axis=0)
    length = np.sqrt((ranks**2).sum(axis=0))
    with np.errstate(invalid="ignore", divide="ignore"):
        matrix = (ranks.T @ ranks) / np.outer(length, length)
    return [
        [round(float(value), DIGITS) if np.isfinite(value) else None for value in row]
        for row in matrix
    ]


def bins(scores: Host, usual: Any, n_bins: int) -> tuple[Host, float | None]:
    """Edges of bins of equal width or, where tails are long, of equal width in ``arsinh(s / a)``.

    That scale is linear up to a, the mean size of the usual scores, and counts factors beyond it.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        What the bins are to hold.
    usual : ndarray of shape (n,) of bool
        Which of them are usual; if none is, all are.
    n_bins : int
        How many bins.

    Returns
    -------
    edges : ndarray of shape (n_bins + 1,)
        From the lowest score to the highest.
    linear_width : float or None
        a; None where the bins are of equal width.

    Examples
    --------
    >>> edges, a = bins(np.array([-1e6, -1.0, 1.0]), np.array([False, True, True]), 2)
    >>> edges.round().tolist(), a
    ([-1000000.0, -455.0, 1.0], 1.0)
    """
    low, high = float(scores.min()), float(scores.max())
    a = float(np.mean(np.abs(scores[usual] if usual.any() else scores)))
    if not 0 < LONG_TAIL * a < high - low:
        return np.histogram_bin_edges(scores, n_bins), None
    ends = np.arcsinh([low / a, high / a])
    edges = a * np.sinh(np.linspace(ends[0], ends[1], n_bins + 1))
    edges[0], edges[-1] = low, high  # which rounding might leave outside
    return edges, a


def rounded(values: Host) -> list[float | None]:
    """Numbers of eight decimals; None for NaN."""
    return [None if np.isnan(value) else round(value, VALUE_DIGITS) for value in values.tolist()]
