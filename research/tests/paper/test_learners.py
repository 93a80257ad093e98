"""The grid of the paper's four learners, and the choice among their settings."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

from helpers.cases import cases
from helpers.pairwise import each_value
from lpfuse import SVDD, GMMDetector, KernelPCADetector, OneClassGP
from lpfuse.detectors import gamma_from_sigma
from research.common.protocol import PAPER, SETTINGS
from research.paper import learners
from research.paper.learners import LEARNERS, candidates, in_sample_tables
from research.tests.small import (
    THIN,
    easy_training,
    exact_auc,
    small_split,
    small_training,
    without_cache,
)

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of widths far from the data


def of_learner(grid, learner):
    return [candidate for candidate in grid if candidate.learner == learner]


@cases("n", [2, 9, 10, 11])
def test_the_grid_of_the_paper(n):
    grid = candidates(PAPER, n, seed=7)
    widths = {0.01, 0.1, 0.5, 1.0, 10.0}
    components = {q for q in (2, 6, 10, 14) if q <= n}
    settings = {
        learner: [tuple(c.settings.values()) for c in of_learner(grid, learner)]
        for learner in LEARNERS
    }
    assert settings["GMM"] == [()]
    assert sorted(settings["SVDD"]) == sorted(settings["GP"]) == [(s,) for s in sorted(widths)]
    assert sorted(settings["KPCA"]) == sorted((s, q) for s in widths for q in components)
    assert len(grid) == sum(map(len, settings.values()))
    assert grid[0].detector.n_components == min(3, n)


def test_detectors_have_the_settings_that_they_are_listed_with():
    kinds = {"GMM": GMMDetector, "SVDD": SVDD, "GP": OneClassGP, "KPCA": KernelPCADetector}
    for candidate in candidates(PAPER, 12, seed=7):
        detector = candidate.detector
        assert type(detector) is kinds[candidate.learner]
        if candidate.learner == "GMM":
            assert (detector.n_components, detector.random_state) == (3, 7)
            continue
        assert detector.approximation is None
        assert detector.gamma == gamma_from_sigma(candidate.settings["sigma"])
        if candidate.learner == "KPCA":
            assert detector.n_components == candidate.settings["q"]


def naive_choice(training, learner):
    """Each candidate fitted by itself; the first of the best."""
    best = None
    for candidate in of_learner(
        candidates(training.protocol, len(training.normals), training.seed), learner
    ):
        detector = clone(candidate.detector).fit(training.normals)
        auc = exact_auc(training.labels, detector.score_samples(training.validation))
        if best is None or auc > best[0]:
            best = auc, candidate.settings, detector
    return best


@each_value(seed=range(3), setting=SETTINGS)
def test_tables_hold_what_a_loop_over_single_detectors_finds(setting, seed):
    training = small_training(setting, seed=seed)
    tables = in_sample_tables(training)
    probe = np.random.default_rng(1).normal(size=(20, 2))
    assert tuple(tables.names) == LEARNERS
    settings = {}
    for j, learner in enumerate(LEARNERS):
        auc, chosen, alone = naive_choice(training, learner)
        settings |= {f"{learner} {name}": value for name, value in chosen.items()}
        for found, rows in (
            (tables.normals, training.normals),
            (tables.labelled, training.labelled),
            (tables.validation, training.validation),
            (tables.score(probe), probe),
        ):
            assert found.shape == (len(rows), len(LEARNERS))
            if len(rows):
                np.testing.assert_allclose(found[:, j], alone.score_samples(rows), atol=1e-9)
        assert roc_auc_score(training.labels, tables.validation[:, j]) == pytest.approx(auc)
    assert tables.settings == settings


def test_seeds_choose_differently():
    """Or the loop above would compare constants."""
    chosen = [in_sample_tables(small_training(seed=seed)).settings for seed in range(4)]
    assert len({tuple(settings.values()) for settings in chosen}) > 1


@pytest.mark.parametrize("widths", [(0.5, 1.0, 2.0), (2.0, 0.5, 1.0)])
def test_of_equals_the_widest_kernel_and_the_fewest_components(widths):
    training = easy_training(protocol=replace(THIN, widths=widths, component_step=10))
    assert roc_auc_score(training.labels, in_sample_tables(training).validation[:, 0]) == 1.0
    settings = in_sample_tables(training).settings
    assert settings == {"SVDD sigma": 2.0, "GP sigma": 2.0, "KPCA sigma": 2.0, "KPCA q": 2}


def test_learners_are_fitted_once_for_both_settings(monkeypatch):
    fits = []
    fit = learners.fit_candidates
    monkeypatch.setattr(
        learners, "fit_candidates", lambda grid, X: fits.append(len(X)) or fit(grid, X)
    )
    parts = small_split()
    for setting in SETTINGS:
        in_sample_tables(parts.training(setting))
    assert fits == [len(parts.train)]


def test_learners_know_nothing_of_anomalies():
    training = small_training("non-pure")
    other = without_cache(training, labelled=training.labelled + 5.0)
    one, two = in_sample_tables(training), in_sample_tables(other)
    np.testing.assert_array_equal(one.normals, two.normals)
    np.testing.assert_array_equal(one.validation, two.validation)
    assert one.settings == two.settings
    assert (one.labelled != two.labelled).any()


def test_few_rows_make_a_small_grid():
    training = small_training(normals=3, anomalies=4)
    assert len(training.normals) == 2
    assert in_sample_tables(training).normals.shape == (2, 4)
