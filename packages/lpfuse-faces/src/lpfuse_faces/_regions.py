"""Three regions of a face, cut out with the eyes level and no frequency damped.

Who looks for forgery in spectra must not change them while cutting. Interpolation does: white noise
turned by bilinear interpolation keeps 53 % of its amplitude near half a cycle per pixel, by
OpenCV's bicubic 75 %, by its Lanczos kernel of eight taps 83 %. The loss does not grow with the
angle but is there from one degree on, so that a level face and a tilted one would differ as a
camera's picture and a resampled one do. In smooth pictures the bicubic kernel also leaves a faint
copy of the spectrum, near 0.4 cycles per pixel.

A turn is three shears [1]_, and a shear shifts each row as a whole. Done on its Fourier
coefficients [2]_, a shift changes phases alone: noise turned by 1 to 30 degrees keeps 99 to 101 %
of its amplitude at every frequency, in no more time than the Lanczos kernel takes.

References
----------
.. [1] Paeth, A. W. (1986). A fast algorithm for general raster rotation. Graphics Interface '86,
   77–81.
.. [2] Unser, M., Thévenaz, P. and Yaroslavsky, L. (1995). Convolution-based interpolation for
   fast, high-quality rotation of images. IEEE Transactions on Image Processing 4(10), 1371–1381.
"""

from __future__ import annotations

from functools import lru_cache
from math import atan2, ceil, cos, hypot, pi, sin, tan
from typing import NamedTuple

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from lpfuse._validation.params import check_choice
from lpfuse_faces._detection.tracking import Face

REGIONS = ("face", "mouth", "nose")
"""The regions of a face."""

SMALLEST = 16
"""The least side of a region in pixels. By hand."""

LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)
"""Weights of red, green and blue in what the eye takes for brightness (ITU-R BT.601)."""

_MARGIN = 8  # pixels around what is turned, over which the picture fades; by hand


def crop(
    image: NDArray[np.uint8], face: Face, region: str, *, grey: bool = True
) -> NDArray[np.float32] | NDArray[np.uint8]:
    """One region of a face at the resolution of the frame, turned until the eyes are level.

    A square. Its side is 1.2 times the larger side of the box (face), or 1.4 (mouth) and 1.1
    (nose) times the distance of the eyes, made even, at least 16 and fast to transform. Its
    centre, a whole pixel, is that of the box, the middle of the mouth's corners, or the nose.

    Parameters
    ----------
    image : uint8 array of shape (H, W, 3)
        The frame, red first.
    face : Face
        Where the face is.
    region : {"face", "mouth", "nose"}
        What to cut out.
    grey : bool, default=True
        Whether brightness alone is wanted, as spectra do.

    Returns
    -------
    array of shape (s, s) or (s, s, 3)
        Brightness as float32, not rounded: a second rounding would add noise that untouched
        pixels do not have. With ``grey=False`` the colours as uint8, for the eye.

    Notes
    -----
    Eyes that are level already leave pixels exactly as they are. Beyond its borders the frame is
    continued by its mirror image. A face in profile has its eyes close together, and small regions.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse_faces._regions import crop
    >>> from lpfuse_faces._detection.tracking import Face
    >>> image = np.random.default_rng(0).integers(0, 256, (120, 160, 3), dtype=np.uint8)
    >>> eyes, nose, mouth = [[60, 50], [90, 50]], [[75, 65]], [[64, 80], [88, 80]]
    >>> face = Face(np.array([45, 20, 105, 100]), 1.0, np.array(eyes + nose + mouth))
    >>> {region: crop(image, face, region).shape for region in ("face", "mouth", "nose")}
    {'face': (96, 96), 'mouth': (42, 42), 'nose': (36, 36)}
    >>> bool((crop(image, face, "nose", grey=False) == image[47:83, 57:93]).all())
    True
    """
    planes = _turned(image, _square(face, region), grey)
    if grey:
        return planes[0]
    return np.moveaxis(np.rint(planes).clip(0, 255).astype(np.uint8), 0, -1)


def outline(face: Face, region: str) -> NDArray[np.float64]:
    """Return the corners of a region in its frame.

    Parameters
    ----------
    face : Face
        Where the face is.
    region : {"face", "mouth", "nose"}
        What is to be outlined.

    Returns
    -------
    ndarray of shape (4, 2)
        From the top left corner of the cut region clockwise, each (x, y).
    """
    square = _square(face, region)
    x, y = np.array([[-1, 1, 1, -1], [-1, -1, 1, 1]]) * square.side / 2
    c, s = cos(square.angle), sin(square.angle)
    return square.centre + np.column_stack([c * x - s * y, s * x + c * y])


class _Square(NamedTuple):
    """Where a region is: its centre (x, y), its side, and the angle of its rows to the frame's."""

    centre: NDArray[np.float64]
    side: int
    angle: float


def _square(face: Face, region: str) -> _Square:
    check_choice("region", region, REGIONS)
    left_eye, right_eye, nose, *mouth = np.asarray(face.landmarks, dtype=np.float64)
    eyes = right_eye - left_eye
    # The factors are by hand: the paper names the regions, and does not say how large they are.
    if region == "face":
        corners = np.asarray(face.box, dtype=np.float64).reshape(2, 2)
        centre, size = corners.mean(axis=0), 1.2 * (corners[1] - corners[0]).max()
    elif region == "mouth":
        centre, size = np.mean(mouth, axis=0), 1.4 * hypot(*eyes)
    else:
        centre, size = nose, 1.1 * hypot(*eyes)
    side = _fast_side(max(SMALLEST, round(size)))
    return _Square(np.rint(centre), side, atan2(eyes[1], eyes[0]))


@lru_cache(maxsize=4096)
def _fast_side(least: int) -> int:
    """Return the next even length with prime factors up to 11.

    A few per cent more, fast to transform.
    """
    side = scipy.fft.next_fast_len(least)
    return side if side % 2 == 0 else _fast_side(side + 1)


def _turned(image: NDArray[np.uint8], square: _Square, grey: bool) -> NDArray[np.float32]:
    """Planes (1 or 3, side, side) of a square.

    With I the frame seen from the centre, the result is ``P(d) = I(R d)``. The turn R is first
    some quarters, which move whole pixels, and then at most an eighth, by shears.
    """
    half = square.side // 2
    quarters = round(square.angle / (pi / 2))
    angle = square.angle - quarters * (pi / 2)
    if angle == 0.0:
        return _quarters(_window(image, square.centre, half, grey), quarters)
    reach = ceil(half * (cos(angle) + abs(sin(angle)))) + _MARGIN
    reach = _fast_side(2 * reach) // 2
    planes = _quarters(_window(image, square.centre, reach, grey), quarters)
    return _by_shears(planes, angle, half)


def _window(
    image: NDArray[np.uint8], centre: NDArray[np.float64], reach: int, grey: bool
) -> NDArray[np.float32]:
    """Planes of the pixels up to `reach` from the centre; an odd number of rows and columns."""
    spans, beyond = [], []
    for middle, length in zip(centre[::-1], image.shape[:2], strict=True):
        middle = int(min(max(middle, 0), length - 1))
        start, stop = middle - reach, middle + reach + 1
        spans.append(slice(max(start, 0), min(stop, length)))
        beyond.append((max(-start, 0), max(stop - length, 0)))
    pixels = image[tuple(spans)].astype(np.float32)
    planes = (pixels @ LUMA)[None] if grey else np.moveaxis(pixels, -1, 0)
    return np.pad(planes, [(0, 0), *beyond], mode="reflect") if np.any(beyond) else planes


def _quarters(planes: NDArray[np.float32], turns: int) -> NDArray[np.float32]:
    """Return a quarter turn keeps the pixel in the middle.

    The last row and column go afterwards.
    """
    return np.rot90(planes, turns, axes=(1, 2))[:, :-1, :-1]


def _by_shears(planes: NDArray[np.float32], angle: float, half: int) -> NDArray[np.float32]:
    """Return the middle of planes, `half` to each side, turned by an angle of at most an eighth.

    ``R = X Y X`` with ``X (x, y) = (x − y tan(angle / 2), y)`` and
    ``Y (x, y) = (x, y + x sin(angle))``.
    """
    middle = planes.shape[-1] // 2
    kept = slice(middle - half, middle + half)
    level = planes.mean(axis=(1, 2), keepdims=True)
    X, Y = _shifts(middle, -tan(angle / 2)), _shifts(middle, sin(angle))
    planes = _sheared(planes - level, X)
    planes = _sheared(planes.swapaxes(1, 2), Y).swapaxes(1, 2)
    return _sheared(planes[:, kept], X[kept])[:, :, kept] + level


def _sheared(planes: NDArray[np.float32], shifts: NDArray[np.complex64]) -> NDArray[np.float32]:
    """Planes with each row shifted."""
    # A Fourier series joins the two ends of a row, and a step there would ring through all of it.
    coefficients = scipy.fft.rfft(planes * _fade(planes.shape[-1]), workers=1)
    coefficients *= shifts
    sheared = scipy.fft.irfft(coefficients, overwrite_x=True, workers=1)
    return sheared.astype(np.float32, copy=False)


def _shifts(middle: int, slope: float) -> NDArray[np.complex64]:
    """Factors of the rows' Fourier coefficients that shift row y to the left by ``slope · y``."""
    rows = np.arange(-middle, middle, dtype=np.float32)
    phases = np.outer(rows, (pi * slope / middle) * np.arange(middle + 1, dtype=np.float32))
    factors = np.empty(phases.shape, dtype=np.complex64)
    np.cos(phases, out=factors.real)
    np.sin(phases, out=factors.imag)
    return factors


@lru_cache(maxsize=256)
def _fade(length: int) -> NDArray[np.float32]:
    """One in the middle of a row, and over the margin at its ends smoothly down to zero."""
    from_end = np.minimum(np.arange(length), length - np.arange(length))
    fade = np.sin(pi / 2 * np.minimum(from_end / _MARGIN, 1)).astype(np.float32) ** 2
    fade.flags.writeable = False
    return fade
