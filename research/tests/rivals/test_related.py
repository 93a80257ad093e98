"""Rivals of the related work, against loops that try everything."""

from itertools import product

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from helpers.cases import cases
from lpfuse.fusion.lp import labelled_scores
from research.rivals.by_class import by_class
from research.rivals.related import SIMILARITIES, FuzzyNeighbours, GeneticSelection, ScoreProduct
from research.rivals.search import Fitness

RNG = np.random.default_rng(0)
Y = np.where(np.arange(60) % 4 == 0, -1, 1)
S = Y[:, None] * [0.9, 0.5, 0.1, -0.2] + RNG.normal(0, 0.7, (60, 4))


@pytest.mark.parametrize("pure", [True, False])
def test_the_selection_is_the_best_of_all_subsets(pure):
    pytest.importorskip("pygad", reason="pygad is not installed")
    rows, y = (S[Y > 0], None) if pure else (S, Y)
    fitness = Fitness(*by_class(labelled_scores(rows, y, None)))
    subsets = np.array([bits for bits in product((0.0, 1.0), repeat=4) if any(bits)])
    subsets /= subsets.sum(axis=1, keepdims=True)
    found = GeneticSelection(random_state=0).fit(rows, y)
    np.testing.assert_array_equal(found.weights_, subsets[np.argmax(fitness(subsets))])
    np.testing.assert_allclose(found.score_samples(S), S @ found.weights_)
    again = GeneticSelection(random_state=0).fit(rows, y)
    np.testing.assert_array_equal(again.weights_, found.weights_)


@pytest.mark.parametrize("floor", [0.0, 0.1])
def test_a_product_never_turns_two_rejections_into_a_normal_row(floor):
    scores = ScoreProduct(floor).fit(S).score_samples([[0.5, 0.5], [-2.0, -3.0], [-2.0, 0.5]])
    np.testing.assert_allclose(scores, [0.25, floor**2, 0.5 * floor])


@cases("metric", SIMILARITIES)
def test_memberships_are_mean_similarities_to_the_nearest_rows(metric):
    X, Z = RNG.normal(size=(30, 3)) + 2, RNG.normal(size=(8, 3))
    found = FuzzyNeighbours(metric, 4).fit(X)
    name = {"manhattan": "cityblock"}.get(metric, metric)
    own = np.sort(cdist(X, X, name) + 1e9 * np.eye(30), axis=1)[:, :4]
    distances = np.sort(cdist(Z, X, name), axis=1)[:, :4]
    expected = (1 / (1 + distances / np.median(own))).mean(axis=1)
    np.testing.assert_allclose(found.score_samples(Z), expected, rtol=1e-6)


def test_few_rows_or_equal_ones_have_memberships_too():
    assert np.isfinite(FuzzyNeighbours().fit([[1.0]]).score_samples([[3.0]])).all()
    assert FuzzyNeighbours().fit(np.ones((9, 2))).score_samples(np.ones((1, 2))) == [1.0]
