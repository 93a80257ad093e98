"""Files that were written when fitted attributes were flat, and some parameters were others."""

from pathlib import Path

import numpy as np
import pytest

import lpfuse
from lpfuse.ensemble.calibration import CalibratedFit

MODELS = Path(__file__).parents[1] / "saved_models"
ROWS = np.array([[0.0, 0.0], [3.0, 3.0]])
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.InconsistentVersionWarning")


def hexadecimal(*texts):
    return [float.fromhex(text) for text in texts]


def test_fused_detector_scores_as_before():
    fused = lpfuse.load(MODELS / "fused_former_layout.lpfuse")
    expected = hexadecimal("0x1.0687992a8ea73p+0", "-0x1.803136e7414aap+1")
    np.testing.assert_allclose(fused.score_samples(ROWS), expected, rtol=1e-12)
    assert fused.offset_ == float.fromhex("-0x1.cd2abe8ac3fbcp+0")
    assert fused.predict(ROWS).tolist() == [1, -1]
    assert fused.unseen_.by == "plain"
    assert isinstance(fused.result_, CalibratedFit)


def test_parameters_that_are_gone_are_dropped():
    fused = lpfuse.load(MODELS / "fused_former_layout.lpfuse")
    assert not {"on_missing", "subsample", "experts_see_scores"} & vars(fused).keys()
    assert fused.get_params()["random_state"] == 0


def test_search_results_are_kept():
    fused = lpfuse.load(MODELS / "cv_former_layout.lpfuse")
    expected = hexadecimal("0x1.44c8dd79415e6p+0", "-0x1.8a2e0fe797e5ep+0")
    np.testing.assert_allclose(fused.score_samples(ROWS), expected, rtol=1e-12)
    assert fused.best_params_ == {"p": 2.0, "rho": 5.0}
    assert fused.best_score_ == 1.0
    assert fused.path_.weights.shape == (2, 2)


@pytest.mark.parametrize("name", ["fused", "cv"])
def test_saved_again_they_hold_the_record(name, tmp_path):
    before = lpfuse.load(MODELS / f"{name}_former_layout.lpfuse")
    before.save(tmp_path / "again.lpfuse")
    after = lpfuse.load(tmp_path / "again.lpfuse")
    np.testing.assert_array_equal(after.score_samples(ROWS), before.score_samples(ROWS))
    np.testing.assert_array_equal(after.pvalues(ROWS), before.pvalues(ROWS))


@pytest.mark.filterwarnings("ignore:'bayes' give most normal rows the same score")
def test_former_models_can_be_taught():
    fused = lpfuse.load(MODELS / "fused_former_layout.lpfuse")
    fused.teach(ROWS, [1, -1])
    assert fused.rows_.n_added == 2
