"""Group norms: time as a ratio to the ℓp ball, and of CLARABEL in cvxpy and alone, in turns.

python -m research.speed.norms [--largest 100000]
"""

from __future__ import annotations

import warnings
from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np

from lpfuse import LpFusion
from lpfuse.optim import Problem, solve
from research.common import cvxpy_models
from research.common.clock import cpu_timed
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


def cpu_medians(calls: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Median CPU time of each, in turns, after one round that is not timed."""
    rounds = [
        {name: cpu_timed(call)[0] for name, call in calls.items()} for _ in range(repeats + 1)
    ]
    return {name: float(np.median([each[name] for each in rounds[1:]])) for name in calls}


def model_of(S: Any, y: Any, families: Any, norm: dict[str, Any]) -> cp.Problem:
    """The problem for cvxpy."""
    w = cp.Variable(S.shape[1])
    if "q" in norm:
        each = [cp.norm(w[np.flatnonzero(families == g)], norm["q"]) for g in set(families)]
        ball = cp.norm(cp.hstack(each), norm["p"]) <= 1.0
    else:
        ball = cp.norm(w, norm["p"]) <= 1.0
    return cp.Problem(cp.Minimize(cp.sum(cp.pos(1.0 - cp.multiply(y, S @ w)))), [ball])


def line(n: int, R: int, name: str, base: dict[int, float]) -> tuple[str, ...]:
    """One row of the table; the first norm sets the base."""
    S, y, families = rows_of(n, R)
    norm = NORMS[name]
    groups = families if "q" in norm else None
    fusion = LpFusion(**norm, groups=groups)
    problem = Problem(S, y, groups=groups, **norm)
    data, chain, _ = model_of(S, y, families, norm).get_problem_data("CLARABEL")
    calls: dict[str, Callable[[], Any]] = {
        "fit": lambda: fusion.fit(S, y),
        "solve": lambda: solve(problem),
        "cvxpy": lambda: cvxpy_models.run(model_of(S, y, families, norm), "CLARABEL"),
        "CLARABEL": lambda: chain.solver.solve_via_data(data, False, False, {}),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        taken = cpu_medians(calls, REPEATS)
    solved = taken["solve"] / base.setdefault(0, taken["solve"])
    gap = fusion.certificate_.relative_gap
    milliseconds = (f"{1e3 * taken[kind]:.2f}" for kind in ("fit", "solve"))
    rivals = taken["cvxpy"] / taken["fit"], taken["CLARABEL"] / taken["solve"]
    ratios = f"{solved:.2f}", *(f"{ratio:.1f}" for ratio in rivals)
    return f"{n:,} × {R}", name, *milliseconds, *ratios, f"{gap:.0e}"


def main() -> None:
    """Print a table: CPU times, the ratio to the ℓp ball, and what CLARABEL takes as a ratio."""
    parser = ArgumentParser("python -m research.speed.norms", description=__doc__)
    parser.add_argument("--largest", type=int, default=100_000, help="rows")
    options = parser.parse_args()
    lines: list[tuple[str, ...]] = []
    for n, R in (size for size in SIZES if size[0] <= options.largest):
        base: dict[int, float] = {}
        lines += [line(n, R, name, base) for name in NORMS]
    times = "fit, ms", "solve, ms", "solve, times ℓp", "cvxpy / fit", "CLARABEL / solve"
    head = "rows", "norm", *times, "gap"
    print(markdown([head, *lines]))


if __name__ == "__main__":
    main()
