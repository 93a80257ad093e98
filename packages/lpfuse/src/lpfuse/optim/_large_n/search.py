"""Sample → partition → solve → verify: the certified solver for more rows than one would copy.

A sample gives a guess. One pass over the scores at the guess replaces the hinge of every row that
is clear of its kink by a linear piece and gathers the other rows; their model is solved in memory;
the certifier reads all rows once more and decides. Several searches, one for each p of a grid,
share their passes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np

from lpfuse._arrays.operations import Array, Host, kth_smallest, namespace, nonzero, take, total
from lpfuse.optim._large_n.budget import PassBudget
from lpfuse.optim._large_n.passes import (
    GatheredRows,
    Partition,
    PartitionPlan,
    ScorePasses,
    TooManyRows,
    admit,
    crossings,
    unknown,
)
from lpfuse.optim._results import Bounds, Candidate
from lpfuse.optim._solvers.along_p import Trail, settle
from lpfuse.optim._solvers.newton import Guess, Model
from lpfuse.optim._solvers.screening import minimise, pilot, pilot_rows, resolved, subsample
from lpfuse.optim._solvers.smoothing import approach
from lpfuse.optim._tuning import DEFAULT, Tuning
from lpfuse.optim.certificate import Certifier
from lpfuse.optim.problem import Problem

T = TypeVar("T")
X = TypeVar("X")


def search_rows(
    certifier: Certifier,
    passes: ScorePasses,
    balls: Sequence[int],
    max_iter: int | None = None,
    tuning: Tuning = DEFAULT,
    *,
    budget: PassBudget | None = None,
    guesses: Mapping[int, Guess] | None = None,
) -> dict[int, int]:
    """Propose to the certifier, for these of its balls, until it is satisfied; returns the steps.

    `budget` and `guesses`, by ball, replace what would be chosen by where the rows are and what a
    sample would tell.
    """
    problem = certifier.problem
    budget = budget or PassBudget.of(problem, tuning.search)
    settings = SearchSettings(problem, budget, certifier.tol, max_iter, tuning)
    searches = _begin(certifier, balls, settings, guesses or {})
    for _ in range(tuning.search.rounds):
        _round(certifier, passes, searches, budget)
        if all(search.done for search in searches):
            break
    unexamined = {
        search.k: Candidate(search.sample.feasible(search.guess.w))
        for search in searches
        if certifier.value(search.k) == np.inf
    }
    certifier.settle(unexamined)
    return {search.k: search.steps for search in searches}


def _begin(
    certifier: Certifier,
    balls: Sequence[int],
    settings: SearchSettings,
    guesses: Mapping[int, Guess],
) -> list[Search]:
    """A search for each ball.

    The sample they share is let go before rows are gathered: so a quarter of S is enough extra
    memory.
    """
    problem, budget = settings.problem, settings.budget
    sample = Model.of_rows(problem, problem.draw(budget.sample), problem.ball)
    if len(balls) > 1 and not guesses:
        return _begin_along_p(certifier, balls, settings, sample)
    return budget.each(
        lambda k: Search(k, replace(sample, ball=certifier.balls[k]), settings, guesses.get(k)),
        list(balls),
    )


def _begin_along_p(
    certifier: Certifier, balls: Sequence[int], settings: SearchSettings, sample: Model
) -> list[Search]:
    """A search for each ball, from the smallest p upwards: guesses follow each other.

    Where the sample's optimum lies inside a ball, those of all larger balls wait for this one.
    """
    searches: list[Search] = []
    trails: list[Trail] = []
    leader: Search | None = None
    for k in sorted(balls, key=lambda k: certifier.balls[k].p):
        model = replace(sample, ball=certifier.balls[k])
        if trails and all(trail.follow(model.ball) for trail in trails):
            if leader is None:
                search = Search(k, model, settings, near=(trails[0].w, trails[1].w))
            else:
                search = Search(k, model, settings, leader.guess)
                search.leader = leader
        else:
            search, leader = Search(k, model, settings), None
            trails = search.trails(model)
        searches.append(search)
        if leader is None and trails[0].inside:
            leader = search
    return searches


def _round(
    certifier: Certifier, passes: ScorePasses, searches: Sequence[Search], budget: PassBudget
) -> None:
    """Each pass serves all searches that need one."""
    fresh = [search for search in searches if search.wants_rows]
    if fresh:
        parts = passes.partition([s.plan for s in fresh], [s.sample.ball for s in fresh])
        budget.each(lambda pair: pair[0].enter(pair[1]), list(zip(fresh, parts, strict=True)))
    active = [search for search in searches if search.partition is not None]
    if active:
        proposed = budget.each(Search.propose, active)
        # The pass that certifies also tells which rows lie on the wrong linear piece.
        terms = certifier.problem.terms
        watch = {search.k: crossings(terms, search.most_crossed) for search in active}
        candidates = {search.k: each for search, each in zip(active, proposed, strict=True)}
        waiting = [search for search in searches if search.leader is not None and not search.done]
        for search in waiting:
            assert search.leader is not None
            if search.leader.k in candidates:
                candidates[search.k] = candidates[search.leader.k]
        bounds = certifier.examine(candidates, watch)
        for search in active:
            search.learn(bounds[search.k], certifier.within(search.k))
        for search in waiting:
            search.leave_or_join(search.k in candidates and certifier.within(search.k))


class SearchSettings(NamedTuple):
    """What all searches of a solve have in common."""

    problem: Problem
    budget: PassBudget
    tol: float
    max_iter: int | None
    tuning: Tuning


class Search:
    """The search over one ball: where to partition next, or the partition it is working on."""

    def __init__(
        self,
        k: int,
        sample: Model,
        settings: SearchSettings,
        guess: Guess | None = None,
        near: tuple[Host, Host] | None = None,
    ) -> None:
        self.k, self.settings = k, settings
        self.leader: Search | None = None  # whose optimum is likely to be this one's too
        self.kept, self.thinned, self.steps = settings.budget.kept, 0, 0
        self.partition: Partition | None = None
        self.done = False
        tuning = settings.tuning
        if guess is None:
            # The pilot sees a part of the sample: how far its margins are off says how far the
            # sample's will be.
            most = None
            if near is not None:  # many rows for each of many p would be too many
                share = int(tuning.along.kept_share * settings.problem.n)
                most = max(min(settings.budget.kept // 2, share), 1)
            else:
                first, enough = pilot(sample, tuning), resolved(sample.size, tuning)
                w = sample.feasible(approach(sample, first, enough, tuning.smoothing).w)
                near = w, first.w
            self.noise = sample.n_rows**-0.5  # of the guess, in units that only ratios matter of
            share = (pilot_rows(sample.size, tuning) / sample.n_rows) ** 0.5
            self.pilot = near[1]
            self._guess_at(sample, *near, share, most)
        else:
            self.guess, self.stride = guess, 1
        # To estimate later moves by.
        self.sample = subsample(sample, min(sample.n_rows, tuning.search.remembered))

    def trails(self, sample: Model) -> list[Trail]:
        """From the guesses of sample and pilot to those of the next p."""
        tuning = self.settings.tuning
        few = subsample(sample, pilot_rows(sample.size, tuning))
        return [
            Trail(sample, self.guess.w, tuning.along),
            Trail(few, self.pilot, tuning.along),
        ]

    @property
    def wants_rows(self) -> bool:
        """Whether a partition is to be made."""
        return self.leader is None and not self.done and self.partition is None

    def leave_or_join(self, done: bool) -> None:
        """What the leader found is enough, or this search goes its own way once it is done."""
        assert self.leader is not None
        self.done = done
        if not done and self.leader.done:
            self.guess, self.leader = Guess(self.leader.point, self.guess.band), None

    def _guess_at(
        self, sample: Model, w: Host, before: Host, share: float, most: int | None = None
    ) -> None:
        """Guess w, whose margins are off by that share of their way from the guess before."""
        n, budget, tuning = self.settings.problem.n, self.settings.budget, self.settings.tuning
        r = abs(sample.residuals(w))
        off = budget.risk * share * abs(sample.margins(w - before))
        least = tuning.search.band_rows
        if not self.thinned:
            least = tuning.search.first_band_rows_per_weight * sample.size
        band = max(_band_at_risk(r, off), kth_smallest(r, min(least, sample.n_rows - 1)))
        expected = n * total(r <= band) / sample.n_rows
        self.guess, self.stride = Guess(w, band), 1
        many = expected > budget.overfull * self.kept and self.thinned < tuning.search.thinned
        if many and most is None:
            self.stride = int(np.ceil(expected / budget.sample))
        elif expected > (most or self.kept):
            self.guess = Guess(w, min(band, _band_of(r, n, most or self.kept)))

    @property
    def plan(self) -> PartitionPlan:
        """The partition to be made: it may bring some more rows than are hoped for."""
        return PartitionPlan(*self.guess, self.stride, 8 * self.kept)

    def enter(self, partition: Partition | TooManyRows) -> None:
        """Begin with a fresh partition at the guess, or guess anew from what it brought."""
        if isinstance(partition, TooManyRows):
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
        before, model, tuning = self.guess.w, partition.model, self.settings.tuning
        enough = max(resolved(model.size, tuning), model.n_rows // 20)
        near = Guess(before, 0.5 * self.guess.band)
        w = model.feasible(approach(model, near, enough, tuning.smoothing).w)
        former, share = self.noise, partition.n_near / self.settings.problem.n
        self.noise = share * max(model.n_rows, 1) ** -0.5
        self._guess_at(self.sample, w, before, min(self.noise / former, 0.5))

    @property
    def most_crossed(self) -> int:
        """So many rows on a wrong linear piece are worth bringing."""
        assert self.partition is not None
        return max(2 * self.partition.model.n_rows, self.settings.tuning.search.crossed)

    def propose(self) -> Candidate:
        """Solve the partition's model: a point, and multipliers for all rows."""
        assert self.partition is not None
        model, pieces, positions = self.partition.model, self.partition.pieces, self.partition[-1]
        problem, _, tol, max_iter, tuning = self.settings
        inner_tol = tuning.screening.margin * tol
        found = None
        if max_iter is None and self.inner.band > 0.0 and model.columns.size > tuning.along.whole:
            found = settle(model, self.inner.w, None, inner_tol, problem.scale, tuning)
        if found is None:
            found = minimise(model, inner_tol, problem.scale, max_iter, self.inner, tuning)
        self.point, self.steps = found.w, max(self.steps, found.n_iter)
        # The last step may have overstepped [0, 1] by a rounding error.
        shares = namespace(found.alpha).clip(found.alpha / model.costs, 0.0, 1.0)
        return Candidate(found.w, problem.multipliers(pieces, positions, shares))

    def learn(self, bounds: Bounds, done: bool) -> None:
        """From what was certified: done, or mend the partition, or leave it for a wider one."""
        assert self.partition is not None
        if done:
            self.done, self.partition = True, None  # its rows are not needed any more
            return
        model, rows = self.partition.model, self.settings.tuning.search.crossed
        crossed: GatheredRows | None = bounds.watched
        crossed = None if crossed is None else unknown(self.partition, crossed)
        if crossed is not None and len(crossed.costs) <= max(model.n_rows, rows):
            self.partition = admit(self.partition, crossed)
            narrow = 0.0 if len(crossed.costs) < 0.05 * model.n_rows else 0.5
            self.inner = Guess(self.point, narrow * self.guess.band)
        else:
            self._recentre(bounds.primal < self.partition.value)

    def _recentre(self, improved: bool) -> None:
        """Partition next at the better point, as wide as the last move, within twice the rows.

        A budget of few rows has not been enough: it grows to the usual one.
        """
        least = self.settings.tuning.search.kept
        self.kept = max(2 * self.kept, min(8 * self.kept, least))
        sample, w = self.sample, self.point if improved else self.guess.w
        moved = abs(sample.margins(self.point - self.guess.w))
        wide = kth_smallest(moved, int(0.9 * sample.n_rows))
        widest = _band_of(sample.residuals(w), self.settings.problem.n, self.kept)
        self.guess = Guess(w, max(2.0 * self.guess.band, min(wide, widest)))
        self.partition, self.stride = None, 1


def _band_at_risk(r: Array, off: Array) -> float:
    """The band of the rows that may change side: those with a margin that may be off by more.

    The outermost hundredth of them does not count.
    """
    at_risk = take(r, nonzero(r <= off))  # few of many: a selection among zeros would take longer
    m = int(at_risk.shape[0])
    return kth_smallest(at_risk, m - 1 - int(0.01 * m)) if m else 0.0


def _band_of(r: Array, n: int, rows: int) -> float:
    """The band that holds about `rows` of n rows, by the residuals of a sample."""
    m = int(r.shape[0])
    return kth_smallest(abs(r), min(m - 1, m * rows // n))
