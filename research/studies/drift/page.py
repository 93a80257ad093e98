"""The page: false alarms of our monitor at its level, and delays of all watchers at equal ones."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from lpfuse._arrays.operations import Host
from research.common.drawing import new_figure
from research.common.store import Record
from research.common.tables import markdown, page, prose
from research.studies.drift.records import delay

OURS = "lpfuse"
ALARMS = 0.05  # share of the calm streams that cross a line
FEWEST = 20  # calm streams that a line can be told from
CHANGES = {
    "shift": "one column 0.5 σ higher",
    "cluster": "a new kind of normal rows, a fifth of all",
    "dead": "a sensor stuck at a usual value",
    "doubled": "twice as many anomalies, 4 % for 2 %",
}
BASES = {"gauss": "normal columns", "mixed": "heavy tails, counts, zeros, gaps"}
FIGURE = "Share of streams in which each watcher found a change, by rows since it"
COLOURS = ("tab:blue", "tab:orange", "tab:green", "tab:red", "tab:purple", "tab:brown", "0.5")


def read_rows(paths: Iterable[Path]) -> list[Record]:
    """Stored rows."""
    return [json.loads(line) for path in paths for line in path.read_text("utf-8").splitlines()]


def read_more(folder: Path) -> dict[str, list[Record]]:
    """What was measured of our monitor alone, by the name of the file."""
    return {path.stem: json.loads(path.read_text("utf-8")) for path in folder.glob("*.json")}


def drift_page(rows: list[Record], more: dict[str, list[Record]]) -> str:
    """All figures as Markdown."""
    return page(
        "# Drift: false alarms and delays",
        prose(
            "Streams of 10,000 rows of ten columns, one row in fifty an anomaly; 1,000 rows from "
            "before are the reference. A fused detector of three members, fitted to 2,500 others, "
            "scores all of them. Streams stay as they are, or change at row 5,000. Made by "
            "`python -m research.studies.drift run` and `page`."
        ),
        "## False alarms at the stated level",
        prose(
            "Streams that do not change, and for how many of them `DriftMonitor` declared drift at "
            "any time: at most the level, by Ville's inequality. It is well below, for part of the "
            "stakes is on changes after row 10,000, and on all that might have happened."
        ),
        _levels(rows),
        "## Delays at equal false alarms",
        prose(
            f"Each watcher's line is where {100 * ALARMS:.0f} % of its calm streams of the same "
            "base cross it, whatever it promises; so all are compared at false alarms that none "
            "of them can know in advance. Median rows from the change to the alarm; in brackets "
            "the share of streams in which it was found within 5,000 rows, where not in all. The "
            "last line is lpfuse with the line that it promises for 5 %, without calm streams."
        ),
        *(_delays(rows, base) for base in _bases(rows)),
        f"![{FIGURE}](drift.png)",
        *_words(rows),
        *_sizes(more["reference_size"]),
        *_recalibrated(more["recalibration"]),
    )


def _sizes(found: list[Record]) -> list[str]:
    shifts = sorted({row["shift"] for row in found})
    share = {(row["reference"], row["shift"]): row["found"] for row in found}
    lines = [
        [f"{n:,}", *(f"{100 * share[n, shift]:.0f} %" for shift in shifts)]
        for n in sorted({row["reference"] for row in found})
    ]
    return [
        "## Changed from the first row on",
        prose(
            "A shift after calm rows is compared with all of these; one that is there from the "
            "first row with the reference alone, and what its rows leave open is never found. "
            "Share of 40 streams of 20,000 rows, a normal column of ten, level 1 % "
            "(`python -m research.studies.drift more`)."
        ),
        markdown([["rows of the reference", *(f"{shift:g} σ" for shift in shifts)], *lines]),
    ]


def _recalibrated(found: list[Record]) -> list[str]:
    lines = []
    for about in dict.fromkeys((row["move"], row["training"], row["calibration"]) for row in found):
        rows = [r for r in found if (r["move"], r["training"], r["calibration"]) == about]
        fields = ("alarms_before", "alarms_old", "alarms_new", "auc_old", "auc_new")
        means = [100 * np.mean([row[field] for row in rows]) for field in fields]
        gains = 100 * np.array([row["auc_new"] - row["auc_old"] for row in rows])
        error = gains.std(ddof=1) / np.sqrt(len(gains))
        lines.append([
            about[0], f"{about[1]:,}", f"{about[2]:,}", *(f"{mean:.1f} %" for mean in means[:3]),
            f"{means[3]:.1f}", f"{gains.mean():+.1f} ± {error:.1f}",
        ])  # fmt: skip
    seeds = len({row["seed"] for row in found})
    head = ["moved", "training rows", "rows to recalibrate", "alarms before", "old scale",
            "new scale", "AUC, old scale", "gain of a new one"]  # fmt: skip
    return [
        "## Recalibrated",
        prose(
            "The default pool on six normal columns, 5 % asked; alarms of fresh normal rows, and "
            "AUC with anomalies 2.5 σ off in two columns that did not move. Old scale: all rows "
            "set the threshold; new: a third of them sets the scale. Means over "
            f"{seeds} fits, with standard errors of the gain."
        ),
        markdown([head, *lines]),
    ]


def _levels(rows: list[Record]) -> str:
    calm = {base: _calm(rows, OURS, base) for base in _bases(rows)}
    head = ["level", *(f"{BASES[base]}, of {len(found):,}" for base, found in calm.items())]
    lines = []
    for level in (0.1, 0.05, 0.01):
        shares = [np.mean(found >= -np.log10(level)) for found in calm.values()]
        lines.append([f"{100 * level:.0f} %", *(f"{100 * share:.1f} %" for share in shares)])
    return markdown([head, *lines])


def _bases(rows: list[Record]) -> list[str]:
    return [base for base in BASES if any(row["base"] == base for row in rows)]


def _calm(rows: list[Record], watcher: str, base: str) -> Host:
    about = watcher, base, None
    return np.array([r["highest"] for r in rows if (r["watcher"], r["base"], r["change"]) == about])


def watchers_of(rows: list[Record], base: str) -> list[str]:
    """Those that enough calm streams tell a line of, ours first."""
    found = dict.fromkeys(row["watcher"] for row in rows)
    named = [name for name in found if len(_calm(rows, name, base)) >= FEWEST]
    return sorted(named, key=lambda name: (name != OURS, name))


def line_of(rows: list[Record], watcher: str, base: str) -> float:
    """Where the share of calm streams crosses it; by so many streams as there are, not less."""
    calm = _calm(rows, watcher, base)
    return float(np.quantile(calm, 1 - ALARMS, method="higher"))


def delays_of(rows: list[Record], watcher: str, base: str, change: str, line: float) -> Host:
    """Of each stream that was not thought to have changed before it had."""
    about = watcher, base, change
    found = [delay(r, line) for r in rows if (r["watcher"], r["base"], r["change"]) == about]
    return np.array([each for each in found if not np.isnan(each)])


def _delays(rows: list[Record], base: str) -> str:
    head = [BASES[base], "calm streams", *CHANGES.values()]
    lines = [
        [
            name,
            str(len(_calm(rows, name, base))),
            *_line(rows, name, base, line_of(rows, name, base)),
        ]
        for name in watchers_of(rows, base)
    ]
    lines.append(["lpfuse, as promised", "none", *_line(rows, OURS, base, -np.log10(ALARMS))])
    return markdown([head, *lines])


def _line(rows: list[Record], watcher: str, base: str, line: float) -> list[str]:
    return [_told(delays_of(rows, watcher, base, change, line)) for change in CHANGES]


def _told(delays: Host) -> str:
    if not len(delays):
        return "–"
    share = np.mean(np.isfinite(delays))
    median = np.median(delays)
    told = f"{median:,.0f}" if np.isfinite(median) else "over 5,000"
    return told if share == 1 else f"{told} ({100 * share:.0f} %)"


def _words(rows: list[Record]) -> list[str]:
    ahead = [f"{told}: {name} by {by:,.0f} rows" for told, name, by in who_is_ahead(rows)]
    told = "; ".join(ahead) if ahead else "in none of the cells"
    return [
        "## Read with care",
        prose(
            f"Other watchers are ahead, by median, the best of them named: {told}. "
            '"nonconform, sums" is its Shiryaev–Roberts statistic, which has no promise over any '
            'length; "restarted" is its martingale that has one. ADWIN and Page–Hinkley of river '
            "see means alone. Windows are two-sample Kolmogorov–Smirnov tests of the last 500 "
            "rows. The online Cramér–von Mises test of alibi-detect (windows of 100 rows) was run "
            "on 20 calm streams and five of each change, for one takes most of a minute, and told "
            "to the next 20 rows. Rows are independent, made up, and one thing happens to "
            "them at a time."
        ),
        "## What a stream of 10,000 rows costs",
        _costs(rows),
    ]


def who_is_ahead(rows: list[Record]) -> list[tuple[str, str, float]]:
    """What changed, who found it sooner than ours did, by how many rows: medians."""
    found = []
    for base in _bases(rows):
        for change, told in CHANGES.items():
            medians = {
                name: float(np.median(_at_line(rows, name, base, change)))
                for name in watchers_of(rows, base)
            }
            ours = medians.pop(OURS, np.inf)
            best = min(medians, key=lambda name: medians[name], default=None)
            if best is not None and medians[best] < ours:
                found.append((f"{told}, {BASES[base]}", best, ours - medians[best]))
    return found


def _at_line(rows: list[Record], watcher: str, base: str, change: str) -> Host:
    return delays_of(rows, watcher, base, change, line_of(rows, watcher, base))


def _costs(rows: list[Record]) -> str:
    lines = []
    for name in sorted({row["watcher"] for row in rows}, key=lambda name: (name != OURS, name)):
        seconds = [row["seconds"] for row in rows if row["watcher"] == name]
        lines.append([name, f"{np.median(seconds):.1f} s"])
    return markdown([["watcher", "ten columns and the score, one core"], *lines])


def draw(rows: list[Record], path: Path) -> None:
    """A panel for each base and change: the share of streams found, by rows since the change."""
    figure = new_figure(13, 6)
    axes = figure.subplots(len(BASES), len(CHANGES), sharex=True, sharey=True)
    for line, base in zip(axes, BASES, strict=True):
        for ax, (change, told) in zip(line, CHANGES.items(), strict=True):
            _panel(ax, rows, base, change)
            ax.set_title(f"{told}\n{BASES[base]}", fontsize=8)
        line[0].set_ylabel("share of streams found")
    for ax in axes[-1]:
        ax.set_xlabel("rows since the change")
    handles, names = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(path, dpi=120)


def _panel(ax: Any, rows: list[Record], base: str, change: str) -> None:
    for colour, name in zip(COLOURS, watchers_of(rows, base), strict=False):
        delays = _at_line(rows, name, base, change)
        if len(delays):
            at = np.sort(delays[np.isfinite(delays)])
            share = np.arange(1, len(at) + 1) / len(delays)
            width = 2.2 if name == OURS else 1.2
            ax.step([*at, 5000], [*share, share[-1] if len(share) else 0.0], where="post",
                    color=colour, lw=width, label=name)  # fmt: skip
    ax.set_xscale("log")
    ax.set_xlim(10, 5000)
    ax.set_ylim(0, 1.02)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
