"""Sample → approach → screen → solve → verify: the certified solver for many rows.

Few rows decide: those near the kink of their hinge at the optimum. All others are folded into a
linear term, which can only lower the objective, so the lower bound of the small model holds for the
whole. One look at all rows then tells whether the fold was right; rows on the wrong side move into
the model and it is solved again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from lpfuse._arrays import Array, dot, kth_smallest, namespace, positive_part
from lpfuse.optim.interior_point import MAX_ITER, Optimum, interior_point
from lpfuse.optim.model import Model
from lpfuse.optim.passes import Reader, admit
from lpfuse.optim.problem import Problem
from lpfuse.optim.smoothing import Guess, approach, cold_guess

ROUNDS = 8
APPROACHES = 3
MANY = 32768  # rows that are not copied as a whole any more
MOST = 60_000  # rows kept by the first partition; each further one may keep twice as many
RISK = 2.5  # standard deviations
WARM_STEPS = 25  # a warm start that helps needs fewer


def _few(size: int) -> int:
    """Rows that the interior point handles faster alone than with a detour through screening."""
    return 1000 + 20 * size


def _enough(size: int) -> int:
    """Rows in the band at which the smoothed Newton method has done its part."""
    return 3 * size + 10


def _kept(size: int) -> int:
    """Rows kept around the kink for the interior point."""
    return 12 * size + 200


def minimise(
    model: Model, tol: float, scale: float, max_iter: int = MAX_ITER, guess: Guess | None = None
) -> Optimum:
    """Solve a model in memory to ``primal − dual ≤ tol · max(primal, scale)``."""
    if model.n_rows <= _few(model.size):
        return interior_point(model, tol, scale, max_iter)
    guess = guess or pilot(model)
    best: Optimum | None = None
    for _ in range(APPROACHES):
        best = better(best, _screened(model, guess, tol, scale, max_iter))
        if best.within(tol, scale):
            return best
        guess = Guess(best.w, 4.0 * guess.band)
    return better(best, interior_point(model, tol, scale, max_iter))


def _screened(model: Model, guess: Guess, tol: float, scale: float, max_iter: int) -> Optimum:
    """Approach from the guess, keep the rows near the kink, and add those that change side.

    Gives up, with the bounds it has, when more rows change side than were kept: the guess was off.
    """
    start = approach(model, guess, _enough(model.size))
    r = model.residuals(model.feasible(start.w))
    xp = namespace(r)
    width = kth_smallest(abs(r), _kept(model.size))
    side = xp.sign(r) * xp.astype(abs(r) > width, r.dtype)
    best: Optimum | None = None
    steps = 0
    for attempt in range(ROUNDS):
        reduced, kept = model.fold(side)
        found = None
        if attempt == 0:
            found = interior_point(reduced, 0.3 * tol, scale, min(max_iter, WARM_STEPS), start)
            steps += found.n_iter
        if found is None or not found.within(tol, scale):
            found = interior_point(reduced, 0.3 * tol, scale, max_iter)
            steps += found.n_iter
        r = model.residuals(found.w)
        alpha = xp.where(side > 0, model.costs, 0.0 * model.costs)
        alpha[kept] = found.alpha
        primal = model.smooth_value(found.w) + dot(model.costs, positive_part(r))
        best = better(best, Optimum(found.w, alpha, primal, found.dual, steps, found.w))
        crossed = r * side < 0
        n_crossed = int(crossed.sum())
        if best.within(tol, scale) or n_crossed == 0 or n_crossed > 2 * reduced.n_rows:
            break
        side = xp.where(crossed, 0.0 * side, side)
    return best  # type: ignore[return-value]


def pilot(model: Model) -> Guess:
    """A guess from a few of the model's rows."""
    few = model.subsample(_few(model.size))
    w = model.feasible(approach(few, cold_guess(few), _enough(model.size)).w)
    # The sampling error of R numbers learnt from m rows: margins this close may change side.
    share = min(0.9, 2.0 * (model.size / few.n_rows) ** 0.5)
    return Guess(w, kth_smallest(abs(model.residuals(w)), int(share * model.n_rows)))


def better(best: Optimum | None, new: Optimum) -> Optimum:
    """The better primal side and the better dual side of two results."""
    if best is None:
        return new
    w, primal = (new.w, new.primal) if new.primal <= best.primal else (best.w, best.primal)
    alpha, dual = (new.alpha, new.dual) if new.dual >= best.dual else (best.alpha, best.dual)
    return Optimum(w, alpha, primal, dual, max(best.n_iter, new.n_iter), w)


class _Held(NamedTuple):
    """Multipliers of all rows, in short: the model's own, and where the other rows are held."""

    side: Array
    index: Array
    alpha: Array


def minimise_problem(reader: Reader, tol: float, max_iter: int = MAX_ITER) -> Optimum:
    """Solve a problem of any size; α of the result has one entry a row of S, in [0, c]."""
    problem = reader.problem
    if problem.n <= MANY:
        model, index = reader.whole()
        found = minimise(model, tol, problem.scale, max_iter)
        return replace(found, alpha=_spread(problem, _Held(None, index, found.alpha)))
    sample = reader.sample(max(MANY, 40 * problem.size))
    best = refine(reader, sample, sample_guess(sample, problem.n), tol, max_iter)
    return replace(best, alpha=_spread(problem, best.alpha))


def sample_guess(sample: Model, n: int) -> Guess:
    """A guess from a sample of n rows, with the sample's own error as the band."""
    size = sample.size
    first = pilot(sample)
    w = sample.feasible(approach(sample, first, _enough(size)).w)
    # The pilot saw a part of the sample: how far its margins were off says how far the sample's
    # will be, and a row is at risk of changing side where that is more than its own margin.
    off = abs(sample.margins(w - first.w)) * (_few(size) / sample.n_rows) ** 0.5
    r = abs(sample.residuals(w))
    at_risk = r * namespace(r).astype(r <= RISK * off, r.dtype)
    spare = int(0.01 * float((at_risk > 0).sum()))
    band = kth_smallest(at_risk, sample.n_rows - 1 - spare)
    return Guess(w, max(min(band, _widest(r, n, MOST)), kth_smallest(r, 4 * size)))


def _widest(r: Array, n: int, rows: int) -> float:
    """The band that holds about `rows` of n rows, by the residuals of a sample."""
    m = int(r.shape[0])
    return kth_smallest(abs(r), min(m - 1, m * rows // n))


def refine(reader: Reader, sample: Model, guess: Guess, tol: float, max_iter: int) -> Optimum:
    """From a guess to a proof: partition there, solve, verify, and mend what the verdict shows."""
    scale = reader.problem.scale
    best: Optimum | None = None
    for doubling in range(1, ROUNDS + 1):
        partition = reader.partition(guess.w, guess.band)
        inner = Guess(guess.w, 0.5 * guess.band)
        for _ in range(ROUNDS):
            found = minimise(partition.model, 0.3 * tol, scale, max_iter, inner)
            value, crossed = reader.verify(found.w, partition.side)
            held = _Held(partition.side, partition.index, found.alpha)
            best = better(best, replace(found, primal=value, alpha=held))
            if best.within(tol, scale):
                return best
            if crossed.index.shape[0] > max(partition.model.n_rows, 2000):
                break
            partition = admit(partition, crossed)
            many = crossed.index.shape[0] > 0.1 * partition.model.n_rows
            inner = Guess(found.w, (0.5 if many else 0.1) * guess.band)
        # Too many rows changed side: partition again at the better point, as wide as the last move.
        moved = kth_smallest(abs(sample.margins(found.w - guess.w)), int(0.9 * sample.n_rows))
        w = found.w if value < partition.value else guess.w
        widest = _widest(sample.residuals(w), reader.problem.n, MOST * 2**doubling)
        guess = Guess(w, max(2.0 * guess.band, min(moved, widest)))
    return best  # type: ignore[return-value]


def _spread(problem: Problem, held: _Held) -> Array:
    """One multiplier a row of S."""
    xp = namespace(problem.S)
    costs = xp.ones(problem.n, dtype=xp.float64) if problem.costs is None else problem.costs
    alpha = 0.0 * costs if held.side is None else xp.where(held.side > 0, costs, 0.0 * costs)
    alpha[held.index] = held.alpha
    return alpha
