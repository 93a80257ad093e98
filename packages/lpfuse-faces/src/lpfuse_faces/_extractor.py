"""From one video to its features: frames, faces, regions, spectra, and what is measured in them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import astuple, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpfuse._validation.params import check_count
from lpfuse_faces._container import opened_file
from lpfuse_faces._detection.mtcnn import MTCNN
from lpfuse_faces._detection.tracking import Face, FaceChooser
from lpfuse_faces._features import VideoFeatures
from lpfuse_faces._limits import Limits
from lpfuse_faces._networks import FeatureNetwork, load_network
from lpfuse_faces._regions import crop
from lpfuse_faces._settings import Settings
from lpfuse_faces._spectrum import azimuthal_profiles_of, filtered_spectra, spectrum_images
from lpfuse_faces._video import DEFAULT_LIMITS, Frame, frames_of

# Part of every key: to be raised when a change of the code changes what is measured.
FORMAT = 1
KEY_LENGTH = 16  # hexadecimal digits, 64 bits: no two settings of a cache will ever share them
# Frames in work at once. By hand: 16 of 1280 × 720 are 44 MB, and the face detector cuts batches up
# again as its networks need it.
BATCH_SIZE = 16

Place = str | os.PathLike[str]
Floats = NDArray[np.float32]


class Extractor:
    """Measures what the settings say, video by video.

    Parameters
    ----------
    settings : Settings, optional
        What is measured; by default azimuthal profiles of 32 frames.
    batch_size : int, default=16
        How many frames are in work at once. Memory grows with it, and not with the video.
    threads : int, default=1
        How many threads decode a video and look for its faces.

    Attributes
    ----------
    key : str
        Changes when the features would: a hash of `meaning`.
    meaning : dict
        All that the features depend on besides the video: settings, digests of weight files, and a
        number that stands for the code. Not in it: where weight files lie, and what computes.
    warnings : tuple of str
        What every reader of the features must know.
    widths : dict of str to int
        How many columns each feature set has.

    Examples
    --------
    >>> from lpfuse_faces._extractor import Extractor
    >>> from lpfuse_faces._settings import Settings
    >>> from lpfuse_faces._video import Sampling
    >>> few, many = (Extractor(Settings(sampling=Sampling(count=n))) for n in (8, 32))
    >>> few.key == many.key
    False
    >>> few.widths
    {'azimuthal/face': 64, 'azimuthal/mouth': 64, 'azimuthal/nose': 64}
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        batch_size: int = BATCH_SIZE,
        threads: int = 1,
    ) -> None:
        self.settings = Settings() if settings is None else settings
        self.batch_size = check_count("batch_size", batch_size)
        self.threads = check_count("threads", threads)
        _check_stretch(self.settings)
        self.detector = detector_of(self.settings, threads)
        self.networks = {name: _network(name, self.settings) for name in self.settings.networks}
        self.widths = self._widths()
        self.meaning = self._meaning()
        self.key = key_of(self.meaning)
        self.warnings = tuple(
            f"features of {name} come from random weights, seed {self.settings.seed}: "
            "they mean nothing"
            for name, network in self.networks.items()
            if network.is_random
        )

    def extract(self, path: Place, sha256: str | None = None) -> VideoFeatures:
        """Features of one video, in memory that does not depend on its length.

        Parameters
        ----------
        path : path
            The video.
        sha256 : str, optional
            SHA-256 of its content, where it is known.

        Returns
        -------
        VideoFeatures
            A row for each frame that shows a face; there may be none.

        Raises
        ------
        UnreadableVideo
            What is no video, or a damaged one.
        """
        content = content_of(path, self.settings.limits) if sha256 is None else sha256
        batches = batches_of(path, self.settings, self.detector, self.batch_size, self.threads)
        # map, because a loop would hold on to a batch while the next one is decoded.
        return _joined(list(map(partial(self._measure, Path(path).name, content), batches)))

    def _measure(self, name: str, content: str, batch: Batch) -> VideoFeatures:
        regions = {region: self._features(batch, region) for region in self.settings.regions}
        return VideoFeatures(
            name=name,
            sha256=content,
            index=np.array([frame.index for frame in batch.frames], np.int64),
            time=np.array([frame.time for frame in batch.frames], np.float64),
            boxes=np.reshape([face.box for face in batch.faces], (-1, 4)),
            landmarks=np.reshape([face.landmarks for face in batch.faces], (-1, 5, 2)),
            sets={
                f"{feature}/{region}": regions[region][feature]
                for feature in self.settings.features
                for region in self.settings.regions
            },
            n_frames=batch.n_frames,
            warnings=self.warnings,
        )

    def _features(self, batch: Batch, region: str) -> dict[str, Floats]:
        """Return all features of one region, each with a row for each face."""
        rows: dict[str, Floats] = {}
        patches = batch.patches(region)
        if "azimuthal" in self.settings.features:
            rows["azimuthal"] = azimuthal_profiles_of(patches, self.settings.bins)
        if self.settings.stretch is not None and self.networks:
            low, high = (ends[region] for ends in astuple(self.settings.stretch))
            spectra = filtered_spectra(patches)
            for name, network in self.networks.items():
                rows[name] = network(spectrum_images(spectra, network.size, low, high))
        return rows

    def _widths(self) -> dict[str, int]:
        width = {name: network.width for name, network in self.networks.items()}
        width["azimuthal"] = self.settings.bins
        return {name: width[name.partition("/")[0]] for name in self.settings.sets}

    def _meaning(self) -> dict[str, Any]:
        settings = self.settings.to_dict()
        # For these the digests speak, and which device computes does not matter.
        for name in ("detector_weights", "weights", "seed", "precision", "device"):
            del settings[name]
        if not self.networks:
            del settings["stretch"]
        if "azimuthal" not in self.settings.features:
            del settings["bins"]
        return {
            "format": FORMAT,
            "settings": settings,
            "detector": self.detector.digest,
            "networks": {name: network.digest for name, network in self.networks.items()},
        }


def content_of(path: Place, limits: Limits = DEFAULT_LIMITS) -> str:
    """SHA-256 of a video's content in hexadecimal, read piece by piece.

    Parameters
    ----------
    path : path
        The video. One that cannot be read raises `UnreadableVideo`.
    limits : Limits
        Of its size.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from lpfuse_faces._extractor import content_of
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "clip.mp4").write_bytes(b"abc")
    ...     content_of(Path(folder, "clip.mp4"))[:16]
    'ba7816bf8f01cfea'
    """
    with opened_file(Path(path), limits) as (file, _):
        return hashlib.file_digest(file, "sha256").hexdigest()


class Batch(NamedTuple):
    """Frames that show a face, and that face, out of some that were looked at together."""

    n_frames: int
    frames: list[Frame]
    faces: list[Face]

    def patches(self, region: str) -> list[NDArray[Any]]:
        """One region of each face."""
        pairs = zip(self.frames, self.faces, strict=True)
        return [crop(frame.image, face, region) for frame, face in pairs]


def batches_of(
    path: Place,
    settings: Settings,
    detector: MTCNN,
    batch_size: int = BATCH_SIZE,
    threads: int = 1,
) -> Iterator[Batch]:
    """Return the frames of a video that show a face, some at a time."""
    frames = frames_of(path, settings.sampling, threads=threads, limits=settings.limits)
    look = partial(_look, detector, FaceChooser(settings.face))
    return map(look, _grouped(frames, batch_size))


def _look(detector: MTCNN, choose: FaceChooser, frames: list[Frame]) -> Batch:
    chosen = [choose(faces) for faces in detector.detect([frame.image for frame in frames])]
    shown = [(frame, face) for frame, face in zip(frames, chosen, strict=True) if face is not None]
    return Batch(len(frames), [frame for frame, _ in shown], [face for _, face in shown])


def _grouped(frames: Iterator[Frame], size: int) -> Iterator[list[Frame]]:
    for first in frames:
        yield [first, *islice(frames, size - 1)]


def _joined(parts: list[VideoFeatures]) -> VideoFeatures:
    """Return the batches of one video as one."""
    sets = {name: np.concatenate([part.sets[name] for part in parts]) for name in parts[0].sets}
    return replace(
        parts[0],
        index=np.concatenate([part.index for part in parts]),
        time=np.concatenate([part.time for part in parts]),
        boxes=np.concatenate([part.boxes for part in parts]),
        landmarks=np.concatenate([part.landmarks for part in parts]),
        sets=sets,
        n_frames=sum(part.n_frames for part in parts),
    )


def detector_of(settings: Settings, threads: int = 1) -> MTCNN:
    """Return the face detector that the settings ask for."""
    return MTCNN(settings.detector_weights, min_face=settings.min_face, threads=threads)


def _network(name: str, settings: Settings) -> FeatureNetwork:
    return load_network(
        name,
        settings.weights.get(name),
        seed=settings.seed,
        device=settings.device,
        precision=settings.precision,
    )


def _check_stretch(settings: Settings) -> None:
    known = () if settings.stretch is None else settings.stretch.low
    missing = [region for region in settings.regions if region not in known]
    if settings.networks and missing:
        raise ValueError(
            f"Features of {', '.join(settings.networks)} need a stretch for each region, and the "
            f"settings have none for {', '.join(missing)}. Learn it first, from genuine training "
            "clips: replace(settings, stretch=learn_stretch(paths, settings))."
        )


def key_of(meaning: dict[str, Any]) -> str:
    """Return the key of features: a hash of all that they depend on besides the video."""
    canonical = json.dumps(meaning, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:KEY_LENGTH]
