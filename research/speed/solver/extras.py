"""Two things only lpfuse does: a whole path over p, and least squares for a whole grid of p."""

from __future__ import annotations

import statistics
from typing import Any

from lpfuse.optim import Problem, solve
from lpfuse.optim.solve import solve_path
from research.common.clock import timed

from .problems import Case, parse_p


class PathBench:
    """Scores of one case, solved along p and at single p."""

    def __init__(self, case: Case) -> None:
        self.scores, labels = case.data()
        self.labels = labels if (labels < 0).any() else None
        self._warm_up(case.small())

    def path(self, ps: list[str], tolerance: float, repeats: int) -> dict[str, Any]:
        """The path in units of a single solve (the median over its p)."""
        values = [parse_p(p) for p in ps]
        single = {}
        for label, p in zip(ps, values, strict=True):
            problem = Problem(self.scores, y=self.labels, p=p)
            single[label] = _median(lambda q=problem: solve(q, tol=tolerance), repeats)
        problem = Problem(self.scores, y=self.labels, p=values[0])
        solutions = solve_path(problem, values, tol=tolerance)
        return {
            "path_seconds": _median(lambda: solve_path(problem, values, tol=tolerance), repeats),
            "single_seconds": single,
            "worst_gap": max(float(s.certificate.relative_gap) for s in solutions),
        }

    def least_squares(self, ps: list[str], tolerance: float, repeats: int) -> dict[str, Any]:
        """The same path for the squared loss, beside the time of the one Gram matrix it needs."""
        values = [parse_p(p) for p in ps]
        problem = Problem(self.scores, y=self.labels, p=values[0], loss="least_squares")
        solutions = solve_path(problem, values, tol=tolerance)
        return {
            "path_seconds": _median(lambda: solve_path(problem, values, tol=tolerance), repeats),
            "gram_seconds": _median(lambda: self.scores.T @ self.scores, repeats),
            "worst_gap": max(float(s.certificate.relative_gap) for s in solutions),
        }

    def _warm_up(self, small: Case) -> None:
        scores, labels = small.data()
        solve(Problem(scores, y=labels, p=2.0), tol=1e-3)


def _median(action: Any, repeats: int) -> float:
    return statistics.median(timed(action)[0] for _ in range(repeats))
