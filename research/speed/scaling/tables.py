"""The page of results and the figures of the guide, from the stored records and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from statistics import median

from research.common.store import Record, write_whole
from research.common.tables import (
    NOTHING,
    gibibytes,
    goal_table,
    measured_with,
    milliseconds,
    page,
    table,
)
from research.speed.solver.problems import NEGATIVE_FRACTION

from .dask_tables import dask_section, plan_section
from .device_tables import DEVICE_NOTES, device_tables
from .figure import SETTING, THREADS, draw
from .goals import goals
from .growth import Interval
from .pass_tables import PASS_KINDS, commits_of, draw_roofline, pass_section
from .results import LARGE, Results, median_of

HEAD = """# Scaling benchmarks

Written by `python -m research.speed.scaling tables` from stored results: do not edit by hand.
How to run, and what exactly is measured: `research/speed/README.md`. What it means for your data:
[scaling](../scaling.md).
"""

CPU_NOTES = """`LpFusion.fit` to a certified 1e-8, checks included, in milliseconds: the median over
p = 32/31, 4/3, 2, 100. *Reads*: the same in units of one read of S with as many threads, timed in
the same process; left out below 32 MiB, where S stays in the cache."""

GROWTH_NOTES = """t = a · n^α · R^β by least squares on the logarithms of the medians above, with
95 % confidence limits. Passes over S alone would be α = β = 1. Work between passes is on a number
of rows that hardly depends on n, and makes α smaller, the more so the fewer rows there are."""

FIGURE_NOTES = f"""![Time over rows and over learners](scaling.png)

Dots are medians over p, lines the power law for n from {LARGE:,} on, bands its 95 % confidence
limits ({SETTING}, {THREADS} thread)."""

ROOFLINE = "scaling-roofline.png"

MAPPED_NOTES = """`np.memmap` of float32 scores, in a process that has seen nothing else, after the
system was asked to drop the file from its cache. *Own*: memory that only this process holds;
*file*: pages of the file that the system keeps mapped while it has room, and drops when it has not.
*Peak*: of both together."""


def write_tables(results: Results, out: Path, guide: Path) -> None:
    """Write the page and its figure, and fill in the measured parts of the guide."""
    write_whole(out, results_page(results))
    draw(results, out.with_suffix(".png"))
    draw_roofline(results, out.with_name(ROOFLINE))
    write_whole(guide, filled(guide.read_text(), results))
    print(f"wrote {out}, its figure and the measured parts of {guide}")


def results_page(results: Results) -> str:
    """The whole page as Markdown."""
    sections = [
        HEAD,
        "## Goals\n\n" + goal_table(goals(results)),
        "## One machine\n\n" + CPU_NOTES + "\n\n" + cpu_table(results),
        page("### Growth", GROWTH_NOTES, growth_table(results), FIGURE_NOTES),
        "### From a file\n\n" + MAPPED_NOTES + "\n\n" + mapped_table(results),
        page("## On a device", DEVICE_NOTES, device_commits(results), device_tables(results)),
        page("## Passes on a device", pass_section(results, ROOFLINE)),
        "## Dask\n\n" + dask_section(results),
        "## On paper\n\n" + plan_section(results),
        "## Measured with\n\n" + environments(results),
    ]
    return page(*sections)


def filled(guide: str, results: Results) -> str:
    """The guide with every measured part, between its two marks, written anew."""

    def replaced(match: re.Match[str]) -> str:
        begin, name, end = match["begin"], match["name"], match["end"]
        return f"{begin}\n{PARTS[name](results).strip()}\n{end}"

    return re.sub(MARKED, replaced, guide, flags=re.DOTALL)


MARKED = r"(?P<begin><!-- measured: (?P<name>[\w-]+) -->)\n.*?\n?(?P<end><!-- end -->)"


def cpu_table(results: Results) -> str:
    threads = sorted({r["threads"] for r in results.select("cpu-solve")})
    rows = []
    for setting in NEGATIVE_FRACTION:
        by_threads = [results.cells(setting=setting, threads=k) for k in threads]
        for n, R in by_threads[0] if by_threads else ():
            found = [cells[n, R] for cells in by_threads if (n, R) in cells]
            times = [milliseconds(median_of(records)) for records in found]
            reads = [_reads(records) for records in found]
            passes = max(r["passes"] for records in found for r in records)
            rows.append([f"{n:,}", str(R), setting, *times, *reads, f"{passes:.1f}"])
    head = [f"ms, {_threads(k)}" for k in threads] + [f"reads, {_threads(k)}" for k in threads]
    return table(["n", "R", "setting", *head, "passes, most"], rows)


def _threads(k: int) -> str:
    return f"{k} thread{'s' * (k > 1)}"


def _reads(records: list[Record]) -> str:
    if 8 * records[0]["n"] * records[0]["R"] < 2**25:
        return "–"
    return f"{median(r['seconds'] / r['read_seconds'] for r in records):.1f}"


def growth_table(results: Results) -> str:
    rows = []
    threads = sorted({r["threads"] for r in results.select("cpu-solve")})
    for least, setting, k in product((LARGE, 10 * LARGE), NEGATIVE_FRACTION, threads):
        law = results.growth(least, setting=setting, threads=k)
        if law is not None:
            limits = [_limits(law.alpha), _limits(law.beta)]
            rows.append([f"{least:,}", setting, _threads(k), *limits])
    return table(["n from", "setting", "threads", "α, of n", "β, of R"], rows)


def _limits(found: Interval) -> str:
    return f"{found.value:.2f} ({found.low:.2f} – {found.high:.2f})"


def mapped_table(results: Results) -> str:
    rows = [
        [
            f"{r['n']:,} × {r['R']} {r['dtype']}, {gibibytes(r['score_bytes'])}",
            r["setting"],
            f"{r['seconds']:.1f}",
            f"{r['passes']:.1f}",
            f"{r['relative_gap']:.1e}",
            *(gibibytes(r[f"{kind}_bytes"]) for kind in ("peak", "own", "mapped")),
        ]
        for r in results.select("cpu-memmap")
    ]
    head = ["scores", "setting", "s", "passes", "gap", "peak", "own", "file"]
    return table(head, rows)


def environments(results: Results) -> str:
    """One list for each device and kind of run."""
    kinds = {
        "CPU": _of_kind(results, "cpu-"),
        "Dask": _of_kind(results, "dask-"),
        "device": _on_device(results),
        "passes on a device": [r for r in results.records if r["kind"] in PASS_KINDS],
    }
    texts = []
    for name, records in kinds.items():
        for device in dict.fromkeys(r["device"] for r in records):
            own = [r for r in records if r["device"] == device]
            threads = sorted({r["threads"] for r in own if "threads" in r})
            told = " and ".join(map(str, threads)) or "of torch"
            texts.append(f"{name}: {device}\n\n" + measured_with(results.environments, own, told))
    return "\n".join(texts) or NOTHING


def _of_kind(results: Results, prefix: str) -> list[Record]:
    return [r for r in results.records if r["kind"].startswith(prefix)]


def _on_device(results: Results) -> list[Record]:
    return [r for r in _of_kind(results, "device-") if r["kind"] not in PASS_KINDS]


def device_commits(results: Results) -> str:
    """Which commit the tables of devices are of: passes were measured at another one."""
    told = commits_of(results, _on_device(results))
    return f"Measured at {told}; goals and the next section are of later runs."


def paths_table(results: Results) -> str:
    """The longest table that each path was measured on."""
    longest = {
        "NumPy, two threads": results.select("cpu-solve", threads=2, R=36, p="4/3"),
        "`np.memmap`": results.select("cpu-memmap"),
        "a GPU": [
            r
            for r in results.select("device-split", form="plain", p="4/3")
            if not r["device"].startswith("torch on")
        ],
        "Dask, four processes": results.select("dask-fit", workers=4, form="parquet"),
    }
    rows = []
    for name, found in longest.items():
        most = max((r["n"] for r in found), default=None)
        for r in found:
            if r["n"] == most:
                size = f"{r['n']:,} × {r['R']} {r.get('dtype', 'float64')}"
                rows.append([name, size, r["setting"], _time(r["seconds"]), f"{r['passes']:.1f}"])
    return table(["path", "scores", "setting", "a fit at p = 4/3", "passes"], rows)


def _time(seconds: float) -> str:
    return f"{1e3 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


PARTS: dict[str, Callable[[Results], str]] = {
    "paths": paths_table,
    "growth": growth_table,
    "mapped": mapped_table,
    "plan": plan_section,
}
