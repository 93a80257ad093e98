"""Sample → partition → solve → verify: the certified solver for more rows than one would copy.

A sample gives a guess. One pass over the scores at the guess folds every row that is clear of its
kink and gathers the others; their model is solved in memory; one more pass verifies. Several
searches, one for each p of a grid, share their passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from lpfuse._arrays import Array, Host, kth_smallest, map_parallel, namespace, total
from lpfuse.optim.balls import LpBall
from lpfuse.optim.interior_point import Optimum, better
from lpfuse.optim.model import Guess, Model
from lpfuse.optim.passes import Overflow, Partition, Reader, Verdict, admit, unknown
from lpfuse.optim.problem import Fold, Problem
from lpfuse.optim.screening import (
    approach_in_stages,
    minimise,
    neighbour_guess,
    pilot,
    pilot_rows,
)

MANY = 32768  # up to this many rows are copied as a whole
MOST = 60_000  # rows kept by a first partition at least; each further one may keep twice as many
FEW = 4096  # rows that tell how margins are spread
RISK = 2.5  # how many times its expected error a margin may move
ROUNDS = 40


def minimise_rows(
    reader: Reader, balls: Sequence[LpBall], tol: float, max_iter: int
) -> list[Optimum]:
    """Solve the reader's problem over each ball; α has one entry a row of S, in [0, 1]."""
    problem = reader.problem
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
    sample = reader.sample(max(MANY, 40 * problem.size, many_of(problem.n)))
    return map_parallel(
        lambda ball: Search(problem, replace(sample, ball=ball), tol, max_iter), balls
    )


def _run(reader: Reader, searches: Sequence[Search]) -> None:
    """Passes until every search is done; each pass serves all that need one."""
    for _ in range(ROUNDS):
        fresh = [search for search in searches if not search.done and search.partition is None]
        if fresh:
            guesses, balls = [s.guess for s in fresh], [s.sample.ball for s in fresh]
            parts = reader.partition(guesses, balls, [s.limit for s in fresh])
            for search, partition in zip(fresh, parts, strict=True):
                search.enter(partition)
        active = [search for search in searches if search.partition is not None]
        if active:
            points, folds, most = zip(*map_parallel(Search.solve, active), strict=True)
            verdicts = reader.verify(points, folds, most)
            for search, verdict in zip(active, verdicts, strict=True):
                search.judge(verdict)
        if all(search.done for search in searches):
            return


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

    def __init__(self, problem: Problem, sample: Model, tol: float, max_iter: int) -> None:
        self.problem, self.tol, self.max_iter = problem, tol, max_iter
        self.kept = max(MOST, 4 * many_of(problem.n))
        self.guess = _sample_guess(sample, problem.n, self.kept)
        self.sample = sample.subsample(min(sample.n_rows, FEW))  # to judge later moves by
        self.partition: Partition | None = None
        self.best: Optimum | None = None
        self.done = False

    @property
    def limit(self) -> int:
        """Rows that a partition may bring: some more than hoped for."""
        return 8 * self.kept

    def enter(self, partition: Partition | Overflow) -> None:
        """Begin with a fresh partition at the guess, or narrow the guess where it held too much."""
        if isinstance(partition, Overflow):
            self.guess = Guess(self.guess.w, self.guess.band * self.kept / partition.n_rows)
            return
        self.partition = partition
        self.inner = Guess(self.guess.w, 0.5 * self.guess.band)

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
        held = Held(self.partition.fold, self.partition.index, self.found.alpha / model.costs)
        self.best = better(self.best, replace(self.found, primal=verdict.value, alpha=held))
        if self.best.within(self.tol, self.problem.scale):
            self.done, self.partition = True, None  # its rows are not needed any more
            return
        crossed = None if verdict.rows is None else unknown(self.partition, verdict.rows)
        if crossed is not None and crossed.index.shape[0] <= max(model.n_rows, 2000):
            self.partition = admit(self.partition, crossed)
            narrow = 0.0 if crossed.index.shape[0] < 0.05 * model.n_rows else 0.5
            self.inner = Guess(self.found.w, narrow * self.guess.band)
        else:
            self._recentre(verdict.value < self.partition.value)

    def _recentre(self, improved: bool) -> None:
        """Partition next at the better point, as wide as the last move, within twice the rows."""
        self.kept *= 2
        sample, w = self.sample, self.found.w if improved else self.guess.w
        moved = abs(sample.margins(self.found.w - self.guess.w))
        wide = kth_smallest(moved, int(0.9 * sample.n_rows))
        widest = _band_of(sample.residuals(w), self.problem.n, self.kept)
        self.guess = Guess(w, max(2.0 * self.guess.band, min(wide, widest)))
        self.partition = None


def _sample_guess(sample: Model, n: int, most: int) -> Guess:
    """A guess from a sample of n rows, with the sample's own error as the band."""
    size = sample.size
    first = pilot(sample)
    w = sample.feasible(approach_in_stages(sample, first).w)
    # The pilot saw a part of the sample: how far its margins were off says how far the sample's
    # will be, and a row is at risk of changing side where that is more than its own margin.
    off = abs(sample.margins(w - first.w)) * (pilot_rows(size) / sample.n_rows) ** 0.5
    r = abs(sample.residuals(w))
    at_risk = r * namespace(r).astype(r <= RISK * off, r.dtype)
    spare = int(0.01 * total(at_risk > 0))
    band = kth_smallest(at_risk, sample.n_rows - 1 - spare)
    return Guess(w, max(min(band, _band_of(r, n, most)), kth_smallest(r, 4 * size)))


def _band_of(r: Array, n: int, rows: int) -> float:
    """The band that holds about `rows` of n rows, by the residuals of a sample."""
    m = int(r.shape[0])
    return kth_smallest(abs(r), min(m - 1, m * rows // n))


def _spread(problem: Problem, held: Held) -> Array:
    """One multiplier a row of S; the last step may have overstepped by a rounding error."""
    xp = namespace(held.shares)
    return problem.multipliers(held.fold, held.index, xp.clip(held.shares, 0.0, 1.0))
