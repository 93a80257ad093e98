"""The problem as the user states it, what a solution is, and the proof that comes with it.

minimise   f(w, b) = Σ_i c_i loss(1 − y_i (s_iᵀw + b))     subject to   w in the ℓp ball

Whoever works on the rows does so block by block, through `Problem.reduce`, with functions that know
a block and the `Terms` and nothing else: so the same work can be done where the blocks live.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays import (
    Array,
    Host,
    as_float64,
    concatenate,
    detached,
    filled,
    is_single,
    like,
    map_row_blocks,
    nonzero,
    put,
    take,
    to_host,
    total,
)
from lpfuse._saved import saved_as
from lpfuse.optim.balls import LpBall
from lpfuse.optim.losses import LOSSES, Loss

T = TypeVar("T")

FLOOR = 1e-3  # gaps are relative to f, but to no less than this share of Σ c: f = 0 occurs


@saved_as("Certificate")
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
        How often the scores were read; a subsample counts by its share, and of scores of Dask the
        pass that checks them too.
    status : str
        "optimal" when the relative gap is within the tolerance, "stopped" when the solver met its
        own stopping rule first, "max_iter" when it ran out of steps.
    alpha : array of shape (n,) or None
        The dual point, in [0, 1], for the hinge: beside the scores, and lazy where these are of
        Dask.
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


class Block(NamedTuple):
    """Consecutive rows of a problem, in float64; 1.0 stands for all ones."""

    S: Array
    y: Array | float
    c: Array | float
    start: int  # position of the first one

    @property
    def is_weighted(self) -> bool:
        """Whether rows have costs of their own, which may be zero."""
        return not isinstance(self.c, float)


@dataclass(frozen=True)
class Terms:
    """What a row adds to the objective: all that work on a block must know of the problem."""

    R: int
    loss: Loss
    fit_intercept: bool

    def residuals(self, block: Block, v: Host) -> Array:
        """``r = 1 − y(S w + b)`` of the rows, for v = (w, b)."""
        fused = block.S @ like(v[: self.R], block.S)
        if self.fit_intercept:
            fused = fused + float(v[self.R])
        return 1.0 - block.y * fused

    def value(self, block: Block, v: Host) -> float:
        """What the rows add to ``f(w, b)``."""
        return total(block.c * self.loss.value(self.residuals(block, v)))

    def dual_parts(self, block: Block, alpha: Array) -> tuple[float, Host, float]:
        """What the rows add to the dual value of α, to ``Σ c α y s`` and to ``Σ c α y``."""
        pull = block.c * alpha * block.y
        return total(block.c * self.loss.gain(alpha)), to_host(pull @ block.S), total(pull)

    def imbalance(self, block: Block, v: Host) -> float:
        """``Σ c y r``: how much an intercept could still gain, for least squares."""
        return total(block.c * block.y * self.residuals(block, v))

    def slopes(self, block: Block, v: Host, shift: float) -> Array:
        """``loss′(r − y·shift)``, one number a row."""
        return self.loss.slope(self.residuals(block, v) - shift * block.y)


class Fold(NamedTuple):
    """Where rows are held that a model leaves out: +1 on the slope of their loss, −1 at zero.

    In memory that is an array with one entry a row, 0 for a row of the model. Elsewhere it is
    worked out again where it is needed, from the point and the band that rows were told apart by.
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
        self.start = 0  # of another problem that these rows are a part of

    remembers_sides = True  # whether an array with one entry a row is kept between passes
    passes_so_far = 0.0  # that the entrance has made

    def passes_of_draw(self, m: int) -> float:
        """What part of a pass it takes to draw m rows."""
        return m / self.n

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

    @property
    def terms(self) -> Terms:
        """What a row adds to the objective."""
        return Terms(self.R, self.loss, self.fit_intercept)

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

    def reduce(
        self, work: Callable[..., T], merge: Callable[[list[T]], T], *along: Array | None
    ) -> T:
        """``merge`` of ``work(block, …)`` over all blocks of rows: one pass over the scores.

        `work` is also handed the entries of the arrays `along` that belong to the rows. Merging
        must be associative.
        """

        def on(part: slice) -> T:
            return work(self.block(part), *(a if a is None else a[part] for a in along))

        return merge(self._map(on))

    def _map(self, work: Callable[[slice], T]) -> list[T]:
        # Single precision becomes double block by block, also on a device.
        return map_row_blocks(work, self.S, self.R if is_single(self.S) else None)

    def block(self, part: slice) -> Block:
        """A slice of the rows."""
        y = 1.0 if self.y is None else self.y[part]
        c = 1.0 if self.costs is None else self.costs[part]
        return Block(as_float64(self.S[part, :]), y, c, self.start + (part.start or 0))

    def some_rows(self) -> Block:
        """A few rows, to look at before a pass is spent."""
        return self.block(slice(0, min(self.n, 1000)))

    def everything(self) -> tuple[Block, Array]:
        """All rows that cost something, and their positions."""
        if self.costs is None:
            index = nonzero(filled(self.n, 1.0, self.S) > 0)
            return self.block(slice(0, self.n)), index
        index = nonzero(self.costs > 0)
        return self._gather(index), index

    def draw(self, m: int) -> Block:
        """About m rows with equal costs that stand for all, drawn evenly over the rows' costs.

        Row i is drawn with probability ∝ c_i, one from each m-th part of the total cost, so that
        rows sorted by class are sampled as well as shuffled ones. Every run draws the same rows.
        """
        rng = np.random.default_rng(0)
        if self.costs is None:
            ticks = (np.arange(m) + rng.random(m)) / m
            index = np.minimum((ticks * self.n).astype(np.int64), self.n - 1)
        else:
            index = spread_over(np.cumsum(to_host(self.costs)), m, rng)
        return self._gather(index)._replace(c=1.0)

    def _gather(self, index: Array) -> Block:
        y = 1.0 if self.y is None else take(self.y, index)
        c = 1.0 if self.costs is None else take(self.costs, index)
        return Block(as_float64(take(self.S, index)), y, c, 0)

    def value(self, w: Host, intercept: float = 0.0) -> float:
        """``f(w, b)``, in one pass over the scores; b counts only when an intercept is fitted."""
        v = np.append(np.asarray(w, dtype=np.float64), intercept)
        return self.reduce(partial(self.terms.value, v=v), math.fsum)

    def dual_value(self, alpha: Array) -> float:
        """The lower bound that the dual point α proves, in one pass over the scores.

        With an intercept the point must also satisfy ``Σ c_i α_i y_i = 0``: where it does not, to
        rounding, it proves nothing and the bound is −∞.
        """
        gain, pull, balance = self.reduce(self.terms.dual_parts, sums, alpha)
        if self.fit_intercept and abs(balance) > 1e-9 * self.total_cost:
            return -math.inf
        return gain - self.ball.dual_norm(pull)

    def dual_point(self, w: Host) -> Array:
        """``α_i = loss′(r_i)`` at weights w, with the least-squares intercept for them."""
        v = np.append(np.asarray(w, dtype=np.float64), 0.0)
        shift = 0.0
        if self.fit_intercept:
            shift = self.reduce(partial(self.terms.imbalance, v=v), math.fsum) / self.total_cost
        return self.per_row(partial(self.terms.slopes, v=v, shift=shift))

    def per_row(self, work: Callable[[Block], Array]) -> Array:
        """One number a row, from ``work`` on each block."""
        return concatenate(self._map(lambda part: work(self.block(part))))

    def multipliers(self, fold: Fold | None, index: Array, shares: Array) -> Array:
        """The dual point of a model: its own multipliers in [0, 1], those of held rows 1 or 0."""
        if fold is None or fold.side is None:
            return put(filled(self.n, 0.0, self.S), index, shares)
        return put(as_float64(fold.side > 0), index, shares)

    def no_multipliers(self) -> Array:
        """α = 0, which proves that no value is negative."""
        return filled(self.n, 0.0, self.S)

    def certify(
        self, primal: float, dual: float, passes: float, tol: float, otherwise: str, **witness: Any
    ) -> Certificate:
        """The certificate of a solve; `otherwise` is its status if the gap exceeds tol."""
        if dual < 0.0:
            dual, witness = 0.0, {"alpha": self.no_multipliers()}
        gap = max(primal - dual, 0.0)  # the two sums round differently: a gap of −1e-17 is none
        relative = gap / max(primal, self.scale)
        status = "optimal" if relative <= tol else otherwise
        return Certificate(primal, dual, gap, relative, passes, status, **witness)


def spread_over(heap: Host, m: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """m positions, one from each m-th part of a running total of costs."""
    ticks = (np.arange(m) + rng.random(m)) / m
    return np.searchsorted(heap, ticks * heap[-1], side="right").clip(0, heap.size - 1)


def sums(parts: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    """The sum of tuples of numbers and small arrays, entry by entry."""
    return tuple(
        math.fsum(group) if isinstance(group[0], float) else np.sum(group, axis=0)
        for group in zip(*parts, strict=True)
    )
