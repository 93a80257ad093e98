"""Rivals of the paper's related work that the library has no use for: they are here to be compared.

`ScoreProduct`, `GeneticSelection` and `FuzzyNeighbours` follow what their papers' abstracts and
the paper itself say of them; settings that these do not print are ours, and told.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import check_random_state

from lpfuse._arrays.operations import Host
from lpfuse.fusion.lp import labelled_scores
from research.rivals.by_class import by_class
from research.rivals.search import Fitness

__all__ = ["SIMILARITIES", "FuzzyNeighbours", "GeneticSelection", "ScoreProduct"]

# Five kinds of similarity, as many as Di Gesù and Lo Bosco combine; theirs are of categories.
SIMILARITIES = ("euclidean", "manhattan", "chebyshev", "cosine", "canberra")


class ScoreProduct(BaseEstimator):
    """The product of the scores themselves, ``Π_j max(s_ij, floor)``, for scores from 0 to 1.

    The product rule as it is usually written (Kittler et al. 1998), of normalised scores in the
    place of probabilities. Scores of rows below the lowest quantile of the normal ones are
    negative, and two of them must not make a normal row: they count as `floor`. At 0 a single
    detector has a veto, and all that it rejects are alike.

    Examples
    --------
    >>> from research.rivals.related import ScoreProduct
    >>> ScoreProduct().fit([[0.5, 0.5]]).score_samples([[0.5, 0.5], [-1.0, -1.0]])
    array([0.25, 0.  ])
    """

    def __init__(self, floor: float = 0.0) -> None:
        self.floor = floor

    def fit(self, S: Any, y: Any = None) -> Self:
        """Learn nothing."""
        return self

    def score_samples(self, S: Any) -> Host:
        """The products, of shape (n,)."""
        product: Host = np.clip(S, self.floor, None).prod(axis=1)
        return product


class GeneticSelection(BaseEstimator):
    """The mean of some of the detectors: those that a genetic search selects.

    In the style of He, Girolami and Ross (2004), who select one-class experts of banknotes by a
    genetic algorithm: a candidate is a row of bits. The fitness is that of `GeneticWeights`, which
    has the same anomalies to learn from, or none.

    Parameters
    ----------
    population_size, generations : int
        Of the search.
    random_state : int, RandomState or None
        Seeds it.

    References
    ----------
    C. He, M. Girolami and G. Ross, "Employing optimized combinations of one-class classifiers for
    automated currency validation", Pattern Recognition 37, 1085-1096, 2004.

    Examples
    --------
    >>> from research.rivals.related import GeneticSelection
    >>> S = [[0.9, 0.2], [0.8, -0.4], [-0.7, 0.3], [-0.9, -0.2]]
    >>> GeneticSelection(random_state=0).fit(S, [1, 1, -1, -1]).weights_
    array([1., 0.])
    """

    def __init__(
        self, population_size: int = 20, generations: int = 20, random_state: Any = None
    ) -> None:
        self.population_size = population_size
        self.generations = generations
        self.random_state = random_state

    def fit(self, S: Any, y: Any = None) -> Self:
        """Search."""
        import pygad

        fitness = Fitness(*by_class(labelled_scores(S, y, None)))
        generator = check_random_state(self.random_state)

        def fitness_of(_search: Any, candidates: Any, _indices: Any) -> Host:
            return fitness(_even(np.asarray(candidates)))

        first = generator.randint(2, size=(self.population_size, fitness.size))
        first[0] = 1  # no search ends below the sum of all
        search = pygad.GA(
            initial_population=first,
            num_generations=self.generations,
            num_parents_mating=self.population_size // 2,
            fitness_func=fitness_of,
            fitness_batch_size=self.population_size,
            gene_type=int,
            gene_space=[0, 1],
            parent_selection_type="tournament",
            keep_elitism=2,
            crossover_type="uniform",
            mutation_probability=max(0.25, 1 / fitness.size),
            random_seed=int(generator.randint(2**31 - 1)),
            suppress_warnings=True,
        )
        search.run()
        last = _even(np.asarray(search.population))
        self.weights_ = last[np.argmax(fitness(last))]
        return self

    def score_samples(self, S: Any) -> Host:
        """Means of the selected scores, of shape (n,)."""
        mean: Host = np.asarray(S) @ self.weights_
        return mean


def _even(bits: Any) -> Host:
    """Weights of sum 1, the same for each bit that is set; where none is, for all."""
    bits = np.where(bits.any(axis=1, keepdims=True), bits, 1)
    weights: Host = bits / bits.sum(axis=1, keepdims=True)
    return weights


class FuzzyNeighbours(BaseEstimator):
    r"""A one-class fuzzy k-nearest-neighbour detector for one kind of similarity.

    The membership of a row in the normal class is the mean similarity to its k nearest normal rows,

    .. math:: u(x) = \frac1k \sum_{z \in N_k(x)} \frac{1}{1 + d(x, z) / \bar d},

    with the median distance :math:`\bar d` of normal rows to their neighbours. In the style of Di
    Gesù and Lo Bosco (2007), who combine five of them, one for each kind of similarity, by weights
    from a genetic search; their similarities are of categories, and their membership could not be
    read.

    Parameters
    ----------
    metric : str
        One of `SIMILARITIES`, as a distance of scikit-learn.
    n_neighbors : int
        k, or one less than the rows there are.

    References
    ----------
    V. Di Gesù and G. Lo Bosco, "Combining one class fuzzy KNN's", Applications of Fuzzy Sets
    Theory, LNCS 4578, 152-160, 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from research.rivals.related import FuzzyNeighbours
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> near, far = FuzzyNeighbours().fit(X).score_samples([[0.0, 0.0], [9.0, 9.0]])
    >>> bool(near > far)
    True
    """

    def __init__(self, metric: str = "euclidean", n_neighbors: int = 5) -> None:
        self.metric = metric
        self.n_neighbors = n_neighbors

    def fit(self, X: Any, y: Any = None) -> Self:
        """Remember the normal rows."""
        k = max(1, min(self.n_neighbors, len(X) - 1))
        self.neighbors_ = NearestNeighbors(n_neighbors=k, metric=self.metric).fit(X)
        distances = self.neighbors_.kneighbors()[0] if len(X) > 1 else np.ones((1, 1))
        self.scale_ = float(np.median(distances)) or 1.0
        return self

    def score_samples(self, X: Any) -> Host:
        """Memberships, from 0 to 1, of shape (n,)."""
        distances = self.neighbors_.kneighbors(np.asarray(X))[0]
        membership: Host = (1.0 / (1.0 + distances / self.scale_)).mean(axis=1)
        return membership
