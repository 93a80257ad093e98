"""The reduced problem that the solvers work on.

    minimise   k + gᵀw + ½ wᵀQw + Σ_i c_i max(0, 1 − a_iᵀw)   subject to   (w_1, …, w_R) in the ball

Rows that are clear of the kink of their hinge may have been replaced by its linear piece, in k and
g: so a model of few rows can stand for a problem of many, and its lower bound holds for the whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lpfuse._arrays.operations import (
    Array,
    Host,
    dot,
    namespace,
    nonzero,
    positive_part,
    sum_columns,
    take,
    to_host,
    total,
    weigh_columns,
)
from lpfuse.optim.balls import LpBall

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
        S, R, free = to_host(block.S), problem.R, int(problem.fit_intercept)
        labels = block.y if isinstance(block.y, float) else to_host(block.y)
        columns = np.empty((R + free, len(S)))
        np.multiply(S.T, labels, out=columns[:R])
        columns[R:] = labels
        costs = np.ones(len(S)) if isinstance(block.c, float) else to_host(block.c)
        return cls(columns, costs, ball, np.zeros(R + free), free=free)

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


class Breakdown(ArithmeticError):
    """The Newton matrix could not be factored: the iterate has left the range of float64."""
