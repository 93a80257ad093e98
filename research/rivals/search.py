"""Weights found by search: genetic algorithm, particle swarm, and a grid over the simplex.

All three maximise the same `Fitness` over nonnegative weights that sum to 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import combinations, islice
from math import comb
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from lpfuse._arrays.operations import Host, one_blas_thread
from lpfuse._base import WeightedSum
from lpfuse._validation.params import check_count, check_number
from lpfuse._validation.tables import is_constant, record_columns
from lpfuse.fusion.lp import labelled_scores
from research.rivals.by_class import WeightedScores, by_class

__all__ = ["ExhaustiveWeights", "GeneticWeights", "SwarmWeights"]


# --------------------------------------------------------------------------------------------------
# The objective: the area under the ROC curve, or a separation without labels


# The separation is at most 1, and one pair of rows that changes sides moves the AUC of m pairs by
# 1/m, a tie by half that: up to half a million pairs the separation decides among equals only.
TIE_BREAK = 1e-6
# Chosen by hand, as the default rate of false alarms: there is no study behind it.
REFERENCE_SHARE = 0.05
BATCH_NUMBERS = 2**20  # fused scores in memory at a time: 8 MB, whatever the number of candidates


class Fitness:
    r"""Objective of a search, to be maximised; invariant to multiples of the weights.

    With anomalies it is the area under the ROC curve of the fused score, and among weights with the
    same area the separation decides:

    .. math::

        \mathrm{AUC}(w) + 10^{-6} \, \mathrm{sep}(w), \qquad
        \mathrm{sep}(w) = \frac{\Delta}{\sqrt{\Delta^2 + 2 (v_+ + v_-)}}

    where ``Δ`` is the difference between the mean fused scores of the two classes and ``v±`` are
    their variances: the correlation of score and label if both classes were equally large. Without
    anomalies it is the separation of the normal rows from one reference outlier, to which every
    detector gives the 5 % quantile of its own normal scores. Detectors are measured relative to
    their spread: a constant one has separation 0, and detectors with uncorrelated errors gain by
    being combined.

    Parameters
    ----------
    normal : WeightedScores
        Scores and sample weights of the normal rows.
    anomalies : WeightedScores, or None
        Those of the anomalies.

    Attributes
    ----------
    members : ndarray of int
        Detectors with any spread: the others do not change the order of the rows.
    """

    def __init__(self, normal: WeightedScores, anomalies: WeightedScores | None) -> None:
        tables = [rows.scores for rows in (normal, anomalies) if rows is not None]
        low, high = (
            pick([pick(table, axis=0) for table in tables], axis=0) for pick in (np.min, np.max)
        )
        self.members = np.flatnonzero(~is_constant(low, high))
        scale = max(np.abs(low).max(), np.abs(high).max()) or 1.0

        def standard(rows: WeightedScores) -> WeightedScores:
            """Rescale so that squares neither overflow nor vanish; constant columns become 0."""
            return rows._replace(scores=rows.scores / scale - low / scale)

        self.normal = standard(normal)
        self.anomalies = None if anomalies is None else standard(anomalies)
        if self.anomalies is None:
            reference = self.normal.lower_quantile(REFERENCE_SHARE)
            self.difference = self.normal.mean - reference
            self.covariance = _covariance(self.normal)
        else:
            self.difference = self.normal.mean - self.anomalies.mean
            self.covariance = _covariance(self.normal) + _covariance(self.anomalies)

    def __call__(self, weights: Host) -> Host:
        """Return the fitness of each candidate.

        Parameters
        ----------
        weights : ndarray of shape (k, R)
            Candidates.

        Returns
        -------
        ndarray of shape (k,)
            Their fitness.
        """
        separation = self._separation(weights)
        return separation if self.anomalies is None else self._auc(weights) + TIE_BREAK * separation

    @property
    def size(self) -> int:
        """Number of detectors R."""
        return len(self.difference)

    def restricted_to(self, members: NDArray[Any]) -> Fitness:
        """Return the fitness of weights of these detectors only."""

        def narrowed(rows: WeightedScores) -> WeightedScores:
            return rows._replace(scores=rows.scores[:, members])

        anomalies = None if self.anomalies is None else narrowed(self.anomalies)
        return Fitness(narrowed(self.normal), anomalies)

    def _separation(self, weights: Host) -> Host:
        difference = weights @ self.difference
        variance = np.einsum("kr,kr->k", weights @ self.covariance, weights)
        spread = np.sqrt(difference**2 + 2 * variance.clip(min=0.0))
        return np.divide(difference, spread, out=np.zeros_like(spread), where=spread > 0)

    def _auc(self, weights: Host) -> Host:
        normal, anomalies = self.normal, self.anomalies
        assert anomalies is not None
        size = max(1, BATCH_NUMBERS // (len(normal.scores) + len(anomalies.scores)))
        batches = (weights[start : start + size] for start in range(0, len(weights), size))
        return np.array(
            [
                _auc(high, normal.sample_weight, low, anomalies.sample_weight)
                for batch in batches
                for high, low in zip(
                    batch @ normal.scores.T, batch @ anomalies.scores.T, strict=True
                )
            ]
        )


def _covariance(rows: WeightedScores) -> Host:
    centred = rows.scores - rows.mean
    return (centred.T * (rows.sample_weight / rows.sample_weight.sum())) @ centred


def _auc(high: Host, high_weight: Host, low: Host, low_weight: Host) -> float:
    """Return the share of pairs in which `high` is above `low`; a tie is half a pair."""
    order = np.argsort(high)
    passed = np.append(0.0, np.cumsum(high_weight[order]))
    high = high[order]
    below, not_above = (passed[np.searchsorted(high, low, side)] for side in ("left", "right"))
    won = 2 * passed[-1] - below - not_above
    return float(low_weight @ won / (2 * passed[-1] * low_weight.sum()))


# --------------------------------------------------------------------------------------------------
# Base classes, and the two-stage search of populations


class SearchedWeights(WeightedSum):
    """Base of searches: the fittest weights of the detectors with any spread."""

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
        classes = by_class(labelled_scores(S, y, sample_weight, warn=True))
        with one_blas_thread:  # small products, which then round alike on any number of cores
            fitness = Fitness(*classes)
            # A detector without spread cannot change the order of the rows, and every dimension of
            # the search costs candidates.
            members = fitness.members
            weights = np.full(fitness.size, 0.0 if members.size else 1 / fitness.size)
            if members.size:
                weights[members] = self._search(fitness.restricted_to(members))
            reached = float(fitness(weights[None])[0])
        self.weights_ = weights
        self.fitness_ = reached
        self.offset_ = 0.0
        record_columns(self, S)
        return self

    def _search(self, fitness: Fitness) -> Host:
        """Return the best weights found, of shape (R,)."""
        raise NotImplementedError

    def _check_parameters(self) -> None:
        raise NotImplementedError


class PopulationSearch(SearchedWeights):
    """Base of searches with a population of candidates."""

    population_size: int
    prune: float
    random_state: Any

    def _check_parameters(self) -> None:
        check_count("population_size", self.population_size)
        if self.population_size < 2:
            raise ValueError(f"population_size must be at least 2, got {self.population_size}.")
        check_number(
            "prune", self.prune, at_least=0, at_most=1, hint="Use 0 to keep all detectors."
        )


def two_stage_search(
    explore: Callable[[Fitness, Host], Host], fitness: Fitness, prune: float
) -> Host:
    """Search twice, the second time without the detectors that got little weight.

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
        return normalise_to_simplex(weights * kept)
    start = normalise_to_simplex(weights[kept])
    weights = np.zeros(R)
    weights[kept] = explore(fitness.restricted_to(kept), start)
    return weights


def initial_candidates(start: Host, size: int, random_state: Any) -> Host:
    """Return the first `size` of: the start, each detector alone, random weights.

    No search then ends below the start or, if `size` permits, below a single detector.
    """
    # Always `size` random draws: drawing fewer would change the results of every seed.
    anywhere = random_state.dirichlet(np.ones_like(start), size=size)
    return np.vstack([start, np.eye(len(start)), anywhere])[:size]


def normalise_to_simplex(weights: Host) -> Host:
    """Clip negative entries and rescale to sum 1; uniform weights if all are 0."""
    weights = weights.clip(min=0.0)
    total = weights.sum(axis=-1, keepdims=True)
    even = np.full_like(weights, 1 / weights.shape[-1])
    return np.divide(weights, total, out=even, where=total > 0)


# --------------------------------------------------------------------------------------------------
# Grid search over the simplex


MAX_CANDIDATES = 100_000  # a larger grid is refused
BATCH = 4096  # candidates in memory at a time, so that the overhead of a call is small


class ExhaustiveWeights(SearchedWeights):
    """Fuse by the best weighted mean with weights on a grid of step ``1/steps``.

    The weights, not negative and of sum 1, maximise a fitness: with anomalies the area under the
    ROC curve, without them the separation of the normal rows from a reference outlier (see
    `Fitness`). All ``C(steps + R − 1, R − 1)`` candidates, at most 100,000, are
    tried; ties go to the most even one.

    Parameters
    ----------
    steps : int, default=10
        Weights are multiples of ``1/steps``.

    Attributes
    ----------
    weights_ : ndarray of shape (R,)
        The weight of each detector: ≥ 0, of sum 1, 0 for those without spread (unless no detector
        has any: then all weigh the same).
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
    In the style of Bergamini et al., who search exhaustively for the weights of a sum of one-class
    support vector machines; the fitness is our own.

    References
    ----------
    C. Bergamini, L. S. Oliveira, A. L. Koerich and R. Sabourin, "Combining different biometric
    traits with one-class classification", Signal Processing 89(11), 2117-2127, 2009.

    Examples
    --------
    >>> from research.rivals.search import ExhaustiveWeights
    >>> S = [[0.9, 0.2], [0.8, -0.4], [-0.7, 0.3], [-0.9, -0.2]]
    >>> ExhaustiveWeights(steps=4).fit(S, [1, 1, -1, -1]).weights_
    array([1., 0.])
    >>> ExhaustiveWeights().fit([[1.0, -1.0], [-1.0, 1.0], [0.5, 0.5], [0.2, 0.1]]).weights_
    array([0.5, 0.5])
    """

    def __init__(self, steps: int = 10) -> None:
        self.steps = steps

    def _search(self, fitness: Fitness) -> Host:
        R = fitness.size
        count = comb(self.steps + R - 1, R - 1)
        if count > MAX_CANDIDATES:
            raise ValueError(
                f"A grid of steps of 1/{self.steps} over {R} detectors has {count:,} candidates, "
                f"more than {MAX_CANDIDATES:,}. Use fewer steps or fewer detectors, or let "
                "SwarmWeights search without a grid."
            )
        return best_candidate(fitness, simplex_grid(R, self.steps))

    def _check_parameters(self) -> None:
        check_count("steps", self.steps)


def best_candidate(fitness: Fitness, batches: Iterable[Host]) -> Host:
    """Return the fittest row of all batches; the most even one of ties."""
    return max((_best(fitness, batch) for batch in batches), key=lambda found: found[:2])[2]


def _best(fitness: Fitness, candidates: Host) -> tuple[float, float, Host]:
    """Return fitness, evenness and weights of the best candidate of a batch."""
    # Equally good candidates may differ by rounding, some 1e-16 a term. 12 digits are unaffected,
    # and finer than the tie-break of the fitness.
    reached = fitness(candidates).round(12)
    evenness = -np.square(candidates).sum(axis=1).round(12)
    best = np.lexsort((evenness, reached))[-1]
    return float(reached[best]), float(evenness[best]), candidates[best]


def simplex_grid(R: int, steps: int, size: int = BATCH) -> Iterator[Host]:
    """Yield all weights of R detectors that are multiples of ``1/steps`` and sum to 1, in batches.

    Stars and bars: R − 1 bars among ``steps + R − 1`` places separate the stars of each detector.
    """
    places = steps + R - 1
    bars = combinations(range(places), R - 1)
    while batch := list(islice(bars, size)):
        edges = np.array(batch).reshape(len(batch), R - 1)
        yield (np.diff(edges, prepend=-1, append=places, axis=1) - 1) / steps


# --------------------------------------------------------------------------------------------------
# Genetic algorithm, by pygad


class GeneticWeights(PopulationSearch):
    """Fuse by a weighted mean whose weights are found by a genetic algorithm.

    The weights, not negative and of sum 1, maximise a fitness: with anomalies the area under the
    ROC curve, without them the separation of the normal rows from a reference outlier (see
    `Fitness`). A first search runs over all detectors; those with less than `prune` times the
    uniform weight ``1/R`` are dropped, and a second search runs over the rest.

    Parameters
    ----------
    population_size : int, default=40
        Candidates of a generation. The first ones are the uniform weights and each detector alone,
        so a search never ends below these, if the size permits.
    generations : int, default=50
        Number of generations of a search.
    prune : float in [0, 1], default=0.5
        Share of the uniform weight below which a detector is dropped after the first search; 0
        keeps all of them.
    random_state : int, RandomState or None, default=None
        Seeds the search.

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
    have random states of their own: ``pip install -r research/requirements.txt``.

    Candidates are crossed uniformly and mutated by steps of up to ``1/R``; parents win tournaments;
    the best two candidates survive. The result has no certificate of optimality; `LpFusion` has
    one, and `ExhaustiveWeights` evaluates a whole grid.

    References
    ----------
    S. Fatemifar, M. Awais, A. Akbari and J. Kittler, "Developing a generic framework for anomaly
    detection", Pattern Recognition 124, 108500, 2022.

    S. Fatemifar, S. Asadi, M. Awais, A. Akbari and J. Kittler, "Face spoofing detection ensemble
    via multistage optimisation and pruning", Pattern Recognition Letters 158, 1-8, 2022.

    Examples
    --------
    >>> from research.rivals.search import GeneticWeights
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
            population = initial_candidates(start, self.population_size, random_state)
            return _evolve(fitness, population, self.generations, random_state)

        return two_stage_search(explore, fitness, self.prune)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_count("generations", self.generations)
        _import_pygad()  # raise before anything is computed


def _evolve(fitness: Fitness, population: Host, generations: int, random_state: Any) -> Host:
    """Return the fittest weights after `generations`; candidates are rows of `population`."""
    size, R = population.shape

    def fitness_of(_search: Any, candidates: Any, _indices: Any) -> Host:
        return fitness(normalise_to_simplex(np.asarray(candidates)))

    # Settings chosen by hand: half of the candidates are parents; a step of 1/R can remove or
    # double a uniform weight; every candidate is expected to change in at least one weight.
    search = _import_pygad().GA(
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
    last = normalise_to_simplex(np.asarray(search.population, dtype=np.float64))
    return last[np.argmax(fitness(last))]


def _import_pygad() -> Any:
    try:
        import pygad
    except ImportError as error:
        raise ImportError(
            "GeneticWeights searches with pygad. Install it: pip install -r "
            "research/requirements.txt"
        ) from error
    return pygad


# --------------------------------------------------------------------------------------------------
# Particle swarm


# Clerc and Kennedy (2002): with φ = 2 · 2.05 = 4.1 in all, velocities must shrink by
# χ = 2 / (φ − 2 + √(φ² − 4φ)) = 0.7298 for the swarm to converge.
ATTRACTION = 2.05
CONSTRICTION = 0.7298


class SwarmWeights(PopulationSearch):
    r"""Fuse by a weighted mean whose weights are found by particle swarm optimisation.

    The weights, not negative and of sum 1, maximise a fitness: with anomalies the area under the
    ROC curve, without them the separation of the normal rows from a reference outlier (see
    `Fitness`). A particle at ``x`` is attracted to its own best position ``b`` and to the best
    position ``g`` of all:

    .. math::

        v \leftarrow \chi \, (v + \varphi\, u_1 \odot (b - x) + \varphi\, u_2 \odot (g - x)), \qquad
        x \leftarrow x + v

    with fresh uniform ``u₁, u₂``, χ = 0.7298 and φ = 2.05. Negative entries are then set to 0 and
    the sum to 1. A first search runs over all detectors; detectors with less than `prune` times the
    uniform weight ``1/R`` are dropped, and a second search runs over the rest.

    Parameters
    ----------
    population_size : int, default=40
        Number of particles. The first ones start at the uniform weights and at each detector alone,
        so a search never ends below these, if the size permits.
    iterations : int, default=50
        Number of iterations of a search.
    prune : float in [0, 1], default=0.5
        Share of the uniform weight below which a detector is dropped after the first search; 0
        keeps all of them.
    random_state : int, RandomState or None, default=None
        Seeds the search.

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
    In the style of Fatemifar et al., who learn such weights with meta-heuristics; the fitness and
    the settings are our own, the swarm is the one with a constriction factor, in which every
    particle knows the best position of all.

    References
    ----------
    S. Fatemifar, M. Awais, A. Akbari and J. Kittler, "Developing a generic framework for anomaly
    detection", Pattern Recognition 124, 108500, 2022.

    J. Kennedy and R. Eberhart, "Particle swarm optimization", International Conference on Neural
    Networks, 1942-1948, 1995.

    M. Clerc and J. Kennedy, "The particle swarm: explosion, stability, and convergence in a
    multidimensional complex space", IEEE Transactions on Evolutionary Computation 6(1), 58-73,
    2002.

    Examples
    --------
    >>> from research.rivals.search import SwarmWeights
    >>> S = [[0.9, 0.2], [0.8, -0.4], [-0.7, 0.3], [-0.9, -0.2]]
    >>> fusion = SwarmWeights(random_state=0).fit(S, [1, 1, -1, -1])
    >>> fusion.weights_
    array([1., 0.])
    >>> fusion.predict(S)
    array([ 1,  1, -1, -1])
    """

    def __init__(
        self,
        population_size: int = 40,
        iterations: int = 50,
        prune: float = 0.5,
        random_state: Any = None,
    ) -> None:
        self.population_size = population_size
        self.iterations = iterations
        self.prune = prune
        self.random_state = random_state

    def _search(self, fitness: Fitness) -> Host:
        random_state = check_random_state(self.random_state)

        def explore(fitness: Fitness, start: Host) -> Host:
            particles = initial_candidates(start, self.population_size, random_state)
            return swarm(fitness, particles, self.iterations, random_state)

        return two_stage_search(explore, fitness, self.prune)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_count("iterations", self.iterations)


def swarm(fitness: Fitness, particles: Host, iterations: int, random_state: Any) -> Host:
    """Return the best position of any particle.

    Parameters
    ----------
    fitness : Fitness
        Of R detectors.
    particles : ndarray of shape (m, R)
        Initial positions.
    iterations : int
        Number of moves.
    random_state : RandomState
        Draws ``u₁`` and ``u₂``.
    """
    velocities = np.zeros_like(particles)
    best, reached = particles, fitness(particles)
    for _ in range(iterations):
        to_own, to_all = random_state.uniform(size=(2, *particles.shape))
        pull = to_own * (best - particles) + to_all * (best[np.argmax(reached)] - particles)
        velocities = CONSTRICTION * (velocities + ATTRACTION * pull)
        particles = normalise_to_simplex(particles + velocities)
        found = fitness(particles)
        best = np.where((found > reached)[:, None], particles, best)
        reached = np.maximum(found, reached)
    return best[np.argmax(reached)]
