"""A folder of features that were extracted before, found by the content of the video."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lpfuse._files import replacing
from lpfuse_faces._features import VideoFeatures


class FeatureCache:
    """Features on disk, so that no video is read twice with the same settings.

    What depends on other settings, weights or code lies in a folder of its own, named by the
    extractor's key::

        folder/KEY/settings.json         what the key stands for
        folder/KEY/ba/ba7816….npz        features of the video with this SHA-256

    Parameters
    ----------
    folder : path
        Made when something is stored first. Several processes may share it; any part of it may be
        deleted, and is extracted again when needed.

    Notes
    -----
    A file appears whole or not at all, so a crash loses the videos in work and no other. One that
    is damaged counts as absent, and is replaced.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from lpfuse_faces._cache import FeatureCache
    >>> from lpfuse_faces._features import VideoFeatures
    >>> video = VideoFeatures(
    ...     name="clip.mp4",
    ...     sha256="ba78",
    ...     index=[0],
    ...     time=[0.0],
    ...     boxes=np.zeros((1, 4)),
    ...     landmarks=np.zeros((1, 5, 2)),
    ...     sets={"azimuthal/face": np.ones((1, 64))},
    ...     n_frames=1,
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cache = FeatureCache(folder)
    ...     cache.store(video, key="3f2a")
    ...     cache.find("ba78", key="3f2a") == video, cache.find("ba78", key="77e0")
    (True, None)
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def prepare(self, key: str, meaning: Mapping[str, Any]) -> None:
        """Make the folder of a key, which can be written to, and say in it what the key stands for.

        Parameters
        ----------
        key : str
            Key of an extractor.
        meaning : mapping
            What the key was made from: values that JSON can hold.
        """
        try:
            (self.folder / key).mkdir(parents=True, exist_ok=True)
            with replacing(self.folder / key / "settings.json") as file:
                file.write(json.dumps(meaning, indent=2, ensure_ascii=False).encode() + b"\n")
        except OSError as error:
            raise OSError(
                f"Features cannot be stored in {self.folder} ({error}). "
                "Name a folder that can be written to, or do without a cache."
            ) from error

    def find(self, sha256: str, key: str) -> VideoFeatures | None:
        """Features that were stored.

        Parameters
        ----------
        sha256 : str
            SHA-256 of the video's content, in hexadecimal.
        key : str
            Key of the extractor.

        Returns
        -------
        VideoFeatures or None
            None where there are none, or where their file is damaged.
        """
        try:
            found = VideoFeatures.load(self._place(sha256, key))
        except (OSError, ValueError):
            return None
        return found if found.sha256 == sha256 else None

    def store(self, features: VideoFeatures, key: str) -> None:
        """Keep the features of a video.

        Parameters
        ----------
        features : VideoFeatures
            They know the SHA-256 that they are found by.
        key : str
            Key of the extractor.
        """
        place = self._place(features.sha256, key)
        place.parent.mkdir(parents=True, exist_ok=True)
        features.save(place)

    def _place(self, sha256: str, key: str) -> Path:
        return self.folder / key / sha256[:2] / f"{sha256}.npz"


class StoredFeatures(Mapping[Path, VideoFeatures]):
    """Features by the path of the video, each read when it is asked for, and not kept.

    Parameters
    ----------
    find : callable
        Takes a SHA-256, returns what is stored for it, or None.
    contents : dict of Path to str
        SHA-256 of each video's content.
    """

    def __init__(
        self, find: Callable[[str], VideoFeatures | None], contents: dict[Path, str]
    ) -> None:
        self.find = find
        self.contents = contents

    def __getitem__(self, path: Path) -> VideoFeatures:
        found = self.find(self.contents[path])
        if found is None:
            raise FileNotFoundError(
                f"Features of {path} were stored and are gone: was the cache deleted? Extract "
                "them again."
            )
        return replace(found, name=path.name)  # the same content may have several names

    def __contains__(self, path: object) -> bool:
        return path in self.contents  # without reading anything

    def __iter__(self) -> Iterator[Path]:
        return iter(self.contents)

    def __len__(self) -> int:
        return len(self.contents)
