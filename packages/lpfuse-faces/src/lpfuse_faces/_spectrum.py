"""Filtered Fourier spectra of square patches, their azimuthal profiles, and pictures of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.fft
from numpy.typing import NDArray
from scipy.sparse import csr_array

from lpfuse._quantiles import QuantileSketch
from lpfuse._validation.params import check_count, check_number
from lpfuse_faces._extras import needed

CUTOFF = 0.1
"""Where the high-pass lets half through, in cycles per pixel.

Chosen by hand: the paper calls its spectrum *filtered*, and does not say how.
"""

# Pixels that are transformed together: 512 KB of float32; more leave the processor's cache. By
# hand.
_BLOCK = 2**17


def filtered_spectra(patches: Sequence[Any]) -> list[NDArray[np.float32]]:
    r"""High-pass filtered log-magnitude spectra, the frequency zero in the middle.

    With w the two-dimensional Hann window and r the distance from the middle in cycles per pixel,

    .. math::
        \frac{1}{1 + (0.1 / r)^4} \, \log\Bigl(1 + \frac{|\mathrm{FFT}(w (x - \bar x))|}
        {\sqrt{\sum w^2}}\Bigr) .

    Division by the window's energy gives white noise of deviation σ the magnitude σ on average
    (as root mean square), however large the patch.

    Parameters
    ----------
    patches : sequence of arrays of shape (s, s)
        Grey patches, of one size or several.

    Returns
    -------
    list of float32 arrays of shape (s, s)
        One for each patch, in order; frequency zero at ``[s // 2, s // 2]``.

    Examples
    --------
    A wave of eight pixels stands out at an eighth of a cycle per pixel.

    >>> import numpy as np
    >>> from lpfuse_faces._spectrum import filtered_spectra
    >>> wave = np.tile(np.sin(2 * np.pi * np.arange(64) / 8), (64, 1))
    >>> spectrum = filtered_spectra([wave])[0]
    >>> [int(i) for i in np.unravel_index(spectrum[:, 32:].argmax(), (64, 32))]
    [32, 8]
    """
    spectra: list[Any] = [None] * len(patches)
    for members, stack in _equal_sides(patches):
        side = stack.shape[1]
        half = _half_spectra(stack).reshape(len(members), -1)
        whole = half[:, _whole_from_half(side)].reshape(stack.shape)
        for member, spectrum in zip(members, whole, strict=True):
            spectra[member] = spectrum
    return spectra


def azimuthal_profiles(spectra: Sequence[Any], bins: int = 64) -> NDArray[np.float32]:
    """Means of spectra over rings: what is left when direction is forgotten.

    Ring k holds the frequencies r with ``k ≤ 2 · bins · r < k + 1``, the last one also r = 0.5; the
    corners of the spectrum, beyond half a cycle per pixel, are left out. A ring without a
    frequency, as small patches have them, is interpolated between its neighbours.

    Parameters
    ----------
    spectra : sequence of arrays of shape (s, s)
        Spectra with the frequency zero in the middle, of one size or several.
    bins : int, default=64
        Number of rings.

    Returns
    -------
    float32 array of shape (n, bins)
        From low to high frequencies.

    References
    ----------
    Durall, R., Keuper, M. and Keuper, J. (2020). Watch your up-convolution: CNN based generative
    deep neural networks are failing to reproduce spectral distributions. CVPR, 7890–7899.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse_faces._spectrum import azimuthal_profiles, filtered_spectra
    >>> noise = np.random.default_rng(0).normal(size=(2, 64, 64))
    >>> azimuthal_profiles(filtered_spectra(noise), bins=4).round(1)
    array([[0.2, 0.6, 0.6, 0.6],
           [0.2, 0.5, 0.6, 0.6]], dtype=float32)
    """
    return _profiles(spectra, bins, lambda stack: stack, _rings_of_whole)


def azimuthal_profiles_of(patches: Sequence[Any], bins: int = 64) -> NDArray[np.float32]:
    """``azimuthal_profiles(filtered_spectra(patches), bins)`` in less time.

    A spectrum is symmetric, and half of it is enough for the means.

    Parameters
    ----------
    patches : sequence of arrays of shape (s, s)
        Grey patches, of one size or several.
    bins : int, default=64
        Number of rings.

    Returns
    -------
    float32 array of shape (n, bins)
        From low to high frequencies.
    """
    return _profiles(patches, bins, _half_spectra, _rings_of_half)


@dataclass(frozen=True)
class Stretch:
    """Which values of a region's spectrum become black and white.

    Attributes
    ----------
    low, high : dict of str to float
        By region.
    """

    low: dict[str, float]
    high: dict[str, float]


def fit_stretch(
    spectra: Mapping[str, Sequence[Any]] | Iterable[tuple[str, Sequence[Any]]], share: float = 0.01
) -> Stretch:
    """Return a contrast stretch that clips a share of genuine pixels at either end.

    Parameters
    ----------
    spectra : mapping of str to sequences of arrays, or iterable of such pairs
        Spectra by region. Pairs may come one after the other and name a region many times: no
        more than a summary of them is kept, exact up to 9,000 pixels a region and beyond that
        within 0.1 % of their number.
    share : float in [0, 0.5), default=0.01
        The share at each end.

    Returns
    -------
    Stretch
        For the regions that came.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse_faces._spectrum import fit_stretch
    >>> fit_stretch({"face": [np.arange(100.0).reshape(10, 10)]}, share=0.1)
    Stretch(low={'face': 10.0}, high={'face': 89.0})
    """
    check_number("share", share, at_least=0, at_most=0.499)
    sketches: dict[str, QuantileSketch] = {}
    for region, pictures in spectra.items() if isinstance(spectra, Mapping) else spectra:
        known = sketches.get(region, QuantileSketch.of(np.empty(0)))
        seen = [QuantileSketch.of(np.ravel(picture)) for picture in pictures]
        sketches[region] = QuantileSketch.merge([known, *seen])
    ends = {region: _ends(region, sketch, share) for region, sketch in sketches.items()}
    return Stretch(
        {region: low for region, (low, _) in ends.items()},
        {region: high for region, (_, high) in ends.items()},
    )


def spectrum_images(
    spectra: Sequence[Any], size: int, low: float, high: float
) -> NDArray[np.float32]:
    """Spectra as pictures of one size: `low` becomes 0, `high` 1, what lies beyond is clipped.

    Parameters
    ----------
    spectra : sequence of arrays of shape (s, s)
        Spectra, of one size or several. Larger ones than `size` are averaged, smaller ones
        interpolated linearly.
    size : int
        Side of the pictures.
    low, high : float
        From a `Stretch`.

    Returns
    -------
    float32 array of shape (n, size, size)
        In [0, 1].
    """
    if not low < high:
        raise ValueError(
            f"low must be below high, got low={low!r}, high={high!r}. Take both from fit_stretch."
        )
    cv2 = needed("cv2", "Resizing spectra")
    images = np.empty((len(spectra), check_count("size", size), size), dtype=np.float32)
    for image, spectrum in zip(images, spectra, strict=True):
        how = cv2.INTER_AREA if len(spectrum) > size else cv2.INTER_LINEAR
        cv2.resize(np.asarray(spectrum, dtype=np.float32), (size, size), image, interpolation=how)
    images -= low
    images /= high - low
    return images.clip(0.0, 1.0, out=images)


def _ends(region: str, sketch: QuantileSketch, share: float) -> tuple[float, float]:
    rank = round(share * (sketch.n - 1))
    low, high = (float(sketch.order_statistic(k)[0]) for k in (rank, sketch.n - 1 - rank))
    if not low < high:
        raise ValueError(
            f"The spectra of region {region!r} have no spread: {sketch.n} pixels, with quantiles "
            f"{low:g} and {high:g}. Pass spectra of frames that show a face."
        )
    return low, high


def _equal_sides(pictures: Sequence[Any]) -> Iterator[tuple[list[int], NDArray[np.float32]]]:
    """Pictures of one size together, in float32, with their positions."""
    by_side: dict[int, list[int]] = {}
    for position, picture in enumerate(pictures):
        shape = np.shape(picture)
        if len(shape) != 2 or shape[0] != shape[1] or shape[0] < 2:
            raise ValueError(
                f"Expected grey squares of at least 2 × 2 pixels, got shape {shape} at position "
                f"{position}. lpfuse_faces._regions.crop cuts such squares out of frames."
            )
        by_side.setdefault(shape[0], []).append(position)
    for side, positions in by_side.items():
        step = max(1, _BLOCK // side**2)
        for start in range(0, len(positions), step):
            members = positions[start : start + step]
            yield members, np.stack([np.asarray(pictures[k], np.float32) for k in members])


def _half_spectra(stack: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the filtered spectra at horizontal frequencies from zero, which say it all.

    Real input.
    """
    side = stack.shape[1]
    centred = stack - stack.mean(axis=(1, 2), keepdims=True)
    centred *= _window(side)
    magnitudes = np.abs(scipy.fft.rfft2(centred, workers=1))
    np.log1p(magnitudes, out=magnitudes)
    magnitudes *= _high_pass(side)
    return magnitudes


def _profiles(
    pictures: Sequence[Any],
    bins: int,
    transform: Callable[[NDArray[np.float32]], NDArray[np.float32]],
    rings: Callable[[int, int], csr_array],
) -> NDArray[np.float32]:
    profiles = np.empty((len(pictures), check_count("bins", bins)), dtype=np.float32)
    for members, stack in _equal_sides(pictures):
        means = rings(stack.shape[1], bins)
        for member, spectrum in zip(members, transform(stack), strict=True):
            profiles[member] = means @ spectrum.ravel()
    return profiles


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array


def _waves(side: int) -> NDArray[np.int64]:
    """Whole waves a side, in the order of the FFT."""
    return np.rint(scipy.fft.fftfreq(side) * side).astype(np.int64)


@lru_cache(maxsize=64)
def _window(side: int) -> NDArray[np.float32]:
    """Return the Hann window of unit energy."""
    hann = np.sin(np.pi * np.arange(side) / side) ** 2
    hann /= np.linalg.norm(hann)
    return _frozen(np.outer(hann, hann).astype(np.float32))


@lru_cache(maxsize=64)
def _high_pass(side: int) -> NDArray[np.float32]:
    """Return the Butterworth filter over half a spectrum, as ``r⁴ / (r⁴ + 0.1⁴)``.

    Defined at zero.
    """
    r = np.hypot(_waves(side)[:, None], np.arange(side // 2 + 1)) / side
    return _frozen((r**4 / (r**4 + CUTOFF**4)).astype(np.float32))


@lru_cache(maxsize=64)
def _whole_from_half(side: int) -> NDArray[np.int64]:
    """Return where in half a spectrum each frequency of the whole, shifted one is found.

    Those to the left of the middle are at the opposite frequency: real input has a symmetric
    spectrum.
    """
    waves = np.arange(side) - side // 2
    y, x = waves[:, None], waves[None, :]
    rows = np.where(x < 0, -y, y) % side
    return _frozen((rows * (side // 2 + 1) + np.abs(x)).ravel())


@lru_cache(maxsize=64)
def _rings_of_whole(side: int, bins: int) -> csr_array:
    waves = np.arange(side) - side // 2
    return _ring_means(np.hypot(waves[:, None], waves), np.ones((side, side)), bins)


@lru_cache(maxsize=64)
def _rings_of_half(side: int, bins: int) -> csr_array:
    columns = np.arange(side // 2 + 1)
    # A column stands for its mirror image too, unless it is its own.
    times = np.where(2 * columns % side == 0, 1.0, 2.0)
    radii = np.hypot(_waves(side)[:, None], columns)
    return _ring_means(radii, np.broadcast_to(times, radii.shape), bins)


def _ring_means(waves: NDArray[np.float64], times: NDArray[np.float64], bins: int) -> csr_array:
    """Return the matrix that takes pixels to their means over rings, empty rings interpolated."""
    side = len(waves)
    pixels = np.flatnonzero(2 * waves <= side)
    rings = np.minimum(waves.flat[pixels] * (2 * bins) // side, bins - 1).astype(np.int64)
    weights = times.flat[pixels]
    totals = np.bincount(rings, weights, minlength=bins)
    means = csr_array((weights / totals[rings], (rings, pixels)), shape=(bins, waves.size))
    known = np.flatnonzero(totals)
    neighbours = [np.interp(np.arange(bins), known, unit) for unit in np.eye(len(known))]
    return (csr_array(np.transpose(neighbours)) @ means[known]).astype(np.float32)
