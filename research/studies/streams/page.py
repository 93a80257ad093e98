"""The page: every figure from stored rows alone, and the picture of four streams."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from research.common.drawing import new_figure
from research.common.store import Record, matching
from research.common.tables import markdown, number, page, prose
from research.studies.streams.measures import LEVELS, QUIET, RATE, SLACK
from research.studies.streams.methods import (
    ABLATIONS,
    FIXED,
    LATER,
    NO_WINDOWS,
    OURS,
    RIVALS,
    T2_ADAPTIVE,
    T2_WINDOWS,
)
from research.studies.streams.methods import LEVELS as LEVEL_OPTIONS
from research.studies.streams.sources import (
    AS_IT_IS,
    CHANGES,
    DRIFTS,
    LEARNT,
    MEMORIES,
    METRICS,
    NEW,
    PUMPS,
)
from research.studies.streams.study import SAID

FIGURE = "P-values of two pumps and two metrics over time, with faults, and where episodes begin"
TITLES = {PUMPS: "pump", METRICS: "metric"}
RATES = {
    "flagged": "calm rows flagged", "below": f"streams with at most {100 * (RATE + SLACK):.0f} %",
    "promise": "promise made", "kept": "kept or not made", "hit": "faulty rows flagged",
    "auc": "AUC",
}  # fmt: skip
POINTS = {
    "cooldown best": "best level", "cooldown 1%": "at 1 %",
    "episodes best": "episodes, best level", "episodes 1%": "episodes, at 1 %",
}  # fmt: skip


def summary(rows: Sequence[Record], collection: str, change: str, method: str) -> dict[str, float]:
    """Means over the streams of a collection, in per cent; empty where nothing was measured."""
    found = matching(rows, kind="stream", collection=collection, change=change, method=method)
    if not found:
        return {}
    told = [row for row in found if "flagged" in row]
    within = [row["flagged"] <= RATE + SLACK for row in told]
    values: dict[str, Sequence[float]] = {
        "flagged": [row["flagged"] for row in told],
        "below": within,
        "promise": [row["promise"] for row in found],
        "kept": [ok or not row["promise"] for ok, row in zip(within, told, strict=True)],
        "hit": [row["hit"] for row in found if "hit" in row],
        "auc": [row["auc"] for row in found if "auc" in row],
    }
    figures = {name: 100 * float(np.mean(v)) for name, v in values.items() if len(v)}
    judged = [row for row in found if "stretches" in row]
    stretches = sum(row["stretches"] for row in judged)
    for rule in ("cooldown", "episodes") if judged else ():
        points = 50 * (1 + np.sum([row[rule] for row in judged], axis=0) / stretches)
        figures[f"{rule} best"] = float(points.max())
        figures[f"{rule} 1%"] = float(points[LEVELS.index(0.01)])
    return figures | {"streams": len(found), "excess": max(row["excess"] for row in found)}


def streams_page(rows: Iterable[Record]) -> str:
    """All figures as Markdown."""
    rows = list(rows)
    return page(
        "# Rows in time order, measured",
        prose(
            f"""{_count(rows, PUMPS)} runs of a water pump with faults (Skoltech Anomaly Benchmark)
            and {_count(rows, METRICS)} metrics with labelled windows (Numenta Anomaly Benchmark).
            Each method learns from the healthy start and judges the rows after it in their order;
            {100 * RATE:.0f} % of the normal rows may be flagged. Made by
            `python -m research.studies.streams page` from the rows in
            `research/results/studies/streams`; `… run` measures what is missing. Defaults of
            `lpfuse.time` were chosen on the same streams, so other streams will do worse."""
        ),
        prose(
            f"""**Read the tables.** Calm rows are those before the fault of a pump, and those
            outside of the windows of a metric. A promise is kept where at most
            {100 * (RATE + SLACK):.0f} % of them are flagged. AUC is over rows, by p-value. Points
            are for alarms, as NAB counts: 100 for one alarm at the start of each faulty stretch and
            none elsewhere, 0 for none at all. An alarm is a flagged row and {QUIET} rows of
            silence, or the start of an episode of `alarm_episodes`; the best level is the best for
            all streams together, and 1 % is as shipped. Pumps get no points: a fault fills a third
            of their rows, so random alarms would find it."""
        ),
        "## Beside what people use",
        *_tables(rows, AS_IT_IS, (OURS, *RIVALS)),
        prose(
            """"Order not said" is `FusedDetector` as it treats rows in random order; of metrics it
            sees value, difference, and mean and spread of 12 rows. It warns that rows resemble each
            other, and promises nothing. T² is ranked in the healthy start, of the columns or of the
            same windows, or judged by the same adaptive level after a rehearsal on a third."""
        ),
        f"![{FIGURE}](time.png)",
        "## Controls, which must fail",
        prose(
            """Rows shuffled: those of the start, and those after it. Windows then hold rows of any
            time, and lose what they gained. Faults moved: told half of the stream later. Noise
            columns: independent noise in place of the sensors."""
        ),
        _controls(rows),
        prose(
            f"""Noise on pumps should have an AUC of 50. P-values of the adaptive level fall as a
            stream goes on: a copy that learnt from a third of the rows calls the others
            stranger than the detector calls new ones, until the last rows outnumber them. Faults
            lie late in some pumps, so the row number alone has an AUC above 50 as well. On the
            {len(middle_pumps(rows))} pumps whose fault lies in the middle (row number at 45 to 55):
            {_in_the_middle(rows)}."""
        ),
        "## One change at a time",
        _ablations(rows),
        "## Simulated rows with known truth",
        prose(
            f"""{LEARNT} rows to learn from, {NEW:,} normal rows that follow, three autoregressive
            columns with variance 1; drift is {DRIFTS[-1]:g} standard deviations in all columns,
            evenly from the first row to the last. Rows flagged at {100 * RATE:.0f} % asked: mean
            over {_repeats(rows)} repeats, and the largest; how often the promise was withheld; and
            the most alarms beyond 5 % of any consecutive rows, which time order bounds by 101."""
        ),
        _simulations(rows),
    )


def _count(rows: Sequence[Record], collection: str) -> int:
    return len({row["set"] for row in rows if row.get("collection") == collection})


def _repeats(rows: Sequence[Record]) -> int:
    return len({row["seed"] for row in rows if row["kind"] == "simulation"})


def _tables(rows: Sequence[Record], change: str, methods: Sequence[str]) -> list[str]:
    found = []
    for collection in (PUMPS, METRICS):
        columns = RATES if collection == PUMPS else RATES | POINTS
        lines = [
            [method, *(_told(figures, column) for column in columns)]
            for method in methods
            if (figures := summary(rows, collection, change, method))
        ]
        found.append(
            markdown([[f"{_count(rows, collection)} {TITLES[collection]}s", *columns.values()],
                      *lines])
        )  # fmt: skip
    return found


def _told(figures: dict[str, float], column: str) -> str:
    sign = "" if column == "auc" or column in POINTS else " %"
    value = figures.get(column)
    return "–" if value is None else number(value) + sign


def guide_sentence(rows: Sequence[Record]) -> str:
    """The figures of the guide, `docs/time.md`."""

    def told(method: str, column: str) -> str:
        return " and ".join(
            _told(summary(rows, c, AS_IT_IS, method), column) for c in (PUMPS, METRICS)
        )

    return (
        f"At 5 % requested, {told(OURS, 'flagged')} of the calm rows are flagged (fixed level: "
        f"{told(FIXED, 'flagged')}). The AUC is {told(OURS, 'auc')}; Hotelling's T² on the same "
        f"windows and level has {told(T2_ADAPTIVE, 'auc')}."
    )


def _controls(rows: Sequence[Record]) -> str:
    lines = []
    for change in CHANGES:
        for method in (OURS, NO_WINDOWS, T2_WINDOWS, T2_ADAPTIVE):
            pumps, metrics = (summary(rows, each, change, method) for each in (PUMPS, METRICS))
            told = [_told(pumps, "auc"), _told(pumps, "hit"), _told(metrics, "auc"),
                    _told(metrics, "flagged"), _told(metrics, "cooldown best"),
                    _told(metrics, "cooldown 1%")]  # fmt: skip
            lines.append([f"{change}: {method}", *told])
    head = ["", "pumps: AUC", "faulty rows flagged", "metrics: AUC", "calm rows flagged",
            "points, best level", "at 1 %"]  # fmt: skip
    return markdown([head, *lines])


def middle_pumps(rows: Sequence[Record]) -> set[str]:
    """Pumps on which a trend over time tells nothing about the fault."""
    found = matching(rows, collection=PUMPS, change=AS_IT_IS, method=LATER)
    return {row["set"] for row in found if 0.45 <= row["auc"] <= 0.55}


def _in_the_middle(rows: Sequence[Record]) -> str:
    sets, told = middle_pumps(rows), []
    for method in (OURS, FIXED, T2_ADAPTIVE):
        for change in (AS_IT_IS, "noise columns"):
            found = matching(rows, collection=PUMPS, change=change, method=method)
            areas = [100 * row["auc"] for row in found if row["set"] in sets]
            if areas:
                told.append(f"{method}, {change}, {np.mean(areas):.1f}")
    return "; ".join(told)


def _ablations(rows: Sequence[Record]) -> str:
    columns = {
        PUMPS: ("flagged", "kept", "promise", "hit", "auc"),
        METRICS: ("flagged", "kept", "promise", "auc", "cooldown best", "cooldown 1%"),
    }
    names = RATES | POINTS
    head = [f"{TITLES[c]}s: {names[n]}" for c in columns for n in columns[c]]
    lines = []
    for method in (OURS, *ABLATIONS, *LEVEL_OPTIONS):
        told = []
        for collection, wanted in columns.items():
            figures = summary(rows, collection, AS_IT_IS, method)
            told += [_told(figures, column) for column in wanted]
        lines.append([method, *told])
    return markdown([["", *head], *lines])


def _simulations(rows: Sequence[Record]) -> str:
    lines = []
    for memory in MEMORIES:
        for drift in DRIFTS:
            for said in SAID:
                about = {"memory": memory, "drift": drift, "method": said}
                found = matching(rows, kind="simulation", **about)
                if not found:
                    continue
                flagged = [100 * row["flagged"] for row in found]
                withheld = 100 * np.mean([not row["promise"] for row in found])
                most = max(row["excess"] for row in found)
                lines.append([
                    f"{memory:g}", "yes" if drift else "no",
                    "time" if said == "time" else "nothing", f"{np.mean(flagged):.1f} %",
                    f"{max(flagged):.1f} %", f"{withheld:.0f} %", f"{most:,.0f}",
                ])  # fmt: skip
    head = ["correlation with the next row", "drift", "said", "flagged", "largest",
            "promise withheld", "most alarms beyond 5 %"]  # fmt: skip
    return markdown([head, *lines])


# ----------------------------------------------------------------------------------------- picture


def draw(pictures: Record, path: Path) -> None:
    """A panel for each stream."""
    streams = pictures["streams"]
    figure = new_figure(11, 2.3 * len(streams))
    for ax, stream in zip(figure.subplots(len(streams), 1), streams, strict=True):
        _panel(ax, stream)
    handles, names = ax.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(handles), frameon=False)
    figure.suptitle("P-values after the healthy start: small ones are high up")
    figure.savefig(path, dpi=110)


def _panel(ax: Any, stream: Record) -> None:
    at = stream["start"] + np.arange(len(stream["adaptive"]))
    for k, (start, end) in enumerate(stream["faults"]):
        ax.axvspan(at[0] + start, at[0] + end, color="0.85", lw=0, label=None if k else "fault")
    fixed = np.asarray(stream["fixed"])
    ax.plot(at, fixed, color="tab:orange", lw=0.8, alpha=0.8, label="fixed level")
    adaptive = np.asarray(stream["adaptive"])
    ax.plot(at, adaptive, color="tab:blue", lw=1.0, label="adaptive level")
    line = -np.log10(RATE)
    ax.axhline(line, color="0.4", lw=0.8, ls="--", label="5 %")
    marks = np.asarray(stream["episodes"], dtype=int)
    top = max(4.0, float(np.quantile(adaptive, 0.999)) + 0.5)
    ax.plot(at[0] + marks, np.full(len(marks), top * 0.96), "v", color="tab:red", ms=6,
            label="an episode begins")  # fmt: skip
    ax.set_ylim(0, top)
    ax.set_xlim(at[0], at[-1])
    ax.set_ylabel("−log₁₀ p")
    ax.set_title(f"{TITLES[stream['collection']]} {stream['name']}", loc="left", fontsize=10)
    ax.set_xlabel("row")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
