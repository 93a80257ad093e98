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

With the paper's settings (`_presets`) training clips are scored in sample, and validation clips
choose the learners' settings, too.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from lpfuse._validation.params import check_choice
from lpfuse.metrics import g_mean
from lpfuse_faces._learners import LEARNERS
from lpfuse_faces.clips import Clip
from lpfuse_faces.evaluation._methods import FittedMethod, LearningData, Methods
from lpfuse_faces.evaluation._presets import PRESETS, TablesOf, Task
from lpfuse_faces.evaluation._scores import Features, ScoredClips, ScoredVideos
from lpfuse_faces.evaluation._usable_clips import tested_kinds, usable_clips

SETTINGS = ("pure", "non-pure")

Row = dict[str, Any]
Progress = Callable[[int, int], None]


def leave_one_manipulation_out(
    clips: Sequence[Clip],
    features: Features,
    *,
    learners: Sequence[str] = LEARNERS,
    sets: Sequence[str] | None = None,
    pooling: str | float = "mean",
    settings: Sequence[str] = SETTINGS,
    preset: str = "default",
    methods: Methods | None = None,
    seed: int = 0,
    n_jobs: int | None = None,
    progress: Progress | None = None,
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
        Each is asked for twice; only those of one quality are kept at a time. The paper's preset
        asks for them again for each feature set, and keeps one set of them.
    learners, sets, pooling : default=all, all, "mean"
        As in :class:`lpfuse_faces.VideoDetector`.
    settings : sequence of "pure" and "non-pure"
        Both by default.
    preset : {"default", "paper"}, default="default"
        "paper": the paper's learners, with widths and q chosen on validation clips, without which
        it is refused; weights from in-sample scores of all frames; ρ and p chosen likewise. It
        takes far longer. docs/adr/0030 has a table of all that differs.
    methods : callable, optional
        ``methods(learners, with_forgeries=…, validated=…)`` gives name → method; by default
        `fusion_methods`, and for the paper's preset `paper_methods`.
    seed : int, default=0
        Divides people, and seeds whatever draws at random.
    n_jobs : int, optional
        Learners that are fitted at a time. Those of the paper share their kernels, and are fitted
        together.
    progress : callable, optional
        Is told how many steps are done, and of how many: kinds, and of the paper's preset also
        fits and clips.

    Returns
    -------
    list of dict
        A row for each `quality`, left-out `kind`, `setting`, `method` and `metric` ("auc",
        "accuracy", "balanced_accuracy", "g_mean" of videos; "frame_auc", "frame_accuracy" of
        their frames, by the threshold for videos): its `value` in %, `is_learner` for single
        learners, `n_genuine` and `n_forged` videos of the test, `warnings`; for the AUC also the
        `choices` that were made on validation.

    Raises
    ------
    ValueError
        When a person, or a video, is in two splits, or there is nothing to train or test on; or,
        for the paper's preset, to choose by.

    Examples
    --------
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from lpfuse_faces import VideoFeatures
    >>> from lpfuse_faces.clips import Clip
    >>> from lpfuse_faces.evaluation import leave_one_manipulation_out
    >>> rng, clips, features = np.random.default_rng(0), [], {}
    >>> for k, split in enumerate(["train"] * 6 + ["val"] * 3 + ["test"] * 3):
    ...     for kind, shift in ((None, 0.0), ("swap", 3.0), ("warp", -3.0)):
    ...         path = Path(f"{kind}/{k}.mp4")
    ...         clips.append(Clip(path, -1 if kind else 1, kind, (str(k),), split))
    ...         sets = {"azimuthal/face": rng.normal(shift, 1, size=(2, 4))}
    ...         places = np.arange(2), np.arange(2), np.zeros((2, 4)), np.zeros((2, 5, 2))
    ...         features[path] = VideoFeatures(path.name, str(path), *places, sets, 2)
    >>> rows = leave_one_manipulation_out(clips, features, preset="paper", learners=["svdd", "gmm"])
    >>> areas = [row for row in rows if row["metric"] == "auc" and row["setting"] == "non-pure"]
    >>> [(row["kind"], row["value"]) for row in areas if row["method"] == "lp"]
    [('swap', 100.0), ('warp', 100.0)]
    >>> [row["choices"] for row in areas if row["method"] == "svdd: azimuthal/face"]
    [{'sigma': 10.0}, {'sigma': 10.0}]
    """
    experiment = LeaveOneManipulationOut(
        clips,
        features,
        learners=learners,
        sets=sets,
        pooling=pooling,
        settings=settings,
        preset=preset,
        methods=methods,
        seed=seed,
        n_jobs=n_jobs,
        progress=progress,
    )
    return [row for cell in experiment.cells for row in experiment.rows(*cell)]


class LeaveOneManipulationOut:
    """The same protocol a kind at a time, for who stores what is measured.

    Parameters
    ----------
    clips, features, learners, sets, pooling, settings, preset, methods, seed, n_jobs, progress
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
        preset: str = "default",
        methods: Methods | None = None,
        seed: int = 0,
        n_jobs: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        for setting in settings:
            check_choice("Each of settings", setting, SETTINGS)
        check_choice("preset", preset, tuple(PRESETS))
        chosen = PRESETS[preset]
        self.clips, self.contents, remarks = usable_clips(clips, features, sets, seed)
        tasks = {}
        for quality in sorted({clip.quality for clip in self.clips}, key=str):
            some = [clip for clip in self.clips if clip.quality == quality]
            kinds = tested_kinds(some, quality)
            how = learners, sets, pooling, seed, n_jobs
            tasks[quality] = Task(some, self.contents, features, kinds, *how)
        self.cells = [(quality, kind) for quality, task in tasks.items() for kind in task.kinds]
        marks = [text for clip in self.clips for text in self.contents[clip.path].warnings]
        told = [text for task in tasks.values() for text in chosen.remarks(task)]
        self.remarks = list(dict.fromkeys([*told, *remarks, *marks]))
        self._settings, self._methods = settings, methods or chosen.methods
        self._learning = pooling, seed, chosen.most_frames
        n_steps = len(self.cells) + sum(map(chosen.n_steps, tasks.values()))
        self._steps = _Steps(n_steps, progress)

        @cache
        def scored(quality: str | None) -> TablesOf:
            return chosen.scores(tasks[quality], self._steps.step)

        self._scored = scored

    def people(self, quality: str | None, kind: str) -> tuple[int, int]:
        """How many people, or pairs of them, the genuine and the forged test clips are of."""
        return self._scored(quality)(kind).people(kind)

    def rows(self, quality: str | None, kind: str) -> list[Row]:
        """Return what is measured while a kind is left out.

        Parameters
        ----------
        quality, kind : str
            One of `cells`.

        Returns
        -------
        list of dict
            As `leave_one_manipulation_out` describes them.
        """
        self._steps.begin()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of tied scores, few videos: the figures tell
            tables = self._scored(quality)(kind)
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
        self._steps.step()
        cell = {"quality": quality, "kind": kind}
        return [{**cell, **row, "warnings": self.remarks} for row in measured]

    def _of_setting(self, tables: ScoredClips, kind: str, setting: str) -> Iterator[Row]:
        training, validation = tables.training(kind, setting), tables.validation(kind)
        with_forgeries, validated = bool((training.labels < 0).any()), validation is not None
        if setting == "non-pure" and not with_forgeries:
            return  # no other kind to learn from
        given = LearningData(training, validation, *self._learning)
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
                chosen = {**tables.settings.get(name, {}), **fitted.choices}
                yield row | ({"choices": chosen} if metric == "auc" else {})


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
    frames = test.as_frames()
    of_frames = fitted.score(frames)
    yield "frame_auc", 100 * float(roc_auc_score(frames.labels, of_frames))
    right = (of_frames >= fitted.offset) == (frames.labels > 0)
    yield "frame_accuracy", 100 * float(right.mean())


class _Steps:
    """Counts steps, of which there are so many, and tells how many are done."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self.total, self.progress = total, progress
        self.done = -1

    def begin(self) -> None:
        """Tell that nothing is done, unless that was told."""
        if self.done < 0:
            self.step()

    def step(self) -> None:
        """One more is done."""
        self.done += 1
        if self.progress is not None:
            self.progress(self.done, self.total)
