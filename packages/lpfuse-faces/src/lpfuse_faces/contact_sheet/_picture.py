"""A contact sheet as one picture, drawn by matplotlib."""

from __future__ import annotations

import warnings
from io import BytesIO
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from lpfuse._format import number, shortened
from lpfuse.plots.drawing import COLOURS, INK, PLAIN, label_bars
from lpfuse_faces._extras import needed
from lpfuse_faces.contact_sheet._contents import MOST_FRAMES, ContactSheet, Shown, bar_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

WIDTH = 12.0  # inches, of which a column of pictures has a sixth
DPI = 120
TITLED = 1.2  # height of a frame with its title, in widths of it
BAR = 0.27  # height of a bar, in inches
LETTERS, LEADING = 140, 1.5  # of a line of text: how many, and its height in sizes of its letters
BLUE, ORANGE = COLOURS[0], COLOURS[5]  # for genuine and for manipulated, as on the report's page
Line = tuple[str, float, dict[str, Any]]
REGION_COLOURS = (COLOURS[4], COLOURS[1], COLOURS[3])


def png(sheet: ContactSheet) -> bytes:
    """Return the picture as the content of a file.

    Parameters
    ----------
    sheet : ContactSheet
        What to show.
    """
    content = BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a name in any script is no mistake
        figure(sheet).savefig(content, format="png", dpi=DPI, metadata={"Software": "lpfuse"})
    return content.getvalue()


def figure(sheet: ContactSheet) -> Figure:
    """Return the sheet as a figure that belongs to no window.

    Parameters
    ----------
    sheet : ContactSheet
        What to show.
    """
    needed("matplotlib", "Drawing a contact sheet")
    from matplotlib.figure import Figure

    head = _head(sheet)
    heights = [sum(size * LEADING / 72 for _, size, _ in head) + 0.3]
    if sheet.shown:
        column, regions = WIDTH / MOST_FRAMES, len(sheet.shown[0].regions)
        bars = max(BAR * len(sheet.learners), 2.8 + BAR * len(sheet.sets))
        heights += [column * (TITLED + 0.5 * regions), 1.0 + bars]
    drawn = Figure((WIDTH, sum(heights)))
    parts = drawn.subfigures(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0]
    _write_head(parts[0], head, heights[0])
    if sheet.shown:
        for place, shown in enumerate(sheet.shown):
            _draw_frame(parts[1], shown, place, heights[1] / column)
        _draw_figures(parts[2], sheet, heights[2])
    return drawn


def _head(sheet: ContactSheet) -> list[Line]:
    """Lines of text: what they say, their size in points, their look."""
    colour = {"forged": ORANGE, "genuine": BLUE}.get(sheet.verdict.verdict, INK)
    frame = {"facecolor": "#FBE3D6", "edgecolor": ORANGE, "boxstyle": "round,pad=0.25"}
    sentences = [line for text in sheet.explained.sentences() for line in wrap(text, LETTERS)]
    return [
        (shortened(sheet.verdict.name, 90), 11, {"color": INK}),
        (sheet.headline, 19, {"color": colour, "weight": "bold"}),
        *((line, 10.5, {"color": INK}) for line in sentences),
        *(
            (f" Beware: {text}. ", 12, {"fontsize": 10, "bbox": frame})
            for text in sheet.verdict.warnings
        ),
    ]


def _write_head(part: SubFigure, lines: list[Line], height: float) -> None:
    y = height - 0.16
    for text, size, look in lines:
        style: dict[str, Any] = {"fontsize": size, "va": "top"} | look | PLAIN
        part.text(0.02, y / height, text, **style)
        y -= size / 72 * LEADING


def _draw_frame(part: SubFigure, shown: Shown, place: int, height: float) -> None:
    """Draw a column: the frame with detections, then each region and its spectrum.

    Sizes are in columns: `height` is that of all, 1 the width of this one.
    """

    def axes(x: float, y: float, side: float, gap: float = 0.03) -> Axes:
        wide, high = 1 / MOST_FRAMES, 1 / height
        ax = part.add_axes(
            ((place + x + gap) * wide, (y + gap) * high, (side - 2 * gap) * wide,
             (side - 2 * gap) * high)
        )  # fmt: skip
        ax.set_axis_off()
        return ax

    top = height - TITLED
    ax = axes(0, top, 1)
    ax.imshow(shown.cutout, interpolation="lanczos")
    _mark_face(ax, shown)
    ax.set_title(_caption(shown), fontsize=9, pad=3, color=INK, **PLAIN)
    for row, (region, patch) in enumerate(shown.regions.items()):
        y = top - 0.5 * (row + 1)
        ax = axes(0, y, 0.5, 0.015)
        ax.imshow(patch, cmap="gray", vmin=0, vmax=255)
        colour = REGION_COLOURS[row % len(REGION_COLOURS)]
        frame = {"facecolor": "white", "edgecolor": colour, "boxstyle": "square,pad=0.2"}
        ax.text(
            0.04, 0.95, region, transform=ax.transAxes, fontsize=7, va="top", bbox=frame, **PLAIN
        )
        axes(0.5, y, 0.5, 0.015).imshow(shown.spectra[region], cmap="cividis", vmin=0, vmax=1)


def _caption(shown: Shown) -> str:
    told = f"{shown.time:.2f} s, score {number(shown.score)}"
    return f"{shown.remark}\n{told}" if shown.remark else told


def _mark_face(ax: Axes, shown: Shown) -> None:
    """Box, landmarks and regions; lines end at the edge of the picture."""
    from matplotlib.patches import Polygon, Rectangle

    limits = ax.get_xlim(), ax.get_ylim()
    x1, y1, x2, y2 = shown.box
    ax.add_patch(Rectangle((x1, y1), x2 - x1, y2 - y1, fill=False, color="white", linewidth=1.6))
    for colour, corners in zip(REGION_COLOURS, shown.outlines.values(), strict=False):
        ax.add_patch(Polygon(corners, fill=False, color=colour, linewidth=1.1))
    ax.plot(*shown.landmarks.T, "o", color="white", markeredgecolor="black", markersize=3.5)
    ax.set_xlim(limits[0])
    ax.set_ylim(limits[1])


def _draw_figures(part: SubFigure, sheet: ContactSheet, height: float) -> None:
    """Draw the score over time, and its contributions."""
    below, above, between = 0.55 / height, 0.42 / height, 1.05 / height
    if not sheet.learners:
        _draw_time(part.add_axes((0.065, below, 0.9, 1 - above - below)), sheet)
        return
    sets = BAR * (len(sheet.sets) + 0.5) / height
    time = 1 - below - above - between - sets
    _draw_time(part.add_axes((0.065, 1 - above - time, 0.42, time)), sheet)
    by_set = part.add_axes((0.16, below, 0.325, sets))
    _draw_bars(by_set, sheet.sets, "Compared with genuine videos, by features")
    learners = BAR * (len(sheet.learners) + 0.5) / height
    by_learner = part.add_axes((0.66, 1 - above - learners, 0.315, learners))
    _draw_bars(by_learner, sheet.learners, "Compared with genuine videos, by learner")


def _draw_time(ax: Axes, sheet: ContactSheet) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="0.9")
    shown = [(frame.time, frame.score) for frame in sheet.shown]
    ax.plot(*np.transpose(shown), "o", mfc="white", mec=BLUE, ms=7.5)
    ax.plot(sheet.verdict.time, sheet.verdict.frame_scores, "-o", color=BLUE, ms=3.5, lw=1.3)
    solid: dict[str, Any] = {"color": "black", "linewidth": 1.2}
    lines = [(sheet.verdict.score, "video", solid)]
    if np.isfinite(sheet.explained.threshold):
        dashed: dict[str, Any] = {"color": ORANGE, "linewidth": 1.4, "linestyle": "--"}
        lines.append((sheet.explained.threshold, "threshold", dashed))
    highest = max(lines, key=lambda line: line[0])
    for level, name, look in lines:
        ax.axhline(level, **look)
        ax.annotate(
            f"{name} {number(level)}",
            (1, level),
            xycoords=("axes fraction", "data"),
            xytext=(0, 2 if name == highest[1] else -2),
            textcoords="offset points",
            ha="right",
            va="bottom" if name == highest[1] else "top",
            fontsize=8,
            **PLAIN,
        )
    ax.margins(y=0.15)
    ax.set_xlabel("seconds", fontsize=9)
    ax.set_title("Score over time  (high: genuine)", loc="left", fontsize=11)
    ax.tick_params(labelsize=8)


def _draw_bars(ax: Axes, parts: dict[str, float], name: str) -> None:
    values = np.array(list(parts.values()))
    ax.spines[["top", "right"]].set_visible(False)
    colours = np.where(values < 0, ORANGE, BLUE)
    bars = ax.barh(range(len(values)), values, color=colours, height=0.65)
    ax.bar_label(bars, bar_labels(parts), padding=3, fontsize=8, **PLAIN)
    label_bars(ax, [shortened(name, 30) for name in parts])
    ax.margins(x=0.2)
    ax.set_title(name, loc="left", fontsize=11)
    ax.tick_params(labelsize=8)
