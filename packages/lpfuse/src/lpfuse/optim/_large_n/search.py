"""Sample → partition → solve → verify: the certified solver for more rows than one would copy.

A sample gives a guess. One pass over the scores at the guess replaces the hinge of every row that
is clear of its kink by a linear piece and gathers the other rows; their model is solved in memory;
the certifier reads all rows once more and decides. Several searches, one for each p of a grid,
share their passes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from lpfuse._arrays.operations import Host, dot, kth_smallest, namespace, total
from lpfuse.optim._large_n.gathered import GatheredRows, crossings
from lpfuse.optim._large_n.guessing import (
    PassBudget,
    band_at_risk,
    band_of,
    layers_within,
    two_guesses,
)
from lpfuse.optim._large_n.passes import (
    Partition,
    PartitionPlan,
    ScorePasses,
    TooManyRows,
    admit,
    unknown,
)
from lpfuse.optim._results import Bounds, Candidate
from lpfuse.optim._solvers.newton import Guess, Model
from lpfuse.optim._solvers.screening import minimise, pilot, pilot_rows, resolved, subsample
from lpfuse.optim._solvers.smoothing import approach
from lpfuse.optim._tuning import DEFAULT, FLOOR, Tuning
from lpfuse.optim.certificate import Certifier
from lpfuse.optim.problem import Problem


def search_rows(
    certifier: Certifier,
    passes: ScorePasses,
    balls: Sequence[int],
    max_iter: int | None = None,
    tuning: Tuning = DEFAULT,
    *,
    budget: PassBudget | None = None,
    guesses: Mapping[int, Guess] | None = None,
    error_free: Callable[[int], bool] | None = None,
) -> dict[int, int]:
    """Propose to the certifier, for these of its balls, until it is satisfied; returns the steps.

    `budget` and `guesses`, by ball, replace what would be chosen by where the rows are and what a
    sample would tell. Where a sample has no error, `error_free` is asked first: whether it settles
    the ball, for then there is nothing to search.
    """
    problem = certifier.problem
    budget = budget or PassBudget.of(problem, tuning.search)
    settings = SearchSettings(problem, budget, certifier.tol, max_iter, tuning)
    searches = _begin(certifier, balls, settings, guesses or {})
    for search in searches:
        if search.error_free and error_free is not None:
            search.done = error_free(search.k)
    for _ in range(tuning.search.rounds):
        if all(search.done for search in searches):
            break
        _round(certifier, passes, searches, budget)
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
    return budget.each(
        lambda k: Search(k, replace(sample, ball=certifier.balls[k]), settings, guesses.get(k)),
        list(balls),
    )


def _round(
    certifier: Certifier, passes: ScorePasses, searches: Sequence[Search], budget: PassBudget
) -> None:
    """Each pass serves all searches that need one."""
    fresh = [search for search in searches if not search.done and search.partition is None]
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
        bounds = certifier.examine(candidates, watch)
        for search in active:
            search.learn(bounds[search.k], certifier.within(search.k))


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
        self, k: int, sample: Model, settings: SearchSettings, guess: Guess | None = None
    ) -> None:
        self.k, self.settings = k, settings
        self.kept, self.thinned, self.steps = settings.budget.kept, 0, 0
        self.partition: Partition | None = None
        self.done = False
        # Whether next to no row of the sample is short of its margin, so that it tells little of
        # where the others are; and whether none need be.
        self.blind = self.error_free = False
        tuning = settings.tuning
        if guess is None:
            self._begin(sample)
        else:
            self.guess, self.stride, self.layers = guess, 1, ()
        # To estimate later moves by.
        self.sample = subsample(sample, min(sample.n_rows, tuning.search.remembered))

    def _begin(self, sample: Model) -> None:
        """Guess from the sample, and from a part of it: how far the part is off tells the rest."""
        budget, tuning = self.settings.budget, self.settings.tuning
        if budget.layered:
            w, before, share, near = two_guesses(sample, tuning)
            # The size of Σ c a over rows whose side is left to chance, in units of one a.
            rising = total(sample.residuals(w) > 0)
            self.noise = max(rising, sample.size) ** 0.5 * self.settings.problem.n / sample.n_rows
            self.blind = rising < tuning.search.blind * sample.size
            self.error_free = self.blind and self._without_error(sample, Guess(w, near))
        else:
            first, enough = pilot(sample, tuning), resolved(sample.size, tuning)
            w = sample.feasible(approach(sample, first, enough, tuning.smoothing).w)
            before, self.noise = first.w, sample.n_rows**-0.5
            share = (pilot_rows(sample.size, tuning) / sample.n_rows) ** 0.5
        self._guess_at(sample, w, before, share)

    def _without_error(self, sample: Model, guess: Guess) -> bool:
        """Whether some weights leave no row of the sample short of its margin."""
        tol, tuning = self.settings.tol, self.settings.tuning
        scale = FLOOR * sample.n_rows
        found = minimise(sample, 0.5, tol * scale, None, guess, tuning)
        return found.primal <= tol * scale

    def _guess_at(self, sample: Model, w: Host, before: Host, share: float) -> None:
        """Guess w, whose margins are off by that share of their way from the guess before."""
        n, budget, tuning = self.settings.problem.n, self.settings.budget, self.settings.tuning
        r = abs(sample.residuals(w))
        off = budget.risk * share * abs(sample.margins(w - before))
        least = tuning.search.band_rows
        if not self.thinned:
            least = tuning.search.first_band_rows_per_weight * sample.size
        band = max(band_at_risk(r, off), kth_smallest(r, min(least, sample.n_rows - 1)))
        if self.blind and not self.thinned:
            band = kth_smallest(r, sample.n_rows - 1)
        expected = n * total(r <= band) / sample.n_rows
        self.guess, self.stride, self.layers = Guess(w, band), 1, ()
        rounds = tuning.search.layered if budget.layered else tuning.search.thinned
        if expected > budget.overfull * self.kept and self.thinned < rounds:
            if budget.layered:
                self.layers = layers_within(r, n, band, budget.sample)
            else:
                self.stride = int(np.ceil(expected / budget.sample))
        elif expected > self.kept:
            self.guess = Guess(w, min(band, band_of(r, n, self.kept)))

    @property
    def plan(self) -> PartitionPlan:
        """The partition to be made: it may bring some more rows than are hoped for."""
        return PartitionPlan(*self.guess, self.stride, 8 * self.kept, self.layers)

    def enter(self, partition: Partition | TooManyRows) -> None:
        """Begin with a fresh partition at the guess, or guess anew from what it brought."""
        if isinstance(partition, TooManyRows):
            self.guess = Guess(self.guess.w, self.guess.band * self.kept / partition.n_rows)
        elif self.stride > 1 or self.layers:
            self._refine(partition)
        else:
            self.partition = partition
            self.inner = Guess(self.guess.w, 0.5 * self.guess.band)

    def _refine(self, partition: Partition) -> None:
        """Guess anew from a partition that brought only a part of the rows in its band.

        The others, in which a guess can be off, are known all together: so the error of this part
        of them is smaller than that of the sample by the share of rows in the band. In layers only
        rows that change side leave an error, each as many times as it stands for others.
        """
        self.thinned += 1
        before, model, tuning = self.guess.w, partition.model, self.settings.tuning
        if self.layers:
            # Costs differ too much for the smoothed way to tell when it is there: to the end, then.
            near = Guess(before, self.layers[len(self.layers) // 2][0])
            tol, scale = tuning.search.refined, self.settings.problem.scale
            w = minimise(model, tol, scale, None, near, tuning).w
        else:
            near = Guess(before, 0.5 * self.guess.band)
            enough = max(resolved(model.size, tuning), model.n_rows // 20)
            w = model.feasible(approach(model, near, enough, tuning.smoothing).w)
        former = self.noise
        if self.layers:
            turned = (model.residuals(w) > 0) != (model.residuals(before) > 0)
            self.noise = max(dot(model.costs * turned, model.costs), model.size) ** 0.5
        else:
            share = partition.n_near / self.settings.problem.n
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
        widest = band_of(sample.residuals(w), self.settings.problem.n, self.kept)
        self.guess = Guess(w, max(2.0 * self.guess.band, min(wide, widest)))
        self.partition, self.stride, self.layers = None, 1, ()
