"""Leave one manipulation out: the protocol of the paper's second experiment, on any clips.

For each quality, and each kind of forgery:

- the learners learn from genuine training clips alone, and score training clips out of fold, no
  fold sharing a person with another;
- weights learn from these scores: of genuine clips ("pure"), or of forgeries of the other kinds
  too ("non-pure");
- what a method chooses, the threshold at the least, is chosen on validation clips: genuine ones,
  and the other kinds; without validation clips, on training clips;
- AUC, accuracy and G-mean are measured on test clips: genuine ones, and the kind left out.

As no learner learns from a forgery, one fit of the learners serves all kinds and both settings.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import roc_auc_score

from lpfuse._checks.arguments import check_choice
from lpfuse._checks.messages import listed
from lpfuse.metrics import g_mean
from lpfuse_faces._features import VideoFeatures
from lpfuse_faces._learners import LEARNERS
from lpfuse_faces.clips import Clip, check_disjoint, with_splits
from lpfuse_faces.evaluation._methods import FittedMethod, LearningData, Methods, fusion_methods
from lpfuse_faces.evaluation._scores import Features, ScoredClips, ScoredVideos, score_clips

SETTINGS = ("pure", "non-pure")

Row = dict[str, Any]


def leave_one_manipulation_out(
    clips: Sequence[Clip],
    features: Features,
    *,
    learners: Sequence[str] = LEARNERS,
    sets: Sequence[str] | None = None,
    pooling: str | float = "mean",
    settings: Sequence[str] = SETTINGS,
    methods: Methods = fusion_methods,
    seed: int = 0,
    n_jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Row]:
    """Measure methods of fusion on every kind of forgery, left out of all but the test.

    Parameters
    ----------
    clips : sequence of Clip
        Labelled, of one quality or several, each of which is measured by itself. Where no clip has
        a split, people are divided at random; where some have, all must. Without validation clips
        training clips set thresholds.
    features : mapping of Path to VideoFeatures
        Of the clips. A clip that has none, since it could not be read, is left out and counted.
        Each is asked for twice; only those of one quality are kept at a time.
    learners, sets, pooling : default=all, all, "mean"
        As in :class:`lpfuse_faces.VideoDetector`.
    settings : sequence of "pure" and "non-pure"
        Both by default.
    methods : callable
        ``methods(learners, with_forgeries=…, validated=…)`` gives name → method, as
        `fusion_methods` does.
    seed : int, default=0
        Divides people, and seeds whatever draws at random.
    n_jobs : int, optional
        Learners that are fitted at a time.
    progress : callable, optional
        Is told how many kinds are done, and of how many.

    Returns
    -------
    list of dict
        A row for each `quality`, left-out `kind`, `setting`, `method` and `metric` ("auc",
        "accuracy", "balanced_accuracy", "g_mean"): its `value` in %, `is_learner` for single
        learners, `n_genuine` and `n_forged` videos of the test, `warnings`; for the AUC also the
        `choices` that were made on validation.

    Raises
    ------
    ValueError
        When a person, or a video, is in two splits, or there is nothing to train or test on.
    """
    experiment = LeaveOneManipulationOut(
        clips,
        features,
        learners=learners,
        sets=sets,
        pooling=pooling,
        settings=settings,
        methods=methods,
        seed=seed,
        n_jobs=n_jobs,
    )
    rows: list[Row] = []
    for done, (quality, kind) in enumerate(experiment.cells):
        if progress is not None:
            progress(done, len(experiment.cells))
        rows += experiment.rows(quality, kind)
    if progress is not None:
        progress(len(experiment.cells), len(experiment.cells))
    return rows


class LeaveOneManipulationOut:
    """The same protocol a kind at a time, for who stores what is measured.

    Parameters
    ----------
    clips, features, learners, sets, pooling, settings, methods, seed, n_jobs
        As in `leave_one_manipulation_out`.

    Attributes
    ----------
    clips : list of Clip
        Those that are used: with a split, in an order that depends on nothing but names.
    contents : dict of Path to VideoContent
        What the features of each clip are.
    cells : list of (quality, kind)
        What there is to measure.
    remarks : list of str
        What readers of the figures must know.
    """

    def __init__(
        self,
        clips: Sequence[Clip],
        features: Features,
        *,
        learners: Sequence[str] = LEARNERS,
        sets: Sequence[str] | None = None,
        pooling: str | float = "mean",
        settings: Sequence[str] = SETTINGS,
        methods: Methods = fusion_methods,
        seed: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        for setting in settings:
            check_choice("Each of settings", setting, SETTINGS)
        self.clips, self.contents, remarks = _checked(clips, features, sets, seed)
        marks = [text for clip in self.clips for text in self.contents[clip.path].warnings]
        self.remarks = list(dict.fromkeys([*remarks, *marks]))
        self.cells = [
            (quality, kind)
            for quality in sorted({clip.quality for clip in self.clips}, key=str)
            for kind in _kinds(self.clips, quality)
        ]
        self._settings, self._methods = settings, methods
        self._pooling, self._seed = pooling, seed

        @cache
        def scored(quality: str | None) -> ScoredClips:
            chosen = [clip for clip in self.clips if clip.quality == quality]
            loaded = {clip.path: features[clip.path] for clip in chosen}
            return score_clips(
                chosen, loaded, learners=learners, sets=sets, n_jobs=n_jobs, seed=seed
            )

        self._scored = scored

    def people(self, quality: str | None, kind: str) -> tuple[int, int]:
        """How many people, or pairs of them, the genuine and the forged test clips are of."""
        return self._scored(quality).people(kind)

    def rows(self, quality: str | None, kind: str) -> list[Row]:
        """What is measured while a kind is left out.

        Parameters
        ----------
        quality, kind : str
            One of `cells`.

        Returns
        -------
        list of dict
            As `leave_one_manipulation_out` describes them.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of tied scores, few videos: the figures tell
            tables = self._scored(quality)
            measured = [
                {"setting": setting, **row}
                for setting in self._settings
                for row in self._of_setting(tables, kind, setting)
            ]
        if not measured:
            raise ValueError(
                f"No forgery of another kind than {kind} is there to learn from, as the non-pure "
                "setting needs. Ask for the pure one, or bring some."
            )
        cell = {"quality": quality, "kind": kind}
        return [{**cell, **row, "warnings": self.remarks} for row in measured]

    def _of_setting(self, tables: ScoredClips, kind: str, setting: str) -> Iterator[Row]:
        training, validation = tables.training(kind, setting), tables.validation(kind)
        with_forgeries, validated = bool((training.labels < 0).any()), validation is not None
        if setting == "non-pure" and not with_forgeries:
            return  # no other kind to learn from
        given = LearningData(training, validation, self._pooling, self._seed)
        test = tables.test(kind)
        counts = {
            "n_genuine": int((test.labels > 0).sum()),
            "n_forged": int((test.labels < 0).sum()),
        }
        methods = self._methods(tables.learners, with_forgeries=with_forgeries, validated=validated)
        for name, method in methods.items():
            fitted = method(given)
            for metric, value in _metrics(fitted, test):
                row = {"method": name, "is_learner": name in tables.learners, "metric": metric}
                row |= {"value": value, **counts}
                yield row | ({"choices": fitted.choices} if metric == "auc" else {})


def _metrics(fitted: FittedMethod, test: ScoredVideos) -> Iterator[tuple[str, float]]:
    """Metrics on the test, in %."""
    scores, labels = fitted.score(test), test.labels
    decisions = np.where(scores >= fitted.offset, 1.0, -1.0)
    right = decisions == labels
    yield "auc", 100 * float(roc_auc_score(labels, scores))
    yield "accuracy", 100 * float(right.mean())
    rates = [float(right[labels == label].mean()) for label in (1, -1)]
    yield "balanced_accuracy", 50 * sum(rates)
    yield "g_mean", 100 * g_mean(labels, decisions)


# ------------------------------------------------------------------------------------------- checks


class VideoContent(NamedTuple):
    """What is to be known of a video before its features are needed."""

    sha256: str
    n_faces: int
    warnings: tuple[str, ...]
    digest: str

    @classmethod
    def of(cls, video: VideoFeatures, sets: Sequence[str] | None) -> VideoContent:
        """The content of the features; the digest is of the sets in use."""
        digest = sha256(np.ascontiguousarray(video.table(sets)).data).hexdigest()
        return cls(video.sha256, video.n_faces, video.warnings, digest)


Contents = Mapping[Path, VideoContent]


def _checked(
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


def _kinds(clips: Sequence[Clip], quality: str | None) -> list[str]:
    """The kinds of forgery that can be tested at a quality."""
    there = {(clip.split, clip.kind) for clip in clips if clip.quality == quality}
    kinds = sorted(kind for split, kind in there if split == "test" and kind is not None)
    lacking = [split for split in ("train", "test") if (split, None) not in there]
    if lacking or not kinds:
        at = f" of quality {quality}" if quality else ""
        missing = f"genuine clips for {listed(lacking)}" if lacking else "forged clips for test"
        raise ValueError(f"There are no {missing}{at}. Bring some, or divide the people anew.")
    return kinds
