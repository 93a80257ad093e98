"""The problem as the user states it, what a solution is, and the proof that comes with it.

minimise   f(w, b) = Σ_i c_i loss(1 − y_i (s_iᵀw + b))     subject to   w in the ℓp ball
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from lpfuse._arrays import (
    Array,
    Host,
    as_float64,
    concatenate,
    detached,
    like,
    map_row_blocks,
    to_host,
    total,
)
from lpfuse.optim.balls import LpBall
from lpfuse.optim.losses import LOSSES, Loss

FLOOR = 1e-3  # gaps are relative to f, but to no less than this share of Σ c: f = 0 occurs


@dataclass(frozen=True)
class Certificate:
    """Proof of how far weights can be from optimal: ``dual ≤ optimum ≤ primal``.

    Attributes
    ----------
    primal : float
        Value f(w, b) of the weights.
    dual : float
        A lower bound of the optimum, proven by `alpha`: recompute it with
        ``Problem.dual_value(certificate.alpha)``.
    gap : float
        ``primal − dual``: the weights are at most this much worse than the best ones.
    relative_gap : float
        ``gap / max(primal, 1e-3 Σ c)``.
    passes : float
        How often the scores were read; a subsample counts by its share.
    status : str
        "optimal" when the relative gap is within the tolerance, "stopped" when the solver met its
        own stopping rule first, "max_iter" when it ran out of steps.
    alpha : array of shape (n,) or None
        The dual point, in [0, 1], for the hinge.
    dual_weights : array of shape (R,) or None
        For least squares a dual point needs only R numbers, weights w̃ that may lie outside the
        ball: ``α = Problem.dual_point(dual_weights)``.
    """

    primal: float
    dual: float
    gap: float
    relative_gap: float
    passes: float
    status: str
    alpha: Array | None = field(default=None, repr=False, compare=False)
    dual_weights: Host | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return (
            f"{self.status}: value {self.primal:.6g}, at most {self.gap:.1e} above the optimum "
            f"(relative gap {self.relative_gap:.1e}, {self.passes:.1f} passes over the scores)"
        )


@dataclass(frozen=True)
class Solution:
    """Weights, intercept and certificate; `n_iter` counts the steps of the solver."""

    weights: Host
    intercept: float
    certificate: Certificate
    n_iter: int


class Problem:
    """Scores, labels and costs over a ball.

    Parameters
    ----------
    S : array of shape (n, R)
        Scores, high = normal, of any array library.
    y : array of shape (n,) or None
        +1 for normal, −1 for anomaly; None: all normal.
    p : float in [1, ∞]
        Which ball.
    costs : array of shape (n,) or None
        The c_i ≥ 0; None: all 1.
    loss : "hinge" or "least_squares"
    nonnegative : bool
        Whether w ≥ 0 is required.
    fit_intercept : bool
        Whether b is free; otherwise it is 0.

    Examples
    --------
    >>> import numpy as np
    >>> problem = Problem(np.array([[0.0, 2.0], [0.5, 0.0]]), p=2.0)
    >>> problem.value(np.array([0.0, 1.0]))
    1.0
    >>> problem.dual_value(np.array([0.5, 1.0]))
    0.3819...
    """

    def __init__(
        self,
        S: Array,
        y: Array | None = None,
        *,
        p: float = 2.0,
        costs: Array | None = None,
        loss: str = "hinge",
        nonnegative: bool = False,
        fit_intercept: bool = False,
    ) -> None:
        self.S = S = detached(S)
        self.y = None if y is None else like(y, S)
        self.costs = None if costs is None else like(costs, S)
        self.ball = LpBall(float(p), nonnegative)
        self.loss: Loss = LOSSES[loss]
        self.fit_intercept = fit_intercept

    @property
    def n(self) -> int:
        """Number of samples."""
        return int(self.S.shape[0])

    @property
    def R(self) -> int:
        """Number of learners."""
        return int(self.S.shape[1])

    @property
    def size(self) -> int:
        """Coordinates of the solver: R weights, and the intercept where there is one."""
        return self.R + int(self.fit_intercept)

    @cached_property
    def total_cost(self) -> float:
        """``Σ c``."""
        return float(self.n) if self.costs is None else total(self.costs)

    @property
    def scale(self) -> float:
        """The least value that gaps are measured against."""
        return FLOOR * self.total_cost

    def with_ball(self, p: float) -> Problem:
        """The same data over the ball of another p."""
        other = copy(self)
        other.ball = LpBall(float(p), self.ball.nonnegative)
        return other

    def rows(self, part: slice) -> tuple[Array, Array | float, Array | float]:
        """Scores, labels and costs of a slice of the rows, in float64; 1.0 stands for all ones."""
        y = 1.0 if self.y is None else self.y[part]
        c = 1.0 if self.costs is None else self.costs[part]
        return as_float64(self.S[part, :]), y, c

    def residuals(self, S: Array, y: Array | float, v: Host) -> Array:
        """``r = 1 − y(S w + b)`` of some rows, for v = (w, b)."""
        fused = S @ like(v[: self.R], S)
        if self.fit_intercept:
            fused = fused + float(v[self.R])
        return 1.0 - y * fused

    def value(self, w: Host, intercept: float = 0.0) -> float:
        """``f(w, b)``, in one pass over the scores; b counts only when an intercept is fitted."""
        v = np.append(np.asarray(w, dtype=np.float64), intercept)

        def work(part: slice) -> float:
            S, y, c = self.rows(part)
            return total(c * self.loss.value(self.residuals(S, y, v)))

        return math.fsum(map_row_blocks(work, self.S))

    def dual_value(self, alpha: Array) -> float:
        """The lower bound that the dual point α proves, in one pass over the scores.

        With an intercept the point must also satisfy ``Σ c_i α_i y_i = 0``: where it does not, to
        rounding, it proves nothing and the bound is −∞.
        """

        def work(part: slice) -> tuple[float, Host, float]:
            S, y, c = self.rows(part)
            a = c * alpha[part]
            return (
                total(c * self.loss.gain(alpha[part])),
                to_host((a * y) @ S),
                total(a * y),
            )

        gains, sums, balances = zip(*map_row_blocks(work, self.S), strict=True)
        if self.fit_intercept and abs(math.fsum(balances)) > 1e-9 * self.total_cost:
            return -math.inf
        return math.fsum(gains) - self.ball.dual_norm(np.sum(sums, axis=0))

    def dual_point(self, w: Host) -> Array:
        """``α_i = loss′(r_i)`` at weights w, with the least-squares intercept for them."""
        v = np.append(np.asarray(w, dtype=np.float64), 0.0)

        def residuals(part: slice) -> tuple[Array, float]:
            S, y, c = self.rows(part)
            r = self.residuals(S, y, v)
            return r, total(c * y * r)

        parts, balances = zip(*map_row_blocks(residuals, self.S), strict=True)
        r = concatenate(list(parts))
        if self.fit_intercept:
            shift = math.fsum(balances) / self.total_cost
            r = r - shift * (1.0 if self.y is None else self.y)
        return self.loss.slope(r)

    def certify(
        self, primal: float, dual: float, passes: float, tol: float, otherwise: str, **witness: Any
    ) -> Certificate:
        """The certificate of a solve; `otherwise` is its status if the gap exceeds tol."""
        if dual < 0.0:  # α = 0 proves that no value is negative
            dual, witness = 0.0, {"alpha": like(np.zeros(self.n), self.S)}
        gap = max(primal - dual, 0.0)  # the two sums round differently: a gap of −1e-17 is none
        relative = gap / max(primal, self.scale)
        status = "optimal" if relative <= tol else otherwise
        return Certificate(primal, dual, gap, relative, passes, status, **witness)
