"""Group norms: time of a fit as a ratio to the ℓp ball, and of CLARABEL in cvxpy.

python -m research.speed.norms [--largest 100000]
"""

from __future__ import annotations

import time
import warnings
from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np

from lpfuse import LpFusion
from lpfuse.optim import Problem, solve
from research.common import cvxpy_models
from research.common.tables import markdown

SIZES = ((50, 4), (50, 36), (1_000, 12), (1_000, 36), (10_000, 12), (100_000, 12), (1_000_000, 12))
REPEATS = 7
NORMS: dict[str, dict[str, Any]] = {
    "p=4/3": {"p": 4 / 3},
    "p=1 q=2": {"p": 1.0, "q": 2.0},
    "p=2 q=1": {"p": 2.0, "q": 1.0},
    "p=4/3 q=4": {"p": 4 / 3, "q": 4.0},
}


def rows_of(n: int, R: int, seed: int = 0) -> tuple[Any, Any, Any]:
    """Scores, labels and four families."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.1, -1.0, 1.0)
    S = np.clip(rng.normal(0.3, 0.6, (n, R)) - 0.4 * (y < 0)[:, None], -1, 1)
    return S, y, np.arange(R) * 4 // R


def seconds(call: Callable[[], Any], repeats: int) -> float:
    """Median time, after one call that is not timed."""
    taken = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return float(np.median(taken[1:]))


def clarabel(S: Any, y: Any, families: Any, norm: dict[str, Any]) -> tuple[float, float]:
    """Time of the call of cvxpy, and what of it the solver reports, at its tolerance of 1e-8."""
    w = cp.Variable(S.shape[1])
    if "q" in norm:
        each = [cp.norm(w[np.flatnonzero(families == g)], norm["q"]) for g in set(families)]
        ball = cp.norm(cp.hstack(each), norm["p"]) <= 1.0
    else:
        ball = cp.norm(w, norm["p"]) <= 1.0
    model = cp.Problem(cp.Minimize(cp.sum(cp.pos(1.0 - cp.multiply(y, S @ w)))), [ball])
    start = time.perf_counter()
    cvxpy_models.run(model, "CLARABEL")
    return time.perf_counter() - start, float(cvxpy_models.solver_seconds(model))


def line(n: int, R: int, name: str, base: dict[int, float]) -> tuple[str, ...]:
    """One row of the table; the first norm sets the base."""
    S, y, families = rows_of(n, R)
    norm = NORMS[name]
    groups = families if "q" in norm else None
    fusion = LpFusion(**norm, groups=groups)
    problem = Problem(S, y, groups=groups, **norm)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own = seconds(lambda: fusion.fit(S, y), REPEATS)
        core = seconds(lambda: solve(problem), REPEATS)
    call, solver = clarabel(S, y, families, norm)
    times = own / base.setdefault(0, own)
    gap = fusion.certificate_.relative_gap
    figures = f"{1e3 * own:.2f}", f"{times:.2f}", f"{call / own:.1f}", f"{solver / core:.1f}"
    return f"{n:,} × {R}", name, *figures, f"{gap:.0e}"


def main() -> None:
    """Print a table: milliseconds, the ratio to the ℓp ball, and what CLARABEL takes as a ratio."""
    parser = ArgumentParser("python -m research.speed.norms", description=__doc__)
    parser.add_argument("--largest", type=int, default=100_000, help="rows")
    options = parser.parse_args()
    lines: list[tuple[str, ...]] = []
    for n, R in (size for size in SIZES if size[0] <= options.largest):
        base: dict[int, float] = {}
        lines += [line(n, R, name, base) for name in NORMS]
    head = "rows", "norm", "fit, ms", "times ℓp", "cvxpy / fit", "CLARABEL / solve", "gap"
    print(markdown([head, *lines]))


if __name__ == "__main__":
    main()
