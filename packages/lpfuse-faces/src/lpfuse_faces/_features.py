"""Features of one video, a row for each frame that shows a face; and their file."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from io import BufferedReader
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lpfuse._files import replacing
from lpfuse_faces._regular_file import check_stored, open_regular

# A file of features says which layout it has; one of another layout is not read.
FILE_FORMAT = 1
_ROWS = {"index": (), "time": (), "boxes": (4,), "landmarks": (5, 2)}


@dataclass(eq=False)
class VideoFeatures:
    """Features of one video: a row for each frame that shows a face.

    Parameters
    ----------
    name : str
        Name of the video's file.
    sha256 : str
        SHA-256 of its content, in hexadecimal.
    index : array of shape (n,)
        Number of each frame in the video, from 0.
    time : array of shape (n,)
        Its time in seconds.
    boxes : array of shape (n, 4)
        Left, top, right and bottom of the face, in pixels.
    landmarks : array of shape (n, 5, 2)
        Eyes, nose and corners of the mouth, each as (x, y).
    sets : dict of str to array of shape (n, d)
        The features, by names such as "azimuthal/face" or "inception/mouth".
    n_frames : int
        How many frames were looked at: n, and those without a face.
    warnings : tuple of str, optional
        What a reader of the numbers must know, such as that weights were random.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse_faces._features import VideoFeatures
    >>> video = VideoFeatures(
    ...     name="clip.mp4",
    ...     sha256="00" * 32,
    ...     index=[0, 10],
    ...     time=[0.0, 0.4],
    ...     boxes=np.zeros((2, 4)),
    ...     landmarks=np.zeros((2, 5, 2)),
    ...     sets={"azimuthal/face": np.ones((2, 3)), "azimuthal/mouth": np.zeros((2, 1))},
    ...     n_frames=5,
    ... )
    >>> video.n_faces, video.n_without_face, video.widths
    (2, 3, {'azimuthal/face': 3, 'azimuthal/mouth': 1})
    >>> video.table(["azimuthal/mouth", "azimuthal/face"])
    array([[0., 1., 1., 1.],
           [0., 1., 1., 1.]], dtype=float32)
    """

    name: str
    sha256: str
    index: NDArray[np.int64]
    time: NDArray[np.float64]
    boxes: NDArray[np.float32]
    landmarks: NDArray[np.float32]
    sets: dict[str, NDArray[np.float32]]
    n_frames: int
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.index = np.asarray(self.index, dtype=np.int64)
        self.time = np.asarray(self.time, dtype=np.float64)
        self.boxes = np.asarray(self.boxes, dtype=np.float32)
        self.landmarks = np.asarray(self.landmarks, dtype=np.float32)
        self.sets = {name: np.asarray(rows, np.float32) for name, rows in self.sets.items()}
        self.warnings = tuple(self.warnings)
        n = self.n_faces
        for name, shape in _ROWS.items():
            _check_shape(name, getattr(self, name), (n, *shape))
        for name, rows in self.sets.items():
            if rows.ndim != 2:
                raise ValueError(f"sets[{name!r}] must have two dimensions, got {rows.ndim}.")
            _check_shape(f"sets[{name!r}]", rows, (n, rows.shape[1]))
        if self.n_frames < n:
            raise ValueError(f"n_frames must be at least {n}, the rows; got {self.n_frames}.")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, VideoFeatures):
            return NotImplemented
        mine, theirs = self._arrays(), other._arrays()
        return (
            self._about() == other._about()
            and list(mine) == list(theirs)
            and all(np.array_equal(mine[name], theirs[name]) for name in mine)
        )

    @property
    def n_faces(self) -> int:
        """How many of the frames looked at show a face: the number of rows."""
        return len(self.index)

    @property
    def n_without_face(self) -> int:
        """How many of them show none."""
        return self.n_frames - self.n_faces

    @property
    def widths(self) -> dict[str, int]:
        """How many columns each feature set has."""
        return {name: rows.shape[1] for name, rows in self.sets.items()}

    def table(self, sets: Sequence[str] | None = None) -> NDArray[np.float32]:
        """Feature sets side by side.

        Parameters
        ----------
        sets : sequence of str, optional
            Which ones, in which order; all of them by default.

        Returns
        -------
        array of shape (n, Σd)
            A row for each frame that shows a face.
        """
        chosen = list(self.sets) if sets is None else list(sets)
        if missing := [name for name in chosen if name not in self.sets]:
            raise ValueError(
                f"{self.name} has no features {', '.join(missing)}, only {', '.join(self.sets)}. "
                "Extract them with settings that name them."
            )
        none = np.empty((self.n_faces, 0), np.float32)
        return np.hstack([none, *(self.sets[name] for name in chosen)])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the features to a file, which appears whole or not at all.

        Parameters
        ----------
        path : path
            An archive of NumPy by the name you choose, ``.npz`` or other.
        """
        about = np.asarray(json.dumps({"format": FILE_FORMAT, **self._about()}))
        with replacing(path) as file:
            np.savez(file, allow_pickle=False, about=about, **self._arrays())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Features from a file that `save` wrote.

        Parameters
        ----------
        path : path
            The file. One that is damaged, or something else, is a ValueError.

        Returns
        -------
        VideoFeatures
            Equal to what was saved.
        """
        with open_regular(path) as raw, BufferedReader(raw) as file:
            try:
                check_stored(file)
                with np.load(file, allow_pickle=False) as arrays:
                    about = json.loads(str(arrays["about"]))
                    found = about.pop("format")
                    if found != FILE_FORMAT:
                        raise ValueError(f"its format is {found}, not {FILE_FORMAT}")
                    rows = {name: arrays[name] for name in _ROWS}
                    sets = {name: arrays[f"sets/{name}"] for name in about.pop("sets")}
                return cls(**about, **rows, sets=sets)
            except Exception as error:  # a damaged archive raises whatever its damage leads to
                raise ValueError(
                    f"{os.fspath(path)} is not a file of features that this version can read "
                    f"({type(error).__name__}: {error}). Extract them again."
                ) from error

    def _about(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "sha256": self.sha256,
            "n_frames": self.n_frames,
            "warnings": list(self.warnings),
            "sets": list(self.sets),
        }

    def _arrays(self) -> dict[str, NDArray[Any]]:
        rows = {name: getattr(self, name) for name in _ROWS}
        return rows | {f"sets/{name}": values for name, values in self.sets.items()}


def _check_shape(name: str, rows: NDArray[Any], shape: tuple[int, ...]) -> None:
    if rows.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {rows.shape}.")
