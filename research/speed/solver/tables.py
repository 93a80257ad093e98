"""The page of results, written from the stored records and from nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from research.common.store import Record, write_whole
from research.common.tables import goal_table, measured_with, milliseconds, page, table
from research.rivals import solvers as rivals

from .goals import goals, median_ratio, show
from .results import Ratio, Results

PAPER_SPEEDUP = {
    "32/31": {1e-2: 898.2, 1e-3: 146.0, 1e-4: 134.9},
    "8/7": {1e-2: 19.2, 1e-3: 15.9, 1e-4: 14.6},
    "2": {1e-2: 36.3, 1e-3: 27.2, 1e-4: 26.1},
    "100": {1e-2: 31.0, 1e-3: 21.8, 1e-4: 18.8},
}

HEAD = """# Solver benchmarks

Written by `python -m research.speed.solver tables` from stored results: do not edit by hand.
How to run, and how to add a rival: `research/speed/README.md`.
"""

GRID_NOTES = """Time to a certified relative gap of {gap}: each rival's time divided by lpfuse's,
median over p (lowest – highest). A rival is run with tightening tolerances until one judge accepts
its weights, and only the accepted run counts. `≥`: some runs were stopped at the time limit, so
this is a lower bound; a rival stopped on fewer rows is not tried on more. "k × gap … at …": for k
values of p no run was accepted; the median of the best gaps, and the time it took beside lpfuse's
time to the asked gap. **Bold**: the rival is ahead at one p or more, named below the table.
"k of m p asked": a slow rival was asked at fewer p here than elsewhere. Each run stands alone,
after a pause and a garbage collection, with cold caches: a solve of milliseconds then takes up to
half as long again as in a loop."""

PAPER_NOTES = """The paper's table of speed-ups over CVX ({source}). cvxpy runs with CLARABEL at its
default tolerance. Algorithm 1 stops by its own rule (largest change of a weight ≤ precision), which
says nothing about optimality: its true relative gap stands beside it. lpfuse solves to a certified
1e-8."""


def write_tables(paths: Sequence[Path], out: Path) -> None:
    """Read the results, write the page."""
    results = Results.load(paths)
    write_whole(out, results_page(results))
    print(f"wrote {out}")
    if len(results.commits) > 1:
        print(f"its rows are of {len(results.commits)} commits: {', '.join(results.commits)}")


def results_page(results: Results) -> str:
    """The whole page as Markdown."""
    sections = [
        HEAD,
        *commits_told(results),
        "## Goals\n\n" + goal_table(goals(results)),
        "## Against the rivals\n\n" + grid_table(results),
        "## Large problems in reads of S\n\n" + reading_table(results),
        "## The paper's speed table\n\n" + paper_tables(results),
        "## Measured with\n\n"
        + measured_with(results.environments, results.records, results.threads),
    ]
    return page(*sections)


def commits_told(results: Results) -> list[str]:
    """Nothing where all was measured at one commit; otherwise that it was not, before any table."""
    if len(results.commits) < 2:
        return []
    counts = "; ".join(f"{commit}: {count}" for commit, count in results.commits.items())
    return [
        f"**The rows behind this page are of {len(results.commits)} commits** (records of each: "
        f"{counts}). Ratios between them compare different versions of lpfuse. "
        "`python -m research.speed.solver --campaign` measures all anew at one commit."
    ]


def grid_table(results: Results) -> str:
    """One row per n, R and setting; one column a rival."""
    present = {r["rival"] for r in results.select("solve")}
    others = [name for name in rivals.names() if name in present and name != rivals.OURS]
    rows = []
    for n, R, setting in results.groups():
        ours = results.ours(n=n, R=R, setting=setting)
        row = [f"{n:,}", str(R), setting, _spread([1e3 * r["seconds"] for r in ours], ".3g")]
        row.append(_spread([r["passes"] for r in ours], ".1f"))
        for name in others:
            records = results.select("solve", rival=name, n=n, R=R, setting=setting)
            row.append(rival_cell(results, [r for r in records if r["source"] == "synthetic"]))
        rows.append(row)
    head = ["n", "R", "setting", "lpfuse ms, median (worst)", "passes"]
    gaps = {f"{r['gap']:.0e}" for r in results.ours()}
    notes = GRID_NOTES.format(gap=" / ".join(sorted(gaps)) or "–")
    shown = table(head + [rivals.title(name) for name in others], rows)
    return "\n\n".join([notes, shown.strip("\n"), ahead(results, others)])


def ahead(results: Results, others: Sequence[str]) -> str:
    """Where each rival is faster than lpfuse at the same gap, named one by one."""
    lines = []
    for name in others:
        found = [
            f"{r['n']:,} × {r['R']} {r['setting']}, p = {r['p']}: {ratio.value:.2g}×"
            for r in results.select("solve", rival=name, source="synthetic")
            if (ratio := results.ratio(r)) is not None and is_ahead(ratio)
        ]
        if found:
            lines.append(f"- {rivals.title(name)}: {'; '.join(found)}")
    if not lines:
        return "No rival is ahead of lpfuse at any n, R, setting and p.\n"
    return "Ahead of lpfuse, at the same gap (its time / lpfuse's):\n\n" + "\n".join(lines) + "\n"


def is_ahead(ratio: Ratio) -> bool:
    """A lower bound on a rival's time proves no lead."""
    return ratio.value < 1.0 and not ratio.is_bound


def _spread(values: Sequence[float], form: str) -> str:
    return f"{median(values):{form}} ({max(values):{form}})"


def rival_cell(results: Results, records: list[Record]) -> str:
    """Median ratio over p with its range, then what did not come to a ratio."""
    if not records:
        return ""
    parts = []
    ratios = results.ratios(records)
    if ratios:
        low, high = min(r.value for r in ratios), max(r.value for r in ratios)
        spread = f" ({low:.3g} – {high:.3g})" if len(ratios) > 1 else ""
        text = f"{show(median_ratio(ratios))}{spread}"
        parts.append(f"**{text}**" if any(is_ahead(ratio) for ratio in ratios) else text)
    imprecise = [r for r in records if r["status"] == "imprecise" and r.get("relative_gap")]
    if imprecise:
        parts.append(_imprecise(results, imprecise))
    for status in ("memory", "error"):
        count = sum(r["status"] == status for r in records)
        if count:
            parts.append(f"{count} × {status}")
    asked, most = len(records), results.most_p(records[0]["rival"])
    if asked < most:
        parts.append(f"{asked} of {most} p asked")
    return "; ".join(parts)


def _imprecise(results: Results, records: list[Record]) -> str:
    gap = median(r["relative_gap"] for r in records)
    # To see what the imprecise answer cost, it is paired with ours as if it had been accepted.
    ratios = results.ratios({**r, "status": "accepted"} for r in records)
    return f"{len(records)} × gap {gap:.0e} at {median_ratio(ratios).value:.2g}×" if ratios else ""


def reading_table(results: Results) -> str:
    """Our times in units of one read of S, and the extra memory."""
    head = ["n", "R", "setting", "one read, ms (1 / all threads)", "lpfuse, reads", "extra memory"]
    order = sorted(results.select("read"), key=lambda r: (r["n"], r["R"], r["setting"]))
    return table(head, [row for read in order if (row := _reading_row(results, read))])


def _reading_row(results: Results, read: Record) -> list[str] | None:
    where = {name: read[name] for name in ("n", "R", "setting")}
    reads = [found for r in results.ours(**where) if (found := results.reads(r)) is not None]
    if not reads:
        return None
    memory = results.select("memory", rival=rivals.OURS, **where)
    extra = [r["extra_bytes"] / r["score_bytes"] for r in memory if r["extra_bytes"] is not None]
    once = " / ".join(milliseconds(read[f"{k}_thread{s}"]) for k, s in (("one", ""), ("all", "s")))
    worst_extra = f"{max(extra):.1%}" if extra else "–"
    named = [f"{read['n']:,}", str(read["R"]), read["setting"]]
    return [*named, once, _spread(reads, ".1f"), worst_extra]


def paper_tables(results: Results) -> str:
    """The paper's speed table, once for each setting."""
    found = results.select("precision")
    texts = []
    for source, setting in sorted({(r["source"], r["setting"]) for r in found}):
        records = [r for r in found if (r["source"], r["setting"]) == (source, setting)]
        texts.append(f"### {source}, {setting} (n = {records[0]['n']}, R = {records[0]['R']})\n")
        texts.append(_paper_table(records))
    notes = PAPER_NOTES.format(source=", ".join(sorted({r["source"] for r in found})) or "–")
    return "\n".join([notes, "", *texts])


def _paper_table(records: list[Record]) -> str:
    done = {(r["rival"], r["p"], r["tolerance_asked"]): r for r in records if "seconds" in r}
    rows = []
    for p, by_precision in PAPER_SPEEDUP.items():
        cvx, ours = (done.get((name, p, 1e-8)) for name in ("cvxpy_clarabel", rivals.OURS))
        for precision, claimed in by_precision.items():
            theirs = done.get(("algorithm1", p, precision))
            if cvx and ours and theirs:
                measured = _paper_row(cvx, ours, theirs)
                rows.append([p, f"{precision:.0e}", f"{claimed}×", *measured])
    head = ["p", "precision", "paper", "Algorithm 1 here", "its true gap", "lpfuse", "its gap"]
    return table([*head, "ms: cvxpy / Algorithm 1 / lpfuse"], rows)


def _paper_row(cvx: Record, ours: Record, theirs: Record) -> list[str]:
    """Speed-ups over cvxpy with the gaps they were bought at, and the times behind them."""
    row = []
    for record in (theirs, ours):
        row.append(f"{cvx['seconds'] / record['seconds']:.3g}×")
        row.append(f"{record['relative_gap']:.1e}")
    times = [milliseconds(record["seconds"]) for record in (cvx, theirs, ours)]
    return [*row, " / ".join(times)]
