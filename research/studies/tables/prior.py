"""The prior weights of the default pool, learnt from the tables that choose.

For each number of labels, ``w ≥ 0`` that lets normal rows score above anomalies, over all tables
and both on seen and unseen kinds: with d the scaled scores of a normal test row less those of an
anomaly,

    minimise   mean_tables mean_pairs log(1 + exp(−dᵀw))  +  (RIDGE / 2) ‖w − w̄‖²

where w̄ has equal entries. The problem is convex. The weights are divided by their sum.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

import lpfuse
from lpfuse import FusedDetector
from lpfuse._arrays.operations import Host
from research.common.store import write_whole
from research.studies.tables.splits import (
    LABELS,
    Mode,
    half_of,
    load_rows,
    split_table,
    table_names,
)

FILE = Path(lpfuse.__file__).parent / "ensemble" / "prior.json"
UNSEEN_EVERY = 2  # tables that also speak for unseen kinds: every second one, to save time
PAIRS = 200  # of a table, a mode and a number of labels
RIDGE = 0.01  # by hand: weights that hardly matter stay alike
SEEN = 2.0  # how often a table counts on seen kinds where it counts once on unseen ones


class Pairs(NamedTuple):
    """Differences of scaled scores, normal less anomalous, of one table."""

    names: tuple[str, ...]
    labels: int
    mode: str
    differences: Host  # (PAIRS, R)


def pairs_of(name: str, modes: Sequence[Mode], seed: int = 0) -> list[Pairs]:
    """What one table says, for all numbers of labels."""
    found, unlabelled = [], None
    X, is_anomaly = load_rows(name)
    rng = np.random.default_rng(seed)
    for mode in modes:
        split = split_table(X, is_anomaly, seed, mode)
        if split is None:
            continue
        for labels in split.label_counts(LABELS):
            training = split.training(labels)
            if labels or unlabelled is None:  # without labels, both modes have the same training
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    fused = FusedDetector(random_state=seed).fit(training.X, training.y)
                unlabelled = unlabelled or fused
            fused = fused if labels else unlabelled
            scaled = [
                np.asarray(fused.scaler_.transform(fused.detector_scores(rows)))
                for rows in (split.test, split.sought)
            ]
            drawn = [part[rng.integers(len(part), size=PAIRS)] for part in scaled]
            names = tuple(fused.detector_names_)
            found.append(Pairs(names, labels, mode, drawn[0] - drawn[1]))
    return found


def learn_weights(parts: list[Pairs]) -> dict[str, float]:
    """The weights of one number of labels, by detector; their sum is 1."""
    names = parts[0].names
    D = np.stack([part.differences for part in parts])  # tables × pairs × R
    counts = np.array([SEEN if part.mode == "seen" else 1.0 for part in parts])
    counts /= counts.sum() * D.shape[1]

    def loss(w: Host) -> tuple[float, Host]:
        margin = D @ w
        away = w - w.mean()
        value = float(counts @ np.logaddexp(0.0, -margin).sum(axis=1) + RIDGE / 2 * away @ away)
        slope = np.einsum("t,tp,tpr->r", counts, -expit(-margin), D) + RIDGE * away
        return value, slope

    start = np.full(len(names), 1.0 / len(names))
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * len(names))
    weights = found.x / found.x.sum()
    return dict(zip(names, weights.round(4).tolist(), strict=True))


def write_prior(out: Path = FILE, *, jobs: int = 1) -> None:
    """Learn from the choosing half, and write the file of the package."""
    halves = half_of(table_names())
    names = [name for name in table_names() if halves[name] == "choose"]
    asked: list[tuple[str, Sequence[Mode]]] = [
        (name, ("seen",) if i % UNSEEN_EVERY else ("seen", "unseen"))
        for i, name in enumerate(names)
    ]
    with ProcessPoolExecutor(jobs) as pool:
        parts = [pair for found in pool.map(_pairs, asked) for pair in found]
    write_whole(out, json.dumps(prior_content(parts, len(names)), indent=2) + "\n")


def _pairs(asked: tuple[str, Sequence[Mode]]) -> list[Pairs]:
    return pairs_of(*asked)


def prior_content(parts: list[Pairs], n_tables: int) -> dict[str, Any]:
    """What the file holds."""
    return {
        "version": 1,
        "made_by": "python -m research.studies.tables prior",
        "provenance": f"{n_tables} tables, the choosing half of docs/benchmarks/tables.md",
        "weights": [
            {"labels": k, "weights": learn_weights([part for part in parts if part.labels == k])}
            for k in LABELS
        ],
    }
