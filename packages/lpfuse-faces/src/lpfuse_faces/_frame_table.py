"""Videos as tables of their frames: checked, put below each other, and their sets side by side."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays.operations import Host
from lpfuse_faces._features import VideoFeatures

FEW_NAMES = 5  # of videos that a message names
Index = NDArray[np.intp]


class FrameScores(NamedTuple):
    """Raw scores of the frames of some videos, by each learner.

    Attributes
    ----------
    scores : ndarray of shape (n, R)
        Raw scores, high = genuine.
    video : ndarray of shape (n,)
        The position of each frame's video, from 0.
    n_videos : int
        How many videos there are; some may have no frame.
    names : list of str
        Names of the R learners.
    """

    scores: Host
    video: Index
    n_videos: int
    names: list[str]


class OutOfFoldFrames(NamedTuple):
    """The frames that taught the weights, scored by learners that had not seen their group.

    Attributes
    ----------
    scores, video, n_videos, names
        As in `FrameScores`.
    labels : ndarray of shape (n,)
        ±1, as their videos.
    fold : ndarray of shape (n,)
        Numbers of the folds.
    """

    scores: Host
    video: Index
    n_videos: int
    names: list[str]
    labels: Host
    fold: Index


@dataclass(frozen=True)
class Frames:
    """What there is to learn from: features, and what is known of them by their videos."""

    X: NDArray[np.float32]
    labels: Host
    groups: NDArray[Any]
    video: Index

    def __getitem__(self, chosen: NDArray[np.bool_]) -> Frames:
        return Frames(self.X[chosen], self.labels[chosen], self.groups[chosen], self.video[chosen])


def check_videos(videos: Any) -> list[VideoFeatures]:
    """Return the videos as a list; refused is what is none."""
    if isinstance(videos, VideoFeatures):
        raise TypeError("Expected a sequence of videos, got one. Put it in a list: [video].")
    checked = list(videos)
    strange = [type(video).__name__ for video in checked if not isinstance(video, VideoFeatures)]
    if strange:
        raise TypeError(
            f"Videos must be VideoFeatures, got {strange[0]}. Extract them: "
            "lpfuse_faces.extract_all(paths, …).features.values()."
        )
    if not checked:
        raise ValueError("There are no videos. Bring at least one.")
    return checked


def check_mask(validation: Any, n: int) -> NDArray[np.bool_] | None:
    """Return True or False for each of n videos, if given."""
    if validation is None:
        return None
    mask = np.asarray(validation)
    if mask.shape != (n,) or mask.dtype != bool:
        raise ValueError(
            f"validation must say True or False of each of the {n} videos, got an array of shape "
            f"{mask.shape} and type {mask.dtype}."
        )
    return mask


def check_sets(videos: Sequence[VideoFeatures], widths: Mapping[str, int | None]) -> None:
    """Whether all videos have the sets, as wide as they shall be (None: however wide)."""
    for video in videos:
        missing = [name for name in widths if name not in video.sets]
        if missing:
            raise ValueError(
                f"{video.name} has no features {', '.join(missing)}, only {', '.join(video.sets)}. "
                "Extract them with settings that name them."
            )
        for name, width in widths.items():
            if width is not None and video.widths[name] != width:
                raise ValueError(
                    f"{video.name} has {video.widths[name]} columns in {name}, where {width} are "
                    "expected. Extract all videos with the same settings."
                )


def warn_of_missing_faces(videos: Sequence[VideoFeatures]) -> None:
    """Name videos that nothing can be learnt from."""
    missing = [video.name for video in videos if video.n_faces == 0]
    if missing:
        named = ", ".join(missing[:FEW_NAMES]) + (", …" if len(missing) > FEW_NAMES else "")
        warnings.warn(
            f"{len(missing)} of {len(videos)} videos show no face, and are left out: {named}.",
            UserWarning,
            stacklevel=3,
        )


def columns_of(sets: Any, widths: Mapping[str, int], name: str) -> Any:
    """Return positions of the columns of one feature set, or of several."""
    ends = dict(zip(widths, np.cumsum(list(widths.values())), strict=True))
    several = [sets] if isinstance(sets, str) else list(sets)
    unknown = [each for each in several if each not in widths]
    if unknown:
        raise ValueError(
            f"{name!r} shall see {', '.join(map(repr, unknown))}, but the feature sets in use are "
            f"{', '.join(widths)}."
        )
    return np.concatenate([np.arange(ends[each] - widths[each], ends[each]) for each in several])


def video_of_frames(videos: Sequence[VideoFeatures]) -> Index:
    """Return the position of each frame's video."""
    return np.repeat(np.arange(len(videos)), [video.n_faces for video in videos])


def table_of(videos: Sequence[VideoFeatures], sets: Sequence[str]) -> NDArray[np.float32]:
    """Return the features of all frames, these sets side by side."""
    return np.concatenate([video.table(sets) for video in videos if video.n_faces])
