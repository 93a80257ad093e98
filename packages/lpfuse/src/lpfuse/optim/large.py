"""The certified solver for many rows: sample, partition, solve and verify for each ball.

A sample gives a guess. One pass over the scores at the guess replaces the hinge of every row far
from its kink by a linear piece and gathers the other rows; their model is solved in memory; the
certifier reads all rows once more and decides. The searches for several p share their passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from lpfuse._arrays import operations as ops
from lpfuse._arrays.operations import Array, Host
from lpfuse.optim.certificate import Certifier
from lpfuse.optim.distributed import (
    GatheredRows,
    class_score_range,
    watch_crossings,
    watch_violations,
)
from lpfuse.optim.newton import Guess, Model
from lpfuse.optim.passes import (
    Partition,
    PartitionPlan,
    ScorePasses,
    SearchBudget,
    TooManyRows,
    add_rows,
    rows_outside,
)
from lpfuse.optim.paths import SamplePath, settle
from lpfuse.optim.problem import Problem
from lpfuse.optim.results import Bounds, Candidate, Outcome
from lpfuse.optim.screening import (
    approach,
    minimise,
    open_share,
    pilot,
    pilot_rows,
    resolved,
    subsample,
)
from lpfuse.optim.tie_break import Violations, nearest_to_uniform
from lpfuse.optim.tuning import DEFAULT, FLOOR, Tuning

# --------------------------------------------------------------------------------------------------
# The search over one ball.


LAYERS = 5  # of a thinned partition, by hand: each stands for five times as many rows


class SearchSettings(NamedTuple):
    """Settings that all searches of a solve share."""

    problem: Problem
    budget: SearchBudget
    tol: float
    max_iter: int | None
    tuning: Tuning


class Search:
    """The search over one ball: the next guess, or the current partition."""

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
        self.risk, self.guessed = settings.budget.risk, 0
        self.partition: Partition | None = None
        self.done = False
        # Whether hardly any row of the sample violates its margin, so that it carries little
        # information; and whether some weights violate none.
        self.blind = self.separable = False
        self.layers: tuple[tuple[float, int], ...] = ()
        tuning = settings.tuning
        if guess is None:
            self._begin(sample, near)
        else:
            self.guess, self.stride = guess, 1
        # To estimate later moves by.
        self.sample = subsample(sample, min(sample.n_rows, tuning.search.remembered))

    def sample_paths(self, sample: Model) -> list[SamplePath]:
        """Return the paths along p that start at the guesses of sample and pilot."""
        tuning = self.settings.tuning
        few = subsample(sample, _part_rows(sample, self.settings.budget, tuning))
        return [
            SamplePath(sample, self.guess.w, tuning.along),
            SamplePath(few, self.pilot, tuning.along),
        ]

    @property
    def wants_rows(self) -> bool:
        """Whether a partition is to be made."""
        return self.leader is None and not self.done and self.partition is None

    def update_follower(self, done: bool) -> None:
        """Finish with the leader's optimum, or search from it once the leader is done."""
        assert self.leader is not None
        self.done = done
        if not done and self.leader.done:
            self.guess, self.leader = Guess(self.leader.point, self.guess.band), None

    def _begin(self, sample: Model, near: tuple[Host, Host] | None) -> None:
        """Guess from the sample, and from a part of it to estimate the error.

        `near` holds both guesses where they are known from a neighbouring p.
        """
        budget, tuning, n = self.settings.budget, self.settings.tuning, self.settings.problem.n
        m, k = sample.n_rows, _part_rows(sample, budget, tuning)
        most = None
        if near is not None:  # many rows for each of many p would be too many
            most = max(min(tuning.along.kept, int(tuning.along.kept_share * n)), 1)
        w, before = near or _two_guesses(sample, k, budget, tuning)
        # Of m rows, k have a guess with a variance of m/k times that of all; the difference of the
        # two has the difference of their variances.
        share = (k / (m - k)) ** 0.5 if budget.layered else (k / m) ** 0.5
        self.noise = m**-0.5  # of the guess, in units that only ratios matter of
        if budget.layered:
            # The size of Σ c a over rows of random side, in units of one a.
            rising = ops.total(sample.residuals(w) > 0)
            self.noise = max(rising, sample.size) ** 0.5 * n / m
            self.blind = rising < tuning.search.blind * sample.size
            self.separable = self.blind and self._is_separable(sample, w, k)
        self.pilot = before
        self._guess_at(sample, w, before, share, most)

    def _is_separable(self, sample: Model, w: Host, part: int) -> bool:
        """Return whether some weights satisfy all margins of the sample."""
        tol, tuning = self.settings.tol, self.settings.tuning
        scale = FLOOR * sample.n_rows
        found = settle(sample, w, None, 0.5, tol * scale, tuning)
        if found is None:
            guess = Guess(w, _open_band(sample, w, part))
            found = minimise(sample, 0.5, tol * scale, None, guess, tuning)
        return found.primal <= tol * scale

    def _guess_at(
        self, sample: Model, w: Host, before: Host, share: float, most: int | None = None
    ) -> None:
        """Guess w, with margin errors of `share` times their change from the previous guess."""
        n, budget, tuning = self.settings.problem.n, self.settings.budget, self.settings.tuning
        r = abs(sample.residuals(w))
        off = self.risk * share * abs(sample.margins(w - before))
        least = tuning.search.band_rows
        if not self.thinned:
            least = tuning.search.first_band_rows_per_weight * sample.size
        band = max(_band_at_risk(r, off), ops.kth_smallest(r, min(least, sample.n_rows - 1)))
        if self.blind and not self.thinned:
            band = ops.kth_smallest(r, sample.n_rows - 1)
        expected = n * ops.total(r <= band) / sample.n_rows
        self.guess, self.stride, self.layers = Guess(w, band), 1, ()
        rounds = tuning.search.layered if budget.layered else tuning.search.thinned
        many = expected > budget.overfull * self.kept and self.thinned < rounds
        if many and most is None:
            if budget.layered:
                self.layers = _layers(r, n, band, budget.sample)
            else:
                self.stride = int(np.ceil(expected / budget.sample))
        elif expected > (most or self.kept):
            self.guess = Guess(w, min(band, _band_of(r, n, most or self.kept)))

    @property
    def plan(self) -> PartitionPlan:
        """The partition to be made, with some more rows than expected."""
        return PartitionPlan(*self.guess, self.stride, 8 * self.kept, self.layers)

    def enter(self, partition: Partition | TooManyRows) -> None:
        """Start with a partition at the guess, or improve the guess from a partial one."""
        if isinstance(partition, TooManyRows):
            self.guess = Guess(self.guess.w, self.guess.band * self.kept / partition.n_rows)
        elif self.stride > 1 or self.layers:
            self._refine(partition)
        else:
            self.partition = partition
            self.inner = Guess(self.guess.w, 0.5 * self.guess.band)

    def _refine(self, partition: Partition) -> None:
        """Improve the guess from a partition with only a part of the rows in its band.

        The rows outside the band are exact: so the error is smaller than that of the sample by the
        share of rows in the band. In layers only rows that change side cause an error, each with
        its weight.
        """
        self.thinned += 1
        before, model, tuning = self.guess.w, partition.model, self.settings.tuning
        if self.layers:
            # Costs differ too much for the stopping rule of the smoothed method.
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
            self.noise = max(ops.dot(model.costs * turned, model.costs), model.size) ** 0.5
        else:
            share = partition.n_near / self.settings.problem.n
            self.noise = share * max(model.n_rows, 1) ** -0.5
        self._guess_at(self.sample, w, before, min(self.noise / former, 0.5))

    @property
    def max_crossed(self) -> int:
        """Largest number of rows on a wrong linear piece that is gathered."""
        assert self.partition is not None
        return max(2 * self.partition.model.n_rows, self.settings.tuning.search.crossed)

    def propose(self) -> Candidate:
        """Solve the partition's model; return a point and multipliers for all rows."""
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
        # Rounding may have moved them out of [0, 1].
        shares = ops.namespace(found.alpha).clip(found.alpha / model.costs, 0.0, 1.0)
        return Candidate(found.w, problem.multipliers(pieces, positions, shares))

    def learn(self, bounds: Bounds, done: bool) -> None:
        """Finish, correct the partition, or drop it for a wider one, by the certified bounds."""
        assert self.partition is not None
        if done:
            self.done, self.partition = True, None  # frees its rows
            return
        model, rows = self.partition.model, self.settings.tuning.search.crossed
        crossed: GatheredRows | None = bounds.watched
        crossed = None if crossed is None else rows_outside(self.partition, crossed)
        if crossed is not None and len(crossed.costs) <= max(model.n_rows, rows):
            self.partition = add_rows(self.partition, crossed)
            narrow = 0.0 if len(crossed.costs) < 0.05 * model.n_rows else 0.5
            self.inner = Guess(self.point, narrow * self.guess.band)
        else:
            self._recentre(bounds.primal < self.partition.value)

    def _recentre(self, improved: bool) -> None:
        """Partition next at the better point, as wide as the last move, within twice the rows.

        A budget of few rows grows to the usual one. Where passes are cheap, the next partitions
        gather a part of the rows again.
        """
        sample, w = self.sample, self.point if improved else self.guess.w
        if self._may_resample(w):
            self.partition, self.thinned, self.guessed = None, 1, self.guessed + 1
            self.risk *= 2.0
            self._guess_at(sample, w, self.guess.w if improved else self.point, 0.5)
            return
        least = self.settings.tuning.search.kept
        self.kept = max(2 * self.kept, min(8 * self.kept, least))
        moved = abs(sample.margins(self.point - self.guess.w))
        wide = ops.kth_smallest(moved, int(0.9 * sample.n_rows))
        widest = _band_of(sample.residuals(w), self.settings.problem.n, self.kept)
        self.guess = Guess(w, max(2.0 * self.guess.band, min(wide, widest)))
        self.partition, self.stride, self.layers = None, 1, ()

    def _may_resample(self, w: Host) -> bool:
        """Return whether to sample rows again: enough of them must violate their margin at w."""
        sample, rules = self.sample, self.settings.tuning.search
        informative = ops.total(sample.residuals(w) > 0) >= rules.blind * sample.size
        return self.settings.budget.serial and self.guessed < rules.guessed and informative


def _layers(r: Array, n: int, band: float, wanted: int) -> tuple[tuple[float, int], ...]:
    """Return layers up to a band, with about `wanted` rows in all and equally many from each.

    By the residuals of a sample; each layer holds four times as many rows as all within it.
    """
    m, layers, inside = int(r.shape[0]), [], 0.0
    counts = [wanted / LAYERS * 5.0**k for k in range(LAYERS)]
    for k, count in enumerate(counts):
        rank = int(m * count / n)
        outer = band if rank >= m or k == LAYERS - 1 else min(band, ops.kth_smallest(r, rank))
        rows = n * ops.total(r <= outer) / m
        layers.append((outer, max(1, round((rows - inside) * LAYERS / wanted))))
        inside = rows
        if outer >= band:
            break
    return tuple(layers)


def _part_rows(sample: Model, budget: SearchBudget, tuning: Tuning) -> int:
    """Return the rows of the part of a sample that estimates its error."""
    few, m = pilot_rows(sample.size, tuning), sample.n_rows
    return max(m // tuning.search.first_part, min(few, m // 2)) if budget.layered else few


def _open_band(sample: Model, w: Host, part: int) -> float:
    """Return the band of the rows whose side is undecided by a guess from `part` rows."""
    m = sample.n_rows
    return ops.kth_smallest(abs(sample.residuals(w)), int(open_share(sample.size, part) * m))


def _two_guesses(
    sample: Model, part_rows: int, budget: SearchBudget, tuning: Tuning
) -> tuple[Host, Host]:
    """Return the guesses of a sample and of a part of it."""
    enough = resolved(sample.size, tuning)
    if budget.layered:
        part = subsample(sample, part_rows)
        before = part.feasible(approach(part, pilot(part, tuning), enough, tuning.smoothing).w)
        first = Guess(before, _open_band(sample, before, part_rows))
    else:
        first = pilot(sample, tuning)
    return sample.feasible(approach(sample, first, enough, tuning.smoothing).w), first.w


def _band_at_risk(r: Array, off: Array) -> float:
    """Return the band of the rows that may change side, without the outermost hundredth."""
    at_risk = ops.take(r, ops.nonzero(r <= off))  # faster than a selection among all rows
    m = int(at_risk.shape[0])
    return ops.kth_smallest(at_risk, m - 1 - int(0.01 * m)) if m else 0.0


def _band_of(r: Array, n: int, rows: int) -> float:
    """Return the band with about `rows` of n rows, by the residuals of a sample."""
    m = int(r.shape[0])
    return ops.kth_smallest(abs(r), min(m - 1, m * rows // n))


# --------------------------------------------------------------------------------------------------
# Rounds of all searches, which share their passes.


def search_rows(
    certifier: Certifier,
    passes: ScorePasses,
    balls: Sequence[int],
    max_iter: int | None = None,
    tuning: Tuning = DEFAULT,
    *,
    budget: SearchBudget | None = None,
    guesses: Mapping[int, Guess] | None = None,
    find_separating: Callable[[int], bool] | None = None,
) -> dict[int, int]:
    """Propose candidates for these balls until the certifier is satisfied; return the steps.

    `budget` and `guesses`, by ball, replace the defaults. Where a sample is separable,
    `find_separating` is called first; where it succeeds there is nothing to search.
    """
    problem = certifier.problem
    budget = budget or SearchBudget.of(problem, tuning.search)
    settings = SearchSettings(problem, budget, certifier.tol, max_iter, tuning)
    searches = _begin(certifier, balls, settings, guesses or {})
    for search in searches:
        if search.separable and find_separating is not None:
            search.done = find_separating(search.k)
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
    """Return a search for each ball.

    The shared sample is freed before rows are gathered, which bounds the extra memory by a quarter
    of S.
    """
    problem, budget = settings.problem, settings.budget
    sample = Model.of_rows(problem, problem.draw(budget.sample), problem.ball)
    # The small sample on a device is too inaccurate to follow from p to p: for nine p with
    # anomalies 28 partitions were needed that way, and 6 without.
    if len(balls) > 1 and not guesses and not budget.serial:
        return _begin_along_p(certifier, balls, settings, sample)
    return budget.each(
        lambda k: Search(k, replace(sample, ball=certifier.balls[k]), settings, guesses.get(k)),
        list(balls),
    )


def _begin_along_p(
    certifier: Certifier, balls: Sequence[int], settings: SearchSettings, sample: Model
) -> list[Search]:
    """Return a search for each ball in ascending p, each guess from the previous one.

    Where the sample's optimum lies inside a ball, the searches of all larger balls wait for it.
    """
    searches: list[Search] = []
    sample_paths: list[SamplePath] = []
    leader: Search | None = None
    for k in sorted(balls, key=lambda k: certifier.balls[k].p):
        model = replace(sample, ball=certifier.balls[k])
        if sample_paths and all(sample_path.follow(model.ball) for sample_path in sample_paths):
            if leader is None:
                search = Search(k, model, settings, near=(sample_paths[0].w, sample_paths[1].w))
            else:
                search = Search(k, model, settings, leader.guess)
                search.leader = leader
        else:
            search, leader = Search(k, model, settings), None
            sample_paths = search.sample_paths(model)
        searches.append(search)
        if leader is None and sample_paths[0].inside:
            leader = search
    return searches


def _round(
    certifier: Certifier, passes: ScorePasses, searches: Sequence[Search], budget: SearchBudget
) -> None:
    """Run one round: each pass serves all searches that need one."""
    fresh = [search for search in searches if search.wants_rows]
    if fresh:
        parts = passes.partition([s.plan for s in fresh], [s.sample.ball for s in fresh])
        budget.each(lambda pair: pair[0].enter(pair[1]), list(zip(fresh, parts, strict=True)))
    active = [search for search in searches if search.partition is not None]
    if active:
        proposed = budget.each(Search.propose, active)
        # The certifying pass also finds the rows on a wrong linear piece.
        terms = certifier.problem.terms
        watch = {search.k: watch_crossings(terms, search.max_crossed) for search in active}
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
            search.update_follower(search.k in candidates and certifier.within(search.k))


def search_many_rows(certifier: Certifier, max_iter: int | None, tuning: Tuning) -> list[Outcome]:
    """Solve each ball: weights without violations where a quick check finds them, else a search."""
    problem, passes = certifier.problem, ScorePasses(certifier.problem)
    sources = [CertifiedRows(certifier, k, tuning) for k in range(len(certifier.balls))]
    points = [source.separating_point(thorough=False) for source in sources]
    searched = [k for k, point in enumerate(points) if point is None]

    def find_separating(k: int) -> bool:
        points[k] = sources[k].separating_point(thorough=True)
        return points[k] is not None

    steps: dict[int, int] = {}
    if searched:
        steps = search_rows(
            certifier, passes, searched, max_iter, tuning, find_separating=find_separating
        )
    for k in searched:  # many points reach f* = 0
        if points[k] is None and certifier.value(k) <= certifier.tol * problem.scale:
            find_separating(k)
    for k, point in enumerate(points):
        if point is not None:
            with sources[k].counting():
                certifier.prefer(k, point)
    return [
        Outcome(max(steps.get(source.k, 1), 1), own_passes=source.own_passes) for source in sources
    ]


class CertifiedRows:
    """A `tie_break.RowSource` whose rows the certifier reads."""

    def __init__(self, certifier: Certifier, k: int, tuning: Tuning) -> None:
        self.certifier, self.k, self.tuning = certifier, k, tuning
        self.problem, self.ball = certifier.problem, certifier.balls[k]
        self.R, self.free = self.problem.R, int(self.problem.fit_intercept)
        self.total_cost = self.problem.total_cost
        self.own_passes = 0.0

    def separating_point(self, *, thorough: bool) -> Host | None:
        """Return the weights without violations nearest to uniform; None if not found."""
        if not thorough:  # check a few rows before a pass
            uniform = np.append(self.ball.preferred(self.R), np.zeros(self.free))
            some = self.problem.some_rows()
            if ops.total(some.c * self.problem.terms.residuals(some, uniform) > 0):
                return None
        with self.counting():
            return nearest_to_uniform(self, self.ball, thorough=thorough, tuning=self.tuning)

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the passes made meanwhile as those of this ball alone."""
        before = self.problem.passes
        yield
        self.own_passes += self.problem.passes - before

    def violations(self, point: Host, most: int) -> Violations:
        """Return the value of a point, and the rows that violate their margin most there."""
        watch = watch_violations(self.problem.terms, point, most)
        bounds = self.certifier.examine({self.k: Candidate(point)}, {self.k: watch})[self.k]
        count, rows = bounds.watched
        return Violations(bounds.primal, count, rows)

    def class_score_range(self, point: Host) -> tuple[float, float]:
        """Return the lowest normal and the highest anomalous fused score, without b."""
        return class_score_range(self.problem, point)

    def sample(self) -> Host | None:
        """Return rows drawn evenly over the costs."""
        block = self.problem.draw(self.tuning.search.in_memory)
        return ops.to_host(self.problem.terms.signed_rows(block.S, block.y))
