"""Other weights from the scores that were kept: as if the detector had been fitted with them."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator

from helpers.pools import Distance, Nearby, anomalous_rows, both, normal_rows
from lpfuse import FixedRule, FusedDetector, FusedDetectorCV, LpFusion, TwoSidedMinMax

pytestmark = pytest.mark.filterwarnings("ignore:The constraint ‖w‖_p ≤ 1 is not active")

POOL = [("near", Distance(), [0, 1]), ("far", Distance(), [2, 3]), ("all", Distance(power=2))]
X, Y = both(60, 10)
NEW = np.vstack([normal_rows(6, seed=8), anomalous_rows(6, seed=9)])
BEFORE = LpFusion(p=1, loss="least_squares")
AFTER = LpFusion(p=3, loss="least_squares", class_weight="balanced", tol=1e-12)


def trained(fusion, scaler=None, y=Y, **options):
    return FusedDetector(POOL, fusion=fusion, scaler=scaler, random_state=0, **options).fit(X, y)


def assert_same(found, wanted):
    np.testing.assert_array_equal(found.weights_, wanted.weights_)
    assert found.offset_ == wanted.offset_
    np.testing.assert_array_equal(found.score_samples(NEW), wanted.score_samples(NEW))
    np.testing.assert_array_equal(found.pvalues(NEW), wanted.pvalues(NEW))
    np.testing.assert_array_equal(found.predict(NEW), wanted.predict(NEW))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"calibration": "plain"},
        {"calibration": "split", "false_alarm_rate": 0.2},
        {"cv": "in-sample"},
        {"threshold": "g-mean"},
        {"contamination": 0.1},
        {"y": None},
        {"y": None, "artificial_anomalies": True},
    ],
    ids=str,
)
def test_as_if_fitted_with_it(options):
    before = trained(BEFORE, **options)
    assert_same(before.with_fusion(AFTER), trained(AFTER, **options))


def test_as_if_fitted_with_another_scaler():
    scaler = TwoSidedMinMax(0.4)
    assert_same(trained(BEFORE).with_fusion(AFTER, scaler), trained(AFTER, scaler))


def test_as_if_fitted_with_it_where_detectors_were_fitted_before():
    columns = ([0, 1], [2, 3])
    ready = [(str(c), FrozenEstimator(Distance().fit(NEW[:, c])), c) for c in columns]
    before, wanted = (
        FusedDetector(ready, fusion=f, cv="prefit", random_state=0).fit(X, Y)
        for f in (BEFORE, AFTER)
    )
    assert_same(before.with_fusion(AFTER), wanted)


def test_the_first_one_stays_as_it_was():
    before = trained(BEFORE)
    weights, offset, scores = before.weights_.copy(), before.offset_, before.score_samples(NEW)
    after = before.with_fusion(FixedRule("min"))
    assert after.fusion.rule == "min"
    assert before.fusion is BEFORE
    assert before.offset_ == offset
    np.testing.assert_array_equal(before.weights_, weights)
    np.testing.assert_array_equal(before.score_samples(NEW), scores)


def test_refused_for_a_fusion_that_looks_at_features():
    with pytest.raises(ValueError, match="features"):
        trained(BEFORE).with_fusion(Nearby())


def test_refused_where_parameters_were_chosen_for_the_fusion():
    chosen = FusedDetectorCV(POOL, ps=[2.0], random_state=0).fit(X, Y)
    with pytest.raises(TypeError, match="fit anew"):
        chosen.with_fusion(AFTER)


def test_refused_before_fit():
    with pytest.raises(NotFittedError):
        FusedDetector(POOL).with_fusion(AFTER)
