"""The prior weights of the default pool, learnt from raw scores on the tables that choose.

For each scale and number of labels, ``w ≥ 0`` that lets normal rows score above anomalies, over all
tables, on seen and unseen kinds, and where anomalies hide among the training rows: with d the
scaled scores of a normal test row less those of an anomaly,

    minimise   mean_parts mean_pairs log(1 + exp(−dᵀw))  +  (RIDGE / 2) ‖w − w̄‖²

where a part is a table in one mode, and w̄ has equal entries. The problem is convex. The weights are
divided by their sum.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.metrics import roc_auc_score

import lpfuse
from lpfuse import TailScaler, TwoSidedMinMax
from lpfuse._arrays.operations import Host
from lpfuse.ensemble.defaults import FEW, learnt_prior
from research.common.store import write_whole
from research.common.tables import markdown, page, prose
from research.studies.tables.prior_scores import FOLDER, RawScores, choosing_tables, read_scores
from research.studies.tables.splits import LABELS, MODES, family_of, source_of

FILE = Path(lpfuse.__file__).parent / "ensemble" / "prior.json"
PAGE = Path("docs/benchmarks/prior.md")
SCALERS = {"tail": TailScaler, "two-sided": TwoSidedMinMax}
# What the file holds. Both scales have weights at `FEW` labels, where one takes the place of the
# other: those below lead to the tail's, those above start from the two-sided ones.
ROWS = (
    *(("tail", k) for k in LABELS if k <= FEW),
    *(("two-sided", k) for k in LABELS if k >= FEW),
)
PAIRS = 2000  # of a table, a mode and a number of labels: another draw moves weights by 0.01
RIDGE = 0.01  # by hand: weights that hardly matter stay alike
MOST = 20.0  # differences are cut here, lest the strangest rows decide

Stored = Mapping[str, Sequence[RawScores]]  # by name of the table


class Part(NamedTuple):
    """Scaled scores of one table in one mode, for one number of labels."""

    names: tuple[str, ...]
    mode: str
    side: int  # 0 or 1: which half of the choosing tables
    test: Host  # normal rows
    sought: Host  # anomalies

    def differences(self, seed: int = 0) -> Host:
        """Of `PAIRS` pairs, normal less anomalous; which rows they are depends on no other part."""
        rng = np.random.default_rng(seed)
        normal, anomalous = (
            rows[rng.integers(len(rows), size=PAIRS)] for rows in (self.test, self.sought)
        )
        return np.clip(normal - anomalous, -MOST, MOST)

    def without(self, name: str) -> Part:
        """The same with a detector less."""
        kept = [j for j, other in enumerate(self.names) if other != name]
        names = tuple(self.names[j] for j in kept)
        return self._replace(names=names, test=self.test[:, kept], sought=self.sought[:, kept])

    def order(self, weights: Mapping[str, float]) -> float:
        """Pairs in the right order, in per cent; ties count half."""
        w = np.array([weights[name] for name in self.names])
        is_normal = np.repeat([1, 0], [len(self.test), len(self.sought)])
        return 100.0 * float(roc_auc_score(is_normal, np.concatenate([self.test, self.sought]) @ w))


def parts_of(stored: Stored, scale: str, labels: int) -> list[Part]:
    """The scores for one number of labels, on one scale; training rows that are normal set it."""
    side = sides(stored)
    found = []
    for name, scores in stored.items():
        for raw in scores:
            if raw.labels == labels:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of scores without spread
                    scaler = SCALERS[scale]().fit(raw.normal.astype(np.float64))
                scaled = (
                    np.asarray(scaler.transform(rows.astype(np.float64)))
                    for rows in (raw.test, raw.sought)
                )
                found.append(Part(tuple(raw.names.tolist()), raw.mode, side[name], *scaled))
    return found


def sides(names: Iterable[str]) -> dict[str, int]:
    """Two halves of tables: tables of a source stay together, and sources take turns two by two.

    One by one they would fall in with the modes, which take turns themselves: one half would speak
    for unseen kinds, the other for hidden anomalies.

    Examples
    --------
    >>> sides(["odd-A", "odd-B", "ovr-c-a1", "ovr-c-a2", "ovr-d"])
    {'odd-A': 0, 'odd-B': 0, 'ovr-c-a1': 1, 'ovr-c-a2': 1, 'ovr-d': 1}
    """
    names = list(names)
    sources = list(dict.fromkeys((family_of(name), source_of(name)) for name in names))
    return {name: sources.index((family_of(name), source_of(name))) // 2 % 2 for name in names}


def learn_weights(parts: Sequence[Part]) -> dict[str, float]:
    """The weights of one scale and number of labels, by detector; their sum is 1."""
    names = parts[0].names
    D = np.concatenate([part.differences() for part in parts])  # (parts × pairs, R)

    def loss(w: Host) -> tuple[float, Host]:
        margin = D @ w
        away = w - w.mean()
        value = float(np.logaddexp(0.0, -margin).mean() + RIDGE / 2 * away @ away)
        return value, RIDGE * away - expit(-margin) @ D / len(D)

    start = np.full(len(names), 1.0 / len(names))
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * len(names))
    weights = found.x / found.x.sum()
    return dict(zip(names, weights.round(4).tolist(), strict=True))


def write_prior(folder: Path = FOLDER, out: Path = FILE, page_at: Path = PAGE) -> None:
    """Learn from the scores in a folder; write the file of the package, and the page about it."""
    stored = read_scores(folder)
    if len(set(sides(stored).values())) < 2:
        raise ValueError(
            f"{folder} has scores of {len(stored)} tables, which cannot be halved. Measure more: "
            "tables of three sources at least."
        )
    content = prior_content(stored, len(choosing_tables()))
    text = prior_page(stored, content)
    write_whole(out, json.dumps(content, indent=2) + "\n")
    write_whole(page_at, text)


def prior_content(stored: Stored, n_choosing: int) -> dict[str, Any]:
    """What the file holds; rows "suspected" stay: `research.studies.suspicion` learns them."""
    tables = f"{n_choosing} tables of the choosing half of docs/benchmarks/tables.md"
    return {
        "version": 3,
        "made_by": "python -m research.studies.tables prior",
        "provenance": f"{len(stored)} of the {tables}" if len(stored) < n_choosing else tables,
        "weights": [
            {"scale": scale, "labels": k, "weights": learn_weights(parts_of(stored, scale, k))}
            for scale, k in ROWS
        ],
        "suspected": learnt_prior()["suspected"],
    }


# ------------------------------------------------------------------------------------------- page


def held_out_order(parts: Sequence[Part]) -> Host:
    """Pairs in the right order, in per cent, by weights learnt from the other half of the tables.

    Returns
    -------
    ndarray of shape (3,)
        On seen kinds, on unseen ones and with hidden anomalies; NaN where no table has the mode.
    """
    weights = [learn_weights([part for part in parts if part.side != side]) for side in (0, 1)]
    return _by_mode(parts, weights)


def equal_order(parts: Sequence[Part]) -> Host:
    """The same by equal weights."""
    return _by_mode(parts, [dict.fromkeys(parts[0].names, 1.0)] * 2)


def _by_mode(parts: Sequence[Part], weights: Sequence[Mapping[str, float]]) -> Host:
    found: dict[str, list[float]] = {mode: [] for mode in MODES}
    for part in parts:
        found[part.mode].append(part.order(weights[part.side]))
    return np.array([np.mean(found[mode]) if found[mode] else np.nan for mode in MODES])


def prior_page(stored: Stored, content: Mapping[str, Any]) -> str:
    """The weights, what each detector brings, and what each scale does, as Markdown."""
    parts = {(scale, k): parts_of(stored, scale, k) for scale in reversed(SCALERS) for k in LABELS}
    whole = {row: held_out_order(found) for row, found in parts.items()}
    names = list(content["weights"][-1]["weights"])
    head = ["", *(f"{k} labels, {scale}" for scale, k in ROWS)]
    learnt = [row["weights"] for row in content["weights"]]
    weights = [[n, *(f"{row[n]:.2f}" if n in row else "" for row in learnt)] for n in names]
    brings = [
        ["**learnt weights**", *(_told(whole[row]) for row in ROWS)],
        ["equal weights", *(_told(equal_order(parts[row])) for row in ROWS)],
    ]
    for name in names:
        fewer = [
            [part.without(name) for part in parts[row]] if name in parts[row][0].names else []
            for row in ROWS
        ]
        cells = [
            _told(held_out_order(left) - whole[row], "+") if left else ""
            for row, left in zip(ROWS, fewer, strict=True)
        ]
        brings.append([f"without {name}", *cells])
    scales = [[scale, *(_told(whole[scale, k]) for k in LABELS)] for scale in reversed(SCALERS)]
    tables = content["provenance"].replace("docs/benchmarks/tables.md", "[all](tables.md)")
    return page(
        "# The prior weights of the default pool",
        prose(
            f"""Learnt from {tables} by pairs of a normal row and an anomaly, neither of which a
            detector has learnt from; made by `{content["made_by"]}`. Half of the tables also speak
            for unseen kinds, the others for hidden anomalies among the training rows; each table
            counts once in each of its modes. Below {FEW} labels scores are on the scale "tail"
            (`TailScaler`), with {FEW} or more on "two-sided" (`TwoSidedMinMax`); between two
            numbers of labels weights are linear, from {FEW} on in the logarithm."""
        ),
        markdown([head, *weights]),
        prose(
            """Pairs in the right order, in per cent, seen kinds / unseen kinds / with hidden
            anomalies: weights learnt on one half of these tables and read on the other; both halves
            hold tables of all modes. Without labels no kind has been seen. Then what changes if a
            detector is left out and the weights are learnt anew."""
        ),
        markdown([head, *brings]),
        prose("The two scales, each with weights learnt for it, in the same figures."),
        markdown([["", *(f"{k} labels" for k in LABELS)], *scales]),
    )


def _told(by_mode: Host, sign: str = "") -> str:
    return " / ".join("–" if np.isnan(v) else f"{v:{sign}.1f}" for v in by_mode)
