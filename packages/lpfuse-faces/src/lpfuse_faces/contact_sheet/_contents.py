"""What a contact sheet shows: a verdict on a video, and the frames and figures behind it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpfuse._format import number
from lpfuse_faces._detection.tracking import Face
from lpfuse_faces._explanation import NEGLIGIBLE, Explained
from lpfuse_faces._extras import needed
from lpfuse_faces._features import VideoFeatures
from lpfuse_faces._regions import crop, outline
from lpfuse_faces._settings import Settings
from lpfuse_faces._spectrum import filtered_spectra, spectrum_images
from lpfuse_faces._verdict import VideoVerdict
from lpfuse_faces._video import Frame, frames_of

Numbers = NDArray[Any]

# By eye, as the sizes below.
MOST_FRAMES = 6
MOST_LEARNERS = 12
AROUND = 2.2  # side of what is shown of a frame, in boxes of the face
SIDE, SMALL_SIDE = 256, 176  # of a cutout, and of a region or spectrum, in pixels at most

HEADLINES = {
    "genuine": "Genuine, as far as the model can tell",
    "forged": "Forged",
    "undecided": "Undecided",
    "no face found": "No face found",
}


@dataclass(frozen=True, eq=False)
class Shown:
    """A frame of the sheet.

    Attributes
    ----------
    time, score : float
        When it is seen, in seconds, and its score: high = genuine.
    remark : str
        Why it was chosen; empty for those that are spread over the video.
    cutout : ndarray of shape (s, s, 3)
        The face and what surrounds it.
    box, landmarks : ndarray of shapes (4,) and (5, 2)
        What was found, in pixels of the cutout.
    outlines : dict of region: ndarray of shape (4, 2)
        Corners of the regions there.
    regions, spectra : dict of region: ndarray
        What the features were measured in: in grey from 0 to 255, and its spectrum in [0, 1].
    """

    time: float
    score: float
    remark: str
    cutout: Numbers
    box: Numbers
    landmarks: Numbers
    outlines: dict[str, Numbers]
    regions: dict[str, Numbers]
    spectra: dict[str, Numbers]


@dataclass(frozen=True, eq=False)
class ContactSheet:
    """A verdict on a video with what led to it.

    Attributes
    ----------
    explained : Explained
        What was decided, and why.
    shown : tuple of Shown
        A few of the frames, in the order of the video; none where none shows a face.
    """

    explained: Explained
    shown: tuple[Shown, ...]

    @property
    def verdict(self) -> VideoVerdict:
        """What was decided."""
        return self.explained.verdict

    @property
    def headline(self) -> str:
        """The decision in words."""
        return HEADLINES[self.verdict.verdict]

    @property
    def learners(self) -> dict[str, float]:
        """How the learners differ from what is usual, the lowest first; the small ones summed."""
        parts = self.explained.learners
        least = NEGLIGIBLE * max(map(abs, parts.values()), default=0.0)
        order = sorted(parts, key=lambda name: -abs(parts[name]))
        main = [name for name in order[:MOST_LEARNERS] if abs(parts[name]) > least]
        told = {name: parts[name] for name in sorted(main, key=lambda name: parts[name])}
        rest = [parts[name] for name in order if name not in told]
        return told | ({f"{len(rest)} others, summed": sum(rest)} if rest else {})

    @property
    def sets(self) -> dict[str, float]:
        """The same of the sets of features."""
        parts = self.explained.sets
        return {name: parts[name] for name in sorted(parts, key=lambda name: parts[name])}


def contact_sheet(
    path: str | PathLike[str],
    features: VideoFeatures,
    explained: Explained,
    settings: Settings,
    *,
    most_frames: int = MOST_FRAMES,
) -> ContactSheet:
    """Gather what a contact sheet shows; of the video only the frames that it shows are kept.

    Parameters
    ----------
    path : path-like
        The video.
    features : VideoFeatures
        What was measured in it, and where.
    explained : Explained
        What a detector said of that, and why.
    settings : Settings
        How it was measured.
    most_frames : int, default=6
        How many frames to show: the strangest, the most ordinary, others spread over the video.

    Returns
    -------
    ContactSheet
        For :func:`lpfuse_faces.contact_sheet.write_sheet`.
    """
    verdict = explained.verdict
    remarks = chosen_frames(verdict.frame_scores, most_frames)
    row_of = {int(features.index[row]): row for row in remarks}
    shown = []
    for frame in _frames_at(path, settings, row_of):
        row = row_of[frame.index]
        face = Face(features.boxes[row], 1.0, features.landmarks[row])
        score = float(verdict.frame_scores[row])
        shown.append(_shown(frame, face, score, remarks[row], settings))
    return ContactSheet(explained, tuple(shown))


def chosen_frames(scores: Numbers, most: int = MOST_FRAMES) -> dict[int, str]:
    """Positions of the frames to show, in their order, each with the reason, if there is one.

    Examples
    --------
    >>> import numpy as np
    >>> chosen_frames(np.array([0.5, 0.1, 0.4, 0.9, 0.6]), 3)
    {0: '', 1: 'strangest', 3: 'most ordinary'}
    """
    n = len(scores)
    chosen: dict[int, str] = {}
    if n > 1 and np.isfinite(scores).any() and most > 1:
        chosen = {int(np.nanargmin(scores)): "strangest"}
        chosen.setdefault(int(np.nanargmax(scores)), "most ordinary")
    spread = np.linspace(0, n - 1, min(n, most)).round().astype(int)
    rest = [row for row in [*spread.tolist(), *range(n)] if row not in chosen]
    chosen |= dict.fromkeys(list(dict.fromkeys(rest))[: max(0, most - len(chosen))], "")
    return dict(sorted(chosen.items()))


def _frames_at(
    path: str | PathLike[str], settings: Settings, wanted: Iterable[int]
) -> Iterator[Frame]:
    """Yield the frames of these numbers; what comes after the last is not decoded."""
    left = set(wanted)
    frames = frames_of(path, settings.sampling, limits=settings.limits) if left else iter(())
    for frame in frames:
        if frame.index in left:
            left.remove(frame.index)
            yield frame
        if not left:
            return


def _shown(frame: Frame, face: Face, score: float, remark: str, settings: Settings) -> Shown:
    cutout, origin, scale = _cutout(frame.image, face.box)

    def moved(points: Numbers) -> Numbers:  # whole numbers are the middles of pixels
        return (np.asarray(points, dtype=np.float64) - origin + 0.5) * scale - 0.5

    patches = {region: crop(frame.image, face, region) for region in settings.regions}
    return Shown(
        time=frame.time,
        score=score,
        remark=remark,
        cutout=cutout,
        box=moved(face.box.reshape(2, 2)).ravel(),
        landmarks=moved(face.landmarks),
        outlines={region: moved(outline(face, region)) for region in settings.regions},
        regions={name: _reduced(patch) for name, patch in patches.items()},
        spectra={name: _spectrum(patch, name, settings) for name, patch in patches.items()},
    )


def _cutout(image: Numbers, box: Numbers) -> tuple[Numbers, Numbers, float]:
    """Return a square around the face, grey where the frame ends; its origin and scale."""
    cv2 = needed("cv2", "Drawing a contact sheet")
    x1, y1, x2, y2 = (float(value) for value in box)
    side = max(2, round(AROUND * max(x2 - x1, y2 - y1)))
    left, top = round((x1 + x2 - side) / 2), round((y1 + y2 - side) / 2)
    square = np.full((side, side, 3), 128, np.uint8)
    rows = slice(max(0, top), max(0, min(image.shape[0], top + side)))
    columns = slice(max(0, left), max(0, min(image.shape[1], left + side)))
    part = image[rows, columns]
    down, right = max(0, -top), max(0, -left)
    square[down : down + part.shape[0], right : right + part.shape[1]] = part
    how = cv2.INTER_AREA if side > SIDE else cv2.INTER_CUBIC
    small = cv2.resize(square, (SIDE, SIDE), interpolation=how)
    return small, np.array([left, top], dtype=np.float64), SIDE / side


def _spectrum(patch: Numbers, region: str, settings: Settings) -> Numbers:
    """Return the spectrum as the networks see it.

    Without networks, from its least to its highest.
    """
    spectra = filtered_spectra([patch])
    if settings.stretch is not None:
        low, high = settings.stretch.low[region], settings.stretch.high[region]
    else:
        low, high = (float(value) for value in np.quantile(spectra[0], [0.01, 0.99]))
    (image,) = spectrum_images(spectra, SMALL_SIDE, low, high)
    return image


def _reduced(patch: Numbers) -> Numbers:
    """In whole grey levels, and not larger than it is shown."""
    cv2 = needed("cv2", "Drawing a contact sheet")
    levels = patch.clip(0, 255).round().astype(np.uint8)
    if len(levels) <= SMALL_SIDE:
        return levels
    return cv2.resize(levels, (SMALL_SIDE, SMALL_SIDE), interpolation=cv2.INTER_AREA)


def bar_labels(parts: Mapping[str, float]) -> list[str]:
    """Return the figures beside bars.

    Examples
    --------
    >>> bar_labels({"gp": -1.25, "gmm": 3e-9})
    ['−1.25', '≈ 0']
    """
    least = NEGLIGIBLE * max(map(abs, parts.values()), default=0.0)
    return [number(value) if abs(value) > least else "≈ 0" for value in parts.values()]
