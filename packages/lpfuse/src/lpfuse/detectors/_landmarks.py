"""Landmarks that stand for many rows: the means of clusters.

Zhang, Tsang & Kwok (2008) showed that k-means bounds the error of the Nyström approximation.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from lpfuse._arrays.operations import (
    Array,
    Host,
    array_range,
    beside,
    concatenate,
    is_numpy,
    map_row_blocks,
    namespace,
    sum_row_blocks,
    take,
    to_host,
    total,
)
from lpfuse.detectors._distances import distances_to

Positions = NDArray[np.int64]

# Rows drawn for each landmark: with so many, 125 centres lose less AUC than 500 drawn rows
# (docs/adr/0004).
ROWS_A_CENTRE = 20
# Chosen by hand.
ROUNDS = 8  # in which the rows to start from are drawn
STEPS = 20  # of Lloyd's algorithm
STILL = 1e-4  # it stops where the centres move, in all, by this share of the columns' variance:
# scikit-learn's default of `tol`


def centres(
    X: Array, size: int, rng: np.random.RandomState, rows_a_centre: int = ROWS_A_CENTRE
) -> Array:
    """Means of so many clusters, of rows drawn at random: better landmarks than the rows alone."""
    n = X.shape[0]
    drawn = take(X, np.sort(rng.choice(n, min(n, rows_a_centre * size), replace=False)))
    if is_numpy(X):
        return _by_scikit_learn(drawn, size, rng)
    return lloyd(drawn, take(drawn, far_apart(drawn, size, rng)))


def _by_scikit_learn(X: Host, size: int, rng: np.random.RandomState) -> Host:
    means = KMeans(size, n_init=1, max_iter=STEPS, tol=STILL, random_state=rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer different rows than centres
        return beside(means.fit(to_host(X)).cluster_centers_, X)


def lloyd(X: Array, means: Array, steps: int = STEPS, still: float = STILL) -> Array:
    """Lloyd's algorithm from some means, in the library and on the device of X.

    It ends after so many steps, or where the means move, in all, by the share `still` of the
    columns' variance or less.
    """
    xp = namespace(X)
    still *= float(xp.mean(xp.var(X, axis=0)))
    for _ in range(steps):
        before, means = means, lloyd_step(X, means)
        if total((means - before) ** 2) <= still:
            break
    return means


def far_apart(X: Array, size: int, rng: np.random.RandomState) -> Positions:
    """Positions of rows to start from: in a few rounds, those far from all so far are likelier.

    The rounds of Bahmani et al. (2012) for the rule of Arthur & Vassilvitskii (2007), which draws
    one row after the other: a row's chance is its squared distance to the nearest drawn before.
    """
    n = X.shape[0]
    chosen = rng.choice(n, -(-size // ROUNDS), replace=False)
    latest, nearest = chosen, np.full(n, np.inf)
    while len(chosen) < size:
        nearest = np.minimum(nearest, _to_nearest(take(X, latest), X))
        nearest[chosen] = 0.0  # but for rounding
        count = min(-(-size // ROUNDS), size - len(chosen))
        if np.count_nonzero(nearest) < count:  # hardly any row differs from all of them
            others = np.setdiff1d(np.arange(n), chosen)
            return np.concatenate([chosen, rng.choice(others, size - len(chosen), replace=False)])
        latest = rng.choice(n, count, replace=False, p=nearest / nearest.sum())
        chosen = np.concatenate([chosen, latest])
    return chosen


def _to_nearest(anchors: Array, X: Array) -> Host:
    """The squared distance of each row to the nearest anchor."""
    distances = distances_to(anchors, 1.0)

    def work(block: slice) -> Array:
        return namespace(X).min(distances(X[block, :]), axis=1)

    return to_host(concatenate(map_row_blocks(work, X, width=int(anchors.shape[0]))))


def lloyd_step(X: Array, means: Array) -> Array:
    """The mean of the rows that are nearest to each; one without any row stays where it is."""
    xp = namespace(X)
    distances, clusters = distances_to(means, 1.0), array_range(means.shape[0], X)

    def sums_and_counts(block: slice) -> Array:
        rows = X[block, :]
        nearest = xp.argmin(distances(rows), axis=1)
        # A product with ones and zeros adds in a fixed order, unlike a device's scattered sums.
        belongs = xp.astype(nearest[:, None] == clusters[None, :], X.dtype)
        return belongs.T @ xp.concat([rows, xp.ones_like(rows[:, :1])], axis=1)

    found = sum_row_blocks(sums_and_counts, X, width=int(means.shape[0]))
    sums, counts = found[:, :-1], found[:, -1:]
    return xp.where(counts > 0, sums / xp.clip(counts, min=1.0), means)
