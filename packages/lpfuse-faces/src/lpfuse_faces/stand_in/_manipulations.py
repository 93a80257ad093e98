"""Families of forgery for the stand-in data set: simple ones, with traces as real ones leave.

Each alters the region of a face in a genuine frame and nothing else. What a clip's forger chose,
such as the factor of a resampling, is drawn once and kept for all of its frames.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from lpfuse_faces._extras import needed
from lpfuse_faces.stand_in._filming import Pixels, Points, Shot


class Region(NamedTuple):
    """The part of a shot that a forger works on: `mask` is nowhere else above 0."""

    pixels: Pixels
    mask: Pixels
    landmarks: Points


Manipulation = Callable[[Region, Iterator[Shot]], Pixels]


def forged(
    shots: Iterator[Shot], family: str, rng: Generator, others: Iterator[Shot]
) -> Iterator[NDArray[np.uint8]]:
    """Yield the frames of a clip with its face manipulated.

    Parameters
    ----------
    shots : iterator of Shot
        The genuine clip.
    family : str
        One of `FAMILIES`, or "untouched": the control, whose frames are the genuine ones.
    rng : Generator
        What the forger's choices are drawn from.
    others : iterator of Shot
        The same face in another take; read only by families that need a second face.

    Returns
    -------
    iterator of ndarray of shape (h, w, 3), uint8
        Off the mask, every pixel is the genuine one.
    """
    manipulate = _MANIPULATIONS[family](rng)
    for shot in shots:
        rows, columns = _around(shot.mask)
        corner = np.array([columns.start, rows.start])
        region = Region(
            shot.image[rows, columns].astype(np.float32),
            shot.mask[rows, columns],
            shot.landmarks - corner,
        )
        altered = manipulate(region, others)
        share = region.mask[..., None]
        blend = region.pixels + share * (altered - region.pixels)
        image = shot.image.copy()
        image[rows, columns] = np.clip(np.rint(blend), 0, 255)
        yield image


def resampled(rng: Generator) -> Manipulation:
    """Shrunk, then grown back, as a face made at a lower resolution is."""
    factor = rng.uniform(0.35, 0.65)

    def manipulate(region: Region, _: Iterator[Shot]) -> Pixels:
        cv2 = _cv2()
        small = cv2.resize(region.pixels, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA)
        return cv2.resize(small, region.mask.shape[::-1], interpolation=cv2.INTER_LINEAR)

    return manipulate


def blended(rng: Generator) -> Manipulation:
    """Return the face of another take, laid over this one: aligned, matched in colour, mixed."""
    opacity = rng.uniform(0.8, 1.0)

    def manipulate(region: Region, others: Iterator[Shot]) -> Pixels:
        cv2 = _cv2()
        other = next(others)
        onto = _similarity(other.landmarks, region.landmarks)
        size = region.mask.shape[::-1]
        face = cv2.warpAffine(
            other.image.astype(np.float32), onto, size, borderMode=cv2.BORDER_REFLECT_101
        )
        face = _coloured_like(face, region)
        return region.pixels + np.float32(opacity) * (face - region.pixels)

    return manipulate


def smoothed(rng: Generator) -> Manipulation:
    """Apply a smoothing filter: Gaussian, median or bilateral."""
    sigma = float(rng.uniform(0.9, 1.6))
    filters: list[Callable[[Pixels], Pixels]] = [
        lambda pixels: _cv2().GaussianBlur(pixels, (0, 0), sigma),
        lambda pixels: _cv2().medianBlur(pixels, 5),
        lambda pixels: _cv2().bilateralFilter(pixels, 9, 25 * sigma, 2 * sigma),
    ]
    smooth = filters[rng.integers(len(filters))]
    return lambda region, _: smooth(region.pixels)


def up_convolved(rng: Generator) -> Manipulation:
    """Halved, then doubled by a transposed convolution, the last layer of many a generator.

    Zeros are inserted between the samples and a small kernel is slid over them. The four kinds of
    output pixel, by their place between the samples, see different entries of the kernel. Where
    these do not add up to the same weight, a pattern of period 2 stays [1]_; and what the kernel
    lets pass of the spectrum's copies, high frequencies that no camera made, stays too [2]_.

    .. [1] Odena, Dumoulin, Olah. Deconvolution and checkerboard artifacts. Distill, 2016.
    .. [2] Durall, Keuper, Keuper. Watch your up-convolution: CNN based generative deep neural
       networks are failing to reproduce spectral distributions. CVPR 2020.
    """
    kernel = np.outer([1, 3, 3, 1], [1, 3, 3, 1]) / 16.0
    kernel *= 1 + 0.06 * rng.standard_normal(kernel.shape)
    kernel *= 4 / kernel.sum()

    def manipulate(region: Region, _: Iterator[Shot]) -> Pixels:
        cv2 = _cv2()
        small = cv2.resize(region.pixels, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
        return _transposed_convolution(small, kernel)

    return manipulate


def warped(rng: Generator) -> Manipulation:
    """Bent by a smooth field of displacements that goes with the face, as expressions are."""
    strength = rng.uniform(0.015, 0.03)
    waves = rng.uniform(0.5, 1.0, (2, 2))  # periods within the width of the face
    phases = rng.uniform(0, 2 * np.pi, 2)

    def manipulate(region: Region, _: Iterator[Shot]) -> Pixels:
        cv2 = _cv2()
        height, width = region.mask.shape
        centre = region.landmarks.mean(axis=0)
        y, x = np.indices((height, width), dtype=np.float32)
        across, down = (x - centre[0]) / width, (y - centre[1]) / width
        bend = [
            strength * width * np.sin(2 * np.pi * (a * across + b * down) + phase)
            for (a, b), phase in zip(waves, phases, strict=True)
        ]
        where = (x + bend[0]).astype(np.float32), (y + bend[1]).astype(np.float32)
        return cv2.remap(region.pixels, *where, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT_101)

    return manipulate


def untouched(_: Generator) -> Manipulation:
    """Return the control: the way of a forgery without its manipulation."""
    return lambda region, _: region.pixels


FAMILIES: Mapping[str, Callable[[Generator], Manipulation]] = {
    "resampled": resampled,
    "blended": blended,
    "smoothed": smoothed,
    "up-convolved": up_convolved,
    "warped": warped,
}
CONTROL = "untouched"
_MANIPULATIONS = {**FAMILIES, CONTROL: untouched}


def _around(mask: Pixels) -> tuple[slice, slice]:
    """Rows and columns that hold all of the mask, from an even one to an even one."""
    rows, columns = (np.flatnonzero(mask.any(axis=axis)) for axis in (1, 0))
    return _even(rows), _even(columns)


def _even(inside: NDArray[np.intp]) -> slice:
    return slice(int(inside[0]) // 2 * 2, (int(inside[-1]) // 2 + 1) * 2)


def _transposed_convolution(small: Pixels, kernel: Points) -> Pixels:
    """Twice the size: sample j adds its kernel, 4 × 4, to the pixels 2j − 1 to 2j + 2."""
    cv2 = _cv2()
    height, width, channels = small.shape
    grown = np.zeros((2 * height, 2 * width, channels), dtype=np.float32)
    grown[::2, ::2] = small
    # OpenCV correlates, so the kernel is turned; beyond the edges the samples are mirrored.
    turned = kernel[::-1, ::-1]
    return cv2.filter2D(grown, -1, turned, anchor=(2, 2), borderType=cv2.BORDER_REFLECT_101)


def _similarity(source: Points, target: Points) -> Points:
    """Return the rotation, scale and shift (2 × 3) that brings `source` nearest to `target`.

    With points as complex numbers it is the least-squares line ``w = a z + b``.
    """
    z, w = (points @ [1, 1j] for points in (source, target))
    spread = z - z.mean()
    a = np.vdot(spread, w) / np.vdot(spread, spread)
    b = w.mean() - a * z.mean()
    return np.array([[a.real, -a.imag, b.real], [a.imag, a.real, b.imag]])


def _coloured_like(face: Pixels, region: Region) -> Pixels:
    """`face` with each channel's mean and spread on the mask brought to those of the region."""
    inside = region.mask > 0.5
    here, there = region.pixels[inside], face[inside]
    gain = here.std(axis=0) / np.maximum(there.std(axis=0), 1.0)
    return (face - there.mean(axis=0)) * gain + here.mean(axis=0)


def _cv2() -> Any:
    return needed("cv2", "Making the stand-in data set")
