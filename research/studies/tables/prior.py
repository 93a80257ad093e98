"""The prior weights of the default pool, learnt from the tables that choose.

For each number of labels, ``w ≥ 0`` that lets normal rows score above anomalies, over all tables,
on seen and unseen kinds, and where anomalies hide among the training rows: with d the scaled scores
of a normal test row less those of an anomaly,

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
from research.common.tables import markdown, page, prose
from research.studies.tables.splits import (
    LABELS,
    MODES,
    Mode,
    half_of,
    load_rows,
    split_table,
    table_names,
)

FILE = Path(lpfuse.__file__).parent / "ensemble" / "prior.json"
PAGE = Path("docs/benchmarks/prior.md")
# Tables also speak for unseen kinds, nothing else, hidden anomalies, nothing else, in turns: all
# modes of all tables would take too long.
TURNS: tuple[tuple[Mode, ...], ...] = (
    ("seen", "unseen"), ("seen",), ("seen", "contaminated"), ("seen",),
)  # fmt: skip
PAIRS = 200  # of a table, a mode and a number of labels
RIDGE = 0.01  # by hand: weights that hardly matter stay alike
SEEN = 2.0  # how often a table counts on seen kinds where it counts once in another mode
MOST = 20.0  # differences are cut here, lest the strangest rows decide


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
            # Without labels, seen and unseen kinds have the same training.
            again = not labels and mode == "unseen" and unlabelled is not None
            if not again:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    fused = FusedDetector(random_state=seed).fit(training.X, training.y)
            if not labels:
                fused = unlabelled if again else fused
                unlabelled = fused
            scaled = [
                np.asarray(fused.scaler_.transform(fused.detector_scores(rows)))
                for rows in (split.test, split.sought)
            ]
            drawn = [part[rng.integers(len(part), size=PAIRS)] for part in scaled]
            names = tuple(fused.detector_names_)
            differences = np.clip(drawn[0] - drawn[1], -MOST, MOST)
            found.append(Pairs(names, labels, mode, differences))
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


def write_prior(out: Path = FILE, page_at: Path = PAGE, *, jobs: int = 1) -> None:
    """Learn from the choosing half; write the file of the package, and the page about it."""
    halves = half_of(table_names())
    names = [name for name in table_names() if halves[name] == "choose"]
    asked: list[tuple[str, Sequence[Mode]]] = [
        (name, TURNS[i % len(TURNS)]) for i, name in enumerate(names)
    ]
    with ProcessPoolExecutor(jobs) as pool:
        parts = [pair for found in pool.map(_pairs, asked) for pair in found]
    write_whole(out, json.dumps(prior_content(parts, len(names)), indent=2) + "\n")
    write_whole(page_at, prior_page(parts))


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


# ------------------------------------------------------------------------------------------- page


def held_out_order(parts: list[Pairs], without: str | None = None) -> Host:
    """Pairs in the right order, in per cent, by weights learnt from the other half of the tables.

    Returns
    -------
    ndarray of shape (3,)
        On seen kinds, on unseen ones and with hidden anomalies. Ties count half.
    """
    found: dict[str, list[float]] = {mode: [] for mode in MODES}
    kept = [j for j, name in enumerate(parts[0].names) if name != without]
    cut = [
        part._replace(
            names=tuple(part.names[j] for j in kept), differences=part.differences[:, kept]
        )
        for part in parts
    ]
    for side in (0, 1):
        weights = learn_weights([part for i, part in enumerate(cut) if i // len(MODES) % 2 != side])
        for i, part in enumerate(cut):
            if i // len(MODES) % 2 == side:
                found[part.mode].append(_order(part, weights))
    return np.array([np.mean(found[mode]) for mode in MODES])


def _order(part: Pairs, weights: dict[str, float]) -> float:
    margin = part.differences @ np.array([weights[name] for name in part.names])
    return float(100.0 * (np.mean(margin > 0) + np.mean(margin == 0) / 2))


def prior_page(parts: list[Pairs]) -> str:
    """The weights, and what each detector brings, as Markdown."""
    by_count = {k: [part for part in parts if part.labels == k] for k in LABELS}
    names = list(by_count[LABELS[-1]][0].names)
    head = ["", *(f"{k} labels" for k in LABELS)]
    learnt = {k: learn_weights(of_count) for k, of_count in by_count.items()}
    weights = [
        [n, *(f"{learnt[k][n]:.2f}" if n in learnt[k] else "" for k in LABELS)] for n in names
    ]
    whole = {k: held_out_order(of_count) for k, of_count in by_count.items()}
    rows = [
        ["**learnt weights**", *(_told(whole[k]) for k in LABELS)],
        ["equal weights", *(_told(_equal(by_count[k])) for k in LABELS)],
    ]
    for name in names:
        cells = [
            _told(held_out_order(by_count[k], name) - whole[k], "+") if name in learnt[k] else ""
            for k in LABELS
        ]
        rows.append([f"without {name}", *cells])
    return page(
        "# The prior weights of the default pool",
        prose(
            """Learnt from the tables that choose ([which](tables.md)) by pairs of a normal row and
            an anomaly, neither of which a detector has learnt from; made by
            `python -m research.studies.tables prior`."""
        ),
        markdown([head, *weights]),
        prose(
            """Pairs in the right order, in per cent, seen kinds / unseen kinds / with hidden
            anomalies: weights learnt on one half of these tables and read on the other. Then what
            changes if a detector is left out and the weights are learnt anew."""
        ),
        markdown([head, *rows]),
    )


def _equal(parts: list[Pairs]) -> Host:
    equal = dict.fromkeys(parts[0].names, 1.0)
    return np.array(
        [np.mean([_order(p, equal) for p in parts if p.mode == mode]) for mode in MODES]
    )


def _told(pair: Host, sign: str = "") -> str:
    return " / ".join(f"{value:{sign}.1f}" for value in pair)
