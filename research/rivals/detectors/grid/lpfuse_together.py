"""lpfuse, all learners at once: `fit_together` and `score_together`."""

from __future__ import annotations

from lpfuse.detectors import fit_together, score_together
from research.common.judge import Matrix
from research.rivals.detectors._tasks import GridTask
from research.rivals.detectors.grid._lpfuse_learners import Learners, as_ours, balls, learners

__all__ = ["as_ours", "balls", "fit", "name", "score"]

name = "lpfuse together"


def fit(X: Matrix, task: GridTask) -> Learners:
    return fit_together(learners(task), X)


def score(model: Learners, X: Matrix) -> Matrix:
    return score_together(model, X)
