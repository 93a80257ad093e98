"""The stand-in data set: what is filmed, what is forged, and what is written."""

from __future__ import annotations

import sys
from itertools import islice

import numpy as np
import pytest

pytest.importorskip("av")
pytest.importorskip("cv2")
pytest.importorskip("skimage")
pytest.importorskip("matplotlib")

from helpers.cases import cases
from lpfuse_faces._detection.mtcnn import MTCNN
from lpfuse_faces._video import frames_of
from lpfuse_faces.clips import check_disjoint, read_clips
from lpfuse_faces.stand_in import CONTROL, FAMILIES, PHOTOGRAPHS, make_stand_in
from lpfuse_faces.stand_in import _photographs as photographs_module
from lpfuse_faces.stand_in._collection import GENUINE, Scene
from lpfuse_faces.stand_in._filming import Shot, Take
from lpfuse_faces.stand_in._manipulations import _around, _transposed_convolution, forged
from lpfuse_faces.stand_in._photographs import FACE, print_of

SEED = 77
FACES = list(PHOTOGRAPHS)
SMALL = {"qualities": [23], "clips_per_face": 1, "frames": 3, "size": 128, "seed": SEED}


def take(face, name=0, size=256):
    return Take(face, np.random.SeedSequence([SEED, name]), size)


def shot_of(image, mask=None):
    """A shot whose face fills the picture."""
    image = np.asarray(image, dtype=np.uint8)
    height, width = image.shape[:2]
    landmarks = np.array([[0.3, 0.3], [0.7, 0.3], [0.5, 0.5], [0.35, 0.75], [0.65, 0.75]])
    mask = np.ones((height, width), dtype=np.float32) if mask is None else mask
    return Shot(image, mask, landmarks * [width, height])


def forge(shot, family, other=None, seed=SEED):
    others = iter([shot if other is None else other])
    return next(forged(iter([shot]), family, np.random.default_rng(seed), others))


def grey_noise(size=64, seed=0):
    noise = np.random.default_rng(seed).integers(115, 142, (size, size, 1))
    return np.repeat(noise, 3, axis=2).astype(np.uint8)


def high_share(image):
    """The share of energy above a quarter of a cycle per pixel."""
    grey = image.mean(axis=2)
    power = np.abs(np.fft.fft2(grey - grey.mean())) ** 2
    frequency = np.abs(np.fft.fftfreq(len(grey)))
    return power[np.maximum.outer(frequency, frequency) > 0.25].sum() / power.sum()


# -------------------------------------------------------------------------------- photographs


@pytest.mark.parametrize("face", FACES)
def test_prints_show_faces_of_one_size_and_exposure(face):
    image, mask, landmarks = print_of(face)
    assert image.shape[:2] == mask.shape
    eyes, mouth = landmarks[:2].mean(axis=0), landmarks[3:].mean(axis=0)
    assert np.linalg.norm(eyes - mouth) == pytest.approx(FACE)
    greys = image[mask > 0.5].mean(axis=1)
    assert greys.mean() == pytest.approx(130, abs=2)
    assert greys.std() == pytest.approx(38, abs=2)
    x, y = np.rint(landmarks).astype(int).T
    assert (mask[y, x] > 0).all()


def test_a_missing_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "skimage.data", None)
    with pytest.raises(ImportError, match=r'pip install "lpfuse-faces"'):
        photographs_module._picture(PHOTOGRAPHS["astronaut"])


# ------------------------------------------------------------------------------------ filming


@pytest.mark.parametrize("face", FACES)
def test_landmarks_of_a_shot_match_the_detector(face):
    shots = list(take(face).shots(9))[::8]
    found = MTCNN().detect([shot.image for shot in shots])
    for shot, faces in zip(shots, found, strict=True):
        assert len(faces.boxes) >= 1
        largest = np.argmax(np.prod(faces.boxes[:, 2:] - faces.boxes[:, :2], axis=1))
        apart = np.linalg.norm(faces.landmarks[largest] - shot.landmarks, axis=1)
        assert apart.mean() < 0.15 * FACE


def test_the_picture_follows_the_landmarks():
    """What the frame shows at a landmark is what the print shows there, whatever the pose."""
    scene = take("astronaut")
    scene._surface = np.stack(np.meshgrid(*map(np.arange, (600, 600))), axis=-1).astype(np.float32)
    pose, bumps = scene._pose(0.3), scene._bumps(0.3)
    x, y = scene._seen_points(pose, bumps)
    places = scene._seen_landmarks(pose, bumps)
    for place, landmark in zip(places, scene._landmarks, strict=True):
        column, row = np.rint(place).astype(int)
        assert np.hypot(x[row, column] - landmark[0], y[row, column] - landmark[1]) < 2


def test_a_scene_moves_smoothly():
    landmarks = np.array([shot.landmarks for shot in take("hopper").shots(25)])
    steps = np.linalg.norm(np.diff(landmarks, axis=0), axis=2)
    assert steps.max() < 4
    assert np.linalg.norm(landmarks[-1] - landmarks[0], axis=1).max() > 1
    # Not rigid: the mouth moves against the eyes.
    length = np.linalg.norm(landmarks[:, 3:].mean(axis=1) - landmarks[:, :2].mean(axis=1), axis=1)
    width = np.linalg.norm(landmarks[:, 1] - landmarks[:, 0], axis=1)
    assert np.ptp(length / width) > 0.01


def test_a_take_is_repeatable_and_noise_differs_between_frames():
    scene = take("camera", size=64)
    first, again = (list(scene.shots(2)) for _ in range(2))
    for one, other in zip(first, again, strict=True):
        for part, same in zip(one, other, strict=True):
            np.testing.assert_array_equal(part, same)
    assert (first[0].image != first[1].image).mean() > 0.5


def test_noise_grows_with_the_light():
    scene = take("astronaut", size=64)
    rng = np.random.default_rng(SEED)
    dark, bright = (
        scene._sensed(np.full((64, 64, 3), level, dtype=np.float32), rng) for level in (20, 200)
    )
    assert dark.mean() == pytest.approx(20, abs=0.2)
    assert bright.mean() == pytest.approx(200, abs=0.2)
    shot, read = scene._shot_noise, scene._read_noise
    for image, level in ((dark, 20), (bright, 200)):
        assert image.var() == pytest.approx(shot * level + read**2 + 1 / 12, rel=0.1)


# ------------------------------------------------------------------------------ manipulations


@pytest.mark.parametrize("family", FAMILIES)
def test_a_forgery_alters_the_face_and_nothing_else(family):
    shots = list(take("hopper", size=192).shots(2))
    others = take("hopper", name=1, size=192).shots(2)
    frames = list(forged(iter(shots), family, np.random.default_rng(SEED), others))
    for shot, frame in zip(shots, frames, strict=True):
        assert frame.dtype == np.uint8
        outside, inside = shot.mask == 0, shot.mask == 1
        assert outside.any()
        assert inside.any()
        np.testing.assert_array_equal(frame[outside], shot.image[outside])
        assert (frame[inside] != shot.image[inside]).mean() > 0.3
        # The same face still: no more than its detail changes.
        assert np.abs(frame[inside].astype(float) - shot.image[inside]).mean() < 25


def test_the_control_returns_every_frame_exactly():
    scene = Scene("astronaut", 0, GENUINE, SEED)
    control = Scene("astronaut", 0, CONTROL, SEED)
    for genuine, untouched in zip(scene.frames(2, 128), control.frames(2, 128), strict=True):
        np.testing.assert_array_equal(untouched, genuine)


@cases("seed", range(4))
def test_the_region_holds_all_of_the_mask(seed):
    left, right, top, bottom = np.sort(np.random.default_rng(seed).integers(0, 40, (2, 2))).ravel()
    mask = np.zeros((40, 40), dtype=np.float32)
    mask[top : bottom + 1, left : right + 1] = 0.1
    rows, columns = _around(mask)
    assert np.count_nonzero(mask[rows, columns]) == np.count_nonzero(mask)
    assert [end % 2 for part in (rows, columns) for end in (part.start, part.stop)] == [0] * 4
    assert mask[rows, columns].shape == (rows.stop - rows.start, columns.stop - columns.start)
    assert mask[rows, columns].size <= (bottom - top + 3) * (right - left + 3)


def test_a_soft_mask_mixes_in_proportion():
    image = grey_noise()
    mask = np.linspace(0, 1, 64, dtype=np.float32) * np.ones((64, 1), dtype=np.float32)
    whole = forge(shot_of(image), "resampled").astype(float)
    soft = forge(shot_of(image, mask), "resampled").astype(float)
    # The region starts where the mask does: the same in both cases, up to its first, empty column.
    expected = image + mask[..., None] * (whole - image)
    np.testing.assert_allclose(soft, expected, atol=1.01)


@pytest.mark.parametrize("family", ["resampled", "smoothed", "blended", "warped"])
def test_high_frequencies_are_lost(family):
    image = grey_noise(96)
    turned = shot_of(image)._replace(landmarks=shot_of(image).landmarks * 0.93 + 2.5)
    for seed in range(4):
        after = forge(shot_of(image), family, turned, seed=seed)
        assert high_share(after) < 0.9 * high_share(image)
        assert after.mean() == pytest.approx(image.mean(), abs=3)


def test_up_convolution_leaves_period_two_patterns_and_spectral_copies():
    flat = np.full((64, 64, 3), 128)
    pattern = forge(shot_of(flat), "up-convolved")[8:-8, 8:-8, 0].astype(float)
    power = np.abs(np.fft.fft2(pattern - pattern.mean())) ** 2
    half = len(pattern) // 2
    peaks = power[0, half] + power[half, 0] + power[half, half]
    assert peaks > 0.95 * power.sum() > 0
    assert pattern.mean() == pytest.approx(128, abs=1)

    wave = 128 + 60 * np.cos(2 * np.pi * 4 / 48 * np.arange(64))
    striped = np.broadcast_to(wave[None, :, None], (64, 64, 3))
    after = forge(shot_of(striped), "up-convolved")[8:-8, 8:-8, 0].astype(float)
    spectrum = np.abs(np.fft.fft(after.mean(axis=0)))
    copy, elsewhere = spectrum[half - 4], spectrum[half - 12 : half - 5].max()
    assert copy > 3 * elsewhere


def test_a_transposed_convolution_adds_a_kernel_for_every_sample():
    rng = np.random.default_rng(0)
    small, kernel = rng.random((5, 6, 3)).astype(np.float32), rng.random((4, 4))
    naive = np.zeros((14, 16, 3))
    for i, j in np.ndindex(5, 6):
        naive[2 * i + 1 : 2 * i + 5, 2 * j + 1 : 2 * j + 5] += kernel[..., None] * small[i, j]
    grown = _transposed_convolution(small, kernel)
    assert grown.shape == (10, 12, 3)
    np.testing.assert_allclose(grown[2:-2, 2:-2], naive[2:-2, 2:-2][2:-2, 2:-2], rtol=1e-5)


def test_up_convolution_keeps_what_is_coarse():
    y, x = np.mgrid[:64, :64]
    smooth = np.repeat((100 + x + 0.5 * y)[..., None], 3, axis=2)
    after = forge(shot_of(smooth), "up-convolved").astype(float)
    blocks = (after - smooth).reshape(32, 2, 32, 2, 3).mean(axis=(1, 3))
    assert np.abs(blocks[4:-4, 4:-4]).max() < 1


def test_warping_moves_pixels_by_little_and_keeps_their_values():
    y, x = np.mgrid[:64, :64]
    ramp = np.stack([3 * x, 3 * y, 0 * x], axis=-1)
    after = forge(shot_of(ramp), "warped").astype(float)
    moved = (after - ramp)[4:-4, 4:-4, :2] / 3
    assert 0.3 < np.abs(moved).max() < 0.03 * 64 + 1
    # Smoothly: neighbours move together.
    assert np.abs(np.diff(moved, axis=0)).max() < 0.7
    assert (after[..., 2] == 0).all()


def test_blending_fits_another_face_in_place_and_colour():
    y, x = np.mgrid[:96, :96] / 96
    here = np.stack([100 + 60 * x, 120 + 60 * x, 90 + 60 * x], axis=-1)
    there = np.stack([60 + 40 * y, 60 + 40 * y, 60 + 40 * y], axis=-1)
    other = shot_of(there)
    after = forge(shot_of(here), "blended", other).astype(float)
    assert after.mean(axis=(0, 1)) == pytest.approx(here.mean(axis=(0, 1)), abs=2)
    down = np.corrcoef(after[..., 0].ravel(), y.ravel())[0, 1]
    across = np.corrcoef(after[..., 0].ravel(), x.ravel())[0, 1]
    assert down > 0.9 > 0.5 > across

    # Shown smaller and elsewhere, it lands in the same place.
    half = np.zeros((96, 96, 3))
    half[20:68, 10:58] = there[::2, ::2]
    moved = Shot(half.astype(np.uint8), other.mask, other.landmarks / 2 + [10, 20])
    landed = forge(shot_of(here), "blended", moved).astype(float)
    assert np.abs(landed - after)[4:-4, 4:-4].mean() < 2


def test_only_blending_looks_at_another_take():
    def fail():
        raise AssertionError("looked")
        yield

    shot = shot_of(grey_noise())
    for family in {*FAMILIES, CONTROL} - {"blended"}:
        next(forged(iter([shot]), family, np.random.default_rng(0), fail()))


# --------------------------------------------------------------------------------- collection


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stand-in")
    return folder, make_stand_in(folder, test_face="camera", **SMALL)


def test_every_face_has_every_kind(collection):
    folder, clips = collection
    found = {(*clip.identities, clip.kind) for clip in clips}
    assert found == {(face, kind) for face in FACES for kind in (None, *FAMILIES)}
    assert len(clips) == len(found)
    assert {clip.label for clip in clips if clip.kind is None} == {1}
    assert {clip.label for clip in clips if clip.kind is not None} == {-1}
    assert folder / "c23" / "genuine" / "astronaut-00.mp4" in {clip.path for clip in clips}
    assert folder / "c23" / "warped" / "hopper-00.mp4" in {clip.path for clip in clips}


def test_no_face_is_in_two_splits(collection):
    _, clips = collection
    check_disjoint(clips)
    of_split = {
        split: {clip.identities[0] for clip in clips if clip.split == split}
        for split in ("train", "val", "test", None)
    }
    assert of_split == {
        "train": {"astronaut", "hopper"},
        "val": set(),
        "test": {"camera"},
        None: set(),
    }


def test_the_list_of_clips_reads_back(collection):
    folder, clips = collection
    assert sorted(read_clips(folder), key=lambda clip: clip.path) == sorted(
        clips, key=lambda clip: clip.path
    )


def test_clips_decode_to_the_frames_promised(collection):
    _, clips = collection
    for clip in clips:
        images = [frame.image for frame in frames_of(clip.path)]
        assert [image.shape for image in images] == [(128, 128, 3)] * 3


def test_a_clip_decodes_to_what_was_filmed(collection):
    _, clips = collection
    face, kind = "hopper", "warped"
    (clip,) = [c for c in clips if c.identities == (face,) and c.kind == kind]
    filmed = Scene(face, 0, kind, SEED).frames(3, 128)
    for frame, image in zip(frames_of(clip.path), filmed, strict=True):
        assert np.abs(frame.image.astype(float) - image).mean() < 8


def test_a_clip_does_not_depend_on_what_else_is_made(collection, tmp_path):
    folder, _ = collection
    changed = {**SMALL, "clips_per_face": 2, "kinds": ["blended"], "qualities": [40, 23]}
    calls = []
    clips = make_stand_in(tmp_path, **changed, n_jobs=2, progress=lambda *done: calls.append(done))
    for place in ("c23/genuine/camera-00.mp4", "c23/blended/hopper-00.mp4"):
        assert (tmp_path / place).read_bytes() == (folder / place).read_bytes()
    assert len(clips) == 3 * 2 * 2 * 2
    assert calls == [(done, 12) for done in range(1, 13)]
    sizes = {
        quality: sum(clip.path.stat().st_size for clip in clips if clip.quality == quality)
        for quality in ("c23", "c40")
    }
    assert sizes["c40"] < 0.7 * sizes["c23"]


def test_a_blended_face_comes_from_another_take():
    genuine, blended = (
        next(iter(Scene("hopper", 0, kind, SEED).frames(1, 128))).astype(float)
        for kind in (GENUINE, "blended")
    )
    assert np.abs(genuine - blended)[44:84, 44:84].mean() > 5


def test_clips_differ_by_seed_number_and_face():
    scenes = [
        Scene("camera", 0, GENUINE, SEED),
        Scene("camera", 1, GENUINE, SEED),
        Scene("camera", 0, GENUINE, SEED + 1),
        Scene("hopper", 0, GENUINE, SEED),
    ]
    firsts = [next(islice(scene.frames(1, 64), 1)).astype(float) for scene in scenes]
    for k, one in enumerate(firsts):
        for other in firsts[k + 1 :]:
            assert np.abs(one - other).mean() > 5


@cases(
    ("wrong", "message"),
    [
        ({"kinds": ["swapped"]}, "kinds must be one of 'resampled'"),
        ({"test_face": "chelsea"}, "test_face must be one of 'astronaut'"),
        ({"qualities": [60]}, "qualities must be a finite number at least 0 and at most 51"),
        ({"size": 97}, "size must be even, got 97"),
        ({"frames": 0}, "frames must be a whole number from 1"),
        ({"clips_per_face": 1.5}, "clips_per_face must be a whole number from 1"),
    ],
)
def test_what_cannot_be_made_is_refused_before_anything_is_written(tmp_path, wrong, message):
    with pytest.raises(ValueError, match=message):
        make_stand_in(tmp_path / "new", **{**SMALL, **wrong})
    assert not (tmp_path / "new").exists()
