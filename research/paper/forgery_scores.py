"""What experts say of clips, and which of it may be learnt from while a kind is left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.random import RandomState

from lpfuse._arrays import Host
from lpfuse.ensemble.components import Folds, assign_folds
from lpfuse.fusion import FixedRule
from lpfuse_faces.clips import Clip, identity_groups
from lpfuse_faces.detector import VideoDetector
from lpfuse_faces.experts import LEARNERS
from lpfuse_faces.features import VideoFeatures
from research.paper.forgery_methods import Part, Round

FOLDS = 5

Features = Mapping[Path, VideoFeatures]


@dataclass(frozen=True, eq=False)
class ScoredClips:
    """Clips, and what the experts say of their frames.

    Attributes
    ----------
    experts : list of str
        Names of the R experts.
    clips : list of Clip
        Training clips first.
    scores : list of ndarray of shape (n, R)
        Of each clip. Training clips are scored out of fold.
    """

    experts: list[str]
    clips: list[Clip]
    scores: list[Host]

    def round(self, kind: str, setting: str, pooling: str | float, seed: int) -> Round:
        """What may be learnt from while a kind is left out."""

        def teaches(clip: Clip) -> bool:
            allowed = setting == "non-pure" and clip.kind != kind
            return clip.split == "train" and (allowed or not clip.is_forged)

        validation = self._part(lambda clip: clip.split == "val" and clip.kind != kind)
        both = len(np.unique(validation.labels)) == 2
        return Round(self._part(teaches), validation if both else None, pooling, seed)

    def test(self, kind: str) -> Part:
        """Genuine test clips, and those of the kind that is left out."""
        return self._part(lambda clip: _is_tested(clip, kind))

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

    def _part(self, wanted: Callable[[Clip], bool]) -> Part:
        chosen = [i for i, clip in enumerate(self.clips) if wanted(clip)]
        tables = [self.scores[i] for i in chosen]
        video = np.repeat(np.arange(len(chosen)), [len(table) for table in tables])
        labels = np.array([float(self.clips[i].label or 0) for i in chosen])
        return Part(np.concatenate([np.empty((0, len(self.experts))), *tables]), video, labels)


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
    """Fit the experts to the genuine training clips; score all clips.

    Folds depend on the people alone, and experts on genuine clips: the score of a clip is the same
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
        Deals people out to folds, and seeds the experts.
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
        fusion=FixedRule("sum"),  # nobody asks for its verdicts: this is the least work
        cv=Folds.by_number(np.repeat(fold, frames)).pairs,
        calibration="plain",
        false_alarm_rate=0.5,
        n_jobs=n_jobs,
        random_state=seed,
    )
    videos = [features[clip.path] for clip in training]
    detector.fit(videos, [clip.label for clip in training], groups=groups)
    tables = _cut(detector.lessons_.scores, frames)
    if others:
        asked = detector.expert_scores([features[clip.path] for clip in others])
        tables += _cut(asked.scores, _counts(others, features))
    return ScoredClips(detector.expert_names_, [*training, *others], tables)


def _counts(clips: Sequence[Clip], features: Features) -> list[int]:
    """Frames that show a face."""
    return [features[clip.path].n_faces for clip in clips]


def _cut(scores: Host, frames: Sequence[int]) -> list[Host]:
    return np.split(scores, np.cumsum(frames)[:-1])
