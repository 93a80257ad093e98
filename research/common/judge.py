"""The one judge of results: what a solver says about itself is not asked.

Fusion weights are scaled into the ball, f(w) is evaluated in float64 and compared with a dual bound
that was certified beforehand: for any α ∈ [0, 1]ⁿ,

    D(α) = Σ c_i α_i − ‖Σ c_i α_i y_i s_i‖_q  ≤  min f,   gap: (f − D) / max(f, 1e-3 Σ c_i).

Scores that have a closed form must agree to 1e-8; those of kernel PCA have one where the last
component in use and the first that is left out have different variances. Balls are found by an
iteration that stops at a tolerance, so of each the judge recomputes on all rows how far it is from
optimal: in libsvm's own measure, the largest violation of the optimality conditions, and by its
objective.

Nothing here is shared with the library.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.metrics.pairwise import rbf_kernel

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

BLOCK_ROWS = 1 << 14  # of scores that are multiplied at a time: they stay in the cache


@dataclass(frozen=True)
class FusionProblem:
    """One problem as a rival sees it: plain arrays and a number."""

    scores: Matrix
    labels: Vector
    p: float
    costs: Vector | None = None

    @property
    def n(self) -> int:
        return int(self.scores.shape[0])

    @property
    def is_pure(self) -> bool:
        return bool(np.all(self.labels > 0))

    @property
    def cost_vector(self) -> Vector:
        return np.ones(self.n) if self.costs is None else self.costs

    @property
    def signed_scores(self) -> Matrix:
        """Rows a_i = y_i s_i (the scores themselves, not a copy, when all rows are normal)."""
        return self.scores if self.is_pure else self.scores * self.labels[:, None]


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


def objective(problem: FusionProblem, w: Vector, block_rows: int = BLOCK_ROWS) -> float:
    """f(w), summed without loss over blocks of rows."""
    return math.fsum(
        float(np.sum(costs * np.maximum(0.0, 1.0 - labels * (scores @ w))))
        for scores, labels, costs in _row_blocks(problem, block_rows)
    )


def dual_bound(problem: FusionProblem, alpha: Vector, block_rows: int = BLOCK_ROWS) -> float:
    """D(α), a lower bound on f over the ball whatever α is: it is clipped to [0, 1] first."""
    weighted = np.clip(alpha, 0.0, 1.0) * problem.cost_vector
    total = math.fsum(weighted)
    blocks = [
        (weighted[start : start + len(labels)] * labels) @ scores
        for start, (scores, labels, _) in zip(
            range(0, problem.n, block_rows), _row_blocks(problem, block_rows), strict=True
        )
    ]
    direction = np.array([math.fsum(column) for column in np.transpose(blocks)])
    return total - lp_norm(direction, conjugate(problem.p))


def relative_gap(problem: FusionProblem, value: float, bound: float) -> float:
    """(f − D) / max(f, 1e-3 Σ c_i); +∞ where a NaN crept in."""
    gap = (value - bound) / max(value, 1e-3 * float(np.sum(problem.cost_vector)))
    return gap if math.isfinite(gap) else math.inf


def _row_blocks(problem: FusionProblem, block_rows: int) -> Iterator[tuple[Vector, Vector, Vector]]:
    costs = problem.cost_vector
    for start in range(0, problem.n, block_rows):
        rows = slice(start, start + block_rows)
        yield problem.scores[rows], problem.labels[rows], costs[rows]


@dataclass(frozen=True)
class Judgement:
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

    def judge(self, weights: Vector, alpha: Vector | None = None) -> Judgement:
        problem = self.problem
        w = np.asarray(weights, dtype=np.float64)
        value = objective(problem, into_ball(w, problem.p))
        own = None
        if alpha is not None and np.all(np.isfinite(alpha)):
            own = relative_gap(problem, value, dual_bound(problem, alpha))
        gap = relative_gap(problem, value, self.bound)
        return Judgement(value, gap, lp_norm(w, problem.p), own)


def gap_on_device(S: Any, y: Any, weights: Any, alpha: Any, p: float) -> float:
    """The relative gap where S and y are torch tensors on a device, with costs of 1.

    In float64, by plain torch; `y` is None where all rows are normal.
    """
    import torch

    rows = S.to(torch.float64) if y is None else S.to(torch.float64) * y[:, None]
    margins = rows @ torch.as_tensor(weights, device=S.device)
    value = float(torch.clamp(1.0 - margins, min=0.0).sum())
    alpha = torch.clamp(torch.as_tensor(alpha, device=S.device), 0.0, 1.0)
    bound = float(alpha.sum()) - lp_norm((alpha @ rows).cpu().numpy(), conjugate(p))
    return (value - bound) / max(value, 1e-3 * S.shape[0])


# ------------------------------------------------------------------------------ scores and balls

EQUAL = 1e-8  # of the largest score: what float64 leaves of kernels, eigenvectors and sums of them
SLACK = 1.5  # libsvm keeps kernel values in float32: it may stop a little too early by our count
SAME_OBJECTIVE = 1e-5  # relative; chosen by hand, far below what libsvm's tolerance allows
TIE = 1e-6  # a gap between two eigenvalues, as a share of the largest, that rounding may turn round


class Ball(NamedTuple):
    """A ball by its coefficients, which sum to one, of some training rows."""

    support: np.ndarray
    coefficients: Vector


def difference(scores: Any, reference: Any) -> float:
    """The largest, as a share of the largest score; infinite where one is not a number."""
    apart = np.abs(np.asarray(scores) - np.asarray(reference)).max()
    size = np.abs(reference).max()
    return float(apart / size) if np.isfinite(apart) and size > 0 else float("inf")


def ball_facts(X: Matrix, ball: Ball, nu: float, gamma: float) -> dict[str, float]:
    """What decides whether a ball is the one that was asked for.

    With f = Kβ and C = 1 / (νn): at the optimum no row that could weigh more lies further out than
    a row that could weigh less. libsvm measures the worst such pair for coefficients of sum νn.
    """
    n = len(X)
    beta = np.zeros(n)
    beta[ball.support] = ball.coefficients
    values = np.concatenate(
        [
            rbf_kernel(X[start : start + 2048], X[ball.support], gamma) @ ball.coefficients
            for start in range(0, n, 2048)
        ]
    )
    bound = 1 / (nu * n)
    may_grow, may_shrink = beta < bound * (1 - 1e-9), beta > 0
    violation = values[may_shrink].max() - values[may_grow].min() if may_grow.any() else 0.0
    outside_box = max(-beta.min(), beta.max() - bound, abs(beta.sum() - 1)) / bound
    return {
        "violation": float(violation * nu * n),
        "objective": float(beta @ values),
        "infeasibility": float(outside_box),
        "support": float(np.count_nonzero(beta)),
    }


def is_optimal(facts: dict[str, float], best: float, tol: float) -> bool:
    """Whether a ball meets the tolerance and is as good as the best that was found."""
    return (
        facts["violation"] <= SLACK * tol
        and facts["infeasibility"] <= 1e-6
        and facts["objective"] <= best * (1 + SAME_OBJECTIVE)
    )


def components_without_ties(X: Matrix, gamma: float, most: int) -> np.ndarray:
    """Whether the first q components are one choice only, for q = 0 … most."""
    K = rbf_kernel(X, gamma=gamma)
    means = K.mean(axis=0)
    K -= means
    K -= means[:, None] - means.mean()
    values = scipy.linalg.eigvalsh(K, overwrite_a=True, check_finite=False)[::-1]
    gaps = values[: most + 1] - values[1 : most + 2]
    return np.r_[True, (gaps > TIE * values[0])[:most]]
