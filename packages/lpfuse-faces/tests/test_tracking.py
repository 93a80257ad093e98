"""One face a frame: the largest, or the one that was followed so far."""

import numpy as np
import pytest

from lpfuse_faces._detection.mtcnn import Faces
from lpfuse_faces._detection.tracking import PATIENCE, SAME_FACE, FaceChooser


def faces(*boxes):
    n = len(boxes)
    landmarks = np.arange(10 * n, dtype=np.float32).reshape(n, 5, 2)
    scores = np.linspace(0.9, 0.8, n, dtype=np.float32)
    return Faces(np.float32(boxes).reshape(n, 4), scores, landmarks)


SMALL, LARGE = [0, 0, 40, 40], [100, 0, 200, 100]


def shifted(box, x):
    return [box[0] + x, box[1], box[2] + x, box[3]]


@pytest.mark.parametrize("how", ["largest", "tracked"])
def test_it_starts_with_the_largest_and_keeps_its_parts_together(how):
    found = faces(SMALL, LARGE, SMALL)
    chosen = FaceChooser(how)(found)
    assert chosen.box.tolist() == LARGE
    assert chosen.score == pytest.approx(0.85)
    assert isinstance(chosen.score, float)
    np.testing.assert_array_equal(chosen.landmarks, found.landmarks[1])


@pytest.mark.parametrize("how", ["largest", "tracked"])
def test_no_face_is_none(how):
    chooser = FaceChooser(how)
    assert chooser(faces()) is None
    assert chooser(faces(SMALL)).box.tolist() == SMALL


def test_the_largest_has_no_memory():
    chooser = FaceChooser("largest")
    chooser(faces(SMALL))
    assert chooser(faces(SMALL, LARGE)).box.tolist() == LARGE


def test_a_track_follows_a_moving_face_past_a_larger_one():
    chooser = FaceChooser("tracked")
    start = [0, 0, 60, 60]
    chooser(faces(start))
    for step in range(1, 30):
        expected = shifted(start, 10 * step)
        assert chooser(faces(LARGE, expected)).box.tolist() == expected


def test_of_several_that_overlap_the_closest_is_taken():
    chooser = FaceChooser("tracked")
    chooser(faces(LARGE))
    near, nearer, far = shifted(LARGE, 20), shifted(LARGE, -10), shifted(LARGE, 300)
    assert chooser(faces(near, nearer, far)).box.tolist() == nearer


def test_how_little_overlap_is_still_the_same_face():
    def overlap(x):
        return (100 - x) / (100 + x)

    same = next(x for x in range(100, 0, -1) if overlap(x) > SAME_FACE)
    for x, expected in ((same, True), (same + 1, False)):
        chooser = FaceChooser("tracked")
        chooser(faces(LARGE))
        assert (chooser(faces(shifted(LARGE, x))) is not None) == expected


@pytest.mark.parametrize("meanwhile", [faces(), faces(SMALL)])
def test_a_lost_face_is_waited_for_and_then_given_up(meanwhile):
    back, lost = FaceChooser("tracked"), FaceChooser("tracked")
    for chooser, frames in ((back, PATIENCE - 1), (lost, PATIENCE)):
        chooser(faces(LARGE))
        assert [chooser(meanwhile) for _ in range(frames)] == [None] * frames
    assert back(faces(SMALL)) is None
    assert lost(faces(SMALL)).box.tolist() == SMALL
    assert lost(faces(SMALL, LARGE)).box.tolist() == SMALL


def test_patience_counts_frames_in_a_row():
    chooser = FaceChooser("tracked")
    for _ in range(3):
        assert chooser(faces(SMALL, LARGE)).box.tolist() == LARGE
        assert [chooser(faces(SMALL)) for _ in range(PATIENCE - 1)] == [None] * (PATIENCE - 1)


def test_how_is_checked():
    with pytest.raises(ValueError, match="how must be one of 'largest', 'tracked'; got 'first'"):
        FaceChooser("first")
