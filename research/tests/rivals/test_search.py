import itertools
import math
import random
import re
import sys
from concurrent.futures import ThreadPoolExecutor

import array_api_strict
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.ensemble import IsolationForest
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import LocalOutlierFactor

from helpers.cases import cases
from helpers.contract import assert_passes_checks, refused_labels
from helpers.pairwise import each_value
from lpfuse import FusedDetector
from lpfuse.fusion.lp import labelled_scores
from research.rivals import search
from research.rivals.by_class import by_class
from research.rivals.search import (
    ExhaustiveWeights,
    Fitness,
    GeneticWeights,
    SwarmWeights,
    best_candidate,
    initial_candidates,
    normalise_to_simplex,
    simplex_grid,
    swarm,
    two_stage_search,
)

pytest.importorskip("pygad", reason="pygad is not installed")

IDLE_COLUMNS = "ignore:Scores have no spread:UserWarning", "ignore:Some detectors give:UserWarning"
GENETIC = GeneticWeights(population_size=16, generations=15, random_state=0)
SWARM = SwarmWeights(population_size=16, iterations=15, random_state=0)
GRID = ExhaustiveWeights(steps=6)
EVOLVED = pytest.mark.parametrize("fusion", [GENETIC, SWARM], ids=["genetic", "swarm"])
ALL = pytest.mark.parametrize("fusion", [GENETIC, SWARM, GRID], ids=["genetic", "swarm", "grid"])
PURE = pytest.mark.parametrize("pure", [False, True], ids=["labels", "pure"])


@pytest.fixture
def labelled():
    """Scores of which no detector is perfect, and that err partly together."""
    rng = np.random.default_rng(1)
    y = np.where(np.arange(90) % 5 == 0, -1, 1)
    noise = rng.normal(0.0, 0.8, (90, 3)) + rng.normal(0.0, 0.3, (90, 1))
    return y[:, None] * [0.9, 0.6, 0.1] + noise, y


def training_rows(labelled, pure):
    S, y = labelled
    return (S[y > 0], None) if pure else (S, y)


class GeneticLabelsDropped(GeneticWeights):
    """Fit without y: scikit-learn's checks feed labels other than ±1, which we refuse."""

    def fit(self, S, y=None, sample_weight=None):
        return super().fit(S, sample_weight=sample_weight)


class SwarmLabelsDropped(SwarmWeights):
    """Fit without y, as above."""

    def fit(self, S, y=None, sample_weight=None):
        return super().fit(S, sample_weight=sample_weight)


class GridLabelsDropped(ExhaustiveWeights):
    """Fit without y, as above."""

    def fit(self, S, y=None, sample_weight=None):
        return super().fit(S, sample_weight=sample_weight)


@pytest.mark.filterwarnings(*IDLE_COLUMNS)
@pytest.mark.parametrize(
    "estimator",
    [
        GeneticLabelsDropped(population_size=6, generations=2),
        SwarmLabelsDropped(population_size=6, iterations=2),
        GridLabelsDropped(steps=2),
    ],
    ids=str,
)
def test_scikit_learn_contract(estimator):
    assert_passes_checks(estimator, refused_labels())


# ------------------------------------------------------------------------------------------ fitness


def naive_auc(scores, y, counts):
    won = pairs = 0.0
    for i, j in itertools.product(np.flatnonzero(y > 0), np.flatnonzero(y < 0)):
        pair = counts[i] * counts[j]
        won += pair * ((scores[i] > scores[j]) + 0.5 * (scores[i] == scores[j]))
        pairs += pair
    return won / pairs


def correlation_of_equal_classes(normal, outliers):
    """Pearson's correlation of score and label, either class having half the mass."""
    scores = np.concatenate([normal, outliers])
    labels = np.repeat([1.0, -1.0], [len(normal), len(outliers)])
    mass = np.repeat([0.5 / len(normal), 0.5 / len(outliers)], [len(normal), len(outliers)])
    covariance = np.cov(scores, labels, aweights=mass, ddof=0)
    return covariance[0, 1] / math.sqrt(covariance[0, 0] * covariance[1, 1])


def naive_fitness(S, y, w):
    """The fitness, in words of another making."""
    fused = S @ w
    if y is None:
        lows = [sorted(column)[math.ceil(0.05 * len(column)) - 1] for column in S.T.tolist()]
        return correlation_of_equal_classes(fused, np.array([np.dot(lows, w)]))
    separation = correlation_of_equal_classes(fused[y > 0], fused[y < 0])
    return naive_auc(fused, y, np.ones(len(y))) + 1e-6 * separation


def fitness_of(S, y=None, sample_weight=None):
    return Fitness(*by_class(labelled_scores(S, y, sample_weight)))


@PURE
def test_the_fitness_is_what_it_says(labelled, pure):
    S, y = training_rows(labelled, pure)
    candidates = np.random.default_rng(0).dirichlet([1.0] * 3, size=20)
    by_hand = [naive_fitness(S, y, w) for w in candidates]
    np.testing.assert_allclose(fitness_of(S, y)(candidates), by_hand, rtol=1e-10)


@given(
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from([-1, 1]), st.integers(0, 3)), max_size=12)
)
def test_ties_and_row_weights_count_in_the_area(rows):
    # A row of each class, and two scores at least, whatever else comes.
    rows = [*rows, (0, 1, 1), (1, -1, 2)]
    scores, y, counts = map(np.array, zip(*rows, strict=True))
    fitness = fitness_of(scores[:, None].astype(float), y, counts)
    reached = fitness(np.ones((1, 1)))[0]
    assert reached == pytest.approx(naive_auc(scores, y, counts), abs=1.1e-6)
    area = roc_auc_score(y, scores, sample_weight=counts)
    assert reached == pytest.approx(area, abs=1.1e-6)


def test_among_equal_areas_the_wider_separation_wins():
    S = np.array([[1.0, 0.2], [0.9, 0.9], [-0.9, 0.1], [-1.0, -0.9]])
    first, second = fitness_of(S, np.array([1, 1, -1, -1]))(np.eye(2))
    assert second < first <= second + 1e-6


@given(st.floats(-5.0, 5.0))
@settings(max_examples=20)
def test_a_constant_detector_wins_nothing_without_anomalies(constant):
    S = np.random.default_rng(0).normal(size=(40, 3))
    S[:, 2] = constant
    alone, mixed, without = fitness_of(S)(np.array([[0, 0, 1], [0.2, 0.2, 0.6], [0.5, 0.5, 0]]))
    assert alone == 0.0
    assert mixed == pytest.approx(without)


@PURE
def test_the_fitness_has_no_scale(labelled, pure):
    S, y = training_rows(labelled, pure)
    candidates = np.random.default_rng(0).dirichlet([1.0] * 3, size=5)
    expected = fitness_of(S, y)(candidates)
    for scale in (1e-250, 1e98):
        np.testing.assert_allclose(fitness_of(scale * S, y)(candidates), expected)
    np.testing.assert_allclose(fitness_of(S, y)(7 * candidates), expected)


def test_batches_change_nothing(labelled):
    """There are more fused scores, 90 for each candidate, than two batches hold."""
    candidates = np.random.default_rng(0).dirichlet([1.0] * 3, size=2**21 // 90 + 50)
    fitness = fitness_of(*labelled)
    apart = [fitness(part) for part in np.array_split(candidates, 11)]
    np.testing.assert_allclose(fitness(candidates), np.concatenate(apart), rtol=1e-12)


# --------------------------------------------------------------------------------------- exhaustive


@cases("R, steps", [(1, 1), (1, 5), (2, 4), (3, 6), (5, 3)])
@cases("size", [1, 4])
def test_the_grid_holds_every_composition_once(R, steps, size):
    grid = np.concatenate(list(simplex_grid(R, steps, size)))
    parts = [c for c in itertools.product(range(steps + 1), repeat=R) if sum(c) == steps]
    assert sorted(map(tuple, np.rint(grid * steps).astype(int).tolist())) == parts
    assert len(grid) == math.comb(steps + R - 1, R - 1)
    np.testing.assert_allclose(grid.sum(axis=1), 1.0)


@PURE
@pytest.mark.parametrize("steps", [1, 7])
def test_the_exhaustive_search_is_a_naive_loop(labelled, pure, steps):
    S, y = training_rows(labelled, pure)
    candidates = [
        np.array(parts) / steps
        for parts in itertools.product(range(steps + 1), repeat=3)
        if sum(parts) == steps
    ]
    best = max(candidates, key=lambda w: naive_fitness(S, y, w))
    fusion = ExhaustiveWeights(steps=steps).fit(S, y)
    np.testing.assert_allclose(fusion.weights_, best)
    assert fusion.fitness_ == pytest.approx(naive_fitness(S, y, best))


def test_the_best_of_all_batches_is_taken(labelled):
    whole = ExhaustiveWeights(steps=8).fit(*labelled)
    in_pairs = best_candidate(fitness_of(*labelled), simplex_grid(3, 8, size=2))
    np.testing.assert_array_equal(in_pairs, whole.weights_)


def test_a_grid_too_large_is_refused_with_its_count(monkeypatch):
    S = np.random.default_rng(0).normal(size=(20, 12))
    with pytest.raises(ValueError, match=re.escape("has 352,716 candidates, more than 100,000.")):
        ExhaustiveWeights(steps=10).fit(S)
    three = S[:, :3]
    assert math.comb(6, 2) == 15
    monkeypatch.setattr(search, "MAX_CANDIDATES", 15)
    ExhaustiveWeights(steps=4).fit(three)
    monkeypatch.setattr(search, "MAX_CANDIDATES", 14)
    with pytest.raises(ValueError, match="15 candidates, more than 14"):
        ExhaustiveWeights(steps=4).fit(three)


@pytest.mark.filterwarnings("ignore:Some detectors give:UserWarning")
@PURE
@pytest.mark.parametrize("size", [2, 4096])
def test_ties_go_to_the_most_even_weights(labelled, pure, size):
    S, y = training_rows(labelled, pure)
    for column in S.T:
        for best in ([0.5, 0.5], [0.3, 0.3, 0.4], [0.2, 0.2, 0.3, 0.3]):
            twins = np.column_stack([column] * len(best))
            grid = simplex_grid(len(best), 10, size=size)
            weights = best_candidate(fitness_of(twins, y), grid)
            np.testing.assert_allclose(sorted(weights), best)
            weights = ExhaustiveWeights(steps=10).fit(twins, y).weights_
            np.testing.assert_allclose(sorted(weights), best)


# -------------------------------------------------------------------------------- genetic and swarm


@EVOLVED
@PURE
def test_the_search_comes_near_the_best_of_all(labelled, fusion, pure):
    """Within 1e-5 of the fitness of the best of 1,326 candidates, or above it."""
    S, y = training_rows(labelled, pure)
    best = ExhaustiveWeights(steps=50).fit(S, y)
    for seed in range(3):
        found = clone(fusion).set_params(
            population_size=30, prune=0, random_state=seed, **long(fusion)
        )
        found.fit(S, y)
        assert found.fitness_ >= best.fitness_ - 1e-5
        assert found.fitness_ == pytest.approx(naive_fitness(S, y, found.weights_), rel=1e-9)
        if pure:  # a smooth fitness has one best place
            np.testing.assert_allclose(found.weights_, best.weights_, atol=0.05)


def long(fusion):
    return {"generations": 30} if isinstance(fusion, GeneticWeights) else {"iterations": 30}


@ALL
def test_the_only_detector_of_use_is_found(fusion):
    rng = np.random.default_rng(0)
    y = np.repeat([1, -1], [60, 15])
    S = rng.normal(size=(75, 4))
    S[:, 2] = y + rng.normal(0.0, 0.05, 75)
    found = clone(fusion).fit(S, y)
    assert found.weights_[2] > 0.9
    assert found.fitness_ > 1.0  # the area is 1 and the classes are apart
    np.testing.assert_array_equal(found.predict(S), y)


@EVOLVED
@PURE
def test_a_search_beats_even_weights_and_single_detectors(labelled, fusion, pure):
    S, y = training_rows(labelled, pure)
    short = dict.fromkeys(long(fusion), 1)
    found = clone(fusion).set_params(population_size=4, prune=0, **short).fit(S, y)
    starts = np.vstack([np.eye(3), np.full((1, 3), 1 / 3)])
    assert found.fitness_ >= fitness_of(S, y)(starts).max() - 1e-12


@EVOLVED
def test_longer_searches_find_better_weights(fusion):
    rng = np.random.default_rng(3)
    y = np.repeat([1, -1], [60, 40])
    S = y[:, None] * rng.random(8) + rng.normal(size=(100, 8))
    key = next(iter(long(fusion)))
    short, longer = (
        clone(fusion).set_params(prune=0, **{key: steps}).fit(S, y) for steps in (1, 30)
    )
    assert longer.fitness_ > short.fitness_


def test_detectors_of_little_weight_are_dropped_and_searched_again():
    first, second = np.array([0.5, 0.26, 0.12, 0.12]), np.array([0.25, 0.75])
    asked = []

    def explore(fitness, start):
        asked.append((fitness.size, start))
        return first if len(asked) == 1 else second

    fitness = fitness_of(np.random.default_rng(0).normal(size=(30, 4)), None)
    found = two_stage_search(explore, fitness, prune=0.5)
    np.testing.assert_array_equal(found, [0.25, 0.75, 0.0, 0.0])
    (sizes, starts) = zip(*asked, strict=True)
    assert sizes == (4, 2)
    np.testing.assert_allclose(starts[0], 0.25)
    np.testing.assert_allclose(starts[1], np.array([0.5, 0.26]) / 0.76)
    asked.clear()
    kept = two_stage_search(explore, fitness, prune=0.4)  # 0.4 / 4 < 0.12: none is dropped
    np.testing.assert_allclose(kept, first)
    assert len(asked) == 1


@pytest.mark.parametrize("R", [3, 7, 49])
def test_rounding_does_not_prune_all_detectors(R):
    nearly = np.full(R, (1 - 1e-12) / R)
    fitness = fitness_of(np.random.default_rng(0).normal(size=(30, R)), None)
    np.testing.assert_allclose(two_stage_search(lambda *_: nearly, fitness, prune=1), 1 / R)


@EVOLVED
def test_pruning_is_heard_on_real_searches(fusion):
    rng = np.random.default_rng(0)
    y = np.repeat([1, -1], [80, 40])
    S = rng.normal(size=(120, 8)) + np.outer(y, [1, 1, 0, 0, 0, 0, 0, 0])
    pruned, whole = (clone(fusion).set_params(prune=prune).fit(S, y) for prune in (0.9, 0))
    assert (pruned.weights_ == 0).sum() > (whole.weights_ == 0).sum()
    assert (pruned.weights_[:2] > 0.25).all()


def test_a_swarm_moves_as_its_equation_says(labelled):
    fitness = fitness_of(*labelled)
    start = np.full(3, 1 / 3)
    rng = np.random.RandomState(4)
    found = swarm(fitness, initial_candidates(start, 5, rng), 2, rng)

    rng = np.random.RandomState(4)
    anywhere = rng.dirichlet(np.ones(3), size=5)
    x = [start, *np.eye(3), anywhere[0]]
    v = [np.zeros(3) for _ in x]
    own, value = list(x), [fitness(place[None])[0] for place in x]
    for _ in range(2):
        u1, u2 = rng.uniform(size=(2, 5, 3))
        leader = own[int(np.argmax(value))]
        for i in range(5):
            pull = 2.05 * u1[i] * (own[i] - x[i]) + 2.05 * u2[i] * (leader - x[i])
            v[i] = 0.7298 * (v[i] + pull)
            x[i] = np.maximum(x[i] + v[i], 0)
            x[i] = x[i] / x[i].sum()
            if (reached := fitness(x[i][None])[0]) > value[i]:
                own[i], value[i] = x[i], reached
    np.testing.assert_allclose(found, own[int(np.argmax(value))])


def test_candidates_are_put_on_the_simplex():
    placed = normalise_to_simplex(np.array([[2.0, -1.0, 2.0], [-1.0, 0.0, -2.0], [0.2, 0.3, 0.5]]))
    np.testing.assert_allclose(placed, [[0.5, 0, 0.5], [1 / 3, 1 / 3, 1 / 3], [0.2, 0.3, 0.5]])


# --------------------------------------------------------------------------------------- randomness


@EVOLVED
@PURE
def test_seeds_decide(labelled, fusion, pure):
    S, y = training_rows(labelled, pure)
    first = clone(fusion).fit(S, y).weights_
    np.testing.assert_array_equal(clone(fusion).fit(S, y).weights_, first)
    others = [clone(fusion).set_params(random_state=seed).fit(S, y).weights_ for seed in (1, 2, 3)]
    assert not all(np.array_equal(other, first) for other in others)
    generators = [np.random.RandomState(5) for _ in range(2)]
    one, two = (clone(fusion).set_params(random_state=rng).fit(S, y).weights_ for rng in generators)
    np.testing.assert_array_equal(one, two)


@ALL
def test_global_random_states_stay_as_they_were(labelled, fusion):
    before = np.random.get_state(), random.getstate()  # noqa: NPY002
    clone(fusion).fit(*labelled)
    after = np.random.get_state(), random.getstate()  # noqa: NPY002
    assert before[1] == after[1]
    for old, new in zip(before[0], after[0], strict=True):
        np.testing.assert_array_equal(old, new)


def test_searches_at_the_same_time_do_not_disturb_each_other(labelled):
    """Each has random states of its own, and none waits for another."""
    alone = [clone(GENETIC).set_params(random_state=seed).fit(*labelled) for seed in range(6)]
    with ThreadPoolExecutor(3) as threads:
        together = list(threads.map(lambda one: clone(one).fit(*labelled), alone))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one.weights_, other.weights_)


@EVOLVED
def test_without_a_seed_every_search_is_another_one(labelled, fusion):
    unseeded = clone(fusion).set_params(random_state=None, prune=0)
    drawn = [clone(unseeded).fit(*labelled).weights_ for _ in range(3)]
    assert not all(np.array_equal(weights, drawn[0]) for weights in drawn)


# ------------------------------------------------------------------------------------ sample weight


@ALL
@PURE
def test_a_sample_weight_is_a_repetition(labelled, fusion, pure):
    S, y = training_rows(labelled, pure)
    times = np.arange(len(S)) % 4
    weighted = clone(fusion).fit(S, y, sample_weight=times)
    repeated = clone(fusion).fit(np.repeat(S, times, axis=0), y if pure else np.repeat(y, times))
    np.testing.assert_allclose(weighted.weights_, repeated.weights_, atol=1e-6)
    assert weighted.fitness_ == pytest.approx(repeated.fitness_)
    assert weighted.fitness_ != pytest.approx(clone(fusion).fit(S, y).fitness_, abs=1e-5)


@ALL
def test_rows_of_weight_zero_are_not_there(labelled, fusion):
    S, y = labelled
    without = clone(fusion).fit(S, y, sample_weight=y > 0)
    np.testing.assert_array_equal(without.weights_, clone(fusion).fit(S[y > 0]).weights_)
    with pytest.raises(ValueError, match="zero for every normal row"):
        clone(fusion).fit(S, y, sample_weight=y < 0)


# --------------------------------------------------------------------------------------- degenerate


@ALL
def test_one_detector_has_all_the_weight(labelled, fusion):
    S, y = labelled
    for labels in (None, y):
        assert clone(fusion).fit(S[:, :1], labels).weights_.tolist() == [1.0]


@ALL
def test_one_anomaly_is_enough(labelled, fusion):
    S, y = labelled
    S, y = np.vstack([S[y > 0], [[-3.0, 0.5, 0.0]]]), np.append(np.ones(72), -1)
    found = clone(fusion).fit(S, y)
    assert found.weights_[0] > 0.5
    assert found.fitness_ > 1.0


@each_value(fusion=(GENETIC, SWARM, GRID, GENETIC), pure=(False, True), constant=(0.0, 1.0, 1.0))
def test_a_constant_column_is_warned_of_and_weighs_nothing(labelled, fusion, pure, constant):
    S, y = training_rows(labelled, pure)
    wider = np.insert(S, 1, constant, axis=1)
    with pytest.warns(UserWarning, match="no spread in column 1"):
        found = clone(fusion).fit(wider, y)
    np.testing.assert_allclose(
        found.weights_, np.insert(clone(fusion).fit(S, y).weights_, 1, 0.0), atol=1e-9
    )


@ALL
@cases("y", [None, [1, 1, -1]])
@pytest.mark.filterwarnings(*IDLE_COLUMNS)
def test_where_nothing_has_spread_all_weigh_the_same(fusion, y):
    found = clone(fusion).fit(np.ones((3, 4)), y)
    np.testing.assert_array_equal(found.weights_, 0.25)
    assert found.fitness_ == (0.0 if y is None else 0.5)


@ALL
@pytest.mark.filterwarnings(*IDLE_COLUMNS)
def test_a_single_row(fusion):
    np.testing.assert_array_equal(clone(fusion).fit([[0.5, 0.25]]).weights_, 0.5)


# ----------------------------------------------------------------------------------------- contract


@ALL
@PURE
def test_weights_are_a_mean_and_contributions_explain_the_score(labelled, fusion, pure):
    S, y = training_rows(labelled, pure)
    found = clone(fusion).fit(S, y)
    assert found.weights_.min() >= 0
    assert found.weights_.sum() == pytest.approx(1.0)
    assert found.offset_ == 0.0
    np.testing.assert_allclose(found.contributions(S).sum(axis=1), found.score_samples(S))
    np.testing.assert_allclose(found.score_samples(S), S @ found.weights_)
    if not pure:
        area = roc_auc_score(y, found.score_samples(S))
        assert found.fitness_ == pytest.approx(area, abs=1.1e-6)


@ALL
def test_labels_that_are_all_normal_are_none(labelled, fusion):
    S, _ = training_rows(labelled, pure=True)
    ones = clone(fusion).fit(S, [1] * len(S)).weights_
    np.testing.assert_array_equal(ones, clone(fusion).fit(S).weights_)


@ALL
def test_names_are_remembered_and_arrays_stay_in_their_library(labelled, fusion):
    S, y = labelled
    frame = pd.DataFrame(S, columns=["forest", "svm", "lof"])
    found = clone(fusion).fit(frame, y)
    assert found.feature_names_in_.tolist() == ["forest", "svm", "lof"]
    strict = array_api_strict.asarray(S)
    scores = clone(fusion).fit(strict, y).score_samples(strict)
    assert scores.__array_namespace__() is array_api_strict
    np.testing.assert_allclose(np.asarray(scores), found.score_samples(frame))


@cases(
    "fusion, words",
    [
        (GeneticWeights(population_size=1), "population_size must be at least 2"),
        (GeneticWeights(generations=0), "generations must be a whole number"),
        (SwarmWeights(population_size=2.5), "population_size must be a whole number"),
        (SwarmWeights(iterations="many"), "iterations must be a whole number"),
        (SwarmWeights(prune=1.5), "prune must be a finite number at least 0 and at most 1.* Use 0"),
        (ExhaustiveWeights(steps=0), "steps must be a whole number"),
        (ExhaustiveWeights(steps=100_000), "has 100,001 candidates"),
    ],
)
def test_a_refused_fit_leaves_no_trace(fusion, words):
    with pytest.raises(ValueError, match=words):
        fusion.fit(np.array([[1.0, 0.5], [0.2, 0.7], [0.1, -0.3]]))
    with pytest.raises(NotFittedError):
        fusion.score_samples(np.eye(2))
    assert not [name for name in vars(fusion) if name.endswith("_")]


@ALL
@cases(
    "arguments, words",
    [
        ({"y": [0, 1]}, "Choose one of"),
        ({"y": [-1, -1]}, "only −1"),
        ({"sample_weight": [-1, 1]}, "not negative"),
    ],
)
def test_unusable_labels_and_weights_are_refused(fusion, arguments, words):
    with pytest.raises(ValueError, match=words):
        clone(fusion).fit(np.eye(2), **arguments)


def test_without_pygad_the_file_of_requirements_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pygad", None)
    with pytest.raises(ImportError, match=re.escape("pip install -r research/requirements.txt")):
        clone(GENETIC).fit(np.ones((3, 1)))
    without = clone(SWARM).fit(np.random.default_rng(0).normal(size=(9, 2)))
    assert without.weights_.sum() == pytest.approx(1.0)


@ALL
@PURE
def test_in_a_fused_detector(fusion, pure):
    rng = np.random.default_rng(0)
    y = np.repeat([1, -1], [80, 12])
    X = rng.normal(size=(92, 2)) + np.outer(y < 0, [6.0, 0.0])
    pool = [
        ("forest", IsolationForest(n_estimators=10, random_state=0)),
        ("lof", LocalOutlierFactor(novelty=True, n_neighbors=10)),
    ]
    fused = FusedDetector(pool, fusion=fusion, cv=3, random_state=0)
    fused = fused.fit(X[:80]) if pure else fused.fit(X, y)
    assert roc_auc_score(y, fused.score_samples(X)) > 0.95
    assert fused.weights_.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(fused.contributions(X).sum(axis=1), fused.score_samples(X))
