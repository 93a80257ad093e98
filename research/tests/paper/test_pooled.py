"""Scores that teach a fusion: by detectors that have not seen the row, as in FusedDetector."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.neighbors import KNeighborsClassifier

from lpfuse import FusedDetector, GMMDetector, KernelPCADetector, LpFusion, TwoSidedMinMax
from research.paper.pooled import pooled

DETECTORS = [("kpca", KernelPCADetector()), ("gmm", GMMDetector(n_components=1))]


class Memory(BaseEstimator):
    """1 for a row that it learnt from, 0 for any other, with a trace of the row itself."""

    def fit(self, X, y=None):
        self.rows_ = {tuple(row) for row in X}
        return self

    def score_samples(self, X):
        return np.array([tuple(row) in self.rows_ for row in X]) + 1e-6 * X[:, 0]

    def predict(self, X):
        return np.where(self.score_samples(X) > 0.5, 1, -1)


@pytest.fixture
def normals():
    return np.random.default_rng(0).normal(size=(60, 3))


@pytest.fixture
def labelled():
    return np.random.default_rng(1).normal(2.0, 1.0, size=(8, 3))


@pytest.mark.filterwarnings("ignore:The best weights are zero")  # nor need they be anything
@pytest.mark.filterwarnings("ignore::lpfuse.DirectionWarning")
def test_no_row_is_scored_by_its_own_detector(normals, labelled):
    pool = pooled(normals, labelled, detectors=[("memory", Memory())], seed=0)
    assert (pool.normals < 0.5).all()
    assert (pool.labelled < 0.5).all()
    assert (pool.score(normals) > 0.5).all(), "detectors for other rows learn from all normals"
    assert (pool.score(labelled) < 0.5).all(), "and never from anomalies"


def test_scores_of_experts_are_out_of_fold(normals):
    """Nearest neighbours know the rows that they learnt from; of noise they know nothing else."""
    noise = np.random.default_rng(2).normal(size=(60, 3))
    detectors = [*DETECTORS, ("expert", KNeighborsClassifier(1))]
    pool = pooled(normals, noise, detectors=detectors, seed=0)
    assert pool.names == ("kpca", "gmm", "expert")
    truth = np.repeat([True, False], 60)
    column = np.concatenate([pool.normals, pool.labelled])[:, 2] > 0
    assert np.mean(column == truth) < 0.7
    in_sample = pool.score(np.concatenate([normals, noise]))[:, 2] > 0
    assert np.mean(in_sample == truth) > 0.9


@pytest.mark.parametrize("anomalies", [0, 8])
def test_weights_of_the_scores_are_the_fused_detectors_weights(normals, labelled, anomalies):
    labelled = labelled[:anomalies]
    rows, y = np.concatenate([normals, labelled]), np.repeat([1, -1], [60, anomalies])
    fusion = LpFusion(p=2.0, class_weight="balanced" if anomalies else None)
    fused = FusedDetector(DETECTORS, fusion=fusion, random_state=3).fit(rows, y)
    pool = pooled(normals, labelled, detectors=DETECTORS, seed=3)
    scaled = (
        TwoSidedMinMax().fit(pool.normals).transform(np.concatenate([pool.normals, pool.labelled]))
    )
    np.testing.assert_allclose(fusion.fit(scaled, y).weights_, fused.weights_, rtol=1e-6)
    np.testing.assert_array_equal(pool.score(rows), fused.detector_scores(rows))


def test_without_anomalies_none_are_scored(normals):
    pool = pooled(normals, detectors=DETECTORS, seed=0)
    assert pool.normals.shape == (60, 2)
    assert pool.labelled.shape == (0, 2)


def test_later_anomalies_do_not_change_earlier_scores(normals, labelled):
    pool = pooled(normals, labelled, detectors=DETECTORS, seed=0)
    others = np.concatenate([labelled[:3], 100 + labelled[3:]])
    changed = pooled(normals, others, detectors=DETECTORS, seed=0)
    np.testing.assert_array_equal(changed.normals, pool.normals)
    np.testing.assert_array_equal(changed.labelled[:3], pool.labelled[:3])
    assert (changed.labelled[3:] != pool.labelled[3:]).all()


def test_the_seed_decides(normals, labelled):
    first, again, other = (
        pooled(normals, labelled, detectors=[("gmm", GMMDetector())], seed=seed)
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first.normals, again.normals)
    assert (first.normals != other.normals).any()
