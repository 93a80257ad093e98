"""The problem: losses, blocks of rows, and `Problem`.

minimise   f(w, b) = Σ_i c_i loss(1 − y_i (s_iᵀw + b))     subject to   w in the ℓp ball

All work on rows is done block by block, through `Problem.reduce`, by functions of a block and the
`Terms` only, so that it can run on the workers of a Dask collection, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays import operations as ops
from lpfuse._arrays.operations import Array, Host
from lpfuse.optim.balls import ball_of
from lpfuse.optim.certificate import bound_of, dual_point_of, value_of
from lpfuse.optim.tuning import FAR, FLOOR

# --------------------------------------------------------------------------------------------------
# Losses, as functions of the residual r = 1 − y(sᵀw + b).
#
# Each loss has a value, a slope, and the gain of a multiplier in the dual: the dual value of α is
# ``Σ c_i gain(α_i) − max{(Σ c_i α_i y_i s_i)ᵀz : z in the ball}``.
#
# To add a loss, write a class here and an entry in `LOSSES`, which is enough for the certificate,
# and name it in a solver's declaration in `lpfuse.optim.solve`.


class Loss(Protocol):
    """A convex loss with slope ≥ 0 wherever the margin is below 1."""

    @property
    def name(self) -> str:
        """Name of the parameter value."""

    @property
    def multipliers(self) -> tuple[float, float]:
        """The smallest and the largest α with a finite gain."""

    def value(self, r: Array) -> Array:
        """Return the loss of each row."""

    def slope(self, r: Array) -> Array:
        """Return the derivative of the loss in r."""

    def gain(self, alpha: Array) -> Array:
        """Return the contribution of α to the dual: minus the convex conjugate, shifted by 1."""


@dataclass(frozen=True)
class Hinge:
    """``max(0, r)``: zero beyond the margin, linear below it. Multipliers are in [0, 1]."""

    name: str = "hinge"
    multipliers: tuple[float, float] = (0.0, 1.0)

    def value(self, r: Array) -> Array:
        """``max(0, r)``."""
        return ops.positive_part(r)

    def slope(self, r: Array) -> Array:
        """1 below the margin, else 0."""
        return ops.namespace(r).where(r > 0, 1.0 + 0.0 * r, 0.0 * r)

    def gain(self, alpha: Array) -> Array:
        """``α``."""
        return alpha


@dataclass(frozen=True)
class LeastSquares:
    """``r²``: deviations from margin 1 on both sides. Any multiplier is allowed."""

    name: str = "least_squares"
    multipliers: tuple[float, float] = (-math.inf, math.inf)

    def value(self, r: Array) -> Array:
        """``r²``."""
        return r * r

    def slope(self, r: Array) -> Array:
        """``2r``."""
        return 2.0 * r

    def gain(self, alpha: Array) -> Array:
        """``α − α²/4``."""
        return alpha - 0.25 * alpha * alpha


LOSSES: dict[str, Loss] = {loss.name: loss for loss in (Hinge(), LeastSquares())}


# --------------------------------------------------------------------------------------------------
# Blocks of rows and the problem.

T = TypeVar("T")


class Block(NamedTuple):
    """Consecutive rows of a problem; 1.0 represents a vector of ones.

    Scores have double precision, unless the stored precision was requested.
    """

    S: Array
    y: Array | float
    c: Array | float
    start: int  # position of the first one

    @property
    def is_weighted(self) -> bool:
        """Whether rows have individual costs, which may be zero."""
        return not isinstance(self.c, float)

    def in_double(self) -> Block:
        """Return the block with scores in double precision."""
        return self._replace(S=ops.as_float64(self.S)) if ops.is_single(self.S) else self

    def times_costs(self, x: Array) -> Array:
        """``c x``; x itself where all costs are 1."""
        return x if isinstance(self.c, float) else self.c * x

    def times_labels(self, x: Array) -> Array:
        """``y x``; x itself where all rows are normal."""
        return x if isinstance(self.y, float) else self.y * x


@dataclass(frozen=True)
class Terms:
    """The terms of the objective, as needed for work on a block."""

    R: int
    loss: Loss
    fit_intercept: bool

    def residuals(self, block: Block, v: Host) -> Array:
        """``r = 1 − y(S w + b)`` of the rows, for v = (w, b)."""
        fused = block.S @ ops.like(v[: self.R], block.S)
        if self.fit_intercept:
            fused = fused + float(v[self.R])
        return 1.0 - block.times_labels(fused)

    def signed_rows(self, S: Array, y: Array | float) -> Array:
        """Rows ``a_i = y_i s_i``, with y_i last when there is an intercept: r = 1 − aᵀ(w, b)."""
        labels = ops.filled(S.shape[0], 1.0, S) if isinstance(y, float) else y
        a = S if isinstance(y, float) else S * y[:, None]
        return ops.namespace(S).concat([a, labels[:, None]], axis=1) if self.fit_intercept else a


class LinearPieces(NamedTuple):
    """Linear pieces that replace the hinges of rows.

    +1: the rising piece ``c r``; −1: the piece at zero; 0: a row that keeps its hinge. In memory
    `side` is an array with one entry per row. For Dask rows it is None and recomputed from the
    point w and the band around the kink.
    """

    w: Host
    band: float
    side: Array | None


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
        A name in `lpfuse.optim.problem.LOSSES`.
    nonnegative : bool
        Whether w ≥ 0 is required.
    fit_intercept : bool
        Whether b is free; otherwise it is 0.
    centre : array of shape (R,) or None
        The centre w₀ of the ball; None: 0.
    radius : float
        Its radius r ≥ 0.
    **norm
        Of a ball of another norm: arguments of `lpfuse.optim.balls.ball_of`.

    Examples
    --------
    >>> import numpy as np
    >>> problem = Problem(np.array([[0.0, 2.0], [0.5, 0.0]]), p=2.0)
    >>> problem.value(np.array([0.0, 1.0]))
    1.0
    >>> problem.dual_value(np.array([0.5, 1.0]))
    0.3819...
    """

    in_memory = True  # whether arrays with one entry per row can be kept
    validation_passes = 0.0  # passes of the input validation
    costs_error = 0.0  # relative error of a cost

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
        centre: Host | None = None,
        radius: float = 1.0,
        **norm: Any,
    ) -> None:
        self.S = S = ops.detached(S)
        self.y = None if y is None else ops.like(y, S)
        self.costs = None if costs is None else ops.like(costs, S)
        centre = None if centre is None else np.array(centre, dtype=np.float64)
        self.ball = ball_of(float(p), nonnegative, centre, float(radius), **norm)
        self.loss: Loss = LOSSES[loss]
        self.fit_intercept = fit_intercept
        self.start = 0  # position of the first row in a larger problem
        self.passes = 0.0  # passes over the scores; a subsample counts by its share

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
    def terms(self) -> Terms:
        """The terms of the objective."""
        return Terms(self.R, self.loss, self.fit_intercept)

    @cached_property
    def origin(self) -> Host | None:
        """The mean of some rows, where scores are far from zero relative to their spread.

        With an intercept, scores may be shifted by it. None: no shift.
        """
        if not self.fit_intercept:
            return None
        some = ops.to_host(self.some_rows(256).S)  # any point near the rows is enough
        middle, spread = some.mean(axis=0), some.max(axis=0) - some.min(axis=0)
        # Least squares always centres its scores.
        near = self.loss.name != "least_squares" and (abs(middle) <= FAR * spread).all()
        return None if near else middle

    @cached_property
    def total_cost(self) -> float:
        """``Σ c``."""
        return float(self.n) if self.costs is None else ops.total(self.costs)

    @property
    def scale(self) -> float:
        """The smallest reference value of relative gaps."""
        return FLOOR * self.total_cost

    def with_ball(self, p: float) -> Problem:
        """Return the same data over the ball of another p."""
        other = copy(self)
        other.ball = replace(self.ball, p=float(p))
        return other

    def with_reset_passes(self) -> Problem:
        """Return the problem with its passes reset to those of the validation."""
        other = copy(self)
        other.passes = self.validation_passes
        return other

    def reduce(
        self,
        work: Callable[..., T],
        merge: Callable[[list[T]], T],
        *along: Array | None,
        stored: bool = False,
    ) -> T:
        """Return ``merge`` of ``work(block, …)`` over all blocks: one pass over the scores.

        `work` also gets the entries of the arrays `along` for the rows. Merging must be
        associative. With `stored`, work gets scores in their stored precision.
        """
        self.passes += 1.0

        def on(part: slice) -> T:
            block = self.block(part, stored=stored)
            return work(block, *(a if a is None else a[part] for a in along))

        return merge(self._map(on, once=stored and ops.row_kernels(self.S) is not None))

    def _map(self, work: Callable[[slice], T], *, once: bool = False) -> list[T]:
        # Single precision is converted block by block, also on a device.
        return ops.map_row_blocks(
            work, self.S, self.R if ops.is_single(self.S) else None, once=once
        )

    def block(self, part: slice, *, stored: bool = False) -> Block:
        """Return a slice of the rows, in double or in their stored precision."""
        y = 1.0 if self.y is None else self.y[part]
        c = 1.0 if self.costs is None else self.costs[part]
        S = self.S[part, :] if stored else ops.as_float64(self.S[part, :])
        return Block(S, y, c, self.start + (part.start or 0))

    def some_rows(self, m: int = 1000) -> Block:
        """Return the first rows, for checks without a pass."""
        return self.block(slice(0, min(self.n, m)))

    def everything(self) -> tuple[Block, Array]:
        """Return all rows with positive cost, and their positions."""
        self.passes += 1.0
        if self.costs is None:
            return self.block(slice(0, self.n)), ops.array_range(self.n, self.S)
        index = ops.nonzero(self.costs > 0)
        return self._gather(index), index

    def draw(self, m: int) -> Block:
        """Return about m rows with equal costs, a stratified sample by the rows' costs.

        Row i is drawn with probability ∝ c_i, one from each m-th part of the total cost, so that
        rows sorted by class are sampled as well as shuffled ones. The seed is fixed.
        """
        self.passes += m / self.n
        rng = np.random.default_rng(0)
        if self.costs is None:
            ticks = (np.arange(m) + rng.random(m)) / m
            index = np.minimum((ticks * self.n).astype(np.int64), self.n - 1)
        else:
            index = stratified_positions(np.cumsum(ops.to_host(self.costs)), m, rng)
        return self._gather(index)._replace(c=1.0)

    def _gather(self, index: Array) -> Block:
        y = 1.0 if self.y is None else ops.take(self.y, index)
        c = 1.0 if self.costs is None else ops.take(self.costs, index)
        return Block(ops.as_float64(ops.take(self.S, index)), y, c, 0)

    def value(self, w: Host, intercept: float = 0.0) -> float:
        """Return ``f(w, b)`` in one pass over the scores; b is used only with an intercept."""
        return value_of(self, np.append(np.asarray(w, dtype=np.float64), intercept))

    def dual_value(self, alpha: Array) -> float:
        """Return the lower bound of the dual point α, in one pass over the scores.

        −∞ outside the range of the loss ([0, 1] for the hinge). With an intercept
        ``Σ c_i α_i y_i`` should be 0; a deviation lowers the bound.
        """
        return bound_of(self, alpha)

    def dual_point(self, w: Host) -> Array:
        """``α_i = loss′(r_i)`` at weights w, with the least-squares intercept for them."""
        return dual_point_of(self, np.asarray(w, dtype=np.float64))

    def per_row(self, work: Callable[[Block], Array]) -> Array:
        """Return one number per row, from ``work`` on each block."""
        return ops.concatenate(self._map(lambda part: work(self.block(part))))

    def multipliers(self, pieces: LinearPieces | None, index: Array, shares: Array) -> Array:
        """Return α of all rows: `shares` at `index`, elsewhere the slope of the linear piece."""
        if pieces is None or pieces.side is None:
            return ops.put(ops.filled(self.n, 0.0, self.S), index, shares)
        return ops.put(ops.as_float64(pieces.side > 0), index, shares)

    def no_multipliers(self) -> Array:
        """Return α = 0, the dual point of the bound 0."""
        return ops.filled(self.n, 0.0, self.S)


def stratified_positions(heap: Host, m: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return m positions, one from each m-th part of cumulative costs."""
    ticks = (np.arange(m) + rng.random(m)) / m
    return np.searchsorted(heap, ticks * heap[-1], side="right").clip(0, heap.size - 1)
