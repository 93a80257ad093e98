"""The page of results, written from the stored records and from nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from research.common.clock import ratio
from research.common.store import Record, write_whole
from research.common.tables import (
    gibibytes,
    goal_table,
    measured_with,
    mebibytes,
    milliseconds,
    page,
    table,
)
from research.rivals import detectors as rivals

from .goals import FIT, SCORE, beside_scores, goals
from .results import Results

HEAD = """# Detector benchmarks

Written by `python -m research.speed.detectors tables` from stored results: do not edit by hand.
How to run, and what exactly is measured: `research/speed/README.md`.
"""

RACE_NOTES = """Milliseconds of lpfuse, and how many times as long each rival takes (median over the
rounds of one run in which both took turns). A rival whose result the judge does not accept has no
time."""

NOTES = {
    "svdd": """Same ν, γ = 1/d and tolerance of libsvm; three clusters, or one round cloud.
*Violation*: of the optimality conditions, on all rows, in libsvm's measure, recomputed by the
judge; *excess*: how much larger the objective is than the best found.""",
    "kpca": """q = 10 components, γ = 1/d, errors of the training rows included in the fit. The
eigenvalues of a round cloud nearly tie. PyOD's `decision_function` and the errors from
scikit-learn's projections are exactly minus lpfuse's score; *difference* is the largest to
lpfuse's, on training and unseen rows, as a share of the largest score.""",
    "grid": """Per width of {0.01, 0.1, 0.5, 1, 10}: one SVDD, one Gaussian process, kernel PCA with
q = 2, 6, …, 50. *Compared*: the two narrowest widths make K = I, where kernel PCA has no single
right answer; those columns are left out of the comparison, not of the times.""",
}

ROW_NOTES = """Times in units of one pass of plain kernel evaluations over the same anchors, with
the same threads, by code that shares nothing with lpfuse (the mixture: in units of scikit-learn's
`GaussianMixture.score_samples`). *Extra memory*: resident memory at its highest, above what was
there before, in a fresh process, scores included."""

PAST_NOTES = """`approximation="auto"`, one run each in a fresh process. *Peak*: resident memory of
the whole process at its highest, with the rows themselves. *Missed*: mean share of k(x, x) that the
features do not see, on unseen rows. *AUC* against noisy rows, with that of an exact learner on a
sample of the rows beside it, and the *rank correlation* of the two scores."""


def write_tables(paths: Sequence[Path], out: Path) -> None:
    """Read the results, write the page."""
    write_whole(out, results_page(Results.load(paths)))
    print(f"wrote {out}")


def results_page(results: Results) -> str:
    """The whole page as Markdown."""
    sections = [
        HEAD,
        "## Goals\n\n" + goal_table(goals(results)),
        RACE_NOTES + "\n",
        "## SVDD against OneClassSVM\n\n" + race_table(results, "svdd"),
        "## Kernel PCA\n\n" + race_table(results, "kpca"),
        "## The paper's grid\n\n" + race_table(results, "grid"),
        "## Scoring many rows\n\n" + ROW_NOTES + "\n\n" + row_table(results),
        "## Past memory\n\n" + PAST_NOTES + "\n\n" + past_memory_table(results),
        "## Measured with\n\n"
        + measured_with(results.environments, results.records, results.threads),
    ]
    if results.failed:
        sections.insert(-1, "## Not finished\n\n" + failure_table(results))
    return page(*sections)


def race_table(results: Results, kind: str) -> str:
    """Fit, then scoring, one row a cell; the judge's findings in the last columns."""
    records, ours = results.select(kind), rivals.OURS[kind]
    others = [name for name in rivals.names(kind) if any(name in r["verdicts"] for r in records)]
    others = [name for name in others if name != ours]
    texts = [NOTES[kind]]
    for clock, told in ((FIT, "fit"), (SCORE, "score")):
        rows = [
            [f"{r['n']:,}", _setting(r), _milliseconds(r[clock], ours)]
            + [_ratio(r, clock, name, ours) for name in others]
            + (_found(r, kind) if clock == FIT else [f"{r['score_rows']:,}"])
            for r in records
        ]
        head = ["n", "setting", f"lpfuse {told}, ms"]
        head += [rivals.label(kind, name) for name in others]
        texts.append(table(head + (FOUND[kind] if clock == FIT else ["rows"]), rows))
    return "\n\n".join(texts)


FOUND = {
    "svdd": ["support vectors", "violation: lpfuse / libsvm", "excess: lpfuse / libsvm"],
    "kpca": ["difference"],
    "grid": ["difference", "compared"],
}


def _found(record: Record, kind: str) -> list[str]:
    verdicts = record["verdicts"]
    if kind == "svdd":
        ours, theirs = verdicts["lpfuse_svdd"], verdicts["sklearn_one_class_svm"]
        pairs = [
            f"{ours[name]:.1e} / {theirs[name]:.1e}".replace("0.0e+00", "0")
            for name in ("violation", "excess")
        ]
        return [f"{ours['support'][0]:.0f}", *pairs]
    worst = [_number(max((v["difference"] for v in verdicts.values()), key=_or_infinite))]
    if kind == "grid":
        worst.append(f"{next(iter(verdicts.values()))['compared']} of {record['learners']}")
    return worst


def _or_infinite(value: float | None) -> float:
    return float("inf") if value is None else value


def _number(value: float | None) -> str:
    return "not a number" if value is None else f"{value:.1e}"


def row_table(results: Results) -> str:
    rows = []
    for record in results.select("score-rows"):
        same = {name: record[name] for name in ("n", "d", "learner", "seed")}
        memory = sorted(results.select("score-rows-memory", **same), key=lambda r: r["rows"])
        told = [
            f"{mebibytes(r['extra_bytes'])} ({r['rows']:,})" for r in memory if r["extra_bytes"]
        ]
        seconds = record["seconds"]
        passes = ratio(seconds, "learner", "unit")
        rows.append(
            [
                record["learner"],
                f"{record['rows']:,} × {record['d']}",
                f"{record['anchors']:,}",
                f"{median(seconds['learner']):.2f}" if seconds.get("learner") else "not equal",
                f"{median(seconds['unit']):.2f}",
                "" if passes is None else f"{passes:.2f}",
                ", ".join(told) or "–",
                mebibytes(max(map(beside_scores, memory))) if told else "–",
            ]
        )
    head = ["learner", "rows", "anchors", "s", "one pass, s", "passes", "extra memory (rows)"]
    return table([*head, "beside scores"], rows)


def past_memory_table(results: Results) -> str:
    rows = [
        [
            r["learner"],
            f"{r['n']:,} × {r['d']}",
            str(r["n_components"]) + ("" if r["approximated"] else " (**exact**)"),
            f"{r['fit_seconds']:.1f}" + ("" if r["converged"] else " (**not converged**)"),
            f"{r['score_seconds']:.2f}",
            gibibytes(r.get("peak_bytes")),
            gibibytes(r.get("extra_bytes")),
            "–" if r["missed"] is None else f"{r['missed']:.3f}",
            f"{r['auc']:.3f} / {r['exact_auc']:.3f} ({r['exact_rows']:,} rows)",
            f"{r['rank_correlation']:.3f}",
        ]
        for r in results.select("past-memory")
    ]
    head = ["learner", "rows", "n_components", "fit, s", "score, s", "peak", "of it extra"]
    return table([*head, "missed", "AUC / exact", "rank correlation"], rows)


def failure_table(results: Results) -> str:
    rows = [[r["kind"], f"{r['n']:,}", r["setting"], r["message"]] for r in results.failed]
    return table(["part", "n", "setting", "what happened"], rows)


def _setting(record: Record) -> str:
    return str(record["setting"]).replace("shape=", "")


def _milliseconds(samples: Mapping[str, Sequence[float]], name: str) -> str:
    return milliseconds(median(samples[name])) if samples.get(name) else "not equal"


def _ratio(record: Record, clock: str, name: str, ours: str) -> str:
    if name not in record["verdicts"]:
        return ""
    found = ratio(record[clock], name, ours)
    return "not equal" if found is None else f"{found:.3g}×"
