"""Where things go: the figures of a summary as points and bars of a drawing of 100 by 100."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lpfuse.report._numerals import fixed, number, percent

Summary = dict[str, Any]
Ticks = list[tuple[float, str]]
PERCENTS: Ticks = [(at, str(at)) for at in (0, 25, 50, 75, 100)]
KINDS = {"normal": "normal", "anomalies": "odd", "unlabelled": "unknown"}
P_SHOWN = (1.0, 4 / 3, 2.0, 4.0, 8.0, 32.0, "inf")


def points(curve: Sequence[Sequence[float]]) -> str:
    """A curve in the unit square as points of a drawing of 100 by 100.

    Examples
    --------
    >>> points([[0.0, 0.5], [0.0, 1.0]])
    '0,100 50,0'
    """
    return " ".join(f"{_at(x)},{_at(1 - y)}" for x, y in zip(*curve, strict=True))


def shade(value: float | None) -> str:
    """The class of a correlation's colour."""
    level = 0 if value is None else min(4, round(abs(value) * 4.4))
    return f"{'p' if (value or 0) > 0 else 'm'}{level}"


def _at(share: float) -> str:
    return f"{100 * share:.5g}"


def _ticks(low: float, high: float, count: int = 6) -> Ticks:
    """Round numbers between two others, at their places in per cent."""
    if not high > low:
        return [(50.0, number(low))]
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [
        (100 * (k * step - low) / (high - low), number(k * step, 6)) for k in range(first, last + 1)
    ]


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
        normal, odd = (summary["judged_on"][side] for side in ("normal", "anomalies"))
        fusion = summary["fusion"]
        found |= {
            "base_precision": _at(normal / (normal + odd)),
            "roc_words": f"The fusion has an AUC of {fixed(fusion['auc'])}.",
            "pr_words": "The fusion has an average precision of "
            f"{fixed(fusion['average_precision'])}.",
        }
    return found


def _auc_strip(aucs: list[float], chosen: int) -> dict[str, str]:
    """The AUC along the path, on a scale that does not make much of little."""
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


def histogram(summary: Summary) -> dict[str, Any]:
    """Shares of each kind of rows: known anomalies hang down, the others stand up."""
    scores, judged = summary["scores"], summary["judged_on"]
    edges, kinds = scores["edges"], [kind for kind in KINDS if judged[kind]]
    low, high = edges[0], edges[-1]
    shares = {kind: [count / judged[kind] for count in scores[kind]] for kind in kinds}
    up = max((max(shares[kind]) for kind in kinds if kind != "anomalies"), default=0.0)
    down = max(shares.get("anomalies", [0.0]))
    scale = 0.94 / (up + down)
    zero = up * scale + (0.03 if down else 0.06)
    value = summary["threshold"]["value"]
    at = -1.0 if isinstance(value, str) else (value - low) / (high - low)
    return {
        "kinds": [{"key": KINDS[kind], "name": f"{kind}, {judged[kind]:,} rows"} for kind in kinds],
        "bars": [
            bar
            for kind in reversed(kinds)
            for bar in _bars(kind, [share * scale for share in shares[kind]], zero)
        ],
        "zero": _at(zero),
        "threshold": _at(at) if 0 <= at <= 1 else None,
        "x_ticks": _ticks(low, high),
        "y_ticks": _share_ticks(zero, scale, max(up, down)),
        "words": f"Fused scores from {number(low)} to {number(high)}, as shares of "
        f"{' and of '.join(kinds)}; the threshold is at {number(value)}.",
        "head": ["score from", "to", *kinds],
        "rows": [
            [number(edges[k], 4), number(edges[k + 1], 4), *(scores[kind][k] for kind in kinds)]
            for k in range(len(edges) - 1)
        ],
    }


def _bars(kind: str, heights: list[float], zero: float) -> list[dict[str, str]]:
    width = 1 / len(heights)
    return [
        {
            "key": KINDS[kind],
            "x": _at(k * width),
            "y": _at(zero if kind == "anomalies" else zero - height),
            "width": _at(width),
            "height": _at(height),
        }
        for k, height in enumerate(heights)
        if height > 0
    ]


def _share_ticks(zero: float, scale: float, largest: float) -> Ticks:
    """Shares above and below zero."""
    ticks: Ticks = [(100 * (1 - zero), "0")]
    for place, text in _ticks(0, largest, 4)[1:]:
        height = place / 100 * largest * scale
        label = percent(float(text)).replace(".0 ", " ")
        ticks += [(100 * (1 - zero + side), label) for side in (height, -height)]
    return [(place, text) for place, text in ticks if -1e-9 <= place <= 100 + 1e-9]


def calibration(summary: Summary) -> dict[str, Any] | None:
    """Measured rates of false alarms against those asked for; None without normal rows."""
    entries, rate = summary["calibration"], summary["threshold"]["false_alarm_rate"]
    if not entries:
        return None
    top = max(0.5, *(entry["high"] for entry in entries))

    def root(share: float) -> float:
        return math.sqrt(share / top)

    given = summary["judged_on"]["origin"] == "given"
    how = (
        "How many of the normal rows the model flags, for several rates that could be asked for."
        if given
        else "Each fold’s normal rows against a threshold from those of the other folds: about "
        "what new normal rows will see."
    )
    own = next(entry for entry in entries if entry["asked"] == rate)
    return {
        "words": f"{how} Points on the dotted line are as asked.",
        "label": f"Measured rates of false alarms against those asked for. {percent(rate)} asked, "
        f"{percent(own['measured'])} measured.",
        "ticks": [
            (100 * root(share), f"{100 * share:g}")
            for share in (0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)
            if share <= top
        ],
        "marks": [
            {
                "x": _at(root(entry["asked"])),
                "y": _at(1 - root(entry["measured"])),
                "low": _at(1 - root(entry["low"])),
                "high": _at(1 - root(entry["high"])),
                "own": entry is own,
            }
            for entry in entries
        ],
        "rows": [
            [percent(entry[key]) for key in ("asked", "measured", "low", "high")]
            for entry in entries
        ],
    }


KNOWN = {1: ("normal", "normal"), -1: ("anomaly", "odd"), 0: ("unlabelled", "unknown")}


def strange(summary: Summary) -> dict[str, Any]:
    """The strangest rows, what each detector adds to their scores, their unusual values."""
    rows, names = summary["strangest"], [detector["name"] for detector in summary["detectors"]]
    parts = [[part or 0.0 for part in row["contributions"] or []] for row in rows]
    low = min(sum(min(part, 0.0) for part in row) for row in parts)
    high = max(sum(max(part, 0.0) for part in row) for row in parts)
    span = (high - low) or 1.0
    which = "" if summary["judged_on"]["origin"] == "given" else " of the training data"
    words = (
        f"The lowest fused scores first; rows{which} count from 0. A bar to the left of the line "
        "speaks for an anomaly, one to the right for a normal row, each in its detector’s colour."
    )
    if any(row["features"] for row in rows):
        words += " Below: the values farthest from the median, in robust standard deviations σ."
    return {
        "words": words,
        "rows": [
            {**row, **_explained(row, part, names), "bars": _stacked(part, low, span)}
            for row, part in zip(rows, parts, strict=True)
        ],
        "zero": _at(-low / span),
        "head": ["row", "known as", "score", "p-value", *names],
        "table": [
            [row["row"], KNOWN[row["label"]][0], number(row["score"], 4), number(row["p_value"])]
            + [number(part, 4) for part in row["contributions"]]
            for row in rows
            if row["contributions"] is not None
        ],
    }


def _explained(row: Summary, parts: list[float], names: list[str]) -> dict[str, Any]:
    """What is known of a row, and who says most about it."""
    total = sum(map(abs, parts))
    loudest = sorted(range(len(parts)), key=lambda j: -abs(parts[j]))[:4]
    main = [j for j in loudest if abs(parts[j]) >= 0.02 * total]
    known, key = KNOWN[row["label"]]
    return {
        "known": known,
        "known_key": key,
        "main": [{"j": j, "name": names[j], "value": parts[j]} for j in main],
        "words": f"Contributions: {', '.join(f'{names[j]} {number(parts[j])}' for j in main)}.",
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
