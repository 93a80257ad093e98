"""Certification: primal and dual values of candidates, by code that no solver uses.

For every w in the ball, every b and every admissible α,

    D(α) = Σ c_i gain(α_i) − max{(Σ c_i α_i y_i s_i)ᵀz : z in the ball}  ≤  optimum  ≤  f(w, b)

with ``Σ c_i α_i y_i = 0`` where b is free.

A solver proposes (w, b) and α; `Certifier` reads the scores once for both sides and for all
candidates of a path. Values and bounds claimed by a solver are not used; weights outside the ball
raise an error.

Every sum has a bound of its rounding error (`bounds`), which is part of the gap. A dual value above
the primal one by more than that is an error, never a gap of 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from lpfuse._arrays.operations import Array, Host, accurate_total
from lpfuse.optim.balls import LpBall
from lpfuse.optim.bounds import (
    DualSums,
    Reading,
    add_dual_sums,
    certify_rows,
    dual_sums,
    gamma,
    merge_sides,
    value_at,
)
from lpfuse.optim.moments import Moments
from lpfuse.optim.results import Bounds, Candidate, Certificate, Solution, Watch
from lpfuse.optim.tuning import MOMENTS_SHARE

if TYPE_CHECKING:
    from lpfuse.optim.problem import Block, Problem

# ‖w‖_p may exceed 1 by the rounding error of a sum of R powers.
NORM_SLACK = 1e-12


class Certifier:
    """Evaluation of candidates for one problem over one or several balls.

    Parameters
    ----------
    problem : Problem
        Whose scores are read; it counts the passes.
    balls : sequence of LpBall
        The constraint sets; candidates are numbered by their position here.
    tol : float
        Relative gap that counts as optimal.
    solver : str
        Name of the solver, for messages.
    """

    def __init__(
        self, problem: Problem, balls: Sequence[LpBall], tol: float, solver: str = "a solver"
    ) -> None:
        self.problem, self.balls, self.tol, self.solver = problem, balls, tol, solver
        self._values: dict[int, tuple[Bounds, Host]] = {}
        self._proofs: dict[int, tuple[Bounds, Candidate]] = {}
        self._last: dict[int, tuple[Bounds, Candidate]] = {}

    @cached_property
    def reading(self) -> Reading:
        """Settings of all passes."""
        return Reading.of(self.problem, self.tol)

    @cached_property
    def moments(self) -> Moments:
        """The moments of a least-squares problem, from one pass, also for its solver."""
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
            self._last[k] = bounds[k], candidate
            if k not in self._values or _upper(bounds[k]) <= _upper(self._values[k][0]):
                self._values[k] = bounds[k], candidate.point.copy()
            if k not in self._proofs or _lower(bounds[k]) >= _lower(self._proofs[k][0]):
                self._proofs[k] = bounds[k], candidate
        return bounds

    def value(self, k: int) -> float:
        """Return the best value for ball k so far; ∞ without candidates."""
        return self._values[k][0].primal if k in self._values else math.inf

    def within(self, k: int) -> bool:
        """Return whether the tolerance of ball k is met, apart from rounding."""
        primal, dual = self._values[k][0].primal, self._proofs[k][0].dual
        return primal - dual <= self.tol * max(primal, self.problem.scale)

    def prefer(self, k: int, point: Host) -> None:
        """Use this point for ball k, even if others have a better value."""
        if k not in self._last or self._last[k][1].point is not point:
            self.examine({k: Candidate(point)})
        self._values[k] = self._last[k][0], point.copy()

    def settle(self, candidates: Mapping[int, Candidate]) -> None:
        """Examine the final candidates of a solver, if any, in one pass."""
        if candidates:
            self.examine(candidates)

    def solution(self, k: int, n_iter: int, passes: float, otherwise: str) -> Solution:
        """Return the best candidate of ball k; `otherwise` is the status if the gap exceeds tol."""
        problem, (value, point), (proof, witness) = self.problem, self._values[k], self._proofs[k]
        dual, alpha, dual_weights = proof.dual, witness.alpha, witness.dual_weights
        # Gain of weights that are outside the ball by rounding.
        outside = max(self.balls[k].gauge(point[: problem.R]) - 1.0, 0.0) * proof.pull
        rounding = value.primal_error + proof.dual_error + outside
        if not _lower(proof) >= 0.0:  # no loss is negative: α = 0 gives the bound 0
            dual, alpha, dual_weights = 0.0, problem.no_multipliers(), None
            rounding = value.primal_error
        gap = value.primal - dual + rounding
        if gap < 0.0:
            raise ArithmeticError(
                f"The proof contradicts itself: weights have the value {value.primal:.17g}, but no "
                f"weights can be below {dual:.17g}. Scores, labels or weights of samples must have "
                "changed between two passes over them. Keep them still during a fit (persist a "
                "Dask collection that is drawn at random); if they were, please report this."
            )
        reference = max(value.primal, problem.scale)
        status = otherwise
        if gap <= self.tol * reference:
            status = "optimal"
        elif gap - rounding <= self.tol * reference:
            status = "rounding"
        certificate = Certificate(
            value.primal,
            dual,
            gap,
            gap / reference,
            passes,
            status,
            rounding,
            alpha=alpha,
            dual_weights=dual_weights,
        )
        intercept = float(point[problem.R]) if problem.fit_intercept else 0.0
        return Solution(point[: problem.R], intercept, certificate, n_iter)

    def _check_feasible(self, ball: LpBall, point: Host) -> None:
        """Raise for a point that is not finite, outside the ball or of the wrong sign."""
        w = point[: self.problem.R]
        if point.shape != (self.problem.size,) or not np.isfinite(point).all():
            fault = f"{point!r} instead of {self.problem.size} finite numbers"
        elif not ball.gauge(w) <= 1.0 + NORM_SLACK:
            far = ball.norm(ball.from_centre(w))
            fault = f"weights outside the ball: their {ball.p:g}-norm is {far:.17g}"
        elif ball.nonnegative and float(w.min()) < 0.0:
            fault = f"a negative weight, {float(w.min()):g}, where none is allowed"
        else:
            return
        raise ArithmeticError(f"solver={self.solver!r} proposed {fault}.")

    def _examine_rows(
        self, candidates: Mapping[int, Candidate], watch: Mapping[int, Watch]
    ) -> dict[int, Bounds]:
        """Evaluate candidates from the scores."""
        problem, reading = self.problem, self.reading
        first = self._representatives(candidates, watch)
        leading = {k: each for k, each in candidates.items() if first[k] == k}
        # Each block gets its own part of the multipliers.
        points = {
            k: (reading.seen(each.point), self._dual_point(each)) for k, each in leading.items()
        }
        work = partial(certify_rows, reading, points, watch)
        along = [candidate.alpha for candidate in leading.values()]
        parts = problem.reduce(work, partial(merge_sides, watch), *along, stored=True)
        return {
            k: _bound(problem, self.balls[k], parts[lead].dual)._replace(
                primal=parts[lead].value,
                primal_error=parts[lead].error,
                watched=parts[lead].watched,
            )
            for k, lead in first.items()
        }

    @staticmethod
    def _representatives(
        candidates: Mapping[int, Candidate], watch: Mapping[int, Watch]
    ) -> dict[int, int]:
        """Return for each candidate the first ball with the same candidate, whose sums are equal.

        An optimum inside a ball is optimal in every larger one, so a path often repeats it.
        """
        seen: dict[tuple[int, ...], int] = {}
        first = {k: seen.setdefault(tuple(map(id, each)), k) for k, each in candidates.items()}
        return {k: k if k in watch else lead for k, lead in first.items()}

    def _dual_point(self, candidate: Candidate) -> Host | None:
        """Return the dual weights with the intercept that balances their multipliers."""
        if candidate.dual_weights is None or not self.problem.fit_intercept:
            return candidate.dual_weights
        w = candidate.dual_weights
        return np.append(w, self.moments.shifted_intercept(w))

    def _examine_moments(self, candidates: Mapping[int, Candidate]) -> dict[int, Bounds]:
        """Evaluate candidates from moments, and from the scores where rounding is too large."""
        bounds, doubtful = {}, {}
        for k, candidate in candidates.items():
            found = bounds[k] = self.moments.bounds(self.balls[k], candidate)
            most = MOMENTS_SHARE * self.tol * max(found.primal, self.problem.scale)
            if not found.primal_error + found.dual_error <= most:
                doubtful[k] = candidate
        return bounds | (self._examine_rows(doubtful, {}) if doubtful else {})


def _upper(bounds: Bounds) -> float:
    return bounds.primal + bounds.primal_error


def _lower(bounds: Bounds) -> float:
    return bounds.dual - bounds.dual_error


def value_of(problem: Problem, point: Host) -> float:
    """Return ``f(w, b)`` in one pass."""
    reading = Reading.of(problem)
    work = partial(certify_rows, reading, {0: (reading.seen(point), None)}, {})
    return problem.reduce(work, partial(merge_sides, {}), None, stored=True)[0].value


def bound_of(problem: Problem, alpha: Array) -> float:
    """Return ``D(α)`` in one pass; −∞ where α is not admissible."""
    parts = problem.reduce(partial(dual_sums, Reading.of(problem)), add_dual_sums, alpha)
    return _bound(problem, problem.ball, parts).dual


def dual_point_of(problem: Problem, w: Host) -> Array:
    """``α_i = loss′(r_i)`` at weights w, with the least-squares intercept for them."""
    reading = Reading.of(problem)
    point = np.append(w, 0.0)
    if problem.fit_intercept:
        missed = problem.reduce(partial(_imbalance, reading, point), math.fsum)
        point[-1] = missed / problem.total_cost
    return problem.per_row(partial(_slopes, reading, point))


def _imbalance(reading: Reading, point: Host, block: Block) -> float:
    """Return ``Σ c y r``, which the intercept makes 0."""
    r = value_at(reading, reading.rows(block), point).r
    return accurate_total(block.times_labels(block.times_costs(r)))


def _slopes(reading: Reading, point: Host, block: Block) -> Array:
    """Return ``loss′(r)`` per row."""
    return reading.terms.loss.slope(value_at(reading, reading.rows(block), point).r)


def _bound(problem: Problem, ball: LpBall, sums: DualSums | None) -> Bounds:
    """``D(α)`` from its sums.

    With an intercept the multipliers of both classes must balance. They do up to rounding, and the
    cost of correcting that lowers the bound.
    """
    nothing = Bounds(math.nan, -math.inf)
    if sums is None:
        return nothing
    low, high = problem.loss.multipliers
    if not (low <= sums.low and sums.high <= high):  # also where they are NaN
        return nothing
    pull, stretch = ball.support_size(sums.pull), ball.stretch(problem.R)
    lost, error = 0.0, sums.gain_error + stretch * sums.pull_error
    off, heavier = abs(sums.balance), 0.5 * (sums.net + abs(sums.balance))
    if sums.centre is not None and sums.pull_slack is not None:
        # Multipliers of dual weights use the best intercept, which moves α by y·off / Σ c.
        tilt = (off + sums.balance_error) / problem.total_cost if problem.fit_intercept else 0.0
        error += ball.support_size(sums.pull_slack + tilt * np.abs(sums.centre))
        error += tilt * (2.0 * problem.total_cost + sums.mass)
    elif problem.fit_intercept and sums.mass > 0.0:
        # Scale down the multipliers of the heavier class.
        if not off < 0.5 * heavier:
            return nothing
        changed = 3.0 * sums.mass + 2.0 * abs(sums.gain) + stretch * sums.reach
        lost = off / heavier * changed
        error += sums.balance_error / heavier * changed
    # NumPy's powers and roots are within four units in the last place; the ball needs R of them.
    error += gamma(2.0 * problem.R + 64.0) * (pull + lost + abs(sums.gain))
    support = pull if ball.centre is None else ball.support(sums.pull)
    dual = sums.gain - support - lost
    return Bounds(math.nan, dual, dual_error=error, pull=pull)
