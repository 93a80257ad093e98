"""The paper's learners on each feature set, with the settings that validation videos prefer.

For each set by itself, so that the features of one set are in memory at a time:

- features are standardised (Z-score) by the genuine training frames, and nothing else is done to
  them;
- every setting of the grid (`_paper_grid`) is fitted on all genuine training frames;
- of each learner the setting with the highest AUC of validation videos is kept: of genuine ones
  and of all kinds of forgery but the one left out. So what is kept may differ from kind to kind.

Training frames are scored by the learners that were fitted on them: in-sample scores.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from sklearn.preprocessing import StandardScaler

from lpfuse._arrays.operations import Host
from lpfuse_faces.clips import Clip
from lpfuse_faces.evaluation._chosen import areas
from lpfuse_faces.evaluation._paper_grid import EXACT_ROWS, FittedLearner, fitted_grid
from lpfuse_faces.evaluation._scores import Features, ScoredClips

Step = Callable[[], None]


class Choice(NamedTuple):
    """The best setting of a learner on a feature set, by the AUC of validation videos."""

    area: float
    fitted: FittedLearner
    column: int

    @property
    def settings(self) -> dict[str, float]:
        """What was chosen."""
        return self.fitted.settings[self.column]


@dataclass(frozen=True, eq=False)
class FittedSet:
    """The learners of one feature set, each with the setting that suits while a kind is left out.

    Attributes
    ----------
    name : str
        The feature set.
    scaler : StandardScaler
        By genuine training frames.
    dtype : dtype
        Of the standardised features.
    best : dict
        (learner, left-out kind) → Choice.
    """

    name: str
    scaler: StandardScaler
    dtype: Any
    best: dict[tuple[str, str], Choice] = field(default_factory=dict)

    def rows(self, features: Features, clip: Clip) -> Host:
        """Standardised features of a clip."""
        return self.standardised(features[clip.path].sets[self.name])

    def standardised(self, rows: Any) -> Host:
        """Features as the learners see them."""
        scaled: Host = self.scaler.transform(rows.astype(self.dtype))
        return scaled

    def consider(
        self, fitted: FittedLearner, kinds: Mapping[str, Any], labels: Host, scores: Host
    ) -> None:
        """Keep what is better than what there is: `kinds` tell their validation videos."""
        for kind, videos in kinds.items():
            found = areas(labels[videos], scores[videos])
            column = int(np.argmax(found))
            known = self.best.get((fitted.name, kind))
            if known is None or found[column] > known.area:
                self.best[fitted.name, kind] = Choice(float(found[column]), fitted, column)


def fit_set(
    name: str,
    clips: Sequence[Clip],
    features: Features,
    *,
    kinds: Sequence[str],
    learners: Sequence[str],
    pooling: str | float,
    seed: int,
    step: Step,
) -> FittedSet:
    """Fit the grid of one feature set, and choose for each kind that is left out.

    Parameters
    ----------
    name : str
        The feature set.
    clips, features
        With splits, and features of all of them.
    kinds : sequence of str
        Each is left out once.
    learners, pooling, seed
        As in `leave_one_manipulation_out`.
    step : callable
        Is called after each width, and after the mixture.
    """
    training = [clip for clip in clips if clip.split == "train" and not clip.is_forged]
    validation = [clip for clip in clips if clip.split == "val"]
    X = np.concatenate([features[clip.path].sets[name] for clip in training])
    if len(X) < 2:
        raise ValueError(
            f"The paper's learners need 2 genuine training frames or more, got {len(X)}. Bring "
            "more genuine training clips, or look at more frames of each."
        )
    if len(X) <= EXACT_ROWS:  # beyond, more digits are not worth twice the memory
        X = X.astype(np.float64)
    found = FittedSet(name, StandardScaler(copy=False).fit(X), X.dtype)
    X = found.scaler.transform(X)  # in place
    held_out = [found.rows(features, clip) for clip in validation]
    labels = np.array([float(clip.label or 0) for clip in validation])
    usable = {kind: np.array([clip.kind != kind for clip in validation]) for kind in kinds}
    with warnings.catch_warnings():  # widths far from the data are part of the grid
        warnings.simplefilter("ignore", UserWarning)
        for together in fitted_grid(learners, X, seed):
            for fitted in together:
                scores = np.stack([_of_video(fitted.scores(rows), pooling) for rows in held_out])
                found.consider(fitted, usable, labels, scores)
            step()
    return found


class PaperScores:
    """Scores of all clips as in the paper, for each kind of forgery that is left out.

    Genuine training clips are scored by learners that were fitted on them.

    Parameters
    ----------
    clips : sequence of Clip
        With splits; those of validation have both classes whichever kind is left out.
    features : mapping of Path to VideoFeatures
        Of the clips. They are asked for again for each set, and not kept.
    kinds, learners, sets : sequences of str
        What is left out, the learners, and the feature sets, which all clips have.
    pooling : "mean" or float
        How validation videos are judged.
    seed : int
        Of mixtures and landmarks.
    step : callable
        Is called after each fit and each clip.
    """

    def __init__(
        self,
        clips: Sequence[Clip],
        features: Features,
        *,
        kinds: Sequence[str],
        learners: Sequence[str],
        sets: Sequence[str],
        pooling: str | float,
        seed: int,
        step: Step,
    ) -> None:
        options: dict[str, Any] = {"kinds": kinds, "learners": learners, "pooling": pooling}
        fitted = [fit_set(name, clips, features, seed=seed, step=step, **options) for name in sets]
        self._clips = list(clips)
        self._names = [f"{learner}: {each.name}" for each in fitted for learner in learners]
        self._chosen = {
            kind: [(each, each.best[learner, kind]) for each in fitted for learner in learners]
            for kind in kinds
        }
        # One column for each setting that any kind has chosen.
        wanted = {_key(*pair): pair for pairs in self._chosen.values() for pair in pairs}
        self._columns = {key: j for j, key in enumerate(wanted)}
        self._tables = []
        for clip in clips:
            self._tables.append(_scores_of(features, clip, list(wanted.values())))
            step()

    def __call__(self, kind: str) -> ScoredClips:
        """Return the scores by what was chosen while a kind is left out."""
        pairs = self._chosen[kind]
        columns = [self._columns[_key(*pair)] for pair in pairs]
        settings = [dict(choice.settings) for _, choice in pairs]
        return ScoredClips(
            self._names,
            self._clips,
            [table[:, columns] for table in self._tables],
            dict(zip(self._names, settings, strict=True)),
        )


def _scores_of(features: Features, clip: Clip, wanted: Sequence[tuple[FittedSet, Choice]]) -> Host:
    """Scores of the frames of a clip, a column for each choice; its features are read once."""
    sets, rows, columns = features[clip.path].sets, {}, []
    for each, choice in wanted:
        if each.name not in rows:
            rows[each.name] = each.standardised(sets[each.name])
        columns.append(choice.fitted.scores(rows[each.name], [choice.column])[:, 0])
    return np.column_stack(columns).astype(np.float64)


def _key(each: FittedSet, choice: Choice) -> tuple[str, int, int]:
    return each.name, id(choice.fitted), choice.column


def _of_video(scores: Host, pooling: str | float) -> Host:
    """Return each column of the scores of a video's frames, pooled as `pooled` does."""
    return scores.mean(axis=0) if pooling == "mean" else np.quantile(scores, float(pooling), axis=0)
