"""Weights by a particle swarm."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from lpfuse._arrays.operations import Host
from lpfuse._checks.arguments import check_count
from lpfuse._saved import saved_as
from lpfuse.fusion.search._base import PopulationSearch, first_candidates, on_simplex, two_stages
from lpfuse.fusion.search._fitness import Fitness

# Clerc and Kennedy (2002): with φ = 2 · 2.05 = 4.1 in all, velocities must shrink by
# χ = 2 / (φ − 2 + √(φ² − 4φ)) = 0.7298 for the swarm to converge.
ATTRACTION = 2.05
CONSTRICTION = 0.7298


@saved_as("SwarmWeights")
class SwarmWeights(PopulationSearch):
    r"""Fuse by a weighted mean whose weights are found by a swarm of particles.

    The weights, not negative and of sum 1, maximise a fitness: with anomalies the area under the
    ROC curve, without them the separation of the normal rows from a reference outlier (see
    `Fitness`). A particle at ``x`` is drawn to the best place ``b`` that it has been to and to the
    best place ``g`` of all:

    .. math::

        v \leftarrow \chi \, (v + \varphi\, u_1 \odot (b - x) + \varphi\, u_2 \odot (g - x)), \qquad
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

    def _search(self, fitness: Fitness) -> Host:
        random_state = check_random_state(self.random_state)

        def explore(fitness: Fitness, start: Host) -> Host:
            particles = first_candidates(start, self.population_size, random_state)
            return swarm(fitness, particles, self.iterations, random_state)

        return two_stages(explore, fitness, self.prune)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_count("iterations", self.iterations)


def swarm(fitness: Fitness, particles: Host, iterations: int, random_state: Any) -> Host:
    """The best weights that any particle has been at.

    Parameters
    ----------
    fitness : Fitness
        Of R detectors.
    particles : ndarray of shape (m, R)
        Where the particles start.
    iterations : int
        How often they move.
    random_state : RandomState
        Draws ``u₁`` and ``u₂``.
    """
    velocities = np.zeros_like(particles)
    best, reached = particles, fitness(particles)
    for _ in range(iterations):
        to_own, to_all = random_state.uniform(size=(2, *particles.shape))
        pull = to_own * (best - particles) + to_all * (best[np.argmax(reached)] - particles)
        velocities = CONSTRICTION * (velocities + ATTRACTION * pull)
        particles = on_simplex(particles + velocities)
        found = fitness(particles)
        best = np.where((found > reached)[:, None], particles, best)
        reached = np.maximum(found, reached)
    return best[np.argmax(reached)]
