"""Weights found by trial: genetic search, particle swarm, and a grid over the simplex.

All three maximise the same `Fitness` over weights that are not negative and sum to 1.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations, islice
from math import comb
from threading import Lock
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from lpfuse._arrays import Host, one_blas_thread
from lpfuse._checks.data import (
    check_scores,
    column_names,
    no_spread,
    remember_columns,
    warn_about_columns,
)
from lpfuse._checks.parameters import check_count, check_number
from lpfuse._saved import saved_as
from lpfuse.fusion._base import WeightedSum
from lpfuse.fusion._rows import Rows, by_class, lower_quantile

TIE_BREAK = 1e-6  # less than one pair of rows changes the AUC of half a million pairs
REFERENCE_SHARE = 0.05  # the reference outlier is as low as the lowest twentieth of normal rows
BATCH_NUMBERS = 2**20  # fused scores held at a time
CONSTRICTION = 0.7298  # of velocities, and
ATTRACTION = 2.05  # of either best place: Clerc and Kennedy's values for sure convergence
_GLOBAL_RANDOM = Lock()


class Fitness:
    r"""How good weights are; high is good, and multiples of the weights are equally good.

    With anomalies it is the area under the ROC curve of the fused score, and among weights with the
    same area the separation decides:

    .. math::

        \mathrm{AUC}(w) + 10^{-6} \, \mathrm{sep}(w), \qquad
        \mathrm{sep}(w) = \frac{\Delta}{\sqrt{\Delta^2 + 2 (v_+ + v_-)}}

    where ``Δ`` is the difference between the mean fused scores of the two classes and ``v±`` are
    their variances: the correlation of score and label if both classes were equally large. Without
    anomalies it is the separation of the normal rows from one reference outlier, to which every
    detector gives the 5 % quantile of its own normal scores. So detectors are measured by their own
    spread: a constant one has the separation 0, wherever its constant lies, and detectors that do
    not err together gain by being mixed.

    Parameters
    ----------
    normal : Rows
        The normal rows.
    anomalies : Rows, or None
        The anomalies.

    Attributes
    ----------
    members : ndarray of int
        Detectors with any spread: the others cannot change the order of the rows.
    """

    def __init__(self, normal: Rows, anomalies: Rows | None) -> None:
        tables = [rows.scores for rows in (normal, anomalies) if rows is not None]
        low, high = (
            pick([pick(table, axis=0) for table in tables], axis=0) for pick in (np.min, np.max)
        )
        self.members = np.flatnonzero(~no_spread(low, high))
        scale = max(np.abs(low).max(), np.abs(high).max()) or 1.0

        def standard(rows: Rows) -> Rows:
            """Squares neither overflow nor vanish, and a constant column is exactly 0."""
            return rows._replace(scores=rows.scores / scale - low / scale)

        self.normal = standard(normal)
        self.anomalies = None if anomalies is None else standard(anomalies)
        if self.anomalies is None:
            reference = lower_quantile(*self.normal, REFERENCE_SHARE)
            self.difference = self.normal.mean - reference
            self.covariance = _covariance(self.normal)
        else:
            self.difference = self.normal.mean - self.anomalies.mean
            self.covariance = _covariance(self.normal) + _covariance(self.anomalies)

    def __call__(self, weights: Host) -> Host:
        """Fitness of each candidate.

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

    def among(self, members: NDArray[Any]) -> Fitness:
        """The fitness of weights of these detectors, the others having none."""

        def narrowed(rows: Rows) -> Rows:
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
                _auc(high, normal.counts, low, anomalies.counts)
                for batch in batches
                for high, low in zip(
                    batch @ normal.scores.T, batch @ anomalies.scores.T, strict=True
                )
            ]
        )


def _covariance(rows: Rows) -> Host:
    centred = rows.scores - rows.mean
    return (centred.T * (rows.counts / rows.counts.sum())) @ centred


def _auc(high: Host, high_counts: Host, low: Host, low_counts: Host) -> float:
    """The share of pairs in which `high` is above `low`; a tie is half a pair."""
    order = np.argsort(high)
    passed = np.append(0.0, np.cumsum(high_counts[order]))
    high = high[order]
    below, not_above = (passed[np.searchsorted(high, low, side)] for side in ("left", "right"))
    won = 2 * passed[-1] - below - not_above
    return float(low_counts @ won / (2 * passed[-1] * low_counts.sum()))


class _SearchedWeights(WeightedSum):
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
        classes = by_class(S, y, sample_weight)
        warn_about_columns(check_scores(S), column_names(S))
        with one_blas_thread:  # products are small, and round the same way on any number of cores
            fitness = Fitness(*classes)
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


class _EvolvedWeights(_SearchedWeights):
    """A population of weights that explores, prunes, and explores again among the rest."""

    population_size: int
    prune: float
    random_state: Any

    def _search(self, fitness: Fitness) -> Host:
        random_state = check_random_state(self.random_state)
        R = fitness.size
        if R == 1:
            return np.ones(1)
        weights = self._explore(fitness, np.full(R, 1 / R), random_state)
        kept = weights >= min(self.prune / R, weights.max())  # rounding must not drop all
        if kept.all() or kept.sum() == 1:
            return _on_simplex(weights * kept)
        start = _on_simplex(weights[kept])
        weights = np.zeros(R)
        weights[kept] = self._explore(fitness.among(kept), start, random_state)
        return weights

    def _population(self, start: Host, random_state: Any) -> Host:
        """The start, each detector alone, and random weights: as many as there is room for."""
        anywhere = random_state.dirichlet(np.ones_like(start), size=self.population_size)
        return np.vstack([start, np.eye(len(start)), anywhere])[: self.population_size]

    def _explore(self, fitness: Fitness, start: Host, random_state: Any) -> Host:
        """The best weights of one search."""
        raise NotImplementedError

    def _check_parameters(self) -> None:
        check_count("population_size", self.population_size)
        if self.population_size < 2:
            raise ValueError(
                "population_size must be at least 2: one alone has nobody to learn from."
            )
        check_number(
            "prune", self.prune, at_least=0, at_most=1, hint="Use 0 to keep all detectors."
        )


@saved_as("GeneticWeights")
class GeneticWeights(_EvolvedWeights):
    """Fuse by a weighted mean whose weights a genetic algorithm has bred.

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
        Seeds the search. None takes a seed from NumPy's global state, which otherwise stays as it
        was, like that of Python's ``random``.

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
    are theirs; the fitness and the settings are our own. Needs pygad:
    ``pip install "lpfuse[search]"``. Candidates are crossed uniformly and mutated by steps of up to
    ``1/R``; parents win tournaments; the best two candidates survive. There is no proof that the
    weights are near the best ones; `LpFusion` has one, and `ExhaustiveWeights` tries them all.

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

    def _explore(self, fitness: Fitness, start: Host, random_state: Any) -> Host:
        R = len(start)
        population = self._population(start, random_state)
        seed = int(random_state.randint(2**31 - 1))

        def fitness_of(_search: Any, candidates: Any, _indices: Any) -> Host:
            return fitness(_on_simplex(np.asarray(candidates)))

        with _global_random_state_kept():
            search = _pygad().GA(
                initial_population=population,
                num_generations=self.generations,
                num_parents_mating=max(2, self.population_size // 2),
                fitness_func=fitness_of,
                fitness_batch_size=self.population_size,
                parent_selection_type="tournament",
                keep_elitism=2,
                crossover_type="uniform",
                mutation_type="random",
                mutation_probability=max(0.25, 1 / R),
                random_mutation_min_val=-1 / R,
                random_mutation_max_val=1 / R,
                random_seed=seed,
                suppress_warnings=True,
            )
            search.run()
        last = _on_simplex(np.asarray(search.population, dtype=np.float64))
        return last[np.argmax(fitness(last))]

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_count("generations", self.generations)
        _pygad()


@saved_as("SwarmWeights")
class SwarmWeights(_EvolvedWeights):
    r"""Fuse by a weighted mean whose weights a swarm of particles has found.

    The weights, not negative and of sum 1, maximise a fitness: with anomalies the area under the
    ROC curve, without them the separation of the normal rows from a reference outlier (see
    `Fitness`). A particle at ``x`` is drawn to the best place ``b`` that it has been to and to the
    best place ``g`` of all:

    .. math::

        v \leftarrow \chi \, (v + arphi u_1 \odot (b - x) + arphi u_2 \odot (g - x)), \qquad
        x \leftarrow x + v

    with fresh uniform ``u₁, u₂``, χ = 0.7298 and φ = 2.05. Negative entries are then set to 0 and
    the sum to 1. A first search runs over all detectors; those that it gives less than `prune`
    times the even weight ``1/R`` are dropped, and a second one shares the weights out among the
    rest.

    Parameters
    ----------
    population_size : int, default=40
        Particles. The first ones start at the even weights and at each detector alone, so a search
        never ends below these, as far as they have room.
    iterations : int, default=50
        Moves of a search.
    prune : float in [0, 1], default=0.5
        Share of the even weight below which a detector is dropped after the first search; 0 keeps
        all of them.
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
    particle knows all others.

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
    >>> from lpfuse.fusion.search import SwarmWeights
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

    def _explore(self, fitness: Fitness, start: Host, random_state: Any) -> Host:
        places = self._population(start, random_state)
        velocities = np.zeros_like(places)
        best, reached = places, fitness(places)
        for _ in range(self.iterations):
            to_own, to_all = random_state.uniform(size=(2, *places.shape))
            pull = to_own * (best - places) + to_all * (best[np.argmax(reached)] - places)
            velocities = CONSTRICTION * (velocities + ATTRACTION * pull)
            places = _on_simplex(places + velocities)
            found = fitness(places)
            best = np.where((found > reached)[:, None], places, best)
            reached = np.maximum(found, reached)
        return best[np.argmax(reached)]

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_count("iterations", self.iterations)


@saved_as("ExhaustiveWeights")
class ExhaustiveWeights(_SearchedWeights):
    """Fuse by the best weighted mean of all whose weights are multiples of ``1/steps``.

    The weights, not negative and of sum 1, maximise a fitness: with anomalies the area under the
    ROC curve, without them the separation of the normal rows from a reference outlier (see
    `Fitness`). All ``C(steps + R − 1, R − 1)`` candidates are tried; ties go to the most even one.

    Parameters
    ----------
    steps : int, default=10
        Weights are multiples of ``1/steps``.
    max_candidates : int, default=100_000
        A grid of more candidates is refused.

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
    >>> from lpfuse.fusion.search import ExhaustiveWeights
    >>> S = [[0.9, 0.2], [0.8, -0.4], [-0.7, 0.3], [-0.9, -0.2]]
    >>> ExhaustiveWeights(steps=4).fit(S, [1, 1, -1, -1]).weights_
    array([1., 0.])
    >>> ExhaustiveWeights().fit([[1.0, -1.0], [-1.0, 1.0], [0.5, 0.5], [0.2, 0.1]]).weights_
    array([0.5, 0.5])
    """

    def __init__(self, steps: int = 10, max_candidates: int = 100_000) -> None:
        self.steps = steps
        self.max_candidates = max_candidates

    def _search(self, fitness: Fitness) -> Host:
        R = fitness.size
        count = comb(self.steps + R - 1, R - 1)
        if count > self.max_candidates:
            raise ValueError(
                f"A grid of steps of 1/{self.steps} over {R} detectors has {count:,} candidates, "
                f"more than max_candidates={self.max_candidates:,}. Use fewer steps or fewer "
                "detectors, raise max_candidates, or let SwarmWeights search without a grid."
            )
        return max(
            (_best(fitness, batch) for batch in _simplex_grid(R, self.steps)),
            key=lambda found: found[:2],
        )[2]

    def _check_parameters(self) -> None:
        check_count("steps", self.steps)
        check_count("max_candidates", self.max_candidates)


def _best(fitness: Fitness, candidates: Host) -> tuple[float, float, Host]:
    """The fittest candidate, the most even one among equals: fitness, evenness, weights."""
    reached = fitness(candidates).round(12)  # equals differ by rounding
    evenness = -np.square(candidates).sum(axis=1).round(12)
    best = np.lexsort((evenness, reached))[-1]
    return float(reached[best]), float(evenness[best]), candidates[best]


def _simplex_grid(R: int, steps: int, size: int = 4096) -> Iterator[Host]:
    """All ways to deal `steps` equal parts out to R detectors, in batches: weights of sum 1.

    R − 1 bars among ``steps + R − 1`` places part the stars of each detector.
    """
    places = steps + R - 1
    bars = combinations(range(places), R - 1)
    while batch := list(islice(bars, size)):
        edges = np.array(batch).reshape(len(batch), R - 1)
        yield (np.diff(edges, prepend=-1, append=places, axis=1) - 1) / steps


def _on_simplex(weights: Host) -> Host:
    """Candidates without negative entries, of sum 1; the even weights where nothing is left."""
    weights = weights.clip(min=0.0)
    total = weights.sum(axis=-1, keepdims=True)
    even = np.full_like(weights, 1 / weights.shape[-1])
    return np.divide(weights, total, out=even, where=total > 0)


@contextmanager
def _global_random_state_kept() -> Iterator[None]:
    """Leave NumPy's and Python's own random states as they are: older pygad draws from both."""
    with _GLOBAL_RANDOM:
        numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002
        try:
            yield
        finally:
            np.random.set_state(numpy_state)  # noqa: NPY002
            random.setstate(python_state)


def _pygad() -> Any:
    try:
        import pygad
    except ImportError as error:
        raise ImportError(
            'GeneticWeights searches with pygad. Install it: pip install "lpfuse[search]"'
        ) from error
    return pygad
