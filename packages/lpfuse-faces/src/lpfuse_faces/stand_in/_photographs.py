"""Photographs with a face that other packages ship, and where their faces are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import dist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpfuse_faces._extras import needed

# The numbers of the stand-in data set, here and in the files beside, were adjusted by hand on seeds
# 0 to 4 until forgeries could be told at all; docs/benchmarks/faces.md has other seeds.
FACE = 52.0  # pixels from the eyes to the mouth in every print: faces about 100 pixels wide
BRIGHTNESS, CONTRAST = 130.0, 38.0  # of the face in every print: mean and spread of its greys

_SOFTNESS = 1.5  # pixels: hides that one photograph was sharper than another
_EDGE = 0.2  # of the ellipse's radius: where a forgery fades into the frame
_PURPOSE = "Making the stand-in data set"


@dataclass(frozen=True)
class Photograph:
    """Where a picture is found, and where its face is, in its own pixels.

    Attributes
    ----------
    package, picture : str
        "skimage" or "matplotlib", and the name there.
    landmarks : tuple of five (x, y)
        The eyes, the nose and the corners of the mouth, as MTCNN finds them.
    centre, axes : (x, y)
        Of the ellipse that a forger replaces.
    """

    package: str
    picture: str
    landmarks: tuple[tuple[float, float], ...]
    centre: tuple[float, float]
    axes: tuple[float, float]


# All are free to use. Eileen Collins: NASA, in the public domain; the man with the camera:
# CC0 by Lav Varshney (docstrings of skimage.data.astronaut and camera). Grace Hopper: U.S. Navy, in
# the public domain (matplotlib's pull request 1599).
PHOTOGRAPHS: Mapping[str, Photograph] = {
    "astronaut": Photograph(
        "skimage",
        "astronaut",
        ((204, 101), (247, 103), (225, 129), (202, 139), (245, 142)),
        centre=(227, 121),
        axes=(42, 56),
    ),
    "camera": Photograph(
        "skimage",
        "camera",
        ((234, 147), (252, 150), (250, 168), (231, 180), (243, 181)),
        centre=(236, 164),
        axes=(26, 41),
    ),
    "hopper": Photograph(
        "matplotlib",
        "grace_hopper.jpg",
        ((221, 192), (310, 187), (269, 238), (234, 278), (307, 275)),
        centre=(268, 230),
        axes=(84, 112),
    ),
}


class Print(NamedTuple):
    """A photograph as the simulated camera sees it: of one scale, exposure and sharpness.

    Attributes
    ----------
    image : ndarray of shape (h, w, 3), float32
        From 0 to 255.
    mask : ndarray of shape (h, w), float32
        1 on the face, 0 off it, soft between.
    landmarks : ndarray of shape (5, 2)
        As (x, y).
    """

    image: NDArray[np.float32]
    mask: NDArray[np.float32]
    landmarks: NDArray[np.float64]


@cache
def print_of(name: str) -> Print:
    """Return the photograph of that name, with eyes and mouth `FACE` pixels apart.

    Prints differ in whom they show. Were they left to differ in size, contrast and sharpness too,
    these would tell faces apart more loudly than any forgery.
    """
    photograph = PHOTOGRAPHS[name]
    landmarks = np.array(photograph.landmarks, dtype=np.float64)
    scale = FACE / dist(landmarks[:2].mean(axis=0), landmarks[3:].mean(axis=0))
    image = _scaled(_picture(photograph), scale)
    mask = _ellipse(
        image.shape[:2], _moved(photograph.centre, scale), scale * np.array(photograph.axes)
    )
    image = _exposed(_softened(image), mask > 0.5)
    for array in (image, mask):
        array.flags.writeable = False
    return Print(image, mask, _moved(landmarks, scale))


def _picture(photograph: Photograph) -> NDArray[np.uint8]:
    """Its pixels, (h, w, 3)."""
    if photograph.package == "skimage":
        pixels = getattr(needed("skimage.data", _PURPOSE), photograph.picture)()
    else:
        samples, images = (needed(f"matplotlib.{part}", _PURPOSE) for part in ("cbook", "image"))
        with samples.get_sample_data(photograph.picture) as file:
            pixels = images.imread(file, format="jpg")
    return pixels if pixels.ndim == 3 else np.repeat(pixels[..., None], 3, axis=2)


def _scaled(pixels: NDArray[np.uint8], scale: float) -> NDArray[np.float32]:
    cv2 = needed("cv2", _PURPOSE)
    how = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    return cv2.resize(pixels.astype(np.float32), None, fx=scale, fy=scale, interpolation=how)


def _moved(points: Any, scale: float) -> NDArray[np.float64]:
    """Return where points are in the scaled picture; whole numbers are the centres of pixels."""
    return (np.asarray(points) + 0.5) * scale - 0.5


def _ellipse(
    shape: tuple[int, int], centre: NDArray[np.float64], axes: NDArray[np.float64]
) -> NDArray[np.float32]:
    y, x = np.indices(shape)
    radius = np.hypot((x - centre[0]) / axes[0], (y - centre[1]) / axes[1])
    return np.clip((1 - radius) / _EDGE, 0, 1).astype(np.float32)


def _exposed(image: NDArray[np.float32], inside: NDArray[np.bool_]) -> NDArray[np.float32]:
    grey = image[inside].mean(axis=1)
    exposed = (image - grey.mean()) * (CONTRAST / grey.std()) + BRIGHTNESS
    return np.clip(exposed, 0, 255)


def _softened(image: NDArray[np.float32]) -> NDArray[np.float32]:
    return needed("cv2", _PURPOSE).GaussianBlur(image, (0, 0), _SOFTNESS)
