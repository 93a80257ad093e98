"""The picture: asked against measured by number of rows, with the bound that n rows must give."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from research.common.drawing import new_figure
from research.common.store import Record
from research.studies.alarms.cells import HARM, CellFigures, bound, cells_of, kind_of, mean_of
from research.studies.alarms.families import FAMILIES
from research.studies.alarms.measures import RATES
from research.studies.alarms.sources import FRESH, TABLES, Cell
from research.studies.alarms.study import LABELS, SIZES, TABLE_SIZES

COLOURS = {
    "continuous": "tab:blue", "discrete": "tab:orange", "dependent": "tab:green",
    "tables": "black",
}  # fmt: skip
PLACES = sorted({*SIZES, *TABLE_SIZES})  # side by side, whatever their distance
WIDTH = 0.8  # of the bundle of families at a size, in distances between sizes
CEILING = 3.0  # times the rate: what lies above is drawn at the edge


def draw(rows: Iterable[Record], path: Path) -> None:
    """A panel for each rate and number of labels."""
    rows = list(rows)
    version = "now" if any(row["version"] == "now" for row in rows) else "before"
    cells = cells_of(rows, version)
    figure = new_figure(13, 7.5)
    axes = figure.subplots(len(LABELS), len(RATES), sharex=True, squeeze=False)
    for line, labels in zip(axes, LABELS, strict=True):
        for ax, rate in zip(line, RATES, strict=True):
            _panel(ax, [f for f in cells.values() if f.cell.labels == labels], rate)
            ax.set_title(f"{100 * rate:g} % asked, {labels or 'no'} labelled anomalies")
        line[0].set_ylabel("false alarms in %")
    for ax in axes[-1]:
        ax.set_xlabel("normal training rows")
    handles, names = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(handles), frameon=False)
    figure.suptitle("Mean over fits (dots) and 90 % of the fits (lines), for each family of rows")
    figure.savefig(path, dpi=120)


def _panel(ax: Any, cells: list[CellFigures], rate: float) -> None:
    top = CEILING * 100 * rate
    for place, n in enumerate(PLACES):
        low, high = bound(rate, n, FRESH)
        about = "what n rows must give" if place == 0 else None
        ax.bar(place, high - low, WIDTH + 0.1, low, color="0.88", zorder=0, label=about)
    ax.axhline(100 * rate, color="0.4", lw=1, zorder=1, label="asked")
    for kind, colour in COLOURS.items():
        ax.plot([], [], "o-", color=colour, ms=4, lw=1, label=kind)
    for figures in cells:
        if figures.cell.family != HARM:
            _family(ax, figures, rate, top)
    ax.set_xticks(range(len(PLACES)), [f"{n:,}" for n in PLACES])
    ax.set_ylim(0, top)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def _family(ax: Any, figures: CellFigures, rate: float, top: float) -> None:
    """A dot at the mean and a line over 90 % of the fits; a triangle where the mean is off."""
    colour, x = COLOURS[kind_of(figures.cell.family)], _place(figures.cell)
    mean, ends = mean_of(figures.alarms(rate)).value, figures.spread(rate)
    ax.plot([x, x], np.minimum(ends, top), color=colour, lw=1, alpha=0.45, zorder=2)
    mark = "^" if mean > top else "o"
    ax.plot(x, min(mean, top), mark, color=colour, ms=4, zorder=3, clip_on=False)


def _place(cell: Cell) -> float:
    """Families side by side at their size."""
    names = [name for name in (*FAMILIES, TABLES) if name != HARM]
    along = names.index(cell.family) / (len(names) - 1) - 0.5
    return PLACES.index(cell.n) + WIDTH * along
