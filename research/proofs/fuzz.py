"""Fit problems and judge their certificates, in blocks that are kept when a run is stopped."""

from __future__ import annotations

import math
import re
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lpfuse import LpFusion, lp_path
from research.common.measure import measure, versions
from research.common.store import Cell, Row
from research.proofs.families import FAMILIES, FusionInput, make
from research.proofs.judge import judge

ROWS = Path("build/proofs.jsonl")  # one a block; what is published is their sum
PATH = (1.0, 8 / 7, 4 / 3, 2.0, 10.0, math.inf)
BLOCK = 50  # problems that are kept together
TOLD = ("false", "error")  # each by family and seed, so that it can be made again
EXCESSES = (0.0, 1e-16, 1e-15, 1e-14, 1e-13, 1e-12)  # how many exceed each is counted


class Fitted(NamedTuple):
    """What the judge asks of a fit."""

    parameters: dict[str, Any]
    weights_: np.ndarray
    intercept_: float
    certificate_: Any


def fits(problem: FusionInput) -> list[Fitted]:
    """One fit, or one for each p of a path."""
    data: tuple[Any, ...] = problem.S, problem.y, problem.sample_weight
    S, y, weight = data
    parameters = problem.parameters
    if problem.form == "path":
        rest = {name: value for name, value in parameters.items() if name != "p"}
        path = lp_path(S, y, ps=PATH, sample_weight=weight, **rest)
        found = zip(path.ps, path.weights, path.intercepts, path.certificates, strict=True)
        return [Fitted(parameters | {"p": float(p)}, w, float(b), c) for p, w, b, c in found]
    if problem.form == "blocks":
        import dask.array as da

        rows = max(1, len(S) // 3)
        S = da.from_array(S, chunks=(rows, S.shape[1]))
        y, weight = (x if x is None else da.from_array(x, chunks=rows) for x in (y, weight))
    if problem.form == "tensors":
        import torch

        S, y, weight = (x if x is None else torch.asarray(x) for x in (S, y, weight))
    fusion = LpFusion(**parameters).fit(S, y, weight)
    return [Fitted(parameters, fusion.weights_, fusion.intercept_, fusion.certificate_)]


def outcome(problem: FusionInput) -> Row:
    """One problem, fitted and judged; of a path, the p that does worst.

    ``outcome`` is the certificate's own status, or "false", "refused" (the sentence in ``why``) or
    "error": an exception that is no refusal.
    """
    start = time.perf_counter()
    try:
        # Overflow and the like are the library's to avoid: where it warns, it must not claim.
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found = fits(problem)
    except Exception as error:
        # LinAlgError is a ValueError, but no sentence about what the user passed.
        is_refusal = isinstance(error, ValueError) and not isinstance(error, np.linalg.LinAlgError)
        why = str(error) if is_refusal else f"{type(error).__name__}: {error}"
        return {"outcome": "refused" if is_refusal else "error", "why": why}
    fit_s = time.perf_counter() - start
    rows = [_judged(problem, fitted) for fitted in found]
    worst = max(rows, key=lambda row: (row["outcome"] == "false", row["excess"]))
    return worst | {"fit_s": fit_s, "judge_s": time.perf_counter() - start - fit_s}


def _judged(problem: FusionInput, fitted: Fitted) -> Row:
    verdict = judge(problem.S, problem.y, problem.sample_weight, fitted.parameters, fitted)
    claim = fitted.certificate_
    tol = fitted.parameters.get("tol", 1e-8)
    return {
        "outcome": "false" if verdict.is_false else claim.status,
        "why": "; ".join(verdict.reasons),
        "excess": verdict.excess,
        "claimed": claim.relative_gap,
        "proven": verdict.relative_gap,
        "norm_excess": verdict.norm_excess,
        # Within tol by exact arithmetic, and not said so: what honesty in float64 costs.
        "cautious": bool(claim.status != "optimal" and verdict.relative_gap <= tol),
    }


def block(cell: Cell) -> list[Row]:
    """The problems of one block, summed up in a row."""
    seeds = range(cell.seed * BLOCK, (cell.seed + 1) * BLOCK)
    rows = [outcome(make(cell.set, seed)) | {"at": seed} for seed in seeds]
    return [summary(rows)]


def summary(rows: Sequence[Row]) -> Row:
    """Counts, the worst figures, and each problem that must not occur."""
    judged = [row for row in rows if "excess" in row]
    true = [row for row in judged if row["outcome"] != "false"]
    refusals = Counter(_sentence(row["why"]) for row in rows if row["outcome"] == "refused")
    return {
        "problems": len(rows),
        "outcomes": dict(sorted(Counter(row["outcome"] for row in rows).items())),
        "cautious": sum(row["cautious"] for row in judged),
        "worst_excess": _largest(row["excess"] for row in judged),
        "worst_excess_of_true": _largest(row["excess"] for row in true),
        "excesses": {f"{x:g}": sum(row["excess"] > x for row in judged) for x in EXCESSES},
        "worst_norm": _largest(row["norm_excess"] for row in judged),
        "refusals": dict(refusals),
        "told": [_told(row) for row in rows if row["outcome"] in TOLD],
    }


def merged(rows: Sequence[Row]) -> Row:
    """Several blocks as one."""
    counts = ("outcomes", "excesses", "refusals")
    worst = ("worst_excess", "worst_excess_of_true", "worst_norm")
    return {
        **{name: sum(row[name] for row in rows) for name in ("problems", "cautious")},
        **{name: dict(sum((Counter(r[name]) for r in rows), Counter())) for name in counts},
        **{
            name: _largest(float(row[name]) for row in rows if row[name] is not None)
            for name in worst
        },
        "told": [entry for row in rows for entry in row["told"]],
    }


def _told(row: Row) -> dict[str, Any]:
    names = ("at", "outcome", "why", "excess", "claimed", "proven", "norm_excess")
    return {name: row[name] for name in names if name in row}


def _sentence(text: str) -> str:
    """A refusal without its figures and columns, so that equal ones are counted together."""
    words = ("…" if any(c.isdigit() for c in word) else word for word in text.split())
    return re.sub(r"(column … )+(and column … |and … more )?", "column … ", " ".join(words))[:160]


def _largest(values: Any) -> float | None:
    return max((v for v in values if v == v), default=None)


def run(blocks: int, path: Path, jobs: int = -1, families: Sequence[str] = FAMILIES) -> list[Row]:
    """Judge `blocks` × `BLOCK` problems of each family; those that are stored are not run again."""
    cells = [Cell(family, k) for k in range(blocks) for family in families]
    known = versions()
    opening = {"versions": known, "block": BLOCK}
    return measure(block, cells, path, protocol=None, opening=opening, jobs=jobs, progress=_tell)


def _tell(done: int, total: int) -> None:
    if done == total or done % 50 == 0:
        print(f"{done} of {total} blocks", flush=True)
