"""The picture: regret to the best fixed weights, and AUC, along the streams of each drift."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from lpfuse._arrays.operations import Host
from research.common.drawing import new_figure
from research.common.store import Record
from research.studies.regret.page import BEST
from research.studies.regret.streams import DRIFTS, ROWS, START

LINES = {
    "ours": ("tab:blue", "-", 2.2),
    "average": ("tab:orange", "-", 1.2),
    "fixed": ("tab:green", "-", 1.2),
    "window": ("tab:red", "--", 1.2),
    "gradient": ("0.6", ":", 1.0),
    "certified": ("0.4", ":", 1.0),
    "recent": ("0.2", ":", 1.0),
    BEST: ("black", "-", 1.0),
}


def draw(rows: Iterable[Record], path: Path) -> None:
    """Above the regret, below the AUC, a column for each drift; mean over streams."""
    rows = list(rows)
    figure = new_figure(15, 7)
    axes = figure.subplots(2, len(DRIFTS), sharex=True, squeeze=False)
    for column, drift in zip(axes.T, DRIFTS, strict=True):
        here = [row for row in rows if row["drift"] == drift]
        column[0].set_title(f"drift: {drift}")
        if here:
            _regrets(column[0], here)
            _aucs(column[1], here)
        column[1].set_xlabel("rows")
    axes[0][0].set_ylabel("loss beyond that of the best fixed weights")
    axes[1][0].set_ylabel("AUC of a block, %")
    handles, names = axes[0][0].get_legend_handles_labels()
    if handles:
        figure.legend(handles, names, loc="outside lower center", ncols=len(names), frameon=False)
    figure.savefig(path, dpi=110)


def _along(rows: list[Record], of: str, method: str) -> Host:
    """The mean curve over streams; blocks of one class are left out."""
    curves = np.array([row[of][method] for row in rows], dtype=np.float64)
    return np.asarray(np.nanmean(curves, axis=0))


def _places(count: int) -> Host:
    return np.asarray(START + (ROWS - START) * np.arange(1, count + 1) / count)


def _regrets(ax: Any, rows: list[Record]) -> None:
    best = _along(rows, "losses", BEST)
    curves = {name: _along(rows, "losses", name) - best for name in LINES}
    for name, (colour, style, width) in LINES.items():
        ax.plot(_places(len(best)), curves[name], style, color=colour, lw=width, label=name)
    # The average may be off the scale: what is near the best is what one wants to see.
    shown = [curves[name].max() for name in LINES if name not in ("average", "gradient")]
    ax.set_ylim(min(-2.0, 1.1 * min(c.min() for c in curves.values())), 1.6 * max(shown) + 1.0)
    _without_frame(ax)


def _aucs(ax: Any, rows: list[Record]) -> None:
    for name, (colour, style, width) in LINES.items():
        curve = _along(rows, "aucs", name)
        ax.plot(_places(len(curve)), curve, style, color=colour, lw=width)
    _without_frame(ax)


def _without_frame(ax: Any) -> None:
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
