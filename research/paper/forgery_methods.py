"""Who is compared on forgeries: whatever turns the scores of frames by experts into a verdict.

All fuse the same scores. What there is to choose, the ρ of the scale at the least, is chosen by the
AUC of validation videos, which hold no forgery of the kind that is left out. Without validation
nothing is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import comb, inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays import Host
from lpfuse.ensemble._defaults import default_fusion
from lpfuse.fusion import ExhaustiveWeights
from lpfuse.fusion.lp import PAPER_GRID, lp_path
from lpfuse.metrics import best_g_mean
from lpfuse.scaling import TwoSidedMinMax
from lpfuse_faces.pooling import pooled
from research.common.protocol import area
from research.paper.methods import PAPER_PRESET
from research.rivals.fusion import NEEDS_LABELS, Rival, at_hand

RHOS = (1.0, 5.0, 10.0)
DEFAULT_RHO = 5.0  # of TwoSidedMinMax
FALSE_ALARMS = 0.05  # share of genuine videos below the threshold where no forgery can set it
SLOW = frozenset({"genetic", "swarm", "exhaustive", "dynamic", "local lp"})
CHOSEN, DEFAULT, PAPERS = "lp, chosen", "lp, default", "lp, paper's, chosen"

Scorer = Callable[[Host], Host]  # scaled scores of frames → fused ones, perhaps in columns


class Part(NamedTuple):
    """Frames of some videos, one or more of each, with what the experts say of them.

    Attributes
    ----------
    scores : ndarray of shape (n, R)
        Raw scores, high = genuine.
    video : ndarray of shape (n,)
        The position of each frame's video.
    labels : ndarray of shape (videos,)
        +1 genuine, −1 forged.
    """

    scores: Host
    video: NDArray[np.intp]
    labels: Host

    def pooled(self, scores: Host, pooling: str | float) -> Host:
        """Scores of frames → scores of videos; column by column where there are several."""
        if scores.ndim == 1:
            return pooled(scores, self.video, len(self.labels), pooling)
        return np.column_stack([self.pooled(column, pooling) for column in scores.T])


@dataclass(frozen=True, eq=False)
class Round:
    """All that a method may learn from while a kind of forgery is left out: no video of the test.

    Attributes
    ----------
    teach : Part
        Training videos, by experts that have not seen the people in them.
    validation : Part or None
        Videos to choose by, of both classes.
    pooling : "mean" or float
        From frames to videos.
    seed : int
        For who draws at random.
    most_frames : int
        Of each class, that teach.
    """

    teach: Part
    validation: Part | None = None
    pooling: str | float = "mean"
    seed: int = 0
    most_frames: int = 10_000

    @cached_property
    def lesson(self) -> tuple[Host, Host | None]:
        """Raw scores of the frames that teach, and their labels; None: all are genuine."""
        rng = np.random.default_rng(self.seed)
        labels = self.teach.labels[self.teach.video]
        drawn = [
            np.sort(rng.permutation(np.flatnonzero(labels == label))[: self.most_frames])
            for label in (1, -1)
        ]
        rows = np.concatenate(drawn)
        return self.teach.scores[rows], labels[rows] if len(drawn[1]) else None

    @property
    def judged(self) -> Part:
        """The videos that set the threshold."""
        return self.teach if self.validation is None else self.validation


class Verdict(NamedTuple):
    """What a method has learnt.

    Attributes
    ----------
    score : callable
        Part → scores of its videos, high = genuine.
    offset : float
        Scores from here on count as genuine.
    choices : dict
        What was chosen on validation.
    """

    score: Callable[[Part], Host]
    offset: float
    choices: dict[str, Any]


Method = Callable[[Round], Verdict]


def single(expert: int) -> Method:
    """One expert, by its position."""

    def method(given: Round) -> Verdict:
        def score(part: Part) -> Host:
            return part.pooled(part.scores[:, expert], given.pooling)

        return Verdict(score, threshold(given.judged.labels, score(given.judged)), {})

    return method


def best_single(experts: Sequence[str]) -> Method:
    """The expert with the highest AUC on validation."""

    def method(given: Round) -> Verdict:
        assert given.validation is not None
        scores = given.validation.pooled(given.validation.scores, given.pooling)
        best = int(np.argmax(area(given.validation.labels, scores)))
        return single(best)(given)._replace(choices={"expert": experts[best]})

    return method


@dataclass(frozen=True)
class Fusion:
    """A method that fuses scaled scores; ρ, and what its columns stand for, chosen on validation.

    Attributes
    ----------
    learn : callable
        Scaled scores, labels (None: all genuine) and a seed → Scorer.
    columns : tuple of dict
        What each column of the fused scores stands for.
    rhos : tuple of float
        The candidates. Of equals the first ρ and the last column, the largest p, is taken.
    scale : dict
        Parameters of `TwoSidedMinMax`, but for ρ.
    """

    learn: Callable[[Host, Host | None, int], Scorer]
    columns: tuple[dict[str, Any], ...] = ({},)
    rhos: tuple[float, ...] = RHOS
    scale: dict[str, Any] = field(default_factory=dict)

    def __call__(self, given: Round) -> Verdict:
        """Learn for every ρ, and keep what validation prefers."""
        S, y = given.lesson
        best: tuple[float, Any] = (-1.0, None)
        for rho in self.rhos if given.validation else (DEFAULT_RHO,):
            scaler = TwoSidedMinMax(rho, **self.scale).fit(S if y is None else S[y > 0])
            scorer = self.learn(scaler.transform(S), y, given.seed)
            score = _video_scores(scaler, scorer, given.pooling)
            scores = score(given.judged)
            areas = area(given.judged.labels, scores) if given.validation else np.zeros(1)
            column = len(areas) - 1 - int(np.argmax(areas[::-1]))
            if areas[column] > best[0]:
                best = areas[column], (rho, score, column, scores[:, column])
        rho, score, column, scores = best[1]
        chosen = {**self.columns[column], **({"rho": rho} if len(self.rhos) > 1 else {})}
        offset = threshold(given.judged.labels, scores)
        return Verdict(
            lambda part: score(part)[:, column], offset, chosen if given.validation else {}
        )


def fusion(make: Rival, rhos: tuple[float, ...] = RHOS) -> Fusion:
    """Scores fused by an estimator: ``make(seed)`` has ``fit(S, y)`` and ``score_samples(S)``.

    Examples
    --------
    >>> from lpfuse import FixedRule
    >>> from research.paper.forgery_methods import fusion
    >>> method = fusion(lambda seed: FixedRule("median"))
    """

    def learn(S: Host, y: Host | None, seed: int) -> Scorer:
        fitted: Scorer = make(seed).fit(S, y).score_samples
        return fitted

    return Fusion(learn, rhos=rhos)


def lp(parameters: dict[str, Any], scale: dict[str, Any] | None = None) -> Fusion:
    """ℓp-norm constrained weights, with p chosen from the paper's grid and ∞.

    `parameters` are those of `LpFusion`, but for p and the solver; `scale`, of `TwoSidedMinMax`.
    """
    ps = (*PAPER_GRID, inf)

    def learn(S: Host, y: Host | None, seed: int) -> Scorer:
        weights = lp_path(S, y, ps=ps, **parameters).weights
        return lambda scores: scores @ weights.T

    return Fusion(learn, tuple({"p": p} for p in ps), scale=scale or {})


def contenders(experts: Sequence[str], *, taught: bool, validated: bool) -> dict[str, Method]:
    """Who can be measured: name → method.

    Parameters
    ----------
    experts : sequence of str
        Names of the experts; each is measured by itself, too.
    taught : bool
        Whether forgeries teach; who needs labels has no use otherwise.
    validated : bool
        Whether there are videos to choose by.
    """
    ours = {
        name: value
        for name, value in default_fusion().get_params().items()
        if name not in ("p", "solver")
    }
    left_out = too_many_for_a_grid(experts) | (frozenset() if taught else NEEDS_LABELS)
    found: dict[str, Method] = {}
    if validated:
        found |= {CHOSEN: lp(ours), PAPERS: lp(PAPER_PRESET.fusion, PAPER_PRESET.scaler)}
    found[DEFAULT] = fusion(lambda seed: default_fusion(), rhos=(DEFAULT_RHO,))
    found |= {
        name: fusion(make)
        for name, make in at_hand().items()
        if name not in left_out and name not in found
    }
    if validated:
        found["best single"] = best_single(experts)
    return found | {name: single(j) for j, name in enumerate(experts)}


def quick_contenders(experts: Sequence[str], *, taught: bool, validated: bool) -> dict[str, Method]:
    """The same without those that take long to fit or to score.

    Parameters
    ----------
    experts, taught, validated
        As in `contenders`.
    """
    found = contenders(experts, taught=taught, validated=validated)
    return {name: method for name, method in found.items() if name not in SLOW}


def too_many_for_a_grid(experts: Sequence[str]) -> frozenset[str]:
    """The rival that tries every grid point of the weights, where there are too many to try."""
    grid = ExhaustiveWeights()
    candidates = comb(grid.steps + len(experts) - 1, grid.steps)
    return frozenset({"exhaustive"} if candidates > grid.max_candidates else ())


def threshold(labels: Host, scores: Host) -> float:
    """The offset with the best G-mean; with genuine videos alone, 5 % of them lie below it."""
    if (labels < 0).any():
        return best_g_mean(labels, scores)[1]
    return float(np.quantile(scores, FALSE_ALARMS))


def _video_scores(
    scaler: TwoSidedMinMax, scorer: Scorer, pooling: str | float
) -> Callable[[Part], Host]:
    def score(part: Part) -> Host:
        fused = scorer(scaler.transform(part.scores))
        return part.pooled(fused if fused.ndim == 2 else fused[:, None], pooling)

    return score
