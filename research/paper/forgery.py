"""Forgeries never seen: each kind of forgery is left out of everything but the test.

The paper's second experiment (its two tables of FaceForensics++), on any collection of clips. For
each quality, and each kind of forgery:

- the experts learn from genuine training clips alone, and score training clips out of fold, no
  fold sharing a person with another;
- weights learn from these scores: of genuine clips ("pure"), or of forgeries of the other kinds
  too ("non-pure");
- ρ, p and the threshold are chosen on validation clips: genuine ones, and the other kinds;
- AUC and accuracy are measured on test clips: genuine ones, and the kind that was left out.

As no expert learns from a forgery, one fit of the experts serves all kinds and both settings.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from lpfuse._checks.messages import listed
from lpfuse._checks.parameters import check_choice
from lpfuse.metrics import g_mean
from lpfuse_faces.clips import Clip, check_disjoint, with_splits
from lpfuse_faces.experts import LEARNERS
from lpfuse_faces.features import VideoFeatures
from research.common.measure import Progress, measure
from research.common.protocol import SETTINGS, area
from research.common.statistics import auc_interval
from research.common.store import Cell, Row, protocol_hash
from research.paper.forgery_methods import RHOS, Method, Part, Verdict, contenders
from research.paper.forgery_scores import FOLDS, Features, ScoredClips, score_clips

FACEFORENSICS, STAND_IN = "FaceForensics++", "stand-in"  # collections that a page knows

Contenders = Callable[..., Mapping[str, Method]]


def leave_one_manipulation_out(
    clips: Sequence[Clip],
    features: Features,
    *,
    collection: str = "",
    learners: Sequence[str] = LEARNERS,
    sets: Sequence[str] | None = None,
    pooling: str | float = "mean",
    settings: Sequence[str] = SETTINGS,
    methods: Contenders = contenders,
    seed: int = 0,
    path: str | Path | None = None,
    remarks: Sequence[str] = (),
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> list[Row]:
    """Measure every method on every kind of forgery, left out of all but the test.

    Parameters
    ----------
    clips : sequence of Clip
        Labelled, of one quality or several, each of which is measured by itself. Where no clip has
        a split, people are divided at random; where some have, all must. Without validation clips
        nothing is chosen.
    features : mapping of Path to VideoFeatures
        Of the clips. A clip that has none, since it could not be read, is left out and counted.
        Each is asked for twice; only those of one quality are kept at a time.
    collection : str, default=""
        What the clips are; "FaceForensics++" and "stand-in" mean something to the page.
    learners, sets, pooling : default=all, all, "mean"
        As in :class:`lpfuse_faces.detector.VideoDetector`.
    settings : sequence of "pure" and "non-pure"
        Both by default.
    methods : callable
        ``methods(experts, taught=…, validated=…)`` gives name → method, as
        :func:`research.paper.forgery_methods.contenders` does.
    seed : int, default=0
        Divides people, and seeds whatever draws at random.
    path : path, optional
        A ``.jsonl`` file for the results. Kinds that are in it are not measured again.
    remarks : sequence of str, optional
        What readers of the figures must know; every row carries it.
    n_jobs : int, optional
        Experts that are fitted at a time.
    progress : callable, optional
        Is told how many kinds are done, and of how many.

    Returns
    -------
    list of dict
        A row for each quality, left-out kind, setting, method and metric ("auc", "accuracy",
        "balanced_accuracy", "g_mean"), in %: ``value``, for the AUC also ``low`` and ``high`` of
        its 95 % interval, ``n_genuine`` and ``n_forged`` videos of the test, ``warnings``.

    Raises
    ------
    ValueError
        When a person, or a video, is in two splits, or there is nothing to train or test on.
    """
    for setting in settings:
        check_choice("Each of settings", setting, SETTINGS)
    clips, seen, known = _checked(clips, features, sets, seed)
    told = list(dict.fromkeys([*remarks, *known, *_marks(clips, seen)]))
    cells = {
        Cell(" ".join(filter(None, (quality, kind))), seed): (quality, kind)
        for quality in sorted({clip.quality for clip in clips}, key=str)
        for kind in _kinds(clips, quality)
    }

    @cache
    def scored(quality: str | None) -> ScoredClips:
        chosen = [clip for clip in clips if clip.quality == quality]
        loaded = {clip.path: features[clip.path] for clip in chosen}
        return score_clips(chosen, loaded, learners=learners, sets=sets, n_jobs=n_jobs, seed=seed)

    def work(cell: Cell) -> list[Row]:
        quality, kind = cells[cell]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of tied scores, few videos: the figures tell
            tables = scored(quality)
            measured = [
                {"setting": setting, **row}
                for setting in settings
                for row in _measured(tables, kind, setting, methods, pooling, seed)
            ]
        if not measured:
            raise ValueError(
                f"No forgery of another kind than {kind} is there to learn from, as the non-pure "
                "setting needs. Ask for the pure one, or bring some."
            )
        place = {"collection": collection, "quality": quality, "kind": kind}
        return [{**place, **row, "warnings": told} for row in measured]

    description = {
        "experiment": "leave one manipulation out",
        "collection": collection,
        "clips": _digest(clips, seen),
        "learners": list(learners),
        "sets": sets if sets is None else list(sets),
        "pooling": pooling,
        "settings": list(settings),
        "rhos": RHOS,
        "folds": FOLDS,
        "methods": list(methods(["expert"], taught=True, validated=True)),
        "remarks": told,
    }
    store = partial(measure, work, list(cells), protocol=description, progress=progress)
    if path is not None:
        return store(path)
    with TemporaryDirectory() as folder:
        return store(Path(folder, "forgery.jsonl"))


# ------------------------------------------------------------------------------------------- checks


class _Glance(NamedTuple):
    """What is to be known of a video before its features are needed."""

    sha256: str
    n_faces: int
    warnings: tuple[str, ...]
    digest: str

    @classmethod
    def at(cls, video: VideoFeatures, sets: Sequence[str] | None) -> _Glance:
        digest = sha256(np.ascontiguousarray(video.table(sets)).data).hexdigest()
        return cls(video.sha256, video.n_faces, video.warnings, digest)


Seen = Mapping[Path, _Glance]


def _checked(
    clips: Sequence[Clip], features: Features, sets: Sequence[str] | None, seed: int
) -> tuple[list[Clip], Seen, list[str]]:
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
    seen = {clip.path: _Glance.at(features[clip.path], sets) for clip in read}
    usable = [clip for clip in read if seen[clip.path].n_faces]
    _check_contents(usable, seen)
    told = _remarks(len(clips), len(clips) - len(read), len(read) - len(usable), usable)
    return usable, seen, list(told)


def _check_contents(clips: Sequence[Clip], seen: Seen) -> None:
    """Refuse a video that is, under two names, in two splits."""
    known: dict[str, Clip] = {}
    for clip in clips:
        first = known.setdefault(seen[clip.path].sha256, clip)
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


def _marks(clips: Sequence[Clip], seen: Seen) -> list[str]:
    """What the features themselves are marked with, such as random weights."""
    return [text for clip in clips for text in seen[clip.path].warnings]


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


def _digest(clips: Sequence[Clip], seen: Seen) -> str:
    """Twelve hexadecimal digits of all that is known of the clips, but for where they lie."""
    known = [(*astuple(clip)[1:], seen[clip.path].sha256, seen[clip.path].digest) for clip in clips]
    return protocol_hash({"clips": known})


# ---------------------------------------------------------------------------------------- measuring


def _measured(
    tables: ScoredClips,
    kind: str,
    setting: str,
    methods: Contenders,
    pooling: str | float,
    seed: int,
) -> Iterator[Row]:
    given = tables.round(kind, setting, pooling, seed)
    taught, validated = bool((given.teach.labels < 0).any()), given.validation is not None
    if setting == "non-pure" and not taught:
        return  # no other kind to learn from
    test, people = tables.test(kind), tables.people(kind)
    counts = {"n_genuine": int((test.labels > 0).sum()), "n_forged": int((test.labels < 0).sum())}
    for name, method in methods(tables.experts, taught=taught, validated=validated).items():
        verdict = method(given)
        for metric, figures in _judged(verdict, test, people):
            row = {"method": name, "is_expert": name in tables.experts, "metric": metric}
            row |= {**figures, **counts}
            yield row | ({"choices": verdict.choices} if metric == "auc" else {})


def _judged(
    verdict: Verdict, test: Part, people: Sequence[int]
) -> Iterator[tuple[str, dict[str, float]]]:
    """Metrics on the test, in %. Clips of the same people count once for the interval."""
    scores, labels = verdict.score(test), test.labels
    decisions = np.where(scores >= verdict.offset, 1.0, -1.0)
    right = decisions == labels
    found = auc_interval(float(area(labels, scores)), *people)
    yield "auc", {"value": 100 * found.mean, "low": 100 * found.low, "high": 100 * found.high}
    yield "accuracy", {"value": 100 * float(right.mean())}
    rates = [float(right[labels == label].mean()) for label in (1, -1)]
    yield "balanced_accuracy", {"value": 50 * sum(rates)}
    yield "g_mean", {"value": 100 * g_mean(labels, decisions)}
