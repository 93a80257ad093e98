"""Clips that an experiment can use: labelled, divided, read, and nobody in two splits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lpfuse._validation.params import listed
from lpfuse_faces._features import VideoFeatures
from lpfuse_faces.clips import Clip, check_disjoint, with_splits
from lpfuse_faces.evaluation._scores import Features


class VideoContent(NamedTuple):
    """What is to be known of a video before its features are needed."""

    sha256: str
    n_faces: int
    warnings: tuple[str, ...]
    digest: str
    widths: dict[str, int]

    @classmethod
    def of(cls, video: VideoFeatures, sets: Sequence[str] | None) -> VideoContent:
        """Return the content of the features; the digest is of the sets in use."""
        digest = sha256(np.ascontiguousarray(video.table(sets)).data).hexdigest()
        used = video.widths if sets is None else {name: video.widths[name] for name in sets}
        return cls(video.sha256, video.n_faces, video.warnings, digest, used)


Contents = Mapping[Path, VideoContent]


def usable_clips(
    clips: Sequence[Clip], features: Features, sets: Sequence[str] | None, seed: int
) -> tuple[list[Clip], Contents, list[str]]:
    """Clips with features and splits, in an order of their own; what is to be said of them."""
    unknown = [clip.path.name for clip in clips if clip.label is None]
    if unknown:
        raise ValueError(
            f"Whether {listed(unknown)} are genuine or forged is not known. Label them, or leave "
            "them out."
        )
    without = sum(clip.split is None for clip in clips)
    if 0 < without < len(clips):
        raise ValueError(
            f"{without} of {len(clips)} clips have no split. Give one to all, or to none: people "
            "are then divided at random."
        )
    divided = with_splits(clips, seed) if without else clips
    check_disjoint(divided)
    read = sorted((clip for clip in divided if clip.path in features), key=lambda clip: clip.path)
    contents = {clip.path: VideoContent.of(features[clip.path], sets) for clip in read}
    usable = [clip for clip in read if contents[clip.path].n_faces]
    _check_contents(usable, contents)
    remarks = _remarks(len(clips), len(clips) - len(read), len(read) - len(usable), usable)
    return usable, contents, list(remarks)


def _check_contents(clips: Sequence[Clip], contents: Contents) -> None:
    """Refuse a video that is, under two names, in two splits."""
    known: dict[str, Clip] = {}
    for clip in clips:
        first = known.setdefault(contents[clip.path].sha256, clip)
        if first.split != clip.split:
            raise ValueError(
                f"{first.path} ({first.split}) and {clip.path} ({clip.split}) are the same video. "
                "What is learnt from must not be tested on."
            )


def _remarks(given: int, unread: int, faceless: int, used: Sequence[Clip]) -> Iterator[str]:
    if unread:
        yield f"{unread} of {given} videos could not be read, and are left out."
    if faceless:
        yield f"{faceless} of {given} videos show no face, and are left out."
    if nameless := sum(not clip.identities for clip in used):
        yield (
            f"{nameless} of {len(used)} clips name nobody: whether a person is in two splits "
            "cannot be told."
        )
    if not any(clip.split == "val" for clip in used):
        yield "There are no validation clips: nothing is chosen, and training clips set thresholds."


def tested_kinds(clips: Sequence[Clip], quality: str | None) -> list[str]:
    """Return the kinds of forgery that can be tested at a quality."""
    there = {(clip.split, clip.kind) for clip in clips if clip.quality == quality}
    kinds = sorted(kind for split, kind in there if split == "test" and kind is not None)
    lacking = [split for split in ("train", "test") if (split, None) not in there]
    if lacking or not kinds:
        at = f" of quality {quality}" if quality else ""
        missing = f"genuine clips for {listed(lacking)}" if lacking else "forged clips for test"
        raise ValueError(f"There are no {missing}{at}. Bring some, or divide the people anew.")
    return kinds
