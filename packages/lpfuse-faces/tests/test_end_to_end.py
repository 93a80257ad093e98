"""From videos to decisions, on the stand-in data set: every stage, none of them replaced."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

pytest.importorskip("av")
pytest.importorskip("cv2")
pytest.importorskip("onnxruntime")
pytest.importorskip("skimage")
pytest.importorskip("matplotlib")

from lpfuse_faces._detector import VideoDetector
from lpfuse_faces._extraction import extract_all
from lpfuse_faces._extractor import Extractor
from lpfuse_faces._settings import Settings
from lpfuse_faces._video import Sampling
from lpfuse_faces.stand_in import CONTROL, PHOTOGRAPHS, make_stand_in

SEED = 4711
SHORT = {"qualities": [23], "n_jobs": 1}
LEFT_OUT = ["resampled", "up-convolved"]
KINDS = [*LEFT_OUT, "smoothed", "warped"]


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    """Clips with their features, and a control that has no manipulation and scenes of its own."""
    folder = tmp_path_factory.mktemp("stand-in")
    clips = make_stand_in(
        folder / "clips", kinds=KINDS, seed=SEED, clips_per_face=4, frames=8, **SHORT
    )
    others = make_stand_in(
        folder / "control", kinds=[CONTROL], seed=SEED + 1, clips_per_face=4, frames=8, **SHORT
    )
    clips += [clip for clip in others if clip.kind == CONTROL]
    extractor = Extractor(Settings(sampling=Sampling(count=4)))
    found = extract_all([clip.path for clip in clips], extractor, n_jobs=2)
    assert not found.skipped
    return clips, {path: found.features[path] for path in found.features}


def trained(clips, features):
    detector = VideoDetector(random_state=SEED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # eight genuine videos are too few for a threshold
        return detector.fit(
            [features[clip.path] for clip in clips],
            [clip.label for clip in clips],
            groups=[clip.identities[0] for clip in clips],
        )


def auc(kind, collection):
    """Of a kind left out of training, on each photograph left out of it too; their mean."""
    clips, features = collection
    aucs = []
    for face in PHOTOGRAPHS:
        train = [clip for clip in clips if face not in clip.identities]
        train = [clip for clip in train if clip.kind not in (kind, CONTROL)]
        test = [clip for clip in clips if face in clip.identities and clip.kind in (None, kind)]
        scores = trained(train, features).score_samples([features[clip.path] for clip in test])
        aucs.append(roc_auc_score([clip.label for clip in test], scores))
    return np.mean(aucs)


def test_an_unseen_forgery_is_found_in_an_unseen_face(tmp_path):
    """The whole way on few and short clips, one photograph left out."""
    clips = make_stand_in(
        tmp_path, kinds=["up-convolved"], seed=SEED, clips_per_face=3, frames=2, **SHORT
    )
    found = extract_all(
        [clip.path for clip in clips], Extractor(Settings(sampling=Sampling(count=2)))
    )
    assert {(video.n_frames, video.n_without_face) for video in found.features.values()} == {(2, 0)}
    genuine = [clip for clip in clips if clip.split == "train" and not clip.is_forged]
    test = [clip for clip in clips if clip.split == "test"]
    scores = trained(genuine, found.features).score_samples([found.features[c.path] for c in test])
    assert roc_auc_score([clip.label for clip in test], scores) > 0.8


@pytest.mark.slow
def test_a_face_is_found_in_every_frame(collection):
    _, features = collection
    assert {(video.n_frames, video.n_without_face) for video in features.values()} == {(4, 0)}


@pytest.mark.slow
@pytest.mark.parametrize("kind", LEFT_OUT)
def test_unseen_forgeries_differ_from_genuine_videos_of_unseen_faces(kind, collection):
    assert auc(kind, collection) > 0.8


@pytest.mark.slow
def test_what_was_not_manipulated_is_not_told_apart(collection):
    assert 0.2 < auc(CONTROL, collection) < 0.8
