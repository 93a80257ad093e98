"""What the learners must reach, and what was measured: each goal is one function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from research.common.judge import EQUAL
from research.common.store import Record
from research.common.tables import Goal, mebibytes

from .results import Ratio, Results

FIT, SCORE = "fit_seconds", "score_seconds"
GOAL_ROWS = 5000  # of kernel PCA
MANY_ROWS = 1_000_000  # to score
PAST_MEMORY_ROWS = 500_000  # to learn from
BESIDE_SCORES = 100 * 2**20  # bytes that scoring may take besides the scores
MACHINE_BYTES = 24 * 2**30  # a goal set by hand


def goals(results: Results) -> list[Goal]:
    """All goals in the order of the table."""
    rivals = {"sklearn_full": "full scikit-learn KernelPCA + errors",
              "pyod_auto": "PyOD's KPCA, its own solver",
              "pyod_arpack": "PyOD's KPCA, ARPACK"}  # fmt: skip
    return [
        svdd_fit(results),
        svdd_scoring(results),
        *(kpca_faster(results, rival, told) for rival, told in rivals.items()),
        equal_scores(results),
        grid_faster(results, "lpfuse_one_by_one", "lpfuse's own"),
        grid_faster(results, "sklearn_one_by_one", "scikit-learn's"),
        many_rows(results),
        bounded_memory(results),
        past_memory(results),
    ]


def svdd_fit(results: Results) -> Goal:
    found = results.ratios("svdd", FIT, "lpfuse_svdd", "sklearn_one_class_svm")
    return _at_most("SVDD fit against OneClassSVM", found, 1.1)


def svdd_scoring(results: Results) -> Goal:
    found = results.ratios("svdd", SCORE, "lpfuse_svdd", "sklearn_one_class_svm")
    return _at_most("SVDD scoring against OneClassSVM", found, 1.0)


def kpca_faster(results: Results, rival: str, told: str) -> Goal:
    """Of the fit; what a fit and a scoring take together is told beside it."""
    found = results.ratios("kpca", FIT, rival, "lpfuse_kpca", n=GOAL_ROWS)
    goal = _at_least(f"KPCA, q = 10, n = {GOAL_ROWS:,}, against {told}", found, 5.0)
    if not found:
        return goal
    both = min(_fit_and_score(one.record, rival, "lpfuse_kpca") for one in found)
    return replace(goal, measured=f"{goal.measured}; fit and scoring {both:.3g}× worst")


def equal_scores(results: Results) -> Goal:
    name, target = "KPCA scores equal to every rival's", f"≤ {EQUAL:.0e}"
    found = [v["difference"] for r in results.select("kpca") for v in r["verdicts"].values()]
    if not found or None in found:
        return Goal(name, target, *(("not a number", False) if found else ()))
    return Goal(name, target, f"{max(found):.1e} worst", max(found) <= EQUAL)


def grid_faster(results: Results, rival: str, told: str) -> Goal:
    found = results.ratios("grid", FIT, rival, "lpfuse_together")
    return _at_least(f"the paper's grid against {told} learners one by one", found, 5.0)


def many_rows(results: Results) -> Goal:
    found = results.ratios("score-rows", "seconds", "learner", "unit")
    with_kernel = [one for one in found if "block" in one.record and _has_many(one.record)]
    return _at_most("scoring, in passes of kernel evaluations", with_kernel, 2.0)


def bounded_memory(results: Results) -> Goal:
    name, target = "scoring, extra memory", f"≤ {mebibytes(BESIDE_SCORES)} beside the scores"
    stored = [r for r in results.select("score-rows-memory") if r["extra_bytes"] is not None]
    records = [r for r in stored if _has_many(r)]
    if not records:
        return Goal(name, target)
    worst = max(records, key=beside_scores)
    text = f"{mebibytes(beside_scores(worst))} worst ({worst['learner']}, {worst['rows']:,} rows)"
    return Goal(name, target, text, beside_scores(worst) <= BESIDE_SCORES)


def past_memory(results: Results) -> Goal:
    records = [r for r in results.select("past-memory") if r["n"] >= PAST_MEMORY_ROWS]
    name = "past memory: learn and score"
    target = f"≤ {MACHINE_BYTES / 2**30:.0f} GiB, approximated without being told"
    if not records:
        return Goal(name, target)
    worst = max(records, key=lambda r: r.get("peak_bytes") or 0)
    met = all(r["approximated"] and r["finite"] and r["converged"] for r in records)
    peak = worst.get("peak_bytes") or 0
    text = (
        f"{peak / 2**30:.1f} GiB worst ({worst['learner']}, n = {worst['n']:,}, "
        f"n_components = {worst['n_components']}); slowest fit "
        f"{max(r['fit_seconds'] for r in records):.0f} s"
    )
    failed = [r for r in results.failed if r["kind"] == "past-memory"]
    text += f"; {len(failed)} not finished" if failed else ""
    return Goal(name, target, text, met and not failed and 0 < peak <= MACHINE_BYTES)


def beside_scores(record: Record) -> float:
    """Extra memory without the scores themselves, eight bytes a row."""
    return record["extra_bytes"] - 8 * record["rows"]


def _fit_and_score(record: Record, name: str, other: str) -> float:
    seconds = [sum(median(record[clock][who]) for clock in (FIT, SCORE)) for who in (name, other)]
    return seconds[0] / seconds[1]


def _has_many(record: Record) -> bool:
    return record["rows"] >= MANY_ROWS


def _at_most(name: str, found: Sequence[Ratio], limit: float) -> Goal:
    target = f"≤ {limit:g}×"
    if not found:
        return Goal(name, target)
    worst = max(found, key=lambda one: one.value)
    return Goal(name, target, _told(found, worst), worst.value <= limit)


def _at_least(name: str, found: Sequence[Ratio], limit: float) -> Goal:
    target = f"≥ {limit:g}×"
    if not found:
        return Goal(name, target)
    worst = min(found, key=lambda one: one.value)
    return Goal(name, target, _told(found, worst), worst.value >= limit)


def _told(found: Sequence[Ratio], worst: Ratio) -> str:
    middle = median(one.value for one in found)
    return f"{middle:.3g}× median, {worst.value:.3g}× worst ({worst.where})"
