"""What packages that build on a fused detector may use of it."""

import numpy as np
import pytest
from sklearn.ensemble import IsolationForest

from helpers.pools import Distance, both, normal_rows
from lpfuse import SVDD, FusedDetector, KernelPCADetector
from lpfuse.ensemble import components
from lpfuse.ensemble.components import Combination, fit_detectors
from lpfuse.ensemble.defaults import seeded_copy
from lpfuse.ensemble.folds import labels_for_weights

X, Y = both(60, 10)
NEW = normal_rows(9, seed=5)
POOL = [("svdd", SVDD()), ("near", Distance(), [0, 1]), ("kpca", KernelPCADetector(3))]


@pytest.mark.parametrize("name", components.__all__)
def test_every_name_is_there_and_says_what_it_is(name):
    found = getattr(components, name)
    assert found.__doc__.strip()


def test_fitted_attributes_are_enough_to_fuse_raw_scores():
    fused = FusedDetector(POOL, random_state=0).fit(X, Y)
    raw = fused.detector_scores(NEW)
    by_hand = Combination(fused.scaler_, fused.fusion_)
    np.testing.assert_array_equal(by_hand.score_samples(raw), fused.score_samples(NEW))
    np.testing.assert_array_equal(by_hand.contributions(raw), fused.contributions(NEW))
    assert by_hand == fused.combination_
    kept = fused.out_of_fold_
    np.testing.assert_array_equal(kept.labels, labels_for_weights(Y.astype(float)))
    assert fused.held_out_.fused.shape == kept.labels.shape


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_fit_detectors_keeps_order_and_uses_all_rows(n_jobs):
    told = []
    fitted = fit_detectors(POOL, X, n_jobs=n_jobs, progress=lambda *step: told.append(step))
    assert [name for name, _, _ in fitted] == ["svdd", "near", "kpca"]
    assert told == [(1, 2), (2, 2)]  # the two kernel learners share their work
    assert fitted[1][2].tolist() == [0, 1]
    alone = SVDD().fit(X).score_samples(NEW)
    np.testing.assert_allclose(fitted[0][1].score_samples(NEW), alone, rtol=1e-9)
    prefit = FusedDetector(fitted, cv="prefit", random_state=0).fit(X, Y)
    np.testing.assert_allclose(prefit.detector_scores(NEW)[:, 0], alone, rtol=1e-9)


def test_a_seeded_copy_is_the_same_for_the_same_seed():
    forest = IsolationForest(n_estimators=3)
    one, two, other = (
        seeded_copy(forest, np.random.RandomState(seed)).random_state for seed in (0, 0, 1)
    )
    assert one == two != other
    assert forest.random_state is None
