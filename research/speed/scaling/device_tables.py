"""Tables of what was measured on a device: solves over p, paths and units, scoring, learners."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from research.common.store import Record, matching
from research.common.tables import NOTHING, gibibytes, milliseconds, table
from research.speed.solver.problems import ALL_P

from .results import Results

DEVICE_NOTES = """`LpFusion.fit` with scores and labels on the device, in milliseconds: median of
repeats after a warm-up, the device idle at the end. *Judged*: the largest relative gap that plain
torch finds in float64 from the weights and α. *Reads*: in units of one `S @ w` with plain torch."""


def device_tables(results: Results) -> str:
    """For each device: solves over p, paths and units, scoring, learners."""
    texts = [
        f"### {device}\n\n" + "\n".join(make(results, device) for make in DEVICE_PARTS)
        for device in results.devices("device-solve")
    ]
    return "\n".join(texts) or NOTHING


def solve_table(results: Results, device: str) -> str:
    """One row a table of scores; a column a p."""
    groups: dict[tuple[int, int, str, str], dict[str, Record]] = {}
    for r in results.select("device-solve", device=device):
        groups.setdefault((r["n"], r["R"], r["setting"], r["dtype"]), {})[r["p"]] = r
    rows = []
    for (n, R, setting, dtype), by_p in sorted(groups.items()):
        times = [milliseconds(by_p[p]["seconds"]) if p in by_p else "" for p in ALL_P]
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
        path = [milliseconds(paths[-1]["seconds"]), f"{paths[-1]['relative_gap']:.1e}"]
        rows.append(
            [
                f"{unit['n']:,} × {unit['R']}",
                unit["setting"],
                milliseconds(unit["read_seconds"]),
                milliseconds(unit["gram_seconds"]),
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
            milliseconds(r["seconds"]),
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
            gibibytes(r["peak_bytes"], digits=1),
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
            rows.append([*named, milliseconds(r["seconds"]), f"{bound}{seconds:.1f}", ratio])
    head = ["scores", "setting", "p", "lpfuse, ms", "cvxpy+CLARABEL on a CPU, s", "ratio"]
    return table(head, rows)


DEVICE_PARTS: tuple[Callable[[Results, str], str], ...] = (
    solve_table,
    unit_table,
    rival_table,
    scoring_table,
    learner_table,
)
