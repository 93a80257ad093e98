"""Settings by name: the library's own ("default"), and those that the paper prints ("paper").

What the two do differently, and why, is in docs/adr/0030.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from lpfuse._validation.params import check_choice, listed
from lpfuse_faces._learners import LEARNERS
from lpfuse_faces._networks import NETWORKS
from lpfuse_faces._regions import REGIONS
from lpfuse_faces.clips import Clip
from lpfuse_faces.evaluation._chosen import paper_methods
from lpfuse_faces.evaluation._methods import MOST_FRAMES, Methods, fusion_methods
from lpfuse_faces.evaluation._paper_grid import EXACT_ROWS, LANDMARKS, grid_size, n_fits
from lpfuse_faces.evaluation._paper_learners import PaperScores, Step
from lpfuse_faces.evaluation._scores import Features, ScoredClips, score_clips
from lpfuse_faces.evaluation._usable_clips import Contents

# Three networks by three regions: the paper's nine.
PAPER_SETS = tuple(f"{network}/{region}" for network in NETWORKS for region in REGIONS)

TablesOf = Callable[[str], ScoredClips]  # the kind that is left out → scores


class Task(NamedTuple):
    """What there is to score: the clips of one quality, by which learners on which features."""

    clips: list[Clip]
    contents: Contents
    features: Features
    kinds: list[str]
    learners: Sequence[str]
    sets: Sequence[str] | None
    pooling: str | float
    seed: int
    n_jobs: int | None

    @property
    def widths(self) -> dict[str, int]:
        """The feature sets in use, and how many columns they have."""
        return self.contents[self.clips[0].path].widths

    @property
    def n_genuine_frames(self) -> int:
        """Frames that the learners learn from."""
        genuine = [clip for clip in self.clips if clip.split == "train" and not clip.is_forged]
        return sum(self.contents[clip.path].n_faces for clip in genuine)


class Preset(NamedTuple):
    """How clips are scored, and what is compared on the scores.

    Attributes
    ----------
    scores : callable
        Task, and what to call after each step → scores by the kind that is left out.
    n_steps : callable
        Task → how many steps that takes.
    remarks : callable
        Task → what readers of the figures must know; refuses what cannot be done.
    methods : callable
        As `fusion_methods`.
    most_frames : int or None
        Of each class, that weights are learnt from; None: all.
    """

    scores: Callable[[Task, Step], TablesOf]
    n_steps: Callable[[Task], int]
    remarks: Callable[[Task], Iterator[str]]
    methods: Methods
    most_frames: int | None


def _default_scores(task: Task, step: Step) -> TablesOf:
    """One table, out of fold, for all kinds; all features are in memory meanwhile."""
    loaded = {clip.path: task.features[clip.path] for clip in task.clips}
    tables = score_clips(
        task.clips,
        loaded,
        learners=task.learners,
        sets=task.sets,
        n_jobs=task.n_jobs,
        seed=task.seed,
    )
    return lambda kind: tables


def _paper_scores(task: Task, step: Step) -> TablesOf:
    return PaperScores(
        task.clips,
        task.features,
        kinds=task.kinds,
        learners=task.learners,
        sets=list(task.widths),
        pooling=task.pooling,
        seed=task.seed,
        step=step,
    )


def _paper_steps(task: Task) -> int:
    return len(task.widths) * n_fits(task.learners) + len(task.clips)


def _paper_remarks(task: Task) -> Iterator[str]:
    """Refuse what the grid cannot be chosen on; say how far this is the paper's experiment."""
    for name in task.learners:
        check_choice("Each of learners", name, LEARNERS)
    _check_validation(task)
    _check_widths(task)
    n = task.n_genuine_frames
    yield (
        f"Settings as published: {grid_size(task.learners, n):,} for the learners on each of "
        f"{len(task.widths)} feature sets, fitted to {n:,} genuine training frames; validation "
        "videos choose among them, and ρ and p; weights are learnt from in-sample scores."
    )
    if missing := [name for name in PAPER_SETS if name not in task.widths]:
        yield f"Left out of the paper's nine feature sets: {', '.join(missing)}."
    if others := [name for name in task.widths if name not in PAPER_SETS]:
        yield f"Not among the paper's feature sets: {', '.join(others)}."
    if n > EXACT_ROWS:
        yield (
            f"Kernels of more than {EXACT_ROWS:,} frames are approximated by {LANDMARKS} "
            f"landmarks, and q ends at {LANDMARKS}; the paper does not say what it did."
        )


def _check_validation(task: Task) -> None:
    """Whichever kind is left out, validation must have clips of both classes."""
    there = {clip.kind for clip in task.clips if clip.split == "val"}
    for kind in task.kinds:
        if None not in there or not there - {None, kind}:
            found = [each or "genuine" for each in sorted(there, key=str)]
            raise ValueError(
                "The paper's settings are chosen on validation clips: genuine ones, and forgeries "
                f"of other kinds than the one left out. While {kind} is left out there are "
                f"{listed(found) if found else 'none'} in validation. Give clips.csv such clips "
                "with the split val, or no splits at all: people are then divided at random."
            )


def _check_widths(task: Task) -> None:
    """All clips must have the same feature sets."""
    for clip in task.clips:
        if (found := task.contents[clip.path].widths) != task.widths:
            raise ValueError(
                f"{clip.path.name} has the feature sets {_told(found)}, and "
                f"{task.clips[0].path.name} has {_told(task.widths)}. Extract all videos with the "
                "same settings."
            )


def _told(widths: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({width} columns)" for name, width in widths.items())


def _nothing(task: Task) -> Iterator[str]:
    return iter(())


PRESETS = {
    "default": Preset(_default_scores, lambda task: 0, _nothing, fusion_methods, MOST_FRAMES),
    "paper": Preset(_paper_scores, _paper_steps, _paper_remarks, paper_methods, None),
}
