"""The reduced problem that the solvers work on, and a Newton step for it.

    minimise   k + gᵀw + ½ wᵀQw + Σ_i c_i max(0, 1 − a_iᵀw)   subject to   (w_1, …, w_R) in the ball

Rows that are clear of the kink of their hinge may have been replaced by its linear piece, in k and
g: so a model of few rows can stand for a problem of many, and its lower bound holds for the whole.

The hinge of a row is c ξ with ξ ≥ r = 1 − aᵀw and ξ ≥ 0: two slacks, s = ξ − r and ξ, with the
multipliers α and c − α (`RowPairs`). The constraints of the ball are pairs slack × multiplier as
well (`balls.BallPairs`). A Newton step drives the products of all pairs towards given targets, by
one Cholesky factor of R×R (`NewtonSystem`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg import lapack

from lpfuse._arrays.operations import (
    Array,
    Host,
    dot,
    joined_columns,
    like,
    namespace,
    nonzero,
    positive_part,
    smallest,
    sum_columns,
    take,
    to_host,
    total,
    weigh_columns,
)
from lpfuse.optim.balls import BallPairs, BallStep, LpBall

if TYPE_CHECKING:
    from lpfuse.optim.problem import Block, Problem


class Guess(NamedTuple):
    """A point inside the ball, and how far margins may still move from there."""

    w: Host
    band: float


@dataclass(frozen=True)
class Model:
    """Data of the model above.

    Attributes
    ----------
    columns : array of shape (coordinates, m)
        The rows a_i, one a column: products along samples then run over contiguous memory.
    costs : array of shape (m,)
        The c_i, all positive.
    ball : LpBall
        Constrains all coordinates but the last `free` ones.
    linear, constant, quadratic
        g, k and Q, on the host. Q may be None.
    free : int
        1 when the last coordinate is an intercept (its coefficients are the labels), else 0.
    """

    columns: Array
    costs: Array
    ball: LpBall
    linear: Host
    constant: float = 0.0
    quadratic: Host | None = None
    free: int = 0

    @classmethod
    def of_rows(cls, problem: Problem, block: Block, ball: LpBall) -> Model:
        """Rows of a problem as a model, on the host whatever device they come from."""
        a = to_host(problem.terms.signed_rows(block.S, block.y))
        costs = np.ones(len(a)) if isinstance(block.c, float) else to_host(block.c)
        linear = np.zeros(problem.size)
        return cls(joined_columns([a]), costs, ball, linear, free=int(problem.fit_intercept))

    @property
    def n_rows(self) -> int:
        """m."""
        return int(self.columns.shape[1])

    @property
    def size(self) -> int:
        """Number of coordinates, the free one included."""
        return int(self.columns.shape[0])

    @property
    def n_weights(self) -> int:
        """R: the coordinates inside the ball."""
        return self.size - self.free

    def margins(self, w: Host) -> Array:
        """``Aᵀw``, one number a row."""
        return weigh_columns(w, self.columns)

    def residuals(self, w: Host) -> Array:
        """``r = 1 − Aᵀw``: a row costs something where r > 0."""
        return 1.0 - self.margins(w)

    def smooth_value(self, w: Host) -> float:
        """``k + gᵀw + ½ wᵀQw``."""
        value = self.constant + float(self.linear @ w)
        return value if self.quadratic is None else value + 0.5 * float(w @ self.quadratic @ w)

    def primal(self, w: Host) -> float:
        """The objective at w."""
        return self.smooth_value(w) + dot(self.costs, positive_part(self.residuals(w)))

    def feasible(self, w: Host) -> Host:
        """The point w brought into the ball; a free coordinate stays as it is."""
        R = self.n_weights
        return np.concatenate([self.ball.scale_into(w[:R]), w[R:]])

    def slope(self, w: Host, alpha: Array) -> Host:
        """``g + Qw − Aα``: the gradient in w with the hinges replaced by their multipliers."""
        return self.slope_of(w, sum_columns(self.columns, alpha))

    def slope_of(self, w: Host, pull: Host) -> Host:
        """``g + Qw − pull``, for the pull ``Aα`` of the rows."""
        slope = self.linear - pull
        return slope if self.quadratic is None else slope + self.quadratic @ w

    def dual(self, w: Host, alpha: Array) -> tuple[float, Array]:
        """A lower bound of the optimum, and the multipliers that prove it.

        ``D = k + Σα − ½wᵀQw − max{−slopeᵀz : z in the ball}`` holds for every w and 0 ≤ α ≤ c whose
        slope vanishes in the free coordinate; there α is balanced first.
        """
        if self.free:
            alpha, balanced = self._balanced(alpha)
            if not balanced:
                return -np.inf, alpha
        slope = self.slope(w, alpha)
        bound = self.constant + total(alpha) - self.ball.support(-slope[: self.n_weights])
        if self.quadratic is not None:
            bound -= 0.5 * float(w @ self.quadratic @ w)
        return bound, alpha

    def _balanced(self, alpha: Array) -> tuple[Array, bool]:
        """α with one class scaled down until ``Σ α_i y_i`` is the free part of g, if it can be."""
        labels = self.columns[-1, :]
        xp = namespace(alpha)
        normal = xp.where(labels > 0, alpha, 0.0 * alpha)
        heavy = [total(normal), total(alpha) - total(normal)]
        excess = heavy[0] - heavy[1] - float(self.linear[-1])
        side = 0 if excess > 0 else 1
        if abs(excess) > heavy[side]:
            return alpha, False
        factor = [1.0, 1.0]
        factor[side] = 1.0 - abs(excess) / heavy[side] if heavy[side] > 0 else 1.0
        return xp.where(labels > 0, alpha * factor[0], alpha * factor[1]), True


def longest_step(x: Array, dx: Array) -> float:
    """The largest step with ``x + step·dx ≥ 0`` for positive x; no limit is 1e30."""
    worst = smallest(dx / x) if x.shape[-1] else 0.0
    return -1.0 / worst if worst < 0.0 else 1e30


def linearise_rows(model: Model, side: Array) -> tuple[Model, Array]:
    """The model with rows replaced by a linear piece of their hinge, and the rows that stay.

    `side` is +1 for the rising piece ``c (1 − aᵀw)``, −1 for the piece at zero and 0 for rows that
    keep their hinge. Both pieces lie below the hinge, which is their maximum: the objective can
    only fall, and lower bounds of the smaller model hold for the larger one.
    """
    kept = nonzero(side == 0)
    rising = namespace(side).where(side > 0, model.costs, 0.0 * model.costs)
    reduced = replace(
        model,
        columns=take(model.columns, kept, axis=1),
        costs=take(model.costs, kept),
        linear=model.linear - sum_columns(model.columns, rising),
        constant=model.constant + total(rising),
    )
    return reduced, kept


class RowStep(NamedTuple):
    """A direction of the pairs of the rows; `slide` is how fast margins grow along it."""

    dx: Array
    dz: Array
    slide: Array


class RowPairs:
    """Pairs (s, α) and (ξ, c − α) of every row, stacked as arrays of shape (2, m).

    c − α is kept on its own: computed from α it would lose all its digits near α = c.

    A step to products `target`: from s α = τ₁ and ξ (c − α) = τ₂, with d(c − α) = −dα,
    ds = τ₁/α − s − (s/α) dα and dξ = τ₂/(c − α) − ξ + (ξ/(c − α)) dα. Slacks must keep
    ξ − s = r: dξ − ds = −aᵀdw + (r − ξ + s). Hence, with D = 1/(s/α + ξ/(c − α)),

        dα = D (r + τ₁/α − τ₂/(c − α) − aᵀdw)

    so that the rows add A D Aᵀ to the Newton matrix and A D (r + τ₁/α − τ₂/(c − α)) to its
    right-hand side. No row is ever left out for a small D: it may be the one that binds next.
    """

    def __init__(self, model: Model, residual: Array, mu: float) -> None:
        self.columns = model.columns
        self.residual = r = residual
        # A centred start, α s = (c − α) ξ = μ with s = ξ − r, is a quadratic equation in each row:
        # ξ = m + (r + √(r² + 4m²))/2 with m = μ/c. Of the two forms of each root the one in which
        # nothing cancels is taken.
        m = mu / model.costs
        root = (r * r + 4.0 * m * m) ** 0.5
        where = namespace(r).where
        self.x = x = namespace(r).stack([r, r])
        x[0, :] = where(r < 0, 0.5 * (root - r), 2.0 * m * m / (root + r)) + m
        x[1, :] = where(r > 0, 0.5 * (root + r), 2.0 * m * m / (root - r)) + m
        self.z = mu / x

    def curvature(self) -> Host:
        """Prepare a step; returns A D Aᵀ."""
        self.ratio = self.x / self.z
        self.D = 1.0 / (self.ratio[0, :] + self.ratio[1, :])
        scaled = self.columns * self.D**0.5
        return to_host(scaled @ scaled.T)

    def pull(self, target: Array | None) -> Host:
        """Right-hand side of the step to products `target`·z (None: to zero)."""
        self.target = target
        push = self.residual if target is None else self.residual + (target[0, :] - target[1, :])
        self.force = self.D * push
        return to_host(self.columns @ self.force)

    def direction(self, dw: Host) -> RowStep:
        """The direction of the pairs that belongs to dw."""
        slide = like(dw, self.columns) @ self.columns
        d_alpha = self.force - self.D * slide
        dz = namespace(d_alpha).empty_like(self.x)
        dz[0, :] = d_alpha
        dz[1, :] = -d_alpha
        rest = -self.x if self.target is None else self.target - self.x
        return RowStep(rest - self.ratio * dz, dz, slide)

    def move(self, step: RowStep, primal: float, dual: float) -> None:
        self.x = self.x + primal * step.dx
        self.z = self.z + dual * step.dz
        self.residual = self.residual - primal * step.slide


class NoRowPairs:
    """The rows of a model that has none (least squares): all about them is zero."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.x = self.z = np.empty((2, 0))

    def curvature(self) -> Host:
        return np.zeros((self.size, self.size))

    def pull(self, target: Array | None) -> Host:
        return np.zeros(self.size)

    def direction(self, dw: Host) -> RowStep:
        return RowStep(self.x, self.z, self.x[0])

    def move(self, step: RowStep, primal: float, dual: float) -> None:
        pass


class Breakdown(ArithmeticError):
    """The Newton matrix could not be factored: the iterate has left the range of float64."""


class NewtonSystem:
    """Curvature of the rows plus that of the ball, factored once and solved for several targets.

    H dw = pull + border·dη, with one Cholesky factor of H (R×R). z1 = H⁻¹·border is the same for
    all targets; each costs one back-substitution z0 = H⁻¹·pull, dη follows from Σ t = 1, and
    dw = z0 + z1 dη.
    """

    def __init__(self, curvature: Host, pairs: BallPairs) -> None:
        self.pairs = pairs
        self.R = R = pairs.v.size
        diagonal = curvature.reshape(-1)[:: curvature.shape[0] + 1]
        diagonal[:R] += pairs.linearise()
        self.factor = self._cholesky(curvature, diagonal)
        if pairs.lifted:
            border = np.zeros(diagonal.size)
            border[:R] = pairs.border
            self.z1 = lapack.dpotrs(self.factor, border, lower=1)[0]

    @staticmethod
    def _cholesky(matrix: Host, diagonal: Host) -> Host:
        # Relative to each entry: the diagonal spans twenty orders of magnitude near the optimum. It
        # begins at a few eps and grows a hundredfold for each factorisation that fails.
        ridge = 1e-15
        for _ in range(5):
            diagonal *= 1.0 + ridge
            factor, failed = lapack.dpotrf(matrix, lower=1)
            if not failed and isfinite(factor[-1, -1]):
                return factor
            ridge *= 100.0
        raise Breakdown("the Newton matrix is not positive definite")

    def solve(self, pull: Host, change: Host) -> tuple[Host, BallStep]:
        """dw for the rows' right-hand side, and the ball's step that changes its products."""
        pull[: self.R] += self.pairs.pull(change)
        dw = lapack.dpotrs(self.factor, pull, lower=1)[0]
        d_eta = 0.0
        if self.pairs.lifted:
            d_eta = self.pairs.multiplier_step(dw[: self.R], self.z1[: self.R])
            dw = dw + d_eta * self.z1
        return dw, self.pairs.direction(dw[: self.R], d_eta)
