"""Who names the weights: fixed, average, sliding window, ours, and the best in hindsight.

All play on the same labelled rows with the same costs, those of ours. A strategy is told a row's
label after it named its weights for that row.
"""

from __future__ import annotations

import warnings
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from lpfuse import LpFusion
from lpfuse._arrays.operations import Host
from lpfuse.ensemble.components import default_fusion
from lpfuse.fusion.lp import IMAGINARY_SCORE
from research.studies.regret.streams import START, Stream

WINDOW, EVERY = 200, 25  # labelled rows of the sliding window, and between two fits to it
ROUNDS = ("ours", "average", "gradient", "certified", "recent", "fixed", "window")
METHODS = (*ROUNDS, "best fixed")


class Played(NamedTuple):
    """What came of a stream.

    Attributes
    ----------
    losses : dict
        Method → costs times hinge losses of the labelled rows after the start, in order.
    scores : dict
        Method → fused scores of all rows after the start, by the weights of that time.
    bounds : dict
        Of the regret of ours to the average and to the best, proven.
    gap : float
        Relative gap of the certificate of the best fixed weights.
    seconds : float
        That ours took for a labelled row.
    """

    losses: dict[str, Host]
    scores: dict[str, Host]
    bounds: dict[str, float]
    gap: float
    seconds: float


def play(stream: Stream, fusion: LpFusion | None = None) -> Played:
    """All methods on one stream."""
    fusion = default_fusion() if fusion is None else fusion
    S, y, told = stream
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of detectors that do not help: that is the point
        ours = clone(fusion).partial_fit(S[:START], y[:START])
        window = clone(fusion).fit(S[:START], y[:START])
    fixed = np.append(ours.weights_, ours.intercept_)
    points: dict[str, list[Host]] = {name: [] for name in ROUNDS}
    rows, seconds, learnt = [], 0.0, 0
    for t in range(START, len(y)):
        now = _points(ours, window, fixed)
        for name in ROUNDS:
            points[name].append(now[name])
        if not told[t]:
            continue
        rows.append((t, ours.online_.row(S[t], float(y[t]), 1.0)))
        began = perf_counter()
        ours.partial_fit(S[t : t + 1], y[t : t + 1])
        seconds += perf_counter() - began
        learnt += 1
        if learnt % EVERY == 0:
            last = np.flatnonzero(told[: t + 1])[-WINDOW:]
            window = _refitted(fusion, S[last], y[last], window)
    best, gap = best_fixed(fusion, [row for _, row in rows], ours)
    every = {name: np.array(points[name]) for name in ROUNDS}
    every["best fixed"] = np.broadcast_to(best, every["ours"].shape)
    losses = {
        name: np.array([_loss(every[name][t - START], row) for t, row in rows]) for name in METHODS
    }
    extended = np.column_stack([S[START:], np.ones(len(y) - START)])
    scores = {name: (extended * every[name]).sum(axis=1) for name in METHODS}
    return Played(losses, scores, ours.online_.regret_bounds(), gap, seconds / max(learnt, 1))


def _points(ours: LpFusion, window: LpFusion, fixed: Host) -> dict[str, Host]:
    return {
        "ours": np.append(ours.weights_, ours.intercept_),
        **ours.online_.strategies,
        "fixed": fixed,
        "window": np.append(window.weights_, window.intercept_),
    }


def _refitted(fusion: LpFusion, S: Host, y: Host, before: LpFusion) -> LpFusion:
    """Fitted to the window; as before where that has no normal row."""
    if not (y > 0).any():
        return before
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(fusion).fit(S, y)


def _loss(point: Host, row: Any) -> float:
    """The loss of a labelled row, with its share of the imaginary anomaly."""
    margin = row.label * (row.scores @ point[:-1] + point[-1])
    far = -(IMAGINARY_SCORE * point[:-1].sum() + point[-1])
    return float(row.cost * max(0.0, 1.0 - margin) + row.imaginary * max(0.0, 1.0 - far))


def best_fixed(fusion: LpFusion, rows: list[Any], ours: LpFusion) -> tuple[Host, float]:
    """The weights with the least loss on these rows, in hindsight, and their relative gap."""
    R = len(ours.weights_)
    S = np.array([row.scores for row in rows] + [np.full(R, IMAGINARY_SCORE)])
    y = np.array([row.label for row in rows] + [-1.0])
    costs = np.array([row.cost for row in rows] + [sum(row.imaginary for row in rows)])
    alone = clone(fusion).set_params(class_weight=None, imaginary_anomalies=0.0)
    keep = costs > 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = alone.fit(S[keep], y[keep], costs[keep])
    return np.append(found.weights_, found.intercept_), found.certificate_.relative_gap
