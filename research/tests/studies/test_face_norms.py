"""Norms on nine feature sets of faces: bands of profiles, and weights on scores made by hand."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

pytest.importorskip("av")
pytest.importorskip("cv2")

from lpfuse_faces import VideoFeatures
from lpfuse_faces.clips import Clip
from lpfuse_faces.evaluation._scores import ScoredClips
from research.studies.face_norms import aucs_of, in_bands
from research.studies.norms import NORMS


def test_bands_are_the_profile_in_order():
    profile = np.arange(128, dtype=np.float32).reshape(2, 64)
    places = np.arange(2), np.arange(2), np.zeros((2, 4)), np.zeros((2, 5, 2))
    sets = {f"azimuthal/{region}": profile for region in ("face", "mouth", "nose")}
    video = in_bands(VideoFeatures("a.mp4", "00", *places, sets, 2))
    assert len(video.sets) == 9
    np.testing.assert_array_equal(
        np.hstack([video.sets[f"azimuthal/mouth {band}"] for band in ("low", "middle", "high")]),
        profile,
    )


@pytest.fixture(scope="module")
def scored():
    """Two columns of twelve know forgeries; those of "new" are as the others."""
    rng = np.random.default_rng(0)
    clips, scores = [], []
    for k, kind in enumerate([None, "old", "new"] * 12):
        split = "train" if k < 24 else "test"
        clips.append(Clip(Path(f"{k}.mp4"), -1 if kind else 1, kind, (str(k),), split))
        knows = np.r_[np.full(2, -0.8 if kind else 0.0), np.zeros(10)]
        scores.append(rng.normal(size=(3, 12)) + knows)
    return ScoredClips([f"learner {j}" for j in range(12)], clips, scores)


def test_weights_of_other_kinds_find_the_kind_that_was_left_out(scored):
    found, gap = aucs_of(scored, "new", "non-pure", seed=0)
    assert set(found) == {"sum", *NORMS}
    assert gap <= 1e-7
    assert found["free r=1 p=2"] > found["sum"] + 5
    test = scored.test("new")  # the sum by hand: of each learner's score, on its own scale
    means = np.array([table.mean(axis=0) for table in np.split(test.scores, len(test.labels))])
    spread = np.ptp(scored.training("new", "pure").scores, axis=0)
    by_hand = 100 * roc_auc_score(test.labels > 0, (means / spread).sum(axis=1))
    assert found["sum"] == pytest.approx(by_hand, abs=10)
