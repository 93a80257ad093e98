"""Time over rows as a figure: lpfuse beside its rivals, with the power law of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from research.common.drawing import new_figure
from research.speed.scaling.figure import COLOURS

from .methods import LOOP, METHODS, OURS, OURS_UNLABELLED
from .results import LARGE, Results

PANELS = {"fit_seconds": "fit", "predict_seconds": "scores or verdicts on {:,} rows"}
MARKS = {OURS: "o", OURS_UNLABELLED: "o", LOOP: "s"}  # other makers' methods: triangles
# A method keeps its colour when another is left out.
COLOUR_OF = dict(zip(METHODS, COLOURS, strict=False))


def draw(results: Results, out: Path) -> None:
    """Two panels, both axes logarithmic: dots are medians, lines power laws."""
    predicted = max((r["predicted"] for r in results.select("growth")), default=0)
    figure = new_figure(9.2, 4.2)
    panels = figure.subplots(1, len(PANELS))
    for panel, (clock, title) in zip(panels, PANELS.items(), strict=True):
        for method in results.methods():
            _line(panel, results, method, clock)
        panel.set(xscale="log", yscale="log", xlabel="rows learnt from")
        panel.set_title(title.format(predicted), fontsize=10)
        panel.grid(visible=True, which="major", color="0.9", lw=0.6)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("CPU seconds, one thread")
    handles, names = panels[0].get_legend_handles_labels()
    if names:
        place = {"loc": "outside lower center", "ncols": len(names)}
        figure.legend(handles, names, frameon=False, fontsize=9, **place)
    figure.savefig(out, dpi=110, metadata={"Software": None})


def _line(panel: Any, results: Results, method: str, clock: str) -> None:
    times, law = results.times(method, clock), results.law(method, clock)
    colour, mark = COLOUR_OF[method], MARKS.get(method, "^")
    style = {"color": colour, "ms": 5, "mfc": "white" if method == OURS_UNLABELLED else colour}
    panel.plot(list(times), list(times.values()), mark, label=method, **style)
    if law is not None:
        line = np.geomspace(max(LARGE, min(times)), max(times), 20)
        panel.plot(line, law.seconds(line)[1], color=colour, lw=1)
