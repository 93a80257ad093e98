"""The simulated camera: a photograph becomes a moving scene."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator, SeedSequence, default_rng
from numpy.typing import NDArray

from lpfuse_faces._extras import needed
from lpfuse_faces.stand_in._photographs import BRIGHTNESS, FACE, print_of

FPS = 25

Pixels = NDArray[np.float32]
Points = NDArray[np.float64]


class Shot(NamedTuple):
    """A frame of a scene, with what only its maker knows.

    Attributes
    ----------
    image : ndarray of shape (h, w, 3), uint8
        What the camera took.
    mask : ndarray of shape (h, w), float32
        How far a forger replaces each pixel: 1 on the face, 0 off it, soft between.
    landmarks : ndarray of shape (5, 2)
        The eyes, the nose and the corners of the mouth, (x, y).
    """

    image: NDArray[np.uint8]
    mask: Pixels
    landmarks: Points


class Take:
    """A scene with one face: all that the face, the light and the camera do comes from a seed.

    The shape of the face, its contrast and its grain differ from take to take, and the mouth moves.
    The light drifts in strength, colour and direction. The camera pans, zooms and tilts; its sensor
    adds shot and read noise. All of it is drawn alike for all photographs, so that their genuine
    frames share the high frequencies: those of the grain, the lens and the sensor.

    Parameters
    ----------
    photograph : str
        One of `PHOTOGRAPHS`.
    seed : SeedSequence
        What everything is drawn from.
    size : int
        Height and width of the frames.
    """

    def __init__(self, photograph: str, seed: SeedSequence, size: int) -> None:
        drawn, self._noise = seed.spawn(2)
        rng = default_rng(drawn)
        self._size = size
        plain = print_of(photograph)
        self._mask, self._landmarks = plain.mask, plain.landmarks
        # The face: its contrast, fine grain, bumps at its landmarks, a mouth that opens and closes.
        contrasted = BRIGHTNESS + rng.uniform(0.7, 1.3) * (plain.image - BRIGHTNESS)
        self._surface = contrasted + _grain(rng, plain.mask.shape, rng.uniform(6, 8))
        self._shape = rng.normal(0, 0.04 * FACE, plain.landmarks.shape)
        self._mouth = _Drift(rng, middle=0.0, swing=0.06 * FACE, hertz=(0.5, 2.0))
        # The light: logarithms of its colour, and its slope across the frame.
        self._colour = _Drift(rng, middle=rng.normal(0, (0.1, 0.05, 0.05, 0.05)), swing=0.015)
        self._slope = _Drift(rng, middle=rng.normal(0, 0.1, 2), swing=0.05)
        # The camera; tilt in degrees, pan in frames.
        self._zoom = _Drift(rng, middle=rng.uniform(0.85, 1.1), swing=0.04)
        self._tilt = _Drift(rng, middle=rng.normal(0, 3), swing=3)
        self._pan = _Drift(rng, middle=rng.uniform(-0.05, 0.05, 2), swing=0.03)
        self._blur = rng.uniform(0.5, 0.6)
        self._shot_noise, self._read_noise = rng.uniform((0.05, 1.0), (0.08, 1.5))

    def shots(self, count: int) -> Iterator[Shot]:
        """Yield the first `count` frames."""
        noise = default_rng(self._noise)
        for time in np.arange(count) / FPS:
            yield self._shot(float(time), noise)

    def _shot(self, time: float, noise: Generator) -> Shot:
        cv2 = needed("cv2", "Making the stand-in data set")
        pose, bumps = self._pose(time), self._bumps(time)
        seen = self._seen_points(pose, bumps)
        scene = cv2.remap(self._surface, *seen, cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT_101)
        mask = cv2.remap(self._mask, *seen, cv2.INTER_LINEAR)
        light = cv2.GaussianBlur(scene, (0, 0), self._blur) * self._illumination(time)
        return Shot(self._sensed(light, noise), mask, self._seen_landmarks(pose, bumps))

    def _pose(self, time: float) -> Points:
        """Return the affine map (2 × 3) from the print to the frame."""
        angle = np.deg2rad(self._tilt(time))
        turn = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
        turn = self._zoom(time) * np.array(turn)
        middle = self._size * (0.5 + self._pan(time))
        return np.column_stack([turn, middle - turn @ self._landmarks.mean(axis=0)])

    def _bumps(self, time: float) -> Points:
        """Return how far what is seen at each landmark is from it, in the print."""
        bumps = self._shape.copy()
        bumps[3:, 1] += self._mouth(time)
        return bumps

    def _seen_points(self, pose: Points, bumps: Points) -> tuple[Pixels, Pixels]:
        """Return which point of the print each pixel of the frame shows: its x and its y."""
        y, x = np.indices((self._size, self._size), dtype=np.float32)
        back = np.linalg.inv(pose[:, :2]).astype(np.float32)
        shift = pose[:, 2].astype(np.float32)
        x, y = x - shift[0], y - shift[1]
        x, y = back[0, 0] * x + back[0, 1] * y, back[1, 0] * x + back[1, 1] * y
        dx, dy = _displacement(x, y, self._landmarks, bumps)
        return x + dx, y + dy

    def _seen_landmarks(self, pose: Points, bumps: Points) -> Points:
        """Return where the frame shows the landmarks, to first order in the bumps."""
        x, y = self._landmarks.T
        moved = _displacement(x, y, self._landmarks, bumps)
        return (self._landmarks - np.transpose(moved)) @ pose[:, :2].T + pose[:, 2]

    def _illumination(self, time: float) -> Pixels:
        """Return the light's factor on every pixel and channel."""
        across = np.linspace(-0.5, 0.5, self._size)
        horizontal, vertical = self._slope(time)
        field = 1 + horizontal * across + vertical * across[:, None]
        strength, *colour = self._colour(time)
        return (field[..., None] * np.exp(strength + np.array(colour))).astype(np.float32)

    def _sensed(self, light: Pixels, rng: Generator) -> NDArray[np.uint8]:
        """Return what the sensor reads.

        Noise whose variance grows with the light, then whole numbers.
        """
        light = np.clip(light, 0, 255)
        spread = np.sqrt(np.float32(self._shot_noise) * light + np.float32(self._read_noise**2))
        noise = rng.standard_normal(light.shape, dtype=np.float32)
        return np.clip(np.rint(light + spread * noise), 0, 255).astype(np.uint8)


class _Drift:
    """A number, or several, that wander about a middle: a sum of three slow waves."""

    def __init__(
        self, rng: Generator, middle: Any, swing: float, hertz: tuple[float, float] = (0.1, 0.6)
    ) -> None:
        self._middle = np.asarray(middle)
        shape = (3, *self._middle.shape)
        self._heights = rng.normal(0, swing / np.sqrt(1.5), shape)
        self._hertz = rng.uniform(*hertz, shape)
        self._phases = rng.uniform(0, 2 * np.pi, shape)

    def __call__(self, time: float) -> Any:
        waves = np.sin(2 * np.pi * self._hertz * time + self._phases)
        return self._middle + (self._heights * waves).sum(axis=0)


def _grain(rng: Generator, shape: tuple[int, int], strength: float) -> Pixels:
    """Fine texture, like pores or film. It moves with what is shown, so compression keeps it."""
    cv2 = needed("cv2", "Making the stand-in data set")
    grain = cv2.GaussianBlur(rng.standard_normal(shape, dtype=np.float32), (0, 0), 0.5)
    return (grain * np.float32(strength / grain.std()))[..., None]


def _displacement(x: Any, y: Any, centres: Points, bumps: Points) -> tuple[Any, Any]:
    """Return a smooth field at (x, y): a bell about each centre, as high as its bump."""
    dx, dy = np.zeros_like(x), np.zeros_like(y)
    for (centre_x, centre_y), (bump_x, bump_y) in zip(
        centres.tolist(), bumps.tolist(), strict=True
    ):
        bell = np.exp(((x - centre_x) ** 2 + (y - centre_y) ** 2) / (-2 * (0.4 * FACE) ** 2))
        dx += bump_x * bell
        dy += bump_y * bell
    return dx, dy
