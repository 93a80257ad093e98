"""Stress suite: more than 500 problems that could go wrong, each certificate recomputed.

Every p × every fraction of anomalies × every variant, with R from 1 to 200 and n from 1 to
20000. Most are small, so that the whole suite takes minutes; the large ones are large enough to be
solved by screening.
"""

from __future__ import annotations

import time
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import cycle, product
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from research.common.judge import (
    FusionProblem,
    Vector,
    dual_bound,
    into_ball,
    lp_norm,
    objective,
    relative_gap,
)
from research.common.machine import environment
from research.common.store import write_document
from research.rivals.solvers import PACKAGES

from .problems import ALL_P, parse_p, synthetic_scores

# Chosen by hand.
FRACTIONS = (0.0, 0.01, 0.2, 0.5)
ROWS = (5, 20, 60, 150, 400, 1_000, 2_500)
LEARNERS = (1, 2, 3, 5, 8, 20, 36, 100, 200)
ROUNDING = 1e-12  # by which ‖w‖_p may exceed 1 in float64


@dataclass(frozen=True)
class StressProblem:
    """A problem with a name that says what is odd about it."""

    name: str
    problem: FusionProblem


Variant = Callable[[FusionProblem, np.random.Generator], FusionProblem]


def stress_problems() -> Iterator[StressProblem]:
    """The suite, the same at every call."""
    rows, learners = cycle(ROWS), cycle(LEARNERS)
    for label, fraction, (name, variant) in product(ALL_P, FRACTIONS, VARIANTS.items()):
        # Cycles of lengths 7 and 9 against 10 variants: every pairing comes up.
        yield _build(name, variant, next(rows), next(learners), fraction, label)
    odd = cycle(VARIANTS.items())
    for label, (k, fraction) in product(ALL_P, enumerate(FRACTIONS)):
        name, variant = next(odd)
        yield _build(f"large, {name}", variant, 8_000, (36, 8, 3, 20)[k], fraction, label)
        yield _build("large", _plain, 20_000, (4, 36, 12, 36)[k], fraction, label)
        yield _build("few rows", _plain, 7, 60, fraction, label)
        yield _build("one row", _plain, 1, (1, 2, 36, 200)[k], 0.0, label)


def _build(
    name: str, variant: Variant, n: int, R: int, fraction: float, label: str
) -> StressProblem:
    title = f"{name}, {n}×{R}, {fraction:.0%} negatives, p={label}"
    rng = np.random.default_rng(zlib.crc32(title.encode()))
    # At least one anomaly where there should be some: 1 % of 20 rows would be none.
    share = max(fraction, 1.0 / n) if fraction > 0 else 0.0
    scores, labels = synthetic_scores(n, R, share, int(rng.integers(2**31)))
    return StressProblem(title, variant(FusionProblem(scores, labels, parse_p(label)), rng))


def _plain(problem: FusionProblem, rng: np.random.Generator) -> FusionProblem:
    return problem


def _duplicated_rows(problem: FusionProblem, rng: np.random.Generator) -> FusionProblem:
    rows = np.r_[0 : problem.n, rng.integers(max(1, problem.n // 10), size=problem.n)]
    return FusionProblem(problem.scores[rows], problem.labels[rows], problem.p)


def _constant_columns(problem: FusionProblem, rng: np.random.Generator) -> FusionProblem:
    scores = problem.scores.copy()
    scores[:, 0] = 0.5
    scores[:, scores.shape[1] // 2] = 0.0
    return FusionProblem(scores, problem.labels, problem.p)


def _duplicated_columns(problem: FusionProblem, rng: np.random.Generator) -> FusionProblem:
    columns = rng.integers(max(1, problem.scores.shape[1] // 2), size=problem.scores.shape[1])
    return FusionProblem(
        np.ascontiguousarray(problem.scores[:, columns]), problem.labels, problem.p
    )


def _one_column_huge(problem: FusionProblem, rng: np.random.Generator) -> FusionProblem:
    scale = np.ones(problem.scores.shape[1])
    scale[rng.integers(len(scale))] = 1000.0
    return FusionProblem(problem.scores * scale, problem.labels, problem.p)


def _heavy_tails(problem: FusionProblem, rng: np.random.Generator) -> FusionProblem:
    noise = rng.standard_t(1.5, problem.scores.shape)
    return FusionProblem(problem.scores + noise, problem.labels, problem.p)


def _zero_loss(problem: FusionProblem, rng: np.random.Generator) -> FusionProblem:
    """Every learner alone separates with a margin above one, so f* = 0 for every p."""
    margins = rng.uniform(1.2, 3.0, problem.scores.shape)
    return FusionProblem(margins * problem.labels[:, None], problem.labels, problem.p)


def _signed(problem: FusionProblem, rng: np.random.Generator) -> FusionProblem:
    return FusionProblem(2.0 * problem.scores - 1.0, problem.labels, problem.p)


def _clipped(problem: FusionProblem, rng: np.random.Generator) -> FusionProblem:
    """Scores cut to [0, 1] and rounded: many exact ties."""
    return FusionProblem(np.round(np.clip(problem.scores, 0, 1), 1), problem.labels, problem.p)


def _weighted(problem: FusionProblem, rng: np.random.Generator) -> FusionProblem:
    costs = np.exp(rng.normal(0.0, 2.0, problem.n))
    return FusionProblem(problem.scores, problem.labels, problem.p, costs)


VARIANTS: dict[str, Variant] = {
    "plain": _plain,
    "duplicated rows": _duplicated_rows,
    "constant columns": _constant_columns,
    "duplicated columns": _duplicated_columns,
    "one column × 1000": _one_column_huge,
    "heavy tails": _heavy_tails,
    "zero loss": _zero_loss,
    "signed": _signed,
    "clipped, ties": _clipped,
    "sample weights": _weighted,
}


def check(stress: StressProblem, gap: float) -> dict[str, Any]:
    """Solve one problem with lpfuse and recompute all that its certificate claims."""
    from research.rivals.solvers.lpfuse_interior_point import solve

    problem = stress.problem
    row = {"name": stress.name, "n": problem.n, "R": problem.scores.shape[1]}
    start = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a missed tolerance shows in the gap below
            answer = solve(problem, gap, np.inf)
    except Exception as error:
        return {**row, "status": "error", "message": f"{type(error).__name__}: {error}"}
    seconds = time.perf_counter() - start
    assert answer.alpha is not None
    return {**row, "seconds": seconds, **recompute(problem, answer.weights, answer.alpha, gap)}


def recompute(problem: FusionProblem, w: Vector, alpha: Vector, gap: float) -> dict[str, Any]:
    """The status from w and α alone: "certified", "uncertified", "infeasible" or "nan"."""
    if not (np.all(np.isfinite(w)) and np.all(np.isfinite(alpha))):
        return {"status": "nan", "relative_gap": None}
    value = objective(problem, into_ball(w, problem.p))
    found = relative_gap(problem, value, dual_bound(problem, alpha))
    if lp_norm(w, problem.p) > 1.0 + ROUNDING:
        return {"status": "infeasible", "relative_gap": found}
    return {"status": "certified" if found <= gap else "uncertified", "relative_gap": found}


def summarise(rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Counts by status, and the worst gap with the problem it belongs to."""
    rows = list(rows)
    states = ("certified", "uncertified", "infeasible", "nan", "error")
    counts = {state: sum(row["status"] == state for row in rows) for state in states}
    judged = [row for row in rows if row.get("relative_gap") is not None]
    worst = max(judged, key=lambda row: row["relative_gap"], default=None)
    return {
        "problems": len(rows),
        **counts,
        "worst_gap": worst and worst["relative_gap"],
        "worst_problem": worst and worst["name"],
        "seconds": sum(row.get("seconds", 0.0) for row in rows),
    }


def run_stress(out: Path, gap: float, every: int, threads: int) -> None:
    """Run the suite, print what it found and store it."""
    rows = []
    with threadpool_limits(threads):
        for number, stress in enumerate(stress_problems()):
            if number % every == 0:
                rows.append(check(stress, gap))
                if rows[-1]["status"] != "certified":
                    print(rows[-1], flush=True)
    summary = summarise(rows)
    for key, value in summary.items():
        print(f"{key:>14}: {value}")
    record = {
        "kind": "stress", "gap": gap, **summary, "rows": rows,
        "environment": environment(threads, PACKAGES),
    }  # fmt: skip
    write_document(out, record)
