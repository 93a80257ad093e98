"""recalibrate: threshold, p-values and scale move together, and nothing else does."""

import re
from copy import deepcopy

import dask.array as da
import numpy as np
import pytest

import lpfuse
from lpfuse import FusedDetector
from lpfuse.threshold import conformal_offset, conformal_pvalues

POOL = ["gmm", "histogram"]


@pytest.fixture(params=[300, 2500], ids=["cross", "split"])
def fused(request):
    X = np.random.default_rng(0).normal(size=(request.param, 3))
    return FusedDetector(POOL, random_state=0).fit(X)


@pytest.fixture
def rows():
    return np.random.default_rng(1).normal(size=(1200, 3)) * [1, 2, 1] + 0.6


def test_threshold_pvalues_and_scale_move_together(fused, rows):
    before = deepcopy(fused)
    assert fused.recalibrate(rows[:600]) is fused
    np.testing.assert_array_equal(fused.weights_, before.weights_)
    assert (fused.scaler_.lower_ != before.scaler_.lower_).all()
    new = rows[600:]
    scores = fused.score_samples(new)
    assert fused.offset_ == conformal_offset(fused.calibration_, 0.05)
    np.testing.assert_array_equal(fused.pvalues(new), conformal_pvalues(fused.calibration_, scores))
    np.testing.assert_array_equal(fused.predict(new) < 0, fused.pvalues(new) <= 0.05)
    assert len(fused.calibration_) == 400
    # One row goes another way through the code.
    np.testing.assert_allclose(
        [fused.pvalues(new[i : i + 1])[0] for i in range(50)], fused.pvalues(new[:50])
    )


def test_rows_that_set_the_scale_set_no_threshold(fused, rows):
    fused.recalibrate(rows[:600])
    calibration = fused.combination_.score_samples(fused.unseen_.scores)
    np.testing.assert_array_equal(np.sort(calibration), fused.calibration_)
    kept = fused.rows_.values[-400:]
    np.testing.assert_allclose(fused.score_samples(kept), calibration)
    at = {tuple(row) for row in kept}
    scale = np.array([row for row in rows[:600] if tuple(row) not in at])
    again = lpfuse.scaling.TwoSidedMinMax().fit(fused.detector_scores(scale))
    np.testing.assert_allclose(fused.scaler_.lower_, again.lower_)


def test_few_rows_leave_the_scale(fused, rows):
    lower = fused.scaler_.lower_.copy()
    fused.recalibrate(rows[:100])
    np.testing.assert_array_equal(fused.scaler_.lower_, lower)
    assert len(fused.calibration_) == 100
    fused.recalibrate(rows[:100], scale=True)
    assert (fused.scaler_.lower_ != lower).all()
    assert len(fused.calibration_) == 67


@pytest.mark.parametrize("size", [60, 300])
def test_false_alarms_keep_to_the_rate(size):
    rng = np.random.default_rng(0)
    fused = FusedDetector(POOL, false_alarm_rate=0.1, random_state=0).fit(rng.normal(size=(200, 3)))
    found = []
    for _ in range(60):
        X = rng.standard_t(3, size=(size + 500, 3)) + 1
        found.append(np.mean(deepcopy(fused).recalibrate(X[:size]).predict(X[size:]) < 0))
    # The mean over calibration sets: 0.1 less at most 1/(m + 1), give or take three errors.
    assert abs(np.mean(found) - 0.1) <= 0.017 + 3 * np.std(found) / 60**0.5
    assert np.mean(found) <= 0.1 + 3 * np.std(found) / 60**0.5


def test_confidence_is_kept(rows):
    X = np.random.default_rng(0).normal(size=(300, 3))
    fused = FusedDetector(POOL, confidence=0.9, random_state=0).fit(X).recalibrate(rows[:150])
    assert fused.offset_ == conformal_offset(fused.calibration_, 0.05, 0.9)


def test_it_can_be_taught_saved_and_fused_anew_afterwards(fused, rows, tmp_path):
    fused.recalibrate(rows[:600])
    fused.save(tmp_path / "model.lpfuse")
    loaded = lpfuse.load(tmp_path / "model.lpfuse")
    np.testing.assert_array_equal(loaded.pvalues(rows[600:]), fused.pvalues(rows[600:]))
    other = fused.with_fusion(lpfuse.FixedRule("sum"))
    assert len(other.calibration_) == 400
    assert abs(np.mean(other.predict(rows[600:]) < 0) - 0.05) < 0.04
    anomalies = np.random.default_rng(2).normal(size=(12, 3)) + 7
    X = np.concatenate([anomalies, rows[:30]])
    fused.teach(X, np.repeat([-1, 1], [12, 30]))
    assert abs(np.mean(fused.predict(rows[600:]) < 0) - 0.05) < 0.04
    assert (fused.predict(anomalies + 0.1) < 0).all()
    assert fused.recalibrate(rows[600:]).unseen_.by == "split"


def test_gaps_and_frames(rows):
    import pandas as pd

    X = pd.DataFrame(np.random.default_rng(0).normal(size=(300, 3)), columns=list("abc"))
    fused = FusedDetector(random_state=0).fit(X)
    new = pd.DataFrame(rows, columns=list("abc"))
    new.loc[::7, "b"] = np.nan
    fused.recalibrate(new[:600])
    assert abs(np.mean(fused.predict(new[600:]) < 0) - 0.05) < 0.03


def test_dask_rows_are_drawn_from(fused, rows):
    many = da.from_array(rows, chunks=(200, 3))
    fused.recalibrate(many, subsample=500)
    assert len(fused.calibration_) == 334


def test_what_cannot_be_used_leaves_the_detector_as_it_was(fused, rows):
    before = fused.offset_
    for X, message in [
        (rows[:10], "10 rows cannot promise 5 %"),
        (rows[:, :2], "features"),
        ([[np.inf, 0.0, 0.0]], "infinity"),
    ]:
        with pytest.raises(ValueError, match=message):
            fused.recalibrate(X)
    with pytest.raises(ValueError, match="scale must be"):
        fused.recalibrate(rows, scale="yes")
    assert fused.offset_ == before
    for other, named in [
        ({"contamination": 0.1}, "contamination=0.1"),
        ({"threshold": "g-mean"}, "g-mean"),
    ]:
        told = deepcopy(fused).set_params(**other)
        with pytest.raises(ValueError, match=re.escape(named)):
            told.recalibrate(rows)


def test_training_rows_are_told(fused):
    with pytest.warns(UserWarning, match="are training rows"):
        fused.recalibrate(np.random.default_rng(0).normal(size=(300, 3)))
