"""Steps of fitting a video detector that look at frames: feature sets, learners, folds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from lpfuse.ensemble.components import fit_detectors
from lpfuse.ensemble.defaults import make_members
from lpfuse.ensemble.folds import make_folds
from lpfuse_faces._features import VideoFeatures
from lpfuse_faces._frame_table import Frames, check_sets

Progress = Callable[[int, int], None]


def settle_widths(videos: Sequence[VideoFeatures], wanted: Sequence[str] | None) -> dict[str, int]:
    """Return the feature sets to use and their widths, which all videos with a face must have."""
    with_face = [video for video in videos if video.n_faces]
    if not with_face:
        raise ValueError(
            f"None of the {len(videos)} videos shows a face, so there is nothing to learn from."
        )
    sets = list(with_face[0].sets) if wanted is None else list(wanted)
    if not sets:
        raise ValueError("There must be at least one feature set, got none.")
    check_sets(with_face[:1], dict.fromkeys(sets))
    widths = {name: with_face[0].widths[name] for name in sets}
    check_sets(with_face, widths)
    return widths


def fit_learners(
    entries: list[Any],
    frames: Frames,
    n_jobs: int | None,
    random_state: Any,
    progress: Progress | None,
) -> list[Any]:
    """Return the learners, fitted to frames that are not forged: entries for ``cv="prefit"``."""
    X = frames.X[frames.labels >= 0]
    if len(X) == 0:
        raise ValueError(
            "All genuine videos with a face are in validation: none is left to fit learners to."
        )
    return fit_detectors(entries, X, n_jobs=n_jobs, random_state=random_state, progress=progress)


def folds_without_seen_kinds(
    entries: list[Any], frames: Frames, kind: NDArray[Any], cv: int, random_state: Any
) -> Any:
    """Folds in which a kind of forgery is scored by classifiers that never saw it.

    Each fold becomes several: its genuine frames, scored after all that is outside the fold is
    learnt from, and its forged frames kind by kind, scored after this kind, too, is left out. Where
    no learner learns from forgeries that changes nothing, and `cv` itself is returned.
    """
    if not any(member.learns_from_anomalies for member in make_members(entries, frames.X)):
        return cv
    y, random = frames.labels, check_random_state(random_state)
    pairs = []
    for learn, score in make_folds(cv, y, frames.groups, None, random).pairs:
        pairs.append((learn, score[y[score] >= 0]))
        for name in np.unique(kind[score[y[score] < 0]]):
            forged, known = ((y[rows] < 0) & (kind[rows] == name) for rows in (score, learn))
            pairs.append((learn[~known], score[forged]))
    return [(learn, score) for learn, score in pairs if len(score)]
