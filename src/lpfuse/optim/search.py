"""Sample → partition → solve → verify: the certified solver for more rows than one would copy.

A sample gives a guess. One pass over the scores at the guess folds every row that is clear of its
kink and gathers the others; their model is solved in memory; one more pass verifies. Several
searches, one for each p of a grid, share their passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from lpfuse._arrays import (
    Array,
    Host,
    as_float64,
    filled,
    kth_smallest,
    map_parallel,
    namespace,
    put,
    total,
)
from lpfuse.optim.balls import LpBall
from lpfuse.optim.interior_point import Optimum, better
from lpfuse.optim.model import Guess, Model
from lpfuse.optim.passes import Partition, Reader, Rows, admit
from lpfuse.optim.problem import Problem
from lpfuse.optim.screening import enough, minimise, neighbour_guess, pilot, pilot_rows
from lpfuse.optim.smoothing import approach

MANY = 32768  # up to this many rows are copied as a whole
MOST = 60_000  # rows kept by a first partition; each further one may keep twice as many
FEW = 4096  # rows that tell how margins are spread
RISK = 2.5  # how many times its expected error a margin may move
ROUNDS = 40


def minimise_rows(
    reader: Reader, balls: Sequence[LpBall], tol: float, max_iter: int
) -> list[Optimum]:
    """Solve the reader's problem over each ball; α has one entry a row of S, in [0, c]."""
    problem = reader.problem
    if problem.n <= MANY:
        model, index = reader.whole()
        found: list[Optimum] = []
        for k, ball in enumerate(balls):
            model = replace(model, ball=ball)
            guess = neighbour_guess(model, found[-1].w, balls[k - 1]) if found else None
            found.append(minimise(model, tol, problem.scale, max_iter, guess))
        return [replace(f, alpha=_spread(problem, Held(None, index, f.alpha))) for f in found]
    searches = _begin(reader, balls, tol, max_iter)
    _run(reader, searches)
    bests = [search.best for search in searches if search.best is not None]
    return [replace(best, alpha=_spread(problem, best.alpha)) for best in bests]


def _begin(reader: Reader, balls: Sequence[LpBall], tol: float, max_iter: int) -> list[Search]:
    """A search for each ball, with a guess from one sample, which is let go again."""
    problem = reader.problem
    sample = reader.sample(max(MANY, 40 * problem.size))
    return map_parallel(
        lambda ball: Search(problem, replace(sample, ball=ball), tol, max_iter), balls
    )


def _run(reader: Reader, searches: Sequence[Search]) -> None:
    """Passes until every search is done; each pass serves all that need one."""
    for _ in range(ROUNDS):
        fresh = [search for search in searches if not search.done and search.partition is None]
        if fresh:
            parts = reader.partition([s.guess for s in fresh], [s.sample.ball for s in fresh])
            for search, partition in zip(fresh, parts, strict=True):
                search.enter(partition)
        active = [search for search in searches if not search.done]
        if not active:
            return
        points, sides = zip(*map_parallel(Search.solve, active), strict=True)
        for search, verdict in zip(active, reader.verify(points, sides), strict=True):
            search.judge(*verdict)


class Held(NamedTuple):
    """Multipliers of all rows, in short: the model's own, and where the other rows are held."""

    side: Array | None
    index: Array
    alpha: Array


class Search:
    """One search: where to partition next, or the partition it is working on."""

    def __init__(self, problem: Problem, sample: Model, tol: float, max_iter: int) -> None:
        self.problem, self.tol, self.max_iter = problem, tol, max_iter
        self.guess = _sample_guess(sample, problem.n)
        self.sample = sample.subsample(min(sample.n_rows, FEW))  # to judge later moves by
        self.kept = MOST
        self.partition: Partition | None = None
        self.best: Optimum | None = None
        self.done = False

    def enter(self, partition: Partition) -> None:
        """Begin with a fresh partition at the guess."""
        self.partition = partition
        self.inner = Guess(self.guess.w, 0.5 * self.guess.band)

    def solve(self) -> tuple[Host, Array]:
        """Solve the partition's model; returns what a pass must verify: the point and the sides."""
        assert self.partition is not None
        model, scale = self.partition.model, self.problem.scale
        self.found = minimise(model, 0.3 * self.tol, scale, self.max_iter, self.inner)
        return self.found.w, self.partition.side

    def judge(self, value: float, crossed: Rows) -> None:
        """Take the verdict of a pass: done, or mend the partition, or leave it for a wider one."""
        assert self.partition is not None
        held = Held(self.partition.side, self.partition.index, self.found.alpha)
        self.best = better(self.best, replace(self.found, primal=value, alpha=held))
        n_crossed, n_kept = crossed.index.shape[0], self.partition.model.n_rows
        if self.best.within(self.tol, self.problem.scale):
            self.done, self.partition = True, None  # its rows are not needed any more
        elif n_crossed <= max(n_kept, 2000):
            self.partition = admit(self.partition, crossed)
            narrow = 0.1 if n_crossed < 0.1 * n_kept else 0.5
            self.inner = Guess(self.found.w, narrow * self.guess.band)
        else:
            self._recentre(value < self.partition.value)

    def _recentre(self, improved: bool) -> None:
        """Partition next at the better point, as wide as the last move, within twice the rows."""
        self.kept *= 2
        sample, w = self.sample, self.found.w if improved else self.guess.w
        moved = abs(sample.margins(self.found.w - self.guess.w))
        wide = kth_smallest(moved, int(0.9 * sample.n_rows))
        widest = _band_of(sample.residuals(w), self.problem.n, self.kept)
        self.guess = Guess(w, max(2.0 * self.guess.band, min(wide, widest)))
        self.partition = None


def _sample_guess(sample: Model, n: int) -> Guess:
    """A guess from a sample of n rows, with the sample's own error as the band."""
    size = sample.size
    first = pilot(sample)
    w = sample.feasible(approach(sample, first, enough(size)).w)
    # The pilot saw a part of the sample: how far its margins were off says how far the sample's
    # will be, and a row is at risk of changing side where that is more than its own margin.
    off = abs(sample.margins(w - first.w)) * (pilot_rows(size) / sample.n_rows) ** 0.5
    r = abs(sample.residuals(w))
    at_risk = r * namespace(r).astype(r <= RISK * off, r.dtype)
    spare = int(0.01 * total(at_risk > 0))
    band = kth_smallest(at_risk, sample.n_rows - 1 - spare)
    return Guess(w, max(min(band, _band_of(r, n, MOST)), kth_smallest(r, 4 * size)))


def _band_of(r: Array, n: int, rows: int) -> float:
    """The band that holds about `rows` of n rows, by the residuals of a sample."""
    m = int(r.shape[0])
    return kth_smallest(abs(r), min(m - 1, m * rows // n))


def _spread(problem: Problem, held: Held) -> Array:
    """One multiplier a row of S."""
    unsettled = filled(problem.n, 0.0, problem.S) if held.side is None else held.side
    alpha = as_float64(unsettled > 0)
    if problem.costs is not None:
        alpha = alpha * problem.costs
    return put(alpha, held.index, held.alpha)
