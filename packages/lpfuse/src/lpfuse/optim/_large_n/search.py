"""Sample → partition → solve → verify: the certified solver for more rows than one would copy.

A sample gives a guess. One pass over the scores at the guess replaces the hinge of every row that
is clear of its kink by a linear piece and gathers the other rows; their model is solved in memory;
the certifier reads all rows once more and decides. Several searches, one for each p of a grid,
share their passes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from lpfuse.optim._large_n.budget import PassBudget
from lpfuse.optim._large_n.gathered import crossings
from lpfuse.optim._large_n.one_ball import Search, SearchSettings
from lpfuse.optim._large_n.passes import ScorePasses
from lpfuse.optim._results import Candidate
from lpfuse.optim._solvers.along_p import Trail
from lpfuse.optim._solvers.model import Guess, Model
from lpfuse.optim._tuning import DEFAULT, Tuning
from lpfuse.optim.certificate import Certifier


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
