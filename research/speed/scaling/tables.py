"""The page of results and the figures of the guide, from the stored records and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from statistics import median

from research.common.store import Record, matching
from research.common.tables import goal_table, measured_with, table
from research.speed.solver.problems import ALL_P, NEGATIVE_FRACTION

from .figure import SETTING, THREADS, draw
from .goals import GIB, goals
from .growth import Interval
from .plan import FETCH_RATE, WORKERS_A_MACHINE, Plan, plan
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

MAPPED_NOTES = """`np.memmap` of float32 scores, in a process that has seen nothing else, after the
system was asked to drop the file from its cache. *Own*: memory that only this process holds;
*file*: pages of the file that the system keeps mapped while it has room, and drops when it has not.
*Peak*: of both together."""

DEVICE_NOTES = """`LpFusion.fit` with scores and labels on the device, in milliseconds: median of
repeats after a warm-up, the device idle at the end. *Judged*: the largest relative gap that plain
torch finds in float64 from the weights and α. *Reads*: in units of one `S @ w` with plain torch."""

DASK_NOTES = """`LpFusion(p=4/3).fit` on a `LocalCluster` of processes with one thread each and a
memory limit of 2 GiB; scheduler and driver share the same {cores} cores, so four workers cannot be
twice as fast as two. *Reductions*: results that came back to the driver, with their size in all.
*Worker*: resident memory at its highest, the largest of all workers. *Gap in memory*: of the
weights on the same rows in memory, against the bound of a fit in memory."""


def write_tables(results: Results, out: Path, guide: Path) -> None:
    """Write the page and its figure, and fill in the measured parts of the guide."""
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page(results))
    draw(results, out.with_suffix(".png"))
    guide.write_text(filled(guide.read_text(), results))
    print(f"wrote {out}, its figure and the measured parts of {guide}")


def page(results: Results) -> str:
    """The whole page as Markdown."""
    sections = [
        HEAD,
        "## Goals\n\n" + goal_table(goals(results)),
        "## One machine\n\n" + CPU_NOTES + "\n\n" + cpu_table(results),
        "### Growth\n\n"
        + GROWTH_NOTES
        + "\n\n"
        + growth_table(results)
        + "\n"
        + FIGURE_NOTES
        + "\n",
        "### From a file\n\n" + MAPPED_NOTES + "\n\n" + mapped_table(results),
        "## On a device\n\n" + DEVICE_NOTES + "\n\n" + device_tables(results),
        "## Dask\n\n" + dask_section(results),
        "## On paper\n\n" + plan_section(results),
        "## Measured with\n\n" + environments(results),
    ]
    return "\n".join(sections)


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
            times = [f"{1e3 * median_of(records):.3g}" for records in found]
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
            f"{r['n']:,} × {r['R']} {r['dtype']}, {r['score_bytes'] / GIB:.2f} GiB",
            r["setting"],
            f"{r['seconds']:.1f}",
            f"{r['passes']:.1f}",
            f"{r['relative_gap']:.1e}",
            *(f"{r[f'{kind}_bytes'] / GIB:.2f} GiB" for kind in ("peak", "own", "mapped")),
        ]
        for r in results.select("cpu-memmap")
    ]
    head = ["scores", "setting", "s", "passes", "gap", "peak", "own", "file"]
    return table(head, rows)


def device_tables(results: Results) -> str:
    """For each device: solves over p, paths and units, scoring, learners."""
    texts = [
        f"### {device}\n\n" + "\n".join(make(results, device) for make in DEVICE_PARTS)
        for device in results.devices("device-solve")
    ]
    return "\n".join(texts) or "Nothing was measured yet.\n"


def solve_table(results: Results, device: str) -> str:
    """One row a table of scores; a column a p."""
    groups: dict[tuple[int, int, str, str], dict[str, Record]] = {}
    for r in results.select("device-solve", device=device):
        groups.setdefault((r["n"], r["R"], r["setting"], r["dtype"]), {})[r["p"]] = r
    rows = []
    for (n, R, setting, dtype), by_p in sorted(groups.items()):
        times = [f"{1e3 * by_p[p]['seconds']:.3g}" if p in by_p else "" for p in ALL_P]
        records = list(by_p.values())
        passes = max(r["passes"] for r in records)
        judged = max(r["judged_gap"] for r in records)
        named = [f"{n:,} × {R}", setting, dtype]
        rows.append([*named, *times, f"{passes:.1f}", f"{judged:.1e}"])
    head = ["scores", "setting", "data", *(f"p = {p}" for p in ALL_P), "passes", "judged"]
    return table(head, rows)


def unit_table(results: Results, device: str) -> str:
    rows = []
    for unit in results.select("device-units", device=device):
        where = {name: unit[name] for name in ("device", "n", "R", "setting", "dtype")}
        solves = results.select("device-solve", **where)
        paths = results.select("device-path", **where)
        reads = _over([r["seconds"] for r in solves], unit["read_seconds"])
        path = [f"{1e3 * paths[-1]['seconds']:.3g}", f"{paths[-1]['relative_gap']:.1e}"]
        rows.append(
            [
                f"{unit['n']:,} × {unit['R']}",
                unit["setting"],
                f"{1e3 * unit['read_seconds']:.3g}",
                f"{1e3 * unit['gram_seconds']:.3g}",
                reads,
                *(path if paths else ["–", "–"]),
            ]
        )
    head = ["scores", "setting", "one read, ms", "one AᵀDA, ms", "a solve, reads"]
    return table([*head, "nine-p path, ms", "its gap"], rows)


def _over(times: list[float], unit: float) -> str:
    return f"{median(times) / unit:.0f} ({max(times) / unit:.0f} worst)" if times else "–"


def scoring_table(results: Results, device: str) -> str:
    found = results.select("device-scoring", device=device)
    rows = [
        [
            r["form"],
            f"{r['n']:,} × {r['R']}",
            r["setting"],
            f"{1e3 * r['seconds']:.3g}",
            f"{r['rows_a_second']:.3g}",
        ]
        for r in found
    ]
    return table(["call", "rows", "setting", "ms", "rows a second"], rows)


def learner_table(results: Results, device: str) -> str:
    """Fits of kernel learners, from `research.speed.device_learners`."""
    failed = matching(results.failed, kind="device-learner", device=device)
    rows = [
        [
            r["form"],
            _scores_of(r),
            f"{r['seconds']:.2f}",
            f"{r['rows_a_second']:.3g}",
            "–" if r["peak_bytes"] is None else f"{r['peak_bytes'] / GIB:.1f} GiB",
        ]
        for r in results.select("device-learner", device=device)
    ]
    rows += [[r["form"], _scores_of(r), str(r["message"]), "–", "–"] for r in failed]
    return table(["learner", "rows", "fit, s", "rows scored a second", "peak"], rows)


def _scores_of(record: Record) -> str:
    return f"{record['n']:,} × {record['R']:,} {record['dtype']}"


def rival_table(results: Results, device: str) -> str:
    rows = []
    for r in results.select("device-solve", device=device, dtype="float64"):
        rival = results.rival_seconds(r)
        if rival is not None:
            seconds, is_bound = rival
            bound = "≥ " if is_bound else ""
            ratio = f"{bound}{seconds / r['seconds']:,.0f}×"
            named = [f"{r['n']:,} × {r['R']}", r["setting"], r["p"]]
            rows.append([*named, f"{1e3 * r['seconds']:.3g}", f"{bound}{seconds:.1f}", ratio])
    head = ["scores", "setting", "p", "lpfuse, ms", "cvxpy+CLARABEL on a CPU, s", "ratio"]
    return table(head, rows)


DEVICE_PARTS: tuple[Callable[[Results, str], str], ...] = (
    solve_table,
    unit_table,
    rival_table,
    scoring_table,
    learner_table,
)


def dask_section(results: Results) -> str:
    found = results.select("dask-fit")
    cores = {results.environments[r["environment"]]["cores"] for r in found}
    notes = DASK_NOTES.format(cores=" or ".join(map(str, sorted(cores))) or "few")
    return notes + "\n\n" + dask_table(results) + "\n" + speed_table(results)


def dask_table(results: Results) -> str:
    order = sorted(
        results.select("dask-fit"), key=lambda r: (r["form"], r["setting"], r["n"], r["workers"])
    )
    rows = [
        [
            r["form"],
            r["setting"],
            f"{r['n']:,} × {r['R']}",
            str(r["workers"]),
            f"{r['seconds']:.2f}",
            f"{r['passes']:.1f}",
            f"{r['relative_gap']:.1e}",
            f"{r['reductions']:.0f}, {r['bytes_back'] / 2**20:.1f} MiB",
            f"{max(r['worker_bytes']) / 2**20:.0f} MiB",
            f"{r['gap_in_memory']:.1e}" if "gap_in_memory" in r else "–",
        ]
        for r in order
    ]
    head = ["form", "setting", "scores", "workers", "s", "passes", "gap", "reductions", "worker"]
    return table([*head, "gap in memory"], rows)


def speed_table(results: Results) -> str:
    """Strong scaling: the same rows by more workers. Weak: as many rows for each."""
    rows = []
    for one in results.select("dask-fit", workers=1):
        same = {name: one[name] for name in ("form", "setting")}
        for r in sorted(results.select("dask-fit", **same), key=lambda r: r["workers"]):
            if r["workers"] > 1 and r["n"] in (one["n"], one["n"] * r["workers"]):
                kind = "strong" if r["n"] == one["n"] else "weak"
                ideal = r["workers"] if kind == "strong" else 1
                ratio = one["seconds"] / r["seconds"]
                named = [kind, r["form"], r["setting"], f"{one['n']:,}", str(r["workers"])]
                rows.append([*named, f"{ratio:.2f} (ideal {ideal})"])
    head = ["scaling", "form", "setting", "rows of one worker", "workers"]
    return table([*head, "time of one worker / time"], sorted(rows))


def plan_section(results: Results) -> str:
    model = results.dask_model()
    if model is None:
        return "Nothing was measured yet.\n"
    text = (
        f"A fit takes {model.fixed:.1f} s plus the passes; in a pass a worker with one core reads, "
        f"decodes and reduces {model.rate / 1e6:.0f} MB of Parquet a second, and the scheduler "
        f"spends {1e3 * model.task_seconds:.2f} ms on a task (measured here, R = {model.R}; least "
        f"squares over the fits whose workers had a core each). At most {model.passes:.1f} passes "
        f"were needed, at p = 4/3. Between passes the driver fetches the undecided rows, "
        f"4·n^(2/3) at most, and solves for them, by the law of growth above (its upper limit, "
        f"negatives, one thread). Assumed: {WORKERS_A_MACHINE} workers a machine, which gets "
        f"{FETCH_RATE / 1e9:.2f} GB/s from storage (10 Gbit/s), blocks of 128 MiB.\n\n"
    )
    return text + plan_table(results)


def plan_table(results: Results) -> str:
    model = results.dask_model()
    if model is None:
        return "Nothing was measured yet.\n"
    rows = []
    for workers in (16, 64):
        for name, size in (("float64", 8), ("float32", 4)):
            rows.append([name, *_plan_row(plan(model, 1e9, 100, size, workers))])
    head = ["1e9 × 100", "workers", "bytes a pass", "of them each", "s a pass", "it waits for"]
    return table([*head, "passes", "to the driver a pass, at most", "in all"], rows)


def _plan_row(found: Plan) -> list[str]:
    return [
        str(found.workers),
        f"{found.pass_bytes / 1e9:,.0f} GB",
        f"{found.worker_bytes / 1e9:.1f} GB",
        f"{found.pass_seconds:.0f}",
        found.limit,
        str(found.passes),
        f"{found.back_bytes / 1e9:.1f} GB",
        f"{found.seconds / 60:.0f} min" if found.seconds >= 120 else f"{found.seconds:.0f} s",
    ]


def environments(results: Results) -> str:
    """One list for each device and kind of run."""
    kinds = {"CPU": "cpu-", "Dask": "dask-", "device": "device-"}
    texts = []
    for name, prefix in kinds.items():
        records = [r for r in results.records if r["kind"].startswith(prefix)]
        for device in dict.fromkeys(r["device"] for r in records):
            own = [r for r in records if r["device"] == device]
            threads = sorted({r["threads"] for r in own if "threads" in r})
            told = " and ".join(map(str, threads)) or "of torch"
            texts.append(f"{name}: {device}\n\n" + measured_with(results.environments, own, told))
    return "\n".join(texts) or "Nothing was measured yet.\n"


def paths_table(results: Results) -> str:
    """The longest table that each path was measured on."""
    longest = {
        "NumPy, two threads": results.select("cpu-solve", threads=2, R=36, p="4/3"),
        "`np.memmap`": results.select("cpu-memmap"),
        "a GPU": [
            r
            for r in results.select("device-solve", p="4/3")
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
