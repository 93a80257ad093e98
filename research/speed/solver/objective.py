"""The one judge: every rival's weights are scored here, by the same few lines, in float64.

The judge scales w into the ball, evaluates f(w) and compares it with a dual bound that was
certified beforehand: for any α ∈ [0, 1]ⁿ,  D(α) = Σ c_i α_i − ‖Σ c_i α_i y_i s_i‖_q  ≤  min f.
What a solver says about itself is not asked. Relative gap: (f − D) / max(f, 1e-3 Σ c_i).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .problems import FusionProblem, Vector

BLOCK_ROWS = 1 << 14


def lp_norm(x: Vector, p: float) -> float:
    """‖x‖_p for 1 ≤ p ≤ ∞, scaled by the largest entry so that no power overflows."""
    largest = float(np.max(np.abs(x), initial=0.0))
    if largest == 0.0 or math.isinf(p) or not math.isfinite(largest):
        return largest
    return largest * float(np.sum((np.abs(x) / largest) ** p)) ** (1.0 / p)


def conjugate(p: float) -> float:
    """q with 1/p + 1/q = 1."""
    if p == 1.0:
        return math.inf
    return 1.0 if math.isinf(p) else p / (p - 1.0)


def into_ball(w: Vector, p: float) -> Vector:
    """w itself where it is feasible, otherwise w divided by its norm."""
    return w / max(1.0, lp_norm(w, p))


def objective(problem: FusionProblem, w: Vector) -> float:
    """f(w), summed without loss over blocks of rows."""
    return math.fsum(
        float(np.sum(costs * np.maximum(0.0, 1.0 - labels * (scores @ w))))
        for scores, labels, costs in _row_blocks(problem)
    )


def dual_bound(problem: FusionProblem, alpha: Vector) -> float:
    """D(α), a lower bound on f over the ball whatever α is: it is clipped to [0, 1] first."""
    weighted = np.clip(alpha, 0.0, 1.0) * problem.cost_vector
    total = math.fsum(weighted)
    blocks = [
        (weighted[start : start + len(labels)] * labels) @ scores
        for start, (scores, labels, _) in zip(
            range(0, problem.n, BLOCK_ROWS), _row_blocks(problem), strict=True
        )
    ]
    direction = np.array([math.fsum(column) for column in np.transpose(blocks)])
    return total - lp_norm(direction, conjugate(problem.p))


def relative_gap(problem: FusionProblem, value: float, bound: float) -> float:
    """(f − D) / max(f, 1e-3 Σ c_i); +∞ where a NaN crept in."""
    gap = (value - bound) / max(value, 1e-3 * float(np.sum(problem.cost_vector)))
    return gap if math.isfinite(gap) else math.inf


def _row_blocks(problem: FusionProblem) -> Iterator[tuple[Vector, Vector, Vector]]:
    costs = problem.cost_vector
    for start in range(0, problem.n, BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        yield problem.scores[rows], problem.labels[rows], costs[rows]


@dataclass(frozen=True)
class Verdict:
    """What the judge found; ``own_gap`` is what the solver's own α proves, if it gave one."""

    objective: float
    relative_gap: float
    norm: float
    own_gap: float | None = None


class Judge:
    """Scores answers to one problem against one certified bound."""

    def __init__(self, problem: FusionProblem, bound: float) -> None:
        self.problem = problem
        self.bound = bound

    @classmethod
    def from_certificate(cls, problem: FusionProblem, alpha: Vector) -> Judge:
        """The bound is computed here from α, never taken on trust."""
        return cls(problem, dual_bound(problem, alpha))

    def verdict(self, weights: Vector, alpha: Vector | None = None) -> Verdict:
        problem = self.problem
        w = np.asarray(weights, dtype=np.float64)
        value = objective(problem, into_ball(w, problem.p))
        own = None
        if alpha is not None and np.all(np.isfinite(alpha)):
            own = relative_gap(problem, value, dual_bound(problem, alpha))
        gap = relative_gap(problem, value, self.bound)
        return Verdict(value, gap, lp_norm(w, problem.p), own)
