"""The page and its figure, from the stored records and nothing else."""

from __future__ import annotations

from math import nan, sqrt
from pathlib import Path
from statistics import mean, median, stdev

from research.common.drawing import figure_line
from research.common.store import Record, write_whole
from research.common.tables import (
    NOTHING,
    gibibytes,
    goal_table,
    measured_with,
    milliseconds,
    page,
    prose,
    table,
)
from research.studies.alarms.families import ABOUT

from .figure import draw
from .goals import SET_BY, goals
from .methods import OURS
from .results import LARGE, Results, members_once, speed_up, whole
from .samples import SIZES

HEAD = """# From rows to verdicts

Written by `python -m research.speed.rows page` from stored results: do not edit by hand.
How to run, and what exactly is measured: `research/speed/README.md`.
"""

NOTES = """Times are CPU seconds of one process on one core, one thread of BLAS and OpenMP: medians
over repeats in which those that are compared take turns. Single rows are timed by the clock on the
wall. Rows are made up: correlated Gaussian columns, three of them rounded to whole numbers, two
with heavy tails. *Labels* are labelled anomalies beside the normal rows."""

BUDGET_NOTES = """What a `FusedDetector()` costs in units of its own members: *members once* is the
sum over the default pool, each member fitted once by itself, with no threshold of its own. A whole
fit also scores out of fold, calibrates its false alarms on rows that nothing has seen, and learns
weights. *Units*: whole over members once. *Scores*, `predict`: of {predicted:,} rows."""

MEMBER_NOTES = """Each member by itself, with {labels} labels: fit in s / scores of {predicted:,}
rows in s / one row in ms. Experts, which learn from the labels: {experts}."""

GROWTH_NOTES = """On the very same rows: `FusedDetector()` with {labels} labelled anomalies and with
none; *plain loop*, the same pool with each member fitted once and scores averaged, no folds, no
calibration, no weights; XGBOD of PyOD, which learns from the labels, too; SUOD of PyOD with the
pool it ships with. Fit in s / scores or verdicts on {predicted:,} rows in s. A turn of more than
{limit:.0f} s by the clock on the wall is stopped, and more rows are not tried."""

LAW_NOTES = f"""t = a · n^α by least squares on the logarithms, from {LARGE:,} rows on, with 95 %
confidence limits: what ten times the rows cost is 10^α."""

FIGURE_NOTES = "Dots are medians, lines the power laws; hollow dots: lpfuse without labels."

ROW_NOTES = """One row at a time, in ms: median / 95 % quantile. *ONNX*: the same detector by
`lpfuse.onnx_export.to_onnx` in onnxruntime, one thread, in the same process, taking turns row by
row. *Ratio*: `score_samples` over ONNX, the median over rows. *Apart*: the largest difference of
their scores in units of the scores' spread."""

BEFORE_NOTES = """This version and earlier ones, each in a process of its own, taking turns, same
rows and seeds: now / before, and how many times as fast it is now. The goals were set by {set_by},
whose pool was another: the paper's four learners, an isolation forest and LOF; with labels also
extremely random trees, a random forest and a logistic regression."""

LARGE_NOTES = """In a process that has seen nothing else. *Peak*: resident memory at its highest
during the fit, Python and the rows included."""

SAMPLES_NOTES = """Above 2,000 rows neighbours are sought among 2,000, above 10,000 forests of
columns grow on 10,000, above 1,500 the process has 500 landmarks. *More*: {max_samples} times as
many rows and {n_components} times as many landmarks. Each family of made-up rows has {n:,} to learn
from and up to {seeds} seeds; anomalies are unseen rows with one cell moved. Both pools are fused in
the same way, without labels."""
PICTURED = "Time over rows, lpfuse beside its rivals"


def write_page(results: Results, out: Path) -> None:
    """Write the page and its figure."""
    picture = out.with_suffix(".png")
    figure_line(picture, lambda path: draw(results, path), PICTURED)
    write_whole(out, results_page(results))
    print(f"wrote {out} and {picture.name}")


def results_page(results: Results) -> str:
    """The whole page as Markdown."""
    return page(
        HEAD,
        prose(NOTES),
        "## Goals\n\n" + goal_table(goals(results)),
        page("## Where the time goes", *budget_section(results)),
        page("## More rows", *growth_section(results)),
        page("## One row", prose(ROW_NOTES), one_row_table(results), *left_out(results, "one-row")),
        page("## Earlier versions", *before_section(results)),
        page("## Many rows at once", prose(LARGE_NOTES), large_table(results)),
        page("## What samples lose", *samples_section(results)),
        *failures(results),
        "## Measured with\n\n" + measured_with(results.environments, results.records, 1),
    )


# ------------------------------------------------------------------------------------------ budget


def budget_section(results: Results) -> list[str]:
    records = results.select("budget")
    if not records:
        return [NOTHING]
    head = [
        "rows", "labels", "members once, fit", "whole fit", "units", "members once, scores",
        "`predict`", "units", "members, one row", "whole, one row",
    ]  # fmt: skip
    about = BUDGET_NOTES.format(predicted=records[-1]["predicted"])
    return [prose(about), table(head, map(_budget_row, records)), *members_section(results)]


def _budget_row(record: Record) -> list[str]:
    cells = [f"{record['n']:,}", str(record["labels"])]
    for clock in ("fit_seconds", "predict_seconds"):
        members, fused = members_once(record[clock]), whole(record[clock])
        cells += [_seconds(members), _seconds(fused), f"{fused / members:.1f}"]
    rows = {name: found["p50"] for name, found in record["row_seconds"].items()}
    fused = rows.pop(OURS)
    return [*cells, f"{milliseconds(sum(rows.values()))} ms", f"{milliseconds(fused)} ms"]


def members_section(results: Results) -> list[str]:
    """Each member over all sizes, with the fewest labels that experts learn from."""
    labels = [r["labels"] for r in results.select("budget") if r["labels"]]
    if not labels:
        return []
    found = results.select("budget", labels=min(labels))
    names = dict.fromkeys(name for r in found for name in r["fit_seconds"] if name != OURS)
    rows = [[name, *(_member_cell(r, name) for r in found)] for name in names]
    about = MEMBER_NOTES.format(
        labels=min(labels),
        predicted=found[0]["predicted"],
        experts=", ".join(dict.fromkeys(name for r in found for name in r["experts"])),
    )
    return [prose(about), table(["member", *(f"{r['n']:,} rows" for r in found)], rows)]


def _member_cell(record: Record, name: str) -> str:
    if name not in record["fit_seconds"]:
        return "–"  # a pool for so many rows has no such member
    fit, score = (median(record[clock][name]) for clock in ("fit_seconds", "predict_seconds"))
    one = record["row_seconds"][name]["p50"]
    return f"{fit:.3g} / {score:.3g} / {milliseconds(one)}"


# ------------------------------------------------------------------------------------------ growth


def growth_section(results: Results) -> list[str]:
    records = results.select("growth")
    if not records:
        return [NOTHING]
    last = records[-1]
    about = GROWTH_NOTES.format(
        labels=last["labels_given"], predicted=last["predicted"], limit=last["time_limit"]
    )
    names = results.methods()
    rows = [[f"{r['n']:,}", *(_growth_cell(r, name) for name in names)] for r in records]
    laws = [[name, _exponent(results, name, "fit_seconds"),
             _exponent(results, name, "predict_seconds")] for name in names]  # fmt: skip
    return [
        prose(about),
        *left_out(results, "growth"),
        table(["rows", *names], rows),
        prose(LAW_NOTES),
        table(["method", "α, fit", "α, scores or verdicts"], laws),
        f"![{PICTURED}](rows.png)",
        FIGURE_NOTES,
    ]


def _growth_cell(record: Record, name: str) -> str:
    if name in record["fit_seconds"]:
        fit, score = (median(record[f"{clock}_seconds"][name]) for clock in ("fit", "predict"))
        return f"{fit:.3g} / {score:.3g}"
    reasons = {"time": f"over {record['time_limit']:.0f} s", "memory": "out of memory"}
    reason = record["stopped"].get(name)
    return "–" if reason is None else reasons.get(reason, "failed")


def _exponent(results: Results, name: str, clock: str) -> str:
    law = results.law(name, clock)
    if law is None:
        return "–"
    return f"{law.alpha.value:.2f} ({law.alpha.low:.2f} – {law.alpha.high:.2f})"


def left_out(results: Results, kind: str) -> list[str]:
    """A sentence for whatever could not be imported, in the words of the import."""
    missing: dict[str, str] = {}
    for record in results.select(kind):
        found = record.get("missing") or {}
        missing |= {"ONNX": found} if isinstance(found, str) else found
    return [prose(f"{name} is left out: {error}") for name, error in missing.items()]


# ---------------------------------------------------------------------- one row, before, many rows


def one_row_table(results: Results) -> str:
    rows = []
    for r in results.select("one-row"):
        times = [_quantiles(r, name) for name in ("score_samples", "predict", "onnx")]
        onnx = [f"{r['onnx_ratio']:.2f}", f"{r['onnx_difference']:.0e}"] if _has_onnx(r) else "––"
        rows.append([f"{r['n']:,}", str(r["labels"]), *times, *onnx])
    return table(["rows", "labels", "`score_samples`", "`predict`", "ONNX", "ratio", "apart"], rows)


def _has_onnx(record: Record) -> bool:
    return "onnx_ratio" in record


def _quantiles(record: Record, name: str) -> str:
    found = record["row_seconds"].get(name)
    return "–" if found is None else " / ".join(milliseconds(found[q]) for q in ("p50", "p95"))


def before_section(results: Results) -> list[str]:
    records = results.select("before")
    if not records:
        return [NOTHING]
    predicted = records[-1]["predicted"]
    head = ["before", "rows", "labels", "fit, s", "", f"`predict`, {predicted:,} rows, s", ""]
    rows = [
        [r["before_commit"], f"{r['n']:,}", str(r["labels"]), *_versions(r, "fit_seconds"),
         *_versions(r, "predict_seconds"), *_versions(r, "row_seconds", 1e3)]
        for r in sorted(records, key=lambda r: r["before_commit"] != SET_BY)
    ]  # fmt: skip
    return [prose(BEFORE_NOTES.format(set_by=SET_BY)), table([*head, "one row, ms", ""], rows)]


def _versions(record: Record, clock: str, unit: float = 1.0) -> list[str]:
    now, then = (unit * median(record[clock][version]) for version in ("now", "before"))
    return [f"{now:.3g} / {then:.3g}", f"{speed_up(record, clock):.1f}×"]


def large_table(results: Results) -> str:
    rows = [
        [
            f"{r['n']:,} × {r['d']}, {gibibytes(r['row_bytes'])}",
            str(r["labels"]),
            f"{r['fit_seconds']:.0f} s ({r['fit_seconds'] / 60:.1f} minutes)",
            f"{r['wall_seconds']:.0f} s",
            f"{r['predict_seconds']:.2f} s",
            gibibytes(r.get("peak_bytes")),
        ]
        for r in results.select("large")
    ]
    head = ["rows", "labels", "fit, CPU", "fit, wall", "`predict`", "peak"]
    return table(head, rows)


def samples_section(results: Results) -> list[str]:
    records = results.select("samples")
    if not records:
        return [NOTHING]
    families = dict.fromkeys(r["family"] for r in records)
    rows, differences = [], []
    for family in families:
        some = [r for r in records if r["family"] == family]
        auc, seconds = ({pool: mean(r[what][pool] for r in some) for pool in ("default", "more")}
                        for what in ("auc", "seconds"))  # fmt: skip
        differences += [r["auc"]["default"] - r["auc"]["more"] for r in some]
        rows.append([
            ABOUT[family], f"{auc['default']:.2f}", f"{auc['more']:.2f}",
            f"{auc['default'] - auc['more']:+.2f}", f"{seconds['more'] / seconds['default']:.1f}×",
        ])  # fmt: skip
    error = stdev(differences) / sqrt(len(differences)) if len(differences) > 1 else nan
    head = ["rows of", "AUC, default", "AUC, more", "difference", "CPU of more"]
    total = f"In the mean {mean(differences):+.2f} ± {error:.2f} (standard error)."
    about = SAMPLES_NOTES.format(
        n=records[-1]["n"], seeds=-(-len(records) // len(families)), **SIZES
    )
    return [prose(about), table(head, rows), total]


def failures(results: Results) -> list[str]:
    """What did not finish, in the words of its process."""
    rows = [[r["kind"], f"{r['n']:,}", str(r["labels"]), r["message"]] for r in results.failed]
    if not rows:
        return []
    return [page("## Not finished", table(["part", "rows", "labels", "why"], rows))]


def _seconds(value: float) -> str:
    return f"{value:.3g} s"
