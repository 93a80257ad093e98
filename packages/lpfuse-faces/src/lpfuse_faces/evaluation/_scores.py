"""Scores of clips by the learners, and which of them serve training, validation and test."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

from lpfuse._arrays.operations import Host
from lpfuse.ensemble.folds import Folds, assign_folds
from lpfuse.fusion import FixedRule
from lpfuse_faces._detector import VideoDetector
from lpfuse_faces._features import VideoFeatures
from lpfuse_faces._learners import LEARNERS
from lpfuse_faces._pooling import pooled
from lpfuse_faces.clips import Clip, identity_groups

FOLDS = 5  # as the default of FusedDetector

Features = Mapping[Path, VideoFeatures]


class ScoredVideos(NamedTuple):
    """Raw scores of the frames of some videos, each with one frame or more.

    Attributes
    ----------
    scores : ndarray of shape (n, R)
        By each learner; high = genuine.
    video : ndarray of shape (n,)
        The position of each frame's video.
    labels : ndarray of shape (videos,)
        +1 genuine, −1 forged.
    """

    scores: Host
    video: NDArray[np.intp]
    labels: Host

    def pooled(self, scores: Host, pooling: str | float) -> Host:
        """Scores of frames → scores of videos; column by column where there are several."""
        if scores.ndim == 1:
            return pooled(scores, self.video, len(self.labels), pooling)
        return np.column_stack([self.pooled(column, pooling) for column in scores.T])

    def as_frames(self) -> ScoredVideos:
        """Return the frames, each as a video of its own."""
        return ScoredVideos(self.scores, np.arange(len(self.video)), self.labels[self.video])


@dataclass(frozen=True, eq=False)
class ScoredClips:
    """Clips, with the scores of their frames.

    Attributes
    ----------
    learners : list of str
        Names of the R learners.
    clips : list of Clip
        Training clips first.
    scores : list of ndarray of shape (n, R)
        Of each clip. Training clips are scored out of fold.
    settings : dict of str to dict
        What was chosen for each learner, if anything was.
    """

    learners: list[str]
    clips: list[Clip]
    scores: list[Host]
    settings: dict[str, dict[str, float]] = field(default_factory=dict)

    def training(self, kind: str, setting: str) -> ScoredVideos:
        """Training clips: genuine ones, and in the non-pure setting forgeries of other kinds."""

        def teaches(clip: Clip) -> bool:
            allowed = setting == "non-pure" and clip.kind != kind
            return clip.split == "train" and (allowed or not clip.is_forged)

        return self._chosen(teaches)

    def validation(self, kind: str) -> ScoredVideos | None:
        """Return validation clips without the held-out kind; None unless both classes remain."""
        found = self._chosen(lambda clip: clip.split == "val" and clip.kind != kind)
        return found if len(np.unique(found.labels)) == 2 else None

    def test(self, kind: str) -> ScoredVideos:
        """Genuine test clips, and those of the kind that is left out."""
        return self._chosen(lambda clip: _is_tested(clip, kind))

    def people(self, kind: str) -> tuple[int, int]:
        """How many people, or pairs of them, the genuine and the forged test clips are of."""
        genuine, forged = (
            {
                clip.identities or (str(clip.path),)
                for clip in self.clips
                if _is_tested(clip, kind) and clip.is_forged == is_forged
            }
            for is_forged in (False, True)
        )
        return len(genuine), len(forged)

    def _chosen(self, wanted: Callable[[Clip], bool]) -> ScoredVideos:
        chosen = [i for i, clip in enumerate(self.clips) if wanted(clip)]
        tables = [self.scores[i] for i in chosen]
        video = np.repeat(np.arange(len(chosen)), [len(table) for table in tables])
        labels = np.array([float(self.clips[i].label or 0) for i in chosen])
        none = np.empty((0, len(self.learners)))
        return ScoredVideos(np.concatenate([none, *tables]), video, labels)


def _is_tested(clip: Clip, kind: str) -> bool:
    return clip.split == "test" and clip.kind in (None, kind)


def score_clips(
    clips: Sequence[Clip],
    features: Features,
    *,
    learners: Sequence[str] = LEARNERS,
    sets: Sequence[str] | None = None,
    n_jobs: int | None = None,
    seed: int = 0,
) -> ScoredClips:
    """Fit the learners to the genuine training clips; score all clips.

    Folds depend on the people alone, and learners on genuine clips: the score of a clip is the same
    whatever forgeries of others there are.

    Parameters
    ----------
    clips : sequence of Clip
        With splits; all of them show a face.
    features : mapping of Path to VideoFeatures
        Of the clips.
    learners, sets, n_jobs : sequences of str, and int
        As in `VideoDetector`.
    seed : int, default=0
        Deals people out to folds, and seeds the learners.
    """
    training = [clip for clip in clips if clip.split == "train"]
    others = [clip for clip in clips if clip.split != "train"]
    groups = np.array(identity_groups(training))
    n_folds = min(FOLDS, len(np.unique(groups)))
    if n_folds < 2:
        raise ValueError(
            f"Training clips must be of two groups of people or more, for folds share nobody; "
            f"there are {n_folds}. Bring training clips of other people."
        )
    frames = _counts(training, features)
    fold = assign_folds(len(training), groups, n_folds, RandomState(seed))
    detector = VideoDetector(
        sets,
        learners,
        fusion=FixedRule("sum"),  # only the scores of the learners are used: this is the least work
        cv=Folds.by_number(np.repeat(fold, frames)).pairs,
        calibration="plain",
        false_alarm_rate=0.5,
        n_jobs=n_jobs,
        random_state=seed,
    )
    videos = [features[clip.path] for clip in training]
    detector.fit(videos, [clip.label for clip in training], groups=groups)
    tables = _by_clip(detector.out_of_fold_.scores, frames)
    if others:
        found = detector.learner_scores([features[clip.path] for clip in others])
        tables += _by_clip(found.scores, _counts(others, features))
    return ScoredClips(detector.learner_names_, [*training, *others], tables)


def _counts(clips: Sequence[Clip], features: Features) -> list[int]:
    """Frames that show a face."""
    return [features[clip.path].n_faces for clip in clips]


def _by_clip(scores: Host, frames: Sequence[int]) -> list[Host]:
    return np.split(scores, np.cumsum(frames)[:-1])
