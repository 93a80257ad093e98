"""Fusions of which something is chosen by the AUC of validation videos: ρ of the scale, and p."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.stats import rankdata

from lpfuse._arrays.operations import Host
from lpfuse.fusion import PAPER_GRID, FixedRule, lp_path
from lpfuse.scaling import TwoSidedMinMax
from lpfuse_faces.evaluation._methods import (
    FittedMethod,
    LearningData,
    Method,
    decision_threshold,
    single_learner,
)
from lpfuse_faces.evaluation._scores import ScoredVideos

PAPER_RHOS = tuple(map(float, range(1, 11)))  # ρ of the paper's grid, in %
# The paper gives its normalisation in words only: s′ = (s − l) / (u − l), without clipping, is
# the plain reading.
PAPER_SCALE = {"feature_range": (0, 1), "clip": False}
DEFAULT_RHO = 5.0  # of TwoSidedMinMax

Scorer = Callable[[Host], Host]  # scaled scores of frames → fused ones, perhaps in columns


@dataclass(frozen=True)
class ChosenFusion:
    """A method that fuses scaled scores; ρ, and what its columns stand for, chosen on validation.

    Attributes
    ----------
    learn : callable
        Scaled scores, labels (None: all genuine) and a seed → fused scores of other scaled ones,
        perhaps in columns.
    columns : tuple of dict
        What each column of the fused scores stands for.
    rhos : tuple of float
        The candidates. Of equals the first ρ and the last column, the largest p, is taken.
    scale : dict
        Parameters of `TwoSidedMinMax`, but for ρ.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse_faces.evaluation import ChosenFusion, LearningData, ScoredVideos
    >>> some = ScoredVideos(
    ...     np.array([[2.0, 0], [1, 1], [0, 2]]), np.arange(3), np.array([1, 1, -1.0])
    ... )
    >>> method = ChosenFusion(
    ...     lambda S, y, seed: lambda S: S, ({"learner": 0}, {"learner": 1}), (5.0,)
    ... )
    >>> method(LearningData(some, some)).choices
    {'learner': 0}
    """

    learn: Callable[[Host, Host | None, int], Scorer]
    columns: tuple[dict[str, Any], ...] = ({},)
    rhos: tuple[float, ...] = PAPER_RHOS
    scale: dict[str, Any] = field(default_factory=dict)

    def __call__(self, given: LearningData) -> FittedMethod:
        """Learn for every ρ, and keep what validation prefers.

        Parameters
        ----------
        given : LearningData
            Without validation videos nothing is chosen: ρ is 5, and the last column is taken.
        """
        S, y = given.frames
        best: tuple[float, Any] = (-1.0, None)
        for rho in self.rhos if given.validation else (DEFAULT_RHO,):
            scaler = TwoSidedMinMax(rho, **self.scale).fit(S if y is None else S[y > 0])
            scorer = self.learn(scaler.transform(S), y, given.seed)
            score = _video_scores(scaler, scorer, given.pooling)
            scores = score(given.threshold_videos)
            labels = given.threshold_videos.labels
            found = areas(labels, scores) if given.validation else np.zeros(1)
            column = len(found) - 1 - int(np.argmax(found[::-1]))
            if found[column] > best[0]:
                best = found[column], (rho, score, column, scores[:, column])
        rho, score, column, scores = best[1]
        chosen = {**self.columns[column], **({"rho": rho} if len(self.rhos) > 1 else {})}
        offset = decision_threshold(given.threshold_videos.labels, scores)
        return FittedMethod(
            lambda videos: score(videos)[:, column], offset, chosen if given.validation else {}
        )


def paper_methods(
    learners: Sequence[str], *, with_forgeries: bool, validated: bool
) -> dict[str, Method]:
    """Return the paper's fusion and its baselines: name → method.

    Parameters
    ----------
    learners : sequence of str
        Names of the learners; each is measured by itself, too.
    with_forgeries, validated : bool
        Whether forgeries are among the training videos, and whether there are validation videos,
        as there must be for anything to be chosen.

    Returns
    -------
    dict
        "lp": ℓp-norm constrained weights of free sign, without intercept or balance of the classes,
        p from the paper's nine values and ρ from 1 to 10; "sum": all learners weigh alike, ρ chosen
        likewise; then every learner by its name.

    Examples
    --------
    >>> from lpfuse_faces.evaluation import paper_methods
    >>> methods = paper_methods(["gp: inception/face"], with_forgeries=True, validated=True)
    >>> list(methods), methods["lp"].rhos[-1], len(methods["lp"].columns)
    (['lp', 'sum', 'gp: inception/face'], 10.0, 9)
    """

    def learn_weights(S: Host, y: Host | None, seed: int) -> Scorer:
        weights = lp_path(S, y, ps=PAPER_GRID).weights
        return lambda scores: scores @ weights.T

    def learn_nothing(S: Host, y: Host | None, seed: int) -> Scorer:
        rule: Scorer = FixedRule("sum").fit(S, y).score_samples
        return rule

    found: dict[str, Method] = {
        "lp": ChosenFusion(learn_weights, tuple({"p": p} for p in PAPER_GRID), scale=PAPER_SCALE),
        "sum": ChosenFusion(learn_nothing, scale=PAPER_SCALE),
    }
    return found | {name: single_learner(j) for j, name in enumerate(learners)}


def areas(labels: Host, scores: Host) -> Host:
    """Return the area under the ROC curve of each column of scores, ties counting half.

    Examples
    --------
    >>> import numpy as np
    >>> areas(np.array([1, 1, -1]), np.array([[2.0, 0.0], [1.0, 2.0], [0.0, 1.0]]))
    array([1. , 0.5])
    """
    genuine = labels > 0
    n, m = genuine.sum(), (~genuine).sum()
    # The sum of the ranks of n genuine videos is n (n + 1) / 2, and one more for each forgery that
    # each of them outranks.
    found: Host = (rankdata(scores, axis=0)[genuine].sum(axis=0) - n * (n + 1) / 2) / (n * m)
    return found


def _video_scores(
    scaler: TwoSidedMinMax, scorer: Scorer, pooling: str | float
) -> Callable[[ScoredVideos], Host]:
    def score(videos: ScoredVideos) -> Host:
        fused = scorer(scaler.transform(videos.scores))
        return videos.pooled(fused if fused.ndim == 2 else fused[:, None], pooling)

    return score
