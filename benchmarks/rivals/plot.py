"""Critical-difference diagrams after Demšar (2006): who is told apart from whom."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .study import LABELS, Record
from .tables import NAMES, aucs_of, critical_difference, mean_ranks


def cliques(ranks: np.ndarray, difference: float) -> list[tuple[int, int]]:
    """Longest runs of ranks that are not told apart: positions, in order, of their ends."""
    found: list[tuple[int, int]] = []
    ordered = np.sort(ranks)
    for first, rank in enumerate(ordered):
        last = int(np.searchsorted(ordered, rank + difference, side="right")) - 1
        if last > first and (not found or last > found[-1][1]):
            found.append((first, last))
    return found


def draw(records: list[Record], path: Path) -> None:
    """One diagram for each number of labels: best at the left, bars join what is not told apart."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    names = np.array(NAMES)
    figure, axes = plt.subplots(
        len(LABELS), 1, figsize=(11, 4.2 * len(LABELS)), layout="constrained"
    )
    for ax, labels in zip(axes, LABELS, strict=True):
        aucs = aucs_of(records, labels)
        ranks = mean_ranks(aucs)
        order = np.argsort(ranks)
        difference = critical_difference(len(names), len(aucs))
        half = -(-len(names) // 2)
        runs = cliques(ranks, difference)
        depth = len(runs)
        ax.set_title(
            f"{labels} labelled anomalies, {len(aucs)} sets (critical difference {difference:.1f})",
            loc="left",
        )
        ax.hlines(0, 1, len(names), color="black", linewidth=1)
        for position, i in enumerate(order):
            left = position < half
            level = -(depth + 1 + (position if left else len(names) - 1 - position))
            end = 0.2 if left else len(names) + 0.8
            ax.plot([ranks[i], ranks[i], end], [0, level, level], color="0.4", linewidth=0.8)
            ax.text(end, level, f" {names[i]} ({ranks[i]:.1f}) ", va="center", fontsize="small",
                    ha="right" if left else "left", parse_math=False)  # fmt: skip
        for height, (first, last) in enumerate(runs, start=1):
            ends = ranks[order[[first, last]]]
            ax.hlines(-height + 0.2, ends[0] - 0.05, ends[1] + 0.05, color="#0072B2", linewidth=3)
        ax.set_xlim(-4, len(names) + 5)
        ax.set_ylim(-(depth + half + 2), 2)
        for tick in range(1, len(names) + 1, 3):
            ax.text(tick, 0.4, str(tick), ha="center", fontsize="small")
        ax.axis("off")
    figure.savefig(path, dpi=110)
    plt.close(figure)
