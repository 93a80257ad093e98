"""Methods that are compared: each turns the learners' scores of frames into decisions on videos."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse.ensemble.components import default_fusion
from lpfuse.fusion import FixedRule
from lpfuse.metrics import best_g_mean
from lpfuse.scaling import TwoSidedMinMax
from lpfuse_faces.evaluation._scores import ScoredVideos

# Share of genuine videos below the threshold where no forgery can set it: the default false alarm
# rate of FusedDetector.
FALSE_ALARMS = 0.05
MOST_FRAMES = 10_000  # of each class, that weights are learnt from; by hand


@dataclass(frozen=True, eq=False)
class LearningData:
    """All that a method may learn from while a kind of forgery is left out: no video of the test.

    Attributes
    ----------
    training : ScoredVideos
        Training videos, scored by learners that have not seen the people in them; as in the paper
        with preset="paper", by learners that were fitted on the genuine ones.
    validation : ScoredVideos or None
        Videos of both classes to choose by.
    pooling : "mean" or float
        From frames to videos.
    seed : int
        For methods that draw at random.
    most_frames : int or None
        Of each class, that the weights are learnt from; None: all.
    """

    training: ScoredVideos
    validation: ScoredVideos | None = None
    pooling: str | float = "mean"
    seed: int = 0
    most_frames: int | None = MOST_FRAMES

    @cached_property
    def frames(self) -> tuple[Host, Host | None]:
        """Raw scores of the training frames, and their labels; None: all are genuine."""
        rng = np.random.default_rng(self.seed)
        labels = self.training.labels[self.training.video]
        drawn = [
            np.sort(rng.permutation(np.flatnonzero(labels == label))[: self.most_frames])
            for label in (1, -1)
        ]
        rows = np.concatenate(drawn)
        return self.training.scores[rows], labels[rows] if len(drawn[1]) else None

    @property
    def threshold_videos(self) -> ScoredVideos:
        """The videos that set the threshold: those of validation, where there are any."""
        return self.training if self.validation is None else self.validation


class FittedMethod(NamedTuple):
    """What a method has learnt.

    Attributes
    ----------
    score : callable
        ScoredVideos → scores of the videos, high = genuine.
    offset : float
        Scores from here on count as genuine.
    choices : dict
        What was chosen on validation.
    """

    score: Callable[[ScoredVideos], Host]
    offset: float
    choices: dict[str, Any]


Method = Callable[[LearningData], FittedMethod]
Methods = Callable[..., "dict[str, Method]"]


def single_learner(position: int) -> Method:
    """One learner by itself, given its position."""

    def method(given: LearningData) -> FittedMethod:
        def score(videos: ScoredVideos) -> Host:
            return videos.pooled(videos.scores[:, position], given.pooling)

        return FittedMethod(score, _offset(given, score), {})

    return method


def fused(make: Callable[[], Any]) -> Method:
    """Scores on a common scale, fused by an estimator: ``make()`` gives it, unfitted."""

    def method(given: LearningData) -> FittedMethod:
        S, y = given.frames
        scaler = TwoSidedMinMax().fit(S if y is None else S[y > 0])
        fitted = make().fit(scaler.transform(S), y)

        def score(videos: ScoredVideos) -> Host:
            frames = fitted.score_samples(scaler.transform(videos.scores))
            return videos.pooled(frames, given.pooling)

        return FittedMethod(score, _offset(given, score), {})

    return method


def fusion_methods(
    learners: Sequence[str], *, with_forgeries: bool, validated: bool
) -> dict[str, Method]:
    """Return the library's own ways to fuse: name → method.

    Parameters
    ----------
    learners : sequence of str
        Names of the learners; each is measured by itself, too.
    with_forgeries, validated : bool
        Whether forgeries are among the training videos, and whether there are validation videos.
        These methods do with or without either.

    Returns
    -------
    dict
        "lp": the weights that `VideoDetector` learns by default, and "sum", both on the default
        scale; then every learner by its name.

    Examples
    --------
    >>> from lpfuse_faces.evaluation import fusion_methods
    >>> list(fusion_methods(["gp: azimuthal/face"], with_forgeries=True, validated=False))
    ['lp', 'sum', 'gp: azimuthal/face']
    """
    found: dict[str, Method] = {"lp": fused(default_fusion), "sum": fused(lambda: FixedRule("sum"))}
    return found | {name: single_learner(j) for j, name in enumerate(learners)}


def decision_threshold(labels: Host, scores: Host) -> float:
    """Return the offset with the best G-mean; with genuine videos alone, 5 % of them lie below it.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse_faces.evaluation import decision_threshold
    >>> float(decision_threshold(np.ones(101), np.arange(101.0)))
    5.0
    """
    if (labels < 0).any():
        return best_g_mean(labels, scores)[1]
    return float(np.quantile(scores, FALSE_ALARMS))


def _offset(given: LearningData, score: Callable[[ScoredVideos], Host]) -> float:
    videos = given.threshold_videos
    return decision_threshold(videos.labels, score(videos))
