"""What the bounds of rounding cost: ``python -m research.speed.solver.proof``.

Times a fit, the examination of its answer with bounds of rounding, and the same two sums without
them (a product with S each way, no bound), all in one run; medians of CPU time. The share is what
the bounds add to a fit.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from lpfuse._arrays.operations import one_blas_thread
from lpfuse.optim import Problem, solve
from lpfuse.optim.certificate import Certifier
from lpfuse.optim.results import Candidate

SIZES = ((1_000, 36), (10_000, 4), (10_000, 36), (100_000, 36))
KINDS: dict[str, dict[str, Any]] = {
    "normal rows": {"p": 4 / 3},
    "labelled, intercept": {"p": 2.0, "fit_intercept": True},
}


def main() -> None:
    """Print a line for each kind and size."""
    print("| problem | rows | detectors | fit, ms | bounded, ms | plain, ms | added to the fit |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for kind, settings in KINDS.items():
        for n, R in SIZES:
            fit, bounded, plain = (1e3 * seconds for seconds in _times(n, R, settings))
            share = 100.0 * (bounded - plain) / fit
            figures = f"{fit:.2f} | {bounded:.3f} | {plain:.3f} | {share:.1f} %"
            print(f"| {kind} | {n:,} | {R} | {figures} |")


def _times(n: int, R: int, settings: dict[str, Any]) -> tuple[float, float, float]:
    rng = np.random.default_rng(0)
    y = np.where(rng.random(n) < 0.1, -1.0, 1.0)
    S = rng.normal(size=(n, R)) + 0.5 * y[:, None]
    problem = Problem(S, y if "fit_intercept" in settings else None, **settings)
    found = solve(problem)
    point = np.append(found.weights, [found.intercept] * problem.fit_intercept)
    alpha = found.certificate.alpha
    certifier = Certifier(problem, [problem.ball], 1e-8)

    def plain() -> tuple[float, float]:
        fused = S @ point[:R] + (found.intercept if problem.fit_intercept else 0.0)
        r = 1.0 - (fused if problem.y is None else y * fused)
        pull = alpha if problem.y is None else alpha * y
        return float(np.maximum(r, 0.0).sum()), float(alpha.sum()) - np.linalg.norm(pull @ S)

    repeats = max(3, 200_000 // n)
    fit = _median(lambda: solve(problem), max(3, repeats // 10))
    with one_blas_thread:
        bounded = _median(lambda: certifier.examine({0: Candidate(point, alpha)}), repeats)
        return fit, bounded, _median(plain, repeats)


def _median(work: Callable[[], Any], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return float(np.median(times))


if __name__ == "__main__":
    main()
