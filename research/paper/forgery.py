"""Forgeries never seen: the paper's second experiment (its two tables of FaceForensics++).

The protocol is :class:`lpfuse_faces.evaluation.LeaveOneManipulationOut`, on any collection of
clips. Here are the rivals that it is run with (`forgery_methods`), intervals of the AUC, and rows
that are stored as soon as a kind of forgery is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from lpfuse_faces.clips import Clip
from lpfuse_faces.evaluation import FOLDS, SETTINGS, LeaveOneManipulationOut
from lpfuse_faces.evaluation._methods import Methods
from lpfuse_faces.evaluation._scores import Features
from research.common.measure import Progress, measure
from research.common.statistics import auc_interval
from research.common.store import Cell, Row, protocol_hash
from research.paper.forgery_methods import RHOS, contenders

LEARNERS = ("svdd", "gp", "kpca", "gmm")
FACEFORENSICS, STAND_IN = "FaceForensics++", "stand-in"  # collections that a page knows


def forgery_rows(
    clips: Sequence[Clip],
    features: Features,
    *,
    collection: str = "",
    learners: Sequence[str] = LEARNERS,
    sets: Sequence[str] | None = None,
    pooling: str | float = "mean",
    settings: Sequence[str] = SETTINGS,
    methods: Methods = contenders,
    seed: int = 0,
    path: str | Path | None = None,
    remarks: Sequence[str] = (),
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> list[Row]:
    """Measure every method on every kind of forgery, left out of all but the test.

    Parameters
    ----------
    clips, features, learners, sets, pooling, settings, seed, n_jobs, progress
        As in :func:`lpfuse_faces.evaluation.leave_one_manipulation_out`.
    collection : str, default=""
        What the clips are; "FaceForensics++" and "stand-in" mean something to the page.
    methods : callable
        ``methods(learners, with_forgeries=…, validated=…)`` gives name → method, as
        :func:`research.paper.forgery_methods.contenders` does.
    path : path, optional
        A ``.jsonl`` file for the results. Kinds that are in it are not measured again.
    remarks : sequence of str, optional
        What readers of the figures must know; every row carries it.

    Returns
    -------
    list of dict
        The rows of the protocol with their `collection`; those of the AUC also with `low` and
        `high`, the ends of its 95 % interval.
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
    told = list(dict.fromkeys([*remarks, *experiment.remarks]))
    cells = {
        Cell(" ".join(filter(None, (quality, kind))), seed): (quality, kind)
        for quality, kind in experiment.cells
    }

    def work(cell: Cell) -> list[Row]:
        rows, people = experiment.rows(*cells[cell]), experiment.people(*cells[cell])
        return [
            {"collection": collection, **_with_interval(row, people), "warnings": told}
            for row in rows
        ]

    description = {
        "experiment": "leave one manipulation out",
        "collection": collection,
        "clips": _digest(experiment),
        "learners": list(learners),
        "sets": sets if sets is None else list(sets),
        "pooling": pooling,
        "settings": list(settings),
        "rhos": RHOS,
        "folds": FOLDS,
        "methods": list(methods(["learner"], with_forgeries=True, validated=True)),
        "remarks": told,
    }
    store = partial(measure, work, list(cells), protocol=description, progress=progress)
    if path is not None:
        return store(path)
    with TemporaryDirectory() as folder:
        return store(Path(folder, "forgery.jsonl"))


def _with_interval(row: Row, people: tuple[int, int]) -> Row:
    """An AUC with its interval, for which clips of the same people count once."""
    if row["metric"] != "auc":
        return row
    found = auc_interval(row["value"] / 100, *people)
    return {**row, "low": 100 * found.low, "high": 100 * found.high}


def _digest(experiment: LeaveOneManipulationOut) -> str:
    """Twelve hexadecimal digits of all that is known of the clips, but for where they lie."""
    contents = experiment.contents
    known = [
        (*astuple(clip)[1:], contents[clip.path].sha256, contents[clip.path].digest)
        for clip in experiment.clips
    ]
    return protocol_hash({"clips": known})
