"""The methods that are compared on forgeries: from the learners' scores of frames to decisions.

All fuse the same scores. What there is to choose, the ρ of the scale at the least, is chosen by the
AUC of validation videos, which hold no forgery of the kind that is left out. Without validation
nothing is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb, inf
from typing import Any

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse.ensemble.components import default_fusion
from lpfuse.fusion import PAPER_GRID, lp_path
from lpfuse_faces.evaluation import (
    ChosenFusion,
    FittedMethod,
    LearningData,
    Method,
    fusion_methods,
    single_learner,
)
from research.common.protocol import area
from research.paper.methods import PAPER_PRESET
from research.rivals.fusion import NEEDS_LABELS, Rival, at_hand
from research.rivals.search import MAX_CANDIDATES, ExhaustiveWeights

RHOS = (1.0, 5.0, 10.0)
SLOW = frozenset({"genetic", "swarm", "exhaustive", "dynamic", "local lp"})
CHOSEN, DEFAULT, PAPERS = "lp, chosen", "lp, default", "lp, paper's, chosen"

Scorer = Callable[[Host], Host]  # scaled scores of frames → fused ones, perhaps in columns


def best_single(learners: Sequence[str]) -> Method:
    """The learner with the highest AUC on validation."""

    def method(given: LearningData) -> FittedMethod:
        assert given.validation is not None
        scores = given.validation.pooled(given.validation.scores, given.pooling)
        best = int(np.argmax(area(given.validation.labels, scores)))
        return single_learner(best)(given)._replace(choices={"learner": learners[best]})

    return method


def fusion(make: Rival, rhos: tuple[float, ...] = RHOS) -> ChosenFusion:
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

    return ChosenFusion(learn, rhos=rhos)


def lp(parameters: dict[str, Any], scale: dict[str, Any] | None = None) -> ChosenFusion:
    """ℓp-norm constrained weights, with p chosen from the paper's grid and ∞.

    `parameters` are those of `LpFusion`, but for p and the solver; `scale`, of `TwoSidedMinMax`.
    """
    ps = (*PAPER_GRID, inf)

    def learn(S: Host, y: Host | None, seed: int) -> Scorer:
        weights = lp_path(S, y, ps=ps, **parameters).weights
        return lambda scores: scores @ weights.T

    return ChosenFusion(learn, tuple({"p": p} for p in ps), RHOS, scale or {})


def contenders(
    learners: Sequence[str], *, with_forgeries: bool, validated: bool
) -> dict[str, Method]:
    """The methods that can be measured: name → method.

    Parameters
    ----------
    learners : sequence of str
        Names of the learners; each is measured by itself, too.
    with_forgeries : bool
        Whether forgeries are learnt from; methods that need labels are left out otherwise.
    validated : bool
        Whether there are videos to choose by.
    """
    ours = {
        name: value
        for name, value in default_fusion().get_params().items()
        if name not in ("p", "solver")
    }
    left_out = too_many_for_a_grid(learners) | (frozenset() if with_forgeries else NEEDS_LABELS)
    found: dict[str, Method] = {}
    if validated:
        found |= {CHOSEN: lp(ours), PAPERS: lp(PAPER_PRESET.fusion, PAPER_PRESET.scaler)}
    ours_as_they_are = fusion_methods(learners, with_forgeries=with_forgeries, validated=validated)
    found[DEFAULT] = ours_as_they_are["lp"]
    found |= {
        name: fusion(make)
        for name, make in at_hand().items()
        if name not in left_out and name not in found
    }
    if validated:
        found["best single"] = best_single(learners)
    return found | {name: single_learner(j) for j, name in enumerate(learners)}


def quick_contenders(
    learners: Sequence[str], *, with_forgeries: bool, validated: bool
) -> dict[str, Method]:
    """The same without those that take long to fit or to score.

    Parameters
    ----------
    learners, with_forgeries, validated
        As in `contenders`.
    """
    found = contenders(learners, with_forgeries=with_forgeries, validated=validated)
    return {name: method for name, method in found.items() if name not in SLOW}


def too_many_for_a_grid(learners: Sequence[str]) -> frozenset[str]:
    """The rival that tries every grid point of the weights, where there are too many to try."""
    grid = ExhaustiveWeights()
    candidates = comb(grid.steps + len(learners) - 1, grid.steps)
    return frozenset({"exhaustive"} if candidates > MAX_CANDIDATES else ())
