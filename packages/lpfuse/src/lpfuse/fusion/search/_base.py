"""What searches share: weights on the simplex, and for populations a search in two stages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse._arrays.threads import one_blas_thread
from lpfuse._base import WeightedSum
from lpfuse._checks.arguments import check_count, check_number
from lpfuse._checks.tables import remember_columns
from lpfuse.fusion._scores import labelled_scores
from lpfuse.fusion.search._fitness import Fitness


class SearchedWeights(WeightedSum):
    """The weights of the highest fitness that `_search` finds among detectors with any spread."""

    fitness_: float

    def fit(self, S: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Search for the weights.

        Parameters
        ----------
        S : array-like of shape (n, R)
            Scores, high = normal.
        y : array-like of shape (n,), optional
            +1 normal, −1 anomaly. Without it all rows are normal.
        sample_weight : array-like of shape (n,), optional
            How much each row counts in the fitness.

        Returns
        -------
        self
            The fitted estimator.
        """
        self._check_parameters()
        classes = labelled_scores(S, y, sample_weight, warn=True).by_class()
        with one_blas_thread:  # products are small, and round the same way on any number of cores
            fitness = Fitness(*classes)
            # A detector without spread cannot change the order of the rows: it is left out of the
            # search, where every further dimension costs candidates.
            members = fitness.members
            weights = np.full(fitness.size, 0.0 if members.size else 1 / fitness.size)
            if members.size:
                weights[members] = self._search(fitness.among(members))
            reached = float(fitness(weights[None])[0])
        self.weights_ = weights
        self.fitness_ = reached
        self.offset_ = 0.0
        remember_columns(self, S)
        return self

    def _search(self, fitness: Fitness) -> Host:
        """The best weights found, of shape (R,)."""
        raise NotImplementedError

    def _check_parameters(self) -> None:
        raise NotImplementedError


class PopulationSearch(SearchedWeights):
    """A search by many candidates at a time: the parameters that such searches share."""

    population_size: int
    prune: float
    random_state: Any

    def _check_parameters(self) -> None:
        check_count("population_size", self.population_size)
        if self.population_size < 2:
            raise ValueError(
                "population_size must be at least 2: a single candidate has no other to cross with."
            )
        check_number(
            "prune", self.prune, at_least=0, at_most=1, hint="Use 0 to keep all detectors."
        )


def two_stages(explore: Callable[[Fitness, Host], Host], fitness: Fitness, prune: float) -> Host:
    """The best weights of a search, after a second one among the detectors that it trusts.

    Parameters
    ----------
    explore : callable
        From a fitness of R detectors, and weights of shape (R,) to start from, to the best weights
        that one search finds.
    fitness : Fitness
        Of R detectors, all with some spread.
    prune : float in [0, 1]
        A detector to which the first search gives less than ``prune / R`` is left out of the
        second one.

    Returns
    -------
    ndarray of shape (R,)
        Weights ≥ 0 of sum 1.
    """
    R = fitness.size
    if R == 1:
        return np.ones(1)
    weights = explore(fitness, np.full(R, 1 / R))
    kept = weights >= min(prune / R, weights.max())  # rounding must not drop all
    if kept.all() or kept.sum() == 1:
        return on_simplex(weights * kept)
    start = on_simplex(weights[kept])
    weights = np.zeros(R)
    weights[kept] = explore(fitness.among(kept), start)
    return weights


def first_candidates(start: Host, size: int, random_state: Any) -> Host:
    """The start, each detector alone, and random weights: the first `size` of these, as rows.

    So no search ends below the start or, where they have room, below a single detector.
    """
    # More are drawn than there is room for: drawing fewer would change the results of every seed.
    anywhere = random_state.dirichlet(np.ones_like(start), size=size)
    return np.vstack([start, np.eye(len(start)), anywhere])[:size]


def on_simplex(weights: Host) -> Host:
    """Candidates without negative entries, of sum 1; the even weights where nothing is left."""
    weights = weights.clip(min=0.0)
    total = weights.sum(axis=-1, keepdims=True)
    even = np.full_like(weights, 1 / weights.shape[-1])
    return np.divide(weights, total, out=even, where=total > 0)
