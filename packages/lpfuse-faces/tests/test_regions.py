import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.pairwise import each_value, pairwise
from lpfuse_faces._detection.tracking import Face
from lpfuse_faces._regions import LUMA, REGIONS, crop, outline

# Seen from the middle of the face, as it stands upright.
LANDMARKS = np.array([[-15, -12], [15, -12], [1, 4], [-10, 17], [12, 19]], dtype=float)
SIDES = {"face": 60, "mouth": 42, "nose": 36}  # 1.2 · 50, 1.4 · 30, and 1.1 · 30 made fast
CENTRES = {"face": [0, 0], "mouth": [1, 18], "nose": [1, 4]}
ANGLES = (-90, -64, -45.5, -44, -9, -0.3, 0, 0.3, 2, 25, 44, 46, 90)


def turn(degrees):
    angle = np.deg2rad(degrees)
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def face_at(x, y, degrees=0.0):
    box = np.array([x - 25, y - 20, x + 25, y + 20])
    return Face(box, 1.0, LANDMARKS @ turn(degrees).T + [x, y])


def random_frame(height=140, width=150, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (height, width, 3), dtype=np.uint8)


def sources(face, region, degrees):
    """Where in the frame each pixel of a region comes from: (side, side, 2)."""
    side = SIDES[region]
    offsets = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1) - side // 2
    middle = (face.box[:2] + face.box[2:]) / 2
    return np.rint(middle + turn(degrees) @ CENTRES[region]) + offsets @ turn(degrees).T


@pytest.mark.parametrize("region", REGIONS)
def test_level_eyes_leave_pixels_as_they_are(region):
    frame = random_frame()
    before = frame.copy()
    face = face_at(70, 68)
    x, y = sources(face, region, 0).astype(int).transpose(2, 0, 1)
    np.testing.assert_array_equal(crop(frame, face, region, grey=False), frame[y, x])
    grey = crop(frame, face, region)
    assert grey.dtype == np.float32
    np.testing.assert_allclose(grey, frame[y, x] @ [0.299, 0.587, 0.114], rtol=1e-5)
    np.testing.assert_array_equal(frame, before)


@each_value(degrees=ANGLES, region=REGIONS)
def test_every_pixel_comes_from_its_place_in_the_turned_face(region, degrees):
    # Red tells the column of a pixel, green its row.
    columns, rows = np.meshgrid(np.arange(170), np.arange(160))
    frame = np.stack([columns, rows, np.zeros_like(rows)], axis=-1).astype(np.uint8)
    face = face_at(83, 78, degrees)
    cut = crop(frame, face, region, grey=False).astype(float)
    np.testing.assert_allclose(cut[..., :2], sources(face, region, degrees), atol=0.65)


@each_value(degrees=ANGLES, region=REGIONS)
def test_a_turned_head_gives_the_same_region(region, degrees):
    def frame_of(points):
        x, y = points[..., 0], points[..., 1]
        values = np.sin(0.9 * x + 0.2 * y) + np.sin(0.4 * x - 1.1 * y) + np.exp(-(x**2) / 300)
        return 120 + 50 * values[..., None] * LUMA

    x, y = np.meshgrid(np.arange(170), np.arange(160))
    middle = np.array([83, 78])
    face = face_at(*middle, degrees)
    tilted = frame_of((np.stack([x, y], axis=-1) - middle) @ turn(degrees))
    cut = crop(tilted, face, region)
    expected = frame_of((sources(face, region, degrees) - middle) @ turn(degrees)) @ LUMA
    np.testing.assert_allclose(cut, expected, atol=0.2)


def test_colours_stay_between_black_and_white():
    stripes = np.tile(np.repeat(np.array([0, 255], np.uint8), 75)[:, None], (140, 1, 3))
    face = face_at(74, 70, 10)
    brightness, colours = crop(stripes, face, "face"), crop(stripes, face, "face", grey=False)
    assert brightness.min() < -5
    np.testing.assert_allclose(colours[..., 1], brightness.clip(0, 255), atol=0.51)


@pytest.mark.parametrize("degrees", [0.5, 1, 10, 30, 45])
def test_turning_damps_no_frequency(degrees):
    def amplitudes(angle):
        """Of noise, over eight rings of frequencies, by root mean square."""
        patches = [crop(random_frame(seed=k), face_at(74, 70, angle), "face") for k in range(24)]
        side = len(patches[0])
        window = np.hanning(side)[:, None] * np.hanning(side)
        powers = [np.abs(np.fft.fft2((p - p.mean()) * window)) ** 2 for p in patches]
        frequencies = np.fft.fftfreq(side)
        rings = (np.hypot(frequencies[:, None], frequencies) * 16).astype(int).ravel()
        return np.sqrt(np.bincount(rings, np.mean(powers, axis=0).ravel()) / np.bincount(rings))[:8]

    np.testing.assert_allclose(amplitudes(degrees)[1:], amplitudes(0)[1:], rtol=0.05)


@pytest.mark.parametrize("degrees", [1, 10, 30])
def test_the_ends_of_rows_do_not_ring(degrees):
    # Black on the left, white on the right: a step where a row's end meets its start.
    ramp = np.tile(np.linspace(0, 255, 150).round().astype(np.uint8)[:, None], (140, 1, 3))
    cut = crop(ramp, face_at(74, 70, degrees), "face")
    alternating = (-1.0) ** np.arange(60)
    window = np.hanning(60)
    strengths = [
        np.abs(window * alternating @ (plane * window)).max() / (window**2).sum()
        for plane in (cut, cut.T)
    ]
    assert max(strengths) < 0.35


@pairwise(
    degrees=[0, 12, -50, 90],
    place=[(3, 5), (149, 60), (75, 139), (148, 0)],
    region=REGIONS,
)
def test_beyond_its_borders_a_frame_is_mirrored(region, place, degrees):
    frame = random_frame()
    wide = np.pad(frame, [(100, 100), (100, 100), (0, 0)], mode="reflect")
    face = face_at(*(place - turn(degrees) @ CENTRES[region]), degrees)
    shifted = Face(face.box + 100, 1.0, face.landmarks + 100)
    np.testing.assert_allclose(crop(frame, face, region), crop(wide, shifted, region), atol=0.02)


@each_value(
    shape=[(1, 1), (5, 200), (30, 30)],
    place=[(-80, 10), (10, 400), (2, 2)],
    degrees=[0, 20],
)
def test_any_frame_and_any_place_give_a_region(shape, place, degrees):
    frame = random_frame(*shape)
    for region in REGIONS:
        cut = crop(frame, face_at(*place, degrees), region)
        assert cut.shape == (SIDES[region], SIDES[region])
        assert np.isfinite(cut).all()


@given(width=st.floats(0.5, 300), height=st.floats(0.5, 300), eyes=st.floats(0, 150))
def test_sides_are_even_fast_and_little_larger_than_asked_for(width, height, eyes):
    landmarks = np.array([[50, 40], [50 + eyes, 40], [60, 50], [50, 60], [70, 60]])
    face = Face(np.array([40, 30, 40 + width, 30 + height]), 1.0, landmarks)
    frame = np.zeros((8, 8, 3), dtype=np.uint8)
    asked = {"face": 1.2 * max(width, height), "mouth": 1.4 * eyes, "nose": 1.1 * eyes}
    for region, size in asked.items():
        side = len(crop(frame, face, region))
        assert max(16, size - 0.5) <= side <= max(16, 1.1 * size + 2)
        rest = side
        for prime in (2, 3, 5, 7, 11):
            while rest % prime == 0:
                rest //= prime
        assert side % 2 == 0
        assert rest == 1


@each_value(degrees=[0, 17, -70], region=REGIONS)
def test_outlines_go_around_what_is_cut_out(region, degrees):
    face = face_at(83, 78, degrees)
    places = sources(face, region, degrees)
    corners = places[[0, 0, -1, -1], [0, -1, -1, 0]]
    np.testing.assert_allclose(outline(face, region), corners, atol=1.5)
    np.testing.assert_allclose(outline(face, region)[0], corners[0], atol=1e-9)


@pytest.mark.parametrize("function", [outline, lambda *where: crop(random_frame(), *where)])
def test_an_unknown_region_is_refused(function):
    with pytest.raises(
        ValueError, match="region must be one of 'face', 'mouth', 'nose'; got 'ear'"
    ):
        function(face_at(70, 70), "ear")
