"""The status of a watch as one page of HTML, which is rewritten from time to time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from math import floor, isfinite, log10
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse._files import as_json
from lpfuse._format import fixed, number, percent, quote
from lpfuse.frames.cells import NO_DATE
from lpfuse_cli.alarms import describe_promise
from lpfuse_cli.report.page import rendered, write_page
from lpfuse_cli.times import NUMBER
from lpfuse_cli.watch.batches import MAX_NOTE
from lpfuse_cli.watch.episodes import most_a_day, time_words
from lpfuse_cli.watch.judge import MOST_BACK, Bucket, History, Tally

if TYPE_CHECKING:
    from lpfuse_cli.watch.run import Watch

Figures = dict[str, Any]
MOST_STREAMS = 15  # whose evidence the page shows; chosen by hand
MOST_TICKS = 4
FEWEST = 10  # points of a line by the clock; of fewer, rows are the axis; chosen by hand
ENOUGH = 50  # rows for a share; chosen by hand
ROOM = 0.04  # of the height of a chart, left free above its line and below numbers below 0
FIRST_DAY, LAST_DAY = -719_162, 2_932_896  # since 1970, of the years 1 to 9999
TALLEST = 3  # times the threshold of drift, up to which evidence is drawn
SUREST = 99  # the power of ten from which a figure says no more
ENDS = {
    "source": "the source ended",
    "rows": "as many rows came as were asked for",
    "idle": "no row came for as long as was asked for",
    "signal": "it was stopped by a signal",
    "drift": "drift was declared",
}


def status_of(watch: Watch, now: float) -> Figures:
    """Return the content of the page, as plain values.

    Parameters
    ----------
    watch : Watch
        Running, or ended.
    now : float
        Seconds since 1970.
    """
    tally, status = watch.tally, watch.status
    return {
        "source": watch.source.name,
        "model": watch.model_name,
        "written": now,
        "running": not watch.ended,
        "ended": ENDS.get(watch.ended, ""),
        "starts": tally.starts,
        "rows": tally.rows,
        "judged": tally.judged,
        "alarms": tally.alarms,
        "rate": watch.rate,
        "promised": _promised(watch),
        "promise": describe_promise(watch.model),
        "episodes": _episodes(watch),
        "drift": watch.drift,
        "sentence": status.sentence(),
        "line": -log10(status.level),
        "level": status.level,
        "streams": _streams(status),
        "notes": tally.notes,
        "last_notes": tally.last_notes,
        "last_alarms": tally.last_alarms,
        "remarks": tally.remarks,
        "pvalues": tally.pvalues,
        "latest": tally.latest,
        "width": tally.by_clock.width,
        "buckets": [vars(bucket) for bucket in tally.by_clock.buckets],
    }


def _promised(watch: Watch) -> float | None:
    fused = watch.model
    kept = fused.false_alarm_rate and (not describe_promise(fused) or fused.calibration_promise_)
    return float(fused.false_alarm_rate) if kept else None


def _episodes(watch: Watch) -> Figures | None:
    """Count the episodes of alarms, and what is allowed; None of a model without time."""
    found = watch.episodes
    if found is None:
        return None
    order = None if watch.clock is None else watch.clock.reader.order
    timed = watch.clock is not None and order != NUMBER
    return {
        "count": found.count,
        "a_day": found.a_day() if timed else None,
        "most_a_day": most_a_day(watch.model) if timed else None,
        "latest": [{**each, "when": time_words(each["time"], order)} for each in found.latest],
    }


def _streams(status: Any) -> list[Figures]:
    """Sort streams of numbers: declared changes first, then by evidence."""
    declared = {drift.stream: drift for drift in status.drifts}
    order = sorted(status.evidence, key=lambda name: (name not in declared, -status.evidence[name]))
    return [
        {
            "name": name,
            "evidence": status.evidence[name],
            "shift": status.shifts.get(name),
            "spread": status.spreads.get(name),
            "what": declared[name].what if name in declared else None,
            "since": declared[name].since if name in declared else None,
        }
        for name in order[:MOST_STREAMS]
    ]


def write_status(path: Path, watch: Watch, seconds: float) -> None:
    """Replace the page in one step.

    Parameters
    ----------
    path, watch : path, Watch
        The file, and the watch that it shows.
    seconds : float
        After which a browser reloads it, while the watch runs.
    """
    now = time()
    status = as_json(status_of(watch, now), infinite=False)
    axis = axis_of(watch.tally, watch.times.found)
    write_page(
        rendered(
            "watch.html",
            status,
            styles=["page.css", "watch.css"],
            scripts=[],
            refresh=max(1, round(seconds)) if status["running"] else None,
            headline=_headline(status),
            tiles=_tiles(status),
            charts=_charts(axis, status),
            axis=axis,
            histogram=_histogram(status),
            alarm_columns=_alarm_columns(status["last_alarms"]),
            moment=_moment,
            figure=number,
            power=_power,
            shown=_shown,
        ),
        path,
    )


def write_metrics(path: Path, watch: Watch) -> None:
    """Write the counts in the text format of Prometheus; the file appears whole."""
    tally, status = watch.tally, watch.status
    evidence = max((each for each in status.evidence.values() if isfinite(each)), default=0.0)
    found: list[tuple[str, str, str, float]] = [
        ("rows_total", "counter", "Rows that came.", tally.rows),
        ("judged_total", "counter", "Rows that were scored.", tally.judged),
        ("alarms_total", "counter", "Rows that were called anomalies.", tally.alarms),
        ("not_judged_total", "counter", "Notes on rows that were not scored.", tally.noted),
        ("starts_total", "counter", "Starts of the watch.", tally.starts),
        ("drift", "gauge", "1 once drift is declared.", float(watch.drift is not None)),
        ("drift_evidence", "gauge", "The most evidence, as a decimal logarithm.", evidence),
        ("running", "gauge", "1 while it runs.", float(not watch.ended)),
        ("written_seconds", "gauge", "When this was written, since 1970.", round(time(), 3)),
    ]
    if watch.episodes is not None:
        told = "Episodes of alarms."
        found.insert(3, ("episodes_total", "counter", told, watch.episodes.count))
    lines = [
        f"# HELP lpfuse_watch_{name} {told}\n# TYPE lpfuse_watch_{name} {kind}\n"
        f"lpfuse_watch_{name} {value:.15g}\n"
        for name, kind, told, value in found
    ]
    write_page("".join(lines), path)


def _headline(status: Figures) -> str:
    if status["drift"]:
        return f"Drift: {status['drift']['kind']}"
    return "No drift so far" if status["rows"] else "No row so far"


def _tiles(status: Figures) -> list[tuple[str, str, str]]:
    share = status["alarms"] / status["judged"] if status["judged"] else None
    promised = status["promised"]
    noted = sum(status["notes"].values())
    late = f"{status['rate']:,.0f} a second of late"
    asked = f"{percent(share, 2)} of rows judged"
    if promised is not None:
        asked += f"; {percent(promised)} of normal rows were promised"
    tiles = [("rows", f"{status['rows']:,}", late if status["running"] else "in all")]
    tiles.append(("alarms", f"{status['alarms']:,}", asked.replace(" %", "\u00a0%")))
    if (episodes := status["episodes"]) is not None:
        a_day = episodes["a_day"]
        beside = "alarms that belong together"
        if episodes["most_a_day"] is not None:
            beside = f"at most {episodes['most_a_day']:,.0f} a day are allowed to be false"
            beside = beside if a_day is None else f"{number(a_day)} a day; {beside}"
        tiles.append(("episodes", f"{episodes['count']:,}", beside))
    most = max((each["evidence"] for each in status["streams"]), default=None)
    return [
        *tiles,
        ("evidence of drift", _power(most), f"drift is declared from {_power(status['line'])} on"),
        ("not judged", f"{noted:,}", "notes, see below" if noted else "every row could be read"),
    ]


def _power(evidence: float | None) -> str:
    if evidence is None:
        return "–"
    return f"10^{fixed(evidence, 1)}" if evidence < SUREST else f"above 10^{SUREST}"


# ----------------------------------------------------------------------------------------- figures


class Axis(NamedTuple):
    """What charts are drawn along: time as rows tell it, rows, or time as they were judged.

    Attributes
    ----------
    title, label, point : str
        Over what, what the axis says, and what a point of a chart is.
    buckets : list of n Bucket
        What is drawn.
    xs : list of n floats
        Where, in percent.
    joined : list of n bool
        Whether a line leads to each from the one before.
    ticks : list of (float, str)
        Where, in percent, and what they say.
    seconds : float
        Of a bucket; 0 where buckets are of rows.
    """

    title: str
    label: str
    point: str
    buckets: list[Bucket]
    xs: list[float]
    joined: list[bool]
    ticks: list[tuple[float, str]]
    seconds: float = 0.0


def axis_of(tally: Tally, times: Sequence[str] | None) -> Axis:
    """Choose the axis: a column of times, where rows come in its order, says most.

    Rows that were judged within seconds, as those of a file are, would be a dot by the clock: the
    row is the axis until the clock has a line of `FEWEST` points.

    Parameters
    ----------
    tally : Tally
        Counts of the stream.
    times : (str, str) or None
        As `RowTimes` found them.
    """
    clock = tally.by_clock
    joined = [False] + [b.start - a.start <= 3 * clock.width for a, b in pairwise(clock.buckets)]
    if tally.by_row is not None and len(tally.by_row.buckets) > 1:
        by_row = _drawn(tally.by_row)
        rows = f"{by_row.width:,.0f} rows" if by_row.width > 1 else "one row"
        shown = rows, by_row.buckets
        if times is not None:
            name, order = times
            moments = _in_order(by_row.buckets, is_date=order != NUMBER)
            if moments is not None:
                xs, ticks, when = _over(moments, order)
                label = f"time of the rows, column {quote(name)}{when}"
                return Axis("Over time", label, *shown, xs, [True] * len(xs), ticks)
        if sum(joined) < FEWEST:
            xs = [min(100.0, 100 * (b.start + by_row.width) / tally.rows) for b in by_row.buckets]
            ticks = [(100 * at / tally.rows, f"{at:,.0f}") for at in _ticks(0.0, tally.rows)]
            return Axis("Over the rows", "row of the stream", *shown, xs, [True] * len(xs), ticks)
    start = clock.buckets[0].start if clock.buckets else 0.0
    end = clock.buckets[-1].start + clock.width if clock.buckets else 1.0
    xs = [100 * (b.start + clock.width / 2 - start) / (end - start) for b in clock.buckets]
    label, point = "time at which rows were judged, UTC", f"{number(clock.width)} s"
    ticks = _time_ticks(start, end)
    return Axis("Over time", label, point, clock.buckets, xs, joined, ticks, clock.width)


def _drawn(history: History) -> History:
    """Return a copy with enough rows for a share in each bucket, where there are many buckets."""
    found = History([replace(each) for each in history.buckets], history.width)
    while found.width < ENOUGH and len(found.buckets) > 4 * FEWEST:
        found.widen()
    return found


def _in_order(buckets: list[Bucket], is_date: bool) -> Host | None:
    """Return growing times of buckets; None where too many are unknown or step back.

    The median of three in a row drops times of a clock that was wrong for a moment.
    """
    times = np.array([np.nan if each.time is None else each.time for each in buckets])
    known = (times > FIRST_DAY) & (times < LAST_DAY) if is_date else np.isfinite(times)
    if known.mean() < 1 - MOST_BACK:
        return None
    places = np.arange(len(times))
    times = np.interp(places, places[known], times[known])
    middle = times.copy()
    middle[1:-1] = np.median([times[:-2], times[1:-1], times[2:]], axis=0)
    found: Host = np.maximum.accumulate(middle)
    torn = np.mean(found != times) > MOST_BACK
    return None if torn or found[0] == found[-1] else found


def _over(times: Host, order: str) -> tuple[list[float], list[tuple[float, str]], str]:
    """Return places in percent, ticks, and the dates in words, of growing times."""
    start, end = float(times[0]), float(times[-1])
    xs = (100 * (times - start) / (end - start)).tolist()
    if order == NUMBER:
        inside = [at for at in _ticks(start, end) if at <= end]
        ticks = [(100 * (at - start) / (end - start), f"{at:,.15g}") for at in inside]
        return xs, ticks, ""
    days = list(dict.fromkeys(f"{_utc(86_400 * day):%d %B %Y}" for day in (start, end)))
    when = "" if order == NO_DATE else f", {' to '.join(days)}"
    return xs, _time_ticks(86_400 * start, 86_400 * end), when


def _charts(axis: Axis, status: Figures) -> list[Figures]:
    """Draw lines along an axis, as paths in a square of 100 by 100."""
    if not axis.buckets:
        return []

    def chart(
        title: str, words: str, value: Callable[[Bucket], float | None], line: float | None,
        low: float, text: Callable[[float], str], line_words: str = "",
    ) -> Figures:  # fmt: skip
        found = [value(bucket) for bucket in axis.buckets]
        known = [each for each in found if each is not None]
        tops = [*known, line * 1.25 if line else low + 1e-9]
        bottom = min([low, *known])
        high = max([*tops, low + 1e-9])
        ticks = _ticks(bottom, high)
        high, room = max(high, ticks[-1]), ROOM * (high - bottom)
        low, high = bottom - room * (bottom < low), high + room

        def y(each: float) -> float:
            return 100 - 100 * (each - low) / (high - low)

        lines: list[list[str]] = []
        pen = False
        for x, each, joined in zip(axis.xs, found, axis.joined, strict=True):
            pen = pen and joined
            if each is not None:
                lines += [] if pen else [[]]
                lines[-1].append(f"{x:.2f} {y(each):.2f}")
                pen = True
        return {
            "title": title,
            "words": words,
            "path": "".join(f"M{'L'.join(each)}" for each in lines if len(each) > 1),
            "points": "".join(f"M{each[0]}h0.01" for each in lines if len(each) == 1),
            "line": None if line is None else f"M0 {y(line):.2f}H100",
            "line_words": line_words,
            "xs": axis.ticks,
            "ys": [(100 - y(tick), text(tick)) for tick in ticks],
            "latest": text(known[-1]) if known else "nothing",
        }

    promised, most = status["promised"], TALLEST * status["line"]
    charts = [
        chart(
            "Evidence of drift", "the strongest of all streams, as a power of ten",
            lambda b: min(b.evidence, most) if isfinite(b.evidence) else None, status["line"], 0.0,
            lambda v: fixed(v, 1), f"drift is declared; above {number(most)} all is drawn alike",
        ),
        chart(
            "Alarms", "share of the rows judged",
            lambda b: b.alarms / b.judged if b.judged else None, promised, 0.0,
            percent, "promised for normal rows",
        ),
    ]  # fmt: skip
    if axis.seconds:
        charts.append(chart(
            "Rows", "a second, those included that could not be judged",
            lambda b: b.rows / axis.seconds, None, 0.0,
            lambda v: f"{v:,.0f}" if v >= 10 else number(v),
        ))  # fmt: skip
    elif status["notes"]:
        charts.append(chart(
            "Notes", "as a share of the rows that came, see below",
            lambda b: b.noted / b.rows, None, 0.0, percent,
        ))  # fmt: skip
    return charts


def _time_ticks(start: float, end: float) -> list[tuple[float, str]]:
    long, days = end - start > 100 * 86_400, end - start > 86_400
    pattern = "%d %b %H:%M" if days else "%H:%M:%S" if end - start < 600 else "%H:%M"
    pattern = "%d %b %Y" if long else pattern
    return [
        (100 * share, f"{_utc(start + share * (end - start)):{pattern}}") for share in (0, 0.5, 1)
    ]


def _utc(seconds: float) -> datetime:
    return datetime.fromtimestamp(round(seconds), UTC)


def _histogram(status: Figures) -> Figures | None:
    """Draw p-values of the latest rows as bars, of all as a line; uniform ones are at 1."""
    bars, every = status["latest"], status["pvalues"]
    if not sum(bars):
        return None
    n = len(bars)
    tall, line = ([n * each / sum(counts) for each in counts] for counts in (bars, every))
    top = max(2.0, *tall, *line)
    rects = [
        {"x": 100 * k / n + 0.4, "width": 100 / n - 0.8, "y": 100 - 100 * h / top,
         "height": 100 * h / top}
        for k, h in enumerate(tall)
    ]  # fmt: skip
    steps = "".join(
        f"{'L' if k else 'M'}{100 * k / n:.2f} {100 - 100 * h / top:.2f}h{100 / n:.2f}"
        for k, h in enumerate(line)
    )
    ticks = _ticks(0.0, top)
    return {
        "bars": rects,
        "steps": steps,
        "even": f"M0 {100 - 100 / top:.2f}H100",
        "xs": [(100 * share, f"{share:g}") for share in (0, 0.25, 0.5, 0.75, 1)],
        "ys": [(100 * tick / top, number(tick)) for tick in ticks if tick <= top],
        "lowest": tall[0],
    }


def _ticks(low: float, high: float) -> list[float]:
    """Return round numbers between two."""
    raw = (high - low) / MOST_TICKS
    power = 10.0 ** floor(log10(raw))
    step = next(f * power for f in (1, 2, 5, 10) if f * power >= raw * (1 - 1e-9))
    first = -floor(-low / step + 1e-9)
    count = floor(high / step + 1e-9) - first + 1
    return [(first + k) * step for k in range(max(1, count))]


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%d %B %Y, %H:%M:%S UTC")


def _alarm_columns(alarms: list[Figures]) -> list[str]:
    names = dict.fromkeys(name for row in alarms for name in row)
    return [name for name in names if name not in ("decision", "time")]


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return number(value)
    return f"{value:,}" if isinstance(value, int) else str(value)[:MAX_NOTE]
