"""lpfuse, one learner after the other."""

from __future__ import annotations

import numpy as np

from research.speed.detectors.data import Matrix
from research.speed.detectors.rivals.grid._lpfuse_learners import Learners, as_ours, balls, learners
from research.speed.detectors.tasks import GridTask

__all__ = ["as_ours", "balls", "fit", "name", "score"]

name = "lpfuse one by one"


def fit(X: Matrix, task: GridTask) -> Learners:
    return [learner.fit(X) for learner in learners(task)]


def score(model: Learners, X: Matrix) -> Matrix:
    return np.column_stack([learner.score_samples(X) for learner in model])
