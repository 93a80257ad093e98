"""The status of a watch as one page of HTML, which is rewritten from time to time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from math import floor, isfinite, log10
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any

from lpfuse._files import as_json
from lpfuse._format import fixed, number, percent
from lpfuse_cli.report.page import rendered, write_page
from lpfuse_cli.watch.batches import MAX_NOTE
from lpfuse_cli.watch.judge import Bucket, Tally

if TYPE_CHECKING:
    from lpfuse_cli.watch.run import Watch

Figures = dict[str, Any]
MOST_STREAMS = 15  # whose evidence the page shows; chosen by hand
MOST_TICKS = 4
TALLEST = 3  # times the threshold of drift, up to which evidence is drawn
SUREST = 99  # the power of ten from which a figure says no more
ENDS = {
    "source": "the source ended",
    "rows": "as many rows came as were asked for",
    "idle": "no row came for as long as was asked for",
    "signal": "it was told to end",
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
        "width": tally.width,
        "buckets": [vars(bucket) for bucket in tally.buckets],
    }


def _promised(watch: Watch) -> float | None:
    fused = watch.model
    return float(fused.false_alarm_rate) if fused.false_alarm_rate else None


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
    write_page(
        rendered(
            "watch.html",
            status,
            styles=["page.css", "watch.css"],
            scripts=[],
            refresh=max(1, round(seconds)) if status["running"] else None,
            headline=_headline(status),
            tiles=_tiles(status),
            charts=_charts(watch.tally, status, now),
            histogram=_histogram(status),
            alarm_columns=_alarm_columns(status["last_alarms"]),
            moment=_moment,
            of_time="time, UTC",
            figure=number,
            power=_power,
            shown=_shown,
        ),
        path,
    )


def _headline(status: Figures) -> str:
    if status["drift"]:
        return f"Drift: {status['drift']['kind']}"
    return "No drift so far" if status["rows"] else "No row so far"


def _tiles(status: Figures) -> list[tuple[str, str, str]]:
    share = status["alarms"] / status["judged"] if status["judged"] else None
    promised = status["promised"]
    noted = sum(status["notes"].values())
    asked = f"{percent(share, 2)} of rows judged"
    if promised is not None:
        asked += f"; {percent(promised)} of normal rows were promised"
    most = max((each["evidence"] for each in status["streams"]), default=None)
    return [
        ("rows", f"{status['rows']:,}", f"{status['rate']:,.0f} a second of late"),
        ("alarms", f"{status['alarms']:,}", asked),
        ("evidence of drift", _power(most), f"drift is declared from {_power(status['line'])} on"),
        ("not judged", f"{noted:,}", "notes, see below" if noted else "every row could be read"),
    ]


def _power(evidence: float | None) -> str:
    if evidence is None:
        return "–"
    return f"10^{fixed(evidence, 1)}" if evidence < SUREST else f"above 10^{SUREST}"


# ----------------------------------------------------------------------------------------- figures


def _charts(tally: Tally, status: Figures, now: float) -> list[Figures]:
    """Draw three lines over time, as paths in a square of 100 by 100."""
    buckets, width = tally.buckets, tally.width
    if not buckets:
        return []
    start = buckets[0].start
    end = max(buckets[-1].start + width, start + width)
    xs = _time_ticks(start, end)

    def chart(
        title: str, words: str, value: Callable[[Bucket], float | None], line: float | None,
        low: float, text: Callable[[float], str], line_words: str = "",
    ) -> Figures:  # fmt: skip
        found = [value(bucket) for bucket in buckets]
        known = [each for each in found if each is not None]
        tops = [*known, line * 1.25 if line else low + 1e-9]
        low = min([low, *known])
        high = max([*tops, low + 1e-9])
        ticks = _ticks(low, high)
        high = max(high, ticks[-1])

        def y(each: float) -> float:
            return 100 - 100 * (each - low) / (high - low)

        path, pen = [], False
        for place, (bucket, each) in enumerate(zip(buckets, found, strict=True)):
            gap = place and bucket.start - buckets[place - 1].start > 3 * width
            if each is None or gap:
                pen = False
            if each is not None:
                x = 100 * (bucket.start + width / 2 - start) / (end - start)
                path.append(f"{'L' if pen else 'M'}{x:.2f} {y(each):.2f}")
                if not pen:
                    path.append("h0.01")  # so that a single point is visible
                pen = True
        return {
            "title": title,
            "words": words,
            "path": "".join(path),
            "line": None if line is None else f"M0 {y(line):.2f}H100",
            "line_words": line_words,
            "xs": xs,
            "ys": [(100 - y(tick), text(tick)) for tick in ticks],
            "latest": text(known[-1]) if known else "nothing",
        }

    promised, most = status["promised"], TALLEST * status["line"]
    return [
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
        chart(
            "Rows", "a second, those included that could not be judged",
            lambda b: b.rows / width, None, 0.0, lambda v: f"{v:,.0f}" if v >= 10 else number(v),
        ),
    ]  # fmt: skip


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


def _time_ticks(start: float, end: float) -> list[tuple[float, str]]:
    days = end - start > 86_400
    pattern = "%d %b %H:%M" if days else "%H:%M:%S" if end - start < 600 else "%H:%M"
    return [
        (100 * share, f"{datetime.fromtimestamp(start + share * (end - start), UTC):{pattern}}")
        for share in (0, 0.5, 1)
    ]


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
