"""The proof: what weights are worth, recomputed from w, b and α by code that no solver uses.

For every w in the ball, every b and every admissible α,

    D(α) = Σ c_i gain(α_i) − max{(Σ c_i α_i y_i s_i)ᵀz : z in the ball}  ≤  optimum  ≤  f(w, b)

with ``Σ c_i α_i y_i = 0`` where b is free. A solver proposes (w, b) and α; `Certifier` reads the
scores, once for both sides and for all candidates of a path, and decides. A solver that is wrong
about its value, its bound or its success changes nothing here; one that leaves the ball is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lpfuse._arrays.operations import Array, Host, largest, like, smallest, to_host, total
from lpfuse.optim._moments import Moments
from lpfuse.optim._results import Certificate, Solution
from lpfuse.optim.balls import LpBall

if TYPE_CHECKING:
    from lpfuse.optim.problem import Block, Problem, Terms

# ‖w‖_p may exceed 1 by what a sum of R rounded powers can be off, and not by more.
NORM_SLACK = 1e-12
# Σ c α y must vanish to rounding, beside Σ c |α|. The bound is off by at most this times |b|.
BALANCE_SLACK = 1e-9
# Least squares from its moments is trusted while their rounding is below this share of the gap that
# is to be proven; chosen by hand.
ROUNDING_SHARE = 0.01


class Candidate(NamedTuple):
    """What a solver proposes for one ball: a point, and a dual point that may prove it.

    Attributes
    ----------
    point : array of shape (R,) or (R + 1,)
        The weights, and the intercept where one is fitted.
    alpha : array of shape (n,) or None
        Multipliers, one a row, for the hinge.
    dual_weights : array of shape (R,) or None
        The weights w̃ that stand for the multipliers ``loss′(r(w̃))``, for least squares.
    """

    point: Host
    alpha: Array | None = None
    dual_weights: Host | None = None


class Outcome(NamedTuple):
    """How a solver ended for one ball."""

    n_iter: int  # its steps
    candidate: Candidate | None = None  # its last word; None where it has been examined already
    stopped: bool = False  # by a rule of its own rather than for want of steps
    own_passes: float = 0.0  # over the scores, that served no other ball


class Watch(NamedTuple):
    """What a solver would like to learn from the same pass, while rows and residuals are at hand.

    ``work(block, r, α)`` is asked for each block and candidate, ``merge`` joins its answers. The
    certificate does not depend on it.
    """

    work: Callable[[Block, Array, Array | None], Any]
    merge: Callable[[list[Any]], Any]


class Bounds(NamedTuple):
    """Both sides of a candidate, and what the solver's `Watch` has seen."""

    primal: float
    dual: float
    watched: Any = None


class Certifier:
    """Decides what candidates prove, for one problem over one or several balls.

    Parameters
    ----------
    problem : Problem
        Whose scores are read; it counts the passes.
    balls : sequence of LpBall
        The constraint sets; candidates are numbered by their position here.
    tol : float
        Relative gap that counts as optimal.
    solver : str
        Who proposes, for messages.
    """

    def __init__(
        self, problem: Problem, balls: Sequence[LpBall], tol: float, solver: str = "a solver"
    ) -> None:
        self.problem, self.balls, self.tol, self.solver = problem, balls, tol, solver
        self._values: dict[int, tuple[float, Host]] = {}
        self._proofs: dict[int, tuple[float, Candidate]] = {}
        self._last: dict[int, tuple[float, Candidate]] = {}

    @cached_property
    def moments(self) -> Moments:
        """The sums that a least-squares problem consists of: one pass, also for its solver."""
        return Moments.of(self.problem)

    def examine(
        self, candidates: Mapping[int, Candidate], watch: Mapping[int, Watch] | None = None
    ) -> dict[int, Bounds]:
        """Recompute f(w, b) and D(α) of candidates, by the number of their ball, in one pass.

        Of several candidates for one ball the better value and the better bound are kept.
        """
        for k, candidate in candidates.items():
            self._check_feasible(self.balls[k], candidate.point)
        if self.problem.loss.name == "least_squares":
            bounds = self._examine_moments(candidates)
        else:
            bounds = self._examine_rows(candidates, watch or {})
        for k, candidate in candidates.items():
            primal, dual, _ = bounds[k]
            self._last[k] = primal, candidate
            if k not in self._values or primal <= self._values[k][0]:
                self._values[k] = primal, candidate.point.copy()
            if k not in self._proofs or dual >= self._proofs[k][0]:
                self._proofs[k] = dual, candidate
        return bounds

    def value(self, k: int) -> float:
        """The best value that was examined for ball k; ∞ where none was."""
        return self._values[k][0] if k in self._values else math.inf

    def within(self, k: int) -> bool:
        """Whether what was examined so far proves the tolerance for ball k."""
        primal, dual = self._values[k][0], self._proofs[k][0]
        return primal - dual <= self.tol * max(primal, self.problem.scale)

    def prefer(self, k: int, point: Host) -> None:
        """Take this point for ball k, whatever better ones were examined."""
        if k not in self._last or self._last[k][1].point is not point:
            self.examine({k: Candidate(point)})
        self._values[k] = self._last[k][0], point.copy()

    def settle(self, candidates: Mapping[int, Candidate]) -> None:
        """Examine candidates that are the last word of a solver, in one pass."""
        if candidates:
            self.examine(candidates)

    def solution(self, k: int, n_iter: int, passes: float, otherwise: str) -> Solution:
        """The best of what was examined; `otherwise` is the status if the gap exceeds tol."""
        problem, (primal, point), (dual, proof) = self.problem, self._values[k], self._proofs[k]
        alpha, dual_weights = proof.alpha, proof.dual_weights
        if not dual >= 0.0:  # no loss is negative: the multipliers 0 prove more
            dual, alpha, dual_weights = 0.0, problem.no_multipliers(), None
        gap = max(primal - dual, 0.0)  # the two sums round differently: a gap of −1e-17 is none
        relative = gap / max(primal, problem.scale)
        status = "optimal" if relative <= self.tol else otherwise
        certificate = Certificate(
            primal, dual, gap, relative, passes, status, alpha=alpha, dual_weights=dual_weights
        )
        intercept = float(point[problem.R]) if problem.fit_intercept else 0.0
        return Solution(point[: problem.R], intercept, certificate, n_iter)

    def _check_feasible(self, ball: LpBall, point: Host) -> None:
        """Refuse a point that is not finite, outside the ball or of the wrong sign."""
        w = point[: self.problem.R]
        if point.shape != (self.problem.size,) or not np.isfinite(point).all():
            fault = f"{point!r} instead of {self.problem.size} finite numbers"
        elif not ball.norm(w) <= 1.0 + NORM_SLACK:
            fault = f"weights outside the ball: their {ball.p:g}-norm is {ball.norm(w):.17g}"
        elif ball.nonnegative and float(w.min()) < 0.0:
            fault = f"a negative weight, {float(w.min()):g}, where none is allowed"
        else:
            return
        raise ArithmeticError(f"solver={self.solver!r} proposed {fault}.")

    def _examine_rows(
        self, candidates: Mapping[int, Candidate], watch: Mapping[int, Watch]
    ) -> dict[int, Bounds]:
        """From the scores themselves."""
        problem = self.problem
        # Multipliers travel along with the rows: of many blocks each gets its own.
        points = {k: (each.point, self._dual_point(each)) for k, each in candidates.items()}
        work = partial(_examine_block, problem.terms, points, watch)
        along = [candidate.alpha for candidate in candidates.values()]
        parts = problem.reduce(work, partial(_merge_sides, watch), *along)
        return {
            k: Bounds(sides.value, _bound(problem, self.balls[k], sides.dual), sides.watched)
            for k, sides in parts.items()
        }

    def _dual_point(self, candidate: Candidate) -> Host | None:
        """The dual weights with the intercept that balances their multipliers."""
        if candidate.dual_weights is None or not self.problem.fit_intercept:
            return candidate.dual_weights
        return np.append(candidate.dual_weights, self.moments.intercept(candidate.dual_weights))

    def _examine_moments(self, candidates: Mapping[int, Candidate]) -> dict[int, Bounds]:
        """From R×R sums, and from the scores where digits of these sums have cancelled."""
        moments, scale = self.moments, self.problem.scale
        bounds, doubtful = {}, {}
        for k, candidate in candidates.items():
            w = candidate.point[: self.problem.R]
            b = float(candidate.point[-1]) if self.problem.fit_intercept else 0.0
            primal, dual = _value_of_moments(moments, w, b), -math.inf
            if candidate.dual_weights is not None:
                dual = _bound_of_moments(moments, self.balls[k], candidate.dual_weights)
            bounds[k] = Bounds(primal, dual)
            if moments.rounding(w) > ROUNDING_SHARE * self.tol * max(primal, scale):
                doubtful[k] = candidate
        return bounds | (self._examine_rows(doubtful, {}) if doubtful else {})


def value_of(problem: Problem, point: Host) -> float:
    """``f(w, b)`` in one pass."""
    return problem.reduce(partial(_value, problem.terms, point), math.fsum)


def bound_of(problem: Problem, alpha: Array) -> float:
    """``D(α)`` in one pass; −∞ where α proves nothing."""
    parts = problem.reduce(partial(_dual_sums, problem.terms), _add_dual_sums, alpha)
    return _bound(problem, problem.ball, parts)


class _DualSums(NamedTuple):
    """What rows add to the dual value."""

    gain: float  # Σ c gain(α)
    pull: Host  # Σ c α y s
    balance: float  # Σ c α y
    mass: float  # Σ c |α|
    low: float  # the least and the largest α
    high: float


class _Sides(NamedTuple):
    """What rows add to both sides of a candidate."""

    value: float
    dual: _DualSums | None
    watched: Any


def _residuals(terms: Terms, block: Block, point: Host) -> Array:
    # Written out here and not taken from `Terms`, which solvers use.
    r = block.S @ like(-point[: terms.R], block.S)
    if terms.fit_intercept:
        r -= float(point[terms.R])
    if not isinstance(block.y, float):
        r *= block.y
    r += 1.0
    return r


def _value(terms: Terms, point: Host, block: Block) -> float:
    return total(block.times_costs(terms.loss.value(_residuals(terms, block, point))))


def _dual_sums(terms: Terms, block: Block, alpha: Array) -> _DualSums:
    weighted = block.times_costs(alpha)
    pull = block.times_labels(weighted)
    gain = total(block.times_costs(terms.loss.gain(alpha)))
    return _DualSums(
        gain,
        to_host(pull @ block.S),
        total(pull) if terms.fit_intercept else 0.0,
        total(abs(weighted)) if terms.fit_intercept else 0.0,
        smallest(alpha),
        largest(alpha),
    )


def _add_dual_sums(parts: list[_DualSums]) -> _DualSums:
    gain, pull, balance, mass, low, high = zip(*parts, strict=True)
    # NaN must not get lost: min and max of Python would drop one that does not come first.
    extremes = float(np.min(low)), float(np.max(high))
    return _DualSums(
        math.fsum(gain), np.sum(pull, axis=0), math.fsum(balance), math.fsum(mass), *extremes
    )


def _bound(problem: Problem, ball: LpBall, sums: _DualSums | None) -> float:
    """``D(α)`` from its sums."""
    if sums is None:
        return -math.inf
    low, high = problem.loss.multipliers
    if not (low <= sums.low and sums.high <= high):  # also where they are NaN
        return -math.inf
    if abs(sums.balance) > BALANCE_SLACK * max(problem.total_cost, sums.mass):
        return -math.inf
    return sums.gain - ball.dual_norm(sums.pull)


def _examine_block(
    terms: Terms,
    points: Mapping[int, tuple[Host, Host | None]],
    watch: Mapping[int, Watch],
    block: Block,
    *alphas: Array | None,
) -> dict[int, _Sides]:
    """Both sides of every candidate on one block, which is read from memory once."""
    sides = {}
    for (k, (point, dual_point)), given in zip(points.items(), alphas, strict=True):
        r, alpha = _residuals(terms, block, point), given
        if alpha is not None:
            alpha = like(alpha, block.S)  # rows of other machines may be of another library
        if dual_point is not None:
            alpha = terms.loss.slope(_residuals(terms, block, dual_point))
        dual = None if alpha is None else _dual_sums(terms, block, alpha)
        watched = watch[k].work(block, r, alpha) if k in watch else None
        sides[k] = _Sides(total(block.times_costs(terms.loss.value(r))), dual, watched)
    return sides


def _merge_sides(watch: Mapping[int, Watch], parts: list[dict[int, _Sides]]) -> dict[int, _Sides]:
    merged = {}
    for k in parts[0]:
        value, dual, watched = zip(*(part[k] for part in parts), strict=True)
        sums = None if dual[0] is None else _add_dual_sums(list(dual))
        seen = watch[k].merge(list(watched)) if k in watch else None
        merged[k] = _Sides(math.fsum(value), sums, seen)
    return merged


def _value_of_moments(moments: Moments, w: Host, b: float) -> float:
    """``f(w, b)`` of least squares."""
    missed = b - moments.intercept(w)
    value = moments.constant - 2.0 * float(moments.cross @ w) + float(w @ moments.gram @ w)
    return max(value + moments.mass * missed**2, 0.0)


def _bound_of_moments(moments: Moments, ball: LpBall, w: Host) -> float:
    """``D(α)`` of least squares for ``α_i = 2 r_i(w, b*)``.

    With z = y − Sw − b* = y r, Σ c z = 0 and y² = 1: Σ c (α − α²/4) = Σ c (2 y z − z²), where
    Σ c y z = constant − cross·w and Σ c z² = constant − 2 cross·w + wᵀGw, and
    Σ c α y s = 2 (cross − G w).
    """
    curved = moments.gram @ w
    return moments.constant - float(w @ curved) - ball.dual_norm(2.0 * (moments.cross - curved))
