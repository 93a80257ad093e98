"""The best weights of a grid over the simplex."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, islice
from math import comb

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse._checks.arguments import check_count
from lpfuse._saved import saved_as
from lpfuse.fusion.search._base import SearchedWeights
from lpfuse.fusion.search._fitness import Fitness

BATCH = 4096  # candidates in memory at a time: what a call of the fitness costs is then spread thin


@saved_as("ExhaustiveWeights")
class ExhaustiveWeights(SearchedWeights):
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
        return best_candidate(fitness, simplex_grid(R, self.steps))

    def _check_parameters(self) -> None:
        check_count("steps", self.steps)
        check_count("max_candidates", self.max_candidates)


def best_candidate(fitness: Fitness, batches: Iterable[Host]) -> Host:
    """The fittest row of all batches, the most even one among equals."""
    return max((_best(fitness, batch) for batch in batches), key=lambda found: found[:2])[2]


def _best(fitness: Fitness, candidates: Host) -> tuple[float, float, Host]:
    """Of one batch, the best candidate's fitness, evenness and weights."""
    # Candidates that are equally good may differ by rounding, some 1e-16 a term: 12 digits are
    # safe from it, and finer than the tie-break of the fitness.
    reached = fitness(candidates).round(12)
    evenness = -np.square(candidates).sum(axis=1).round(12)
    best = np.lexsort((evenness, reached))[-1]
    return float(reached[best]), float(evenness[best]), candidates[best]


def simplex_grid(R: int, steps: int, size: int = BATCH) -> Iterator[Host]:
    """All ways to deal `steps` equal parts out to R detectors, in batches: weights of sum 1.

    R − 1 bars among ``steps + R − 1`` places part the stars of each detector.
    """
    places = steps + R - 1
    bars = combinations(range(places), R - 1)
    while batch := list(islice(bars, size)):
        edges = np.array(batch).reshape(len(batch), R - 1)
        yield (np.diff(edges, prepend=-1, append=places, axis=1) - 1) / steps
