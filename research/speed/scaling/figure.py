"""Cost growth as a figure: fits on the CPU over n and over R, with the power law and its band."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .results import LARGE, Results, median_of

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
SETTING, THREADS = "negatives", 1


def draw(results: Results, out: Path) -> None:
    """Two panels, both axes logarithmic: time over n, a line for each R; and over R."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    cells = results.cells(setting=SETTING, threads=THREADS)
    times = {cell: median_of(found) for cell, found in cells.items()}
    law = results.growth(setting=SETTING, threads=THREADS)
    figure, panels = plt.subplots(1, 2, figsize=(8.4, 3.6), sharey=True, layout="constrained")
    for axis, panel in enumerate(panels):
        _panel(panel, times, law, axis)
    panels[0].set_ylabel("seconds to a certified 1e-8")
    figure.savefig(out, dpi=110, metadata={"Software": None})
    plt.close(figure)


def _panel(panel: Any, times: dict[tuple[int, int], float], law: Any, axis: int) -> None:
    """Along one size; the other has a colour for each of its values."""
    names = ("rows n", "learners R")
    others = sorted({cell[1 - axis] for cell in times})
    for other, colour in zip(others, COLOURS, strict=False):
        chosen = sorted(cell for cell in times if cell[1 - axis] == other)
        sizes = [cell[axis] for cell in chosen]
        label = f"{'Rn'[axis]} = {other:,}"
        panel.plot(sizes, [times[c] for c in chosen], "o", color=colour, ms=4, label=label)
        lawful = [size for size in sizes if (size if axis == 0 else other) >= LARGE]
        if law is not None and len(lawful) > 1:
            line = np.geomspace(min(lawful), max(lawful), 20)
            at = (line, other) if axis == 0 else (other, line)
            low, middle, high = law.seconds(*at)
            panel.plot(line, middle, color=colour, lw=1)
            panel.fill_between(line, low, high, color=colour, alpha=0.15, lw=0)
    panel.set(xscale="log", yscale="log", xlabel=names[axis])
    panel.grid(visible=True, which="major", color="0.9", lw=0.6)
    panel.spines[["top", "right"]].set_visible(False)
    if others:
        panel.legend(frameon=False, fontsize=8)
