"""Where a solve over many rows spends its time: ``python -m research.speed.solver.passes``.

Each stage in units of one read of all scores, on one core, with the rows that partitions kept. The
time is that of the processor, and of several runs the least counts: other work on the machine
disturbs both less. Scores come from the grid's generator or, with ``--kind``, from others, so that
nothing is tuned to one of them.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from lpfuse.optim import Problem, passes, solve
from lpfuse.optim import large as one_ball
from lpfuse.optim.certificate import Certifier
from research.common.judge import Matrix, Vector
from research.speed.records import number

from .problems import ALL_P, NEGATIVE_FRACTION, parse_p, synthetic_scores

STAGES: dict[str, tuple[Any, str]] = {
    "sample": (Problem, "draw"),
    "guesses": (one_ball, "_two_guesses"),
    "partition": (passes.ScorePasses, "partition"),
    "model": (one_ball.Search, "propose"),
    "certify": (Certifier, "examine"),
}


def heavy_tails(n: int, R: int, negatives: float, seed: int) -> tuple[Matrix, Vector]:
    """Student's t of 2.2 degrees: hardly a variance."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < negatives, -1.0, 1.0)
    noise = rng.standard_t(2.2, (n, R)) * rng.uniform(0.3, 1.5, R)
    return 0.5 + 0.4 * y[:, None] + 0.3 * noise, y


def ties(n: int, R: int, negatives: float, seed: int) -> tuple[Matrix, Vector]:
    """Two decimals."""
    S, y = synthetic_scores(n, R, negatives, seed)
    return np.round(S, 2), y


def repeated_rows(n: int, R: int, negatives: float, seed: int) -> tuple[Matrix, Vector]:
    """A hundred of each row."""
    S, y = synthetic_scores(max(2000, n // 100), R, negatives, seed)
    chosen = np.random.default_rng(seed).integers(0, len(S), n)
    return S[chosen], y[chosen]


def outliers(n: int, R: int, negatives: float, seed: int) -> tuple[Matrix, Vector]:
    """Forty rows, ten thousand times as large."""
    S, y = synthetic_scores(n, R, negatives, seed)
    S[np.random.default_rng(seed).integers(0, n, 40)] *= 1e4
    return S, y


def sorted_by_class(n: int, R: int, negatives: float, seed: int) -> tuple[Matrix, Vector]:
    """Anomalies first, each class by its first score."""
    S, y = synthetic_scores(n, R, negatives, seed)
    order = np.lexsort((S[:, 0], y))
    return S[order], y[order]


def runs(n: int, R: int, negatives: float, seed: int) -> tuple[Matrix, Vector]:
    """Two hundred rows at a time that differ little, as frames of a video do."""
    S, y = synthetic_scores(n // 200 + 1, R, negatives, seed)
    at = np.arange(n) // 200
    return S[at] + 0.02 * np.random.default_rng(seed).standard_normal((n, R)), y[at]


KINDS: dict[str, Callable[[int, int, float, int], tuple[Matrix, Vector]]] = {
    "grid": synthetic_scores,
    "heavy": heavy_tails,
    "ties": ties,
    "repeated": repeated_rows,
    "outliers": outliers,
    "sorted": sorted_by_class,
    "runs": runs,
}


def read_seconds(S: Matrix, repeats: int = 5) -> float:
    """One read of the scores, by the faster of a sum and a product, in blocks of 8 MiB."""
    w, rows = np.ones(S.shape[1], dtype=S.dtype), max(1, (1 << 23) // S.strides[0])
    blocks = [S[start : start + rows] for start in range(0, len(S), rows)]

    def least(work: Callable[[Matrix], object]) -> float:
        return min(_seconds(lambda: [work(block) for block in blocks]) for _ in range(repeats))

    return min(least(np.sum), least(lambda block: block @ w))


def _seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


@contextmanager
def clocks(seconds: dict[str, float], kept: list[str]) -> Iterator[None]:
    """Add up what stages take, and note the rows that partitions keep: * marks a part of them."""
    patches = []
    for stage, (owner, name) in STAGES.items():
        patches.append(
            patch.object(owner, name, _clocked(getattr(owner, name), stage, seconds, kept))
        )
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in patches:
            each.stop()


def _clocked(
    work: Callable[..., Any], stage: str, seconds: dict[str, float], kept: list[str]
) -> Callable[..., Any]:
    def clocked(*args: Any, **options: Any) -> Any:
        start = time.process_time()
        found = work(*args, **options)
        seconds[stage] += time.process_time() - start
        if stage == "partition":
            for plan, part in zip(args[1], found, strict=True):
                rows = getattr(part, "n_near", None) or part[0]
                kept.append(f"{rows}{'*' if plan.layers or plan.stride > 1 else ''}")
        return found

    return clocked


def measure(S: Matrix, y: Vector | None, p: str, repeats: int) -> dict[str, Any]:
    """The quickest of several solves, stage by stage, in reads."""
    best: dict[str, Any] = {"total": float("inf")}
    read = read_seconds(S)
    for _ in range(repeats):
        seconds: dict[str, float] = defaultdict(float)
        kept: list[str] = []
        start = time.process_time()
        with clocks(seconds, kept):
            found = solve(Problem(S, y, p=parse_p(p)))
        total = (time.process_time() - start) / read
        if total < best["total"]:
            stages = {stage: seconds[stage] / read for stage in STAGES}
            proof = found.certificate
            facts = {"passes": proof.passes, "status": proof.status, "kept": " ".join(kept)}
            best = {"total": total, **stages, **facts}
    return best


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser("python -m research.speed.solver.passes", description=__doc__)
    parser.add_argument("--n", type=number, default=1_000_000)
    parser.add_argument("--R", type=int, default=36)
    parser.add_argument("--kind", choices=list(KINDS), default="grid")
    parser.add_argument("--setting", nargs="+", default=list(NEGATIVE_FRACTION))
    parser.add_argument("--p", nargs="+", choices=ALL_P, default=list(ALL_P))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--single", action="store_true", help="scores of single precision")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    for setting in options.setting:
        S, y = KINDS[options.kind](options.n, options.R, NEGATIVE_FRACTION[setting], options.seed)
        S = S.astype(np.float32) if options.single else np.ascontiguousarray(S)
        print(f"\n{options.kind}, {setting}, {options.n} × {options.R}, in reads of S\n")
        print("| p | reads |", " | ".join(STAGES), "| passes | rows kept |")
        print("|---" * (len(STAGES) + 4) + "|")
        totals = []
        for p in options.p:
            found = measure(S, None if setting == "pure" else y, p, options.repeats)
            totals.append(found["total"])
            stages = " | ".join(f"{found[stage]:.1f}" for stage in STAGES)
            told = f"{found['passes']:.1f} | {found['kept']}"
            doubt = "" if found["status"] == "optimal" else f" ({found['status']})"
            print(f"| {p} | {found['total']:.1f} | {stages} | {told}{doubt} |", flush=True)
        print(f"\nMedian {np.median(totals):.1f} reads, worst {max(totals):.1f}.")


if __name__ == "__main__":
    main(sys.argv[1:])
