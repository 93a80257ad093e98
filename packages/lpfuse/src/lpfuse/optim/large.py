"""The certified solver for many rows: a quick look, a search for each ball, and the tie-break."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from lpfuse._arrays.operations import (
    Array,
    Host,
    dot,
    kth_smallest,
    namespace,
    nonzero,
    take,
    to_host,
    total,
)
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
# The search over one ball: what to guess, which rows to bring, what to propose.


LAYERS = 5  # of a thinned partition, by hand: each stands for five times as many rows


class SearchSettings(NamedTuple):
    """What all searches of a solve have in common."""

    problem: Problem
    budget: SearchBudget
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
        self.risk, self.guessed = settings.budget.risk, 0
        self.partition: Partition | None = None
        self.done = False
        # Whether next to no row of the sample is short of its margin, so that it tells little of
        # where the others are; and whether none need be.
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
        """From the guesses of sample and pilot to those of the next p."""
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
        """What the leader found is enough, or this search goes its own way once it is done."""
        assert self.leader is not None
        self.done = done
        if not done and self.leader.done:
            self.guess, self.leader = Guess(self.leader.point, self.guess.band), None

    def _begin(self, sample: Model, near: tuple[Host, Host] | None) -> None:
        """Guess from the sample, and from a part of it: how far the part is off tells the rest.

        `near` are both guesses where they are known from a neighbouring p.
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
            # The size of Σ c a over rows whose side is left to chance, in units of one a.
            rising = total(sample.residuals(w) > 0)
            self.noise = max(rising, sample.size) ** 0.5 * n / m
            self.blind = rising < tuning.search.blind * sample.size
            self.separable = self.blind and self._is_separable(sample, w, k)
        self.pilot = before
        self._guess_at(sample, w, before, share, most)

    def _is_separable(self, sample: Model, w: Host, part: int) -> bool:
        """Return whether some weights leave no row of the sample short of its margin."""
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
        """Guess w, whose margins are off by that share of their way from the guess before."""
        n, budget, tuning = self.settings.problem.n, self.settings.budget, self.settings.tuning
        r = abs(sample.residuals(w))
        off = self.risk * share * abs(sample.margins(w - before))
        least = tuning.search.band_rows
        if not self.thinned:
            least = tuning.search.first_band_rows_per_weight * sample.size
        band = max(_band_at_risk(r, off), kth_smallest(r, min(least, sample.n_rows - 1)))
        if self.blind and not self.thinned:
            band = kth_smallest(r, sample.n_rows - 1)
        expected = n * total(r <= band) / sample.n_rows
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
    def max_crossed(self) -> int:
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
        crossed = None if crossed is None else rows_outside(self.partition, crossed)
        if crossed is not None and len(crossed.costs) <= max(model.n_rows, rows):
            self.partition = add_rows(self.partition, crossed)
            narrow = 0.0 if len(crossed.costs) < 0.05 * model.n_rows else 0.5
            self.inner = Guess(self.point, narrow * self.guess.band)
        else:
            self._recentre(bounds.primal < self.partition.value)

    def _recentre(self, improved: bool) -> None:
        """Partition next at the better point, as wide as the last move, within twice the rows.

        A budget of few rows has not been enough: it grows to the usual one. Where passes are cheap,
        the next partitions bring a part of the rows again, and no more of them than before.
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
        wide = kth_smallest(moved, int(0.9 * sample.n_rows))
        widest = _band_of(sample.residuals(w), self.settings.problem.n, self.kept)
        self.guess = Guess(w, max(2.0 * self.guess.band, min(wide, widest)))
        self.partition, self.stride, self.layers = None, 1, ()

    def _may_resample(self, w: Host) -> bool:
        """Return whether a part of the rows serves once more.

        Enough of them must be short of margin at w.

        The error was larger than was thought: from now on twice as much is expected.
        """
        sample, rules = self.sample, self.settings.tuning.search
        told = total(sample.residuals(w) > 0) >= rules.blind * sample.size
        return self.settings.budget.serial and self.guessed < rules.guessed and told


def _layers(r: Array, n: int, band: float, wanted: int) -> tuple[tuple[float, int], ...]:
    """Layers up to a band, by the residuals of a sample: about `wanted` rows, as many from each.

    The innermost has no more rows than that, and each holds four times as many as all within it.
    """
    m, layers, inside = int(r.shape[0]), [], 0.0
    counts = [wanted / LAYERS * 5.0**k for k in range(LAYERS)]
    for k, count in enumerate(counts):
        rank = int(m * count / n)
        outer = band if rank >= m or k == LAYERS - 1 else min(band, kth_smallest(r, rank))
        rows = n * total(r <= outer) / m
        layers.append((outer, max(1, round((rows - inside) * LAYERS / wanted))))
        inside = rows
        if outer >= band:
            break
    return tuple(layers)


def _part_rows(sample: Model, budget: SearchBudget, tuning: Tuning) -> int:
    """Rows of the part of a sample that tells how far the sample is off."""
    few, m = pilot_rows(sample.size, tuning), sample.n_rows
    return max(m // tuning.search.first_part, min(few, m // 2)) if budget.layered else few


def _open_band(sample: Model, w: Host, part: int) -> float:
    """Return the band of the rows whose side a part of so many rows leaves open at its guess."""
    m = sample.n_rows
    return kth_smallest(abs(sample.residuals(w)), int(open_share(sample.size, part) * m))


def _two_guesses(
    sample: Model, part_rows: int, budget: SearchBudget, tuning: Tuning
) -> tuple[Host, Host]:
    """Return the guess of a sample, and that of a part of it."""
    enough = resolved(sample.size, tuning)
    if budget.layered:
        part = subsample(sample, part_rows)
        before = part.feasible(approach(part, pilot(part, tuning), enough, tuning.smoothing).w)
        first = Guess(before, _open_band(sample, before, part_rows))
    else:
        first = pilot(sample, tuning)
    return sample.feasible(approach(sample, first, enough, tuning.smoothing).w), first.w


def _band_at_risk(r: Array, off: Array) -> float:
    """Return the band of the rows that may change side.

    Those with a margin that may be off by more.

    The outermost hundredth of them does not count.
    """
    at_risk = take(r, nonzero(r <= off))  # few of many: a selection among zeros would take longer
    m = int(at_risk.shape[0])
    return kth_smallest(at_risk, m - 1 - int(0.01 * m)) if m else 0.0


def _band_of(r: Array, n: int, rows: int) -> float:
    """Return the band that holds about `rows` of n rows, by the residuals of a sample."""
    m = int(r.shape[0])
    return kth_smallest(abs(r), min(m - 1, m * rows // n))


# --------------------------------------------------------------------------------------------------
# Sample → partition → solve → verify: the certified solver for more rows than one would copy.
#
# A sample gives a guess. One pass over the scores at the guess replaces the hinge of every row that
# is clear of its kink by a linear piece and gathers the other rows; their model is solved in
# memory; the certifier reads all rows once more and decides. Several searches, one for each p of a
# grid, share their passes.


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
    """Propose to the certifier, for these of its balls, until it is satisfied; returns the steps.

    `budget` and `guesses`, by ball, replace what would be chosen by where the rows are and what a
    sample would tell. Where a sample has no error, `find_separating` is asked first: whether it settles
    the ball, for then there is nothing to search.
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

    The sample they share is let go before rows are gathered: so a quarter of S is enough extra
    memory.
    """
    problem, budget = settings.problem, settings.budget
    sample = Model.of_rows(problem, problem.draw(budget.sample), problem.ball)
    # The few rows that are drawn on a device tell too little to follow them from p to p: in a trial
    # of nine p with anomalies 28 partitions were needed that way, and 6 without.
    if len(balls) > 1 and not guesses and not budget.serial:
        return _begin_along_p(certifier, balls, settings, sample)
    return budget.each(
        lambda k: Search(k, replace(sample, ball=certifier.balls[k]), settings, guesses.get(k)),
        list(balls),
    )


def _begin_along_p(
    certifier: Certifier, balls: Sequence[int], settings: SearchSettings, sample: Model
) -> list[Search]:
    """Return a search for each ball, from the smallest p upwards: guesses follow each other.

    Where the sample's optimum lies inside a ball, those of all larger balls wait for this one.
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


# --------------------------------------------------------------------------------------------------


def search_many_rows(certifier: Certifier, max_iter: int | None, tuning: Tuning) -> list[Outcome]:
    """For each ball: weights without any error where a quick look finds them, else a search."""
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
    """Rows that the certifier reads for the tie-break over one ball, see `tie_break.RowSource`."""

    def __init__(self, certifier: Certifier, k: int, tuning: Tuning) -> None:
        self.certifier, self.k, self.tuning = certifier, k, tuning
        self.problem, self.ball = certifier.problem, certifier.balls[k]
        self.R, self.free = self.problem.R, int(self.problem.fit_intercept)
        self.total_cost = self.problem.total_cost
        self.own_passes = 0.0

    def separating_point(self, *, thorough: bool) -> Host | None:
        """Return the weights without any error that are nearest to uniform, if they are found."""
        if not thorough:  # a few rows are asked before a pass is spent
            uniform = np.append(self.ball.preferred(self.R), np.zeros(self.free))
            some = self.problem.some_rows()
            if total(some.c * self.problem.terms.residuals(some, uniform) > 0):
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
        """The lowest fused score of a normal row and the highest of an anomaly, without b."""
        return class_score_range(self.problem, point)

    def sample(self) -> Host | None:
        """Rows drawn evenly over the costs."""
        block = self.problem.draw(self.tuning.search.in_memory)
        return to_host(self.problem.terms.signed_rows(block.S, block.y))
