"""The registry of rivals: complete, at work with and without labels, and honest about both."""

import warnings

import numpy as np
import pytest
from scipy.stats import rankdata

from helpers.cases import cases
from helpers.pairwise import each_value
from lpfuse import TwoSidedMinMax, fusion
from lpfuse.fusion.fixed import RULES
from research.common.protocol import area
from research.rivals import fusion as rivals
from research.rivals.dynamic import DynamicEnsemble
from research.rivals.fusion import (
    ENSEMBLES,
    GRIDS,
    IGNORES_LABELS,
    NEEDS_LABELS,
    NOTES,
    PACKAGES,
    RIVALS,
    TAUGHT,
    at_hand,
    is_at_hand,
)
from research.rivals.local import LocalLpFusion
from research.rivals.related import GeneticSelection
from research.rivals.search import ExhaustiveWeights, GeneticWeights, SwarmWeights
from research.rivals.templates import CosineSimilarity, DecisionTemplates

NORMALS, ANOMALIES = 120, 20
RECONSTRUCTIONS = {
    CosineSimilarity, DecisionTemplates, DynamicEnsemble, ExhaustiveWeights, GeneticSelection,
    GeneticWeights, LocalLpFusion, SwarmWeights,
}  # fmt: skip


@pytest.fixture(scope="module")
def training():
    """Scaled scores of six detectors, good to useless, of rows that have places, too."""
    rng = np.random.default_rng(0)
    y = np.repeat([1, -1], [NORMALS, ANOMALIES])
    noise = -rng.gamma(1.0, 1.0, size=(len(y), 6)) - rng.gamma(1.0, 1.0, size=(len(y), 1))
    S = y[:, None] * [2.0, 1.7, 1.5, 1.2, 1.0, 0.8] + noise
    S = TwoSidedMinMax().fit(S[:NORMALS]).transform(S)
    return S, y, y[:, None] + rng.normal(size=(len(y), 2))


def fused(make, training, labels):
    """Scores of all rows, by what was learnt from normal rows and, with labels, from anomalies."""
    S, y, X = training
    made = make(0)
    looks = getattr(made, "uses_features", False)
    learn = slice(None) if labels else slice(NORMALS)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* got no anomalies")
        made.fit(S[learn], y if labels else None, **({"X": X[learn]} if looks else {}))
    return made.score_samples(S, **({"X": X} if looks else {}))


@pytest.fixture(scope="module")
def learnt(training):
    return {
        (name, labels): fused(make, training, labels)
        for name, make in at_hand().items()
        for labels in (False, True)
    }


def test_every_fusion_of_the_project_is_among_them():
    made = [make(0) for make in RIVALS.values()]
    named = [getattr(fusion, name) for name in fusion.__all__]
    classes = {each for each in named if isinstance(each, type)}
    assert {type(each) for each in made} == classes | RECONSTRUCTIONS
    assert {each.rule for each in made if isinstance(each, fusion.FixedRule)} == set(RULES)


@cases("name", at_hand())
def test_with_labels_everyone_tells_anomalies_apart(name, training, learnt):
    assert area(training[1], learnt[name, True]) > 0.7


@cases("name", at_hand())
def test_a_seed_gives_one_result(name, training, learnt):
    np.testing.assert_array_equal(fused(RIVALS[name], training, True), learnt[name, True])


def test_exactly_those_marked_are_the_sum_without_labels(learnt):
    order = {name: rankdata(learnt[name, False]) for name in at_hand()}
    alike = {name for name in order if np.array_equal(order[name], order["sum"])}
    assert alike - {"sum"} == NEEDS_LABELS
    assert all((learnt[name, True] != learnt[name, False]).any() for name in NEEDS_LABELS)


def test_those_marked_ignore_labels_and_no_one_else(learnt):
    same = {name for name in at_hand() if np.array_equal(learnt[name, True], learnt[name, False])}
    assert same == IGNORES_LABELS


@each_value(name=ENSEMBLES, d=[1, 4])
def test_whole_ensembles_learn_from_normal_rows_of_any_width(name, d):
    """In one round, where there can be several."""
    rng = np.random.default_rng(0)
    made = ENSEMBLES[name](0, d)
    if "max_rounds" in made.get_params():
        made.set_params(max_rounds=1)
    rows = np.concatenate([rng.normal(size=(30, d)), rng.normal(5.0, 1.0, size=(10, d))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # detectors on bootstraps of few rows may agree entirely
        made.fit(rng.normal(size=(40, d)))
    assert area(np.repeat([1, -1], [30, 10]), made.score_samples(rows)) > 0.8


def test_names_are_told_apart_and_explained():
    assert not RIVALS.keys() & ENSEMBLES.keys()
    assert NOTES.keys() <= RIVALS.keys() | ENSEMBLES.keys()
    assert all("in the style of" in NOTES[name] for name in ENSEMBLES)
    assert NEEDS_LABELS | IGNORES_LABELS <= RIVALS.keys()
    assert TAUGHT <= ENSEMBLES.keys()
    assert PACKAGES.keys() | GRIDS.keys() <= RIVALS.keys() | ENSEMBLES.keys()


def test_what_is_not_installed_is_left_out(monkeypatch):
    monkeypatch.setattr(rivals, "find_spec", lambda package: None)
    assert set(RIVALS) - set(at_hand()) == {"genetic", "genetic selection"}
    assert not is_at_hand("fuzzy neighbours")
