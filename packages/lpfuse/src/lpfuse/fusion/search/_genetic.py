"""Weights by a genetic algorithm, that of pygad."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from lpfuse._arrays.operations import Host
from lpfuse._checks.arguments import check_count
from lpfuse._saved import saved_as
from lpfuse.fusion.search._base import PopulationSearch, first_candidates, on_simplex, two_stages
from lpfuse.fusion.search._fitness import Fitness


@saved_as("GeneticWeights")
class GeneticWeights(PopulationSearch):
    """Fuse by a weighted mean whose weights are found by a genetic algorithm.

    The weights, not negative and of sum 1, maximise a fitness: with anomalies the area under the
    ROC curve, without them the separation of the normal rows from a reference outlier (see
    `Fitness`). A first search runs over all detectors; those that it gives less than `prune` times
    the even weight ``1/R`` are dropped, and a second one shares the weights out among the rest.

    Parameters
    ----------
    population_size : int, default=40
        Candidates alive at a time. The first ones are the even weights and each detector alone, so
        a search never ends below these, as far as they have room.
    generations : int, default=50
        Generations of a search.
    prune : float in [0, 1], default=0.5
        Share of the even weight below which a detector is dropped after the first search; 0 keeps
        all of them.
    random_state : int, RandomState or None, default=None
        Seeds the search. None takes a seed from NumPy's global state.

    Attributes
    ----------
    weights_ : ndarray of shape (R,)
        The weight of each detector: ≥ 0, of sum 1, 0 for those that were dropped and for those
        without spread (unless no detector has any: then all weigh the same).
    fitness_ : float
        The fitness of the weights.
    offset_ : float
        Scores from here on count as normal: 0, the middle of signed scores.
    n_features_in_ : int
        Number of detectors R.
    feature_names_in_ : ndarray of shape (R,)
        Names of the detectors, when `S` had them.

    Notes
    -----
    In the style of Fatemifar et al.: the weighted mean, the genetic search and the pruning stage
    are theirs; the fitness and the settings are our own. Needs pygad 3.8 or later, whose searches
    have random states of their own: ``pip install "lpfuse[search]"``.

    Candidates are crossed uniformly and mutated by steps of up to ``1/R``; parents win tournaments;
    the best two candidates survive. There is no proof that the weights are near the best ones;
    `LpFusion` has one, and `ExhaustiveWeights` tries them all.

    References
    ----------
    S. Fatemifar, M. Awais, A. Akbari and J. Kittler, "Developing a generic framework for anomaly
    detection", Pattern Recognition 124, 108500, 2022.

    S. Fatemifar, S. Asadi, M. Awais, A. Akbari and J. Kittler, "Face spoofing detection ensemble
    via multistage optimisation and pruning", Pattern Recognition Letters 158, 1-8, 2022.

    Examples
    --------
    >>> from lpfuse.fusion.search import GeneticWeights
    >>> S = [[0.9, 0.2], [0.8, -0.4], [-0.7, 0.3], [-0.9, -0.2]]
    >>> fusion = GeneticWeights(random_state=0).fit(S, [1, 1, -1, -1])
    >>> fusion.weights_
    array([1., 0.])
    """

    def __init__(
        self,
        population_size: int = 40,
        generations: int = 50,
        prune: float = 0.5,
        random_state: Any = None,
    ) -> None:
        self.population_size = population_size
        self.generations = generations
        self.prune = prune
        self.random_state = random_state

    def _search(self, fitness: Fitness) -> Host:
        random_state = check_random_state(self.random_state)

        def explore(fitness: Fitness, start: Host) -> Host:
            population = first_candidates(start, self.population_size, random_state)
            return _evolve(fitness, population, self.generations, random_state)

        return two_stages(explore, fitness, self.prune)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_count("generations", self.generations)
        _pygad()  # a missing package is told before anything is computed


def _evolve(fitness: Fitness, population: Host, generations: int, random_state: Any) -> Host:
    """The fittest weights after some generations; candidates are rows of `population`."""
    size, R = population.shape

    def fitness_of(_search: Any, candidates: Any, _indices: Any) -> Host:
        return fitness(on_simplex(np.asarray(candidates)))

    # Our own settings, with no study behind them: half of the candidates are parents; a step of 1/R
    # can put out a detector that has the even weight, or double it; every candidate is expected to
    # change in at least one weight.
    search = _pygad().GA(
        initial_population=population,
        num_generations=generations,
        num_parents_mating=max(2, size // 2),
        fitness_func=fitness_of,
        fitness_batch_size=size,
        parent_selection_type="tournament",
        keep_elitism=2,
        crossover_type="uniform",
        mutation_type="random",
        mutation_probability=max(0.25, 1 / R),
        random_mutation_min_val=-1 / R,
        random_mutation_max_val=1 / R,
        random_seed=int(random_state.randint(2**31 - 1)),
        suppress_warnings=True,
    )
    search.run()
    last = on_simplex(np.asarray(search.population, dtype=np.float64))
    return last[np.argmax(fitness(last))]


def _pygad() -> Any:
    try:
        import pygad
    except ImportError as error:
        raise ImportError(
            'GeneticWeights searches with pygad. Install it: pip install "lpfuse[search]"'
        ) from error
    return pygad
