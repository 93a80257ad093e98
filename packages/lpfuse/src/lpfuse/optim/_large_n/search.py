"""Sample → partition → solve → verify: the certified solver for more rows than one would copy.

A sample gives a guess. One pass over the scores at the guess folds every row that is clear of its
kink and gathers the others; their model is solved in memory; one more pass verifies. Several
searches, one for each p of a grid, share their passes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np

from lpfuse._arrays import (
    Array,
    Host,
    kth_smallest,
    map_parallel,
    namespace,
    on_accelerator,
    total,
)
from lpfuse.optim._large_n.passes import Cut, Overflow, Partition, Reader, Verdict, admit, unknown
from lpfuse.optim._large_n.screening import enough, minimise, neighbour_guess, pilot, pilot_rows
from lpfuse.optim._solvers.interior_point import Optimum, better
from lpfuse.optim._solvers.model import Guess, Model
from lpfuse.optim._solvers.smoothing import approach
from lpfuse.optim.balls import LpBall
from lpfuse.optim.problem import Fold, Problem

T = TypeVar("T")
X = TypeVar("X")

MANY = 32768  # up to this many rows are copied as a whole
MOST = 60_000  # rows kept by a first partition at least; each further one may keep twice as many
FEW = 4096  # rows that tell how margins are spread
LEAST = 16  # rows of those that a band holds at least
THINNED = 4  # partitions that bring a part of their rows only, to part them better next time
ROUNDS = 40


def minimise_rows(
    reader: Reader, balls: Sequence[LpBall], tol: float, max_iter: int
) -> list[Optimum]:
    """Solve the reader's problem over each ball; α has one entry a row of S, in [0, 1]."""
    problem = reader.problem
    if not balls:
        return []
    if problem.n <= MANY:
        model, index = reader.whole()
        found: list[Optimum] = []
        for k, ball in enumerate(balls):
            model = replace(model, ball=ball)
            guess = neighbour_guess(model, found[-1].w, balls[k - 1]) if found else None
            found.append(minimise(model, tol, problem.scale, max_iter, guess))
        return [
            replace(f, alpha=_spread(problem, Held(None, index, f.alpha / model.costs)))
            for f in found
        ]
    searches = _begin(reader, balls, tol, max_iter)
    _run(reader, searches)
    bests = [search.best for search in searches if search.best is not None]
    return [replace(best, alpha=_spread(problem, best.alpha)) for best in bests]


def _begin(reader: Reader, balls: Sequence[LpBall], tol: float, max_iter: int) -> list[Search]:
    """A search for each ball, with a guess from one sample, which is let go again."""
    problem = reader.problem
    budget = Budget.of(problem)
    sample = reader.sample(budget.sample)
    return budget.each(
        lambda ball: Search(problem, replace(sample, ball=ball), budget, tol, max_iter), balls
    )


def _run(reader: Reader, searches: Sequence[Search]) -> None:
    """Passes until every search is done; each pass serves all that need one."""
    each = searches[0].budget.each
    for _ in range(ROUNDS):
        fresh = [search for search in searches if not search.done and search.partition is None]
        if fresh:
            parts = reader.partition([s.cut for s in fresh], [s.sample.ball for s in fresh])
            each(lambda pair: pair[0].enter(pair[1]), list(zip(fresh, parts, strict=True)))
        active = [search for search in searches if search.partition is not None]
        if active:
            points, folds, most = zip(*each(Search.solve, active), strict=True)
            verdicts = reader.verify(points, folds, most)
            for search, verdict in zip(active, verdicts, strict=True):
                search.judge(verdict)
        if all(search.done for search in searches):
            return


class Budget(NamedTuple):
    """What to spend: passes are dear where rows must be read from far, rows where all is near.

    An accelerator reads all rows in the time that the host needs for a few thousand of them: there
    it pays to take small steps, with a partition after each. Elsewhere it pays to keep more rows
    than one needs, and to spare a pass.
    """

    sample: int  # rows that give the first guess
    kept: int  # rows of a first partition
    patience: int  # how many times as many may be at risk before they are thinned
    risk: float  # how many times its expected error a margin may move
    alone: bool  # whether searches run one after another: with few rows, threads only queue

    @classmethod
    def of(cls, problem: Problem) -> Budget:
        """For the rows of a problem, by where they are and how many."""
        if on_accelerator(problem.S):
            few = 500 + 100 * problem.size
            return cls(few, 4 * few, 1, 1.5, True)
        many = many_of(problem.n)
        sample = max(MANY, 40 * problem.size, many)
        return cls(sample, max(MOST, 4 * many), 8, 2.5, False)

    def each(self, work: Callable[[X], T], items: Sequence[X]) -> list[T]:
        """``work`` on each item."""
        return [work(item) for item in items] if self.alone else map_parallel(work, items)


def many_of(n: int) -> int:
    """So many of n rows that a sample's error and the rows it leaves open grow at one pace."""
    return round(n ** (2 / 3))


class Held(NamedTuple):
    """Multipliers of all rows, in short: the model's own, and where the other rows are held."""

    fold: Fold | None
    index: Array
    shares: Array  # in [0, 1]


class Search:
    """One search: where to partition next, or the partition it is working on."""

    def __init__(
        self, problem: Problem, sample: Model, budget: Budget, tol: float, max_iter: int
    ) -> None:
        self.problem, self.budget, self.tol, self.max_iter = problem, budget, tol, max_iter
        self.kept, self.thinned = budget.kept, 0
        self.partition: Partition | None = None
        self.best: Optimum | None = None
        self.done = False
        # The pilot sees a part of the sample: how far its margins are off says how far the
        # sample's will be.
        first = pilot(sample)
        w = sample.feasible(approach(sample, first, enough(sample.size)).w)
        self.noise = sample.n_rows**-0.5  # of the guess, in units that only ratios matter of
        self._settle(sample, w, first.w, (pilot_rows(sample.size) / sample.n_rows) ** 0.5)
        self.sample = sample.subsample(min(sample.n_rows, FEW))  # to judge later moves by

    def _settle(self, sample: Model, w: Host, before: Host, share: float) -> None:
        """Guess w, whose margins are off by that share of their way from the guess before."""
        r, n = abs(sample.residuals(w)), self.problem.n
        off = self.budget.risk * share * abs(sample.margins(w - before))
        # A few rows near the kink tell nothing of their risk; fewer will do once some are known.
        least = 4 * sample.size if not self.thinned else LEAST
        band = max(_band_at_risk(r, off), kth_smallest(r, min(least, sample.n_rows - 1)))
        expected = n * total(r <= band) / sample.n_rows
        self.guess, self.stride = Guess(w, band), 1
        if expected > self.budget.patience * self.kept and self.thinned < THINNED:
            self.stride = int(np.ceil(expected / self.budget.sample))
        elif expected > self.kept:
            self.guess = Guess(w, min(band, _band_of(r, n, self.kept)))

    @property
    def cut(self) -> Cut:
        """The partition to be made: it may bring some more rows than are hoped for."""
        return Cut(*self.guess, self.stride, 8 * self.kept)

    def enter(self, partition: Partition | Overflow) -> None:
        """Begin with a fresh partition at the guess, or guess anew from what it brought."""
        if isinstance(partition, Overflow):
            self.guess = Guess(self.guess.w, self.guess.band * self.kept / partition.n_rows)
        elif self.stride > 1:
            self._refine(partition)
        else:
            self.partition = partition
            self.inner = Guess(self.guess.w, 0.5 * self.guess.band)

    def _refine(self, partition: Partition) -> None:
        """Guess anew from a partition that brought only a part of the rows in its band.

        The others, in which a guess can be off, are known all together: so the error of this part
        of them is smaller than that of the sample by the share of rows in the band.
        """
        self.thinned += 1
        before, model = self.guess.w, partition.model
        resolved = max(enough(model.size), model.n_rows // 20)
        w = model.feasible(approach(model, Guess(before, 0.5 * self.guess.band), resolved).w)
        former, share = self.noise, partition.n_near / self.problem.n
        self.noise = share * max(model.n_rows, 1) ** -0.5
        self._settle(self.sample, w, before, min(self.noise / former, 0.5))

    def solve(self) -> tuple[Host, Fold, int]:
        """Solve the partition's model; returns what to verify: point, fold, and most rows."""
        assert self.partition is not None
        model, scale = self.partition.model, self.problem.scale
        self.found = minimise(model, 0.3 * self.tol, scale, self.max_iter, self.inner)
        return self.found.w, self.partition.fold, max(2 * model.n_rows, 2000)

    def judge(self, verdict: Verdict) -> None:
        """Take the verdict of a pass: done, or mend the partition, or leave it for a wider one."""
        assert self.partition is not None
        model = self.partition.model
        held = Held(self.partition.fold, self.partition.positions, self.found.alpha / model.costs)
        self.best = better(self.best, replace(self.found, primal=verdict.value, alpha=held))
        if self.best.within(self.tol, self.problem.scale):
            self.done, self.partition = True, None  # its rows are not needed any more
            return
        crossed = None if verdict.rows is None else unknown(self.partition, verdict.rows)
        if crossed is not None and len(crossed.costs) <= max(model.n_rows, 2000):
            self.partition = admit(self.partition, crossed)
            narrow = 0.0 if len(crossed.costs) < 0.05 * model.n_rows else 0.5
            self.inner = Guess(self.found.w, narrow * self.guess.band)
        else:
            self._recentre(verdict.value < self.partition.value)

    def _recentre(self, improved: bool) -> None:
        """Partition next at the better point, as wide as the last move, within twice the rows.

        Thrift did not pay: a budget of few rows is forgotten.
        """
        self.kept = max(2 * self.kept, min(8 * self.kept, MOST))
        sample, w = self.sample, self.found.w if improved else self.guess.w
        moved = abs(sample.margins(self.found.w - self.guess.w))
        wide = kth_smallest(moved, int(0.9 * sample.n_rows))
        widest = _band_of(sample.residuals(w), self.problem.n, self.kept)
        self.guess = Guess(w, max(2.0 * self.guess.band, min(wide, widest)))
        self.partition, self.stride = None, 1


def _band_at_risk(r: Array, off: Array) -> float:
    """The band of the rows that may change side: those with a margin that may be off by more."""
    at_risk = r * namespace(r).astype(r <= off, r.dtype)
    spare = int(0.01 * total(at_risk > 0))
    return kth_smallest(at_risk, int(r.shape[0]) - 1 - spare)


def _band_of(r: Array, n: int, rows: int) -> float:
    """The band that holds about `rows` of n rows, by the residuals of a sample."""
    m = int(r.shape[0])
    return kth_smallest(abs(r), min(m - 1, m * rows // n))


def _spread(problem: Problem, held: Held) -> Array:
    """One multiplier a row of S; the last step may have overstepped by a rounding error."""
    xp = namespace(held.shares)
    return problem.multipliers(held.fold, held.index, xp.clip(held.shares, 0.0, 1.0))
