"""The charts of the page.

Curves, strips and bars that the slider moves are points of a drawing of 100 by 100, in the same
terms as the script that redraws them (``page.js``), and the bars of single rows are alike. What
stands still is drawn by matplotlib, as the displays of `lpfuse.plots` are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from lpfuse._format import MISSING, fixed, percent, readable
from lpfuse.plots.drawing import INK, SVG_COLOURS, detached_axes, svg
from lpfuse_cli.alarms import KNOWN
from lpfuse_cli.reasons import written

if TYPE_CHECKING:
    from markupsafe import Markup

Summary = dict[str, Any]
Ticks = list[tuple[float, str]]
PERCENTS: Ticks = [(at, str(at)) for at in (0, 25, 50, 75, 100)]
KINDS = {"normal": "normal", "anomalies": "odd", "unlabelled": "unknown"}
P_SHOWN = (1.0, 4 / 3, 2.0, 4.0, 8.0, 32.0, "inf")


def points(curve: Sequence[Sequence[float]]) -> str:
    """Convert a curve in the unit square to points of a drawing of 100 by 100.

    Examples
    --------
    >>> points([[0.0, 0.5], [0.0, 1.0]])
    '0,100 50,0'
    """
    return " ".join(f"{_at(x)},{_at(1 - y)}" for x, y in zip(*curve, strict=True))


def shade(value: float | None) -> str:
    """Return the CSS class of a correlation's colour."""
    level = 0 if value is None else min(4, round(abs(value) * 4.4))
    return f"{'p' if (value or 0) > 0 else 'm'}{level}"


def _at(share: float) -> str:
    return f"{100 * share:.5g}"


def trust(summary: Summary) -> dict[str, Any]:
    """Weights, the path, and the curves."""
    detectors, path = summary["detectors"], summary["path"]
    judged, weighed = bool(summary["comparisons"]), detectors[0]["share"] is not None
    sizes = [abs(detector["share"] or 0) for detector in detectors]
    order = sorted(range(len(detectors)), key=lambda j: (-round(sizes[j], 9), j))
    found: dict[str, Any] = {
        "judged": judged,
        "weighed": weighed,
        "order": order,
        "percents": PERCENTS,
    }
    if path:
        chosen = next(k for k, entry in enumerate(path) if entry["chosen"])
        found |= {
            "chosen": chosen,
            "chosen_at": _at(chosen / (len(path) - 1)),
            "bands": _bands(path, order),
            "p_ticks": [
                (100 * k / (len(path) - 1), entry["label"])
                for k, entry in enumerate(path)
                if entry["p"] in P_SHOWN
            ],
        }
        if judged:
            found["auc_strip"] = _auc_strip([entry["auc"] for entry in path], chosen)
    if judged:
        normal, odd = (summary["judged_on"][side] for side in ("taken_as_normal", "anomalies"))
        fusion = summary["fusion"]
        found |= {
            "base_precision": _at(normal / (normal + odd)),
            "roc_words": f"The fusion has an AUC of {fixed(fusion['auc'])}.",
            "pr_words": "The fusion has an average precision of "
            f"{fixed(fusion['average_precision'])}.",
        }
    return found


def _auc_strip(aucs: list[float], chosen: int) -> dict[str, str]:
    """Draw the AUC along the path, on a scale that does not exaggerate."""
    middle = (min(aucs) + max(aucs)) / 2
    half = max(0.025, 0.6 * (max(aucs) - min(aucs)))
    high = round(min(middle + half, 1.0), 3)
    low = round(high - 2 * half, 3)
    heights = [(auc - low) / (high - low) for auc in aucs]
    along = [k / (len(aucs) - 1) for k in range(len(aucs))]
    return {
        "low": fixed(low),
        "high": fixed(high),
        "points": points([along, heights]),
        "dot": _at(1 - heights[chosen]),
    }


def _bands(path: list[Summary], order: list[int]) -> list[dict[str, Any]]:
    """Shares of the weight, stacked for every p."""
    along = [k / (len(path) - 1) for k in range(len(path))]
    floor = [0.0] * len(path)
    bands = []
    for j in order:
        top = [low + abs(entry["shares"][j]) for low, entry in zip(floor, path, strict=True)]
        bands.append({"j": j, "points": points([along + along[::-1], top + floor[::-1]])})
        floor = top
    return bands


# ------------------------------------------------------------------------------ drawn by matplotlib

# Inches of figures that the page shows 896 pixels wide, or 432: letters are then 12 or 13 pixels
# high, and 9 on a phone, where the wide one can be scrolled.
HISTOGRAM_SIZE, CALIBRATION_SIZE = (8.0, 2.7), (4.2, 4.0)
LETTERS = 8.5  # points
# What rows of a kind look like; the page replaces these colours in the dark.
COLOURS = {"normal": "#4f86b5", "anomalies": "#d55e00", "unlabelled": "#9aa3ad"}
PROPERTIES = {
    "#4f86b5": "--normal",
    "#d55e00": "--odd",
    "#9aa3ad": "--unknown",
    "#0b62a4": "--accent",
}


def histogram(summary: Summary) -> dict[str, Any]:
    """Shares of each kind of rows: known anomalies hang down, the others stand up."""
    scores, judged = summary["scores"], summary["judged_on"]
    edges, kinds = scores["edges"], [kind for kind in KINDS if judged[kind]]
    value = summary["threshold"]["value"]
    words = (
        f"Fused scores from {readable(edges[0])} to {readable(edges[-1])}, as shares of "
        f"{' and of '.join(kinds)}; the threshold is at {readable(value)}."
    )
    ax = _axes(*HISTOGRAM_SIZE)
    for kind in reversed(kinds):  # normal rows in front
        sign = -1 if kind == "anomalies" else 1
        heights = [sign * count / judged[kind] for count in scores[kind]]
        look = {"color": COLOURS[kind], "alpha": 0.7 if kind == "unlabelled" else 1.0}
        # Without a clip path: the page refuses whatever refers to something by url().
        ax.stairs(heights, edges, fill=True, clip_on=False, **look)
    ax.axhline(0, color=INK, linewidth=0.8, clip_on=False)
    if not isinstance(value, str) and edges[0] <= value <= edges[-1]:
        ax.axvline(value, color=INK, linewidth=1.5, linestyle=(0, (4, 3)), clip_on=False)
    told = "fused score: low is strange, high is normal"
    if scores["linear_width"] is not None:
        ax.set_xscale("asinh", linear_width=scores["linear_width"])
        told += " (far from zero on a logarithmic scale)"
    ax.margins(x=0)
    ax.yaxis.set_major_formatter(lambda share, _: f"{100 * abs(share):g} %")
    ax.xaxis.set_major_formatter(lambda score, _: written(score, 6))
    ax.set_xlabel(told, fontsize=LETTERS)
    return {
        "kinds": [{"key": KINDS[kind], "name": f"{kind}, {judged[kind]:,} rows"} for kind in kinds],
        "drawing": _drawn(ax, "histogram", words),
        "head": ["score from", "to", *kinds],
        "rows": [
            [readable(edges[k], 4), readable(edges[k + 1], 4), *(scores[kind][k] for kind in kinds)]
            for k in range(len(edges) - 1)
        ],
    }


def calibration(summary: Summary) -> dict[str, Any] | None:
    """Measured rates of false alarms against those asked for; None without normal rows."""
    entries, rate = summary["calibration"], summary["threshold"]["false_alarm_rate"]
    if not entries:
        return None
    given = summary["judged_on"]["origin"] == "given"
    how = (
        "How many of the normal rows the model flags, for several rates that could be asked for."
        if given
        else "Each fold’s normal rows against a threshold from those of the other folds: about "
        "what new normal rows will see."
    )
    own = next(entry for entry in entries if entry["asked"] == rate)
    label = (
        f"Measured rates of false alarms against those asked for. {percent(rate)} asked, "
        f"{percent(own['measured'])} measured."
    )
    return {
        "words": f"{how} Points on the dotted line are as asked.",
        "drawing": _drawn(_calibration_axes(entries, own), "calibration", label),
        "rows": [
            [percent(entry[key]) for key in ("asked", "measured", "low", "high")]
            for entry in entries
        ],
    }


def _calibration_axes(entries: list[Summary], own: Summary) -> Any:
    """Both scales by square roots, which give the small rates that matter room."""
    ax = _axes(*CALIBRATION_SIZE)
    top = max(0.5, *(entry["high"] for entry in entries))
    shares = (0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)
    ticks = [math.sqrt(share) for share in shares if share <= top]
    names = [f"{100 * share:g}" for share in shares if share <= top]
    ax.set_xticks(ticks, names)
    ax.set_yticks(ticks, names)
    ax.grid(color="0.9", linewidth=0.8, clip_on=False)
    ax.set_axisbelow(True)
    ends = (0, math.sqrt(top))
    ax.plot(ends, ends, color=INK, linewidth=1, linestyle=(0, (1, 3)), clip_on=False)
    for entry in entries:
        x, y, low, high = (math.sqrt(entry[key]) for key in ("asked", "measured", "low", "high"))
        ax.plot([x, x], [low, high], color=INK, linewidth=1, clip_on=False)
        look = {"color": "#0b62a4", "markersize": 8} if entry is own else {"color": INK}
        ax.plot([x], [y], **({"marker": "o", "markersize": 5, "clip_on": False} | look))
    ax.set(xlim=ends, ylim=ends)
    ax.set_xlabel("asked for, % (square-root scales)", fontsize=LETTERS)
    return ax


def _axes(width: float, height: float) -> Any:
    try:
        ax = detached_axes(width, height)
    except ImportError as error:
        raise ImportError(
            'A report needs matplotlib. Install it: pip install "lpfuse[cli]"'
        ) from error
    ax.tick_params(labelsize=LETTERS, length=3)
    return ax


def _drawn(ax: Any, name: str, label: str) -> Markup:
    """Convert the figure to an element of the page; `svg` escapes its texts."""
    from markupsafe import Markup

    drawn = svg(ax.figure, name=name, label=label, colours=SVG_COLOURS | PROPERTIES)
    return Markup(drawn)  # nosec B704 # `svg` escapes the texts


# ---------------------------------------------------------------------------------- the lowest rows

LONGEST = 8  # times the median bar is the longest one that is drawn to scale; by hand


def strange(summary: Summary) -> dict[str, Any]:
    """Draw the rows with the lowest scores, with contributions and reasons."""
    rows, names = summary["strangest"], [detector["name"] for detector in summary["detectors"]]
    parts = [[part or 0.0 for part in row["contributions"] or []] for row in rows]
    # A row that would leave the others no room is drawn smaller, and says so.
    lengths = [sum(map(abs, row)) for row in parts]
    longest = LONGEST * median(lengths) or max(lengths)
    shrunk = [max(1.0, length / longest) if longest else 1.0 for length in lengths]
    drawn = [[part / by for part in row] for row, by in zip(parts, shrunk, strict=True)]
    low = min(sum(min(part, 0.0) for part in row) for row in drawn)
    high = max(sum(max(part, 0.0) for part in row) for row in drawn)
    span = (high - low) or 1.0
    which = "" if summary["judged_on"]["origin"] in ("given", "learnt") else " of the training data"
    words = (
        f"The lowest fused scores first; rows{which} {summary['judged_on']['numbering']}. A bar to "
        "the left of the line speaks for an anomaly, one to the right for a normal row, each in "
        "its detector’s colour."
    )
    if any(row["reasons"] for row in rows):
        words += (
            " Below: the columns that pushed the score down most, with what nine in ten normal rows"
            " hold there, and by how much, ± its standard error (Shapley values)."
        )
    return {
        "words": words,
        "rows": [
            {
                **row,
                **_explained(row, part, names),
                "bars": _stacked(bars, low, span),
                "shrunk": f"{by:,.1f}" if by > 1 else None,
            }
            for row, part, bars, by in zip(rows, parts, drawn, shrunk, strict=True)
        ],
        "zero": _at(-low / span),
        "head": ["row", "known as", "score", "p-value", *names],
        "table": [
            [
                MISSING if row["row"] is None else row["row"],
                KNOWN[row["label"]][0],
                readable(row["score"], 4),
                readable(row["p_value"]),
            ]
            + [readable(part, 4) for part in row["contributions"]]
            for row in rows
            if row["contributions"] is not None
        ],
    }


def _explained(row: Summary, parts: list[float], names: list[str]) -> dict[str, Any]:
    """Describe what is known of a row, and its largest contributions."""
    total = sum(map(abs, parts))
    loudest = sorted(range(len(parts)), key=lambda j: -abs(parts[j]))[:4]
    main = [j for j in loudest if abs(parts[j]) >= 0.02 * total]
    known, key = KNOWN[row["label"]]
    return {
        "known": known,
        "known_key": key,
        "main": [{"j": j, "name": names[j], "value": parts[j]} for j in main],
        "words": f"Contributions: {', '.join(f'{names[j]} {readable(parts[j])}' for j in main)}.",
    }


def _stacked(parts: list[float], low: float, span: float) -> list[dict[str, Any]]:
    """Bars from zero outwards, the largest next to it."""
    bars, ends = [], {True: 0.0, False: 0.0}
    for j in sorted(range(len(parts)), key=lambda j: -abs(parts[j])):
        start = ends[parts[j] > 0]
        end = ends[parts[j] > 0] = start + parts[j]
        if abs(parts[j]) > 1e-3 * span:
            left, right = sorted(((start - low) / span, (end - low) / span))
            bars.append({"j": j, "x": _at(left), "width": _at(right - left)})
    return bars
